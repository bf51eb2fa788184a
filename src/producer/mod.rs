//! Floor 2: idempotent producers: which batch comes next, which came before, and who gets which id.
//! A `ProducerStates` is owned by one partition, a `ProducerIds` by one shard; neither does IO or reads a clock.
//! Always: the answer to a batch is the one Kafka's `ProducerAppendInfo` and `ProducerStateEntry` give.
//! Writing snapshots to files and asking the controller for blocks of ids is left to the callers.

mod entry;
pub mod ids;
mod snapshot;
mod states;

pub use ids::ProducerIds;
pub use snapshot::SnapshotError;
pub use states::{ActiveProducer, ProducerStates, SequenceError, Verdict};
