//! What a coordinator forgets: deleted offsets, offsets of deleted topics, expired offsets, and groups that hold nothing.
//! Owned by the coordinator.
//! Always: tombstones are written for what the log will hold at that point, so for commits in flight as well.
//! Which topics exist is for the caller to know.

use std::rc::Rc;

use super::api::{AppendId, OffsetDelete, OffsetDeleteReply, Reply, Token};
use super::classic::{Group, State};
use super::coordinator::Coordinator;
use super::effects::Completion;
use super::offsets::Committed;
use super::records;
use super::timers::Event;
use crate::base::{ErrorCode, Now, PartitionIndex, Timestamp, TopicId};

/// Tombstones that nobody asked for in one request are written in appends of at most this many records, which stay
/// far below the smallest usual `max.message.bytes` with names of ordinary length.
const TOMBSTONES_PER_APPEND: usize = 500;

/// Tombstones to be written, in this order.
#[derive(Debug, Default)]
pub(super) struct Tombstones(Vec<Forgotten>);

#[derive(Debug)]
enum Forgotten {
    Offset(Rc<str>, Rc<str>, PartitionIndex),
    Group(Box<Group>),
}

impl Tombstones {
    pub fn offset(&mut self, group: &Rc<str>, topic: &Rc<str>, partition: PartitionIndex) {
        self.0
            .push(Forgotten::Offset(group.clone(), topic.clone(), partition));
    }

    pub fn group(&mut self, group: Group) {
        self.0.push(Forgotten::Group(Box::new(group)));
    }

    /// The first `count` of them.
    fn take(&mut self, count: usize) -> Tombstones {
        let rest = self.0.split_off(count.min(self.0.len()));
        Tombstones(std::mem::replace(&mut self.0, rest))
    }
}

impl Coordinator {
    /// Forgets committed offsets that an administrator names. The reply waits for the tombstones.
    pub fn delete_offsets(&mut self, now: Now, request: OffsetDelete, token: Token) {
        self.begin(now, token);
        if let Err(error) = self.check_offset_delete(&request.group_id) {
            let topics = Vec::new();
            let reply = OffsetDeleteReply { error, topics };
            return self.fx.reply(token, Reply::OffsetDelete(reply));
        }
        let (id, group) = self
            .groups
            .get_key_value(request.group_id.as_str())
            .expect("it was checked");
        let mut tombstones = Tombstones::default();
        let mut topics = Vec::with_capacity(request.topics.len());
        for (name, partitions) in request.topics {
            let is_subscribed = group.is_subscribed(&name);
            let topic: Rc<str> = name.as_str().into();
            let mut outcomes = Vec::with_capacity(partitions.len());
            for partition in partitions {
                let latest = self.offsets.latest(id, &topic, partition);
                let error = match (is_subscribed, latest) {
                    (true, _) => ErrorCode::GroupSubscribedToTopic,
                    (false, Some(_)) => {
                        tombstones.offset(id, &topic, partition);
                        ErrorCode::None
                    }
                    (false, None) => ErrorCode::None,
                };
                outcomes.push((partition, error));
            }
            topics.push((name, outcomes));
        }
        let append = self.write(tombstones);
        let error = ErrorCode::None;
        let reply = OffsetDeleteReply { error, topics };
        self.fx
            .reply_after(append, token, Reply::OffsetDelete(reply));
    }

    /// Forgets the offsets of topics that `is_gone` knows by their name and id; the id is zero where it was not kept.
    pub fn forget_topics(&mut self, now: Now, is_gone: impl Fn(&str, TopicId) -> bool) {
        self.fx.now = now;
        if !self.is_active() {
            return;
        }
        let mut tombstones = Tombstones::default();
        let ids: Vec<_> = self.offsets.groups().cloned().collect();
        for id in ids {
            for (topic, partition, value) in self.offsets.all_latest(&id) {
                if is_gone(topic, value.topic_id) {
                    tombstones.offset(&id, topic, partition);
                }
            }
        }
        self.write_in_parts(tombstones);
    }

    /// Forgets what nobody has used for the retention time (KIP-211), then sets the timer for the next time.
    pub(super) fn expire(&mut self) {
        let mut tombstones = Tombstones::default();
        let ids: Vec<_> = self.groups.keys().cloned().collect();
        for id in ids {
            self.expire_group(&id, &mut tombstones);
        }
        self.write_in_parts(tombstones);
        self.schedule_retention();
    }

