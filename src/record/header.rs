//! The 61 bytes in front of a record batch (magic 2), and the two bits of it that a broker rewrites.
//! Owned by nobody, a plain value; parsing never fails, judging the values is `check`'s and `scan`'s.
//! Always: `parse(bytes).write()` gives the bytes back.
//! The records behind the header are `walk`'s.
//!
//! ```text
//!  0 baseOffset 8   12 leaderEpoch 4   21 attributes 2       27 baseTimestamp 8   43 producerId 8     53 baseSequence 4
//!  8 length 4       16 magic 1         23 lastOffsetDelta 4  35 maxTimestamp 8    51 producerEpoch 2  57 count 4
//!                   17 crc 4 (CRC-32C of 21..end: base offset and leader epoch are stamped without touching it)
//! ```

use crate::base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

/// Bytes of a batch header.
pub const HEADER_BYTES: usize = 61;
/// Bytes in front of what `batch_length` counts.
pub const LENGTH_PREFIX_BYTES: usize = 12;
/// The first byte the checksum covers.
pub const CRC_COVERS_FROM: usize = 21;
/// The only record format that is written since Kafka 4.0 (KIP-724).
pub const MAGIC: i8 = 2;
/// `base_sequence` of a batch without a producer id.
pub const NO_SEQUENCE: i32 = -1;

const CODEC_BITS: i16 = 0x07;
const APPEND_TIME_BIT: i16 = 0x08;
const TRANSACTIONAL_BIT: i16 = 0x10;
const CONTROL_BIT: i16 = 0x20;
const DELETE_HORIZON_BIT: i16 = 0x40;

/// How the records of a batch are compressed (`CompressionType`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub const ALL: [Compression; 5] = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];

    /// The number in the attributes of a batch.
    pub fn id(self) -> i16 {
        match self {
            Compression::None => 0,
            Compression::Gzip => 1,
            Compression::Snappy => 2,
            Compression::Lz4 => 3,
            Compression::Zstd => 4,
        }
    }

    /// The codec with this number; 5 to 7 are nobody's.
    pub fn from_id(id: i16) -> Option<Compression> {
        Compression::ALL.into_iter().find(|c| c.id() == id)
    }

    /// Kafka's name, as in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Reads `name()`; `uncompressed` is the topic config's word for `none`.
    pub fn from_name(name: &str) -> Option<Compression> {
        match name {
            "uncompressed" => Some(Compression::None),
            _ => Compression::ALL.into_iter().find(|c| c.name() == name),
        }
    }
}

/// What the timestamps of a batch mean (`message.timestamp.type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TimestampType {
    /// Each record has its own, from the producer.
    #[default]
    CreateTime,
    /// All records have the header's `max_timestamp`, from the broker.
    LogAppendTime,
}

/// A batch header, field by field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    pub base_offset: Offset,
    /// Bytes behind this field; `size_in_bytes` is 12 more.
    pub batch_length: i32,
    pub leader_epoch: LeaderEpoch,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    /// Offset of the last record less `base_offset`.
    pub last_offset_delta: i32,
    pub base_timestamp: Timestamp,
    pub max_timestamp: Timestamp,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, `NO_SEQUENCE` without a producer id.
    pub base_sequence: i32,
    pub record_count: i32,
}

impl BatchHeader {
    /// A header of nothing: no producer, no records, CreateTime, magic 2.
    pub const EMPTY: BatchHeader = BatchHeader {
        base_offset: Offset::ZERO,
        batch_length: (HEADER_BYTES - LENGTH_PREFIX_BYTES) as i32,
        leader_epoch: LeaderEpoch::NONE,
        magic: MAGIC,
        crc: 0,
        attributes: 0,
        last_offset_delta: -1,
        base_timestamp: Timestamp::NONE,
        max_timestamp: Timestamp::NONE,
        producer_id: ProducerId::NONE,
        producer_epoch: ProducerEpoch::NONE,
        base_sequence: NO_SEQUENCE,
        record_count: 0,
    };

