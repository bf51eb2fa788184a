//! CreateTopics, DeleteTopics, CreatePartitions, and topics on demand.
//! Decided by the controller on shard 0, reached from any shard.
//! Always: a topic is answered as made when every shard has it.
//! What is allowed, and the texts of refusals, are `metadata::Controller`'s.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::base::{ErrorCode, NodeId, Uuid};
use crate::io::{executor, random};
use crate::metadata::{Assignment, CommandError, CreatedTopic, NewPartitions, NewTopic, TopicRef};
use crate::server::outcome::Outcome;
use crate::shard::Shard;
use crate::wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopicResult,
};
use crate::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};
use crate::wire::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse,
};
use crate::wire::{RequestHeader, Str};

pub async fn create(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: CreateTopicsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let names: Vec<Str> = request
        .topics
        .iter()
        .map(|topic| topic.name.clone())
        .collect();
    let changed = shard
        .change(move |controller| {
            let topics: Vec<NewTopic<'_>> = request.topics.iter().map(new_topic).collect();
            controller.create_topics(&topics, request.validate_only, random_id)
        })
        .await;
    let topics = match changed {
        Ok(results) => results
            .into_iter()
            .map(|(name, result)| created(name, result))
            .collect(),
        Err(error) => names
            .into_iter()
            .map(|name| CreatableTopicResult {
                name,
                error_code: error.code(),
                error_message: Some(Str::from_static(error.message())),
                ..Default::default()
            })
            .collect(),
    };
    let response = CreateTopicsResponse {
        topics,
        ..Default::default()
    };
    Outcome::of::<CreateTopicsRequest>(header.correlation_id, &response, version)
}

fn new_topic(topic: &CreatableTopic) -> NewTopic<'_> {
    let assignments = topic.assignments.iter().map(|assignment| Assignment {
        partition: assignment.partition_index,
        nodes: node_ids(&assignment.broker_ids),
    });
    let configs = topic.configs.iter();
    NewTopic {
        name: &topic.name,
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.collect(),
        configs: configs
            .map(|config| (config.name.as_str(), config.value.as_deref()))
            .collect(),
    }
}

fn created(name: Str, result: Result<CreatedTopic, CommandError>) -> CreatableTopicResult {
    match result {
        Ok(topic) => {
            let configs = topic
                .configs
                .into_iter()
                .map(|entry| CreatableTopicConfigs {
                    name: Str::from_static(entry.name),
                    value: entry.value.map(Str::from),
                    read_only: entry.read_only,
                    config_source: entry.source.code(),
                    is_sensitive: false,
                });
            CreatableTopicResult {
                name,
                topic_id: topic.id,
                error_message: None,
                num_partitions: topic.partitions,
                replication_factor: topic.replication_factor,
                configs: Some(configs.collect()),
                ..Default::default()
            }
        }
        Err(error) => CreatableTopicResult {
            name,
            error_code: error.code.code(),
            error_message: text(&error),
            ..Default::default()
        },
    }
}

pub async fn delete(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: DeleteTopicsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let wanted: Vec<(Option<Str>, Uuid)> = if version >= 6 {
        let topics = request.topics.into_iter();
        topics.map(|topic| (topic.name, topic.topic_id)).collect()
    } else {
        let names = request.topic_names.into_iter();
        names.map(|name| (Some(name), Uuid::ZERO)).collect()
    };
    let asked = wanted.clone();
    let changed = shard
        .change(move |controller| {
            let topics = asked.iter().map(|(name, id)| TopicRef {
                name: name.as_deref(),
                id: *id,
            });
            controller.delete_topics(&topics.collect::<Vec<_>>())
        })
        .await;
    let responses = match changed {
        Ok(results) => results
            .into_iter()
            .map(|deleted| DeletableTopicResult {
                name: deleted.name,
                topic_id: deleted.id,
                error_code: code(&deleted.result),
                error_message: deleted.result.as_ref().err().and_then(text),
            })
            .collect(),
        Err(error) => wanted
            .into_iter()
            .map(|(name, topic_id)| DeletableTopicResult {
                name,
                topic_id,
                error_code: error.code(),
                error_message: None,
            })
            .collect(),
    };
    let response = DeleteTopicsResponse {
        responses,
        ..Default::default()
    };
    Outcome::of::<DeleteTopicsRequest>(header.correlation_id, &response, version)
}

pub async fn create_partitions(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: CreatePartitionsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let names: Vec<Str> = request
        .topics
        .iter()
        .map(|topic| topic.name.clone())
        .collect();
    let changed = shard
        .change(move |controller| {
            let topics = request.topics.iter().map(|topic| NewPartitions {
                name: &topic.name,
                count: topic.count,
                assignments: topic.assignments.as_ref().map(|assignments| {
                    let nodes = assignments.iter().map(|given| node_ids(&given.broker_ids));
                    nodes.collect()
                }),
            });
            controller.create_partitions(&topics.collect::<Vec<_>>(), request.validate_only)
        })
        .await;
    let results = match changed {
        Ok(results) => results
            .into_iter()
            .map(|(name, result)| CreatePartitionsTopicResult {
                name,
                error_code: code(&result),
                error_message: result.as_ref().err().and_then(text),
            })
            .collect(),
        Err(error) => names
            .into_iter()
            .map(|name| CreatePartitionsTopicResult {
                name,
                error_code: error.code(),
                error_message: None,
            })
            .collect(),
    };
    let response = CreatePartitionsResponse {
        results,
        ..Default::default()
    };
    Outcome::of::<CreatePartitionsRequest>(header.correlation_id, &response, version)
}

/// Makes topics that were asked for by name, in the background: the asker comes again.
pub fn create_on_demand(shard: &Rc<Shard>, names: BTreeSet<Str>) {
    let shard = shard.clone();
    executor::spawn_detached(async move {
        for name in names {
            create_now(&shard, name).await;
        }
    });
}

/// Makes one topic with the defaults of its kind.
pub async fn create_now(shard: &Rc<Shard>, name: Str) {
    let wanted = name.detach();
    let result = shard
        .change(move |controller| {
            let segment_bytes = controller.config().offsets_topic_segment_bytes.to_string();
            let topic = controller.topic_on_demand(&wanted, &segment_bytes);
            controller.create_topics(&[topic], false, random_id)
        })
        .await;
    let refused = match result {
        Ok(results) => results.into_iter().find_map(|(_, result)| result.err()),
        Err(code) => Some(CommandError {
            code,
            message: None,
        }),
    };
    match refused {
        None => {}
        // Asked for by several at the same time.
        Some(error) if error.code == ErrorCode::TopicAlreadyExists => {}
        Some(error) => tracing::warn!(topic = %name, "topic not made on demand: {}", error.code),
    }
}

fn random_id() -> Uuid {
    Uuid::from_random(random::bytes())
}

fn node_ids(ids: &[i32]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

fn code<T>(result: &Result<T, CommandError>) -> i16 {
    match result {
        Ok(_) => ErrorCode::None.code(),
        Err(error) => error.code.code(),
    }
}

/// The text of a refusal: its own, or that of its code.
pub fn text(error: &CommandError) -> Option<Str> {
    Some(match &error.message {
        Some(message) => Str::from(message.clone()),
        None => Str::from_static(error.code.message()),
    })
}
