//! ListGroups: the groups that a node coordinates.
//! v1: throttle time. v3: flexible. v4: by state (KIP-518). v5: by type (KIP-848).

use crate::wire::{Str, wire_message};

wire_message! {
    request ListGroupsRequest, key 16, versions "0-5", flexible "3+" {
        /// Empty: any state.
        states_filter: Vec<Str>, "4+";
        /// Empty: any type.
        types_filter: Vec<Str>, "5+";
    }

    response ListGroupsResponse, key 16, versions "0-5", flexible "3+" {
        throttle_time_ms: i32, "1+", ignorable;
        error_code: i16, "0+";
        groups: Vec<ListedGroup>, "0+";
    }

    struct ListedGroup {
        group_id: Str, "0+";
        protocol_type: Str, "0+";
        group_state: Str, "4+", ignorable;
        group_type: Str, "5+", ignorable;
    }
}
