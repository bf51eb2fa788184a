//! SyncGroup: hands in (leader) and takes out the assignment of a generation.
//! v1: throttle time. v3: static members (KIP-345). v4: flexible. v5: protocol type and name (KIP-559).

use bytes::Bytes;

use crate::wire::{Str, wire_message};

wire_message! {
    request SyncGroupRequest, key 14, versions "0-5", flexible "4+" {
        group_id: Str, "0+";
        generation_id: i32, "0+";
        member_id: Str, "0+";
        /// Of a static member (KIP-345).
        group_instance_id: Option<Str> = None, "3+", nullable "3+";
        protocol_type: Option<Str> = None, "5+", nullable "5+", ignorable;
        protocol_name: Option<Str> = None, "5+", nullable "5+", ignorable;
        assignments: Vec<SyncGroupRequestAssignment>, "0+";
    }

    struct SyncGroupRequestAssignment {
        member_id: Str, "0+";
        assignment: Bytes, "0+";
    }

    response SyncGroupResponse, key 14, versions "0-5", flexible "4+" {
        throttle_time_ms: i32, "1+", ignorable;
        error_code: i16, "0+";
        protocol_type: Option<Str> = None, "5+", nullable "5+", ignorable;
        protocol_name: Option<Str> = None, "5+", nullable "5+", ignorable;
        assignment: Bytes, "0+";
    }
}
