//! Fetch: record batches from partitions, waiting for them if there are none yet (G21 to G28).
//! Runs on the shard of the connection; partitions of other shards of the node are asked over the mesh.
//! Always: nothing that is not durable is seen; the first batch comes whole; records are never null (G24).
//! Locating batches is `shard`'s, sending them the pipeline's.
//!
//! Sessions (KIP-227) are not kept: every answer has session id 0, as Kafka's has when its cache is full, and every request
//! then names all its partitions.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::leader_hint::LeaderHints;
use super::produce::{VERSION_BY_ID, find_topic};
use crate::base::limits::FETCH_BYTES_MAX;
use crate::base::{
    ErrorCode, LeaderEpoch, MonoNs, Offset, PartitionIndex, ShardId, TopicPartition,
};
use crate::io::{clock, executor};
use crate::metadata::Image;
use crate::server::outcome::Outcome;
use crate::shard::{FetchAnswer, FetchAsk, Hold, Reply, Shard};
use crate::wire::messages::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    NodeEndpoint, PartitionData,
};
use crate::wire::{Records, RequestHeader, response_frame};

/// One partition of the request, resolved.
struct Wanted {
    topic: usize,
    partition: i32,
    target: Result<(ShardId, FetchAsk), ErrorCode>,
}

pub async fn handle(shard: &Rc<Shard>, header: RequestHeader, request: FetchRequest) -> Outcome {
    shard.counters.fetch_requests.one();
    let version = header.request_api_version;
    if let Some(error) = refused(&request) {
        let response = FetchResponse {
            error_code: error.code(),
            ..Default::default()
        };
        return Outcome::of::<FetchRequest>(header.correlation_id, &response, version);
    }
    let image = shard.image();
    let wanted = resolve(shard, &image, &request, version);
    let budget = usize::try_from(request.max_bytes)
        .unwrap_or(0)
        .min(shard.broker_config().fetch_bytes_max.max(0) as usize)
        .min(FETCH_BYTES_MAX);
    let deadline = clock::mono().plus_ms(i64::from(request.max_wait_ms));
    // Listening first: what becomes durable while we look is not missed. Where that takes a message to another shard, only once
    // there was too little.
    let mut listens = wanted
        .iter()
        .flat_map(|wanted| &wanted.target)
        .all(|(owner, _)| *owner == shard.id);
    let (answers, holds) = loop {
        let moved = listens.then(|| listen(shard, &wanted, deadline));
        let (answers, holds) = look(shard, &wanted, budget).await;
        let bytes: usize = answers.iter().map(FetchAnswer::bytes).sum();
        let failed = answers.iter().any(FetchAnswer::answers_at_once);
        let enough = bytes >= usize::try_from(request.min_bytes).unwrap_or(0);
        if enough || failed || wanted.is_empty() || clock::mono() >= deadline || shard.is_stopping()
        {
            break (answers, holds);
        }
        drop(holds);
        match moved {
            Some(moved) => moved.await,
            None => listens = true,
        }
    };
    respond(&image, &header, &request, &wanted, answers, holds)
}

/// Why the whole request is refused, if it is.
fn refused(request: &FetchRequest) -> Option<ErrorCode> {
    let replica = match request.replica_state.replica_id {
        -1 => request.replica_id,
        id => id,
    };
    if replica >= 0 {
        // There are no followers: nobody may take part in replication.
        return Some(ErrorCode::ClusterAuthorizationFailed);
    }
    match request.session_epoch {
        // Sessionless, or a new session that is not granted, whatever id is left behind (kafka-go sends -1).
        -1 | 0 => None,
        // To go on with a session: there are none (`FetchManager.newContext`).
        _ => Some(ErrorCode::FetchSessionIdNotFound),
    }
}

fn resolve(shard: &Shard, image: &Image, request: &FetchRequest, version: i16) -> Vec<Wanted> {
    let by_id = version >= VERSION_BY_ID;
    let mut wanted = Vec::new();
    for (index, topic) in request.topics.iter().enumerate() {
        let found = find_topic(image, by_id, &topic.topic, topic.topic_id);
        for partition in &topic.partitions {
            let target = found.and_then(|topic| {
                let state = topic
                    .partition(PartitionIndex(partition.partition))
                    .ok_or(ErrorCode::UnknownTopicOrPartition)?;
                if !shard.same_node(state.shard) {
                    return Err(ErrorCode::NotLeaderOrFollower);
                }
                let ask = FetchAsk {
                    partition: TopicPartition {
                        topic_id: topic.id,
                        partition: PartitionIndex(partition.partition),
                    },
                    offset: Offset(partition.fetch_offset),
                    bytes_max: usize::try_from(partition.partition_max_bytes).unwrap_or(0),
                    current_leader_epoch: known_epoch(partition.current_leader_epoch),
                    last_fetched_epoch: known_epoch(partition.last_fetched_epoch),
                };
                Ok((state.shard, ask))
            });
            wanted.push(Wanted {
                topic: index,
                partition: partition.partition,
                target,
            });
        }
    }
    wanted
}

