//! The settings of the group coordinator under Kafka's names.
//! Owned by each `Coordinator`, a copy; the broker replaces it when a setting changes.
//! Always: plain values that were range-checked where they were read.
//! Reading them from files and requests is left to the caller.

use crate::base::limits::OFFSET_METADATA_BYTES_MAX;

/// What a coordinator may be told; `Default` is Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Shortest session timeout a member may ask for, in ms. `group.min.session.timeout.ms`, 6000, at least 1.
    pub session_timeout_ms_min: i32,
    /// Longest session timeout a member may ask for, in ms. `group.max.session.timeout.ms`, 1800000, at least the shortest.
    pub session_timeout_ms_max: i32,
    /// Members a group may have. `group.max.size`, 2147483647, at least 1.
    pub group_size_max: i32,
    /// How long the first rebalance of an empty group waits for more members, in ms; starts anew while they arrive, up
    /// to their rebalance timeout. `group.initial.rebalance.delay.ms`, 3000, at least 0.
    pub initial_rebalance_delay_ms: i32,
    /// A member that has not yet been told its id can't heartbeat: it is dropped if its join is still held after this
    /// many ms. A constant in Kafka, 300000.
    pub new_member_join_timeout_ms: i32,
    /// Longest metadata of a committed offset, in UTF-16 units as Java counts. `offset.metadata.max.bytes`, 4096.
    pub offset_metadata_units_max: usize,
    /// How long a committed offset is kept once nobody uses it, in ms. `offsets.retention.minutes`, 7 days.
    pub offsets_retention_ms: i64,
    /// How often expired offsets and groups are looked for, in ms. `offsets.retention.check.interval.ms`, 600000.
    pub offsets_retention_check_interval_ms: i64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            session_timeout_ms_min: 6_000,
            session_timeout_ms_max: 1_800_000,
            group_size_max: i32::MAX,
            initial_rebalance_delay_ms: 3_000,
            new_member_join_timeout_ms: 300_000,
            offset_metadata_units_max: OFFSET_METADATA_BYTES_MAX,
            offsets_retention_ms: 7 * 24 * 3_600_000,
            offsets_retention_check_interval_ms: 600_000,
        }
    }
}
