//! Produce requests of one batch each, whose records lie elsewhere, and their answers.
//! Pure functions over frames.
//! Always: the batch follows the head byte for byte; what comes behind it is the tail.
//! The batch itself is the caller's.

use bytes::Bytes;

use super::connection::Receiver;
use super::error::ClientError;
use super::metadata::Topic;
use crate::base::Uuid;
use crate::wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use crate::wire::{Records, Str, request_frame};

/// Produce below this version names topics, from it on their ids.
const BY_ID_FROM: i16 = 13;

/// How requests for one topic look.
#[derive(Clone, Debug)]
pub struct ProduceForm {
    name: Str,
    id: Uuid,
    pub version: i16,
    pub acks: i16,
    timeout_ms: i32,
}

/// The answer for one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    pub correlation: i32,
    pub partition: i32,
    pub error_code: i16,
    pub base_offset: i64,
}

impl ProduceForm {
    /// `newest`: the version both sides have.
    pub fn new(topic: &Topic, newest: i16, acks: i16) -> ProduceForm {
        let version = match topic.id.is_zero() {
            true => newest.min(BY_ID_FROM - 1),
            false => newest,
        };
        ProduceForm {
            name: topic.name_str(),
            id: topic.id,
            version,
            acks,
            timeout_ms: 30_000,
        }
    }

    /// The bytes before and after a batch of `batch_bytes` for `partition`.
    pub fn around(
        &self,
        correlation: i32,
        partition: i32,
        batch_bytes: usize,
    ) -> Result<(Bytes, Bytes), ClientError> {
        let request = ProduceRequest {
            transactional_id: None,
            acks: self.acks,
            timeout_ms: self.timeout_ms,
            topic_data: vec![TopicProduceData {
                name: self.name.clone(),
                topic_id: self.id,
                partition_data: vec![PartitionProduceData {
                    index: partition,
                    records: Records::Elsewhere { bytes: batch_bytes },
                }],
            }],
        };
        let frame = request_frame(correlation, None, &request, self.version)?;
        let at = frame.gaps.first().map_or(frame.bytes.len(), |gap| gap.at);
        Ok((frame.bytes.slice(..at), frame.bytes.slice(at..)))
    }

    /// Reads the answer to such a request.
    pub fn read_ack(&self, receiver: &Receiver, frame: Bytes) -> Result<Ack, ClientError> {
        let (correlation, answer) = receiver.read::<ProduceRequest>(frame, self.version)?;
        let found = answer.responses.first();
        let found = found.and_then(|topic| topic.partition_responses.first());
        let found = found.ok_or_else(|| ClientError::Answer {
            address: receiver.address().to_owned(),
            what: "an answer to Produce without a partition".to_owned(),
        })?;
        Ok(Ack {
            correlation,
            partition: found.index,
            error_code: found.error_code,
            base_offset: found.base_offset,
        })
    }
}
