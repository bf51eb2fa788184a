//! The table of APIs: which are served, in which versions, what is advertised, which headers they have.
//! Owned by nobody, constants.
//! Always: what is advertised and not served is a known lie (Produce 0-2), every served version has a declaration.
//! The answer to ApiVersions itself is a handler's.

use super::message::Message;
use super::messages::*;
use super::schema::Versions;
use crate::base::ErrorCode;

/// A request with its api key and its response.
pub trait Request: Message {
    const API: ApiKey;
    type Response: Message;
}

/// Declares the table: API = key, module, request, response, served versions, and what is advertised where it differs.
macro_rules! apis {
    ($($api:ident = $key:literal, $module:ident::$request:ident, $response:ident, $served:literal
        $(, advertised $advertised:literal)?;)*) => {
        /// An API that is served.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(i16)]
        pub enum ApiKey {
            $($api = $key,)*
        }

        impl ApiKey {
            /// Every API that is served, in the order of their keys.
            pub const ALL: &[ApiKey] = &[$(ApiKey::$api),*];

            pub const fn from_key(key: i16) -> Option<ApiKey> {
                match key {
                    $($key => Some(ApiKey::$api),)*
                    _ => None,
                }
            }

            /// Versions that are really served.
            pub const fn served(self) -> Versions {
                match self {
                    $(ApiKey::$api => const { Versions::parse($served) },)*
                }
            }

            /// Versions that ApiVersions tells.
            pub const fn advertised(self) -> Versions {
                match self {
                    $(ApiKey::$api => {
                        let _advertised = $served;
                        $(let _advertised = $advertised;)?
                        Versions::parse(_advertised)
                    })*
                }
            }

            /// Versions with compact lengths and tagged fields.
            const fn flexible(self) -> Versions {
                match self {
                    $(ApiKey::$api => $module::$request::SCHEMA.flexible,)*
                }
            }
        }

        $(
            impl Request for $module::$request {
                const API: ApiKey = ApiKey::$api;
                type Response = $module::$response;
            }

            const _: () = {
                let request = $module::$request::SCHEMA;
                let response = $module::$response::SCHEMA;
                let served = Versions::parse($served);
                assert!(matches!(request.key, Some($key)) && matches!(response.key, Some($key)));
                assert!(request.versions.contains(served.min) && request.versions.contains(served.max));
                assert!(response.versions.contains(served.min) && response.versions.contains(served.max));
            };
        )*
    };
}

