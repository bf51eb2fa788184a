//! Produce: appends record batches and answers when they are on the disk (G8, G12, G17; KIP-467, KIP-951).
//! Runs on the shard of the connection; a partition of another shard of the same node is passed to it.
//! Always: partitions are appended in the order of the request before the next request of the connection begins; acks=0 is never
//! answered, an error closes the connection instead.
//! Checking and placing a batch is `shard`'s.

use std::pin::Pin;
use std::rc::Rc;

use super::leader_hint::LeaderHints;
use crate::base::{ErrorCode, PartitionIndex, ShardId, TopicPartition, Uuid};
use crate::metadata::{Image, Topic};
use crate::server::connection::Peer;
use crate::server::outcome::{Outcome, encode};
use crate::shard::{AppendRequest, Appended, BatchBytes, Refused, Shard};
use crate::wire::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use crate::wire::{Records, RequestHeader, Str};

/// A request, however it was received.
pub struct ProduceInput {
    pub transactional_id: Option<Str>,
    pub acks: i16,
    pub items: Vec<Item>,
}

/// The records for one partition.
pub struct Item {
    /// Items of one topic of the request share it.
    pub topic_index: usize,
    pub topic: Str,
    pub topic_id: Uuid,
    pub partition: i32,
    /// `None` is null.
    pub records: Option<BatchBytes>,
}

/// What becomes of one item.
enum Answer {
    Known(Result<Appended, Refused>),
    Coming(Pin<Box<dyn Future<Output = Result<Appended, Refused>>>>),
}

/// An item without its records, to be named in the answer.
struct Named {
    topic_index: usize,
    topic: Str,
    topic_id: Uuid,
    partition: i32,
}

/// A request that was decoded whole.
pub async fn handle(
    shard: &Rc<Shard>,
    peer: &Peer,
    header: RequestHeader,
    request: ProduceRequest,
) -> Outcome {
    let mut items = Vec::new();
    for (topic_index, topic) in request.topic_data.into_iter().enumerate() {
        for partition in topic.partition_data {
            items.push(Item {
                topic_index,
                topic: topic.name.clone(),
                topic_id: topic.topic_id,
                partition: partition.index,
                records: match partition.records {
                    Records::Bytes(bytes) => Some(BatchBytes::Frame(bytes)),
                    Records::Null | Records::Elsewhere { .. } => None,
                },
            });
        }
    }
    let input = ProduceInput {
        transactional_id: request.transactional_id,
        acks: request.acks,
        items,
    };
    begin(shard, peer, header, input).await
}

/// Appends everything that is this shard's; the answer comes when it is durable.
pub async fn begin(
    shard: &Rc<Shard>,
    _peer: &Peer,
    header: RequestHeader,
    input: ProduceInput,
) -> Outcome {
    shard.counters.produce_requests.one();
    let version = header.request_api_version;
    let acks = input.acks;
    let image = shard.image();
    let request = AppendRequest {
        acks,
        zstd_allowed: version >= 7,
    };
    let by_id = version >= VERSION_BY_ID;
    let transactional = input.transactional_id.is_some();
    let mut named = Vec::with_capacity(input.items.len());
    let mut answers = Vec::with_capacity(input.items.len());
    for item in input.items {
        let answer = match check_item(&image, &item, by_id, acks, transactional) {
            Err(error) => Answer::Known(Err(Refused::code(error))),
            Ok((topic_id, owner)) => {
                let partition = TopicPartition {
                    topic_id,
                    partition: PartitionIndex(item.partition),
                };
                match item.records {
                    None => Answer::Known(Err(Refused::code(ErrorCode::InvalidRecord))),
                    Some(records) => append(shard, partition, owner, records, request).await,
                }
            }
        };
        named.push(Named {
            topic_index: item.topic_index,
            topic: item.topic,
            topic_id: item.topic_id,
            partition: item.partition,
        });
        answers.push(answer);
    }
    if acks == 0 {
        return silent(answers).await;
    }
    let correlation_id = header.correlation_id;
    if answers
        .iter()
        .all(|answer| matches!(answer, Answer::Known(_)))
    {
        let results = answers.into_iter().map(|answer| match answer {
            Answer::Known(result) => result,
            Answer::Coming(_) => unreachable!("all were just seen to be known"),
        });
        let response = respond(&image, named, results.collect(), version);
        return Outcome::of::<ProduceRequest>(correlation_id, &response, version);
    }
    Outcome::Later(Box::pin(async move {
        let mut results = Vec::with_capacity(answers.len());
        for answer in answers {
            results.push(match answer {
                Answer::Known(result) => result,
                Answer::Coming(result) => result.await,
            });
        }
        let response = respond(&image, named, results, version);
        encode::<ProduceRequest>(correlation_id, &response, version).ok()
    }))
}