    /// The header at the start of `bytes`; `None` if there are fewer than 61.
    pub fn read(bytes: &[u8]) -> Option<BatchHeader> {
        bytes.first_chunk().map(BatchHeader::parse)
    }

    /// Any 61 bytes are a header; its values are to be judged by the caller.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> BatchHeader {
        BatchHeader {
            base_offset: Offset(i64::from_be_bytes(field(bytes, 0))),
            batch_length: i32::from_be_bytes(field(bytes, 8)),
            leader_epoch: LeaderEpoch(i32::from_be_bytes(field(bytes, 12))),
            magic: bytes[16] as i8,
            crc: u32::from_be_bytes(field(bytes, 17)),
            attributes: i16::from_be_bytes(field(bytes, 21)),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: Timestamp(i64::from_be_bytes(field(bytes, 27))),
            max_timestamp: Timestamp(i64::from_be_bytes(field(bytes, 35))),
            producer_id: ProducerId(i64::from_be_bytes(field(bytes, 43))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(field(bytes, 51))),
            base_sequence: i32::from_be_bytes(field(bytes, 53)),
            record_count: i32::from_be_bytes(field(bytes, 57)),
        }
    }

    /// The 61 bytes of this header.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(&self.base_offset.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        out[12..16].copy_from_slice(&self.leader_epoch.0.to_be_bytes());
        out[16] = self.magic as u8;
        out[17..21].copy_from_slice(&self.crc.to_be_bytes());
        out[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        out[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        out[27..35].copy_from_slice(&self.base_timestamp.0.to_be_bytes());
        out[35..43].copy_from_slice(&self.max_timestamp.0.to_be_bytes());
        out[43..51].copy_from_slice(&self.producer_id.0.to_be_bytes());
        out[51..53].copy_from_slice(&self.producer_epoch.0.to_be_bytes());
        out[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        out[57..61].copy_from_slice(&self.record_count.to_be_bytes());
        out
    }

    /// Writes the header over the first 61 bytes of `out`, which must be there.
    pub fn write(&self, out: &mut [u8]) {
        out[..HEADER_BYTES].copy_from_slice(&self.to_bytes());
    }

    /// Bytes of the whole batch, header included; below `HEADER_BYTES` the length field is damaged.
    pub fn size_in_bytes(&self) -> usize {
        LENGTH_PREFIX_BYTES + usize::try_from(self.batch_length).unwrap_or(0)
    }

    /// Bytes of the records section.
    pub fn records_bytes(&self) -> usize {
        self.size_in_bytes().saturating_sub(HEADER_BYTES)
    }

    /// Offset of the last record. Only of a header that was checked: a damaged one may leave the range.
    pub fn last_offset(&self) -> Offset {
        self.base_offset.plus(i64::from(self.last_offset_delta))
    }

    /// The offset the next batch starts at. Only of a header that was checked.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().next()
    }

    /// Sequence of the last record, `NO_SEQUENCE` without one. 2147483647 is followed by 0.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            NO_SEQUENCE
        } else {
            sequence_plus(self.base_sequence, self.last_offset_delta)
        }
    }

    /// The codec; `None` for the numbers 5 to 7, which no codec has.
    pub fn compression(&self) -> Option<Compression> {
        Compression::from_id(self.attributes & CODEC_BITS)
    }

    pub fn set_compression(&mut self, compression: Compression) {
        self.attributes = (self.attributes & !CODEC_BITS) | compression.id();
    }

    pub fn timestamp_type(&self) -> TimestampType {
        match self.attributes & APPEND_TIME_BIT {
            0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        }
    }

    /// Sets type and maximum as `DefaultRecordBatch.setMaxTimestamp`: attribute bits that mean nothing are cleared.
    /// The checksum is then stale: `crc::restamp` does both.
    pub(super) fn set_timestamps(&mut self, timestamp_type: TimestampType, max: Timestamp) {
        let known = CODEC_BITS | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT;
        self.attributes &= known;
        if timestamp_type == TimestampType::LogAppendTime {
            self.attributes |= APPEND_TIME_BIT;
        }
        self.max_timestamp = max;
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    pub fn has_producer_id(&self) -> bool {
        self.producer_id > ProducerId::NONE
    }
}

