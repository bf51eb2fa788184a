//! Compression of the records section: gzip, snappy, lz4 and zstd, as every Kafka client reads and writes them.
//! Owned by nobody; a decoder borrows the compressed bytes.
//! Always: no more comes out of a decoder than `decompressed_limit` allows, and nothing is allocated by a declared size beyond it.
//! When a batch is compressed anew is decided by `rewrite`'s caller.

use std::io::{self, Read, Write};

use super::header::Compression;
use super::lz4::{self, Lz4Reader};
use super::snappy::{self, SnappyReader};
use super::zstd::{self, ZstdReader};
use crate::base::limits;

/// Why bytes cannot be decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeFault {
    /// They are not what the codec writes.
    Corrupt(String),
    /// They unfold to more than the limit.
    TooLarge,
}

/// Most bytes that a records section of `compressed` bytes may unfold to.
pub fn decompressed_limit(compressed: usize) -> usize {
    compressed
        .saturating_mul(limits::DECOMPRESSED_RATIO_MAX)
        .clamp(
            limits::DECOMPRESSED_FREE_BYTES,
            limits::DECOMPRESSED_BYTES_MAX,
        )
}

/// Decompresses a stream piece by piece; an error of `read` is turned into its cause by `fault`.
pub struct Decoder<'a> {
    inner: Inner<'a>,
    /// Bytes that may still come out.
    allowed: usize,
    exceeded: bool,
}

