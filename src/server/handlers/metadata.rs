//! Metadata, DescribeCluster and DescribeTopicPartitions: nodes, topics, leaders (G42, G43).
//! Answered from the image, on any shard.
//! Always: every node named as leader, replica or controller is among the brokers; a partition whose files were refused has no
//! leader, as one in an offline directory of Kafka.
//! Topics on demand are made by the controller; the first answer about one is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::topics;
use crate::base::{ErrorCode, NodeId, PartitionIndex, TopicPartition};
use crate::metadata::topic_name;
use crate::metadata::{Image, Topic};
use crate::server::outcome::Outcome;
use crate::shard::{RefusedPartitions, Shard};
use crate::wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use crate::wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use crate::wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use crate::wire::{DecodeError, Message, Reader, RequestHeader, Str};

/// Decodes a Metadata request. librdkafka (seen in 2.16) asks for all topics with four zero bytes where a flexible version
/// has one for null, so three stay behind its request. Apache Kafka reads past them; here nothing else may stay behind.
pub fn read(mut reader: Reader, header: &RequestHeader) -> Result<MetadataRequest, DecodeError> {
    let request = MetadataRequest::decode_prefix(&mut reader, header.request_api_version)?;
    let all_topics_of_librdkafka = request.topics.is_none()
        && header.request_api_version >= VERSION_FLEXIBLE
        && reader.remaining() == WIDE_NULL_EXTRA;
    if !all_topics_of_librdkafka {
        reader.finish()?;
    }
    Ok(request)
}

pub async fn metadata(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: MetadataRequest,
) -> Outcome {
    let version = header.request_api_version;
    if version < VERSION_BY_ID
        && let Some(refused) = refused_ids(&request)
    {
        return Outcome::of::<MetadataRequest>(header.correlation_id, &refused, version);
    }
    let (image, refused) = (shard.image(), &shard.settings.refused);
    let brokers = image.nodes().iter().map(|node| MetadataResponseBroker {
        node_id: node.id.0,
        host: node.host.clone(),
        port: i32::from(node.port),
        rack: node.rack.clone(),
    });
    let mut response = MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(image.cluster_id().clone()),
        controller_id: image.controller().map_or(-1, |node| node.id.0),
        ..Default::default()
    };
    let all = match &request.topics {
        None => true,
        // Version 0 has no null: empty is all.
        Some(topics) => topics.is_empty() && version == 0,
    };
    if all {
        let topics = image.topics();
        response.topics = topics.map(|topic| describe(topic, refused)).collect();
    } else {
        let may_create = request.allow_auto_topic_creation || version < 4;
        let mut missing = BTreeSet::new();
        let mut named = BTreeSet::new();
        for topic in request.topics.iter().flatten() {
            if !named.insert((topic.name.clone(), topic.topic_id)) {
                continue;
            }
            response
                .topics
                .push(one(&image, refused, topic, may_create, &mut missing));
        }
        if !missing.is_empty() && shard.broker_config().auto_create_topics {
            topics::create_on_demand(shard, missing);
        }
    }
    if request.include_topic_authorized_operations {
        for topic in &mut response.topics {
            if topic.error_code == ErrorCode::None.code() {
                topic.topic_authorized_operations = TOPIC_OPERATIONS;
            }
        }
    }
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    Outcome::of::<MetadataRequest>(header.correlation_id, &response, version)
}

/// The answer to topics that are named by id in a version that only knows names (`KafkaApis.handleTopicMetadataRequest`).
fn refused_ids(request: &MetadataRequest) -> Option<MetadataResponse> {
    let topics = request.topics.as_ref()?;
    let by_id = |topic: &MetadataRequestTopic| topic.name.is_none() || !topic.topic_id.is_zero();
    if !topics.iter().any(by_id) {
        return None;
    }
    let refused = topics.iter().map(|topic| MetadataResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    });
    Some(MetadataResponse {
        topics: refused.collect(),
        ..Default::default()
    })
}

