//! Builds a record batch as the Java client does (`MemoryRecordsBuilder`).
//! Owned by whoever writes: a coordinator, the controller, our own client.
//! Always: what `finish` gives passes `check`, and records keep the order they were added in.
//! Where the batch goes is the caller's.

use super::codec::{Levels, compress};
use super::crc::BatchCrc;
use super::header::{BatchHeader, Compression, HEADER_BYTES, LENGTH_PREFIX_BYTES};
use super::varint;
use crate::base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

/// A header of a record to be written.
pub type HeaderRef<'a> = (&'a [u8], Option<&'a [u8]>);

/// A batch in the making.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    header: BatchHeader,
    /// Room for the header, then the plain records.
    bytes: Vec<u8>,
    compression: Compression,
    levels: Levels,
}

impl Default for BatchBuilder {
    fn default() -> BatchBuilder {
        BatchBuilder::new()
    }
}

impl BatchBuilder {
    /// An empty, uncompressed batch without a producer.
    pub fn new() -> BatchBuilder {
        BatchBuilder {
            header: BatchHeader::EMPTY,
            bytes: vec![0; HEADER_BYTES],
            compression: Compression::None,
            levels: Levels::default(),
        }
    }

    #[must_use]
    pub fn compressed(mut self, compression: Compression, levels: Levels) -> BatchBuilder {
        self.compression = compression;
        self.levels = levels;
        self
    }

    /// The batch is of an idempotent producer; `base_sequence` is its first record's.
    #[must_use]
    pub fn idempotent(
        mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        base_sequence: i32,
    ) -> BatchBuilder {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Adds a record; a null value is a tombstone of its key.
    pub fn append(
        &mut self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderRef<'_>],
    ) {
        let header = &mut self.header;
        if header.record_count == 0 {
            header.base_timestamp = timestamp;
        }
        header.max_timestamp = header.max_timestamp.max(timestamp);
        let timestamp_delta = timestamp.0.wrapping_sub(header.base_timestamp.0);
        let offset_delta = i64::from(header.record_count);
        let body_bytes = 1
            + varint::size(timestamp_delta)
            + varint::size(offset_delta)
            + nullable_size(key)
            + nullable_size(value)
            + varint::size(headers.len() as i64)
            + headers
                .iter()
                .map(|&(key, value)| nullable_size(Some(key)) + nullable_size(value))
                .sum::<usize>();
        let out = &mut self.bytes;
        varint::put(out, body_bytes as i64);
        let start = out.len();
        out.push(0);
        varint::put(out, timestamp_delta);
        varint::put(out, offset_delta);
        put_nullable(out, key);
        put_nullable(out, value);
        varint::put(out, headers.len() as i64);
        for &(key, value) in headers {
            put_nullable(out, Some(key));
            put_nullable(out, value);
        }
        assert_eq!(out.len() - start, body_bytes, "size of a record");
        header.last_offset_delta = header.record_count;
        header.record_count += 1;
    }

    pub fn record_count(&self) -> i32 {
        self.header.record_count
    }

    pub fn is_empty(&self) -> bool {
        self.header.record_count == 0
    }

    /// Bytes so far, uncompressed, header included.
    pub fn plain_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of the batch. It must not be empty: a batch without records is valid only after compaction.
    pub fn finish(self, base_offset: Offset, leader_epoch: LeaderEpoch) -> Vec<u8> {
        assert!(!self.is_empty(), "a batch has at least one record");
        let mut header = self.header;
        header.base_offset = base_offset;
        header.leader_epoch = leader_epoch;
        let bytes = match self.compression {
            Compression::None => self.bytes,
            codec => {
                let mut out = vec![0; HEADER_BYTES];
                compress(codec, self.levels, &self.bytes[HEADER_BYTES..], &mut out);
                header.set_compression(codec);
                out
            }
        };
        seal(header, bytes)
    }
}

/// Puts the header over the first 61 bytes, with the length and checksum of what follows.
pub(super) fn seal(mut header: BatchHeader, mut batch: Vec<u8>) -> Vec<u8> {
    header.batch_length =
        i32::try_from(batch.len() - LENGTH_PREFIX_BYTES).expect("a batch is smaller than 2 GiB");
    header.write(&mut batch);
    header.crc = BatchCrc::of(&batch);
    header.write(&mut batch);
    batch
}

fn nullable_size(bytes: Option<&[u8]>) -> usize {
    match bytes {
        Some(bytes) => varint::size(bytes.len() as i64) + bytes.len(),
        None => varint::size(-1),
    }
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            varint::put(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
        None => varint::put(out, -1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::testing;

    /// The five records of the golden batches.
    fn five(mut builder: BatchBuilder) -> BatchBuilder {
        let now = 1_700_000_000_000;
        let big: Vec<u8> = (0..3000u32).map(|i| (i * 7 / 13) as u8).collect();
        let headers: [HeaderRef<'_>; 3] = [(b"h", Some(b"1")), (b"h", None), (b"", Some(b""))];
        builder.append(Timestamp(now - 10), Some(b"k0"), Some(b"v0"), &[]);
        builder.append(Timestamp(now + 5), None, Some(b"no key"), &headers);
        builder.append(Timestamp(now - 500), Some(b"tombstone"), None, &[]);
        builder.append(Timestamp(now), Some(b""), Some(&big), &[]);
        builder.append(Timestamp(now), None, None, &[]);
        builder
    }

    #[test]
    fn an_uncompressed_batch_is_byte_for_byte_kafkas() {
        let built = five(BatchBuilder::new()).finish(Offset(2), LeaderEpoch(9));
        assert_eq!(built, testing::kafka_batch("none"));
        let mut idempotent =
            BatchBuilder::new().idempotent(ProducerId(4711), ProducerEpoch(3), i32::MAX - 1);
        for i in 0..4 {
            idempotent.append(
                Timestamp(1_700_000_000_000 - 100 + i),
                Some(format!("key{i}").as_bytes()),
                Some(format!("value {i} some text to repeat, some text to repeat").as_bytes()),
                &[],
            );
        }
        assert_eq!(
            idempotent.finish(Offset(5), LeaderEpoch(9)),
            testing::kafka_batch("idempotent")
        );
    }

    #[test]
    fn a_compressed_batch_holds_the_same_records() {
        let plain = testing::kafka_batch("none");
        for codec in Compression::ALL {
            let built = five(BatchBuilder::new().compressed(codec, Levels::default()))
                .finish(Offset(2), LeaderEpoch(9));
            let header = BatchHeader::read(&built).expect("61 bytes");
            assert_eq!(header.compression(), Some(codec));
            assert_eq!(header.crc, BatchCrc::of(&built));
            assert_eq!(header.size_in_bytes(), built.len());
            assert_eq!(
                crate::record::codec::decompress(codec, &built[HEADER_BYTES..], 1 << 20).as_deref(),
                Ok(&plain[HEADER_BYTES..])
            );
        }
    }
}
