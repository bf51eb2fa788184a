//! What a cluster is asked before and after a run: leaders, topics made and deleted, offsets, configuration.
//! Calls on one connection.
//! Always: a topic that is given back has a leader for each of its partitions.
//! Which partition goes to whom is the caller's.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;

use super::connection::Connection;
use super::error::ClientError;
use crate::base::{ErrorCode, Uuid};
use crate::io::{clock, executor};
use crate::wire::Str;
use crate::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use crate::wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use crate::wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use crate::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use crate::wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic,
};

/// A topic whose partitions all have a leader.
#[derive(Clone, Debug)]
pub struct Topic {
    pub name: String,
    /// Zero where the broker tells none.
    pub id: Uuid,
    /// `HOST:PORT` of the leader, by partition.
    pub leaders: Vec<String>,
}

impl Topic {
    pub fn name_str(&self) -> Str {
        Str::copy_from(&self.name)
    }

    pub fn partitions(&self) -> usize {
        self.leaders.len()
    }
}

/// Which end of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Earliest,
    Latest,
}

const LEADERS_WAIT_MS: i64 = 30_000;
const LEADERS_POLL: Duration = Duration::from_millis(20);
const TOPIC_TIMEOUT_MS: i32 = 30_000;
/// Kinds of what has a configuration.
const RESOURCE_TOPIC: i8 = 2;
const RESOURCE_BROKER: i8 = 4;

/// A topic that was just made: a broker may hear of it a moment later.
pub async fn find_made(connection: &mut Connection, name: &str) -> Result<Topic, ClientError> {
    let deadline = clock::mono().plus_ms(LEADERS_WAIT_MS);
    loop {
        if let Some(topic) = find(connection, name).await? {
            return Ok(topic);
        }
        if clock::mono() > deadline {
            let code = ErrorCode::UnknownTopicOrPartition.code();
            let what = format!("topic {name} was made, but");
            return Err(ClientError::refused(what, code, None));
        }
        executor::sleep(LEADERS_POLL).await;
    }
}

/// The topic if it is there, once all its partitions have leaders.
pub async fn find(connection: &mut Connection, name: &str) -> Result<Option<Topic>, ClientError> {
    let deadline = clock::mono().plus_ms(LEADERS_WAIT_MS);
    loop {
        let answer = describe(connection, name).await?;
        let Some(topic) = answer.topics.first() else {
            return Ok(None);
        };
        if topic.error_code == ErrorCode::UnknownTopicOrPartition.code() {
            return Ok(None);
        }
        if let Some(found) = with_leaders(&answer, topic) {
            return Ok(Some(found));
        }
        let code = match topic.error_code {
            0 => ErrorCode::LeaderNotAvailable.code(),
            code => code,
        };
        if clock::mono() > deadline || FINAL.map(ErrorCode::code).contains(&code) {
            let what = format!("the leaders of topic {name}");
            return Err(ClientError::refused(what, code, None));
        }
        executor::sleep(LEADERS_POLL).await;
    }
}

/// What waiting does not change.
const FINAL: [ErrorCode; 2] = [
    ErrorCode::InvalidTopicException,
    ErrorCode::TopicAuthorizationFailed,
];

async fn describe(
    connection: &mut Connection,
    name: &str,
) -> Result<MetadataResponse, ClientError> {
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            topic_id: Uuid::ZERO,
            name: Some(Str::copy_from(name)),
        }]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    connection.call(&request).await
}

fn with_leaders(answer: &MetadataResponse, topic: &MetadataResponseTopic) -> Option<Topic> {
    let brokers: HashMap<i32, String> = answer
        .brokers
        .iter()
        .map(|broker| (broker.node_id, host_port(&broker.host, broker.port)))
        .collect();
    if topic.error_code != 0 || topic.partitions.is_empty() {
        return None;
    }
    let mut leaders = vec![None; topic.partitions.len()];
    for partition in &topic.partitions {
        let index = usize::try_from(partition.partition_index).ok()?;
        *leaders.get_mut(index)? = brokers.get(&partition.leader_id).cloned();
    }
    Some(Topic {
        name: topic.name.as_deref().unwrap_or_default().to_owned(),
        id: topic.topic_id,
        leaders: leaders.into_iter().collect::<Option<_>>()?,
    })
}

fn host_port(host: &str, port: i32) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Makes a topic, with as many replicas as the broker's default says.
pub async fn create(
    connection: &mut Connection,
    name: &str,
    partitions: i32,
    configs: &[(String, String)],
) -> Result<(), ClientError> {
    let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
        name: Str::copy_from(name),
        value: Some(Str::copy_from(value)),
    });
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: Str::copy_from(name),
            num_partitions: partitions,
            replication_factor: -1,
            configs: configs.collect(),
            ..CreatableTopic::default()
        }],
        timeout_ms: TOPIC_TIMEOUT_MS,
        ..CreateTopicsRequest::default()
    };
    let answer = connection.call(&request).await?;
    match answer.topics.first() {
        Some(result) if result.error_code != 0 => Err(ClientError::refused(
            format!("topic {name} can't be made"),
            result.error_code,
            result.error_message.as_deref(),
        )),
        _ => Ok(()),
    }
}

