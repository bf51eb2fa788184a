//! Heartbeat: a member says that it lives.
//! v1: throttle time. v3: static members (KIP-345). v4: flexible.

use crate::wire::{Str, wire_message};

wire_message! {
    request HeartbeatRequest, key 12, versions "0-4", flexible "4+" {
        group_id: Str, "0+";
        generation_id: i32, "0+";
        member_id: Str, "0+";
        /// Of a static member (KIP-345).
        group_instance_id: Option<Str> = None, "3+", nullable "3+";
    }

    response HeartbeatResponse, key 12, versions "0-4", flexible "4+" {
        throttle_time_ms: i32, "1+", ignorable;
        error_code: i16, "0+";
    }
}
