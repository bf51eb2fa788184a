//! IncrementalAlterConfigs and AlterConfigs (Kafka's `ConfigAdminManager` and `ConfigurationControlManager`).
//! Part of the controller.
//! Always: a resource changes as a whole or not at all, and what it has afterwards is valid as a whole.
//! Acting on a changed value is done by whoever resolves it from the next image.

use super::{CommandError, Controller, Outcome, repeated};
use crate::base::{ErrorCode, NodeId};
use crate::metadata::config::{
    self, ConfigMap, Kind, broker_entry, split_list, topic_definition, topic_entry,
};
use crate::metadata::image::ConfigResource;
use crate::metadata::records::MetadataRecord;
use crate::metadata::topic_name;
use crate::wire::Str;
use crate::wire::messages::metadata_records::ConfigRecord;

/// The changes to one resource.
#[derive(Clone, Debug)]
pub struct AlterResource<'a> {
    /// Kafka's number: 2 topic, 4 broker.
    pub kind: i8,
    pub name: &'a str,
    /// For AlterConfigs: all `Set`.
    pub ops: Vec<AlterOp<'a>>,
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub struct AlterOp<'a> {
    pub name: &'a str,
    /// Kafka's number: 0 set, 1 delete, 2 append, 3 subtract.
    pub op: i8,
    pub value: Option<&'a str>,
}

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Bytes of a value (`ConfigurationControlManager`: the length field of a short string).
const VALUE_BYTES_MAX: usize = 32_767;

type Altered = Vec<Result<(), CommandError>>;

