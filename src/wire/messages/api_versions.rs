//! ApiVersions: which APIs and versions the broker speaks; the first request on a connection.
//! v1: throttle time. v3: flexible, the client's software. v4: features with minimum 0 (KAFKA-17011). v5: cluster id and node id
//! are checked (KIP-1242). The response header is always v0 (KIP-511).

use crate::wire::{Str, wire_message};

wire_message! {
    request ApiVersionsRequest, key 18, versions "0-5", flexible "3+" {
        client_software_name: Str, "3+", ignorable;
        client_software_version: Str, "3+", ignorable;
        /// The cluster the client believes it talks to (KIP-1242).
        cluster_id: Option<Str> = None, "5+", nullable "5+", ignorable;
        /// The node the client believes it talks to (KIP-1242).
        node_id: i32 = -1, "5+", ignorable;
    }

    response ApiVersionsResponse, key 18, versions "0-5", flexible "3+" {
        error_code: i16, "0+";
        api_keys: Vec<ApiVersion>, "0+";
        throttle_time_ms: i32, "1+", ignorable;
        supported_features: Vec<SupportedFeatureKey>, "3+", tag 0 "3+", ignorable;
        /// -1: unknown.
        finalized_features_epoch: i64 = -1, "3+", tag 1 "3+", ignorable;
        finalized_features: Vec<FinalizedFeatureKey>, "3+", tag 2 "3+", ignorable;
        zk_migration_ready: bool, "3+", tag 3 "3+", ignorable;
    }

    struct ApiVersion {
        api_key: i16, "0+";
        min_version: i16, "0+";
        max_version: i16, "0+";
    }

    struct SupportedFeatureKey {
        name: Str, "3+";
        min_version: i16, "3+";
        max_version: i16, "3+";
    }

    struct FinalizedFeatureKey {
        name: Str, "3+";
        max_version_level: i16, "3+";
        min_version_level: i16, "3+";
    }
}
