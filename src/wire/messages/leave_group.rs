//! LeaveGroup: members leave or are removed.
//! v1: throttle time. v3: many members, static ones too (KIP-345). v4: flexible. v5: reason (KIP-800).

use crate::wire::{Str, wire_message};

wire_message! {
    request LeaveGroupRequest, key 13, versions "0-5", flexible "4+" {
        group_id: Str, "0+";
        member_id: Str, "0-2";
        members: Vec<MemberIdentity>, "3+";
    }

    struct MemberIdentity {
        member_id: Str, "3+";
        /// Of a static member (KIP-345).
        group_instance_id: Option<Str> = None, "3+", nullable "3+";
        reason: Option<Str> = None, "5+", nullable "5+", ignorable;
    }

    response LeaveGroupResponse, key 13, versions "0-5", flexible "4+" {
        throttle_time_ms: i32, "1+", ignorable;
        error_code: i16, "0+";
        members: Vec<MemberResponse>, "3+";
    }

    struct MemberResponse {
        member_id: Str, "3+";
        /// Of a static member (KIP-345).
        group_instance_id: Option<Str>, "3+", nullable "3+";
        error_code: i16, "3+";
    }
}
