//! Fetch requests without a session, and what they bring.
//! Calls on one connection.
//! Always: every partition that was asked for comes back with its error or its bytes.
//! Looking at the batches is the caller's.

use bytes::Bytes;

use super::connection::Connection;
use super::error::ClientError;
use super::metadata::Topic;
use crate::wire::ApiKey;
use crate::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};

/// Fetch below this version names topics, from it on their ids.
const BY_ID_FROM: i16 = 13;

/// Limits of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub partition_max_bytes: i32,
}

/// What came of one partition.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub partition: i32,
    pub error_code: i16,
    pub high_watermark: i64,
    /// Whole batches, the last may be cut.
    pub records: Bytes,
}

/// Fetches from these partitions and offsets, all led by the broker that is asked.
pub async fn fetch(
    connection: &mut Connection,
    topic: &Topic,
    wanted: &[(i32, i64)],
    limits: FetchLimits,
) -> Result<Vec<Fetched>, ClientError> {
    let newest = match topic.id.is_zero() {
        true => BY_ID_FROM - 1,
        false => connection.version(ApiKey::Fetch)?,
    };
    let partitions = wanted.iter().map(|&(partition, offset)| FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: limits.partition_max_bytes,
        ..FetchPartition::default()
    });
    let request = FetchRequest {
        max_wait_ms: limits.max_wait_ms,
        min_bytes: limits.min_bytes,
        max_bytes: limits.max_bytes,
        topics: vec![FetchTopic {
            topic: topic.name_str(),
            topic_id: topic.id,
            partitions: partitions.collect(),
        }],
        ..FetchRequest::default()
    };
    let answer = connection.call_at_most(&request, newest).await?;
    if answer.error_code != 0 {
        let what = format!("Fetch of {}", topic.name);
        return Err(ClientError::refused(what, answer.error_code, None));
    }
    let partitions = answer.responses.into_iter().flat_map(|t| t.partitions);
    Ok(partitions
        .map(|partition| Fetched {
            partition: partition.partition_index,
            error_code: partition.error_code,
            high_watermark: partition.high_watermark,
            records: partition.records.bytes().cloned().unwrap_or_default(),
        })
        .collect())
}
