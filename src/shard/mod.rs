//! One shard: a core with its partitions, its groups and its connections; what it owns, drives and routes.
//! One per core, `!Send`, shared by its tasks as `Rc<Shard>`; only owned values cross to another (`Shard::at`).
//! Always: a partition is owned by exactly one shard of the process, the one that the image names.
//! Bytes of the protocol are `server`'s; offsets and positions are `partition`'s; the machine is `io`'s.
//!
//! | file | flow |
//! |---|---|
//! | `append`, `in_place` | a batch comes in |
//! | `driver`, `disk`, `files`, `descriptors` | it goes to the disk |
//! | `fetch`, `read`, `turn`, `hold` | it is found, read and kept for an answer |
//! | `lookup` | offsets by timestamp, epochs |
//! | `recover`, `checkpoint`, `refused` | start, what makes it short, what can't be opened |
//! | `topics`, `aside` | a new image: partitions come and go |
//! | `controller` | metadata changes, on shard 0 |
//! | `groups`, `compact` | coordinators and their records, kept short |
//! | `memory`, `upkeep` | eviction, retention, timers |
//! | `space` | a full disk |

mod append;
mod aside;
mod cell;
mod checkpoint;
mod compact;
mod controller;
pub mod counters;
mod descriptors;
mod disk;
mod driver;
mod fetch;
mod files;
pub mod find;
mod groups;
mod hold;
mod in_place;
mod lookup;
mod memory;
mod read;
mod recover;
mod refused;
mod reply;
mod space;
mod topics;
mod turn;
mod upkeep;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;

pub use append::{AppendRequest, Appended, BatchBytes, Refused};
pub use cell::PartitionCell;
pub use counters::Counters;
pub use descriptors::Descriptors;
pub use fetch::{FetchAnswer, FetchAsk};
pub use find::Found;
pub use groups::member_uuid;
pub use hold::Hold;
pub use in_place::InPlace;
pub use lookup::{ListedOffset, LogDir, OffsetAsk};
pub use read::Rest;
pub use recover::Recovered;
pub use refused::RefusedPartitions;
pub use reply::{LogRange, Reply};
pub use upkeep::Meeting;

use crate::base::{MonoNs, NodeId, ShardId, TopicPartition};
use crate::io::arena::{Arena, Pinned};
use crate::io::file::WriteMode;
use crate::io::mesh::{self, Endpoint, Gone};
use crate::io::sync::Notify;
use crate::io::{clock, executor};
use crate::metadata::config::{BrokerConfig, StaticConfig, TopicConfig};
use crate::metadata::{Image, placement};

/// Work sent to another shard.
pub type Job = Box<dyn FnOnce(&Rc<Shard>) + Send>;

/// The shard that runs the controller.
pub const CONTROLLER: ShardId = ShardId(0);

/// What all shards of the process are told at start.
pub struct Settings {
    /// The data directory.
    pub data: PathBuf,
    pub mode: WriteMode,
    /// Nodes that the shards form.
    pub nodes: u16,
    /// Id of the first.
    pub node_id: NodeId,
    /// Configuration of the start, by node.
    pub node_statics: Vec<Arc<StaticConfig>>,
    /// Bytes of arena of each shard.
    pub memory: u64,
    /// Bytes that large requests of each shard's connections may take.
    pub request_memory: usize,
    pub shards: u16,
    pub descriptors: Descriptors,
    /// Where the shards wait for each other at the end.
    pub meeting: Meeting,
    /// Partitions that no shard could open.
    pub refused: RefusedPartitions,
}

/// A connection on its way to the shard where it lives.
pub struct Arrival {
    pub fd: OwnedFd,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    /// What was read of it.
    pub buffer: BytesMut,
}

