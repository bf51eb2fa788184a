//! Records of `__cluster_metadata` (KRaft), as far as they are written here. Each value begins with frame version, type (`key`
//! below) and version, all unsigned varints. All are flexible from v0.
//! RegisterBroker: v1 shutdown, v2 ZooKeeper, v3 directories (KIP-858), v4 cordoned ones. Partition, PartitionChange: v1
//! directories, v2 eligible leader replicas (KIP-966). BrokerRegistrationChange: v1 shutdown, v2 directories, v3 cordoned ones.

use crate::base::Uuid;
use crate::wire::{Str, wire_message};

wire_message! {
    record RegisterBrokerRecord, key 0, versions "0-4", flexible "0+" {
        broker_id: i32, "0+";
        is_migrating_zk_broker: bool, "2+";
        /// New at every start of the process.
        incarnation_id: Uuid, "0+";
        /// The offset of the record itself.
        broker_epoch: i64, "0+";
        end_points: Vec<BrokerEndpoint>, "0+";
        features: Vec<BrokerFeature>, "0+";
        rack: Option<Str>, "0+", nullable "0+";
        fenced: bool = true, "0+";
        in_controlled_shutdown: bool, "1+";
        log_dirs: Vec<Uuid>, "3+", tag 0 "3+";
        cordoned_log_dirs: Option<Vec<Uuid>> = None, "4+", nullable "4+", tag 1 "4+";
    }

    struct BrokerEndpoint {
        name: Str, "0+";
        host: Str, "0+";
        port: u16, "0+";
        /// 0: PLAINTEXT; 1: SSL; 2: SASL_PLAINTEXT; 3: SASL_SSL.
        security_protocol: i16, "0+";
    }

    struct BrokerFeature {
        name: Str, "0+";
        min_supported_version: i16, "0+";
        max_supported_version: i16, "0+";
    }

    record UnregisterBrokerRecord, key 1, versions "0", flexible "0+" {
        broker_id: i32, "0+";
        broker_epoch: i64, "0+";
    }

    record TopicRecord, key 2, versions "0", flexible "0+" {
        name: Str, "0+";
        topic_id: Uuid, "0+";
    }

    record PartitionRecord, key 3, versions "0-2", flexible "0+" {
        partition_id: i32 = -1, "0+";
        topic_id: Uuid, "0+";
        replicas: Vec<i32>, "0+";
        isr: Vec<i32>, "0+";
        removing_replicas: Vec<i32>, "0+";
        adding_replicas: Vec<i32>, "0+";
        /// -1: none.
        leader: i32 = -1, "0+";
        /// 0: recovered; 1: recovering from an unclean election.
        leader_recovery_state: i8, "0+", tag 0 "0+";
        /// -1: unknown.
        leader_epoch: i32 = -1, "0+";
        partition_epoch: i32 = -1, "0+";
        directories: Vec<Uuid>, "1+";
        eligible_leader_replicas: Option<Vec<i32>> = None, "2+", nullable "2+", tag 1 "2+";
        last_known_elr: Option<Vec<i32>> = None, "2+", nullable "2+", tag 2 "2+";
    }

    record PartitionChangeRecord, key 5, versions "0-2", flexible "0+" {
        partition_id: i32 = -1, "0+";
        topic_id: Uuid, "0+";
        /// Null: unchanged, as all below.
        isr: Option<Vec<i32>> = None, "0+", nullable "0+", tag 0 "0+";
        /// -1: none; -2: unchanged.
        leader: i32 = -2, "0+", tag 1 "0+";
        replicas: Option<Vec<i32>> = None, "0+", nullable "0+", tag 2 "0+";
        removing_replicas: Option<Vec<i32>> = None, "0+", nullable "0+", tag 3 "0+";
        adding_replicas: Option<Vec<i32>> = None, "0+", nullable "0+", tag 4 "0+";
        /// -1: unchanged.
        leader_recovery_state: i8 = -1, "0+", tag 5 "0+";
        directories: Option<Vec<Uuid>> = None, "1+", nullable "1+", tag 8 "1+";
        eligible_leader_replicas: Option<Vec<i32>> = None, "2+", nullable "2+", tag 6 "2+";
        last_known_elr: Option<Vec<i32>> = None, "2+", nullable "2+", tag 7 "2+";
    }

    record ConfigRecord, key 4, versions "0", flexible "0+" {
        /// 2: topic; 4: broker.
        resource_type: i8, "0+";
        /// Empty for the default of all brokers.
        resource_name: Str, "0+";
        name: Str, "0+";
        /// Null: the key is removed.
        value: Option<Str>, "0+", nullable "0+";
    }

    record RemoveTopicRecord, key 9, versions "0", flexible "0+" {
        topic_id: Uuid, "0+";
    }

    record FeatureLevelRecord, key 12, versions "0", flexible "0+" {
        name: Str, "0+";
        /// 0: the feature is removed.
        feature_level: i16, "0+";
    }

    record BrokerRegistrationChangeRecord, key 17, versions "0-3", flexible "0+" {
        broker_id: i32, "0+";
        broker_epoch: i64, "0+";
        /// -1: unfence; 0: unchanged; 1: fence.
        fenced: i8, "0+", tag 0 "0+";
        /// 0: unchanged; 1: shutting down.
        in_controlled_shutdown: i8, "1+", tag 1 "1+";
        log_dirs: Vec<Uuid>, "2+", tag 2 "2+";
        cordoned_log_dirs: Option<Vec<Uuid>> = None, "3+", nullable "3+", tag 3 "3+";
    }

    record ProducerIdsRecord, key 15, versions "0", flexible "0+" {
        broker_id: i32, "0+";
        broker_epoch: i64 = -1, "0+";
        /// The first id that no block holds yet.
        next_producer_id: i64, "0+";
    }

    record NoOpRecord, key 20, versions "0", flexible "0+" {}
}
