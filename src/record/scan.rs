//! Finds things in a piece of a log: batches, offsets, timestamps, and where the valid part ends.
//! Owned by nobody, functions over a slice that starts at a batch.
//! Always: nothing is believed beyond the slice, whatever the headers say; no panic on any bytes.
//! Reading the slice from a file, and what to do at a torn end, is the log's.

use super::crc::BatchCrc;
use super::header::{BatchHeader, HEADER_BYTES, MAGIC};
use super::records::Records;
use super::walk::Fault;
use crate::base::{Offset, Timestamp};

/// A batch within a slice.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Of its first byte, from the start of the slice.
    pub position: usize,
    pub header: BatchHeader,
    /// The whole batch, header included.
    pub bytes: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Its records; `scratch` takes the decompressed bytes, if they are compressed.
    pub fn records(&self, scratch: &'a mut Vec<u8>) -> Result<Records<'a>, Fault> {
        Records::new(&self.header, &self.bytes[HEADER_BYTES..], scratch)
    }

    /// The position behind it.
    pub fn end(&self) -> usize {
        self.position + self.bytes.len()
    }
}

/// Iterates the batches of a slice; stops at the first that is not whole or not a batch. Checksums are not looked at.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    slice: &'a [u8],
    position: usize,
}

impl<'a> Batches<'a> {
    pub fn new(slice: &'a [u8]) -> Batches<'a> {
        Batches { slice, position: 0 }
    }

    /// Where the next batch starts, or where the iteration stopped.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Batch<'a>;

    fn next(&mut self) -> Option<Batch<'a>> {
        let rest = self.slice.get(self.position..)?;
        let header = BatchHeader::read(rest)?;
        let size = header.size_in_bytes();
        let last = header
            .base_offset
            .0
            .checked_add(header.last_offset_delta.into());
        if size < HEADER_BYTES
            || header.magic != MAGIC
            || header.last_offset_delta < 0
            || last.is_none_or(|last| last == i64::MAX)
        {
            return None;
        }
        let bytes = rest.get(..size)?;
        let position = self.position;
        self.position += size;
        Some(Batch {
            position,
            header,
            bytes,
        })
    }
}

/// The first batch whose last record is at or behind `offset`: the one a fetch of it starts with.
pub fn find_offset(slice: &[u8], offset: Offset) -> Option<Batch<'_>> {
    Batches::new(slice).find(|batch| batch.header.last_offset() >= offset)
}

/// The first record at or behind `from` with a timestamp of at least `timestamp` (`FileRecords.searchForTimestamp`).
pub fn find_timestamp(
    slice: &[u8],
    timestamp: Timestamp,
    from: Offset,
) -> Result<Option<(Offset, Timestamp)>, Fault> {
    for batch in Batches::new(slice) {
        if batch.header.max_timestamp < timestamp || batch.header.last_offset() < from {
            continue;
        }
        let mut scratch = Vec::new();
        for record in batch.records(&mut scratch)? {
            let record = record?;
            if record.timestamp >= timestamp && record.offset >= from {
                return Ok(Some((record.offset, record.timestamp)));
            }
        }
    }
    Ok(None)
}

/// The largest timestamp of the slice and the batch that has it first, by the headers alone.
pub fn max_timestamp(slice: &[u8]) -> Option<(Timestamp, Batch<'_>)> {
    Batches::new(slice).fold(None, |best, batch| match best {
        Some((timestamp, _)) if timestamp >= batch.header.max_timestamp => best,
        _ => Some((batch.header.max_timestamp, batch)),
    })
}

/// What lies at a position where a batch is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// A valid batch of `size` bytes with the expected offset.
    Batch { header: BatchHeader, size: usize },
    /// Zeros: the end of what was written.
    End,
    /// The slice ends before it can be told; `bytes` from its start are needed.
    NeedMore { bytes: usize },
    /// Anything else.
    Torn(Torn),
}

/// Why bytes are not the expected batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torn {
    BaseOffset {
        expected: Offset,
        found: Offset,
    },
    Length {
        batch_length: i32,
    },
    Magic {
        magic: i8,
    },
    /// Count and last offset delta don't fit each other.
    Count {
        record_count: i32,
        last_offset_delta: i32,
    },
    Checksum {
        stored: u32,
        computed: u32,
    },
}

impl std::fmt::Display for Torn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Torn::BaseOffset { expected, found } => {
                write!(f, "base offset {found}, expected {expected}")
            }
            Torn::Length { batch_length } => write!(f, "batch length {batch_length}"),
            Torn::Magic { magic } => write!(f, "magic {magic}"),
            Torn::Count {
                record_count,
                last_offset_delta,
            } => write!(
                f,
                "{record_count} records, last offset delta {last_offset_delta}"
            ),
            Torn::Checksum { stored, computed } => {
                write!(f, "checksum {stored:#010x}, computed {computed:#010x}")
            }
        }
    }
}