fn one(
    image: &Image,
    refused: &RefusedPartitions,
    wanted: &MetadataRequestTopic,
    may_create: bool,
    missing: &mut BTreeSet<Str>,
) -> MetadataResponseTopic {
    let failed = |error: ErrorCode, name: Option<Str>| MetadataResponseTopic {
        error_code: error.code(),
        name,
        topic_id: wanted.topic_id,
        ..Default::default()
    };
    let named = wanted.name.as_ref().filter(|_| wanted.topic_id.is_zero());
    let Some(name) = named else {
        return match image.topic_by_id(wanted.topic_id) {
            Some(topic) => describe(topic, refused),
            None => failed(ErrorCode::UnknownTopicId, None),
        };
    };
    if let Some(topic) = image.topic(name) {
        return describe(topic, refused);
    }
    let name = name.detach();
    let mut answer = if topic_name::check(&name).is_err() {
        failed(ErrorCode::InvalidTopicException, Some(name.clone()))
    } else {
        if may_create {
            missing.insert(name.clone());
        }
        failed(ErrorCode::UnknownTopicOrPartition, Some(name.clone()))
    };
    answer.is_internal = topic_name::is_internal(&name);
    answer
}

fn describe(topic: &Topic, refused: &RefusedPartitions) -> MetadataResponseTopic {
    let partitions = topic.partitions.iter().zip(0..);
    let partitions = partitions.map(|(state, index)| {
        let offline = refused.contains(TopicPartition {
            topic_id: topic.id,
            partition: PartitionIndex(index),
        });
        let leader = state.leader.filter(|_| !offline);
        let nodes = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
        MetadataResponsePartition {
            error_code: match leader {
                Some(_) => ErrorCode::None.code(),
                None => ErrorCode::LeaderNotAvailable.code(),
            },
            partition_index: index,
            leader_id: leader.map_or(-1, |node| node.0),
            leader_epoch: state.leader_epoch.0,
            replica_nodes: nodes(&state.replicas),
            isr_nodes: nodes(if offline { &[] } else { &state.isr }),
            offline_replicas: nodes(if offline { &state.replicas } else { &[] }),
        }
    });
    MetadataResponseTopic {
        error_code: ErrorCode::None.code(),
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        is_internal: topic.is_internal(),
        partitions: partitions.collect(),
        ..Default::default()
    }
}

pub fn describe_cluster(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: DescribeClusterRequest,
) -> Outcome {
    let version = header.request_api_version;
    let image = shard.image();
    let mut response = DescribeClusterResponse {
        cluster_id: image.cluster_id().clone(),
        endpoint_type: ENDPOINT_BROKERS,
        ..Default::default()
    };
    if request.endpoint_type == ENDPOINT_BROKERS {
        response.controller_id = image.controller().map_or(-1, |node| node.id.0);
        let nodes = image.nodes().iter();
        let shown = nodes.filter(|node| !node.fenced || request.include_fenced_brokers);
        response.brokers = shown
            .map(|node| DescribeClusterBroker {
                broker_id: node.id.0,
                host: node.host.clone(),
                port: i32::from(node.port),
                rack: node.rack.clone(),
                is_fenced: node.fenced,
            })
            .collect();
        if request.include_cluster_authorized_operations {
            response.cluster_authorized_operations = CLUSTER_OPERATIONS;
        }
    } else {
        response.cluster_id = Str::default();
        let (error, text) = if request.endpoint_type == ENDPOINT_CONTROLLERS {
            (
                ErrorCode::MismatchedEndpointType,
                "The request was sent to an endpoint of the wrong type.",
            )
        } else {
            (
                ErrorCode::UnsupportedEndpointType,
                "Unsupported endpoint type ",
            )
        };
        response.error_code = error.code();
        response.error_message = Some(match error {
            ErrorCode::UnsupportedEndpointType => {
                Str::from(format!("{text}{}", request.endpoint_type))
            }
            _ => Str::from_static(text),
        });
    }
    Outcome::of::<DescribeClusterRequest>(header.correlation_id, &response, version)
}

