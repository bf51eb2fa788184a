//! OffsetForLeaderEpoch: where the records of a leader epoch end (KIP-320).
//! v2: the oldest served, current leader epoch. v3: replica id. v4: flexible.

use crate::wire::{Str, wire_message};

wire_message! {
    request OffsetForLeaderEpochRequest, key 23, versions "2-4", flexible "4+" {
        /// -1: a consumer; -2: a consumer that may see beyond the high watermark.
        replica_id: i32 = -2, "3+", ignorable;
        topics: Vec<OffsetForLeaderTopic>, "0+";
    }

    struct OffsetForLeaderTopic {
        topic: Str, "0+";
        partitions: Vec<OffsetForLeaderPartition>, "0+";
    }

    struct OffsetForLeaderPartition {
        partition: i32, "0+";
        /// The epoch the client knows; -1: not to be checked (KIP-320).
        current_leader_epoch: i32 = -1, "2+", ignorable;
        /// -1: unknown.
        leader_epoch: i32, "0+";
    }

    response OffsetForLeaderEpochResponse, key 23, versions "2-4", flexible "4+" {
        throttle_time_ms: i32, "2+", ignorable;
        topics: Vec<OffsetForLeaderTopicResult>, "0+";
    }

    struct OffsetForLeaderTopicResult {
        topic: Str, "0+";
        partitions: Vec<EpochEndOffset>, "0+";
    }

    struct EpochEndOffset {
        error_code: i16, "0+";
        partition: i32, "0+";
        /// -1: unknown.
        leader_epoch: i32 = -1, "1+", ignorable;
        end_offset: i64 = -1, "0+";
    }
}
