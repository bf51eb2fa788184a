//! The configuration of one broker, typed: what the handlers, coordinators and the controller act on.
//! A plain value; a shard makes it anew when a new image changes a dynamic key.
//! Always: made from values that their definitions took; `check` has looked at those of the start.
//! Addresses, cores and memory are `cli`'s: they don't change while the broker runs.

use super::definition::{Value, split_list};
use super::resolve::{BrokerLayers, ConfigMap};
use super::statics::StaticConfig;

/// What the broker acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrokerConfig {
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `num.partitions`.
    pub partitions_default: i32,
    /// `default.replication.factor`.
    pub replication_factor_default: i16,
    /// `delete.topic.enable`.
    pub delete_topics: bool,
    /// `connections.max.idle.ms`; `None` never closes an idle connection.
    pub connection_idle_max_ms: Option<i64>,
    /// `socket.request.max.bytes`.
    pub request_bytes_max: usize,
    /// `fetch.max.bytes`.
    pub fetch_bytes_max: i32,
    /// `max.request.partition.size.limit`.
    pub described_partitions_max: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub group_initial_rebalance_delay_ms: i64,
    /// `group.min.session.timeout.ms`.
    pub group_session_timeout_min_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub group_session_timeout_max_ms: i32,
    /// `group.max.size`.
    pub group_size_max: i32,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_bytes_max: i32,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: i64,
    /// `offsets.topic.num.partitions`.
    pub offsets_topic_partitions: i32,
    /// `offsets.topic.segment.bytes`.
    pub offsets_topic_segment_bytes: i32,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
}

impl BrokerConfig {
    /// The values in force.
    pub fn resolve(layers: BrokerLayers<'_>) -> BrokerConfig {
        let int = |name: &str| {
            let value = layers.integer(name);
            i32::try_from(value).unwrap_or_else(|_| panic!("broker config {name} is {value}"))
        };
        let idle_ms = layers.integer("connections.max.idle.ms");
        BrokerConfig {
            auto_create_topics: layers.boolean("auto.create.topics.enable"),
            partitions_default: int("num.partitions"),
            replication_factor_default: i16::try_from(int("default.replication.factor"))
                .unwrap_or(i16::MAX),
            delete_topics: layers.boolean("delete.topic.enable"),
            connection_idle_max_ms: Some(idle_ms).filter(|ms| *ms >= 0),
            request_bytes_max: usize::try_from(int("socket.request.max.bytes"))
                .expect("at least 1 by its rule"),
            fetch_bytes_max: int("fetch.max.bytes"),
            described_partitions_max: int("max.request.partition.size.limit"),
            group_initial_rebalance_delay_ms: layers
                .integer("group.initial.rebalance.delay.ms")
                .max(0),
            group_session_timeout_min_ms: int("group.min.session.timeout.ms"),
            group_session_timeout_max_ms: int("group.max.session.timeout.ms"),
            group_size_max: int("group.max.size"),
            offset_metadata_bytes_max: int("offset.metadata.max.bytes"),
            offsets_retention_ms: layers.integer("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms: layers
                .integer("offsets.retention.check.interval.ms"),
            offsets_topic_partitions: int("offsets.topic.num.partitions"),
            offsets_topic_segment_bytes: int("offsets.topic.segment.bytes"),
            retention_check_interval_ms: layers.integer("log.retention.check.interval.ms"),
            producer_id_expiration_ms: layers.integer("producer.id.expiration.ms"),
        }
    }

    /// Refuses start-up values that do not go together; the text names the keys and the fix.
    pub fn check(statics: &StaticConfig) -> Result<(), String> {
        let none = ConfigMap::new();
        let layers = BrokerLayers {
            node: &none,
            default: &none,
            statics,
        };
        let config = BrokerConfig::resolve(layers);
        if config.group_session_timeout_min_ms > config.group_session_timeout_max_ms {
            return Err(format!(
                "`group.min.session.timeout.ms` = {} is above `group.max.session.timeout.ms` = {}: lower the first or raise the second",
                config.group_session_timeout_min_ms, config.group_session_timeout_max_ms
            ));
        }
        for name in [
            "default.replication.factor",
            "offsets.topic.replication.factor",
        ] {
            let factor = layers.integer(name);
            if factor != 1 {
                return Err(format!(
                    "`{name}` = {factor}: one machine holds one copy of a partition; set it to 1 or remove it"
                ));
            }
        }
        let policies = match layers.value("log.cleanup.policy") {
            Some(Value::List(policies)) => policies,
            other => panic!("log.cleanup.policy is no list: {other:?}"),
        };
        if policies.iter().any(|policy| policy == "compact") {
            return Err(
                "`log.cleanup.policy` = compact: compaction is not served; set it to delete or remove it".to_string(),
            );
        }
        for name in ["log.dirs", "log.dir"] {
            let directories = statics.get(name).map_or(Vec::new(), split_list);
            if directories.len() > 1 {
                return Err(format!(
                    "`{name}` = {}: there is one data directory; name one",
                    directories.join(",")
                ));
            }
        }
        if let (Some(broker), Some(node)) = (statics.get("broker.id"), statics.get("node.id"))
            && broker != node
        {
            return Err(format!(
                "`broker.id` = {broker} and `node.id` = {node} name the same thing: remove one"
            ));
        }
        Ok(())
    }
}
