//! ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs: what a partition says of itself (G28, G29).
//! Answered by the shard that owns the partition, reached over the mesh where shards share a node.
//! Always: a partition of another node is refused with NOT_LEADER_OR_FOLLOWER.
//! Finding offsets is `shard`'s.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::base::{
    ErrorCode, LeaderEpoch, Offset, PartitionIndex, ShardId, Timestamp, TopicPartition,
};
use crate::io::executor;
use crate::metadata::{Image, topic_name};
use crate::server::outcome::Outcome;
use crate::shard::{ListedOffset, LogDir, OffsetAsk, Shard};
use crate::wire::RequestHeader;
use crate::wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};
use crate::wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};
use crate::wire::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use crate::wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
};

/// The partition that a request names, and its shard.
fn locate(
    shard: &Shard,
    image: &Image,
    topic: &str,
    partition: i32,
) -> Result<(ShardId, TopicPartition), ErrorCode> {
    let topic = image
        .topic(topic)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let index = PartitionIndex(partition);
    let state = topic
        .partition(index)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !shard.same_node(state.shard) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    let partition = TopicPartition {
        topic_id: topic.id,
        partition: index,
    };
    Ok((state.shard, partition))
}

pub async fn list(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: ListOffsetsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let image = shard.image();
    let mut response = ListOffsetsResponse::default();
    let mut names = std::collections::BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *names
                .entry((topic.name.clone(), partition.partition_index))
                .or_insert(0) += 1;
        }
    }
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            executor::yield_if_needed().await;
            let repeated = names[&(topic.name.clone(), partition.partition_index)] > 1;
            let listed = if repeated {
                Err(ErrorCode::InvalidRequest)
            } else if version < version_of(partition.timestamp) {
                Err(ErrorCode::UnsupportedVersion)
            } else {
                let ask = OffsetAsk {
                    timestamp: Timestamp(partition.timestamp),
                    current_leader_epoch: LeaderEpoch(partition.current_leader_epoch),
                };
                list_one(shard, &image, &topic.name, partition.partition_index, ask).await
            };
            partitions.push(match listed {
                Ok(found) => ListOffsetsPartitionResponse {
                    partition_index: partition.partition_index,
                    error_code: 0,
                    timestamp: found.timestamp.0,
                    offset: found.offset.0,
                    leader_epoch: found.leader_epoch.0,
                },
                Err(error) => ListOffsetsPartitionResponse {
                    partition_index: partition.partition_index,
                    error_code: error.code(),
                    ..Default::default()
                },
            });
        }
        response.topics.push(ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions,
        });
    }
    Outcome::of::<ListOffsetsRequest>(header.correlation_id, &response, version)
}

/// The first version of ListOffsets that knows a special timestamp.
fn version_of(timestamp: i64) -> i16 {
    match timestamp {
        -3 => 7,
        -4 => 8,
        -5 => 9,
        -6 => 11,
        ..-6 => i16::MAX,
        _ => 0,
    }
}

async fn list_one(
    shard: &Rc<Shard>,
    image: &Image,
    topic: &str,
    partition: i32,
    ask: OffsetAsk,
) -> Result<ListedOffset, ErrorCode> {
    let (owner, partition) = locate(shard, image, topic, partition)?;
    if owner == shard.id {
        return shard.list_offset(partition, ask).await;
    }
    shard.counters.cross_shard_other.one();
    let answer = shard.at(owner, move |shard| async move {
        shard.list_offset(partition, ask).await
    });
    answer.await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower))
}

pub async fn for_leader_epoch(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: OffsetForLeaderEpochRequest,
) -> Outcome {
    let version = header.request_api_version;
    let image = shard.image();
    let mut response = OffsetForLeaderEpochResponse::default();
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let current = LeaderEpoch(partition.current_leader_epoch);
            let wanted = LeaderEpoch(partition.leader_epoch);
            let found = match locate(shard, &image, &topic.topic, partition.partition) {
                Err(error) => Err(error),
                Ok((owner, id)) => {
                    let answer = shard.at(owner, move |shard| async move {
                        shard.offset_for_leader_epoch(id, current, wanted)
                    });
                    answer.await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower))
                }
            };
            partitions.push(match found {
                Ok((epoch, end)) => EpochEndOffset {
                    error_code: 0,
                    partition: partition.partition,
                    leader_epoch: epoch.0,
                    end_offset: end.0,
                },
                Err(error) => EpochEndOffset {
                    error_code: error.code(),
                    partition: partition.partition,
                    ..Default::default()
                },
            });
        }
        response.topics.push(OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions,
        });
    }
    Outcome::of::<OffsetForLeaderEpochRequest>(header.correlation_id, &response, version)
}

pub async fn delete_records(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: DeleteRecordsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let image = shard.image();
    let mut response = DeleteRecordsResponse::default();
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let before = Offset(partition.offset);
            let found = match locate(shard, &image, &topic.name, partition.partition_index) {
                _ if topic_name::is_internal(&topic.name) => Err(ErrorCode::InvalidTopicException),
                Err(error) => Err(error),
                Ok((owner, id)) => {
                    let answer = shard.at(owner, move |shard| async move {
                        shard.delete_records(id, before).await
                    });
                    answer.await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower))
                }
            };
            partitions.push(DeleteRecordsPartitionResult {
                partition_index: partition.partition_index,
                low_watermark: found.map_or(-1, |offset| offset.0),
                error_code: found.err().map_or(0, ErrorCode::code),
            });
        }
        response.topics.push(DeleteRecordsTopicResult {
            name: topic.name.clone(),
            partitions,
        });
    }
    Outcome::of::<DeleteRecordsRequest>(header.correlation_id, &response, version)
}

pub async fn log_dirs(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: DescribeLogDirsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let mut sizes: Vec<LogDir> = Vec::new();
    for owner in shard.shards_of_node().collect::<Vec<_>>() {
        let answer = shard.at(owner, |shard| async move { shard.log_dir_sizes() });
        sizes.extend(answer.await.unwrap_or_default());
    }
    let wanted = |size: &LogDir| {
        request.topics.as_ref().is_none_or(|topics| {
            topics.iter().any(|topic| {
                *topic.topic == *size.topic && topic.partitions.contains(&size.partition.0)
            })
        })
    };
    let mut topics: BTreeMap<String, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for size in sizes.iter().filter(|size| wanted(size)) {
        topics
            .entry(size.topic.clone())
            .or_default()
            .push(DescribeLogDirsPartition {
                partition_index: size.partition.0,
                partition_size: size.bytes as i64,
                ..Default::default()
            });
    }
    let (total_bytes, usable_bytes) = shard.disk_space().await;
    let data = shard.settings.data.to_string_lossy().into_owned();
    let result = DescribeLogDirsResult {
        log_dir: data.into(),
        topics: topics
            .into_iter()
            .map(|(name, mut partitions)| {
                partitions.sort_by_key(|partition| partition.partition_index);
                DescribeLogDirsTopic {
                    name: name.into(),
                    partitions,
                }
            })
            .collect(),
        total_bytes,
        usable_bytes,
        ..Default::default()
    };
    let response = DescribeLogDirsResponse {
        results: vec![result],
        ..Default::default()
    };
    Outcome::of::<DescribeLogDirsRequest>(header.correlation_id, &response, version)
}
