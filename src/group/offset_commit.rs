//! OffsetCommit: who may commit, and the records of it.
//! Owned by the coordinator.
//! Always: an offset is answered and seen only once it is durable; a refused one writes nothing.
//! Which topics and partitions exist is for the caller to know.

use std::rc::Rc;

use super::api::{
    CommitPartition, CommittedTopic, OffsetCommit, OffsetCommitReply, Reply, RequestContext, Token,
};
use super::classic::{Group, State};
use super::coordinator::Coordinator;
use super::effects::{Completion, Effects};
use super::offsets::Committed;
use super::records::{self, TEXT_BYTES_MAX};
use crate::base::{ErrorCode, Now, PartitionIndex, Timestamp, TopicId};

/// From this version a missing group has an error of its own (KIP-848).
const VERSION_GROUP_ID_NOT_FOUND: i16 = 9;
/// "The broker's retention" as a retention time.
const RETENTION_OF_BROKER: i64 = -1;

impl Coordinator {
    /// The reply waits for the records to be durable.
    pub fn commit_offsets(
        &mut self,
        now: Now,
        context: &RequestContext,
        request: OffsetCommit,
        token: Token,
    ) {
        self.begin(now, token);
        let checked = match self.unavailable() {
            Some(error) => Err(error),
            None => self.check_commit(context, &request),
        };
        if let Err(error) = checked {
            let reply = refused(&request, error);
            return self.fx.reply(token, Reply::OffsetCommit(reply));
        }
        // From here nothing fails: only the metadata of single partitions can be too long.
        let expire_time = match request.retention_time_ms {
            RETENTION_OF_BROKER => None,
            retention_ms => Some(Timestamp(now.wall.0.saturating_add(retention_ms))),
        };
        let max = self.fx.config.offset_metadata_units_max;
        let mut topics = Vec::with_capacity(request.topics.len());
        let mut written: Vec<(Rc<str>, PartitionIndex, Committed)> = Vec::new();
        for topic in request.topics {
            let name: Rc<str> = topic.name.as_str().into();
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in topic.partitions {
                let index = partition.partition;
                if too_long(partition.metadata.as_deref(), max) {
                    partitions.push((index, ErrorCode::OffsetMetadataTooLarge));
                    continue;
                }
                partitions.push((index, ErrorCode::None));
                let value = committed(partition, topic.topic_id, now.wall, expire_time);
                written.push((name.clone(), index, value));
            }
            topics.push(CommittedTopic {
                name: topic.name,
                topic_id: topic.topic_id,
                partitions,
            });
        }
        let append = (!written.is_empty()).then(|| {
            let (group, fx) = self.group_or_new(&request.group_id);
            let (id, incarnation) = (group.id.clone(), group.incarnation);
            let record = |(topic, partition, value): &(Rc<str>, PartitionIndex, Committed)| {
                records::offset_record(&id, topic, *partition, value)
            };
            let records = written.iter().map(record).collect();
            let completion = Completion::Offsets {
                group: id.clone(),
                incarnation,
                partitions: written.iter().map(|(t, p, _)| (t.clone(), *p)).collect(),
            };
            let append = fx.append(records, completion);
            for (topic, partition, value) in written {
                self.offsets
                    .begin(&id, &topic, partition, append, Some(value));
            }
            append
        });
        let reply = Reply::OffsetCommit(OffsetCommitReply { topics });
        self.fx.reply_after(append, token, reply);
    }

    fn check_commit(
        &mut self,
        context: &RequestContext,
        request: &OffsetCommit,
    ) -> Result<(), ErrorCode> {
        let is_too_long = |text: &str| text.len() > TEXT_BYTES_MAX;
        if is_too_long(&request.group_id) || request.topics.iter().any(|t| is_too_long(&t.name)) {
            return Err(ErrorCode::UnknownServerError);
        }
        match self.groups.get_mut(request.group_id.as_str()) {
            Some(group) => group.check_commit(request, &mut self.fx),
            // A consumer that is no member may commit to a group that is not there yet.
            None if request.generation < 0 => Ok(()),
            None if context.api_version >= VERSION_GROUP_ID_NOT_FOUND => {
                Err(ErrorCode::GroupIdNotFound)
            }
            None => Err(ErrorCode::IllegalGeneration),
        }
    }
}

impl Group {
    /// A commit also keeps the member alive.
    fn check_commit(&mut self, request: &OffsetCommit, fx: &mut Effects) -> Result<(), ErrorCode> {
        let instance_id = request.group_instance_id.as_deref();
        if request.generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        if request.generation < 0 && request.member_id.is_empty() && instance_id.is_none() {
            // Nobody may move the offsets of a group at work from outside.
            return Err(ErrorCode::UnknownMemberId);
        }
        self.check_member(&request.member_id, instance_id)?;
        if request.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        match self.state {
            // The member knows the new generation but has no assignment in it yet.
            State::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::Empty | State::PreparingRebalance | State::Stable => {
                self.restart_session(&request.member_id, None, fx);
                Ok(())
            }
        }
    }
}

/// The same error for every partition.
pub(super) fn refused(request: &OffsetCommit, error: ErrorCode) -> OffsetCommitReply {
    let topics = request.topics.iter().map(|topic| CommittedTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| (partition.partition, error))
            .collect(),
    });
    OffsetCommitReply {
        topics: topics.collect(),
    }
}

/// Counted as Java counts a string, and bounded by what a record can hold in any case.
fn too_long(metadata: Option<&str>, units_max: usize) -> bool {
    metadata.is_some_and(|text| {
        text.len() > TEXT_BYTES_MAX
            || (text.len() > units_max && text.encode_utf16().count() > units_max)
    })
}

fn committed(
    partition: CommitPartition,
    topic_id: TopicId,
    now: Timestamp,
    expire_time: Option<Timestamp>,
) -> Committed {
    Committed {
        offset: partition.offset,
        leader_epoch: partition.leader_epoch,
        metadata: partition.metadata.unwrap_or_default(),
        commit_time: now,
        expire_time,
        topic_id,
    }
}
