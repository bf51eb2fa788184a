//! The group coordinators of this shard: one for each partition of `__consumer_offsets` that it owns.
//! Owned by the shard; requests reach a coordinator through `Shard::with_coordinator`, its records go to its own partition.
//! Always: an answer leaves when the records it stands on are durable; a request whose connection is gone is forgotten.
//! What a group does is `group`'s.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::compact::Compaction;
use super::{AppendRequest, BatchBytes, PartitionCell, Shard};
use crate::base::{ErrorCode, LeaderEpoch, Offset, PartitionIndex, ShardId, TopicPartition, Uuid};
use crate::group::{Append, AppendId, Config, Coordinator, Reply, Token, partition_for};
use crate::io::sync::{Notify, Receiver, Sender, oneshot};
use crate::io::{clock, executor, random};
use crate::metadata::Image;
use crate::metadata::topic_name::CONSUMER_OFFSETS;
use crate::record::BatchBuilder;

/// The coordinators of a shard, by partition index.
#[derive(Default)]
pub struct Groups {
    hosts: RefCell<BTreeMap<PartitionIndex, Rc<Host>>>,
}

/// A coordinator with its partition and those who wait for it.
pub struct Host {
    cell: Rc<PartitionCell>,
    coordinator: RefCell<Coordinator>,
    /// Where answers go, by token.
    waiting: RefCell<HashMap<Token, Sender<Reply>>>,
    next_token: Cell<u64>,
    /// Appends to do, in order.
    appends: RefCell<Vec<Append>>,
    /// There are appends to do, or the log may be made shorter.
    appended: Rc<Notify>,
    compaction: Rc<Compaction>,
    /// The next deadline may have moved.
    timer: Notify,
}

/// A request that a coordinator has; dropped before its answer came, the coordinator is told that nobody listens.
pub struct Pending {
    host: Rc<Host>,
    token: Token,
    answer: Receiver<Reply>,
    answered: bool,
}

impl Pending {
    /// The answer.
    pub async fn answer(mut self) -> Option<Reply> {
        let reply = (&mut self.answer).await;
        self.answered = true;
        reply
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            self.host.waiting.borrow_mut().remove(&self.token);
            self.host.coordinator.borrow_mut().disconnect(self.token);
        }
    }
}

impl Shard {
    /// The shard that coordinates a group; `None` until `__consumer_offsets` is there, and where its partition can't be read.
    pub fn coordinator_shard(&self, group_id: &str) -> Option<ShardId> {
        let image = self.image();
        let topic = image.topic(CONSUMER_OFFSETS)?;
        let index = PartitionIndex(partition_for(group_id, topic.partitions.len() as i32));
        let id = TopicPartition {
            topic_id: topic.id,
            partition: index,
        };
        if self.settings.refused.contains(id) {
            return None;
        }
        Some(topic.partition(index)?.shard)
    }

    /// The coordinator of a group, if it is on this shard.
    fn host(&self, group_id: &str) -> Result<Rc<Host>, ErrorCode> {
        let image = self.image();
        let topic = image
            .topic(CONSUMER_OFFSETS)
            .ok_or(ErrorCode::NotCoordinator)?;
        let index = partition_for(group_id, topic.partitions.len() as i32);
        let hosts = self.groups.hosts.borrow();
        hosts
            .get(&PartitionIndex(index))
            .cloned()
            .ok_or(ErrorCode::NotCoordinator)
    }

    /// Gives a request to the coordinator of a group; `ask` is given a token that the answer comes under.
    pub fn ask_coordinator(
        self: &Rc<Self>,
        group_id: &str,
        ask: impl FnOnce(&mut Coordinator, Token),
    ) -> Result<Pending, ErrorCode> {
        let host = self.host(group_id)?;
        let token = Token(host.next_token.get());
        host.next_token.set(token.0 + 1);
        let (sender, answer) = oneshot();
        host.waiting.borrow_mut().insert(token, sender);
        ask(&mut host.coordinator.borrow_mut(), token);
        host.carry_out();
        Ok(Pending {
            host,
            token,
            answer,
            answered: false,
        })
    }