/// An epoch that the client knows; every negative one says that it knows none.
fn known_epoch(epoch: i32) -> LeaderEpoch {
    LeaderEpoch(epoch.max(LeaderEpoch::NONE.0))
}

/// Ends when something moved in one of the partitions, or at the deadline.
fn listen(
    shard: &Rc<Shard>,
    wanted: &[Wanted],
    deadline: MonoNs,
) -> impl Future<Output = ()> + use<> {
    let mut by_shard: BTreeMap<ShardId, Vec<TopicPartition>> = BTreeMap::new();
    for (owner, ask) in wanted.iter().flat_map(|wanted| &wanted.target) {
        by_shard.entry(*owner).or_default().push(ask.partition);
    }
    shard.listen(by_shard, deadline)
}

/// What there is now, in the order of the request. The first partition with records gives at least one batch, whole.
async fn look(
    shard: &Rc<Shard>,
    wanted: &[Wanted],
    budget: usize,
) -> (Vec<FetchAnswer>, Vec<Hold>) {
    let mut answers = Vec::with_capacity(wanted.len());
    let mut holds = Vec::new();
    let mut left = budget;
    let mut first = true;
    for wanted in wanted {
        executor::yield_if_needed().await;
        let (answer, hold) = match &wanted.target {
            Err(error) => (FetchAnswer::failed(*error), None),
            Ok((owner, ask)) => {
                let ask = FetchAsk {
                    bytes_max: ask.bytes_max.min(left),
                    ..*ask
                };
                shard.fetch_held(*owner, ask, first).await
            }
        };
        left = left.saturating_sub(answer.bytes());
        first &= answer.bytes() == 0;
        answers.push(answer);
        holds.extend(hold);
    }
    (answers, holds)
}

