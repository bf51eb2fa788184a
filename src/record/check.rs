//! Decides whether a batch may be appended: what Kafka's `ProduceRequest`, `UnifiedLog` and `LogValidator` check, in one place.
//! Owned by nobody, functions; called for every batch that enters a log.
//! Always: an accepted batch is read by every client: checksum, counts, offset deltas 0 to n-1 and compressed bytes were looked at.
//! Sequence numbers are `producer`'s, offsets the log's; nothing is changed here, `BatchFacts` says what must be.
//!
//! Where Kafka is laxer than this: it appends uncompressed records whose offset deltas are not their place, sizes below -1
//! (as null), a wrong size in front of a compressed record, transactional batches without a producer id, and on a CreateTime topic
//! a batch that claims append time without looking at its records' own timestamps (they are what is stored). Where its answer
//! is UNKNOWN_SERVER_ERROR (undecodable bytes, unknown codec, endless varint), this says what is wrong.

use super::crc;
use super::error::{BatchError, RecordErrors};
use super::header::{BatchHeader, Compression, HEADER_BYTES, MAGIC, TimestampType};
use super::walk::{Outline, walk};
use crate::base::{Offset, PartitionIndex, Timestamp};

/// Who appends (`AppendOrigin`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A produce request: everything is checked.
    Client,
    /// Ours: a coordinator or the controller, which may write control batches.
    Coordinator,
}

/// What a topic and a request allow.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// For messages.
    pub topic: &'a str,
    pub partition: PartitionIndex,
    /// `max.message.bytes`, of the whole batch as it is sent.
    pub max_message_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    pub now: Timestamp,
    /// The topic is compacted.
    pub keys_required: bool,
    pub origin: Origin,
    /// Produce 7 and above.
    pub zstd_allowed: bool,
}

/// What is known of a batch that may be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchFacts {
    pub record_count: u32,
    /// What the stored header must say; `apply` makes it so.
    pub timestamp_type: TimestampType,
    pub max_timestamp: Timestamp,
    pub compression: Compression,
}

impl BatchFacts {
    /// Brings type and maximum of the timestamps into the header, with the checksum. True if it changed.
    pub fn apply(&self, header: &mut BatchHeader) -> bool {
        let stale = header.timestamp_type() != self.timestamp_type
            || header.max_timestamp != self.max_timestamp;
        if stale {
            crc::restamp(header, self.timestamp_type, self.max_timestamp);
        }
        stale
    }
}

/// The one batch in the records field of a produce request (`ProduceRequest.validateRecords`). What is behind it and too
/// short for a batch is ignored, as in Kafka: the batch is the first `size_in_bytes` bytes.
///
/// A caller that has only the first 61 bytes may skip this when `size_in_bytes` is exactly the field's length.
pub fn frame(field: &[u8]) -> Result<BatchHeader, BatchError> {
    let none = || BatchError::Invalid("no record batch in the request".into());
    let size = match next_size(field)? {
        Some((size, magic)) if magic == MAGIC => size,
        Some((_, magic)) => return Err(unsupported_magic(magic)),
        None => return Err(none()),
    };
    if size < HEADER_BYTES {
        return Err(BatchError::Corrupt(
            format!("batch of {size} bytes, fewer than its header").into(),
        ));
    }
    let header = BatchHeader::read(field).ok_or_else(none)?;
    if next_size(&field[size..])?.is_some() {
        return Err(BatchError::Invalid(
            "more than one record batch for a partition".into(),
        ));
    }
    Ok(header)
}

/// Size and magic of a batch that lies whole at the start of `bytes`; `None` if it does not.
fn next_size(bytes: &[u8]) -> Result<Option<(usize, i8)>, BatchError> {
    let Some(length) = bytes.get(8..12) else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(length.try_into().expect("4 bytes"));
    if length < RECORD_BYTES_MIN {
        return Err(BatchError::Corrupt(
            format!("batch length {length}, below the least {RECORD_BYTES_MIN}").into(),
        ));
    }
    let Some(&magic) = bytes.get(16) else {
        return Ok(None);
    };
    let magic = magic as i8;
    if !(0..=MAGIC).contains(&magic) {
        return Err(BatchError::Corrupt(format!("magic {magic}").into()));
    }
    let size = 12 + length as usize;
    Ok((size <= bytes.len()).then_some((size, magic)))
}

