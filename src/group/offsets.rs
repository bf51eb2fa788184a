//! The committed offsets of all groups of one coordinator, with those that are still being written.
//! Owned by the coordinator.
//! Always: `committed` is what the durable log says; `latest` is what it will say once every append in flight succeeded.
//! When offsets may be committed, expire or be deleted is decided in `commit` and `retention`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::api::AppendId;
use crate::base::{PartitionIndex, Timestamp, TopicId};

/// A committed offset, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub offset: i64,
    /// -1 for none.
    pub leader_epoch: i32,
    pub metadata: String,
    pub commit_time: Timestamp,
    /// From a commit with a retention time of its own.
    pub expire_time: Option<Timestamp>,
    /// Zero if it was committed before topic ids were kept.
    pub topic_id: TopicId,
}

#[derive(Debug, Default)]
struct Slot {
    committed: Option<Committed>,
    /// In the order of their appends; `None` is a tombstone.
    pending: Vec<(AppendId, Option<Committed>)>,
}

impl Slot {
    fn latest(&self) -> Option<&Committed> {
        match self.pending.last() {
            Some((_, value)) => value.as_ref(),
            None => self.committed.as_ref(),
        }
    }
}

type Topics = BTreeMap<Rc<str>, BTreeMap<PartitionIndex, Slot>>;

#[derive(Debug, Default)]
pub(super) struct Offsets {
    groups: BTreeMap<Rc<str>, Topics>,
}

impl Offsets {
    /// Begins to write an offset, or with `None` its tombstone.
    pub fn begin(
        &mut self,
        group: &Rc<str>,
        topic: &Rc<str>,
        partition: PartitionIndex,
        append: AppendId,
        value: Option<Committed>,
    ) {
        let slot = self.slot(group, topic, partition);
        slot.pending.push((append, value));
    }

    /// A write that was begun is durable, or has failed and leaves what was there before.
    pub fn settle(
        &mut self,
        group: &str,
        topic: &str,
        partition: PartitionIndex,
        append: AppendId,
        durable: bool,
    ) {
        let slot = self
            .groups
            .get_mut(group)
            .and_then(|topics| topics.get_mut(topic))
            .and_then(|partitions| partitions.get_mut(&partition))
            .expect("a slot with a write in flight stays");
        let at = slot.pending.iter().position(|(id, _)| *id == append);
        let (_, value) = slot.pending.remove(at.expect("the write was begun"));
        if durable {
            slot.committed = value;
        }
        self.prune(group, topic, partition);
    }

    /// Takes over a durable record while loading.
    pub fn load(
        &mut self,
        group: &Rc<str>,
        topic: &Rc<str>,
        partition: PartitionIndex,
        value: Option<Committed>,
    ) {
        self.slot(group, topic, partition).committed = value;
        self.prune(group, topic, partition);
    }

    pub fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: PartitionIndex,
    ) -> Option<&Committed> {
        let partitions = self.groups.get(group)?.get(topic)?;
        partitions.get(&partition)?.committed.as_ref()
    }

    /// Everything committed by a group.
    pub fn all_committed(
        &self,
        group: &str,
    ) -> impl Iterator<Item = (&Rc<str>, PartitionIndex, &Committed)> {
        self.slots(group).filter_map(|(topic, partition, slot)| {
            Some((topic, partition, slot.committed.as_ref()?))
        })
    }

    pub fn latest(
        &self,
        group: &str,
        topic: &str,
        partition: PartitionIndex,
    ) -> Option<&Committed> {
        let partitions = self.groups.get(group)?.get(topic)?;
        partitions.get(&partition)?.latest()
    }

    /// Everything a group will have committed once the appends in flight succeeded.
    pub fn all_latest(
        &self,
        group: &str,
    ) -> impl Iterator<Item = (&Rc<str>, PartitionIndex, &Committed)> {
        self.slots(group)
            .filter_map(|(topic, partition, slot)| Some((topic, partition, slot.latest()?)))
    }

    /// Whether the group has an offset, or a write of one in flight.
    pub fn has_any(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// The groups with offsets.
    pub fn groups(&self) -> impl Iterator<Item = &Rc<str>> {
        self.groups.keys()
    }

    pub fn clear(&mut self) {
        self.groups.clear();
    }

    fn slots(&self, group: &str) -> impl Iterator<Item = (&Rc<str>, PartitionIndex, &Slot)> {
        let topics = self.groups.get(group).into_iter().flatten();
        topics.flat_map(|(topic, partitions)| {
            partitions
                .iter()
                .map(move |(partition, slot)| (topic, *partition, slot))
        })
    }

    fn slot(&mut self, group: &Rc<str>, topic: &Rc<str>, partition: PartitionIndex) -> &mut Slot {
        // Looked up by name first: the usual commit is for a partition that is there, and takes no new key.
        if !self.groups.contains_key(group) {
            self.groups.insert(group.clone(), Topics::new());
        }
        let topics = self.groups.get_mut(group).expect("it was just made sure");
        if !topics.contains_key(topic) {
            topics.insert(topic.clone(), BTreeMap::new());
        }
        let partitions = topics.get_mut(topic).expect("it was just made sure");
        partitions.entry(partition).or_default()
    }

    /// Drops a slot that holds nothing, and the maps around it.
    fn prune(&mut self, group: &str, topic: &str, partition: PartitionIndex) {
        let Some(topics) = self.groups.get_mut(group) else {
            return;
        };
        let Some(partitions) = topics.get_mut(topic) else {
            return;
        };
        let is_empty = |slot: &Slot| slot.committed.is_none() && slot.pending.is_empty();
        if partitions.get(&partition).is_some_and(is_empty) {
            partitions.remove(&partition);
        }
        if partitions.is_empty() {
            topics.remove(topic);
        }
        if topics.is_empty() {
            self.groups.remove(group);
        }
    }
}
