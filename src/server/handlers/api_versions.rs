//! ApiVersions: what the broker speaks (G1 to G5, KIP-511, KIP-584, KIP-1242).
//! Answered from tables and the image, on any shard.
//! Always: what is listed is served (but for Produce 0 to 2, see `wire::apis`); only `metadata.version` is finalized.
//! A version that is not served was answered before it gets here.

use std::rc::Rc;

use crate::base::{ErrorCode, NodeId};
use crate::server::outcome::Outcome;
use crate::shard::Shard;
use crate::wire::apis::advertised_apis;
use crate::wire::messages::api_versions::{
    ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use crate::wire::{RequestHeader, Str};

pub fn handle(shard: &Rc<Shard>, header: RequestHeader, request: ApiVersionsRequest) -> Outcome {
    let version = header.request_api_version;
    let mut response = ApiVersionsResponse::default();
    if version >= 3
        && !(is_software_name(&request.client_software_name)
            && is_software_name(&request.client_software_version))
    {
        response.error_code = ErrorCode::InvalidRequest.code();
    } else if version >= 5 && request.cluster_id.is_some() != (request.node_id != NO_NODE) {
        // A client says both where it means to be, or nothing.
        response.error_code = ErrorCode::InvalidRequest.code();
    } else if version >= 5 && is_elsewhere(shard, &request) {
        response.error_code = ErrorCode::RebootstrapRequired.code();
    } else {
        let image = shard.image();
        response.api_keys = advertised_apis();
        response.finalized_features_epoch = image.offset().0;
        for (name, level) in image.features() {
            response.supported_features.push(SupportedFeatureKey {
                name: name.clone(),
                min_version: METADATA_VERSION_MIN,
                max_version: *level,
            });
            response.finalized_features.push(FinalizedFeatureKey {
                name: name.clone(),
                max_version_level: *level,
                min_version_level: *level,
            });
        }
    }
    Outcome::of::<ApiVersionsRequest>(header.correlation_id, &response, version)
}

/// The client meant another cluster or another node (KIP-1242).
fn is_elsewhere(shard: &Shard, request: &ApiVersionsRequest) -> bool {
    let image = shard.image();
    let other_cluster = request
        .cluster_id
        .as_ref()
        .is_some_and(|id| id != image.cluster_id());
    other_cluster || (request.node_id != NO_NODE && NodeId(request.node_id) != shard.node)
}

/// `ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN`: `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`.
fn is_software_name(text: &Str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

/// The node id of a client that names no node.
const NO_NODE: i32 = -1;
/// The oldest `metadata.version` of Kafka 4 (3.3-IV3).
const METADATA_VERSION_MIN: i16 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g4_software_names_are_checked_as_kafka_does() {
        for good in [
            "a",
            "kcat",
            "librdkafka",
            "2.0.2",
            "apache-kafka-java",
            "4.4.0-SNAPSHOT",
        ] {
            assert!(is_software_name(&Str::from_static(good)), "{good}");
        }
        for bad in ["", "-a", "a-", ".", "a b", "ä", "a_b"] {
            assert!(!is_software_name(&Str::copy_from(bad)), "{bad}");
        }
    }
}
