//! Floor 2: idempotent producers: which batch comes next, which came before.
//! A `ProducerStates` is owned by one partition; it does no IO and reads no clock.
//! Always: the answer to a batch is the one Kafka's `ProducerAppendInfo` and `ProducerStateEntry` give.
//! Writing snapshots to files is left to the callers, giving out ids to `shard::controller`.

mod entry;
mod snapshot;
mod states;

pub use snapshot::SnapshotError;
pub use states::{ActiveProducer, ProducerStates, SequenceError, Verdict};
