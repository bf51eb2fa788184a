//! Every topic config key of Kafka 4.4 (`TopicConfig`, `LogConfig`), in one table.
//! Owned by nobody, constants.
//! Always: name, type, default and rule are Kafka's, but for the differences that `tests/config` lists with a reason.
//! Which broker keys give a topic its defaults is in the same table: `synonyms`.

use super::definition::{Definition, Effect, Kind, Rule};
use crate::base::limits;

/// A topic key, and the broker keys that stand behind it, the first that has a value wins.
#[derive(Debug)]
pub struct TopicDefinition {
    pub definition: Definition,
    pub synonyms: &'static [Synonym],
}

/// A broker key whose value, times `factor`, is the default of a topic key.
#[derive(Clone, Copy, Debug)]
pub struct Synonym {
    pub name: &'static str,
    /// Milliseconds in the unit of the broker key; 1 where the units are equal.
    pub factor: i64,
}

/// The definition of a topic key; `None` if Kafka 4.4 has no such key.
pub fn topic_definition(name: &str) -> Option<&'static Definition> {
    topic_entry(name).map(|entry| &entry.definition)
}

/// The table entry of a topic key.
pub fn topic_entry(name: &str) -> Option<&'static TopicDefinition> {
    TOPIC_CONFIGS
        .binary_search_by(|entry| entry.definition.name.cmp(name))
        .ok()
        .map(|index| &TOPIC_CONFIGS[index])
}

/// What does the work of a key that is kept and shown only.
mod inert {
    use super::Effect;

    pub const COMPACTION: Effect = Effect::Inert("only compaction reads it");
    pub const TIERED: Effect = Effect::Inert("only tiered storage reads it");
    pub const ONE_IS_ENOUGH: Effect =
        Effect::Inert("a partition has one replica, and one is enough");
    pub const REPLICAS: Effect = Effect::Inert("a partition has one replica");
    pub const PREALLOCATED: Effect = Effect::Inert("segments are always preallocated");
    pub const SHARE_GROUPS: Effect = Effect::Inert("only share groups read it");
}

const COMPRESSION_TYPES: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
const TIMESTAMP_TYPES: &[&str] = &["CreateTime", "LogAppendTime"];
const CLEANUP_POLICIES: &[&str] = &["compact", "delete"];
const LONG_MAX: &str = "9223372036854775807";
/// `limits::DECOMPRESSED_BYTES_MAX` as text.
const DECOMPRESSED_BYTES_DEFAULT: &str = "67108864";
const _: () = assert!(limits::DECOMPRESSED_BYTES_MAX == 67_108_864);

const fn entry(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    rule: Rule,
    effect: Effect,
    synonyms: &'static [Synonym],
    doc: &'static str,
) -> TopicDefinition {
    TopicDefinition {
        definition: Definition {
            name,
            kind,
            default: Some(default),
            rule,
            effect,
            doc,
        },
        synonyms,
    }
}

const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1 }
}

