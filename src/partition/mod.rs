//! Floor 3: a partition: its log, its idempotent producers, its leader epoch, and who waits for what.
//! Owned by one shard; a plain state machine: commands come in with `now`, out come answers, `IoOp`s and wakes.
//! Always: a produce is acknowledged and a record is visible only when it is durable (unless the topic's flush settings
//! ask for less, which concerns the acknowledgement alone).
//! Bytes, sockets and deadlines of requests are the shard's; whether this node leads is `metadata`'s.
//!
//! - `produce.rs`: check a batch, append it, wait for it. - `fetch.rs`: plan a read, wait for bytes.
//! - `offsets.rs`: ListOffsets, OffsetForLeaderEpoch, DeleteRecords. - `disk.rs`: `IoOp`s, their ends, snapshots.
//! - `maintain.rs`: retention, expiry, checkpoint. - `recovery.rs`: from files to a partition.

mod disk;
mod fetch;
mod maintain;
mod offsets;
mod produce;
mod recovery;
mod state;
#[cfg(test)]
mod tests;
mod waiters;

pub use fetch::{Diverging, FetchAsk, FetchPlan};
pub use offsets::{Deleted, ListOffsets};
pub use produce::ProduceCheck;
pub use recovery::{PartitionFiles, PartitionRecovery};
pub use state::{Partition, PartitionConfig};
pub use waiters::{Token, Wakes};
