//! FindCoordinator: the node that coordinates a group or a transactional id.
//! v1: key type, error message, throttle time. v3: flexible. v4: many keys at once (KIP-699). v5: TRANSACTION_ABORTABLE (KIP-890).
//! v6: share groups (KIP-932).

use crate::wire::{Str, wire_message};

wire_message! {
    request FindCoordinatorRequest, key 10, versions "0-6", flexible "3+" {
        key: Str, "0-3";
        /// 0: group; 1: transactional id; 2: share group.
        key_type: i8, "1+";
        coordinator_keys: Vec<Str>, "4+";
    }

    response FindCoordinatorResponse, key 10, versions "0-6", flexible "3+" {
        throttle_time_ms: i32, "1+", ignorable;
        error_code: i16, "0-3";
        error_message: Option<Str>, "1-3", nullable "1-3", ignorable;
        node_id: i32, "0-3";
        host: Str, "0-3";
        port: i32, "0-3";
        coordinators: Vec<Coordinator>, "4+";
    }

    struct Coordinator {
        key: Str, "4+";
        node_id: i32, "4+";
        host: Str, "4+";
        port: i32, "4+";
        error_code: i16, "4+";
        error_message: Option<Str>, "4+", nullable "4+", ignorable;
    }
}