const fn scaled(name: &'static str, factor: i64) -> Synonym {
    Synonym { name, factor }
}

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// Sorted by name.
pub const TOPIC_CONFIGS: &[TopicDefinition] = &[
    entry(
        "cleanup.policy",
        Kind::List,
        "delete",
        Rule::EachOf(CLEANUP_POLICIES),
        Effect::Honoured,
        &[same("log.cleanup.policy")],
        "What happens to old segments: delete drops them by retention.ms and retention.bytes; an empty value keeps all. compact is refused: it is not served.",
    ),
    entry(
        "compression.gzip.level",
        Kind::Int,
        "-1",
        Rule::BetweenOr(1, 9, -1),
        Effect::Honoured,
        &[same("compression.gzip.level")],
        "Level used when compression.type is gzip; -1 is the codec's own default.",
    ),
    entry(
        "compression.lz4.level",
        Kind::Int,
        "9",
        Rule::Between(1, 17),
        Effect::Inert("lz4 is always written at its fast level"),
        &[same("compression.lz4.level")],
        "Level meant for compression.type lz4.",
    ),
    entry(
        "compression.type",
        Kind::String,
        "producer",
        Rule::OneOf(COMPRESSION_TYPES),
        Effect::Honoured,
        &[same("compression.type")],
        "Codec of the stored batches. producer keeps what the producer sent; another value is checked and applied at append.",
    ),
    entry(
        "compression.zstd.level",
        Kind::Int,
        "3",
        Rule::Between(-131_072, 22),
        Effect::Honoured,
        &[same("compression.zstd.level")],
        "Level used when compression.type is zstd.",
    ),
    entry(
        "delete.retention.ms",
        Kind::Long,
        "86400000",
        Rule::AtLeast(0),
        inert::COMPACTION,
        &[same("log.cleaner.delete.retention.ms")],
        "How long a compacted topic keeps tombstones, in milliseconds.",
    ),
    entry(
        "errors.deadletterqueue.group.enable",
        Kind::Boolean,
        "false",
        Rule::Any,
        inert::SHARE_GROUPS,
        &[],
        "Whether share groups may use the topic as their dead letter queue.",
    ),
    entry(
        "file.delete.delay.ms",
        Kind::Long,
        "60000",
        Rule::AtLeast(0),
        Effect::Inert(
            "a dropped segment is kept while an answer is sent from it, for a minute at most",
        ),
        &[same("log.segment.delete.delay.ms")],
        "How long a dropped segment file stays on the disk, in milliseconds.",
    ),
    entry(
        "flush.messages",
        Kind::Long,
        "1",
        Rule::AtLeast(1),
        Effect::Honoured,
        &[same("log.flush.interval.messages")],
        "1: every batch is on the disk before it is acknowledged. Above 1 a batch may be acknowledged when it is appended, and reaches the disk right after; consumers still see only what is on the disk.",
    ),
    entry(
        "flush.ms",
        Kind::Long,
        LONG_MAX,
        Rule::AtLeast(0),
        Effect::Honoured,
        &[
            same("log.flush.interval.ms"),
            same("log.flush.scheduler.interval.ms"),
        ],
        "Set, and flush.messages not set: a batch may be acknowledged when it is appended, as with flush.messages above 1.",
    ),
    entry(
        "follower.replication.throttled.replicas",
        Kind::List,
        "",
        Rule::ThrottledReplicas,
        inert::REPLICAS,
        &[],
        "Followers whose replication is slowed down: * or partition:broker pairs.",
    ),
    entry(
        "index.interval.bytes",
        Kind::Int,
        "4096",
        Rule::AtLeast(0),
        Effect::Honoured,
        &[same("log.index.interval.bytes")],
        "Bytes of log between two entries of the offset index.",
    ),
    entry(
        "leader.replication.throttled.replicas",
        Kind::List,
        "",
        Rule::ThrottledReplicas,
        inert::REPLICAS,
        &[],
        "Leaders whose replication is slowed down: * or partition:broker pairs.",
    ),
    entry(
        "local.retention.bytes",
        Kind::Long,
        "-2",
        Rule::AtLeast(-2),
        inert::TIERED,
        &[same("log.local.retention.bytes")],
        "Bytes kept on the local disk when older segments are in tiered storage; -2 means retention.bytes.",
    ),
    entry(
        "local.retention.ms",
        Kind::Long,
        "-2",
        Rule::AtLeast(-2),
        inert::TIERED,
        &[same("log.local.retention.ms")],
        "Milliseconds kept on the local disk when older segments are in tiered storage; -2 means retention.ms.",
    ),
    entry(
        "max.compaction.lag.ms",
        Kind::Long,
        LONG_MAX,
        Rule::AtLeast(1),
        inert::COMPACTION,
        &[same("log.cleaner.max.compaction.lag.ms")],
        "Longest time a record of a compacted topic may stay uncompacted, in milliseconds.",
    ),
    entry(
        "max.decompressed.message.bytes",
        Kind::Int,
        DECOMPRESSED_BYTES_DEFAULT,
        Rule::Between(1, limits::DECOMPRESSED_BYTES_MAX as i64),
        Effect::Inert("every topic has the same bound, 64 MiB"),
        &[same("max.decompressed.message.bytes")],
        "Bytes a batch may have once it is decompressed for validation or recompression.",
    ),
    entry(
        "max.message.bytes",
        Kind::Int,
        "1048588",
        Rule::AtLeast(0),
        Effect::Honoured,
        &[same("message.max.bytes")],
        "Bytes of the largest record batch the topic takes, compressed as it is.",
    ),
    entry(
        "message.timestamp.after.max.ms",
        Kind::Long,
        "3600000",
        Rule::AtLeast(0),
        Effect::Honoured,
        &[same("log.message.timestamp.after.max.ms")],
        "How far a CreateTime timestamp may lie ahead of the broker's clock, in milliseconds.",
    ),
    entry(
        "message.timestamp.before.max.ms",
        Kind::Long,
        LONG_MAX,
        Rule::AtLeast(0),
        Effect::Honoured,
        &[same("log.message.timestamp.before.max.ms")],
        "How far a CreateTime timestamp may lie behind the broker's clock, in milliseconds.",
    ),
    entry(
        "message.timestamp.type",
        Kind::String,
        "CreateTime",
        Rule::OneOf(TIMESTAMP_TYPES),
        Effect::Honoured,
        &[same("log.message.timestamp.type")],
        "Whose time a record carries: the producer's (CreateTime) or the broker's at append (LogAppendTime).",
    ),
    entry(
        "min.cleanable.dirty.ratio",
        Kind::Double,
        "0.5",
        Rule::Fraction,
        inert::COMPACTION,
        &[same("log.cleaner.min.cleanable.ratio")],
        "Share of uncompacted bytes from which a compacted log is cleaned.",
    ),
    entry(
        "min.compaction.lag.ms",
        Kind::Long,
        "0",
        Rule::AtLeast(0),
        inert::COMPACTION,
        &[same("log.cleaner.min.compaction.lag.ms")],
        "Shortest time a record of a compacted topic stays uncompacted, in milliseconds.",
    ),
    entry(
        "min.insync.replicas",
        Kind::Int,
        "1",
        Rule::AtLeast(1),
        inert::ONE_IS_ENOUGH,
        &[same("min.insync.replicas")],
        "Replicas that must have a batch before acks=all is answered; never more than the partition has, which is one.",
    ),
    entry(
        "preallocate",
        Kind::Boolean,
        "false",
        Rule::Any,
        inert::PREALLOCATED,
        &[same("log.preallocate")],
        "Whether a new segment file gets its full size at once.",
    ),
    entry(
        "remote.copy.lag.bytes",
        Kind::Long,
        "-1",
        Rule::AtLeast(-1),
        inert::TIERED,
        &[same("log.remote.copy.lag.bytes")],
        "Bytes of the newest segments that are not yet copied to tiered storage.",
    ),
    entry(
        "remote.copy.lag.ms",
        Kind::Long,
        "0",
        Rule::AtLeast(-1),
        inert::TIERED,
        &[same("log.remote.copy.lag.ms")],
        "Age from which a segment is copied to tiered storage, in milliseconds.",
    ),
    entry(
        "remote.log.copy.disable",
        Kind::Boolean,
        "false",
        Rule::Any,
        inert::TIERED,
        &[],
        "Whether copying to tiered storage is paused.",
    ),
    entry(
        "remote.log.delete.on.disable",
        Kind::Boolean,
        "false",
        Rule::Any,
        inert::TIERED,
        &[],
        "Whether tiered data is deleted when tiered storage is switched off for the topic.",
    ),
    entry(
        "remote.storage.enable",
        Kind::Boolean,
        "false",
        Rule::Any,
        inert::TIERED,
        &[],
        "Whether old segments move to tiered storage. true is refused: it is not served.",
    ),
    entry(
        "retention.bytes",
        Kind::Long,
        "-1",
        Rule::Any,
        Effect::Honoured,
        &[same("log.retention.bytes")],
        "Bytes a partition may hold before its oldest segments are dropped; -1 is no limit.",
    ),
    entry(
        "retention.ms",
        Kind::Long,
        "604800000",
        Rule::AtLeast(-1),
        Effect::Honoured,
        &[
            same("log.retention.ms"),
            scaled("log.retention.minutes", MINUTE_MS),
            scaled("log.retention.hours", HOUR_MS),
        ],
        "Age in milliseconds of its newest record from which a segment is dropped; -1 is no limit.",
    ),
    entry(
        "segment.bytes",
        Kind::Int,
        "1073741824",
        Rule::AtLeast(1_048_576),
        Effect::Honoured,
        &[same("log.segment.bytes")],
        "Bytes of a segment file; a batch never spans two segments.",
    ),
    entry(
        "segment.index.bytes",
        Kind::Int,
        "10485760",
        Rule::AtLeast(4),
        Effect::Inert("an index is as long as its segment needs"),
        &[same("log.index.size.max.bytes")],
        "Bytes of the largest offset index of a segment.",
    ),
    entry(
        "segment.jitter.ms",
        Kind::Long,
        "0",
        Rule::AtLeast(0),
        Effect::Inert("segments roll at their time without jitter"),
        &[
            same("log.roll.jitter.ms"),
            scaled("log.roll.jitter.hours", HOUR_MS),
        ],
        "Random milliseconds taken off segment.ms, so that segments do not all roll at once.",
    ),
    entry(
        "segment.ms",
        Kind::Long,
        "604800000",
        Rule::AtLeast(1),
        Effect::Honoured,
        &[same("log.roll.ms"), scaled("log.roll.hours", HOUR_MS)],
        "Milliseconds after which a segment is closed though it is not full.",
    ),
    entry(
        "unclean.leader.election.enable",
        Kind::Boolean,
        "false",
        Rule::Any,
        inert::REPLICAS,
        &[same("unclean.leader.election.enable")],
        "Whether a replica outside the in-sync set may become leader.",
    ),
];
