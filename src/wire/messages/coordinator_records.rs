//! Records of `__consumer_offsets` for classic groups: what a group has committed, and its members. Key and value each begin with
//! a version; the version of a key says which record it is (0 or 1: offset, 2: group).
//! Offset: v1 expire timestamp, v3 leader epoch, v4 flexible with topic id. Group: v1 rebalance timeout, v2 timestamp of the state,
//! v3 static members, v4 flexible.

use bytes::Bytes;

use crate::base::Uuid;
use crate::wire::{Str, wire_message};

wire_message! {
    record OffsetCommitKey, key 1, versions "0" {
        group: Str, "0";
        topic: Str, "0";
        partition: i32, "0";
    }

    record OffsetCommitValue, key 1, versions "0-4", flexible "4+" {
        offset: i64, "0+";
        leader_epoch: i32 = -1, "3+", ignorable;
        metadata: Str, "0+";
        commit_timestamp: i64, "0+";
        /// -1: as the retention of the broker says.
        expire_timestamp: i64 = -1, "1", ignorable;
        topic_id: Uuid, "4+", tag 0 "4+", ignorable;
    }

    record GroupMetadataKey, key 2, versions "0" {
        group: Str, "0";
    }

    record GroupMetadataValue, key 2, versions "0-4", flexible "4+" {
        protocol_type: Str, "0+";
        generation: i32, "0+";
        protocol: Option<Str>, "0+", nullable "0+";
        leader: Option<Str>, "0+", nullable "0+";
        current_state_timestamp: i64 = -1, "2+", ignorable;
        members: Vec<MemberMetadata>, "0+";
    }

    struct MemberMetadata {
        member_id: Str, "0+";
        group_instance_id: Option<Str> = None, "3+", nullable "3+", ignorable;
        client_id: Str, "0+";
        client_host: Str, "0+";
        rebalance_timeout: i32 = -1, "1+", ignorable;
        session_timeout: i32, "0+";
        subscription: Bytes, "0+";
        assignment: Bytes, "0+";
    }
}
