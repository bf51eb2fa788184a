//! Configs are altered and shown as Apache Kafka 4.4.0 does it; texts are the ones it answered.

use super::*;
use crate::metadata::config::{ConfigEntry, Source, TimestampType, TopicConfig};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

impl Cluster {
    fn alter_one(
        &mut self,
        kind: i8,
        resource: &str,
        op: i8,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), CommandError> {
        let resource = AlterResource {
            kind,
            name: resource,
            ops: vec![AlterOp { name, op, value }],
        };
        let outcome = self
            .controller
            .incremental_alter_configs(&[resource], false);
        self.commit(outcome).remove(0)
    }

    fn topic_entry(&self, topic: &str, name: &str) -> ConfigEntry {
        let layers = self.controller.layers();
        let entries = layers.describe_topic(self.image().topic_config(topic));
        entries.into_iter().find(|e| e.name == name).unwrap()
    }

    fn broker_entry(&self, name: &str) -> ConfigEntry {
        let entries = self.controller.layers().describe_broker();
        entries.into_iter().find(|e| e.name == name).unwrap()
    }

    fn topic_config(&self, topic: &str) -> TopicConfig {
        TopicConfig::resolve(self.controller.layers(), self.image().topic_config(topic))
    }
}

fn synonyms(entry: &ConfigEntry) -> Vec<(&str, &str, Source)> {
    let of = |s: &'_ crate::metadata::config::ConfigSynonym| (s.name, s.source);
    entry
        .synonyms
        .iter()
        .map(|s| (of(s).0, s.value.as_str(), of(s).1))
        .collect()
}

#[test]
fn g45_alter_refusals_have_kafkas_words() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("t", 1);
    let long = "x".repeat(40_000);
    for (kind, resource, op, name, value, text) in [
        (
            TOPIC,
            "t",
            SET,
            "nope",
            Some("1"),
            "INVALID_CONFIG: Unknown topic config name: nope",
        ),
        (
            TOPIC,
            "t",
            SET,
            "retention.ms",
            Some("x"),
            "INVALID_CONFIG: Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            TOPIC,
            "t",
            APPEND,
            "retention.ms",
            Some("100"),
            "INVALID_CONFIG: Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            SUBTRACT,
            "retention.ms",
            Some("100"),
            "INVALID_CONFIG: Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            SET,
            "retention.ms",
            None,
            "INVALID_REQUEST: Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "t",
            9,
            "retention.ms",
            Some("1"),
            "INVALID_REQUEST: Unknown operations type 9",
        ),
        (
            TOPIC,
            "none",
            SET,
            "retention.ms",
            Some("1"),
            "UNKNOWN_TOPIC_OR_PARTITION: The topic 'none' does not exist.",
        ),
        (
            TOPIC,
            "",
            SET,
            "retention.ms",
            Some("1"),
            "INVALID_REQUEST: Default topic resources are not allowed.",
        ),
        (
            TOPIC,
            "t",
            SET,
            "remote.storage.enable",
            Some("true"),
            "INVALID_CONFIG: Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
        (
            TOPIC,
            "t",
            SET,
            "compression.type",
            Some(&long),
            "INVALID_CONFIG: The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        (
            BROKER,
            "0",
            SET,
            "num.partitions",
            Some("5"),
            "INVALID_REQUEST: Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            "",
            SET,
            "log.retention.hours",
            Some("5"),
            "INVALID_REQUEST: Cannot update these configs dynamically: [log.retention.hours]",
        ),
        (
            BROKER,
            "0",
            SET,
            "log.retention.ms",
            Some("x"),
            "INVALID_REQUEST: Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            BROKER,
            "0",
            SET,
            "log.segment.bytes",
            Some("5"),
            "INVALID_REQUEST: Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        (
            BROKER,
            "7",
            SET,
            "log.retention.ms",
            Some("5"),
            "INVALID_REQUEST: Unexpected broker id, expected 0, but received 7",
        ),
        (
            BROKER,
            "abc",
            SET,
            "log.retention.ms",
            Some("5"),
            "INVALID_REQUEST: Node id must be an integer, but it is: abc",
        ),
        (
            BROKER,
            "0",
            SET,
            "nope",
            Some("5"),
            "INVALID_CONFIG: Unknown broker config name: nope",
        ),
        (
            32,
            "g",
            SET,
            "consumer.session.timeout.ms",
            Some("5"),
            "INVALID_REQUEST: Unsupported resource type: GROUP",
        ),
        (
            99,
            "g",
            SET,
            "x",
            Some("5"),
            "INVALID_REQUEST: Unknown resource type 99",
        ),
    ] {
        let before = cluster.image().clone();
        let result = cluster.alter_one(kind, resource, op, name, value);
        assert_eq!(refusal(&result), text);
        assert_eq!(*cluster.image(), before);
    }
    let op = |value| AlterOp {
        name: "retention.ms",
        op: SET,
        value: Some(value),
    };
    let twice = AlterResource {
        kind: TOPIC,
        name: "t",
        ops: vec![op("1"), op("2")],
    };
    let outcome = cluster
        .controller
        .incremental_alter_configs(&[twice], false);
    assert_eq!(
        refusal(&outcome.response[0]),
        "INVALID_REQUEST: Error due to duplicate config keys"
    );
    let once = || AlterResource {
        kind: TOPIC,
        name: "t",
        ops: vec![op("1")],
    };
    let outcome = cluster
        .controller
        .incremental_alter_configs(&[once(), once()], false);
    assert_eq!(outcome.records, []);
    for result in &outcome.response {
        assert_eq!(
            refusal(result),
            "INVALID_REQUEST: Each resource must appear at most once."
        );
    }
}

