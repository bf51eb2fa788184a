//! Floor 2: the group coordinator: classic consumer groups and committed offsets, as state machines without IO.
//! A [`Coordinator`] is the state of one partition of `__consumer_offsets`, owned by the shard that owns the partition.
//! Always: what was answered is durable; the records written reproduce the state; time and randomness are arguments.
//! Appending the records, keeping the sockets and knowing the topics is left to the caller.
//!
//! A caller gives a command with a token of its own, then takes the [`Outputs`]: it appends the records, calls
//! [`Coordinator::on_appended`] for each append in order once it is durable (which makes outputs again), sends the replies to
//! whoever the tokens stand for, and calls [`Coordinator::on_timer`] at [`Coordinator::next_deadline`]. A heartbeat, describe and
//! list are answered by the call itself. A failed disk is a failed append; a partition that is lost is
//! [`Coordinator::resign`].
//!
//! | module | what |
//! |---|---|
//! | `coordinator` | loading, timers, outputs |
//! | `join`, `rebalance`, `sync`, `leave` | the life of a group |
//! | `offset_commit`, `offset_fetch`, `retention` | offsets, and what is forgotten |
//! | `admin` | describe, list, delete |
//! | `appended` | what follows a write, good or failed |
//! | `classic`, `offsets`, `timers`, `effects` | the state |
//! | `records`, `convert` | bytes of the log, messages of the protocol |
//! | `live` | what of a log is still true |

mod admin;
mod api;
mod appended;
mod classic;
mod config;
mod convert;
mod coordinator;
mod effects;
mod join;
mod leave;
mod live;
mod offset_commit;
mod offset_fetch;
mod offsets;
mod rebalance;
mod records;
mod retention;
mod sync;
mod timers;

pub use api::*;
pub use config::Config;
pub use convert::deleted_groups;
pub use coordinator::Coordinator;
pub use live::{LiveRecord, LiveRecords};

/// The partition of `__consumer_offsets`, out of `count`, that a group belongs to. Kafka's own mapping (G39), so that its
/// tools find a group's records where they look.
pub fn partition_for(group_id: &str, count: i32) -> i32 {
    assert!(count > 0, "{count} partitions");
    // Java's String.hashCode, and Utils.abs, which makes 0 of the one number that has no absolute value.
    let hash = group_id.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    let hash = if hash == i32::MIN { 0 } else { hash.abs() };
    hash % count
}

#[cfg(test)]
mod tests;
