//! Every declared message as a value the tests can go through: schema and codec without its type.
//! Always: complete; `schemas` compares the list with the sources.

use bytes::Bytes;
use ringlog::wire::schema::{MessageSchema, StructSchema, TypeSchema};
use ringlog::wire::{DecodeError, Field, Message, RequestHeader, ResponseHeader, messages};

pub struct Entry {
    pub message: MessageSchema,
    pub structure: &'static StructSchema,
    /// Decodes and encodes again.
    pub recode: fn(Bytes, i16) -> Result<Bytes, DecodeError>,
    /// Decodes and prints.
    pub print: fn(Bytes, i16) -> Result<String, DecodeError>,
}

impl Entry {
    pub fn versions(&self) -> std::ops::RangeInclusive<i16> {
        self.message.versions.min..=self.message.versions.max
    }
}

pub fn all() -> Vec<Entry> {
    vec![
        entry::<RequestHeader>(),
        entry::<ResponseHeader>(),
        entry::<messages::alter_configs::AlterConfigsRequest>(),
        entry::<messages::alter_configs::AlterConfigsResponse>(),
        entry::<messages::api_versions::ApiVersionsRequest>(),
        entry::<messages::api_versions::ApiVersionsResponse>(),
        entry::<messages::consumer_protocol::ConsumerProtocolSubscription>(),
        entry::<messages::consumer_protocol::ConsumerProtocolAssignment>(),
        entry::<messages::coordinator_records::OffsetCommitKey>(),
        entry::<messages::coordinator_records::OffsetCommitValue>(),
        entry::<messages::coordinator_records::GroupMetadataKey>(),
        entry::<messages::coordinator_records::GroupMetadataValue>(),
        entry::<messages::create_partitions::CreatePartitionsRequest>(),
        entry::<messages::create_partitions::CreatePartitionsResponse>(),
        entry::<messages::create_topics::CreateTopicsRequest>(),
        entry::<messages::create_topics::CreateTopicsResponse>(),
        entry::<messages::delete_groups::DeleteGroupsRequest>(),
        entry::<messages::delete_groups::DeleteGroupsResponse>(),
        entry::<messages::delete_records::DeleteRecordsRequest>(),
        entry::<messages::delete_records::DeleteRecordsResponse>(),
        entry::<messages::delete_topics::DeleteTopicsRequest>(),
        entry::<messages::delete_topics::DeleteTopicsResponse>(),
        entry::<messages::describe_cluster::DescribeClusterRequest>(),
        entry::<messages::describe_cluster::DescribeClusterResponse>(),
        entry::<messages::describe_configs::DescribeConfigsRequest>(),
        entry::<messages::describe_configs::DescribeConfigsResponse>(),
        entry::<messages::describe_groups::DescribeGroupsRequest>(),
        entry::<messages::describe_groups::DescribeGroupsResponse>(),
        entry::<messages::describe_log_dirs::DescribeLogDirsRequest>(),
        entry::<messages::describe_log_dirs::DescribeLogDirsResponse>(),
        entry::<messages::describe_topic_partitions::DescribeTopicPartitionsRequest>(),
        entry::<messages::describe_topic_partitions::DescribeTopicPartitionsResponse>(),
        entry::<messages::fetch::FetchRequest>(),
        entry::<messages::fetch::FetchResponse>(),
        entry::<messages::find_coordinator::FindCoordinatorRequest>(),
        entry::<messages::find_coordinator::FindCoordinatorResponse>(),
        entry::<messages::heartbeat::HeartbeatRequest>(),
        entry::<messages::heartbeat::HeartbeatResponse>(),
        entry::<messages::incremental_alter_configs::IncrementalAlterConfigsRequest>(),
        entry::<messages::incremental_alter_configs::IncrementalAlterConfigsResponse>(),
        entry::<messages::init_producer_id::InitProducerIdRequest>(),
        entry::<messages::init_producer_id::InitProducerIdResponse>(),
        entry::<messages::join_group::JoinGroupRequest>(),
        entry::<messages::join_group::JoinGroupResponse>(),
        entry::<messages::leave_group::LeaveGroupRequest>(),
        entry::<messages::leave_group::LeaveGroupResponse>(),
        entry::<messages::list_groups::ListGroupsRequest>(),
        entry::<messages::list_groups::ListGroupsResponse>(),
        entry::<messages::list_offsets::ListOffsetsRequest>(),
        entry::<messages::list_offsets::ListOffsetsResponse>(),
        entry::<messages::metadata::MetadataRequest>(),
        entry::<messages::metadata::MetadataResponse>(),
        entry::<messages::metadata_records::RegisterBrokerRecord>(),
        entry::<messages::metadata_records::UnregisterBrokerRecord>(),
        entry::<messages::metadata_records::TopicRecord>(),
        entry::<messages::metadata_records::PartitionRecord>(),
        entry::<messages::metadata_records::PartitionChangeRecord>(),
        entry::<messages::metadata_records::ConfigRecord>(),
        entry::<messages::metadata_records::RemoveTopicRecord>(),
        entry::<messages::metadata_records::FeatureLevelRecord>(),
        entry::<messages::metadata_records::BrokerRegistrationChangeRecord>(),
        entry::<messages::metadata_records::ProducerIdsRecord>(),
        entry::<messages::metadata_records::NoOpRecord>(),
        entry::<messages::offset_commit::OffsetCommitRequest>(),
        entry::<messages::offset_commit::OffsetCommitResponse>(),
        entry::<messages::offset_delete::OffsetDeleteRequest>(),
        entry::<messages::offset_delete::OffsetDeleteResponse>(),
        entry::<messages::offset_fetch::OffsetFetchRequest>(),
        entry::<messages::offset_fetch::OffsetFetchResponse>(),
        entry::<messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest>(),
        entry::<messages::offset_for_leader_epoch::OffsetForLeaderEpochResponse>(),
        entry::<messages::produce::ProduceRequest>(),
        entry::<messages::produce::ProduceResponse>(),
        entry::<messages::sync_group::SyncGroupRequest>(),
        entry::<messages::sync_group::SyncGroupResponse>(),
    ]
}

fn entry<M: Message + std::fmt::Debug>() -> Entry {
    let TypeSchema::Struct(structure) = <M as Field>::TYPE else {
        panic!("{} is no structure", M::SCHEMA.name);
    };
    Entry {
        message: M::SCHEMA,
        structure,
        recode: |bytes, version| {
            let message = M::decode_bytes(bytes, version)?;
            Ok(message
                .encode_bytes(version)
                .expect("what was decoded can be encoded"))
        },
        print: |bytes, version| Ok(format!("{:?}", M::decode_bytes(bytes, version)?)),
    }
}
