//! DescribeConfigs, AlterConfigs, IncrementalAlterConfigs (G45).
//! Described from the image on any shard; altered by the controller on shard 0.
//! Always: what is shown is what is in force, with Kafka's names, sources and synonyms.
//! Definitions, and what may be set, are `metadata::config`'s.

use std::rc::Rc;

use super::topics::text;
use crate::base::{ErrorCode, NodeId};
use crate::io::executor;
use crate::metadata::config::ConfigEntry;
use crate::metadata::{AlterOp, AlterResource, CommandError, ConfigResource, topic_name};
use crate::server::outcome::{Outcome, Room};
use crate::shard::Shard;
use crate::wire::messages::alter_configs as legacy;
use crate::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use crate::wire::messages::incremental_alter_configs as incremental;
use crate::wire::{RequestHeader, Str};

pub async fn describe(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: DescribeConfigsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let mut room = Room::new();
    let mut results = Vec::new();
    for resource in &request.resources {
        executor::yield_if_needed().await;
        let (error, configs) = match entries(shard, resource) {
            Ok(entries) => (None, select(entries, resource, &request)),
            Err(error) => (Some(error), Vec::new()),
        };
        if let Err(end) = room.take(configs.iter().map(bytes_of).sum()) {
            return end;
        }
        results.push(DescribeConfigsResult {
            error_code: error.as_ref().map_or(0, |error| error.code.code()),
            error_message: match &error {
                Some(error) => text(error),
                None => Some(Str::default()),
            },
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs,
        });
    }
    let response = DescribeConfigsResponse {
        throttle_time_ms: 0,
        results,
    };
    Outcome::of::<DescribeConfigsRequest>(header.correlation_id, &response, version)
}

/// About what an entry takes, in memory or encoded.
fn bytes_of(entry: &DescribeConfigsResourceResult) -> usize {
    let length = |text: &Option<Str>| text.as_ref().map_or(0, |text| text.len());
    let synonyms = entry.synonyms.iter().map(|synonym| {
        size_of::<DescribeConfigsSynonym>() + synonym.name.len() + length(&synonym.value)
    });
    size_of::<DescribeConfigsResourceResult>()
        + entry.name.len()
        + length(&entry.value)
        + length(&entry.documentation)
        + synonyms.sum::<usize>()
}

/// Every entry of a resource, as `ConfigHelper.describeConfigs`.
fn entries(
    shard: &Shard,
    resource: &DescribeConfigsResource,
) -> Result<Vec<ConfigEntry>, CommandError> {
    let image = shard.image();
    let layers = image.broker_layers(shard.node, shard.statics());
    let name = resource.resource_name.as_str();
    let refuse = |code, message: String| {
        Err(CommandError {
            code,
            message: Some(message),
        })
    };
    match ConfigResource::from_code(resource.resource_type) {
        Some(ConfigResource::Topic) => {
            if let Err(message) = topic_name::check(name) {
                return refuse(ErrorCode::InvalidTopicException, message);
            }
            if image.topic(name).is_none() {
                return Err(CommandError {
                    code: ErrorCode::UnknownTopicOrPartition,
                    message: None,
                });
            }
            Ok(layers.describe_topic(image.topic_config(name)))
        }
        Some(ConfigResource::Broker) if name.is_empty() => Ok(layers.describe_default()),
        Some(ConfigResource::Broker) => match name.parse::<i32>() {
            Err(_) => refuse(
                ErrorCode::InvalidRequest,
                format!("Broker id must be an integer, but it is: {name}"),
            ),
            Ok(id) if NodeId(id) != shard.node => refuse(
                ErrorCode::InvalidRequest,
                format!(
                    "Unexpected broker id, expected {} or empty string, but received {name}",
                    shard.node
                ),
            ),
            Ok(_) => Ok(layers.describe_broker()),
        },
        None => refuse(
            ErrorCode::InvalidRequest,
            format!("Unsupported resource type: {}", resource.resource_type),
        ),
    }
}

