//! Floor 0: the words every other floor uses: ids, offsets, time, limits and error codes.
//! Owned by nobody, plain values.
//! Always: no async, no libc, no allocation but for text.
//! What a value means in a flow is decided on the floors above.

mod error_code;
mod ids;
pub mod limits;
mod offset;
mod time;

pub use error_code::ErrorCode;
pub use ids::{
    LeaderEpoch, NodeId, PartitionIndex, ProducerEpoch, ProducerId, ShardId, TopicId,
    TopicPartition, Uuid,
};
pub use offset::Offset;
pub use time::{MonoNs, Now, Timestamp};