/// Decides about one batch: `header` and the bytes behind it, whose checksum the caller has computed (`BatchCrc`).
pub fn check(
    header: &BatchHeader,
    records: &[u8],
    computed_crc: u32,
    rules: &Rules<'_>,
) -> Result<BatchFacts, BatchError> {
    let compression = check_header(header, computed_crc, rules)?;
    assert_eq!(
        records.len(),
        header.records_bytes(),
        "the records section is not what the header says"
    );
    check_records(header, compression, records, rules)
}

fn check_header(
    header: &BatchHeader,
    computed_crc: u32,
    rules: &Rules<'_>,
) -> Result<Compression, BatchError> {
    let invalid = |text: String| Err(BatchError::Invalid(text.into()));
    let client = rules.origin == Origin::Client;
    let size = header.size_in_bytes();
    if header.magic != MAGIC {
        return Err(unsupported_magic(header.magic));
    }
    if header.compression() == Some(Compression::Zstd) && !rules.zstd_allowed {
        return Err(BatchError::UnsupportedCompression(
            "zstd needs version 7 of Produce".into(),
        ));
    }
    if client && header.base_offset != Offset::ZERO {
        return invalid(format!("base offset {}, must be 0", header.base_offset));
    }
    if size > rules.max_message_bytes {
        return Err(BatchError::TooLarge(
            format!(
                "batch of {size} bytes, max.message.bytes is {}",
                rules.max_message_bytes
            )
            .into(),
        ));
    }
    if size < HEADER_BYTES {
        return Err(BatchError::Corrupt(
            format!("batch of {size} bytes, fewer than its header").into(),
        ));
    }
    if computed_crc != header.crc {
        return Err(BatchError::Corrupt(
            format!(
                "checksum {:#010x}, computed {computed_crc:#010x}",
                header.crc
            )
            .into(),
        ));
    }
    let Some(compression) = header.compression() else {
        return Err(BatchError::UnsupportedCompression(
            format!("codec {} is unknown", header.attributes & 7).into(),
        ));
    };
    let count = header.record_count;
    if count <= 0 || i64::from(header.last_offset_delta) + 1 != i64::from(count) {
        return invalid(format!(
            "{count} records, last offset delta {}",
            header.last_offset_delta
        ));
    }
    if client && header.is_control() {
        return invalid("clients do not write control records".into());
    }
    if client && header.has_producer_id() && header.base_sequence < 0 {
        return invalid(format!(
            "sequence {} of producer {}",
            header.base_sequence, header.producer_id
        ));
    }
    if client && header.is_transactional() && !header.has_producer_id() {
        return invalid("transactional records without a producer id".into());
    }
    Ok(compression)
}

fn check_records(
    header: &BatchHeader,
    compression: Compression,
    records: &[u8],
    rules: &Rules<'_>,
) -> Result<BatchFacts, BatchError> {
    let count = header.record_count as u32;
    let create_time = rules.timestamp_type == TimestampType::CreateTime;
    // Kafka starts at -1 too: a batch of older timestamps has the maximum "none".
    let mut max = Timestamp::NONE.0;
    let mut key_missing = false;
    let mut out_of_range = false;
    let base = header.base_timestamp.0;
    walk(compression, records, count, |_, outline| {
        let timestamp = base.wrapping_add(outline.timestamp_delta);
        max = max.max(timestamp);
        out_of_range |= rules.refuses(timestamp);
        key_missing |= outline.key_bytes < 0;
    })?;
    out_of_range &= create_time;
    if header.timestamp_type() == TimestampType::LogAppendTime {
        // All records then have the header's maximum, and a client has no business setting it.
        out_of_range |= !create_time
            || header.max_timestamp == Timestamp::NONE
            || rules.refuses(header.max_timestamp.0);
    }
    if out_of_range || (rules.keys_required && key_missing) {
        let errors = record_errors(header, compression, records, rules)?;
        return Err(BatchError::Records(errors));
    }
    Ok(BatchFacts {
        record_count: count,
        timestamp_type: rules.timestamp_type,
        max_timestamp: match rules.timestamp_type {
            TimestampType::CreateTime => Timestamp(max),
            TimestampType::LogAppendTime => rules.now,
        },
        compression,
    })
}

