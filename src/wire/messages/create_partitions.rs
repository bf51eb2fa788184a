//! CreatePartitions: adds partitions to topics (KIP-195).
//! v2: flexible. v3: THROTTLING_QUOTA_EXCEEDED (KIP-599).

use crate::wire::{Str, wire_message};

wire_message! {
    request CreatePartitionsRequest, key 37, versions "0-3", flexible "2+" {
        topics: Vec<CreatePartitionsTopic>, "0+";
        timeout_ms: i32, "0+";
        validate_only: bool, "0+";
    }

    struct CreatePartitionsTopic {
        name: Str, "0+";
        /// Of partitions after the change.
        count: i32, "0+";
        /// Null: the broker decides; else one for each new partition.
        assignments: Option<Vec<CreatePartitionsAssignment>>, "0+", nullable "0+";
    }

    struct CreatePartitionsAssignment {
        broker_ids: Vec<i32>, "0+";
    }

    response CreatePartitionsResponse, key 37, versions "0-3", flexible "2+" {
        throttle_time_ms: i32, "0+";
        results: Vec<CreatePartitionsTopicResult>, "0+";
    }

    struct CreatePartitionsTopicResult {
        name: Str, "0+";
        error_code: i16, "0+";
        error_message: Option<Str> = None, "0+", nullable "0+";
    }
}
