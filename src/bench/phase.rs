//! One phase of load on all its cores: connect, warm up, measure, wait for what is in flight, read back.
//! Called by the modes on the first thread, which shows the progress; each load core runs one reactor, pinned.
//! Always: all cores have the same window, which begins when every connection is there; the clock of a direction stops at its last batch.
//! What a phase is for is the mode's.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::{Core, Live};
use super::lane::{Lane, LaneEnd};
use super::load::{Load, Rate};
use super::payload::Templates;
use super::plan::{CorePlan, LanePlan, ReaderPlan};
use super::reader::{Kind, Reader, count_lost};
use super::recorder::Recorder;
use super::schedule::{Pace, Schedule, Times};
use super::verify::{Checks, Cursor};
use crate::base::MonoNs;
use crate::client::fetch::FetchLimits;
use crate::client::metadata::Topic;
use crate::client::produce::ProduceForm;
use crate::client::{ClientError, Connection, Receiver, Sender};
use crate::io::clock;
use crate::io::executor::{self, ShardHandle, Task};
use crate::wire::ApiKey;

/// What is done in a phase.
#[derive(Clone, Debug)]
pub struct Phase {
    pub load: Arc<Load>,
    pub topic: Topic,
    /// Others have filled the topic: nothing is known of its records.
    pub foreign: bool,
    pub templates: Arc<Templates>,
    pub plans: Vec<CorePlan>,
    /// One for each plan.
    pub cores: Vec<usize>,
    /// `None`: nothing is sent.
    pub rate: Option<Rate>,
    pub reading: Reading,
    /// Old data that is read beside, as `Reading::Loop` has it.
    pub cold: Vec<(i64, i64)>,
    pub warmup: Duration,
    /// `None`: until `records`.
    pub duration: Option<Duration>,
    pub records: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Nothing,
    /// What was sent is read once the clock has stopped. First offsets by partition.
    Back(Vec<i64>),
    /// What is sent is read as it comes. First offsets by partition.
    Follow(Vec<i64>),
    /// The same, from the begin of the window on: what came before is a backlog.
    FollowLate(Vec<i64>),
    /// What is there, again and again. First offset and the one behind the last, by partition.
    Loop(Vec<(i64, i64)>),
}

/// What all cores together have counted.
#[derive(Debug)]
pub struct Outcome {
    pub produced: Recorder,
    pub consumed: Recorder,
    pub cold: Recorder,
    /// From the begin of the window until all who follow were at the end once; `None`: never.
    pub caught_up_seconds: Option<f64>,
    pub left: LaneEnd,
    pub checks: Checks,
    /// Acknowledged batches that were not checked: no memory for them, gone by retention, or not read in time.
    pub unchecked: u64,
    /// Those of them that readers who should keep up had not read when their time was over.
    pub unread: u64,
    pub verify_ns: u64,
    pub read_back_seconds: f64,
    pub connections: usize,
    /// Why it is partial.
    pub failure: Option<String>,
}

/// A phase under way.
pub struct Running {
    pub live: Arc<Live>,
    shards: Vec<ShardHandle<CoreOutcome>>,
}

struct CoreOutcome {
    produced: Recorder,
    consumed: Recorder,
    cold: Recorder,
    caught_up_seconds: Option<f64>,
    left: LaneEnd,
    checks: Checks,
    unchecked: u64,
    unread: u64,
    verify_ns: u64,
    read_back_seconds: f64,
}

/// Between "all are connected" and the first send.
const LEAD: Duration = Duration::from_millis(20);
const START_POLL: Duration = Duration::from_millis(2);
/// How long reading back may take.
const READ_BACK: Duration = Duration::from_secs(300);
/// Nobody waits for reading back: large fetches.
const BACK_FETCH_BYTES: usize = 8 << 20;
const FETCH_WAIT_MS: i32 = 100;
/// Connections made at a time.
const CONNECTING_MAX: usize = 64;

