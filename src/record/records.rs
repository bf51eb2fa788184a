//! The records of a batch, one after the other, borrowed from its bytes.
//! Owned by whoever reads a log of ours: coordinators, the controller, tools.
//! Always: a damaged record ends the iteration with its fault; nothing is copied but for decompression.
//! Judging what a client sends is `check`'s.

use super::codec;
use super::header::{BatchHeader, Compression, TimestampType};
use super::varint;
use super::walk::Fault;
use crate::base::{Offset, Timestamp};

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset: Offset,
    pub timestamp: Timestamp,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// The headers of a record: any number, in order, keys may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    count: u32,
    /// Known to hold `count` headers and nothing else.
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let mut bytes = self.bytes;
        (0..self.count).map(move |_| take_header(&mut bytes).expect("headers were walked before"))
    }
}

/// Iterates the records of one batch.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    header: BatchHeader,
    rest: &'a [u8],
    next: u32,
}

impl<'a> Records<'a> {
    /// Over the records section of a batch. `scratch` takes the decompressed bytes, if they are compressed.
    pub fn new(
        header: &BatchHeader,
        section: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Records<'a>, Fault> {
        let rest = match header.compression() {
            Some(Compression::None) => section,
            Some(codec) => {
                let limit = codec::decompressed_limit(section.len());
                *scratch = codec::decompress(codec, section, limit)?;
                scratch
            }
            None => {
                return Err(Fault::Undecodable(format!(
                    "codec {} is unknown",
                    header.attributes & 7
                )));
            }
        };
        Ok(Records {
            header: *header,
            rest,
            next: 0,
        })
    }

    fn take(&mut self) -> Result<Record<'a>, &'static str> {
        let size = varint::take_i32(&mut self.rest).ok_or("the batch ends before it")?;
        let (mut body, rest) = usize::try_from(size)
            .ok()
            .and_then(|size| self.rest.split_at_checked(size))
            .ok_or("size beyond the end of the batch")?;
        self.rest = rest;
        body = body.get(1..).ok_or("cut")?;
        let timestamp_delta = varint::take_i64(&mut body).ok_or("bad timestamp delta")?;
        let offset_delta = varint::take_i32(&mut body).ok_or("bad offset delta")?;
        let key = take_nullable(&mut body).ok_or("bad key")?;
        let value = take_nullable(&mut body).ok_or("bad value")?;
        let count = varint::take_i32(&mut body).ok_or("bad header count")?;
        let count = u32::try_from(count).map_err(|_| "negative header count")?;
        let mut walked = body;
        for _ in 0..count {
            take_header(&mut walked).ok_or("bad header")?;
        }
        if !walked.is_empty() {
            return Err("bytes left over in it");
        }
        let offset = self.header.base_offset.0.checked_add(offset_delta.into());
        Ok(Record {
            offset: Offset(offset.ok_or("offset leaves the range")?),
            timestamp: match self.header.timestamp_type() {
                TimestampType::CreateTime => {
                    Timestamp(self.header.base_timestamp.0.wrapping_add(timestamp_delta))
                }
                TimestampType::LogAppendTime => self.header.max_timestamp,
            },
            key,
            value,
            headers: Headers { count, bytes: body },
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let count = u32::try_from(self.header.record_count).unwrap_or(0);
        if self.next >= count {
            return None;
        }
        let record = self.next;
        match self.take() {
            Ok(found) => {
                self.next += 1;
                Some(Ok(found))
            }
            Err(what) => {
                self.next = count;
                Some(Err(Fault::Structure { record, what }))
            }
        }
    }
}

/// A size and as many bytes; any negative size is null, as Kafka reads it.
fn take_nullable<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let size = varint::take_i32(bytes)?;
    let Ok(size) = usize::try_from(size) else {
        return Some(None);
    };
    let (taken, rest) = bytes.split_at_checked(size)?;
    *bytes = rest;
    Some(Some(taken))
}

fn take_header<'a>(bytes: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let key = take_nullable(bytes)??;
    Some((key, take_nullable(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::header::HEADER_BYTES;
    use crate::record::testing;

    #[test]
    fn records_written_by_kafka_read_the_same_in_every_codec() {
        let big: Vec<u8> = (0..3000u32).map(|i| (i * 7 / 13) as u8).collect();
        let now = 1_700_000_000_000;
        for name in [
            "none", "gzip", "gzip-9", "snappy", "lz4", "lz4-17", "zstd", "zstd-22", "zstd--5",
        ] {
            let batch = testing::kafka_batch(name);
            let header = BatchHeader::read(&batch).expect("61 bytes");
            let mut scratch = Vec::new();
            let records: Vec<_> = Records::new(&header, &batch[HEADER_BYTES..], &mut scratch)
                .expect("decodes")
                .collect::<Result<_, _>>()
                .expect("whole");
            let plain: Vec<_> = records
                .iter()
                .map(|r| (r.offset.0, r.timestamp.0 - now, r.key, r.value))
                .collect();
            assert_eq!(
                plain,
                [
                    (2, -10, Some(&b"k0"[..]), Some(&b"v0"[..])),
                    (3, 5, None, Some(b"no key")),
                    (4, -500, Some(b"tombstone"), None),
                    (5, 0, Some(b""), Some(&big[..])),
                    (6, 0, None, None),
                ],
                "{name}"
            );
            let headers: Vec<_> = records[1].headers.iter().collect();
            assert_eq!(
                headers,
                [(&b"h"[..], Some(&b"1"[..])), (b"h", None), (b"", Some(b""))]
            );
            assert_eq!(records[1].headers.len(), 3);
            assert!(records[0].headers.is_empty());
        }
    }

    #[test]
    fn append_time_is_the_timestamp_of_every_record() {
        let batch = testing::kafka_batch("append-time");
        let header = BatchHeader::read(&batch).expect("61 bytes");
        let mut scratch = Vec::new();
        let times: Vec<_> = Records::new(&header, &batch[HEADER_BYTES..], &mut scratch)
            .expect("plain")
            .map(|record| record.expect("whole").timestamp)
            .collect();
        assert_eq!(times, [header.max_timestamp; 2]);
    }

    #[test]
    fn a_damaged_record_ends_the_iteration() {
        let batch = testing::kafka_batch("none");
        let header = BatchHeader::read(&batch).expect("61 bytes");
        for cut in 0..batch.len() - HEADER_BYTES {
            let mut scratch = Vec::new();
            let found: Vec<_> = Records::new(&header, &batch[HEADER_BYTES..][..cut], &mut scratch)
                .expect("plain")
                .collect();
            assert!(
                matches!(found.last(), Some(Err(_))),
                "cut at {cut}: {found:?}"
            );
            assert!(found.len() <= 5);
            assert!(found[..found.len() - 1].iter().all(Result::is_ok));
        }
    }
}