    pub(super) fn schedule_retention(&mut self) {
        let interval_ms = self.fx.config.offsets_retention_check_interval_ms;
        let at = self.fx.now.mono.plus_ms(interval_ms.max(1));
        self.fx.timers.schedule(at, Event::Retention);
    }

    /// Begins to write tombstones in one append, if there are any.
    pub(super) fn write(&mut self, tombstones: Tombstones) -> Option<AppendId> {
        if tombstones.0.is_empty() {
            return None;
        }
        let (mut records, mut offsets, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for forgotten in tombstones.0 {
            match forgotten {
                Forgotten::Offset(group, topic, partition) => {
                    records.push(records::offset_tombstone(&group, &topic, partition));
                    offsets.push((group, topic, partition));
                }
                Forgotten::Group(group) => {
                    records.push(records::group_tombstone(&group.id));
                    groups.push(*group);
                }
            }
        }
        let completion = Completion::Tombstones {
            offsets: offsets.clone(),
            groups,
        };
        let append = self.fx.append(records, completion);
        for (group, topic, partition) in offsets {
            self.offsets.begin(&group, &topic, partition, append, None);
        }
        Some(append)
    }

    /// Begins to write tombstones in as many appends as it takes.
    fn write_in_parts(&mut self, mut tombstones: Tombstones) {
        while !tombstones.0.is_empty() {
            let part = tombstones.take(TOMBSTONES_PER_APPEND);
            self.write(part);
        }
    }

    /// Takes a group out of the map and stops its timers.
    pub(super) fn take_group(&mut self, id: &str) -> Option<Group> {
        let mut group = self.groups.remove(id)?;
        for timer in group.pending_join.values_mut() {
            self.fx.timers.cancel(timer);
        }
        for member in group.members.values_mut() {
            self.fx.timers.cancel(&mut member.session);
        }
        self.fx.timers.cancel(&mut group.join_timer);
        self.fx.timers.cancel(&mut group.sync_timer);
        group.pending_join.clear();
        Some(group)
    }

    fn check_offset_delete(&self, group_id: &str) -> Result<(), ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        if let Some(error) = self.unavailable() {
            return Err(error);
        }
        let group = self.groups.get(group_id);
        let group = group.ok_or(ErrorCode::GroupIdNotFound)?;
        match group.state {
            State::Empty => Ok(()),
            // Consumers say what they read, so the rest may go; of others nothing is known.
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                let is_consumer = group.uses_consumer_protocol();
                is_consumer.then_some(()).ok_or(ErrorCode::NonEmptyGroup)
            }
        }
    }

    fn expire_group(&mut self, id: &Rc<str>, tombstones: &mut Tombstones) {
        let group = &self.groups[id];
        let now = self.fx.now.wall;
        let retention_ms = self.fx.config.offsets_retention_ms;
        let mut keeps_any = false;
        for (topic, partition, value) in self.offsets.all_latest(id) {
            let expired = !group.is_subscribed(topic) && group.is_expired(value, now, retention_ms);
            if expired {
                tombstones.offset(id, topic, partition);
            } else {
                keeps_any = true;
            }
        }
        if !keeps_any && group.state == State::Empty && group.pending_join.is_empty() {
            let group = self.take_group(id).expect("it was just looked at");
            tombstones.group(group);
        }
    }
}

impl Group {
    /// Whether an offset of a topic that the group does not read has outlived its time. The clock runs from the commit
    /// for simple consumers and in a stable group, from when the last member left in an empty one; during a rebalance
    /// nothing expires.
    fn is_expired(&self, value: &Committed, now: Timestamp, retention_ms: i64) -> bool {
        let since = match (&self.protocol_type, self.state) {
            (None, _) => value.commit_time,
            (Some(_), State::Empty) => self.state_since.unwrap_or(value.commit_time),
            (Some(_), State::Stable)
                if self.uses_consumer_protocol() && self.subscribed_topics.is_some() =>
            {
                value.commit_time
            }
            (Some(_), State::Stable | State::PreparingRebalance | State::CompletingRebalance) => {
                return false;
            }
        };
        match value.expire_time {
            Some(at) => now >= at,
            None => now.0.saturating_sub(since.0) >= retention_ms,
        }
    }
}