fn respond(
    image: &Image,
    header: &RequestHeader,
    request: &FetchRequest,
    wanted: &[Wanted],
    answers: Vec<FetchAnswer>,
    holds: Vec<Hold>,
) -> Outcome {
    let version = header.request_api_version;
    let mut hints = LeaderHints::new(image);
    let mut responses: Vec<FetchableTopicResponse> = request
        .topics
        .iter()
        .map(|topic| FetchableTopicResponse {
            topic: topic.topic.clone(),
            topic_id: topic.topic_id,
            partitions: Vec::with_capacity(topic.partitions.len()),
        })
        .collect();
    let mut ranges = Vec::new();
    for (wanted, answer) in wanted.iter().zip(answers) {
        let topic = &mut responses[wanted.topic];
        let mut data = PartitionData {
            partition_index: wanted.partition,
            error_code: answer.error.code(),
            high_watermark: answer.high_watermark.0,
            last_stable_offset: answer.last_stable_offset.0,
            log_start_offset: answer.log_start_offset.0,
            // Null where nothing was aborted; with an error Kafka has an empty list.
            aborted_transactions: match answer.error {
                ErrorCode::None => None,
                _ => Some(Vec::new()),
            },
            records: Records::Bytes(Default::default()),
            ..Default::default()
        };
        if let Some((epoch, end)) = answer.diverging {
            data.diverging_epoch = EpochEndOffset {
                epoch: epoch.0,
                end_offset: end.0,
            };
        }
        let moved = [ErrorCode::NotLeaderOrFollower, ErrorCode::FencedLeaderEpoch];
        if version >= 12 && moved.contains(&answer.error) {
            let leader = hints.leader(&topic.topic, topic.topic_id, wanted.partition);
            if let Some((leader_id, leader_epoch)) = leader {
                data.current_leader = LeaderIdAndEpoch {
                    leader_id: leader_id.0,
                    leader_epoch: leader_epoch.0,
                };
            }
        }
        if let Some(range) = answer.range {
            data.records = Records::Elsewhere { bytes: range.bytes };
            ranges.push(range);
        }
        topic.partitions.push(data);
    }
    let endpoints = hints.nodes().map(|node| NodeEndpoint {
        node_id: node.id.0,
        host: node.host.clone(),
        port: i32::from(node.port),
        rack: node.rack.clone(),
    });
    let response = FetchResponse {
        node_endpoints: endpoints.collect(),
        responses,
        ..Default::default()
    };
    match response_frame::<FetchRequest>(header.correlation_id, &response, version) {
        Ok(frame) => Outcome::Reply(Reply::new(frame, ranges, holds)),
        Err(error) => Outcome::Close(format!("an answer could not be encoded: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::testing::{image_with_topic, response_in};
    use crate::wire::Str;
    use crate::wire::messages::fetch::{FetchPartition, FetchTopic};

    /// The frame of the answer to a fetch of partition 0 of `t`, which came to this.
    fn frame(
        image: &Image,
        topic_id: crate::base::Uuid,
        version: i16,
        error: ErrorCode,
    ) -> Vec<u8> {
        let request = FetchRequest {
            topics: vec![FetchTopic {
                topic: Str::from("t"),
                topic_id: match version >= VERSION_BY_ID {
                    true => topic_id,
                    false => crate::base::Uuid::ZERO,
                },
                partitions: vec![FetchPartition::default()],
            }],
            ..Default::default()
        };
        let header = RequestHeader {
            request_api_key: 1,
            request_api_version: version,
            correlation_id: 5,
            client_id: None,
        };
        let wanted = [Wanted {
            topic: 0,
            partition: 0,
            target: Err(error),
        }];
        let answers = vec![FetchAnswer::failed(error)];
        match respond(image, &header, &request, &wanted, answers, Vec::new()) {
            Outcome::Reply(reply) => reply.frame.bytes.to_vec(),
            _ => panic!("version {version} and {error}: no reply"),
        }
    }

    #[test]
    fn g21_to_go_on_with_a_session_is_refused_and_to_begin_or_leave_one_is_not() {
        let asked = |session_id, session_epoch| {
            refused(&FetchRequest {
                session_id,
                session_epoch,
                ..Default::default()
            })
        };
        for (id, epoch) in [(0, 0), (0, -1), (-1, -1), (7, -1), (7, 0)] {
            assert_eq!(asked(id, epoch), None, "id {id} epoch {epoch}");
        }
        for (id, epoch) in [(7, 1), (7, i32::MAX), (0, 1), (0, -2), (7, i32::MIN)] {
            let error = Some(ErrorCode::FetchSessionIdNotFound);
            assert_eq!(asked(id, epoch), error, "id {id} epoch {epoch}");
        }
    }

    #[test]
    fn g24_no_records_are_empty_and_never_null() {
        let (image, id) = image_with_topic(1, "t", 1);
        for version in 4..=18 {
            for error in [
                ErrorCode::None,
                ErrorCode::OffsetOutOfRange,
                ErrorCode::UnknownTopicOrPartition,
                ErrorCode::KafkaStorageError,
            ] {
                let bytes = frame(&image, id, version, error);
                // A length of 0; compact, a 1, and behind it the tags of partition, topic and response.
                let end: &[u8] = match version {
                    ..12 => &[0, 0, 0, 0],
                    _ => &[1, 0, 0, 0],
                };
                assert!(bytes.ends_with(end), "version {version} and {error}");
                let response = response_in::<FetchRequest>(&bytes, version);
                let data = &response.responses[0].partitions[0];
                assert_eq!(data.error_code, error.code());
                assert_eq!(data.records, Records::Bytes(Default::default()));
            }
        }
    }

    #[test]
    fn g17_the_wrong_node_names_the_leader_and_its_endpoint_where_the_version_has_room() {
        let (image, id) = image_with_topic(2, "t", 2);
        let topic = image.topic_by_id(id).expect("it was made");
        let leader = topic
            .partition(PartitionIndex(0))
            .expect("it has two")
            .leader;
        let leader = image.node(leader.expect("it is led")).expect("a node");
        for version in 4..=18 {
            let bytes = frame(&image, id, version, ErrorCode::NotLeaderOrFollower);
            let response = response_in::<FetchRequest>(&bytes, version);
            let data = &response.responses[0].partitions[0];
            assert_eq!(data.error_code, 6);
            let named = match version {
                ..12 => LeaderIdAndEpoch::default(),
                _ => LeaderIdAndEpoch {
                    leader_id: leader.id.0,
                    leader_epoch: 0,
                },
            };
            assert_eq!(data.current_leader, named, "version {version}");
            let endpoints: Vec<_> = response
                .node_endpoints
                .iter()
                .map(|node| (node.node_id, node.port))
                .collect();
            let there = match version {
                ..16 => vec![],
                _ => vec![(leader.id.0, i32::from(leader.port))],
            };
            assert_eq!(endpoints, there, "version {version}");
        }
    }
}
