//! DeleteGroups: deletes empty groups (KIP-229).
//! v2: flexible. v3: error message.

use crate::wire::{Str, wire_message};

wire_message! {
    request DeleteGroupsRequest, key 42, versions "0-3", flexible "2+" {
        groups_names: Vec<Str>, "0+";
    }

    response DeleteGroupsResponse, key 42, versions "0-3", flexible "2+" {
        throttle_time_ms: i32, "0+";
        results: Vec<DeletableGroupResult>, "0+";
    }

    struct DeletableGroupResult {
        group_id: Str, "0+";
        error_code: i16, "0+";
        error_message: Option<Str> = None, "3+", nullable "3+", ignorable;
    }
}
