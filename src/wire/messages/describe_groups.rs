//! DescribeGroups: state and members of classic groups.
//! v1: throttle time. v3: authorized operations. v4: static members (KIP-345). v5: flexible. v6: GROUP_ID_NOT_FOUND with a
//! message (KIP-1043).

use bytes::Bytes;

use crate::wire::{Str, wire_message};

wire_message! {
    request DescribeGroupsRequest, key 15, versions "0-6", flexible "5+" {
        groups: Vec<Str>, "0+";
        include_authorized_operations: bool, "3+";
    }

    response DescribeGroupsResponse, key 15, versions "0-6", flexible "5+" {
        throttle_time_ms: i32, "1+", ignorable;
        groups: Vec<DescribedGroup>, "0+";
    }

    struct DescribedGroup {
        error_code: i16, "0+";
        error_message: Option<Str> = None, "6+", nullable "6+";
        group_id: Str, "0+";
        group_state: Str, "0+";
        protocol_type: Str, "0+";
        protocol_data: Str, "0+";
        members: Vec<DescribedGroupMember>, "0+";
        /// Bit field; `i32::MIN`: not asked for.
        authorized_operations: i32 = i32::MIN, "3+";
    }

    struct DescribedGroupMember {
        member_id: Str, "0+";
        /// Of a static member (KIP-345).
        group_instance_id: Option<Str> = None, "4+", nullable "4+", ignorable;
        client_id: Str, "0+";
        client_host: Str, "0+";
        member_metadata: Bytes, "0+";
        member_assignment: Bytes, "0+";
    }
}
