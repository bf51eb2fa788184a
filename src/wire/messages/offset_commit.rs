//! OffsetCommit: keeps the offsets of a group.
//! v2: the oldest served. v3: throttle time. v5: no retention time any more. v6: leader epoch. v7: static members (KIP-345).
//! v8: flexible. v9: member epochs (KIP-848). v10: topics named by id.

use crate::base::Uuid;
use crate::wire::{Str, wire_message};

wire_message! {
    request OffsetCommitRequest, key 8, versions "2-10", flexible "8+" {
        group_id: Str, "0+";
        /// -1: no member, a plain commit.
        generation_id_or_member_epoch: i32 = -1, "1+", ignorable;
        member_id: Str, "1+", ignorable;
        /// Of a static member (KIP-345).
        group_instance_id: Option<Str> = None, "7+", nullable "7+";
        /// -1: the broker decides.
        retention_time_ms: i64 = -1, "2-4", ignorable;
        topics: Vec<OffsetCommitRequestTopic>, "0+";
    }

    struct OffsetCommitRequestTopic {
        name: Str, "0-9", ignorable;
        topic_id: Uuid, "10+", ignorable;
        partitions: Vec<OffsetCommitRequestPartition>, "0+";
    }

    struct OffsetCommitRequestPartition {
        partition_index: i32, "0+";
        committed_offset: i64, "0+";
        /// -1: unknown.
        committed_leader_epoch: i32 = -1, "6+", ignorable;
        committed_metadata: Option<Str>, "0+", nullable "0+";
    }

    response OffsetCommitResponse, key 8, versions "2-10", flexible "8+" {
        throttle_time_ms: i32, "3+", ignorable;
        topics: Vec<OffsetCommitResponseTopic>, "0+";
    }

    struct OffsetCommitResponseTopic {
        name: Str, "0-9", ignorable;
        topic_id: Uuid, "10+", ignorable;
        partitions: Vec<OffsetCommitResponsePartition>, "0+";
    }

    struct OffsetCommitResponsePartition {
        partition_index: i32, "0+";
        error_code: i16, "0+";
    }
}