impl Controller {
    /// Changes some values of each resource; results in the order of the request.
    pub fn incremental_alter_configs(
        &self,
        resources: &[AlterResource<'_>],
        validate_only: bool,
    ) -> Outcome<Altered> {
        self.alter(resources, validate_only, false)
    }

    /// Replaces all values of each resource: those not named are removed.
    pub fn alter_configs(
        &self,
        resources: &[AlterResource<'_>],
        validate_only: bool,
    ) -> Outcome<Altered> {
        self.alter(resources, validate_only, true)
    }

    fn alter(
        &self,
        resources: &[AlterResource<'_>],
        validate_only: bool,
        replace: bool,
    ) -> Outcome<Altered> {
        let doubles = repeated(resources.iter().map(|r| (r.kind, r.name)));
        let mut records = Vec::new();
        let mut response = Vec::with_capacity(resources.len());
        for resource in resources {
            response.push(
                if doubles
                    .binary_search(&(resource.kind, resource.name))
                    .is_ok()
                {
                    Err(CommandError::new(
                        ErrorCode::InvalidRequest,
                        "Each resource must appear at most once.",
                    ))
                } else {
                    self.alter_resource(resource, replace, &mut records)
                },
            );
        }
        if validate_only {
            records.clear();
        }
        Outcome { records, response }
    }

    fn alter_resource(
        &self,
        resource: &AlterResource<'_>,
        replace: bool,
        records: &mut Vec<MetadataRecord>,
    ) -> Result<(), CommandError> {
        let kind = resource_kind(resource.kind)?;
        check_ops(&resource.ops)?;
        let old = self.resource_configs(kind, resource.name)?;
        let mut new = if replace {
            ConfigMap::new()
        } else {
            old.clone()
        };
        for op in &resource.ops {
            self.change(kind, op, &mut new)?;
        }
        check_value_sizes(new.values().map(|value| value.as_str()))?;
        match kind {
            ConfigResource::Topic => {
                config::check_topic_values(&new, topic_name::is_internal(resource.name))?;
            }
            ConfigResource::Broker => {
                let changed = new
                    .iter()
                    .filter(|(name, value)| old.get(*name) != Some(value));
                config::check_broker_values(changed.map(|(k, v)| (k.as_str(), v.as_str())))?;
                let removed = resource.ops.iter().filter(|op| op.op == DELETE);
                config::check_dynamic(removed.map(|op| op.name))?;
            }
        }
        // From here nothing fails.
        let record = |name: &Str, value: Option<&Str>| {
            MetadataRecord::from(ConfigRecord {
                resource_type: kind.code(),
                resource_name: Str::copy_from(resource.name),
                name: name.clone(),
                value: value.cloned(),
            })
        };
        let removed = old.keys().filter(|name| !new.contains_key(*name));
        records.extend(removed.map(|name| record(name, None)));
        let set = new
            .iter()
            .filter(|(name, value)| old.get(*name) != Some(value));
        records.extend(set.map(|(name, value)| record(name, Some(value))));
        Ok(())
    }

    /// What a resource that may be altered has now.
    fn resource_configs(
        &self,
        kind: ConfigResource,
        name: &str,
    ) -> Result<&ConfigMap, CommandError> {
        match kind {
            ConfigResource::Topic => {
                if name.is_empty() {
                    return Err(CommandError::new(
                        ErrorCode::InvalidRequest,
                        "Default topic resources are not allowed.",
                    ));
                }
                topic_name::check(name)
                    .map_err(|text| CommandError::new(ErrorCode::InvalidTopicException, text))?;
                if self.image.topic(name).is_none() {
                    return Err(CommandError::new(
                        ErrorCode::UnknownTopicOrPartition,
                        format!("The topic '{name}' does not exist."),
                    ));
                }
                Ok(self.image.topic_config(name))
            }
            ConfigResource::Broker if name.is_empty() => Ok(self.image.broker_config("")),
            ConfigResource::Broker => {
                let id = name.parse::<i32>().map(NodeId).map_err(|_| {
                    CommandError::new(
                        ErrorCode::InvalidRequest,
                        format!("Node id must be an integer, but it is: {name}"),
                    )
                })?;
                if self.image.node(id).is_none() {
                    return Err(CommandError::new(
                        ErrorCode::InvalidRequest,
                        format!(
                            "Unexpected broker id, expected {}, but received {name}",
                            self.own_node().id
                        ),
                    ));
                }
                Ok(self.image.broker_config(&id.to_string()))
            }
        }
    }

    /// Carries out one operation on the values so far.
    fn change(
        &self,
        kind: ConfigResource,
        op: &AlterOp<'_>,
        values: &mut ConfigMap,
    ) -> Result<(), CommandError> {
        let given = op.value.unwrap_or_default();
        match op.op {
            SET => {
                values.insert(Str::copy_from(op.name), Str::copy_from(given));
            }
            DELETE => {
                values.remove(op.name);
            }
            APPEND | SUBTRACT => {
                let word = if op.op == APPEND {
                    "APPEND"
                } else {
                    "SUBTRACT"
                };
                if value_kind(kind, op.name) != Some(Kind::List) {
                    return Err(CommandError::new(
                        ErrorCode::InvalidConfig,
                        format!(
                            "Can't {word} to key {} because its type is not LIST.",
                            op.name
                        ),
                    ));
                }
                let now = match values.get(op.name) {
                    Some(value) => value.to_string(),
                    None => self.default_text(kind, op.name),
                };
                let mut list = split_list(&now);
                for element in split_list(given) {
                    match op.op {
                        APPEND if !list.contains(&element) => list.push(element),
                        SUBTRACT => list.retain(|other| *other != element),
                        _ => {}
                    }
                }
                values.insert(Str::copy_from(op.name), Str::from(list.join(",")));
            }
            other => {
                return Err(CommandError::new(
                    ErrorCode::InvalidRequest,
                    format!("Unknown operations type {other}"),
                ));
            }
        }
        Ok(())
    }

    /// What a list is while nobody has set it.
    fn default_text(&self, kind: ConfigResource, name: &str) -> String {
        let value = match kind {
            ConfigResource::Topic => {
                topic_entry(name).map(|entry| self.layers().topic_value(entry, &ConfigMap::new()).0)
            }
            ConfigResource::Broker => self.layers().value(name),
        };
        value.map_or(String::new(), |value| value.to_string())
    }
}

/// The type of a key of this resource.
fn value_kind(kind: ConfigResource, name: &str) -> Option<Kind> {
    match kind {
        ConfigResource::Topic => topic_definition(name).map(|definition| definition.kind),
        ConfigResource::Broker => broker_entry(name).map(|entry| entry.definition.kind),
    }
}

fn resource_kind(code: i8) -> Result<ConfigResource, CommandError> {
    let refuse = |text: String| Err(CommandError::new(ErrorCode::InvalidRequest, text));
    match (ConfigResource::from_code(code), code) {
        (Some(kind), _) => Ok(kind),
        (None, 8) => refuse("Unsupported resource type: BROKER_LOGGER".to_string()),
        (None, 16) => refuse("Unsupported resource type: CLIENT_METRICS".to_string()),
        (None, 32) => refuse("Unsupported resource type: GROUP".to_string()),
        (None, code) => refuse(format!("Unknown resource type {code}")),
    }
}

/// Each key once, and a value where one is needed.
fn check_ops(ops: &[AlterOp<'_>]) -> Result<(), CommandError> {
    let nulls: Vec<&str> = ops
        .iter()
        .filter(|op| op.value.is_none() && op.op != DELETE)
        .map(|op| op.name)
        .collect();
    if !nulls.is_empty() {
        return Err(CommandError::new(
            ErrorCode::InvalidRequest,
            format!("Null value not supported for : {}", nulls.join(",")),
        ));
    }
    if !repeated(ops.iter().map(|op| op.name)).is_empty() {
        return Err(CommandError::new(
            ErrorCode::InvalidRequest,
            "Error due to duplicate config keys",
        ));
    }
    Ok(())
}

/// Values are short strings in the records.
pub(super) fn check_value_sizes<'a>(
    mut values: impl Iterator<Item = &'a str>,
) -> Result<(), CommandError> {
    if values.any(|value| value.len() > VALUE_BYTES_MAX) {
        return Err(CommandError::new(
            ErrorCode::InvalidConfig,
            format!(
                "The configuration value cannot be added because it exceeds the maximum value size of {VALUE_BYTES_MAX} bytes."
            ),
        ));
    }
    Ok(())
}