/// See the module.
pub struct Shard {
    pub id: ShardId,
    pub node: NodeId,
    pub settings: Arc<Settings>,
    pub arena: Arena,
    pub counters: Counters,
    mesh: Endpoint<Job>,
    /// Jobs for shards whose inbox was full; an entry while its sender task runs.
    overflow: RefCell<HashMap<ShardId, VecDeque<Job>>>,
    image: RefCell<Arc<Image>>,
    broker_config: Cell<BrokerConfig>,
    cells: RefCell<HashMap<TopicPartition, Rc<PartitionCell>>>,
    dirty: driver::Dirty,
    groups: groups::Groups,
    controller: OnceCell<controller::Host>,
    checkpoints: checkpoint::Checkpoints,
    producer_ids: controller::ProducerIds,
    space: space::Space,
    turns: turn::Turns,
    files_kept: Rc<Cell<usize>>,
    /// Pieces of memory that another shard is sending from.
    exports: RefCell<HashMap<u64, Pinned>>,
    next_export: Cell<u64>,
    listeners: fetch::Listeners,
    holds: hold::Holds,
    arrivals: OnceCell<Box<dyn Fn(Arrival)>>,
    found: Arc<Found>,
    recovered: Cell<Recovered>,
    /// Whether the image is here, once that is known.
    started: Cell<Option<bool>>,
    start: Notify,
    meetings: Cell<usize>,
    stopping: Cell<bool>,
    stop: Notify,
    /// Nothing is appended any more: the last checkpoint is being written.
    closed: Cell<bool>,
}

impl Shard {
    /// A shard without partitions; `recover` finds those of the disk.
    pub fn new(
        settings: Arc<Settings>,
        mesh: Endpoint<Job>,
        arena: Arena,
        image: Arc<Image>,
        found: Arc<Found>,
    ) -> Rc<Shard> {
        let id = mesh.shard();
        let node = node_of(&settings, id);
        let config = BrokerConfig::resolve(image.broker_layers(node, statics_of(&settings, node)));
        Rc::new(Shard {
            id,
            node,
            arena,
            mesh,
            overflow: RefCell::default(),
            counters: Counters::default(),
            image: RefCell::new(image),
            broker_config: Cell::new(config),
            cells: RefCell::default(),
            dirty: driver::Dirty::default(),
            groups: groups::Groups::default(),
            controller: OnceCell::new(),
            checkpoints: checkpoint::Checkpoints::default(),
            producer_ids: controller::ProducerIds::default(),
            space: space::Space::default(),
            turns: turn::Turns::default(),
            files_kept: Rc::default(),
            exports: RefCell::default(),
            next_export: Cell::new(0),
            listeners: fetch::Listeners::default(),
            holds: hold::Holds::default(),
            arrivals: OnceCell::new(),
            found,
            recovered: Cell::default(),
            started: Cell::new(None),
            start: Notify::new(),
            meetings: Cell::new(0),
            stopping: Cell::new(false),
            stop: Notify::new(),
            closed: Cell::new(false),
            settings,
        })
    }

    /// The newest image that this shard has.
    pub fn image(&self) -> Arc<Image> {
        self.image.borrow().clone()
    }

    /// The broker's configuration in force.
    pub fn broker_config(&self) -> BrokerConfig {
        self.broker_config.get()
    }

    /// The configuration in force of a topic.
    pub fn topic_config(&self, topic: &str) -> TopicConfig {
        let image = self.image.borrow();
        let layers = image.broker_layers(self.node, self.statics());
        TopicConfig::resolve(layers, image.topic_config(topic))
    }

    /// The configuration of the start of this shard's node.
    pub fn statics(&self) -> &Arc<StaticConfig> {
        statics_of(&self.settings, self.node)
    }

    /// A partition of this shard.
    pub fn cell(&self, partition: TopicPartition) -> Option<Rc<PartitionCell>> {
        self.cells.borrow().get(&partition).cloned()
    }

    /// Every partition of this shard.
    pub fn all_cells(&self) -> Vec<Rc<PartitionCell>> {
        self.cells.borrow().values().cloned().collect()
    }

    /// Partitions of this shard that can't be written to until the next start.
    pub fn offline_count(&self) -> usize {
        let offline = |cell: &&Rc<PartitionCell>| cell.partition.borrow().offline().is_some();
        self.cells.borrow().values().filter(offline).count()
    }

    /// The shard that owns a partition.
    pub fn owner(&self, partition: TopicPartition) -> Option<ShardId> {
        let image = self.image.borrow();
        let state = image.partition(partition.topic_id, partition.partition)?;
        Some(state.shard)
    }

    /// The node that a shard belongs to.
    pub fn node_of(&self, shard: ShardId) -> NodeId {
        node_of(&self.settings, shard)
    }

    /// True if requests for that shard may come to this one: both are the same node.
    pub fn same_node(&self, shard: ShardId) -> bool {
        shard == self.id || self.node_of(shard) == self.node
    }

    /// True if this shard is not a node by itself.
    pub fn shares_its_node(&self) -> bool {
        self.settings.nodes < self.settings.shards
    }