fn select(
    entries: Vec<ConfigEntry>,
    resource: &DescribeConfigsResource,
    request: &DescribeConfigsRequest,
) -> Vec<DescribeConfigsResourceResult> {
    // Null and empty both ask for all.
    let keys = resource
        .configuration_keys
        .as_ref()
        .filter(|keys| !keys.is_empty());
    let wanted = |entry: &ConfigEntry| {
        keys.is_none_or(|keys| keys.iter().any(|key| key.as_str() == entry.name))
    };
    let entries = entries.into_iter().filter(wanted);
    entries
        .map(|entry| DescribeConfigsResourceResult {
            name: Str::from_static(entry.name),
            value: entry.value.map(Str::from),
            read_only: entry.read_only,
            config_source: entry.source.code(),
            is_sensitive: false,
            synonyms: if request.include_synonyms {
                let synonyms = entry.synonyms.into_iter();
                synonyms
                    .map(|synonym| DescribeConfigsSynonym {
                        name: Str::from_static(synonym.name),
                        value: Some(Str::from(synonym.value)),
                        source: synonym.source.code(),
                    })
                    .collect()
            } else {
                Vec::new()
            },
            config_type: entry.kind,
            documentation: request
                .include_documentation
                .then(|| Str::from_static(entry.documentation)),
        })
        .collect()
}

pub async fn alter(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: legacy::AlterConfigsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let asked = request.clone();
    let changed = shard
        .change(move |controller| {
            let resources = asked.resources.iter().map(|resource| AlterResource {
                kind: resource.resource_type,
                name: &resource.resource_name,
                ops: resource
                    .configs
                    .iter()
                    .map(|config| AlterOp {
                        name: &config.name,
                        op: 0,
                        value: config.value.as_deref(),
                    })
                    .collect(),
            });
            controller.alter_configs(&resources.collect::<Vec<_>>(), asked.validate_only)
        })
        .await;
    let results = per_resource(changed, request.resources.len());
    let responses = request.resources.into_iter().zip(results);
    let responses = responses
        .map(|(resource, refused)| legacy::AlterConfigsResourceResponse {
            error_code: refused.as_ref().map_or(0, |error| error.code.code()),
            error_message: refused.as_ref().and_then(text),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        })
        .collect();
    let response = legacy::AlterConfigsResponse {
        throttle_time_ms: 0,
        responses,
    };
    Outcome::of::<legacy::AlterConfigsRequest>(header.correlation_id, &response, version)
}

pub async fn alter_incrementally(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: incremental::IncrementalAlterConfigsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let asked = request.clone();
    let changed = shard
        .change(move |controller| {
            let resources = asked.resources.iter().map(|resource| AlterResource {
                kind: resource.resource_type,
                name: &resource.resource_name,
                ops: resource
                    .configs
                    .iter()
                    .map(|config| AlterOp {
                        name: &config.name,
                        op: config.config_operation,
                        value: config.value.as_deref(),
                    })
                    .collect(),
            });
            controller
                .incremental_alter_configs(&resources.collect::<Vec<_>>(), asked.validate_only)
        })
        .await;
    let results = per_resource(changed, request.resources.len());
    let responses = request.resources.into_iter().zip(results);
    let responses = responses
        .map(
            |(resource, refused)| incremental::AlterConfigsResourceResponse {
                error_code: refused.as_ref().map_or(0, |error| error.code.code()),
                error_message: refused.as_ref().and_then(text),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name,
            },
        )
        .collect();
    let response = incremental::IncrementalAlterConfigsResponse {
        throttle_time_ms: 0,
        responses,
    };
    Outcome::of::<incremental::IncrementalAlterConfigsRequest>(
        header.correlation_id,
        &response,
        version,
    )
}

/// What refused each resource of a request, if anything did.
fn per_resource(
    changed: Result<Vec<Result<(), CommandError>>, ErrorCode>,
    resources: usize,
) -> Vec<Option<CommandError>> {
    match changed {
        Ok(results) => results.into_iter().map(Result::err).collect(),
        Err(code) => {
            let error = CommandError {
                code,
                message: None,
            };
            vec![Some(error); resources]
        }
    }
}
