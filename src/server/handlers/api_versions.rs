//! ApiVersions: what the broker speaks (G1 to G5, KIP-511, KIP-584, KIP-1242).
//! Answered from tables and the image, on any shard.
//! Always: what is listed is served (but for Produce 0 to 2, see `wire::apis`); only `metadata.version` is finalized.
//! A version that is not served was answered before it gets here.

use std::rc::Rc;

use crate::base::{ErrorCode, NodeId};
use crate::metadata::Image;
use crate::server::outcome::Outcome;
use crate::shard::Shard;
use crate::wire::apis::advertised_apis;
use crate::wire::messages::api_versions::{
    ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use crate::wire::{RequestHeader, Str};

pub fn handle(shard: &Rc<Shard>, header: RequestHeader, request: ApiVersionsRequest) -> Outcome {
    let version = header.request_api_version;
    let response = answer(&shard.image(), shard.node, &request, version);
    Outcome::of::<ApiVersionsRequest>(header.correlation_id, &response, version)
}

fn answer(
    image: &Image,
    node: NodeId,
    request: &ApiVersionsRequest,
    version: i16,
) -> ApiVersionsResponse {
    let mut response = ApiVersionsResponse::default();
    if version >= 3
        && !(is_software_name(&request.client_software_name)
            && is_software_name(&request.client_software_version))
    {
        response.error_code = ErrorCode::InvalidRequest.code();
    } else if version >= 5 && request.cluster_id.is_some() != (request.node_id != NO_NODE) {
        // A client says both where it means to be, or nothing.
        response.error_code = ErrorCode::InvalidRequest.code();
    } else if version >= 5 && is_elsewhere(image, node, request) {
        response.error_code = ErrorCode::RebootstrapRequired.code();
    } else {
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
    response
}

/// The client meant another cluster or another node (KIP-1242).
fn is_elsewhere(image: &Image, node: NodeId, request: &ApiVersionsRequest) -> bool {
    let other_cluster = request
        .cluster_id
        .as_ref()
        .is_some_and(|id| id != image.cluster_id());
    other_cluster || (request.node_id != NO_NODE && NodeId(request.node_id) != node)
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
    use crate::server::testing::{image_with_topic, response_in};
    use crate::wire::response_frame;

    /// What a client of this version is told by a broker that has started.
    fn told(version: i16) -> ApiVersionsResponse {
        let (image, _) = image_with_topic(1, "t", 1);
        let request = ApiVersionsRequest {
            client_software_name: Str::from("test"),
            client_software_version: Str::from("1"),
            ..Default::default()
        };
        let response = answer(&image, NodeId(0), &request, version);
        let frame = response_frame::<ApiVersionsRequest>(1, &response, version).expect("encodes");
        response_in::<ApiVersionsRequest>(&frame.bytes, version)
    }

    #[test]
    fn g5_metadata_version_alone_is_finalized_and_no_feature_begins_at_0() {
        for version in 0..=5 {
            let response = told(version);
            let finalized: Vec<_> = response
                .finalized_features
                .iter()
                .map(|one| &one.name[..])
                .collect();
            let supported: Vec<_> = response
                .supported_features
                .iter()
                .map(|one| &one.name[..])
                .collect();
            // Tags came with version 3.
            let names: &[&str] = if version < 3 {
                &[]
            } else {
                &["metadata.version"]
            };
            assert_eq!(
                (&finalized[..], &supported[..]),
                (names, names),
                "version {version}"
            );
            assert!(
                response
                    .supported_features
                    .iter()
                    .all(|one| one.min_version > 0)
            );
            if version >= 3 {
                assert!(response.finalized_features_epoch >= 0, "version {version}");
            }
        }
    }

    #[test]
    fn g44_telemetry_is_not_advertised() {
        for version in 0..=5 {
            let keys: Vec<_> = told(version)
                .api_keys
                .iter()
                .map(|one| one.api_key)
                .collect();
            assert!(keys.contains(&18), "version {version}");
            // GetTelemetrySubscriptions and PushTelemetry; nor SaslHandshake (G10).
            for absent in [71, 72, 17] {
                assert!(!keys.contains(&absent), "version {version}: {absent}");
            }
        }
    }

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
