//! The declarations of all messages, one module per API: Kafka 4.4 as far as it is served here.
//! Owned by nobody.
//! Always: equal to the definitions in Kafka's own jars (`tests/schemas.rs`).
//! How a declaration becomes bytes is said by `macros` and `field`.

pub mod alter_configs;
pub mod api_versions;
pub mod consumer_protocol;
pub mod coordinator_records;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_topic_partitions;
pub mod fetch;
pub mod find_coordinator;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod list_offsets;
pub mod metadata;
pub mod metadata_records;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod sync_group;