pub async fn delete(connection: &mut Connection, topic: &Topic) -> Result<(), ClientError> {
    let request = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some(topic.name_str()),
            topic_id: Uuid::ZERO,
        }],
        topic_names: vec![topic.name_str()],
        timeout_ms: TOPIC_TIMEOUT_MS,
    };
    let version = connection.version(crate::wire::ApiKey::DeleteTopics)?;
    let request = match version {
        6.. => DeleteTopicsRequest {
            topic_names: Vec::new(),
            ..request
        },
        _ => DeleteTopicsRequest {
            topics: Vec::new(),
            ..request
        },
    };
    let answer = connection.call(&request).await?;
    match answer.responses.first() {
        Some(result) if result.error_code != 0 => Err(ClientError::refused(
            format!("topic {} can't be deleted", topic.name),
            result.error_code,
            result.error_message.as_deref(),
        )),
        _ => Ok(()),
    }
}

/// The offsets of these partitions, all led by the broker that is asked: waited for if it does not know yet that it leads.
pub async fn offsets(
    connection: &mut Connection,
    topic: &Topic,
    partitions: &[i32],
    end: End,
) -> Result<Vec<(i32, i64)>, ClientError> {
    let deadline = clock::mono().plus_ms(LEADERS_WAIT_MS);
    loop {
        match offsets_now(connection, topic, partitions, end).await {
            Err(ClientError::Refused { code, .. })
                if SETTLING.iter().any(|known| known.code() == code)
                    && clock::mono() < deadline =>
            {
                executor::sleep(LEADERS_POLL).await;
            }
            answered => return answered,
        }
    }
}

/// What a broker says of a partition that was made just now.
const SETTLING: [ErrorCode; 3] = [
    ErrorCode::NotLeaderOrFollower,
    ErrorCode::LeaderNotAvailable,
    ErrorCode::UnknownTopicOrPartition,
];

async fn offsets_now(
    connection: &mut Connection,
    topic: &Topic,
    partitions: &[i32],
    end: End,
) -> Result<Vec<(i32, i64)>, ClientError> {
    let timestamp = match end {
        End::Earliest => -2,
        End::Latest => -1,
    };
    let wanted = partitions.iter().map(|&index| ListOffsetsPartition {
        partition_index: index,
        timestamp,
        ..ListOffsetsPartition::default()
    });
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: topic.name_str(),
            partitions: wanted.collect(),
        }],
        ..ListOffsetsRequest::default()
    };
    let answer = connection.call(&request).await?;
    let mut found = Vec::with_capacity(partitions.len());
    for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        if partition.error_code != 0 {
            let what = format!(
                "the offsets of {}-{}",
                topic.name, partition.partition_index
            );
            return Err(ClientError::refused(what, partition.error_code, None));
        }
        found.push((partition.partition_index, partition.offset));
    }
    Ok(found)
}

/// Configuration values of a topic, those the broker tells.
pub async fn topic_configs(
    connection: &mut Connection,
    topic: &str,
    keys: &[&str],
) -> Result<BTreeMap<String, String>, ClientError> {
    configs(connection, RESOURCE_TOPIC, topic, keys).await
}

/// Configuration values of one broker, those it tells.
pub async fn broker_configs(
    connection: &mut Connection,
    node: i32,
    keys: &[&str],
) -> Result<BTreeMap<String, String>, ClientError> {
    configs(connection, RESOURCE_BROKER, &node.to_string(), keys).await
}

async fn configs(
    connection: &mut Connection,
    kind: i8,
    name: &str,
    keys: &[&str],
) -> Result<BTreeMap<String, String>, ClientError> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: kind,
            resource_name: Str::copy_from(name),
            configuration_keys: Some(keys.iter().map(|key| Str::copy_from(key)).collect()),
        }],
        ..DescribeConfigsRequest::default()
    };
    let answer = connection.call(&request).await?;
    let mut found = BTreeMap::new();
    for result in answer.results {
        if result.error_code != 0 {
            let what = format!("the configuration of {name}");
            let message = result.error_message.as_deref();
            return Err(ClientError::refused(what, result.error_code, message));
        }
        for config in result.configs {
            if let Some(value) = config.value {
                found.insert(config.name.to_string(), value.to_string());
            }
        }
    }
    Ok(found)
}

/// Node ids and `HOST:PORT` of all brokers.
pub async fn brokers(connection: &mut Connection) -> Result<Vec<(i32, String)>, ClientError> {
    let request = MetadataRequest {
        topics: Some(Vec::new()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let answer = connection.call(&request).await?;
    let brokers = answer.brokers.iter();
    Ok(brokers
        .map(|broker| (broker.node_id, host_port(&broker.host, broker.port)))
        .collect())
}