    /// Reads or tells something that is answered at once.
    pub fn with_coordinator<R>(
        &self,
        group_id: &str,
        ask: impl FnOnce(&mut Coordinator) -> R,
    ) -> Result<R, ErrorCode> {
        let host = self.host(group_id)?;
        let result = ask(&mut host.coordinator.borrow_mut());
        host.carry_out();
        Ok(result)
    }

    /// Asks every coordinator of this shard.
    pub fn each_coordinator<R>(&self, mut ask: impl FnMut(&mut Coordinator) -> R) -> Vec<R> {
        let hosts: Vec<Rc<Host>> = self.groups.hosts.borrow().values().cloned().collect();
        let results = hosts.iter().map(|host| {
            let result = ask(&mut host.coordinator.borrow_mut());
            host.carry_out();
            result
        });
        results.collect()
    }

    /// Groups that this shard coordinates.
    pub fn group_count(&self) -> usize {
        let hosts = self.groups.hosts.borrow();
        let counts = hosts
            .values()
            .map(|host| host.coordinator.borrow().group_count());
        counts.sum()
    }

    /// Starts the coordinator of a partition of `__consumer_offsets`: loads its records, then serves.
    pub(super) async fn start_coordinator(self: &Rc<Self>, cell: Rc<PartitionCell>, image: &Image) {
        let mut coordinator = Coordinator::new(self.group_config());
        let loaded = self
            .replay_records(&cell, Offset::ZERO, |record| {
                let Some(key) = record.key else {
                    return;
                };
                if let Err(error) = coordinator.replay(key, record.value) {
                    tracing::error!(partition = %cell.name(), "group record left out: {error}");
                }
            })
            .await;
        if let Err(error) = loaded {
            tracing::error!(partition = %cell.name(), "group coordinator not started: {error}");
            return;
        }
        let now = clock::now();
        coordinator.finish_loading(now);
        // A topic may have been deleted just before a crash; one made anew under its name must not find its offsets.
        coordinator.forget_topics(now, |name, id| is_gone(image, name, id));
        let index = cell.id.partition;
        let appended = Rc::new(Notify::new());
        let host = Rc::new(Host {
            compaction: Compaction::new(cell.clone(), appended.clone()),
            cell,
            coordinator: RefCell::new(coordinator),
            waiting: RefCell::default(),
            next_token: Cell::new(1),
            appends: RefCell::default(),
            appended,
            timer: Notify::new(),
        });
        self.groups.hosts.borrow_mut().insert(index, host.clone());
        executor::spawn_detached(host.clone().append(self.clone()));
        executor::spawn_detached(host.clone().tick());
        host.carry_out();
    }

    /// Ends the coordinator of a partition that this shard owns no more.
    pub(super) fn stop_coordinator(&self, partition: PartitionIndex) {
        if let Some(host) = self.groups.hosts.borrow_mut().remove(&partition) {
            host.coordinator.borrow_mut().resign();
            host.carry_out();
            // The task that appends looks whether it has ended.
            host.appended.notify();
        }
    }

    /// The settings of coordinators may have changed.
    pub(super) fn refresh_group_config(&self) {
        let config = self.group_config();
        self.each_coordinator(|coordinator| coordinator.set_config(config.clone()));
    }

    /// Offsets of topics that the image has no more are forgotten.
    pub(super) fn forget_topics(&self, image: &Image) {
        let now = clock::now();
        self.each_coordinator(|coordinator| {
            coordinator.forget_topics(now, |name, id| is_gone(image, name, id));
        });
    }

    fn group_config(&self) -> Config {
        let broker = self.broker_config();
        Config {
            session_timeout_ms_min: broker.group_session_timeout_min_ms,
            session_timeout_ms_max: broker.group_session_timeout_max_ms,
            group_size_max: broker.group_size_max,
            initial_rebalance_delay_ms: broker.group_initial_rebalance_delay_ms as i32,
            offset_metadata_units_max: broker.offset_metadata_bytes_max.max(0) as usize,
            offsets_retention_ms: broker.offsets_retention_ms,
            offsets_retention_check_interval_ms: broker.offsets_retention_check_interval_ms,
            ..Config::default()
        }
    }
}

