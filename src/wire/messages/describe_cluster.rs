//! DescribeCluster: brokers, controller and id of the cluster (KIP-700).
//! v1: endpoint type (KIP-919). v2: fenced brokers (KIP-1073). Flexible from v0.

use crate::wire::{Str, wire_message};

wire_message! {
    request DescribeClusterRequest, key 60, versions "0-2", flexible "0+" {
        include_cluster_authorized_operations: bool, "0+";
        /// 1: brokers; 2: controllers (KIP-919).
        endpoint_type: i8 = 1, "1+";
        include_fenced_brokers: bool, "2+";
    }

    response DescribeClusterResponse, key 60, versions "0-2", flexible "0+" {
        throttle_time_ms: i32, "0+";
        error_code: i16, "0+";
        error_message: Option<Str> = None, "0+", nullable "0+";
        /// 1: brokers; 2: controllers (KIP-919).
        endpoint_type: i8 = 1, "1+";
        cluster_id: Str, "0+";
        controller_id: i32 = -1, "0+";
        brokers: Vec<DescribeClusterBroker>, "0+";
        /// Bit field; `i32::MIN`: not asked for.
        cluster_authorized_operations: i32 = i32::MIN, "0+";
    }

    struct DescribeClusterBroker {
        broker_id: i32, "0+";
        host: Str, "0+";
        port: i32, "0+";
        rack: Option<Str> = None, "0+", nullable "0+";
        is_fenced: bool, "2+";
    }
}
