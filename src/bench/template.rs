//! Batches made before the run, stamped as they are sent: so the load side costs next to nothing per record.
//! Shared by all load cores.
//! Always: a stamped batch has a right checksum, the time of now, and says who sent it as which: a number of the connection in the producer
//! epoch and a count in the base sequence, which brokers ignore without a producer id and keep as they are.
//! What is in the records is `payload`'s.

use bytes::Bytes;

use crate::base::{LeaderEpoch, Offset, ProducerEpoch, Timestamp};
use crate::record::{BatchBuilder, BatchHeader, Compression, HEADER_BYTES, Levels};

/// The first byte of a batch that the checksum covers.
const CRC_COVERS_FROM: usize = 21;

/// A batch to be sent many times.
#[derive(Clone, Debug)]
pub struct Template {
    header: BatchHeader,
    /// Checksum of the covered part of the header.
    header_crc: u32,
    /// The records, as they travel.
    pub body: Bytes,
    /// What each bit of a header's checksum becomes behind the body.
    shifted: [u32; 32],
    pub records: u32,
    /// Of values and keys.
    pub payload_bytes: u64,
}

/// The identity of a sent batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub lane: u16,
    pub sequence: i32,
}

impl Stamp {
    /// Who sent the batch with this header.
    pub fn of(header: &BatchHeader) -> Stamp {
        Stamp {
            lane: header.producer_epoch.0 as u16,
            sequence: header.base_sequence,
        }
    }
}

impl Template {
    /// A batch of these keys and values.
    pub fn build<'a>(
        records: impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])>,
        codec: Compression,
    ) -> Template {
        let mut builder = BatchBuilder::new().compressed(codec, Levels::default());
        let mut payload_bytes = 0;
        for (key, value) in records {
            payload_bytes += (key.map_or(0, <[u8]>::len) + value.len()) as u64;
            builder.append(Timestamp(0), key, Some(value), &[]);
        }
        let batch = Bytes::from(builder.finish(Offset::ZERO, LeaderEpoch::NONE));
        let header = BatchHeader::read(&batch).expect("a built batch has a header");
        let body = batch.slice(HEADER_BYTES..);
        Template {
            header,
            header_crc: crc32c::crc32c(&batch[CRC_COVERS_FROM..HEADER_BYTES]),
            shifted: std::array::from_fn(|bit| crc32c::crc32c_combine(1 << bit, 0, body.len())),
            records: header.record_count as u32,
            body,
            payload_bytes,
        }
    }

    /// The header of one sending, and its checksum.
    pub fn stamp(&self, stamp: Stamp, now: Timestamp) -> ([u8; HEADER_BYTES], u32) {
        let mut header = self.header;
        header.base_timestamp = now;
        header.max_timestamp = now;
        header.producer_epoch = ProducerEpoch(stamp.lane as i16);
        header.base_sequence = stamp.sequence;
        let changed = crc32c::crc32c(&header.to_bytes()[CRC_COVERS_FROM..]) ^ self.header_crc;
        // crc(header ++ body) = shift(crc(header)) ^ crc(body), and shifting is linear.
        let moved = (0..32).filter(|bit| changed >> bit & 1 == 1);
        header.crc ^= moved.fold(0, |sum, bit| sum ^ self.shifted[bit]);
        (header.to_bytes(), header.crc)
    }

    pub fn wire_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::BatchCrc;

    #[test]
    fn a_stamped_batch_passes_and_says_who_sent_it() {
        for codec in Compression::ALL {
            let records: Vec<Vec<u8>> = (0..50u8).map(|n| vec![n; 100]).collect();
            let pairs = records.iter().map(|r| (Some(&r[..4]), &r[..]));
            let template = Template::build(pairs, codec);
            assert_eq!((template.records, template.payload_bytes), (50, 5_200));
            for sequence in [0, 1, 77_777, i32::MAX] {
                let stamp = Stamp {
                    lane: 65_535,
                    sequence,
                };
                let now = Timestamp(1_700_000_000_000 + i64::from(sequence));
                let (head, crc) = template.stamp(stamp, now);
                let batch = [&head[..], &template.body].concat();
                let header = BatchHeader::read(&batch).expect("61 bytes");
                assert_eq!(BatchCrc::of(&batch), header.crc, "{codec:?}");
                assert_eq!(header.crc, crc);
                assert_eq!(Stamp::of(&header), stamp);
                assert_eq!(header.max_timestamp, now);
                assert!(!header.has_producer_id());
                assert_eq!(batch.len(), template.wire_bytes());
            }
        }
    }
}