enum Inner<'a> {
    None(&'a [u8]),
    Gzip(Box<flate2::bufread::MultiGzDecoder<&'a [u8]>>),
    Snappy(SnappyReader<'a>),
    Lz4(Lz4Reader<'a>),
    Zstd(ZstdReader<'a>),
}

impl<'a> Decoder<'a> {
    /// Starts on a records section, bounded by `decompressed_limit`.
    pub fn new(compression: Compression, compressed: &'a [u8]) -> Result<Decoder<'a>, DecodeFault> {
        Decoder::with_limit(
            compression,
            compressed,
            decompressed_limit(compressed.len()),
        )
    }

    pub fn with_limit(
        compression: Compression,
        compressed: &'a [u8],
        limit: usize,
    ) -> Result<Decoder<'a>, DecodeFault> {
        let inner = match compression {
            Compression::None => Inner::None(compressed),
            Compression::Gzip => {
                Inner::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(compressed)))
            }
            Compression::Snappy => Inner::Snappy(SnappyReader::new(compressed).map_err(corrupt)?),
            Compression::Lz4 => Inner::Lz4(Lz4Reader::new(compressed).map_err(corrupt)?),
            Compression::Zstd => Inner::Zstd(ZstdReader::new(compressed, limit).map_err(corrupt)?),
        };
        Ok(Decoder {
            inner,
            allowed: limit,
            exceeded: false,
        })
    }

    /// What an error of `read` means.
    pub fn fault(&self, error: io::Error) -> DecodeFault {
        if self.exceeded {
            DecodeFault::TooLarge
        } else {
            corrupt(error)
        }
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.inner {
            Inner::None(rest) => rest.read(out),
            Inner::Gzip(decoder) => decoder.read(out),
            Inner::Snappy(decoder) => decoder.read(out),
            Inner::Lz4(decoder) => decoder.read(out),
            Inner::Zstd(decoder) => decoder.read(out),
        };
        let bytes = match read {
            Ok(bytes) if bytes <= self.allowed => bytes,
            Ok(_) => {
                self.exceeded = true;
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Err(error) => {
                self.exceeded = error.kind() == io::ErrorKind::FileTooLarge;
                return Err(error);
            }
        };
        self.allowed -= bytes;
        Ok(bytes)
    }
}

/// Decompresses at once; refuses when more than `limit` bytes come out.
pub fn decompress(
    compression: Compression,
    compressed: &[u8],
    limit: usize,
) -> Result<Vec<u8>, DecodeFault> {
    let mut decoder = Decoder::with_limit(compression, compressed, limit)?;
    let mut plain = Vec::new();
    match decoder.read_to_end(&mut plain) {
        Ok(_) => Ok(plain),
        Err(error) => Err(decoder.fault(error)),
    }
}

/// How hard a codec tries (`compression.gzip.level`, `compression.lz4.level`, `compression.zstd.level`).
/// LZ4 has one level here: the fast one of the frame format, which any reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// 1 to 9, or -1 for zlib's default.
    pub gzip: i32,
    /// -131072 to 22.
    pub zstd: i32,
}

impl Default for Levels {
    /// Kafka's defaults.
    fn default() -> Levels {
        Levels { gzip: -1, zstd: 3 }
    }
}

/// Compresses a records section, appending to `out`.
pub fn compress(compression: Compression, levels: Levels, plain: &[u8], out: &mut Vec<u8>) {
    match compression {
        Compression::None => out.extend_from_slice(plain),
        Compression::Gzip => {
            let level = match u32::try_from(levels.gzip) {
                Ok(level) => flate2::Compression::new(level.min(9)),
                Err(_) => flate2::Compression::default(),
            };
            let mut encoder = flate2::write::GzEncoder::new(out, level);
            encoder
                .write_all(plain)
                .and_then(|()| encoder.try_finish())
                .expect("writing to memory does not fail");
        }
        Compression::Snappy => snappy::compress(plain, out),
        Compression::Lz4 => lz4::compress(plain, out),
        Compression::Zstd => zstd::compress(plain, levels.zstd, out),
    }
}

fn corrupt(error: io::Error) -> DecodeFault {
    DecodeFault::Corrupt(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::header::HEADER_BYTES;
    use crate::record::testing;

    const CODECS: [Compression; 4] = [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];

    fn plain_records() -> Vec<u8> {
        testing::kafka_batch("none")[HEADER_BYTES..].to_vec()
    }

    #[test]
    fn what_kafka_compressed_unfolds_to_its_records() {
        let plain = plain_records();
        for name in [
            "gzip", "gzip-9", "snappy", "lz4", "lz4-17", "zstd", "zstd-22", "zstd--5",
        ] {
            let batch = testing::kafka_batch(name);
            let codec = testing::kafka_header(name)
                .compression()
                .expect("a known codec");
            assert_eq!(
                decompress(codec, &batch[HEADER_BYTES..], 1 << 20),
                Ok(plain.clone()),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_compressed_unfolds_again() {
        let mut input = plain_records();
        while input.len() < 300_000 {
            let half = input.clone();
            input.extend(half.iter().map(|b| b.wrapping_mul(3)));
        }
        for codec in Compression::ALL {
            for plain in [&input[..], &input[..1], &[]] {
                let mut compressed = Vec::new();
                compress(codec, Levels::default(), plain, &mut compressed);
                assert_eq!(
                    decompress(codec, &compressed, plain.len()).as_deref(),
                    Ok(plain),
                    "{codec:?}"
                );
            }
        }
    }

    #[test]
    fn a_decoder_left_in_the_middle_does_not_disturb_the_next() {
        let plain = plain_records();
        for codec in CODECS {
            let mut compressed = Vec::new();
            compress(codec, Levels::default(), &plain, &mut compressed);
            for taken in [0, 1, plain.len() / 2, plain.len()] {
                let mut abandoned = Decoder::new(codec, &compressed).expect("a good start");
                let mut part = vec![0; taken];
                abandoned.read_exact(&mut part).expect("as much is there");
                drop(abandoned);
                let mut damaged = compressed.clone();
                let middle = damaged.len() / 2;
                damaged.truncate(middle);
                assert!(decompress(codec, &damaged, 1 << 20) != Ok(plain.clone()));
                assert_eq!(
                    decompress(codec, &compressed, 1 << 20).as_ref(),
                    Ok(&plain),
                    "{codec:?} after {taken} bytes"
                );
            }
        }
    }

    #[test]
    fn wide_zstd_windows_are_read_without_asking_for_their_memory() {
        // A window of 128 MiB, and one segment of 20 MiB.
        let zeros = vec![0; 20 << 20];
        let mut window = Vec::new();
        compress(
            Compression::Zstd,
            Levels { gzip: 1, zstd: 22 },
            b"text",
            &mut window,
        );
        let segment = ::zstd::bulk::compress(&zeros, 1).expect("memory");
        for (compressed, plain) in [(&window, &b"text"[..]), (&segment, &zeros)] {
            assert_eq!(
                decompress(Compression::Zstd, compressed, plain.len()).as_deref(),
                Ok(plain)
            );
            for too_little in [plain.len() - 1, plain.len() - 2, 1] {
                assert_eq!(
                    decompress(Compression::Zstd, compressed, too_little),
                    Err(DecodeFault::TooLarge)
                );
            }
            assert!(matches!(
                decompress(
                    Compression::Zstd,
                    &compressed[..compressed.len() - 1],
                    1 << 25
                ),
                Err(DecodeFault::Corrupt(_))
            ));
        }
    }

    #[test]
    fn zstd_frames_may_follow_each_other() {
        let mut frames = Vec::new();
        compress(Compression::Zstd, Levels::default(), b"one ", &mut frames);
        compress(Compression::Zstd, Levels::default(), b"", &mut frames);
        compress(Compression::Zstd, Levels::default(), b"two", &mut frames);
        let plain = decompress(Compression::Zstd, &frames, 1 << 20);
        assert_eq!(plain.as_deref(), Ok(&b"one two"[..]));
        frames.push(0);
        assert!(matches!(
            decompress(Compression::Zstd, &frames, 1 << 20),
            Err(DecodeFault::Corrupt(_))
        ));
    }

    #[test]
    fn raw_snappy_is_read() {
        let plain = plain_records();
        let raw = snap::raw::Encoder::new()
            .compress_vec(&plain)
            .expect("small");
        assert_eq!(decompress(Compression::Snappy, &raw, 1 << 20), Ok(plain));
    }

    #[test]
    fn a_byte_more_than_the_limit_is_too_large() {
        let plain = plain_records();
        for codec in CODECS {
            let mut compressed = Vec::new();
            compress(codec, Levels::default(), &plain, &mut compressed);
            assert_eq!(
                decompress(codec, &compressed, plain.len() - 1),
                Err(DecodeFault::TooLarge),
                "{codec:?}"
            );
        }
    }

    #[test]
    fn a_cut_stream_is_corrupt_at_every_byte() {
        let plain = plain_records();
        for codec in CODECS {
            let mut compressed = Vec::new();
            compress(codec, Levels::default(), &plain, &mut compressed);
            for cut in 1..compressed.len() {
                // A framed snappy stream has no end mark: cut between blocks it is a shorter stream.
                let outcome = decompress(codec, &compressed[..cut], 1 << 20);
                assert!(
                    matches!(outcome, Err(DecodeFault::Corrupt(_)))
                        || (codec == Compression::Snappy && outcome != Ok(plain.clone())),
                    "{codec:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn bombs_are_refused_before_they_unfold() {
        let zeros = vec![0; limits::DECOMPRESSED_BYTES_MAX + 1];
        for codec in CODECS {
            let mut bomb = Vec::new();
            compress(codec, Levels::default(), &zeros, &mut bomb);
            let mut decoder = Decoder::new(codec, &bomb).expect("a good start");
            let mut window = vec![0; 1 << 16];
            let mut seen = 0;
            let fault = loop {
                match decoder.read(&mut window) {
                    Ok(0) => panic!("{codec:?}: the bomb went through"),
                    Ok(bytes) => seen += bytes,
                    Err(error) => break decoder.fault(error),
                }
            };
            assert_eq!(fault, DecodeFault::TooLarge, "{codec:?}");
            assert!(
                seen <= decompressed_limit(bomb.len()),
                "{codec:?} gave {seen} bytes"
            );
        }
    }

    #[test]
    fn declared_sizes_are_not_believed() {
        // Snappy: a raw block that declares 4 GiB - 1.
        let snappy = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 0x41];
        assert!(matches!(
            decompress(Compression::Snappy, &snappy, usize::MAX),
            Err(DecodeFault::Corrupt(_))
        ));
        // Snappy framing: a block length beyond the end, and a negative one.
        for length in [i32::MAX, -1, i32::MIN] {
            let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            framed.extend(length.to_be_bytes());
            framed.push(0);
            assert!(matches!(
                decompress(Compression::Snappy, &framed, usize::MAX),
                Err(DecodeFault::Corrupt(_))
            ));
        }
        // Zstd: a frame header with a content size of 2^64 - 2 and a window to match; then a window of 2^28.
        let mut huge = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000];
        huge.extend((u64::MAX - 1).to_le_bytes());
        huge.extend([0x01, 0x00, 0x00]);
        assert!(matches!(
            decompress(Compression::Zstd, &huge, decompressed_limit(huge.len())),
            Err(DecodeFault::Corrupt(_))
        ));
        let wide = [
            0x28,
            0xb5,
            0x2f,
            0xfd,
            0x00,
            (28 - 10) << 3,
            0x01,
            0x00,
            0x00,
        ];
        assert!(matches!(
            decompress(Compression::Zstd, &wide, decompressed_limit(wide.len())),
            Err(DecodeFault::Corrupt(_))
        ));
    }

    #[test]
    fn lz4_frames_the_java_client_cannot_read_are_corrupt() {
        use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};
        let plain = plain_records();
        let frame = |info: FrameInfo| {
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(&plain).expect("memory");
            encoder.finish().expect("memory")
        };
        let independent = FrameInfo::new().block_mode(BlockMode::Independent);
        for info in [
            independent.clone(),
            independent.clone().block_checksums(true),
            independent.clone().content_checksum(true),
            independent.clone().content_size(Some(plain.len() as u64)),
        ] {
            assert_eq!(
                decompress(Compression::Lz4, &frame(info), 1 << 20).as_ref(),
                Ok(&plain)
            );
        }
        let linked = frame(FrameInfo::new().block_mode(BlockMode::Linked));
        let good = frame(independent.clone().block_checksums(true));
        let no_end_mark = good[..good.len() - 4].to_vec();
        let trailing = [&good[..], &[0]].concat();
        let mut bad_block = good.clone();
        bad_block[40] ^= 1;
        for bad in [linked, no_end_mark, trailing, bad_block] {
            assert!(matches!(
                decompress(Compression::Lz4, &bad, 1 << 20),
                Err(DecodeFault::Corrupt(_))
            ));
        }
    }
}
