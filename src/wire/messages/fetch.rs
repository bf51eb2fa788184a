//! Fetch: reads record batches from partitions.
//! v4: the oldest served, isolation level. v5: log start offset. v7: sessions (KIP-227). v9: leader epoch (KIP-320). v10: zstd
//! allowed. v11: rack (KIP-392). v12: flexible, diverging epochs. v13: topics named by id (KIP-516). v15: state of a follower
//! (KIP-903). v16: leader hints (KIP-951). v17: directory id (KIP-853). v18: high watermark of a follower (KIP-1166).

use crate::base::Uuid;
use crate::wire::{Records, Str, wire_message};

wire_message! {
    request FetchRequest, key 1, versions "4-18", flexible "12+" {
        cluster_id: Option<Str> = None, "12+", nullable "12+", tag 0 "12+", ignorable;
        /// -1: a consumer.
        replica_id: i32 = -1, "0-14";
        replica_state: ReplicaState, "15+", tag 1 "15+";
        max_wait_ms: i32, "0+";
        min_bytes: i32, "0+";
        /// Bound of the whole answer; its first batch comes whole all the same.
        max_bytes: i32 = i32::MAX, "3+", ignorable;
        /// 0: read uncommitted; 1: read committed.
        isolation_level: i8, "4+", ignorable;
        /// 0: no session (KIP-227).
        session_id: i32, "7+", ignorable;
        /// -1: no session wanted; 0: a new one.
        session_epoch: i32 = -1, "7+", ignorable;
        topics: Vec<FetchTopic>, "0+";
        /// Partitions to take out of the session.
        forgotten_topics_data: Vec<ForgottenTopic>, "7+";
        /// Of the client (KIP-392).
        rack_id: Str, "11+", ignorable;
    }

    struct ReplicaState {
        /// -1: a consumer.
        replica_id: i32 = -1, "15+";
        replica_epoch: i64 = -1, "15+";
    }

    struct FetchTopic {
        topic: Str, "0-12", ignorable;
        topic_id: Uuid, "13+", ignorable;
        partitions: Vec<FetchPartition>, "0+";
    }

    struct FetchPartition {
        partition: i32, "0+";
        /// The epoch the client knows; -1: not to be checked (KIP-320).
        current_leader_epoch: i32 = -1, "9+", ignorable;
        fetch_offset: i64, "0+";
        /// -1: no check for divergence.
        last_fetched_epoch: i32 = -1, "12+";
        /// Of a follower; -1 from a consumer.
        log_start_offset: i64 = -1, "5+", ignorable;
        partition_max_bytes: i32, "0+";
        replica_directory_id: Uuid, "17+", tag 0 "17+", ignorable;
        /// Known to the follower (KIP-1166).
        high_watermark: i64 = i64::MAX, "18+", tag 1 "18+", ignorable;
    }

    struct ForgottenTopic {
        topic: Str, "7-12", ignorable;
        topic_id: Uuid, "13+", ignorable;
        partitions: Vec<i32>, "7+";
    }

    response FetchResponse, key 1, versions "4-18", flexible "12+" {
        throttle_time_ms: i32, "1+", ignorable;
        error_code: i16, "7+", ignorable;
        /// 0: no session (KIP-227).
        session_id: i32, "7+";
        responses: Vec<FetchableTopicResponse>, "0+";
        /// Of every current leader named above.
        node_endpoints: Vec<NodeEndpoint>, "16+", tag 0 "16+";
    }

    struct FetchableTopicResponse {
        topic: Str, "0-12", ignorable;
        topic_id: Uuid, "13+", ignorable;
        partitions: Vec<PartitionData>, "0+";
    }

    struct PartitionData {
        partition_index: i32, "0+";
        error_code: i16, "0+";
        high_watermark: i64, "0+";
        /// -1: unknown.
        last_stable_offset: i64 = -1, "4+", ignorable;
        log_start_offset: i64 = -1, "5+", ignorable;
        diverging_epoch: EpochEndOffset, "12+", tag 0 "12+";
        /// With NOT_LEADER_OR_FOLLOWER (KIP-951).
        current_leader: LeaderIdAndEpoch, "12+", tag 1 "12+";
        snapshot_id: SnapshotId, "12+", tag 2 "12+";
        /// Null unless read committed.
        aborted_transactions: Option<Vec<AbortedTransaction>>, "4+", nullable "4+", ignorable;
        /// -1: none.
        preferred_read_replica: i32 = -1, "11+";
        records: Records, "0+", nullable "0+";
    }

    struct EpochEndOffset {
        epoch: i32 = -1, "12+";
        end_offset: i64 = -1, "12+";
    }

    struct LeaderIdAndEpoch {
        leader_id: i32 = -1, "12+";
        /// -1: unknown.
        leader_epoch: i32 = -1, "12+";
    }

    struct SnapshotId {
        end_offset: i64 = -1, "0+";
        epoch: i32 = -1, "0+";
    }

    struct AbortedTransaction {
        producer_id: i64, "4+";
        first_offset: i64, "4+";
    }

    struct NodeEndpoint {
        node_id: i32, "16+";
        host: Str, "16+";
        port: i32, "16+";
        rack: Option<Str> = None, "16+", nullable "16+";
    }
}
