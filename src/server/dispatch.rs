//! From a request frame to its handler.
//! Called by the connection, one request at a time (G7).
//! Always: a request is decoded whole before anything is done; what can't be decoded closes the connection (G6).
//! What a request means is the handlers'.

use std::rc::Rc;

use bytes::Bytes;

use super::connection::Peer;
use super::handlers::{
    api_versions, configs, fetch, groups, metadata, offsets, produce, producer_ids, topics,
};
use super::outcome::{Outcome, encode};
use crate::shard::Shard;
use crate::wire::apis::unsupported_api_versions;
use crate::wire::messages::api_versions::ApiVersionsRequest;
use crate::wire::{
    ApiKey, DecodeError, HeaderError, Message, Reader, RequestHeader, read_request_header,
};

/// Serves one request. `frame` is without its size.
pub async fn dispatch(shard: &Rc<Shard>, peer: &Peer, frame: Bytes) -> Outcome {
    let mut reader = Reader::new(frame);
    let (api, header) = match read_request_header(&mut reader) {
        Ok(read) => read,
        Err(HeaderError::UnsupportedApiVersions { correlation_id }) => {
            let response = unsupported_api_versions();
            return match encode::<ApiVersionsRequest>(correlation_id, &response, 0) {
                Ok(reply) => Outcome::Reply(reply),
                Err(error) => Outcome::Close(error.to_string()),
            };
        }
        Err(error) => return Outcome::Close(error.to_string()),
    };
    match serve(shard, peer, api, header, reader).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Close(format!("{api:?}: {error}")),
    }
}

/// Decodes the body of the handler's request, which its type names.
fn read<R: Message>(mut reader: Reader, header: &RequestHeader) -> Result<R, DecodeError> {
    R::decode(&mut reader, header.request_api_version)
}

async fn serve(
    shard: &Rc<Shard>,
    peer: &Peer,
    api: ApiKey,
    header: RequestHeader,
    reader: Reader,
) -> Result<Outcome, DecodeError> {
    macro_rules! request {
        () => {
            read(reader, &header)?
        };
    }
    Ok(match api {
        ApiKey::Produce => {
            let request = request!();
            produce::handle(shard, peer, header, request).await
        }
        ApiKey::Fetch => {
            let request = request!();
            fetch::handle(shard, header, request).await
        }
        ApiKey::ListOffsets => {
            let request = request!();
            offsets::list(shard, header, request).await
        }
        ApiKey::Metadata => {
            let request = metadata::read(reader, &header)?;
            metadata::metadata(shard, header, request).await
        }
        ApiKey::OffsetCommit => {
            let request = request!();
            groups::offset_commit(shard, peer, header, request).await
        }
        ApiKey::OffsetFetch => {
            let request = request!();
            groups::offset_fetch(shard, header, request).await
        }
        ApiKey::FindCoordinator => {
            let request = request!();
            groups::find_coordinator(shard, header, request).await
        }
        ApiKey::JoinGroup => {
            let request = request!();
            groups::join(shard, peer, header, request).await
        }
        ApiKey::Heartbeat => {
            let request = request!();
            groups::heartbeat(shard, header, request).await
        }
        ApiKey::LeaveGroup => {
            let request = request!();
            groups::leave(shard, header, request).await
        }
        ApiKey::SyncGroup => {
            let request = request!();
            groups::sync(shard, peer, header, request).await
        }
        ApiKey::DescribeGroups => {
            let request = request!();
            groups::describe(shard, peer, header, request).await
        }
        ApiKey::ListGroups => {
            let request = request!();
            groups::list(shard, header, request).await
        }
        ApiKey::DeleteGroups => {
            let request = request!();
            groups::delete(shard, header, request).await
        }
        ApiKey::OffsetDelete => {
            let request = request!();
            groups::offset_delete(shard, header, request).await
        }
        ApiKey::ApiVersions => {
            let request = request!();
            api_versions::handle(shard, header, request)
        }
        ApiKey::CreateTopics => {
            let request = request!();
            topics::create(shard, header, request).await
        }
        ApiKey::DeleteTopics => {
            let request = request!();
            topics::delete(shard, header, request).await
        }
        ApiKey::CreatePartitions => {
            let request = request!();
            topics::create_partitions(shard, header, request).await
        }
        ApiKey::DeleteRecords => {
            let request = request!();
            offsets::delete_records(shard, header, request).await
        }
        ApiKey::InitProducerId => {
            let request = request!();
            producer_ids::init(shard, header, request).await
        }
        ApiKey::OffsetForLeaderEpoch => {
            let request = request!();
            offsets::for_leader_epoch(shard, header, request).await
        }
        ApiKey::DescribeConfigs => {
            let request = request!();
            configs::describe(shard, header, request).await
        }
        ApiKey::AlterConfigs => {
            let request = request!();
            configs::alter(shard, header, request).await
        }
        ApiKey::IncrementalAlterConfigs => {
            let request = request!();
            configs::alter_incrementally(shard, header, request).await
        }
        ApiKey::DescribeLogDirs => {
            let request = request!();
            offsets::log_dirs(shard, header, request).await
        }
        ApiKey::DescribeCluster => {
            let request = request!();
            metadata::describe_cluster(shard, header, request)
        }
        ApiKey::DescribeTopicPartitions => {
            let request = request!();
            metadata::describe_topic_partitions(shard, header, request)
        }
    })
}
