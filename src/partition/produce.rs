//! Produce: may this batch be appended, where does it go.
//! `check_produce` refuses, `append` cannot fail; nothing may come between them.
//! Always: a duplicate is answered with the first offset, and not before that batch is durable.
//! The batch itself (size, magic, checksum, records) was checked by `record::check`.

use super::Partition;
use crate::base::limits::PARTITION_IN_FLIGHT_BYTES_MAX;
use crate::base::{ErrorCode, Now, Offset, Timestamp};
use crate::log::{Appended, BatchFacts, Place};
use crate::producer::Verdict;
use crate::record::BatchHeader;

/// What is to be done with a batch that is in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProduceCheck {
    /// `append` it.
    Append,
    /// It was appended before: answer with these once `end` is durable.
    Duplicate {
        base_offset: Offset,
        /// Offset after its last record.
        end: Offset,
        timestamp: Timestamp,
    },
    /// Too much is not durable yet: stop reading, try again when a write has ended.
    Busy,
}

impl Partition {
    /// May this batch be appended? Changes nothing. `min.insync.replicas` asks for no more than the partition has, which is one
    /// (as in Kafka with eligible leader replicas).
    /// Errors: KAFKA_STORAGE_ERROR, INVALID_REQUIRED_ACKS, RECORD_LIST_TOO_LARGE, and those of producer sequences.
    pub fn check_produce(
        &self,
        header: &BatchHeader,
        acks: i16,
    ) -> Result<ProduceCheck, ErrorCode> {
        let size = header.size_in_bytes() as u64;
        if !(-1..=1).contains(&acks) {
            return Err(ErrorCode::InvalidRequiredAcks);
        }
        if self.log.offline().is_some() {
            return Err(ErrorCode::KafkaStorageError);
        }
        if size > self.config.log.segment_bytes {
            return Err(ErrorCode::RecordListTooLarge);
        }
        match self.producers.check(header) {
            Err(error) => return Err(error.code()),
            Ok(Verdict::Duplicate {
                base_offset,
                last_offset,
                timestamp,
            }) => {
                return Ok(ProduceCheck::Duplicate {
                    base_offset,
                    end: last_offset.next(),
                    timestamp,
                });
            }
            Ok(Verdict::New) => {}
        }
        if self.log.starved() {
            return Err(ErrorCode::KafkaStorageError);
        }
        let in_flight = self.log.in_flight_bytes();
        if in_flight > 0 && in_flight + size > PARTITION_IN_FLIGHT_BYTES_MAX {
            return Ok(ProduceCheck::Busy);
        }
        Ok(ProduceCheck::Append)
    }

    /// Where `append` of this batch would put it now.
    pub fn next_position(&self, header: &BatchHeader, now: Now) -> Place {
        self.log.next_position(&facts(header), now)
    }

    /// Begins a new segment if there are records in the last one; the first offset of what comes next.
    pub fn roll(&mut self, now: Now) -> Offset {
        let end = self.log.chain().appended();
        if self.log.roll(now) {
            self.note_snapshot();
        }
        end
    }

    /// Takes in a batch that `check_produce` let through. Stamp base offset and leader epoch into its header.
    pub fn append(&mut self, header: &BatchHeader, now: Now) -> Appended {
        let facts = facts(header);
        let roll = self.log.next_position(&facts, now).roll;
        if roll || self.bytes_since_snapshot >= SNAPSHOT_BYTES {
            self.note_snapshot();
        }
        let appended = self.log.append(&facts, now);
        self.producers
            .update(header, appended.base_offset, now.wall);
        self.bytes_since_snapshot += u64::from(facts.size);
        appended
    }

    /// Producer state as it is now, to be written when everything before is durable.
    fn note_snapshot(&mut self) {
        let at = self.log.chain().appended();
        self.snapshots
            .push_back((at, self.producers.encode_snapshot()));
        self.bytes_since_snapshot = 0;
    }
}

fn facts(header: &BatchHeader) -> BatchFacts {
    BatchFacts {
        size: header.size_in_bytes() as u32,
        last_offset_delta: header.last_offset_delta,
        max_timestamp: header.max_timestamp,
    }
}

/// Producer state is kept for a snapshot this often: bounds what a recovery replays.
const SNAPSHOT_BYTES: u64 = 64 << 20;
