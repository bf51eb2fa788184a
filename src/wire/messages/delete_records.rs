//! DeleteRecords: moves the log start offset up (KIP-107).
//! v2: flexible.

use crate::wire::{Str, wire_message};

wire_message! {
    request DeleteRecordsRequest, key 21, versions "0-2", flexible "2+" {
        topics: Vec<DeleteRecordsTopic>, "0+";
        timeout_ms: i32, "0+";
    }

    struct DeleteRecordsTopic {
        name: Str, "0+";
        partitions: Vec<DeleteRecordsPartition>, "0+";
    }

    struct DeleteRecordsPartition {
        partition_index: i32, "0+";
        /// Records below it go; -1: below the high watermark.
        offset: i64, "0+";
    }

    response DeleteRecordsResponse, key 21, versions "0-2", flexible "2+" {
        throttle_time_ms: i32, "0+";
        topics: Vec<DeleteRecordsTopicResult>, "0+";
    }

    struct DeleteRecordsTopicResult {
        name: Str, "0+";
        partitions: Vec<DeleteRecordsPartitionResult>, "0+";
    }

    struct DeleteRecordsPartitionResult {
        partition_index: i32, "0+";
        /// The log start offset afterwards; -1 with an error.
        low_watermark: i64, "0+";
        error_code: i16, "0+";
    }
}
