//! May these values be set while the broker runs? The checks of IncrementalAlterConfigs, AlterConfigs and CreateTopics.
//! Pure functions over the tables; the controller calls them before it makes records.
//! Always: what is refused is refused in Kafka's words where Kafka refuses it too, else in words that say what is not served.
//! Operations (set, append, ...) are the controller's: here values are final.

use super::broker_table::broker_entry;
use super::definition::{Value, split_list};
use super::not_honoured::is_not_honoured;
use super::resolve::ConfigMap;
use super::topic_table::topic_definition;
use crate::base::ErrorCode;

/// A refused change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlterError {
    pub code: ErrorCode,
    pub message: String,
}

const COMPACT_REFUSED: &str = "cleanup.policy=compact is not served by this broker: only delete is (or an empty value, which keeps everything).";

/// All values a topic would have. `internal`: a topic of the broker itself, which may be compacted.
pub fn check_topic_values(values: &ConfigMap, internal: bool) -> Result<(), AlterError> {
    let refuse = |message: String| {
        Err(AlterError {
            code: ErrorCode::InvalidConfig,
            message,
        })
    };
    for name in values.keys() {
        if topic_definition(name).is_none() {
            return refuse(format!("Unknown topic config name: {name}"));
        }
    }
    for (name, text) in values {
        let definition = topic_definition(name).expect("looked up above");
        let value = match definition.parse(text) {
            Ok(value) => value,
            Err(error) => return refuse(error.to_string()),
        };
        match (name.as_str(), value) {
            ("cleanup.policy", Value::List(policies))
                if !internal && policies.iter().any(|policy| policy == "compact") =>
            {
                return refuse(COMPACT_REFUSED.to_string());
            }
            ("remote.storage.enable", Value::Boolean(true)) => {
                return refuse("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.".to_string());
            }
            _ => {}
        }
    }
    let lag = |name: &str| {
        let definition = topic_definition(name).expect("a topic config");
        let own = values.get(name).map(|text| definition.parse(text));
        match own.and_then(Result::ok).or(definition.default_value()) {
            Some(Value::Integer(value)) => value,
            other => panic!("topic config {name} is no number: {other:?}"),
        }
    };
    let (min, max) = (lag("min.compaction.lag.ms"), lag("max.compaction.lag.ms"));
    if min > max {
        return refuse(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        ));
    }
    Ok(())
}

/// The values that a request sets on a broker, or on all.
pub fn check_broker_values<'a>(
    values: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Result<(), AlterError> {
    let refuse = |code: ErrorCode, message: String| Err(AlterError { code, message });
    let is_known = |name: &str| broker_entry(name).is_some() || is_not_honoured(name);
    if let Some((name, _)) = values.clone().find(|(name, _)| !is_known(name)) {
        return refuse(
            ErrorCode::InvalidConfig,
            format!("Unknown broker config name: {name}"),
        );
    }
    check_dynamic(values.clone().map(|(name, _)| name))?;
    for (name, text) in values {
        let entry = broker_entry(name).expect("dynamic keys are in the table");
        if let Err(error) = entry.definition.parse(text) {
            return refuse(ErrorCode::InvalidRequest, error.to_string());
        }
        if name == "log.cleanup.policy" && split_list(text).iter().any(|p| p == "compact") {
            return refuse(ErrorCode::InvalidConfig, COMPACT_REFUSED.to_string());
        }
    }
    Ok(())
}

/// Keys that a request sets or removes on a broker: all must be dynamic.
pub fn check_dynamic<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), AlterError> {
    let mut fixed: Vec<&str> = names
        .filter(|name| !broker_entry(name).is_some_and(|entry| entry.dynamic))
        .collect();
    if fixed.is_empty() {
        return Ok(());
    }
    fixed.sort_unstable();
    Err(AlterError {
        code: ErrorCode::InvalidRequest,
        message: format!(
            "Cannot update these configs dynamically: [{}]",
            fixed.join(", ")
        ),
    })
}
