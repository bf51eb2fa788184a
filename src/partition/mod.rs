//! Floor 3: a partition: its log, its idempotent producers and its leader epoch.
//! Owned by one shard; a plain state machine: commands come in with `now`, out come answers, `IoOp`s and what moved.
//! Always: a record is visible only when it is durable; a produce is acknowledged at its `end`, once that is durable (a
//! topic's flush settings may ask for less, which is the shard's to know).
//! Bytes, sockets, and who waits for what, are the shard's; whether this node leads is `metadata`'s.
//!
//! - `produce.rs`: check a batch, append it. - `fetch.rs`: plan a read.
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

pub use fetch::{Diverging, FetchAsk, FetchPlan};
pub use offsets::{Deleted, ListOffsets};
pub use produce::ProduceCheck;
pub use recovery::{PartitionFiles, PartitionRecovery};
pub use state::{Partition, PartitionConfig};
