//! The parts of an image: nodes, topics, partitions.
//! Owned by images, shared between them.
//! Always: partition `i` of a topic is at index `i`.
//! How records change them is `apply`'s.

use smallvec::SmallVec;

use crate::base::{LeaderEpoch, NodeId, PartitionIndex, ShardId, TopicId};
use crate::metadata::topic_name;
use crate::wire::Str;

/// What Kafka metadata calls a broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub id: NodeId,
    /// The offset of its registration: newer starts have higher ones.
    pub epoch: i64,
    pub host: Str,
    pub port: u16,
    pub rack: Option<Str>,
    /// The shards it is made of, ascending; empty for a stock Kafka broker.
    pub shards: Vec<ShardId>,
    pub fenced: bool,
}

/// A topic and its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    pub name: Str,
    pub id: TopicId,
    /// By index.
    pub partitions: Vec<PartitionState>,
}

impl Topic {
    pub fn partition(&self, index: PartitionIndex) -> Option<&PartitionState> {
        self.partitions.get(usize::try_from(index.0).ok()?)
    }

    /// True for a topic that the broker itself writes.
    pub fn is_internal(&self) -> bool {
        topic_name::is_internal(&self.name)
    }
}

/// Where a partition is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionState {
    /// `None`: there is no leader.
    pub leader: Option<NodeId>,
    /// The shard of the leader that owns the log.
    pub shard: ShardId,
    pub leader_epoch: LeaderEpoch,
    /// Counts every change of this partition.
    pub partition_epoch: i32,
    pub replicas: SmallVec<[NodeId; 1]>,
    pub isr: SmallVec<[NodeId; 1]>,
}

/// What a configuration belongs to; the numbers are those of records and requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum ConfigResource {
    Topic = 2,
    Broker = 4,
}

impl ConfigResource {
    pub fn code(self) -> i8 {
        self as i8
    }

    /// The resource with this number, if ringlog keeps configurations of it.
    pub fn from_code(code: i8) -> Option<ConfigResource> {
        match code {
            2 => Some(ConfigResource::Topic),
            4 => Some(ConfigResource::Broker),
            _ => None,
        }
    }
}
