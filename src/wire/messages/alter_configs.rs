//! AlterConfigs: replaces the configuration of topics and brokers (KIP-133).
//! v2: flexible.

use crate::wire::{Str, wire_message};

wire_message! {
    request AlterConfigsRequest, key 33, versions "0-2", flexible "2+" {
        resources: Vec<AlterConfigsResource>, "0+";
        validate_only: bool, "0+";
    }

    struct AlterConfigsResource {
        /// 2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group.
        resource_type: i8, "0+";
        resource_name: Str, "0+";
        configs: Vec<AlterableConfig>, "0+";
    }

    struct AlterableConfig {
        name: Str, "0+";
        value: Option<Str>, "0+", nullable "0+";
    }

    response AlterConfigsResponse, key 33, versions "0-2", flexible "2+" {
        throttle_time_ms: i32, "0+";
        responses: Vec<AlterConfigsResourceResponse>, "0+";
    }

    struct AlterConfigsResourceResponse {
        error_code: i16, "0+";
        error_message: Option<Str>, "0+", nullable "0+";
        /// 2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group.
        resource_type: i8, "0+";
        resource_name: Str, "0+";
    }
}
