//! Produce: appends record batches to partitions.
//! v3: the oldest served, transactional id. v5: log start offset. v7: zstd allowed. v8: errors of single records (KIP-467).
//! v9: flexible. v10: leader hints (KIP-951). v11, v12: transactions (KIP-890). v13: topics named by id (KIP-516).

use crate::base::Uuid;
use crate::wire::{Records, Str, wire_message};

wire_message! {
    request ProduceRequest, key 0, versions "3-13", flexible "9+" {
        transactional_id: Option<Str> = None, "3+", nullable "3+";
        /// 0: none, and no response; 1: the leader; -1: all in-sync replicas.
        acks: i16, "0+";
        timeout_ms: i32, "0+";
        topic_data: Vec<TopicProduceData>, "0+";
    }

    struct TopicProduceData {
        name: Str, "0-12", ignorable;
        topic_id: Uuid, "13+", ignorable;
        partition_data: Vec<PartitionProduceData>, "0+";
    }

    struct PartitionProduceData {
        index: i32, "0+";
        records: Records, "0+", nullable "0+";
    }

    response ProduceResponse, key 0, versions "3-13", flexible "9+" {
        responses: Vec<TopicProduceResponse>, "0+";
        throttle_time_ms: i32, "1+", ignorable;
        /// Of every current leader named above.
        node_endpoints: Vec<NodeEndpoint>, "10+", tag 0 "10+";
    }

    struct TopicProduceResponse {
        name: Str, "0-12", ignorable;
        topic_id: Uuid, "13+", ignorable;
        partition_responses: Vec<PartitionProduceResponse>, "0+";
    }

    struct PartitionProduceResponse {
        index: i32, "0+";
        error_code: i16, "0+";
        base_offset: i64, "0+";
        /// -1 unless the topic stamps records with the time of their append.
        log_append_time_ms: i64 = -1, "2+", ignorable;
        log_start_offset: i64 = -1, "5+", ignorable;
        /// The records that made the whole batch be refused (KIP-467).
        record_errors: Vec<BatchIndexAndErrorMessage>, "8+", ignorable;
        error_message: Option<Str> = None, "8+", nullable "8+", ignorable;
        /// With NOT_LEADER_OR_FOLLOWER (KIP-951).
        current_leader: LeaderIdAndEpoch, "10+", tag 0 "10+";
    }

    struct BatchIndexAndErrorMessage {
        batch_index: i32, "8+";
        batch_index_error_message: Option<Str> = None, "8+", nullable "8+";
    }

    struct LeaderIdAndEpoch {
        leader_id: i32 = -1, "10+";
        /// -1: unknown.
        leader_epoch: i32 = -1, "10+";
    }

    struct NodeEndpoint {
        node_id: i32, "10+";
        host: Str, "10+";
        port: i32, "10+";
        rack: Option<Str> = None, "10+", nullable "10+";
    }
}
