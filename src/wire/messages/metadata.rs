//! Metadata: brokers, topics, partitions and their leaders.
//! v1: null asks for all topics; rack, controller, internal topics. v2: cluster id. v3: throttle time. v4: topic creation can be
//! turned off. v5: offline replicas. v7: leader epoch. v8: authorized operations. v9: flexible. v10: topic ids in the answer.
//! v11: no operations of the cluster any more. v12: topics asked for by id. v13: an error for the whole answer.

use crate::base::Uuid;
use crate::wire::{Str, wire_message};

wire_message! {
    request MetadataRequest, key 3, versions "0-13", flexible "9+" {
        /// Null: all topics; in v0 an empty list says that.
        topics: Option<Vec<MetadataRequestTopic>>, "0+", nullable "1+";
        allow_auto_topic_creation: bool = true, "4+";
        include_cluster_authorized_operations: bool, "8-10";
        include_topic_authorized_operations: bool, "8+";
    }

    struct MetadataRequestTopic {
        topic_id: Uuid, "10+", ignorable;
        name: Option<Str>, "0+", nullable "10+";
    }

    response MetadataResponse, key 3, versions "0-13", flexible "9+" {
        throttle_time_ms: i32, "3+", ignorable;
        brokers: Vec<MetadataResponseBroker>, "0+";
        cluster_id: Option<Str> = None, "2+", nullable "2+", ignorable;
        controller_id: i32 = -1, "1+", ignorable;
        topics: Vec<MetadataResponseTopic>, "0+";
        /// Bit field; `i32::MIN`: not asked for.
        cluster_authorized_operations: i32 = i32::MIN, "8-10";
        error_code: i16, "13+", ignorable;
    }

    struct MetadataResponseBroker {
        node_id: i32, "0+";
        host: Str, "0+";
        port: i32, "0+";
        rack: Option<Str> = None, "1+", nullable "1+", ignorable;
    }

    struct MetadataResponseTopic {
        error_code: i16, "0+";
        name: Option<Str>, "0+", nullable "12+";
        topic_id: Uuid, "10+", ignorable;
        is_internal: bool, "1+", ignorable;
        partitions: Vec<MetadataResponsePartition>, "0+";
        /// Bit field; `i32::MIN`: not asked for.
        topic_authorized_operations: i32 = i32::MIN, "8+";
    }

    struct MetadataResponsePartition {
        error_code: i16, "0+";
        partition_index: i32, "0+";
        leader_id: i32, "0+";
        /// -1: unknown.
        leader_epoch: i32 = -1, "7+", ignorable;
        replica_nodes: Vec<i32>, "0+";
        isr_nodes: Vec<i32>, "0+";
        offline_replicas: Vec<i32>, "5+", ignorable;
    }
}