pub fn describe_topic_partitions(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: DescribeTopicPartitionsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let (image, refused) = (shard.image(), &shard.settings.refused);
    let names: BTreeSet<Str> = if request.topics.is_empty() {
        image.topics().map(|topic| topic.name.clone()).collect()
    } else {
        request
            .topics
            .iter()
            .map(|topic| topic.name.detach())
            .collect()
    };
    let most = usize::try_from(shard.broker_config().described_partitions_max).unwrap_or(1);
    let mut left = usize::try_from(request.response_partition_limit)
        .unwrap_or(1)
        .clamp(1, most);
    let cursor = request.cursor.as_ref();
    let mut response = DescribeTopicPartitionsResponse::default();
    if cursor.is_some_and(|cursor| is_astray(cursor, &request, &names)) {
        let topics = request.topics.into_iter();
        response.topics = topics
            .map(|topic| DescribeTopicPartitionsResponseTopic {
                error_code: ErrorCode::InvalidRequest.code(),
                name: Some(topic.name),
                ..Default::default()
            })
            .collect();
        return Outcome::of::<DescribeTopicPartitionsRequest>(
            header.correlation_id,
            &response,
            version,
        );
    }
    for name in names {
        let first = match cursor {
            Some(cursor) if name < cursor.topic_name => continue,
            Some(cursor) if name == cursor.topic_name => cursor.partition_index.max(0),
            _ => 0,
        };
        if left == 0 {
            response.next_cursor = Some(Cursor {
                topic_name: name,
                partition_index: first,
            });
            break;
        }
        let Some(topic) = image.topic(&name) else {
            response.topics.push(unknown_topic(name));
            continue;
        };
        let (described, rest) = describe_from(topic, refused, first as usize, left);
        left -= described.partitions.len();
        response.topics.push(described);
        if let Some(partition_index) = rest {
            response.next_cursor = Some(Cursor {
                topic_name: topic.name.clone(),
                partition_index,
            });
            break;
        }
    }
    Outcome::of::<DescribeTopicPartitionsRequest>(header.correlation_id, &response, version)
}

/// A cursor that no answer to such a request can have given.
fn is_astray(
    cursor: &Cursor,
    request: &DescribeTopicPartitionsRequest,
    names: &BTreeSet<Str>,
) -> bool {
    let elsewhere = !request.topics.is_empty() && !names.contains(&cursor.topic_name);
    cursor.partition_index < 0 || elsewhere
}

fn unknown_topic(name: Str) -> DescribeTopicPartitionsResponseTopic {
    let error = match topic_name::check(&name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        is_internal: topic_name::is_internal(&name),
        name: Some(name),
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..Default::default()
    }
}

/// At most `most` partitions from `first` on, and the index where to go on.
fn describe_from(
    topic: &Topic,
    refused: &RefusedPartitions,
    first: usize,
    most: usize,
) -> (DescribeTopicPartitionsResponseTopic, Option<i32>) {
    let whole = describe(topic, refused);
    let count = whole.partitions.len();
    let end = first.saturating_add(most).min(count);
    let partitions = whole.partitions.into_iter().skip(first).take(most);
    let described = DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::None.code(),
        name: whole.name,
        topic_id: whole.topic_id,
        is_internal: whole.is_internal,
        topic_authorized_operations: TOPIC_OPERATIONS,
        partitions: partitions
            .map(|partition| DescribeTopicPartitionsResponsePartition {
                // That there is no leader is no error here.
                error_code: ErrorCode::None.code(),
                partition_index: partition.partition_index,
                leader_id: partition.leader_id,
                leader_epoch: partition.leader_epoch,
                replica_nodes: partition.replica_nodes,
                isr_nodes: partition.isr_nodes,
                eligible_leader_replicas: Some(Vec::new()),
                last_known_elr: Some(Vec::new()),
                offline_replicas: partition.offline_replicas,
            })
            .collect(),
    };
    (described, (end < count).then_some(end as i32))
}