/// The topic and the shard that an item belongs to, or why it can't be appended.
fn check_item(
    image: &Image,
    item: &Item,
    by_id: bool,
    acks: i16,
    transactional: bool,
) -> Result<(Uuid, ShardId), ErrorCode> {
    let topic = find_topic(image, by_id, &item.topic, item.topic_id)?;
    let partition = topic
        .partition(PartitionIndex(item.partition))
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !(-1..=1).contains(&acks) {
        return Err(ErrorCode::InvalidRequiredAcks);
    }
    if topic.is_internal() {
        return Err(ErrorCode::InvalidTopicException);
    }
    if transactional {
        // There are no transactions to belong to.
        return Err(ErrorCode::InvalidTxnState);
    }
    Ok((topic.id, partition.shard))
}

/// The topic that a request names, by id or by name as its version does (G27).
pub fn find_topic<'a>(
    image: &'a Image,
    by_id: bool,
    name: &str,
    id: Uuid,
) -> Result<&'a std::sync::Arc<Topic>, ErrorCode> {
    if !by_id {
        return image.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition);
    }
    image.topic_by_id(id).ok_or(ErrorCode::UnknownTopicId)
}

/// The first version of Produce, and of Fetch, that names topics by id.
pub const VERSION_BY_ID: i16 = 13;

async fn append(
    shard: &Rc<Shard>,
    partition: TopicPartition,
    owner: ShardId,
    records: BatchBytes,
    request: AppendRequest,
) -> Answer {
    if owner == shard.id {
        let Some(cell) = shard.cell(partition) else {
            return Answer::Known(Err(Refused::code(ErrorCode::UnknownTopicOrPartition)));
        };
        return match shard.append(&cell, records, request).await {
            Ok((appended, None)) => Answer::Known(Ok(appended)),
            Ok((appended, Some(durable))) => Answer::Coming(Box::pin(async move {
                match durable.await {
                    Some(Ok(())) => Ok(appended),
                    Some(Err(error)) => Err(Refused::code(error)),
                    None => Err(Refused::code(ErrorCode::NotLeaderOrFollower)),
                }
            })),
            Err(refused) => Answer::Known(Err(refused)),
        };
    }
    if !shard.same_node(owner) {
        return Answer::Known(Err(Refused::code(ErrorCode::NotLeaderOrFollower)));
    }
    shard.counters.cross_shard_produce.one();
    let bytes = match records {
        BatchBytes::Frame(bytes) => bytes,
        // While it came, the topic was deleted and made again there.
        BatchBytes::InPlace(place) => place.into_frame(),
    };
    let answer = shard.at(owner, move |shard| async move {
        let Some(cell) = shard.cell(partition) else {
            return Err(Refused::code(ErrorCode::UnknownTopicOrPartition));
        };
        let (appended, durable) = shard
            .append(&cell, BatchBytes::Frame(bytes), request)
            .await?;
        match durable {
            None => Ok(appended),
            Some(durable) => match durable.await {
                Some(Ok(())) => Ok(appended),
                Some(Err(error)) => Err(Refused::code(error)),
                None => Err(Refused::code(ErrorCode::NotLeaderOrFollower)),
            },
        }
    });
    Answer::Coming(Box::pin(async move {
        answer
            .await
            .unwrap_or_else(|_gone| Err(Refused::code(ErrorCode::NotLeaderOrFollower)))
    }))
}

/// acks=0: no answer; an error ends the connection (`KafkaApis.handleProduceRequest`).
async fn silent(answers: Vec<Answer>) -> Outcome {
    for answer in answers {
        let result = match answer {
            Answer::Known(result) => result,
            // On another shard, which may be slower than the network: without a wait, what is on its way there would pile up.
            Answer::Coming(result) => result.await,
        };
        if let Err(refused) = result {
            return Outcome::Close(format!("acks=0 and {}: {}", refused.error, refused.text()));
        }
    }
    Outcome::Silent
}

