//! The topic configs that a log lives by.
//! A value; the owner replaces it when the topic's config changes.
//! Always: ranges are Kafka's, checked by `metadata` before they get here.
//! Configs on what may be appended are `partition`'s.

/// Configs of one log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// Most bytes of a segment (`segment.bytes`, 1 GiB).
    pub segment_bytes: u64,
    /// Most milliseconds between the first and the last batch of a segment (`segment.ms`, 7 days).
    pub segment_ms: i64,
    /// Bytes between index entries (`index.interval.bytes`, 4096).
    pub index_interval_bytes: u32,
    /// Most bytes of an index file (`segment.index.bytes`, 10 MiB).
    pub index_bytes_max: u32,
    /// Milliseconds that data is kept, -1 for ever (`retention.ms`, 7 days).
    pub retention_ms: i64,
    /// Bytes that are kept, -1 all (`retention.bytes`, -1).
    pub retention_bytes: i64,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: WEEK_MS,
            index_interval_bytes: 4096,
            index_bytes_max: 10 << 20,
            retention_ms: WEEK_MS,
            retention_bytes: -1,
        }
    }
}

const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
