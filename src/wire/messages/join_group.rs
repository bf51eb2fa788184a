//! JoinGroup: enters a classic group, or enters it again.
//! v1: rebalance timeout. v2: throttle time. v4: a new member joins again with the id it is given (KIP-394). v5: static members
//! (KIP-345). v6: flexible. v7: protocol type in the answer (KIP-559). v8: reason (KIP-800). v9: assignment skipped (KIP-814).

use bytes::Bytes;

use crate::wire::{Str, wire_message};

wire_message! {
    request JoinGroupRequest, key 11, versions "0-9", flexible "6+" {
        group_id: Str, "0+";
        session_timeout_ms: i32, "0+";
        /// -1 (v0): the session timeout counts.
        rebalance_timeout_ms: i32 = -1, "1+", ignorable;
        member_id: Str, "0+";
        /// Of a static member (KIP-345).
        group_instance_id: Option<Str> = None, "5+", nullable "5+";
        protocol_type: Str, "0+";
        protocols: Vec<JoinGroupRequestProtocol>, "0+";
        reason: Option<Str> = None, "8+", nullable "8+", ignorable;
    }

    struct JoinGroupRequestProtocol {
        name: Str, "0+";
        metadata: Bytes, "0+";
    }

    response JoinGroupResponse, key 11, versions "0-9", flexible "6+" {
        throttle_time_ms: i32, "2+", ignorable;
        error_code: i16, "0+";
        generation_id: i32 = -1, "0+";
        protocol_type: Option<Str> = None, "7+", nullable "7+", ignorable;
        protocol_name: Option<Str>, "0+", nullable "7+";
        leader: Str, "0+";
        /// The leader need not compute an assignment (KIP-814).
        skip_assignment: bool, "9+";
        member_id: Str, "0+";
        /// Empty unless the member is the leader.
        members: Vec<JoinGroupResponseMember>, "0+";
    }

    struct JoinGroupResponseMember {
        member_id: Str, "0+";
        /// Of a static member (KIP-345).
        group_instance_id: Option<Str> = None, "5+", nullable "5+", ignorable;
        metadata: Bytes, "0+";
    }
}
