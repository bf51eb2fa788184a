//! ListOffsets: the offset of a timestamp, or of the start or end of a partition.
//! v1: the oldest served, one offset each. v2: isolation level, throttle time. v4: leader epoch. v6: flexible. v7: the largest
//! timestamp (KIP-734). v8: earliest local (KIP-405). v9: latest tiered (KIP-1005). v10: timeout (KIP-1075). v11: earliest not
//! yet tiered (KIP-1023).

use crate::wire::{Str, wire_message};

wire_message! {
    request ListOffsetsRequest, key 2, versions "1-11", flexible "6+" {
        /// -1: a consumer.
        replica_id: i32, "0+";
        /// 0: read uncommitted; 1: read committed.
        isolation_level: i8, "2+";
        topics: Vec<ListOffsetsTopic>, "0+";
        /// For offsets that have to be looked up in remote storage.
        timeout_ms: i32, "10+", ignorable;
    }

    struct ListOffsetsTopic {
        name: Str, "0+";
        partitions: Vec<ListOffsetsPartition>, "0+";
    }

    struct ListOffsetsPartition {
        partition_index: i32, "0+";
        /// The epoch the client knows; -1: not to be checked (KIP-320).
        current_leader_epoch: i32 = -1, "4+", ignorable;
        /// Milliseconds, or -1: latest; -2: earliest; -3: that of the largest timestamp; -4: earliest local; -5: latest tiered; -6: earliest not yet tiered.
        timestamp: i64, "0+";
    }

    response ListOffsetsResponse, key 2, versions "1-11", flexible "6+" {
        throttle_time_ms: i32, "2+", ignorable;
        topics: Vec<ListOffsetsTopicResponse>, "0+";
    }

    struct ListOffsetsTopicResponse {
        name: Str, "0+";
        partitions: Vec<ListOffsetsPartitionResponse>, "0+";
    }

    struct ListOffsetsPartitionResponse {
        partition_index: i32, "0+";
        error_code: i16, "0+";
        timestamp: i64 = -1, "1+";
        offset: i64 = -1, "1+";
        /// -1: unknown.
        leader_epoch: i32 = -1, "4+";
    }
}