impl Phase {
    /// Starts the load cores; they wait for `Running::go`.
    pub fn start(&self) -> Result<Running, String> {
        let live = Arc::new(Live::default());
        let mut shards = Vec::new();
        for (index, &core) in self.cores.iter().enumerate().take(self.plans.len()) {
            let (phase, live) = (self.clone(), live.clone());
            let shard =
                executor::run_shard(Some(core), "load", move || phase.run_core(index, live));
            shards.push(shard.map_err(|error| format!("no thread for core {core}: {error}"))?);
        }
        Ok(Running { live, shards })
    }

    async fn run_core(self, index: usize, live: Arc<Live>) -> CoreOutcome {
        let plan = self.plans[index].clone();
        let connected = self.connect(&plan).await;
        live.ready.fetch_add(1, Ordering::SeqCst);
        let (lanes, readers) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                live.fail(error.to_string());
                return CoreOutcome::empty();
            }
        };
        while live.begin.load(Ordering::SeqCst) == 0 {
            if live.ends() {
                return CoreOutcome::empty();
            }
            executor::sleep(START_POLL).await;
        }
        let begin = live.begin.load(Ordering::SeqCst);
        let window = begin + self.warmup.as_nanos() as u64;
        let end = self.duration.map_or(u64::MAX, |duration| {
            window.saturating_add(duration.as_nanos() as u64)
        });
        // What is read back is read once.
        let reads = match self.reading {
            Reading::Follow(_) | Reading::FollowLate(_) => self.load.copies,
            Reading::Nothing | Reading::Back(_) | Reading::Loop(_) => 1,
        };
        let core = Core::new(window, reads as u16, live);
        let watch = executor::spawn(core.clone().watch(end));
        let followers = self.start_readers(&core, &plan, readers, window);
        let left = self
            .run_lanes(&core, &plan, lanes, begin, window, end)
            .await;
        // What is read again and again ends by itself.
        let until = match self.reading {
            Reading::Loop(_) => end,
            _ => clock::mono().0,
        };
        let cutter = self.cut_at(&core, self.patience_from(until));
        for follower in followers {
            follower.await;
        }
        drop(cutter);
        if matches!(self.reading, Reading::Loop(_)) && core.cut() && !core.live.ends() {
            let seconds = self.load.drain_seconds;
            core.fail(format!(
                "a fetch was not answered within {seconds} s after the end"
            ));
        }
        core.live.measured.fetch_add(1, Ordering::SeqCst);
        let began = clock::mono().0;
        if let Reading::Back(first) = &self.reading
            && !core.cut()
        {
            self.read_back(&core, &plan, first).await;
        }
        let read_back_seconds = (clock::mono().0 - began) as f64 / 1e9;
        drop(watch);
        let (checks, unchecked) = match self.load.verify && !core.cut() {
            true => count_lost(&core),
            false => {
                let ledger = core.ledger.borrow();
                (*core.checks.borrow(), ledger.forgotten + ledger.unread())
            }
        };
        // To fall behind may be what is asked for, and who was interrupted has read what he could.
        let unread = match self.reading {
            Reading::Follow(_) | Reading::Back(_) if core.cut() && !core.live.ends() => {
                core.ledger.borrow().unread()
            }
            _ => 0,
        };
        CoreOutcome {
            produced: core.produced.borrow().clone(),
            consumed: core.consumed.borrow().clone(),
            cold: core.cold.borrow().clone(),
            caught_up_seconds: (core.behind.get() == 0)
                .then(|| core.caught_up_at.get().saturating_sub(window) as f64 / 1e9),
            left,
            checks,
            unchecked,
            unread,
            verify_ns: core.verify_ns.get(),
            read_back_seconds,
        }
    }

    async fn connect(
        &self,
        plan: &CorePlan,
    ) -> Result<(Vec<(Sender, Receiver, i16)>, Vec<Connection>), ClientError> {
        let lanes = plan.lanes.iter().map(|lane| lane.address.clone());
        let readers = plan.readers.iter().chain(&plan.cold);
        let readers = readers.map(|reader| reader.address.clone());
        let addresses: Vec<String> = match self.rate {
            Some(_) => lanes.chain(readers).collect(),
            None => readers.collect(),
        };
        let mut connections = Vec::with_capacity(addresses.len());
        for some in addresses.chunks(CONNECTING_MAX) {
            let opening: Vec<Task<_>> = some
                .iter()
                .cloned()
                .map(|address| executor::spawn(async move { Connection::open(&address).await }))
                .collect();
            for opened in opening {
                connections.push(opened.await?);
            }
        }
        let sending = match self.rate {
            Some(_) => plan.lanes.len(),
            None => 0,
        };
        let readers = connections.split_off(sending);
        let mut lanes = Vec::with_capacity(sending);
        for connection in connections {
            let version = connection.version(ApiKey::Produce)?;
            let (sender, receiver) = connection.into_halves();
            lanes.push((sender, receiver, version));
        }
        Ok((lanes, readers))
    }

    async fn run_lanes(
        &self,
        core: &Rc<Core>,
        plan: &CorePlan,
        connections: Vec<(Sender, Receiver, i16)>,
        begin: u64,
        window: u64,
        end: u64,
    ) -> LaneEnd {
        if self.rate.is_none() {
            // Reading alone: the window is its readers'.
            return LaneEnd::default();
        }
        core.set_lanes_running(connections.len());
        let tasks: Vec<Task<LaneEnd>> = plan
            .lanes
            .iter()
            .zip(connections)
            .map(|(lane, (sender, receiver, version))| {
                let times = Times {
                    begin,
                    window,
                    end,
                    quota: self.quota(lane),
                };
                let lane = self.lane(core, lane, version, times);
                let core = core.clone();
                executor::spawn(async move {
                    let left = lane.run(sender, receiver).await;
                    core.set_lanes_running(core.lanes_running() - 1);
                    left
                })
            })
            .collect();
        let cutter = self.cut_at(core, self.patience_from(end));
        let mut left = LaneEnd::default();
        for task in tasks {
            let of_lane = task.await;
            left.unsent += of_lane.unsent;
            left.unanswered += of_lane.unanswered;
            left.unanswered_records += of_lane.unanswered_records;
        }
        drop(cutter);
        core.end_sending();
        left
    }

    fn lane(&self, core: &Rc<Core>, plan: &LanePlan, version: i16, times: Times) -> Lane {
        let (batch_records, _) = self.templates.means();
        let pace = match self.rate {
            Some(Rate::Fixed(rate)) => Pace::Every(batch_records / (rate * plan.share) * 1e9),
            Some(Rate::Flood | Rate::Max) | None => Pace::Flood,
        };
        Lane {
            id: plan.id,
            partitions: plan.partitions.clone(),
            schedule: Schedule::new(pace, plan.phase, times),
            in_flight_max: self.load.in_flight,
            form: ProduceForm::new(&self.topic, version, self.load.acks.on_wire()),
            templates: self.templates.clone(),
            remember: !matches!(self.reading, Reading::Nothing | Reading::Loop(_)),
            core: core.clone(),
        }
    }

    /// Measured batches of a connection.
    fn quota(&self, lane: &LanePlan) -> u64 {
        let (batch_records, _) = self.templates.means();
        self.records.map_or(u64::MAX, |records| {
            ((records as f64 * lane.share / batch_records).round() as u64).max(1)
        })
    }

    fn start_readers(
        &self,
        core: &Rc<Core>,
        plan: &CorePlan,
        mut connections: Vec<Connection>,
        window: u64,
    ) -> Vec<Task<()>> {
        let cold = connections.split_off(connections.len() - plan.cold.len());
        let readers: usize = self.plans.iter().map(|plan| plan.readers.len()).sum();
        let mut tasks = Vec::new();
        for (plan, connection) in plan.readers.iter().zip(connections) {
            let reader = match &self.reading {
                Reading::Nothing | Reading::Back(_) => continue,
                Reading::Follow(first) | Reading::FollowLate(first) => {
                    core.behind.set(core.behind.get() + 1);
                    self.reader(core, plan, Kind::Follow, first)
                }
                Reading::Loop(bounds) => {
                    let first: Vec<i64> = bounds.iter().map(|bounds| bounds.0).collect();
                    let own = plan.partitions.iter().map(|&p| bounds[p as usize]);
                    let kind = Kind::Loop {
                        window,
                        bounds: own.collect(),
                        quota: self
                            .records
                            .map_or(u64::MAX, |records| records.div_ceil(readers as u64)),
                    };
                    self.reader(core, plan, kind, &first)
                }
            };
            let late = matches!(self.reading, Reading::FollowLate(_));
            tasks.push(executor::spawn(async move {
                if late {
                    executor::sleep_until(MonoNs(window)).await;
                }
                reader.run(connection).await;
            }));
        }
        for (plan, connection) in plan.cold.iter().zip(cold) {
            let first: Vec<i64> = self.cold.iter().map(|bounds| bounds.0).collect();
            let own = plan.partitions.iter().map(|&p| self.cold[p as usize]);
            let kind = Kind::Cold {
                window,
                bounds: own.collect(),
            };
            let reader = self.reader(core, plan, kind, &first);
            tasks.push(executor::spawn(reader.run(connection)));
        }
        tasks
    }

    fn reader(&self, core: &Rc<Core>, plan: &ReaderPlan, kind: Kind, first: &[i64]) -> Reader {
        let bounds = match &kind {
            Kind::Loop { bounds, .. } | Kind::Cold { bounds, .. } => Some(bounds),
            Kind::Follow | Kind::Back => None,
        };
        let ends = bounds.map(|bounds| bounds.iter().map(|(_, end)| *end).collect::<Vec<_>>());
        let cursors = plan.partitions.iter().enumerate().map(|(at, &p)| {
            let end = ends.as_ref().map_or(i64::MAX, |ends| ends[at]);
            Cursor::new(p, first[p as usize]).until(end)
        });
        let foreign = self.foreign && matches!(kind, Kind::Loop { .. });
        let record_bytes = (!foreign).then(|| self.templates.means().1);
        let fetch_bytes = match kind {
            Kind::Back => self.load.fetch_bytes.max(BACK_FETCH_BYTES),
            Kind::Follow | Kind::Loop { .. } | Kind::Cold { .. } => self.load.fetch_bytes,
        };
        Reader {
            topic: Rc::new(self.topic.clone()),
            cursors: cursors.collect(),
            kind,
            limits: FetchLimits {
                max_wait_ms: FETCH_WAIT_MS,
                min_bytes: 1,
                max_bytes: 50 << 20,
                partition_max_bytes: i32::try_from(fetch_bytes).unwrap_or(i32::MAX),
            },
            verify: self.load.verify,
            was_caught_up: false,
            record_bytes,
            core: core.clone(),
        }
    }

    /// Reads what this core has sent, each leader over a connection of its own.
    async fn read_back(&self, core: &Rc<Core>, plan: &CorePlan, first: &[i64]) {
        let mut tasks = Vec::new();
        for lane in &plan.lanes {
            let own = ReaderPlan {
                address: lane.address.clone(),
                partitions: lane.partitions.clone(),
            };
            tasks.push(own);
        }
        let merged = merge_by_leader(tasks);
        let cutter = self.cut_at(core, clock::mono().0 + READ_BACK.as_nanos() as u64);
        let mut running = Vec::new();
        for plan in merged {
            let reader = self.reader(core, &plan, Kind::Back, first);
            let core = core.clone();
            running.push(executor::spawn(async move {
                match Connection::open(&plan.address).await {
                    Ok(connection) => reader.run(connection).await,
                    Err(error) => core.fail(error.to_string()),
                }
            }));
        }
        for task in running {
            task.await;
        }
        drop(cutter);
    }

    fn patience_from(&self, end: u64) -> u64 {
        end.saturating_add((self.load.drain_seconds * 1e9) as u64)
    }

    /// Ends everything on the core at this time, unless it is dropped before.
    fn cut_at(&self, core: &Rc<Core>, at: u64) -> Task<()> {
        let core = core.clone();
        executor::spawn(async move {
            executor::sleep_until(MonoNs(at)).await;
            core.end_all();
        })
    }
}