/// Stamps base offset and leader epoch on a batch in place; the checksum does not cover them.
pub fn stamp(batch: &mut [u8], base_offset: Offset, leader_epoch: LeaderEpoch) {
    batch[0..8].copy_from_slice(&base_offset.0.to_be_bytes());
    batch[12..16].copy_from_slice(&leader_epoch.0.to_be_bytes());
}

/// The sequence number `increment` records further: 2147483647 is followed by 0.
pub fn sequence_plus(sequence: i32, increment: i32) -> i32 {
    (sequence.wrapping_add(increment)) & i32::MAX
}

/// The sequence number `decrement` records before: 0 is preceded by 2147483647.
pub fn sequence_minus(sequence: i32, decrement: i32) -> i32 {
    (sequence.wrapping_sub(decrement)) & i32::MAX
}

fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    bytes[at..at + N]
        .try_into()
        .expect("a field lies inside the header")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::testing;

    #[test]
    fn a_header_written_by_kafka_reads_field_by_field() {
        let bytes = testing::kafka_batch("idempotent");
        let header = BatchHeader::read(&bytes).expect("61 bytes");
        assert_eq!(header.base_offset, Offset(5));
        assert_eq!(header.size_in_bytes(), bytes.len());
        assert_eq!(header.leader_epoch, LeaderEpoch(9));
        assert_eq!(header.magic, MAGIC);
        assert_eq!(header.producer_id, ProducerId(4711));
        assert_eq!(header.producer_epoch, ProducerEpoch(3));
        assert_eq!(header.base_sequence, i32::MAX - 1);
        assert_eq!(header.last_sequence(), 1, "the sequence wraps to 0");
        assert_eq!(header.record_count, 4);
        assert_eq!(header.last_offset(), Offset(8));
        assert_eq!(header.next_offset(), Offset(9));
        assert_eq!(header.compression(), Some(Compression::None));
        assert_eq!(header.timestamp_type(), TimestampType::CreateTime);
        assert!(header.has_producer_id() && !header.is_control() && !header.is_transactional());
        assert_eq!(header.to_bytes(), bytes[..HEADER_BYTES]);
    }

    #[test]
    fn attribute_bits_are_kafkas() {
        let transactional = testing::kafka_header("transactional");
        assert!(transactional.is_transactional() && !transactional.is_control());
        let control = testing::kafka_header("control");
        assert!(control.is_transactional() && control.is_control());
        let append_time = testing::kafka_header("append-time");
        assert_eq!(append_time.timestamp_type(), TimestampType::LogAppendTime);
        for codec in Compression::ALL {
            assert_eq!(
                testing::kafka_header(codec.name()).compression(),
                Some(codec)
            );
        }
    }

    #[test]
    fn a_damaged_length_gives_a_size_below_the_header() {
        for length in [i32::MIN, -1, 0, 48] {
            let header = BatchHeader {
                batch_length: length,
                ..BatchHeader::EMPTY
            };
            assert!(header.size_in_bytes() < HEADER_BYTES, "length {length}");
            assert_eq!(header.records_bytes(), 0);
        }
    }

    #[test]
    fn g13_stamping_leaves_the_checksum_valid() {
        let mut bytes = testing::kafka_batch("none");
        stamp(&mut bytes, Offset(1 << 40), LeaderEpoch(77));
        let header = BatchHeader::read(&bytes).expect("61 bytes");
        assert_eq!(
            (header.base_offset, header.leader_epoch),
            (Offset(1 << 40), LeaderEpoch(77))
        );
        assert_eq!(crate::record::BatchCrc::of(&bytes), header.crc);
    }

    #[test]
    fn sequences_wrap_both_ways() {
        assert_eq!(sequence_plus(i32::MAX, 1), 0);
        assert_eq!(sequence_plus(i32::MAX - 1, 3), 1);
        assert_eq!(sequence_minus(0, 1), i32::MAX);
        assert_eq!(sequence_minus(2, 5), i32::MAX - 2);
        assert_eq!(sequence_minus(sequence_plus(7, 100), 100), 7);
    }
}
