//! DescribeLogDirs: data directories and the size of partitions in them (KIP-113).
//! v1: the oldest served. v2: flexible. v3: an error for the whole answer. v4: size of the volume (KIP-827). v5: cordoned
//! directories.

use crate::wire::{Str, wire_message};

wire_message! {
    request DescribeLogDirsRequest, key 35, versions "1-5", flexible "2+" {
        /// Null: all.
        topics: Option<Vec<DescribableLogDirTopic>>, "0+", nullable "0+";
    }

    struct DescribableLogDirTopic {
        topic: Str, "0+";
        partitions: Vec<i32>, "0+";
    }

    response DescribeLogDirsResponse, key 35, versions "1-5", flexible "2+" {
        throttle_time_ms: i32, "0+";
        error_code: i16, "3+", ignorable;
        results: Vec<DescribeLogDirsResult>, "0+";
    }

    struct DescribeLogDirsResult {
        error_code: i16, "0+";
        log_dir: Str, "0+";
        topics: Vec<DescribeLogDirsTopic>, "0+";
        /// -1: unknown.
        total_bytes: i64 = -1, "4+", ignorable;
        /// -1: unknown.
        usable_bytes: i64 = -1, "4+", ignorable;
        is_cordoned: bool, "5+", ignorable;
    }

    struct DescribeLogDirsTopic {
        name: Str, "0+";
        partitions: Vec<DescribeLogDirsPartition>, "0+";
    }

    struct DescribeLogDirsPartition {
        partition_index: i32, "0+";
        partition_size: i64, "0+";
        /// Of a partition on its way between directories.
        offset_lag: i64, "0+";
        /// On its way between directories.
        is_future_key: bool, "0+";
    }
}