/// One reader for each leader, with all its partitions once.
fn merge_by_leader(plans: Vec<ReaderPlan>) -> Vec<ReaderPlan> {
    let mut merged: Vec<ReaderPlan> = Vec::new();
    for plan in plans {
        match merged.iter_mut().find(|m| m.address == plan.address) {
            Some(found) => found.partitions.extend(plan.partitions),
            None => merged.push(plan),
        }
    }
    for plan in &mut merged {
        plan.partitions.sort_unstable();
        plan.partitions.dedup();
    }
    merged
}

impl CoreOutcome {
    fn empty() -> CoreOutcome {
        CoreOutcome {
            produced: Recorder::new(0),
            consumed: Recorder::new(0),
            cold: Recorder::new(0),
            caught_up_seconds: None,
            left: LaneEnd::default(),
            checks: Checks::default(),
            unchecked: 0,
            unread: 0,
            verify_ns: 0,
            read_back_seconds: 0.0,
        }
    }
}

impl Running {
    pub fn cores(&self) -> u64 {
        self.shards.len() as u64
    }

    /// True once every core is connected, or has failed.
    pub fn ready(&self) -> bool {
        self.live.ready.load(Ordering::SeqCst) >= self.cores()
    }

    /// Begins the warm-up; gives its time.
    pub fn go(&self) -> u64 {
        let begin = clock::mono().0 + LEAD.as_nanos() as u64;
        self.live.begin.store(begin, Ordering::SeqCst);
        begin
    }

