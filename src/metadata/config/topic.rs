//! The configuration of one topic, typed: what `partition`, `log` and the handlers act on.
//! A plain value; a shard makes it anew when a new image changes what lies behind it.
//! Always: made from values that their definitions took.
//! What each field means to a segment or a batch is decided where it is used.

use super::definition::{Value, split_list};
use super::resolve::{BrokerLayers, ConfigMap};
use super::statics::StaticConfig;
use super::topic_table::topic_entry;

/// What the broker acts on, per topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicConfig {
    /// `cleanup.policy` contains delete: retention applies.
    pub cleanup_delete: bool,
    /// `cleanup.policy` contains compact: every record needs a key. Internal topics alone.
    pub cleanup_compact: bool,
    /// `compression.type` and the level that goes with it.
    pub compression: TopicCompression,
    /// `flush.messages`, `flush.ms`: false lets a batch be acknowledged when it is appended.
    pub flush_before_ack: bool,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `max.message.bytes`: bytes of a batch.
    pub batch_bytes_max: u32,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `retention.bytes`; `None` is no limit.
    pub retention_bytes: Option<u64>,
    /// `retention.ms`; `None` is no limit.
    pub retention_ms: Option<i64>,
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.ms`.
    pub segment_ms: i64,
}

/// `message.timestamp.type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// `compression.type` with its level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicCompression {
    /// Batches stay as the producer sent them.
    Producer,
    Uncompressed,
    /// Level 1 to 9; `None` is the codec's default.
    Gzip(Option<u32>),
    Snappy,
    Lz4,
    /// Level -131072 to 22.
    Zstd(i32),
}

impl TopicConfig {
    /// The configuration of a topic with these overrides on this broker.
    pub fn resolve(layers: BrokerLayers<'_>, overrides: &ConfigMap) -> TopicConfig {
        let fields = Fields { layers, overrides };
        let policies = split_list(&fields.text("cleanup.policy"));
        TopicConfig {
            cleanup_delete: policies.iter().any(|policy| policy == "delete"),
            cleanup_compact: policies.iter().any(|policy| policy == "compact"),
            compression: fields.compression(),
            flush_before_ack: fields.flush_before_ack(),
            index_interval_bytes: fields.unsigned("index.interval.bytes"),
            batch_bytes_max: fields.unsigned("max.message.bytes"),
            timestamp_after_max_ms: fields.integer("message.timestamp.after.max.ms"),
            timestamp_before_max_ms: fields.integer("message.timestamp.before.max.ms"),
            timestamp_type: match fields.text("message.timestamp.type").as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            retention_bytes: u64::try_from(fields.integer("retention.bytes")).ok(),
            retention_ms: Some(fields.integer("retention.ms")).filter(|ms| *ms >= 0),
            segment_bytes: fields.unsigned("segment.bytes"),
            segment_ms: fields.integer("segment.ms"),
        }
    }
}

impl TopicConfig {
    /// The configuration of `__cluster_metadata`: nobody can set it, nothing of it is ever dropped.
    pub fn metadata_log() -> TopicConfig {
        let (none, statics) = (ConfigMap::new(), StaticConfig::default());
        let layers = BrokerLayers {
            node: &none,
            default: &none,
            statics: &statics,
        };
        TopicConfig {
            cleanup_delete: false,
            ..TopicConfig::resolve(layers, &none)
        }
    }
}

/// Reads the fields of one topic.
#[derive(Clone, Copy)]
struct Fields<'a> {
    layers: BrokerLayers<'a>,
    overrides: &'a ConfigMap,
}

impl Fields<'_> {
    fn value(self, name: &str) -> (Value, bool) {
        let entry = topic_entry(name).unwrap_or_else(|| panic!("no topic config {name}"));
        self.layers.topic_value(entry, self.overrides)
    }

    fn integer(self, name: &str) -> i64 {
        match self.value(name).0 {
            Value::Integer(value) => value,
            other => panic!("topic config {name} is no number: {other:?}"),
        }
    }

    fn unsigned(self, name: &str) -> u32 {
        let value = self.integer(name);
        u32::try_from(value).unwrap_or_else(|_| panic!("topic config {name} is {value}"))
    }

    fn text(self, name: &str) -> String {
        self.value(name).0.to_string()
    }

    /// Set by the topic, or on the broker at start or since.
    fn is_set(self, name: &str) -> bool {
        let entry = topic_entry(name).unwrap_or_else(|| panic!("no topic config {name}"));
        self.value(name).1
            || entry
                .synonyms
                .iter()
                .any(|synonym| self.layers.is_set(synonym.name))
    }

    /// A batch waits for the disk unless someone asked for more messages, or for time alone, between two flushes.
    fn flush_before_ack(self) -> bool {
        let messages = self.integer("flush.messages");
        let by_time_alone = self.integer("flush.ms") != i64::MAX && !self.is_set("flush.messages");
        messages <= 1 && !by_time_alone
    }

    fn compression(self) -> TopicCompression {
        match self.text("compression.type").as_str() {
            "uncompressed" => TopicCompression::Uncompressed,
            "gzip" => {
                TopicCompression::Gzip(u32::try_from(self.integer("compression.gzip.level")).ok())
            }
            "snappy" => TopicCompression::Snappy,
            "lz4" => TopicCompression::Lz4,
            "zstd" => {
                let level = self.integer("compression.zstd.level");
                TopicCompression::Zstd(
                    i32::try_from(level).unwrap_or_else(|_| panic!("zstd level {level}")),
                )
            }
            _ => TopicCompression::Producer,
        }
    }
}
