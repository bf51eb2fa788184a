//! OffsetFetch: the kept offsets of groups.
//! v1: the oldest served. v2: null asks for all topics, an error for the whole answer. v3: throttle time. v5: leader epoch.
//! v6: flexible. v7: stable offsets only, if wished (KIP-447). v8: many groups (KIP-709). v9: member epochs (KIP-848). v10: topics
//! named by id.

use crate::base::Uuid;
use crate::wire::{Str, wire_message};

wire_message! {
    request OffsetFetchRequest, key 9, versions "1-10", flexible "6+" {
        group_id: Str, "0-7";
        /// Null: all topics of the group.
        topics: Option<Vec<OffsetFetchRequestTopic>>, "0-7", nullable "2-7";
        groups: Vec<OffsetFetchRequestGroup>, "8+";
        /// Answer UNSTABLE_OFFSET_COMMIT while a transaction has an offset pending.
        require_stable: bool, "7+";
    }

    struct OffsetFetchRequestTopic {
        name: Str, "0-7";
        partition_indexes: Vec<i32>, "0-7";
    }

    struct OffsetFetchRequestGroup {
        group_id: Str, "8+";
        member_id: Option<Str> = None, "9+", nullable "9+", ignorable;
        member_epoch: i32 = -1, "9+", ignorable;
        /// Null: all topics of the group.
        topics: Option<Vec<OffsetFetchRequestTopics>>, "8+", nullable "8+";
    }

    struct OffsetFetchRequestTopics {
        name: Str, "8-9", ignorable;
        topic_id: Uuid, "10+", ignorable;
        partition_indexes: Vec<i32>, "8+";
    }

    response OffsetFetchResponse, key 9, versions "1-10", flexible "6+" {
        throttle_time_ms: i32, "3+", ignorable;
        topics: Vec<OffsetFetchResponseTopic>, "0-7";
        error_code: i16, "2-7", ignorable;
        groups: Vec<OffsetFetchResponseGroup>, "8+";
    }

    struct OffsetFetchResponseTopic {
        name: Str, "0-7";
        partitions: Vec<OffsetFetchResponsePartition>, "0-7";
    }

    struct OffsetFetchResponsePartition {
        partition_index: i32, "0-7";
        committed_offset: i64, "0-7";
        /// -1: unknown.
        committed_leader_epoch: i32 = -1, "5-7", ignorable;
        metadata: Option<Str>, "0-7", nullable "0-7";
        error_code: i16, "0-7";
    }

    struct OffsetFetchResponseGroup {
        group_id: Str, "8+";
        topics: Vec<OffsetFetchResponseTopics>, "8+";
        error_code: i16, "8+";
    }

    struct OffsetFetchResponseTopics {
        name: Str, "8-9", ignorable;
        topic_id: Uuid, "10+", ignorable;
        partitions: Vec<OffsetFetchResponsePartitions>, "8+";
    }

    struct OffsetFetchResponsePartitions {
        partition_index: i32, "8+";
        committed_offset: i64, "8+";
        /// -1: unknown.
        committed_leader_epoch: i32 = -1, "8+", ignorable;
        metadata: Option<Str>, "8+", nullable "8+";
        error_code: i16, "8+";
    }
}
