//! The log of one partition without its bytes: segments, indexes, offsets, and the plan of every disk operation.
//! Owned by one `Partition`; never touches a file: it hands out `IoOp`s and is told how they ended.
//! Always: log_start <= last_stable <= high_watermark <= durable <= appended; what a reader sees is durable.
//! Locating bytes is here; holding, writing and sending them is `io` and `shard`.
//!
//! - [`Log`]: the state; `append.rs` grows it, `writer.rs` makes it durable, `read.rs` finds things in it,
//!   `retention.rs` shortens it at the front.
//! - [`Recovery`]: from files found at start to a `Log`.
//! - [`checkpoint`]: the file that says what is certain, so that damage can be told from a torn tail.
//!
//! How a recovery can trust what it finds:
//! 1. A write to a segment starts only after every byte of the segment before it is durable: so a valid first batch in
//!    a later segment proves that the earlier ones were complete.
//! 2. A checkpoint entry names a segment as its proof only after all earlier ones are sealed (cut to their size).
//! 3. A dropped segment's file goes (or is written over) only after a checkpoint with the higher log start is durable:
//!    so a missing file is damage, never retention.
//! 4. What lies behind the end found by a recovery is cut off (`IoOp::Cut`) before the first write, so bytes of
//!    writes that were in flight at a crash never come back behind new data.

mod append;
mod chain;
pub mod checkpoint;
mod config;
mod epochs;
mod index;
mod io_op;
mod log_state;
#[cfg(test)]
mod no_space_tests;
mod partition_metadata;
mod read;
mod recovery;
#[cfg(test)]
mod recovery_tests;
mod retention;
#[cfg(test)]
mod retention_tests;
mod segment;
#[cfg(test)]
mod simulated_disk;
#[cfg(test)]
mod simulation;
mod writer;
#[cfg(test)]
mod writer_tests;

pub use append::{Appended, BatchFacts, Place};
pub use chain::Chain;
pub use checkpoint::{PartitionCheckpoint, Proof};
pub use config::LogConfig;
pub use epochs::{EpochEntry, Epochs};
pub use io_op::{IoFailure, IoOp, IoTag, Progress, Snapshot, WriteId};
pub use log_state::Log;
pub use partition_metadata::PartitionMetadata;
pub use read::{Location, MaxTimestampAt};
pub use recovery::{Need, Recovery, RecoveryInput, RecoveryReport, Refusal, SegmentFile};
pub use retention::Expired;