/// Whether there is no such topic; one that is made anew under the name of another has its own id.
fn is_gone(image: &Image, name: &str, id: Uuid) -> bool {
    match image.topic(name) {
        Some(topic) => !id.is_zero() && topic.id != id,
        None => true,
    }
}

impl Host {
    /// Does what the coordinator asked for: answers go, appends are queued, the timer is set anew.
    fn carry_out(&self) {
        let outputs = self.coordinator.borrow_mut().take_outputs();
        for (token, reply) in outputs.replies {
            let sender = self.waiting.borrow_mut().remove(&token);
            if let Some(sender) = sender {
                sender.send(reply);
            }
        }
        if !outputs.appends.is_empty() {
            self.appends.borrow_mut().extend(outputs.appends);
            self.appended.notify();
        }
        self.timer.notify();
    }

    /// Appends records in order; what is durable is reported in order too. In between the log is kept short.
    async fn append(self: Rc<Self>, shard: Rc<Shard>) {
        loop {
            let queued = self.appended.wait();
            self.compaction.go_on(&shard).await;
            let appends = self.appends.take();
            if appends.is_empty() {
                if self.cell.deleted.get() {
                    return;
                }
                queued.await;
                continue;
            }
            let mut started = Vec::with_capacity(appends.len());
            for append in appends {
                let batch = self.batch(&append);
                let result = shard
                    .append(
                        &self.cell,
                        BatchBytes::Frame(batch),
                        AppendRequest::INTERNAL,
                    )
                    .await;
                started.push((append.id, result));
            }
            // While these go to the disk together, the next ones gather.
            for (id, result) in started {
                let result = match result {
                    Ok((_, None)) => Ok(()),
                    Ok((_, Some(durable))) => {
                        durable.await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower))
                    }
                    Err(refused) => Err(refused.error),
                };
                self.report(id, result);
            }
        }
    }

    fn report(&self, id: AppendId, result: Result<(), ErrorCode>) {
        self.coordinator
            .borrow_mut()
            .on_appended(id, result, clock::now());
        self.carry_out();
    }

    fn batch(&self, append: &Append) -> bytes::Bytes {
        let mut builder = BatchBuilder::new();
        let now = clock::wall();
        for record in &append.records {
            builder.append(now, Some(&record.key), record.value.as_deref(), &[]);
        }
        builder.finish(Offset::ZERO, LeaderEpoch::NONE).into()
    }

    /// Runs the coordinator's timers.
    async fn tick(self: Rc<Self>) {
        while !self.cell.deleted.get() {
            let moved = self.timer.wait();
            let deadline = self.coordinator.borrow().next_deadline();
            match deadline {
                None => moved.await,
                Some(deadline) => {
                    if executor::until(deadline, moved).await.is_none() {
                        self.coordinator.borrow_mut().on_timer(clock::now());
                        self.carry_out();
                    }
                }
            }
        }
    }
}

/// Random bytes for a member id.
pub fn member_uuid() -> Uuid {
    Uuid::from_random(random::bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::MetadataRecord;
    use crate::wire::Str;
    use crate::wire::messages::metadata_records::TopicRecord;

    #[test]
    fn a_topic_made_again_under_the_name_is_another() {
        let mut image = Image::empty(Str::from("cluster"));
        let id = Uuid([1; 16]);
        let record = TopicRecord {
            name: Str::from("orders"),
            topic_id: id,
        };
        image
            .apply(&MetadataRecord::from(record), Offset(0))
            .unwrap();
        assert!(!is_gone(&image, "orders", id));
        assert!(
            !is_gone(&image, "orders", Uuid::ZERO),
            "from before ids were kept"
        );
        assert!(is_gone(&image, "orders", Uuid([2; 16])));
        assert!(is_gone(&image, "payments", Uuid::ZERO));
    }
}