#[test]
fn compaction_is_refused_in_every_way_to_ask_for_it() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("t", 1);
    let compacted = NewTopic {
        configs: vec![("cleanup.policy", Some("compact,delete"))],
        ..NewTopic::named("c")
    };
    let created = cluster.create(&[compacted]).remove(0);
    let set = cluster.alter_one(TOPIC, "t", SET, "cleanup.policy", Some("compact"));
    let append = cluster.alter_one(TOPIC, "t", APPEND, "cleanup.policy", Some("compact"));
    let broker = cluster.alter_one(BROKER, "", SET, "log.cleanup.policy", Some("compact"));
    for text in [
        refusal(&created),
        refusal(&set),
        refusal(&append),
        refusal(&broker),
    ] {
        assert!(
            text.starts_with("INVALID_CONFIG: cleanup.policy=compact is not served"),
            "{text}"
        );
    }
}

#[test]
fn incremental_operations_work_on_lists_and_values() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("t", 1);
    let key = "cleanup.policy";
    cluster
        .alter_one(TOPIC, "t", SUBTRACT, key, Some("delete"))
        .unwrap();
    assert_eq!(cluster.topic_entry("t", key).value.as_deref(), Some(""));
    assert!(!cluster.topic_config("t").cleanup_delete);
    cluster
        .alter_one(TOPIC, "t", APPEND, key, Some("delete"))
        .unwrap();
    cluster
        .alter_one(TOPIC, "t", APPEND, key, Some("delete"))
        .unwrap();
    assert_eq!(
        cluster.topic_entry("t", key).value.as_deref(),
        Some("delete")
    );
    cluster.alter_one(TOPIC, "t", DELETE, key, None).unwrap();
    assert_eq!(cluster.topic_entry("t", key).source, Source::Default);
    // As in Kafka, removing what is not there is no error, whatever its name.
    cluster.alter_one(TOPIC, "t", DELETE, "nope", None).unwrap();
}

#[test]
fn legacy_alter_replaces_everything() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("t", 1);
    cluster
        .alter_one(TOPIC, "t", SET, "retention.ms", Some("5"))
        .unwrap();
    cluster
        .alter_one(TOPIC, "t", SET, "segment.ms", Some("5"))
        .unwrap();
    let resource = AlterResource {
        kind: TOPIC,
        name: "t",
        ops: vec![AlterOp {
            name: "segment.ms",
            op: SET,
            value: Some("7"),
        }],
    };
    let dry = cluster
        .controller
        .alter_configs(std::slice::from_ref(&resource), true);
    assert_eq!((dry.records.len(), dry.response[0].is_ok()), (0, true));
    let outcome = cluster.controller.alter_configs(&[resource], false);
    cluster.commit(outcome)[0].clone().unwrap();
    let configs = cluster.image().topic_config("t");
    assert_eq!(configs.len(), 1);
    assert_eq!(configs.get("segment.ms").unwrap(), "7");
}

/// As rust-rdkafka's `test_configs` asks for it.
#[test]
fn g45_flush_interval_is_a_dynamic_broker_config() {
    let mut cluster = Cluster::new(1, 1);
    let key = "log.flush.interval.messages";
    let before = cluster.broker_entry(key);
    assert_eq!(before.source, Source::Default);
    assert!(!before.read_only);
    let set = |name, value| AlterResource {
        kind: BROKER,
        name: "0",
        ops: vec![AlterOp {
            name,
            op: SET,
            value,
        }],
    };
    let outcome = cluster
        .controller
        .alter_configs(&[set(key, Some("1234"))], false);
    cluster.commit(outcome)[0].clone().unwrap();
    let entry = cluster.broker_entry(key);
    assert_eq!(entry.value.as_deref(), Some("1234"));
    assert_eq!(entry.source, Source::DynamicBroker);
    assert!(!entry.read_only);
    let original = before.value.as_deref();
    let outcome = cluster
        .controller
        .alter_configs(&[set("log.flush.interval.ms", original)], false);
    cluster.commit(outcome)[0].clone().unwrap();
    assert_eq!(cluster.broker_entry(key), before);
}

/// As kafka-python's tests ask for it.
#[test]
fn g45_advertised_listeners_is_a_static_read_only_config() {
    let statics = StaticConfig::default().with(&[
        ("advertised.listeners", "PLAINTEXT://127.0.0.1:9092"),
        ("node.id", "0"),
    ]);
    let cluster = Cluster::with_statics(1, 1, statics);
    let entry = cluster.broker_entry("advertised.listeners");
    assert_eq!(entry.source, Source::StaticBroker);
    assert!(entry.read_only);
    assert_eq!(entry.value.as_deref(), Some("PLAINTEXT://127.0.0.1:9092"));
}