apis! {
    // librdkafka up to 2.11.0 turns compression off unless Produce v0 is offered (KAFKA-18659).
    Produce = 0, produce::ProduceRequest, ProduceResponse, "3-13", advertised "0-13";
    Fetch = 1, fetch::FetchRequest, FetchResponse, "4-18";
    ListOffsets = 2, list_offsets::ListOffsetsRequest, ListOffsetsResponse, "1-11";
    Metadata = 3, metadata::MetadataRequest, MetadataResponse, "0-13";
    OffsetCommit = 8, offset_commit::OffsetCommitRequest, OffsetCommitResponse, "2-10";
    OffsetFetch = 9, offset_fetch::OffsetFetchRequest, OffsetFetchResponse, "1-10";
    FindCoordinator = 10, find_coordinator::FindCoordinatorRequest, FindCoordinatorResponse, "0-6";
    JoinGroup = 11, join_group::JoinGroupRequest, JoinGroupResponse, "0-9";
    Heartbeat = 12, heartbeat::HeartbeatRequest, HeartbeatResponse, "0-4";
    LeaveGroup = 13, leave_group::LeaveGroupRequest, LeaveGroupResponse, "0-5";
    SyncGroup = 14, sync_group::SyncGroupRequest, SyncGroupResponse, "0-5";
    DescribeGroups = 15, describe_groups::DescribeGroupsRequest, DescribeGroupsResponse, "0-6";
    ListGroups = 16, list_groups::ListGroupsRequest, ListGroupsResponse, "0-5";
    ApiVersions = 18, api_versions::ApiVersionsRequest, ApiVersionsResponse, "0-5";
    CreateTopics = 19, create_topics::CreateTopicsRequest, CreateTopicsResponse, "2-7";
    DeleteTopics = 20, delete_topics::DeleteTopicsRequest, DeleteTopicsResponse, "1-6";
    DeleteRecords = 21, delete_records::DeleteRecordsRequest, DeleteRecordsResponse, "0-2";
    // v6 is not stable in Kafka 4.4.
    InitProducerId = 22, init_producer_id::InitProducerIdRequest, InitProducerIdResponse, "0-5";
    OffsetForLeaderEpoch = 23, offset_for_leader_epoch::OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, "2-4";
    DescribeConfigs = 32, describe_configs::DescribeConfigsRequest, DescribeConfigsResponse, "1-4";
    AlterConfigs = 33, alter_configs::AlterConfigsRequest, AlterConfigsResponse, "0-2";
    DescribeLogDirs = 35, describe_log_dirs::DescribeLogDirsRequest, DescribeLogDirsResponse, "1-5";
    CreatePartitions = 37, create_partitions::CreatePartitionsRequest, CreatePartitionsResponse, "0-3";
    DeleteGroups = 42, delete_groups::DeleteGroupsRequest, DeleteGroupsResponse, "0-3";
    IncrementalAlterConfigs = 44, incremental_alter_configs::IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, "0-1";
    OffsetDelete = 47, offset_delete::OffsetDeleteRequest, OffsetDeleteResponse, "0";
    DescribeCluster = 60, describe_cluster::DescribeClusterRequest, DescribeClusterResponse, "0-2";
    DescribeTopicPartitions = 75, describe_topic_partitions::DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, "0";
}

impl ApiKey {
    /// The number on the wire.
    pub const fn key(self) -> i16 {
        self as i16
    }

    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.flexible().contains(version) {
            2
        } else {
            1
        }
    }

    /// ApiVersions keeps v0: a client that doesn't know yet what the broker speaks must be able to read it (KIP-511).
    pub const fn response_header_version(self, version: i16) -> i16 {
        match self {
            ApiKey::ApiVersions => 0,
            _ if self.flexible().contains(version) => 1,
            _ => 0,
        }
    }
}

/// Whether a request with this api key and version is served.
pub fn is_supported(key: i16, version: i16) -> bool {
    ApiKey::from_key(key).is_some_and(|api| api.served().contains(version))
}

/// Every served API with the versions that are advertised.
pub fn advertised_apis() -> Vec<api_versions::ApiVersion> {
    ApiKey::ALL.iter().copied().map(advertised_api).collect()
}

/// The answer to ApiVersions in a version that is not served; encoded as v0 (KIP-511).
pub fn unsupported_api_versions() -> api_versions::ApiVersionsResponse {
    api_versions::ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: vec![advertised_api(ApiKey::ApiVersions)],
        ..Default::default()
    }
}

fn advertised_api(api: ApiKey) -> api_versions::ApiVersion {
    let versions = api.advertised();
    api_versions::ApiVersion {
        api_key: api.key(),
        min_version: versions.min,
        max_version: versions.max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g2_produce_and_join_group_are_advertised_from_version_0() {
        assert_eq!(ApiKey::Produce.advertised(), Versions::parse("0-13"));
        assert_eq!(ApiKey::JoinGroup.advertised(), Versions::parse("0-9"));
        assert!(!is_supported(0, 2) && is_supported(0, 3));
    }

    #[test]
    fn keys_that_are_not_served_are_not_supported() {
        for (key, version) in [(-1, 0), (4, 0), (17, 0), (1000, 0), (18, -1), (18, 6)] {
            assert!(!is_supported(key, version), "key {key} version {version}");
        }
    }
}
