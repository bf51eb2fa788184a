//! IncrementalAlterConfigs: changes single keys of a configuration (KIP-339).
//! v1: flexible.

use crate::wire::{Str, wire_message};

wire_message! {
    request IncrementalAlterConfigsRequest, key 44, versions "0-1", flexible "1+" {
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
        /// 0: set; 1: delete; 2: append; 3: subtract.
        config_operation: i8, "0+";
        value: Option<Str>, "0+", nullable "0+";
    }

    response IncrementalAlterConfigsResponse, key 44, versions "0-1", flexible "1+" {
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