impl Rules<'_> {
    /// `recordHasInvalidTimestamp`, whose subtraction wraps. "None" is always right.
    #[inline(always)]
    fn refuses(&self, timestamp: i64) -> bool {
        let age = self.now.0.wrapping_sub(timestamp);
        timestamp != Timestamp::NONE.0
            && (age > self.timestamp_before_max_ms
                || age.wrapping_neg() > self.timestamp_after_max_ms)
    }
}

/// Walks again to name the records at fault: the way of a refused batch may be slow.
fn record_errors(
    header: &BatchHeader,
    compression: Compression,
    records: &[u8],
    rules: &Rules<'_>,
) -> Result<RecordErrors, BatchError> {
    let mut errors = RecordErrors::new();
    let append_time = header.timestamp_type() == TimestampType::LogAppendTime;
    walk(
        compression,
        records,
        header.record_count as u32,
        |record, outline| {
            let own = header
                .base_timestamp
                .0
                .wrapping_add(outline.timestamp_delta);
            let create_time = rules.timestamp_type == TimestampType::CreateTime;
            let timestamp = if append_time && !(create_time && rules.refuses(own)) {
                header.max_timestamp.0
            } else {
                own
            };
            if rules.keys_required && outline.key_bytes < 0 {
                errors.add(
                    record,
                    format!(
                        "Compacted topic cannot accept message without key in topic partition {}-{}",
                        rules.topic, rules.partition
                    ),
                );
            } else if create_time && timestamp != Timestamp::NONE.0 {
                if rules.refuses(timestamp) {
                    errors.invalid_timestamp = true;
                    errors.add(
                        record,
                        format!(
                            "Timestamp {timestamp} of message with offset {} is out of range. The timestamp should be within [{}, {}]",
                            header.base_offset.0.wrapping_add(record.into()),
                            rules.now.0.wrapping_sub(rules.timestamp_before_max_ms),
                            rules.now.0.wrapping_add(rules.timestamp_after_max_ms)
                        ),
                    );
                }
            } else if append_time {
                errors.invalid_timestamp = true;
                errors.add(
                    record,
                    format!(
                        "Invalid timestamp type in message {}. Producer should not set timestamp type to LogAppendTime.",
                        java_text(header, compression, record, timestamp, outline)
                    ),
                );
            }
        },
    )?;
    Ok(errors)
}

/// `DefaultRecord.toString`, and `PartialDefaultRecord.toString` of a compressed one, which tells null from empty.
fn java_text(
    header: &BatchHeader,
    compression: Compression,
    record: u32,
    timestamp: i64,
    outline: Outline,
) -> String {
    let (class, least) = match compression {
        Compression::None => ("DefaultRecord", 0),
        _ => ("PartialDefaultRecord", -1),
    };
    format!(
        "{class}(offset={}, timestamp={timestamp}, key={} bytes, value={} bytes)",
        header.base_offset.0.wrapping_add(record.into()),
        outline.key_bytes.max(least),
        outline.value_bytes.max(least)
    )
}

/// Magic 0 and 1 were formats once; they are refused, anything else is damage.
fn unsupported_magic(magic: i8) -> BatchError {
    let text = format!("magic {magic}, must be {MAGIC}").into();
    match magic {
        0 | 1 => BatchError::Invalid(text),
        _ => BatchError::Corrupt(text),
    }
}

/// The least `length` of any format (`LegacyRecord.RECORD_OVERHEAD_V0`).
const RECORD_BYTES_MIN: i32 = 14;

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