    /// The shards of this shard's node, itself included.
    pub fn shards_of_node(&self) -> impl Iterator<Item = ShardId> + use<'_> {
        (0..self.settings.shards)
            .map(ShardId)
            .filter(|shard| self.same_node(*shard))
    }

    /// Every shard of the process.
    pub fn all_shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.settings.shards).map(ShardId)
    }

    /// Runs `work` on another shard (or here) and gives its result. It is on its way when this returns; work sent to one shard
    /// begins there in the order it was sent.
    pub fn at<T, Work, Fut>(
        self: &Rc<Self>,
        to: ShardId,
        work: Work,
    ) -> impl Future<Output = Result<T, Gone>> + use<T, Work, Fut>
    where
        T: Send + 'static,
        Work: FnOnce(Rc<Shard>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let (reply, answer) = mesh::reply();
        let job: Job = Box::new(move |shard| {
            let result = work(shard.clone());
            executor::spawn_detached(async move { reply.send(result.await) });
        });
        self.send(to, job);
        answer.wait()
    }

    /// Sends a job; if the other's inbox is full it waits in a queue here, in order.
    fn send(self: &Rc<Self>, to: ShardId, job: Job) {
        if to == self.id {
            return job(self);
        }
        if let Some(waiting) = self.overflow.borrow_mut().get_mut(&to) {
            return waiting.push_back(job);
        }
        if let Err(job) = self.mesh.try_send(to, job) {
            self.overflow.borrow_mut().insert(to, VecDeque::from([job]));
            executor::spawn_detached(self.clone().send_overflow(to));
        }
    }

    /// Sends what waits for room in an inbox, until nothing waits.
    async fn send_overflow(self: Rc<Self>, to: ShardId) {
        loop {
            let next = match self.overflow.borrow_mut().get_mut(&to) {
                Some(waiting) => waiting.pop_front(),
                None => None,
            };
            match next {
                // Gone: the process is stopping.
                Some(job) => drop(self.mesh.send(to, job).await),
                None => {
                    self.overflow.borrow_mut().remove(&to);
                    return;
                }
            }
        }
    }

    /// Begins the work that other shards send, for as long as the shard lives.
    pub async fn receive_jobs(self: Rc<Self>) {
        loop {
            let job = self.mesh.recv().await;
            job(&self);
        }
    }

    /// Who takes connections that other shards hand over.
    pub fn on_arrival(&self, take: Box<dyn Fn(Arrival)>) {
        if self.arrivals.set(take).is_err() {
            panic!("arrivals of shard {} are taken twice", self.id);
        }
    }

    /// Gives a connection to another shard.
    pub fn hand_over(self: &Rc<Self>, to: ShardId, arrival: Arrival) {
        self.send(
            to,
            Box::new(move |shard| match shard.arrivals.get() {
                Some(take) => take(arrival),
                // Not serving yet, or no more: the peer sees the end and tries again.
                None => drop(arrival),
            }),
        );
    }

    /// Tells every shard whether the first image is there.
    pub fn tell_started(self: &Rc<Self>, started: bool) {
        for to in self.all_shards() {
            self.send(
                to,
                Box::new(move |shard| {
                    shard.started.set(Some(started));
                    shard.start.notify();
                }),
            );
        }
    }

    /// Waits for the first image; false if there will be none.
    pub async fn ready(&self) -> bool {
        loop {
            let told = self.start.wait();
            if let Some(started) = self.started.get() {
                return started;
            }
            told.await;
        }
    }

    /// From now on no new requests are taken. Since when the process stops: when its first shard heard of it.
    pub fn begin_stop(&self) -> MonoNs {
        self.stopping.set(true);
        self.stop.notify();
        self.settings.meeting.begun(clock::mono())
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Ends when the shard begins to stop.
    pub async fn stopped(&self) {
        let stop = self.stop.wait();
        if !self.stopping.get() {
            stop.await;
        }
    }
}

fn statics_of(settings: &Settings, node: NodeId) -> &Arc<StaticConfig> {
    &settings.node_statics[(node.0 - settings.node_id.0) as usize]
}

/// The node that a shard belongs to: the shards of a node are neighbours.
fn node_of(settings: &Settings, shard: ShardId) -> NodeId {
    let index = (0..settings.nodes)
        .find(|&index| {
            placement::shards_of_node(index, settings.nodes, settings.shards).contains(&shard.0)
        })
        .unwrap_or_else(|| panic!("shard {shard} belongs to no node"));
    NodeId(settings.node_id.0 + i32::from(index))
}
