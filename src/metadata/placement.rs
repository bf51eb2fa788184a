//! Which shard owns a partition, which node a shard belongs to, and how a shard is named in a metadata record.
//! Pure functions, the same on every shard.
//! Always: the partitions of a topic spread evenly over the shards; the shards of a node are neighbours.
//! An explicit assignment overrides the default owner; it is in the image.

use std::ops::Range;

use crate::base::{PartitionIndex, ShardId, TopicId, Uuid};

/// The default owner of a partition: a start by the hash of the topic id, then round robin over the index.
pub fn owner(topic_id: TopicId, partition: PartitionIndex, shards: u16) -> ShardId {
    assert!(shards > 0, "no shard to own partition {partition}");
    let index = u64::try_from(partition.0)
        .unwrap_or_else(|_| panic!("partition {partition} of {topic_id} is below 0"));
    let start = hash(topic_id) % u64::from(shards);
    ShardId(((start + index) % u64::from(shards)) as u16)
}

/// The owner of a partition that is assigned to a node: the default owner among the node's shards.
pub fn within(topic_id: TopicId, partition: PartitionIndex, shards: &[ShardId]) -> ShardId {
    let count = u16::try_from(shards.len()).unwrap_or_else(|_| panic!("{} shards", shards.len()));
    shards[usize::from(owner(topic_id, partition, count).0)]
}

/// The shards of the node with this index, if `nodes` nodes share `shards` shards.
pub fn shards_of_node(index: u16, nodes: u16, shards: u16) -> Range<u16> {
    assert!(
        index < nodes && nodes <= shards,
        "node {index} of {nodes} over {shards} shards"
    );
    let bound = |i: u16| (u32::from(i) * u32::from(shards) / u32::from(nodes)) as u16;
    bound(index)..bound(index + 1)
}

/// How records name a shard: as the log directory (KIP-858) that holds the replica.
pub fn directory(shard: ShardId) -> Uuid {
    let mut bytes = *DIRECTORY;
    bytes[14..].copy_from_slice(&shard.0.to_be_bytes());
    Uuid(bytes)
}

/// The shard that a directory id names; `None` for a directory of a stock Kafka broker.
pub fn shard_of_directory(directory: Uuid) -> Option<ShardId> {
    let (prefix, shard) = directory.0.split_at(14);
    let shard = [shard[0], shard[1]];
    (prefix == &DIRECTORY[..14]).then(|| ShardId(u16::from_be_bytes(shard)))
}

const DIRECTORY: &[u8; 16] = b"ringlog-shard:\0\0";

/// FNV-1a: fixed for ever, since it decides where partitions live.
fn hash(topic_id: TopicId) -> u64 {
    topic_id.0.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_a_topic_spread_evenly() {
        for seed in 0..50u8 {
            let topic_id = Uuid([seed; 16]);
            for shards in 1..9u16 {
                let mut counts = vec![0; usize::from(shards)];
                for partition in 0..24 {
                    counts[usize::from(owner(topic_id, PartitionIndex(partition), shards).0)] += 1;
                }
                let (min, max) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(max - min <= 1, "{counts:?}");
            }
        }
    }

    #[test]
    fn topics_of_one_partition_use_every_shard() {
        let mut counts = [0; 4];
        for topic in 0..400u16 {
            let mut id = [7; 16];
            id[..2].copy_from_slice(&topic.to_be_bytes());
            counts[usize::from(owner(Uuid(id), PartitionIndex(0), 4).0)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    }

    #[test]
    fn every_shard_belongs_to_one_node() {
        for shards in 1..20 {
            for nodes in 1..=shards {
                let mut next = 0;
                for index in 0..nodes {
                    let range = shards_of_node(index, nodes, shards);
                    assert_eq!(range.start, next);
                    assert!(!range.is_empty());
                    next = range.end;
                }
                assert_eq!(next, shards);
            }
        }
    }

    #[test]
    fn shard_survives_its_directory_id() {
        for shard in [0, 1, 300, u16::MAX] {
            assert_eq!(
                shard_of_directory(directory(ShardId(shard))),
                Some(ShardId(shard))
            );
        }
        assert_eq!(shard_of_directory(Uuid::ZERO), None);
    }
}
