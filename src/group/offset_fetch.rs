//! OffsetFetch: what a group has committed.
//! Owned by the coordinator.
//! Always: answers show durable commits alone; with `require_stable` they also show those that were in flight when asked.
//! Which topic an id means is for the caller to know.

use std::collections::BTreeMap;

use super::api::{
    AppendId, FetchTopic, FetchedPartition, FetchedTopic, OffsetFetch, OffsetFetchReply, Reply,
    Token,
};
use super::coordinator::Coordinator;
use super::offsets::Committed;
use crate::base::{ErrorCode, Now, PartitionIndex, TopicId};

/// A fetch that is answered once this append is settled.
#[derive(Debug)]
pub(super) struct WaitingFetch {
    pub after: AppendId,
    pub token: Token,
    pub request: OffsetFetch,
}

impl Coordinator {
    /// The reply comes at once, unless the fetch wants to see commits that are being written.
    pub fn fetch_offsets(&mut self, now: Now, request: OffsetFetch, token: Token) {
        self.begin(now, token);
        if let Some(error) = self.unavailable() {
            let reply = refused(&request, error);
            return self.fx.reply(token, Reply::OffsetFetch(reply));
        }
        let after = self.fx.in_flight.back().map(|append| append.id);
        match after.filter(|_| request.require_stable) {
            Some(after) => self.waiting_fetches.push_back(WaitingFetch {
                after,
                token,
                request,
            }),
            None => {
                let reply = self.committed_offsets(request);
                self.fx.reply(token, Reply::OffsetFetch(reply));
            }
        }
    }

    /// Answers the fetches that waited for this append.
    pub(super) fn answer_waiting_fetches(&mut self, settled: AppendId) {
        while let Some(first) = self.waiting_fetches.front() {
            if first.after > settled {
                return;
            }
            let waiting = self.waiting_fetches.pop_front().expect("it is the first");
            let reply = self.committed_offsets(waiting.request);
            self.fx.reply(waiting.token, Reply::OffsetFetch(reply));
        }
    }

    fn committed_offsets(&self, request: OffsetFetch) -> OffsetFetchReply {
        let topics = match request.topics {
            None => self.all_committed_offsets(&request.group_id),
            Some(topics) => topics
                .into_iter()
                .map(|topic| self.topic_offsets(&request.group_id, topic))
                .collect(),
        };
        OffsetFetchReply {
            group_id: request.group_id,
            error: ErrorCode::None,
            topics,
        }
    }

    fn topic_offsets(&self, group: &str, topic: FetchTopic) -> FetchedTopic {
        let partition = |&partition| {
            let value = self.offsets.committed(group, &topic.name, partition);
            // An offset of an earlier topic of that name is none of this one's.
            let value = value.filter(|value| is_same_topic(value.topic_id, topic.topic_id));
            fetched(partition, value)
        };
        FetchedTopic {
            partitions: topic.partitions.iter().map(partition).collect(),
            name: topic.name,
            topic_id: topic.topic_id,
        }
    }

    fn all_committed_offsets(&self, group: &str) -> Vec<FetchedTopic> {
        let mut topics: BTreeMap<&str, Vec<FetchedPartition>> = BTreeMap::new();
        for (topic, partition, value) in self.offsets.all_committed(group) {
            let partitions = topics.entry(topic).or_default();
            partitions.push(fetched(partition, Some(value)));
        }
        let topics = topics.into_iter().map(|(name, partitions)| FetchedTopic {
            name: name.to_owned(),
            topic_id: TopicId::ZERO,
            partitions,
        });
        topics.collect()
    }
}

/// The error for the group and, as version 1 wants it, for every partition asked for.
pub(super) fn refused(request: &OffsetFetch, error: ErrorCode) -> OffsetFetchReply {
    let topics = request.topics.iter().flatten().map(|topic| FetchedTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|&partition| FetchedPartition {
                error,
                ..fetched(partition, None)
            })
            .collect(),
    });
    OffsetFetchReply {
        group_id: request.group_id.clone(),
        error,
        topics: topics.collect(),
    }
}

/// Ids match if one of them is not known.
fn is_same_topic(committed: TopicId, asked: TopicId) -> bool {
    committed.is_zero() || asked.is_zero() || committed == asked
}

fn fetched(partition: PartitionIndex, value: Option<&Committed>) -> FetchedPartition {
    FetchedPartition {
        partition,
        offset: value.map_or(-1, |v| v.offset),
        leader_epoch: value.map_or(-1, |v| v.leader_epoch),
        metadata: value.map_or(String::new(), |v| v.metadata.clone()),
        error: ErrorCode::None,
    }
}