/// The first flexible version of Metadata.
const VERSION_FLEXIBLE: i16 = 9;
/// A null array of four bytes instead of one.
const WIDE_NULL_EXTRA: usize = 3;
/// The first version of Metadata that knows topics by id.
const VERSION_BY_ID: i16 = 12;
const ENDPOINT_BROKERS: i8 = 1;
const ENDPOINT_CONTROLLERS: i8 = 2;

/// What a client may do where nobody is refused anything: the bits of `AclOperation` that a topic knows.
const TOPIC_OPERATIONS: i32 = 0b0000_1101_1111_1000;
/// The same of the cluster.
const CLUSTER_OPERATIONS: i32 = 0b0001_1111_1010_0000;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::base::{LeaderEpoch, ShardId, Uuid};
    use crate::metadata::PartitionState;
    use crate::wire::read_request_header;

    fn read_frame(frame: &'static [u8]) -> Result<MetadataRequest, DecodeError> {
        let mut reader = Reader::new(Bytes::from_static(frame));
        let (_, header) = read_request_header(&mut reader).expect("header");
        read(reader, &header)
    }

    /// From confluent-kafka 2.16.1: Metadata v13, client id "rdkafka", body 00 00 00 00 | 01 00 00.
    const ALL_TOPICS: &[u8] = b"\0\x03\0\x0d\0\0\0\x03\0\x07rdkafka\0\0\0\0\0\x01\0\0";

    #[test]
    fn all_topics_of_librdkafka_is_understood() {
        assert_eq!(read_frame(ALL_TOPICS).expect("request").topics, None);
    }

    #[test]
    fn a_refused_partition_has_no_leader_and_the_other_has() {
        let state = PartitionState {
            leader: Some(NodeId(4)),
            shard: ShardId(0),
            leader_epoch: LeaderEpoch(2),
            partition_epoch: 0,
            replicas: [NodeId(4)].into_iter().collect(),
            isr: [NodeId(4)].into_iter().collect(),
        };
        let topic = Topic {
            name: Str::from_static("topic"),
            id: Uuid([7; 16]),
            partitions: vec![state.clone(), state],
        };
        let refused = RefusedPartitions::default();
        let healthy = describe(&topic, &refused).partitions;
        refused.add(TopicPartition {
            topic_id: topic.id,
            partition: PartitionIndex(1),
        });
        let partitions = describe(&topic, &refused).partitions;
        let offline = MetadataResponsePartition {
            error_code: ErrorCode::LeaderNotAvailable.code(),
            leader_id: -1,
            isr_nodes: Vec::new(),
            offline_replicas: vec![4],
            ..healthy[1].clone()
        };
        assert_eq!(healthy[1].replica_nodes, [4]);
        assert_eq!(partitions, [healthy[0].clone(), offline]);
        let (described, rest) = describe_from(&topic, &refused, 1, 5);
        let described = &described.partitions[0];
        assert_eq!((described.error_code, described.leader_id), (0, -1));
        assert_eq!(
            (&described.isr_nodes[..], &described.offline_replicas[..]),
            (&[][..], &[4][..])
        );
        assert_eq!(rest, None);
    }

    #[test]
    fn other_bytes_behind_the_end_are_refused() {
        read_frame(b"\0\x03\0\x0d\0\0\0\x03\0\x07rdkafka\0\0\0\0\0\x01\0\0\0").unwrap_err();
        read_frame(b"\0\x03\0\x0d\0\0\0\x03\0\x07rdkafka\0\x01\0\0\0\x01\0\0").unwrap_err();
    }
}
