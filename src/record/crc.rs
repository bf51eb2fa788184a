//! The checksum of a batch: CRC-32C over bytes 21 to the end, in pieces as they arrive.
//! Owned by whoever receives a batch.
//! Always: the result does not depend on how the bytes were cut.
//! Whether the result is the right one is judged by `check` and `scan`.

use crc_fast::{CrcAlgorithm, Digest};

use super::header::{BatchHeader, CRC_COVERS_FROM, HEADER_BYTES, TimestampType};
use crate::base::Timestamp;

/// A checksum in the making.
#[derive(Clone, Copy, Debug)]
pub struct BatchCrc {
    value: u32,
}

impl BatchCrc {
    /// Starts with a header; the record bytes follow by `update`.
    pub fn new(header: &[u8; HEADER_BYTES]) -> BatchCrc {
        BatchCrc {
            value: crc32c::crc32c(&header[CRC_COVERS_FROM..]),
        }
    }

    /// The next bytes of the records section.
    pub fn update(&mut self, records: &[u8]) {
        self.value = append(self.value, records);
    }

    /// The checksum of what was given so far.
    pub fn value(&self) -> u32 {
        self.value
    }

    /// The checksum of a whole batch in one piece of at least 61 bytes.
    pub fn of(batch: &[u8]) -> u32 {
        append(0, &batch[CRC_COVERS_FROM..])
    }
}

/// `crc32c::crc32c_append`, at twice the speed where the CPU has wide carry-less multiplication.
fn append(before: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < WIDE_BYTES_MIN || !is_wide() {
        return crc32c::crc32c_append(before, bytes);
    }
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

/// True if the CPU is of the kind `crc_fast` was seen to be faster on; on others it was not tried, and without carry-less
/// multiplication it computes from tables.
fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("vpclmulqdq")
        && std::is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Below it the narrow instructions are as fast.
const WIDE_BYTES_MIN: usize = 512;

/// Gives a header with a valid checksum another timestamp type and maximum, and the checksum that fits.
/// Costs the 40 header bytes, not the records: the checksum of two pieces follows from those of the pieces.
pub fn restamp(header: &mut BatchHeader, timestamp_type: TimestampType, max: Timestamp) {
    let records_bytes = header.records_bytes();
    let before = crc32c::crc32c(&header.to_bytes()[CRC_COVERS_FROM..]);
    header.set_timestamps(timestamp_type, max);
    let after = crc32c::crc32c(&header.to_bytes()[CRC_COVERS_FROM..]);
    // crc(header ++ records) = shift(crc(header)) ^ crc(records), and shifting is linear.
    header.crc ^= crc32c::crc32c_combine(before ^ after, 0, records_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::testing;

    #[test]
    fn the_checksum_is_kafkas_in_any_pieces() {
        for name in testing::KAFKA_BATCHES {
            let batch = testing::kafka_batch(name);
            let header = BatchHeader::read(&batch).expect("61 bytes");
            assert_eq!(BatchCrc::of(&batch), header.crc, "{name}");
            for step in [1, 2, 7, 64, 4096] {
                let mut crc = BatchCrc::new(batch.first_chunk().expect("61 bytes"));
                for piece in batch[HEADER_BYTES..].chunks(step) {
                    crc.update(piece);
                }
                assert_eq!(crc.value(), header.crc, "{name} in pieces of {step}");
            }
        }
    }

    #[test]
    fn wide_and_narrow_agree_at_every_length_and_cut() {
        let bytes: Vec<u8> = (0..70_000u32)
            .map(|n| (n.wrapping_mul(n) >> 7) as u8)
            .collect();
        for len in (0..5000).chain([65_535, 65_536, 69_899]) {
            let bytes = &bytes[len % 97..][..len];
            let expected = crc32c::crc32c(bytes);
            assert_eq!(append(0, bytes), expected, "{len} bytes");
            let (first, second) = bytes.split_at(len / 3);
            assert_eq!(append(append(0, first), second), expected, "{len} bytes");
        }
    }

    #[test]
    fn g14_restamped_batch_has_the_checksum_of_its_new_bytes() {
        for name in testing::KAFKA_BATCHES {
            let mut batch = testing::kafka_batch(name);
            let mut header = BatchHeader::read(&batch).expect("61 bytes");
            for (timestamp_type, max) in [
                (TimestampType::LogAppendTime, Timestamp(1)),
                (TimestampType::CreateTime, Timestamp(i64::MAX)),
                (TimestampType::LogAppendTime, Timestamp::NONE),
            ] {
                restamp(&mut header, timestamp_type, max);
                header.write(&mut batch);
                assert_eq!(BatchCrc::of(&batch), header.crc, "{name}");
                assert_eq!(header.timestamp_type(), timestamp_type);
                assert_eq!(header.max_timestamp, max);
            }
        }
    }
}
