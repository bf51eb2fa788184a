//! CreateTopics: creates topics.
//! v2: the oldest served. v4: partitions and replication factor may be left to the broker (KIP-464). v5: flexible, configs in the
//! answer (KIP-525). v6: THROTTLING_QUOTA_EXCEEDED (KIP-599). v7: topic id.

use crate::base::Uuid;
use crate::wire::{Str, wire_message};

wire_message! {
    request CreateTopicsRequest, key 19, versions "2-7", flexible "5+" {
        topics: Vec<CreatableTopic>, "0+";
        timeout_ms: i32 = 60000, "0+";
        validate_only: bool, "1+";
    }

    struct CreatableTopic {
        name: Str, "0+";
        /// -1: the default of the broker, or as `assignments` say.
        num_partitions: i32, "0+";
        /// -1: the default of the broker, or as `assignments` say.
        replication_factor: i16, "0+";
        assignments: Vec<CreatableReplicaAssignment>, "0+";
        configs: Vec<CreatableTopicConfig>, "0+";
    }

    struct CreatableReplicaAssignment {
        partition_index: i32, "0+";
        broker_ids: Vec<i32>, "0+";
    }

    struct CreatableTopicConfig {
        name: Str, "0+";
        value: Option<Str>, "0+", nullable "0+";
    }

    response CreateTopicsResponse, key 19, versions "2-7", flexible "5+" {
        throttle_time_ms: i32, "2+", ignorable;
        topics: Vec<CreatableTopicResult>, "0+";
    }

    struct CreatableTopicResult {
        name: Str, "0+";
        topic_id: Uuid, "7+", ignorable;
        error_code: i16, "0+";
        error_message: Option<Str>, "1+", nullable "0+", ignorable;
        topic_config_error_code: i16, "5+", tag 0 "5+", ignorable;
        num_partitions: i32 = -1, "5+", ignorable;
        replication_factor: i16 = -1, "5+", ignorable;
        configs: Option<Vec<CreatableTopicConfigs>>, "5+", nullable "5+", ignorable;
    }

    struct CreatableTopicConfigs {
        name: Str, "5+";
        value: Option<Str>, "5+", nullable "5+";
        read_only: bool, "5+";
        /// 1: topic; 2: dynamic broker; 3: dynamic default of brokers; 4: static; 5: default (KIP-226).
        config_source: i8 = -1, "5+", ignorable;
        is_sensitive: bool, "5+";
    }
}
