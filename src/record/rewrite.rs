//! Makes a batch anew in another codec, for topics whose `compression.type` is not `producer`.
//! Owned by nobody, a function; called for a batch that `check` accepted.
//! Always: the records are the same bytes once decompressed, header and checksum fit the new ones.
//! A changed timestamp alone needs no new batch: `BatchFacts::apply`.

use super::build::seal;
use super::codec::{self, Levels, compress};
use super::error::BatchError;
use super::header::{BatchHeader, Compression, HEADER_BYTES};
use super::walk::Fault;

/// The batch in codec `to`. Refused as too large if the new form exceeds `max_message_bytes`.
pub fn recompress(
    header: &BatchHeader,
    records: &[u8],
    to: Compression,
    levels: Levels,
    max_message_bytes: usize,
) -> Result<Vec<u8>, BatchError> {
    let from = header.compression().ok_or_else(|| {
        BatchError::UnsupportedCompression(
            format!("codec {} is unknown", header.attributes & 7).into(),
        )
    })?;
    let mut batch = vec![0; HEADER_BYTES];
    match from {
        Compression::None => compress(to, levels, records, &mut batch),
        Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
            let limit = codec::decompressed_limit(records.len());
            let plain = codec::decompress(from, records, limit).map_err(Fault::from)?;
            compress(to, levels, &plain, &mut batch);
        }
    }
    if batch.len() > max_message_bytes {
        return Err(BatchError::TooLarge(
            format!(
                "batch of {} bytes in {}, max.message.bytes is {max_message_bytes}",
                batch.len(),
                to.name()
            )
            .into(),
        ));
    }
    let mut header = *header;
    header.set_compression(to);
    Ok(seal(header, batch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ErrorCode;
    use crate::record::crc::BatchCrc;
    use crate::record::testing;

    #[test]
    fn g16_every_codec_turns_into_every_other() {
        let plain = testing::kafka_batch("none");
        for from in Compression::ALL {
            let batch = testing::kafka_batch(from.name());
            let header = BatchHeader::read(&batch).expect("61 bytes");
            for to in Compression::ALL {
                let made = recompress(
                    &header,
                    &batch[HEADER_BYTES..],
                    to,
                    Levels::default(),
                    1 << 20,
                )
                .expect("small enough");
                let new = BatchHeader::read(&made).expect("61 bytes");
                assert_eq!(new.compression(), Some(to));
                assert_eq!(new.size_in_bytes(), made.len());
                assert_eq!(new.crc, BatchCrc::of(&made));
                assert_eq!(
                    (new.base_offset, new.record_count, new.max_timestamp),
                    (
                        header.base_offset,
                        header.record_count,
                        header.max_timestamp
                    )
                );
                assert_eq!(
                    codec::decompress(to, &made[HEADER_BYTES..], 1 << 20).as_deref(),
                    Ok(&plain[HEADER_BYTES..]),
                    "{from:?} to {to:?}"
                );
            }
        }
    }

    #[test]
    fn a_batch_that_grows_beyond_the_maximum_is_refused() {
        let batch = testing::kafka_batch("zstd");
        let header = BatchHeader::read(&batch).expect("61 bytes");
        let plain_bytes = testing::kafka_batch("none").len();
        let to_plain = |max| {
            recompress(
                &header,
                &batch[HEADER_BYTES..],
                Compression::None,
                Levels::default(),
                max,
            )
        };
        assert!(to_plain(plain_bytes).is_ok());
        assert_eq!(
            to_plain(plain_bytes - 1).map_err(|e| e.code()),
            Err(ErrorCode::MessageTooLarge)
        );
    }
}