/// Judges the bytes where a batch with base offset `expected` should start, for recovery. `batch_bytes_max` bounds the
/// length that is believed: a longer one is damage, not a reason to read on.
pub fn verify_next(slice: &[u8], expected: Offset, batch_bytes_max: usize) -> Verified {
    let Some(head) = slice.first_chunk::<HEADER_BYTES>() else {
        return Verified::NeedMore {
            bytes: HEADER_BYTES,
        };
    };
    if head == &[0; HEADER_BYTES] {
        return Verified::End;
    }
    let header = BatchHeader::parse(head);
    let size = header.size_in_bytes();
    if header.base_offset != expected {
        return Verified::Torn(Torn::BaseOffset {
            expected,
            found: header.base_offset,
        });
    }
    if size < HEADER_BYTES || size > batch_bytes_max {
        return Verified::Torn(Torn::Length {
            batch_length: header.batch_length,
        });
    }
    if header.magic != MAGIC {
        return Verified::Torn(Torn::Magic {
            magic: header.magic,
        });
    }
    if header.record_count <= 0
        || i64::from(header.last_offset_delta) + 1 != i64::from(header.record_count)
        || expected.0.checked_add(header.record_count.into()).is_none()
    {
        return Verified::Torn(Torn::Count {
            record_count: header.record_count,
            last_offset_delta: header.last_offset_delta,
        });
    }
    let Some(batch) = slice.get(..size) else {
        return Verified::NeedMore { bytes: size };
    };
    let computed = BatchCrc::of(batch);
    if computed != header.crc {
        return Verified::Torn(Torn::Checksum {
            stored: header.crc,
            computed,
        });
    }
    Verified::Batch { header, size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::LeaderEpoch;
    use crate::record::BatchBuilder;

    const MAX: usize = 1 << 20;

    /// Batches of 1, 2, 3 and 4 records from offset 10, timestamps 100, 200 201, 150 151 152, 300 301 302 303.
    fn log() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut offset = Offset(10);
        for (count, time) in [(1, 100), (2, 200), (3, 150), (4, 300)] {
            let mut builder = BatchBuilder::new();
            for i in 0..count {
                builder.append(Timestamp(time + i), None, Some(b"value"), &[]);
            }
            bytes.extend(builder.finish(offset, LeaderEpoch(1)));
            offset = offset.plus(count);
        }
        bytes
    }

    #[test]
    fn batches_follow_each_other_to_the_end_of_the_slice() {
        let mut bytes = log();
        let size = bytes.len();
        bytes.extend([0; 200]);
        let mut batches = Batches::new(&bytes);
        let bases: Vec<_> = batches
            .by_ref()
            .map(|batch| batch.header.base_offset.0)
            .collect();
        assert_eq!(bases, [10, 11, 13, 16]);
        assert_eq!(batches.position(), size);
        for cut in 0..size {
            let mut cut_short = Batches::new(&bytes[..cut]);
            let whole = cut_short.by_ref().count();
            assert!(whole < 4 && cut_short.position() <= cut);
        }
    }

    #[test]
    fn offsets_are_found_in_the_batch_that_holds_them() {
        let bytes = log();
        let base = |offset| find_offset(&bytes, Offset(offset)).map(|b| b.header.base_offset.0);
        assert_eq!(base(0), Some(10));
        assert_eq!(base(10), Some(10));
        assert_eq!(base(12), Some(11));
        assert_eq!(base(19), Some(16));
        assert_eq!(base(20), None);
    }

    #[test]
    fn timestamps_are_found_by_record() {
        let bytes = log();
        let find = |timestamp, from| {
            find_timestamp(&bytes, Timestamp(timestamp), Offset(from))
                .expect("whole")
                .map(|(offset, timestamp)| (offset.0, timestamp.0))
        };
        assert_eq!(find(0, 0), Some((10, 100)));
        assert_eq!(find(101, 0), Some((11, 200)));
        assert_eq!(find(201, 0), Some((12, 201)));
        assert_eq!(find(152, 13), Some((15, 152)));
        assert_eq!(find(152, 16), Some((16, 300)));
        assert_eq!(find(304, 0), None);
        let (timestamp, batch) = max_timestamp(&bytes).expect("not empty");
        assert_eq!(
            (timestamp, batch.header.base_offset),
            (Timestamp(303), Offset(16))
        );
        assert!(max_timestamp(&[]).is_none());
    }

    #[test]
    fn a_log_verifies_batch_by_batch_to_its_end() {
        let mut bytes = log();
        bytes.extend([0; HEADER_BYTES]);
        let mut position = 0;
        let mut expected = Offset(10);
        while let Verified::Batch { header, size } = verify_next(&bytes[position..], expected, MAX)
        {
            position += size;
            expected = header.next_offset();
        }
        assert_eq!(expected, Offset(20));
        assert_eq!(
            verify_next(&bytes[position..], expected, MAX),
            Verified::End
        );
    }

    #[test]
    fn a_batch_cut_at_any_byte_needs_more_and_never_verifies() {
        let bytes = log();
        let batch = find_offset(&bytes, Offset(16)).expect("the last").bytes;
        for cut in 0..batch.len() {
            let needed = if cut < HEADER_BYTES {
                HEADER_BYTES
            } else {
                batch.len()
            };
            assert_eq!(
                verify_next(&batch[..cut], Offset(16), MAX),
                Verified::NeedMore { bytes: needed }
            );
        }
    }

    #[test]
    fn any_flipped_bit_of_a_batch_is_seen() {
        let bytes = log();
        let batch = find_offset(&bytes, Offset(13)).expect("the third").bytes;
        for bit in 0..batch.len() * 8 {
            // The leader epoch is neither checksummed nor expected.
            if (12 * 8..16 * 8).contains(&bit) {
                continue;
            }
            let mut flipped = batch.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match verify_next(&flipped, Offset(13), MAX) {
                Verified::Torn(_) => {}
                Verified::NeedMore { bytes } => assert!(bytes > flipped.len() && bytes <= MAX),
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }

    #[test]
    fn stale_and_zeroed_bytes_are_told_apart() {
        let bytes = log();
        assert!(matches!(
            verify_next(&bytes, Offset(20), MAX),
            Verified::Torn(Torn::BaseOffset { .. })
        ));
        let mut half_zero = [0; 200];
        half_zero[60] = 1;
        assert!(matches!(
            verify_next(&half_zero, Offset(0), MAX),
            Verified::Torn(Torn::Length { batch_length: 0 })
        ));
        assert!(matches!(
            verify_next(&bytes, Offset(10), 70),
            Verified::Torn(Torn::Length { .. })
        ));
    }
}
