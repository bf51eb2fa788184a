//! DescribeTopicPartitions: topics and partitions, page by page (KIP-966). v0 alone, flexible.

use crate::base::Uuid;
use crate::wire::{Str, wire_message};

wire_message! {
    request DescribeTopicPartitionsRequest, key 75, versions "0", flexible "0+" {
        topics: Vec<TopicRequest>, "0+";
        response_partition_limit: i32 = 2000, "0+";
        /// Where an earlier, cut answer says to go on.
        cursor: Option<Cursor> = None, "0+", nullable "0+";
    }

    struct TopicRequest {
        name: Str, "0+";
    }

    struct Cursor {
        topic_name: Str, "0+";
        partition_index: i32, "0+";
    }

    response DescribeTopicPartitionsResponse, key 75, versions "0", flexible "0+" {
        throttle_time_ms: i32, "0+", ignorable;
        topics: Vec<DescribeTopicPartitionsResponseTopic>, "0+";
        /// Set if the answer was cut.
        next_cursor: Option<Cursor> = None, "0+", nullable "0+";
    }

    struct DescribeTopicPartitionsResponseTopic {
        error_code: i16, "0+";
        name: Option<Str>, "0+", nullable "0+";
        topic_id: Uuid, "0+", ignorable;
        is_internal: bool, "0+", ignorable;
        partitions: Vec<DescribeTopicPartitionsResponsePartition>, "0+";
        /// Bit field; `i32::MIN`: not asked for.
        topic_authorized_operations: i32 = i32::MIN, "0+";
    }

    struct DescribeTopicPartitionsResponsePartition {
        error_code: i16, "0+";
        partition_index: i32, "0+";
        leader_id: i32, "0+";
        /// -1: unknown.
        leader_epoch: i32 = -1, "0+", ignorable;
        replica_nodes: Vec<i32>, "0+";
        isr_nodes: Vec<i32>, "0+";
        eligible_leader_replicas: Option<Vec<i32>> = None, "0+", nullable "0+";
        last_known_elr: Option<Vec<i32>> = None, "0+", nullable "0+";
        offline_replicas: Vec<i32>, "0+", ignorable;
    }
}