/// Golden: DescribeConfigs of Apache Kafka 4.4.0 after the same changes.
#[test]
fn g45_topic_entries_have_kafkas_sources_and_synonyms() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("t", 1);
    assert_eq!(synonyms(&cluster.topic_entry("t", "retention.ms")), []);
    assert_eq!(synonyms(&cluster.topic_entry("t", "segment.ms")), []);
    assert_eq!(synonyms(&cluster.topic_entry("t", "flush.ms")), []);
    assert_eq!(
        synonyms(&cluster.topic_entry("t", "segment.bytes")),
        [("log.segment.bytes", "1073741824", Source::Default)]
    );
    let key = "log.retention.ms";
    cluster
        .alter_one(BROKER, "", SET, key, Some("5000"))
        .unwrap();
    cluster
        .alter_one(BROKER, "0", SET, key, Some("1000"))
        .unwrap();
    let entry = cluster.topic_entry("t", "retention.ms");
    assert_eq!(entry.value.as_deref(), Some("1000"));
    assert_eq!(entry.source, Source::DynamicBroker);
    let brokers = [
        (key, "1000", Source::DynamicBroker),
        (key, "5000", Source::DynamicDefaultBroker),
        ("log.retention.hours", "168", Source::Default),
    ];
    assert_eq!(synonyms(&entry), brokers);
    assert_eq!(synonyms(&cluster.broker_entry(key)), brokers);
    cluster
        .alter_one(TOPIC, "t", SET, "retention.ms", Some("7"))
        .unwrap();
    let entry = cluster.topic_entry("t", "retention.ms");
    assert_eq!(entry.source, Source::DynamicTopic);
    assert_eq!(
        synonyms(&entry)[0],
        ("retention.ms", "7", Source::DynamicTopic)
    );
    assert_eq!(synonyms(&entry)[1..], brokers);
    let default = cluster.controller.layers().describe_default();
    assert_eq!(default.len(), 1);
    assert_eq!(synonyms(&default[0]), [brokers[1]]);
    assert_eq!(cluster.broker_entry("log.roll.ms").value, None);
}

#[test]
fn broker_defaults_reach_the_topic_in_its_unit() {
    let mut statics = StaticConfig::default();
    statics.set("log.retention.hours", "2").unwrap();
    statics.set("log.roll.hours", "3").unwrap();
    let mut cluster = Cluster::with_statics(1, 1, statics);
    cluster.create_plain("t", 1);
    let config = cluster.topic_config("t");
    assert_eq!(config.retention_ms, Some(2 * 3_600_000));
    assert_eq!(config.segment_ms, 3 * 3_600_000);
    cluster
        .alter_one(BROKER, "", SET, "log.retention.ms", Some("-5"))
        .unwrap();
    assert_eq!(cluster.topic_config("t").retention_ms, None);
    cluster
        .alter_one(
            BROKER,
            "",
            SET,
            "log.message.timestamp.type",
            Some("LogAppendTime"),
        )
        .unwrap();
    assert_eq!(
        cluster.topic_config("t").timestamp_type,
        TimestampType::LogAppendTime
    );
}

#[test]
fn a_batch_is_flushed_before_its_ack_unless_someone_asked_otherwise() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("t", 1);
    assert!(cluster.topic_config("t").flush_before_ack);
    cluster
        .alter_one(TOPIC, "t", SET, "flush.ms", Some("1000"))
        .unwrap();
    assert!(!cluster.topic_config("t").flush_before_ack);
    cluster
        .alter_one(TOPIC, "t", SET, "flush.messages", Some("1"))
        .unwrap();
    assert!(cluster.topic_config("t").flush_before_ack);
    cluster
        .alter_one(TOPIC, "t", SET, "flush.messages", Some("10000"))
        .unwrap();
    assert!(!cluster.topic_config("t").flush_before_ack);
    cluster.create_plain("u", 1);
    cluster
        .alter_one(BROKER, "0", SET, "log.flush.interval.messages", Some("2"))
        .unwrap();
    assert!(!cluster.topic_config("u").flush_before_ack);
}

#[test]
fn deleting_a_topic_forgets_its_configs() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("t", 1);
    cluster
        .alter_one(TOPIC, "t", SET, "retention.ms", Some("7"))
        .unwrap();
    let name = TopicRef {
        name: Some("t"),
        id: Uuid::ZERO,
    };
    let outcome = cluster.controller.delete_topics(&[name]);
    cluster.commit(outcome);
    cluster.create_plain("t", 1);
    assert!(cluster.image().topic_config("t").is_empty());
}

/// Whatever is set for all topics, nothing of the metadata is dropped, recompressed or acknowledged early.
#[test]
fn metadata_log_does_not_follow_broker_defaults() {
    let config = TopicConfig::metadata_log();
    assert!(!config.cleanup_delete && !config.cleanup_compact);
    assert!(config.flush_before_ack);
    assert_eq!(
        config.compression,
        crate::metadata::config::TopicCompression::Producer
    );
}