fn respond(
    image: &Image,
    named: Vec<Named>,
    results: Vec<Result<Appended, Refused>>,
    version: i16,
) -> ProduceResponse {
    let mut hints = LeaderHints::new(image);
    let mut responses: Vec<(usize, TopicProduceResponse)> = Vec::new();
    for (item, result) in named.into_iter().zip(results) {
        if responses
            .last()
            .is_none_or(|(index, _)| *index != item.topic_index)
        {
            let topic = TopicProduceResponse {
                name: item.topic.clone(),
                topic_id: item.topic_id,
                partition_responses: Vec::new(),
            };
            responses.push((item.topic_index, topic));
        }
        let response = match result {
            Ok(appended) => PartitionProduceResponse {
                index: item.partition,
                error_code: ErrorCode::None.code(),
                base_offset: appended.base_offset.0,
                log_append_time_ms: appended.log_append_time.0,
                log_start_offset: appended.log_start.0,
                ..Default::default()
            },
            Err(refused) => refusal(&mut hints, &item, refused, version),
        };
        let (_, topic) = responses.last_mut().expect("one was just pushed");
        topic.partition_responses.push(response);
    }
    let node_endpoints = hints.nodes().map(|node| NodeEndpoint {
        node_id: node.id.0,
        host: node.host.clone(),
        port: i32::from(node.port),
        rack: node.rack.clone(),
    });
    ProduceResponse {
        responses: responses.into_iter().map(|(_, topic)| topic).collect(),
        throttle_time_ms: 0,
        node_endpoints: node_endpoints.collect(),
    }
}

fn refusal(
    hints: &mut LeaderHints<'_>,
    item: &Named,
    refused: Refused,
    version: i16,
) -> PartitionProduceResponse {
    let mut response = PartitionProduceResponse {
        index: item.partition,
        error_code: refused.error.code(),
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: refused.log_start.0,
        error_message: refused.message.map(Str::from),
        record_errors: refused
            .record_errors
            .into_iter()
            .map(|(batch_index, message)| BatchIndexAndErrorMessage {
                batch_index,
                batch_index_error_message: Some(Str::from(message)),
            })
            .collect(),
        ..Default::default()
    };
    if refused.error == ErrorCode::NotLeaderOrFollower && version >= 10 {
        let leader = hints.leader(&item.topic, item.topic_id, item.partition);
        if let Some((leader_id, leader_epoch)) = leader {
            response.current_leader = LeaderIdAndEpoch {
                leader_id: leader_id.0,
                leader_epoch: leader_epoch.0,
            };
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::testing::{image_with_topic, response_in};
    use crate::wire::response_frame;

    #[test]
    fn g17_the_wrong_node_names_the_leader_and_its_endpoint_where_the_version_has_room() {
        let (image, id) = image_with_topic(2, "t", 2);
        for version in 3..=13 {
            let named = (0..2).map(|partition| Named {
                topic_index: 0,
                topic: Str::from("t"),
                topic_id: match version >= VERSION_BY_ID {
                    true => id,
                    false => Uuid::ZERO,
                },
                partition,
            });
            let results = vec![
                Err(Refused::code(ErrorCode::NotLeaderOrFollower)),
                Err(Refused::code(ErrorCode::KafkaStorageError)),
            ];
            let response = respond(&image, named.collect(), results, version);
            let frame = response_frame::<ProduceRequest>(5, &response, version).expect("encodes");
            let response = response_in::<ProduceRequest>(&frame.bytes, version);
            let partitions = &response.responses[0].partition_responses;
            let codes: Vec<_> = partitions.iter().map(|one| one.error_code).collect();
            assert_eq!(codes, [6, 56], "version {version}");
            let leader = image
                .topic_by_id(id)
                .and_then(|topic| topic.partition(PartitionIndex(0))?.leader);
            let leader = image.node(leader.expect("it is led")).expect("a node");
            let named = match version {
                ..10 => LeaderIdAndEpoch::default(),
                _ => LeaderIdAndEpoch {
                    leader_id: leader.id.0,
                    leader_epoch: 0,
                },
            };
            assert_eq!(partitions[0].current_leader, named, "version {version}");
            assert_eq!(
                partitions[1].current_leader,
                LeaderIdAndEpoch::default(),
                "another error"
            );
            let endpoints: Vec<_> = response
                .node_endpoints
                .iter()
                .map(|node| (node.node_id, node.port))
                .collect();
            let there = match version {
                ..10 => vec![],
                _ => vec![(leader.id.0, i32::from(leader.port))],
            };
            assert_eq!(endpoints, there, "version {version}");
        }
    }
}