    /// True once everything measured is over on all cores.
    pub fn measured(&self) -> bool {
        self.live.measured.load(Ordering::SeqCst) >= self.cores()
    }

    pub fn finished(&self) -> bool {
        self.shards.iter().all(ShardHandle::is_finished)
    }

    /// Waits for all cores and adds up what they have counted.
    pub fn join(self, connections: usize) -> Result<Outcome, String> {
        let mut sum: Option<Outcome> = None;
        for shard in self.shards {
            let core = shard.join().map_err(|error| error.to_string())?;
            match &mut sum {
                None => {
                    sum = Some(Outcome {
                        produced: core.produced,
                        consumed: core.consumed,
                        cold: core.cold,
                        caught_up_seconds: core.caught_up_seconds,
                        left: core.left,
                        checks: core.checks,
                        unchecked: core.unchecked,
                        unread: core.unread,
                        verify_ns: core.verify_ns,
                        read_back_seconds: core.read_back_seconds,
                        connections,
                        failure: None,
                    });
                }
                Some(sum) => {
                    sum.produced.merge(&core.produced);
                    sum.consumed.merge(&core.consumed);
                    sum.cold.merge(&core.cold);
                    sum.caught_up_seconds = sum
                        .caught_up_seconds
                        .zip(core.caught_up_seconds)
                        .map(|(ours, theirs)| ours.max(theirs));
                    sum.left.unsent += core.left.unsent;
                    sum.left.unanswered += core.left.unanswered;
                    sum.left.unanswered_records += core.left.unanswered_records;
                    sum.checks.merge(&core.checks);
                    sum.unchecked += core.unchecked;
                    sum.unread += core.unread;
                    sum.verify_ns += core.verify_ns;
                    sum.read_back_seconds = sum.read_back_seconds.max(core.read_back_seconds);
                }
            }
        }
        let mut sum = sum.ok_or("there is no core to run on")?;
        sum.failure = self.live.failure();
        Ok(sum)
    }
}
