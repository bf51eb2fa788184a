//! Snappy as Kafka has it: a stream of blocks in the framing of snappy-java ("xerial"), or one raw block.
//! Owned by nobody; a reader borrows the compressed bytes.
//! Always: a declared size is believed only as far as that many compressed bytes can unfold to.
//! The bound on the whole stream is kept by `codec::Decoder`.
//!
//! ```text
//! 82 'SNAPPY' 00 | version 4 (1) | compatible 4 (1) | { length 4, block }*      all big-endian
//! ```

use std::io::{self, Read};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const STREAM_HEADER_BYTES: usize = 16;
/// What snappy-java cuts its input into.
const BLOCK_BYTES: usize = 32 << 10;
/// A copy of 64 bytes takes at least 3 compressed ones; 22 is the next whole ratio above.
const RATIO_MAX: usize = 22;

/// Decompresses block by block.
pub struct SnappyReader<'a> {
    rest: &'a [u8],
    framed: bool,
    block: Vec<u8>,
    taken: usize,
}

impl<'a> SnappyReader<'a> {
    pub fn new(compressed: &'a [u8]) -> io::Result<SnappyReader<'a>> {
        if compressed.is_empty() {
            return Err(corrupt("snappy: no bytes"));
        }
        let framed = compressed.len() >= STREAM_HEADER_BYTES && compressed.starts_with(&MAGIC);
        Ok(SnappyReader {
            rest: if framed {
                &compressed[STREAM_HEADER_BYTES..]
            } else {
                compressed
            },
            framed,
            block: Vec::new(),
            taken: 0,
        })
    }

    /// The next compressed block, `None` at the end.
    fn next_block(&mut self) -> io::Result<Option<&'a [u8]>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        if !self.framed {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        // Streams may follow each other (snappy-java reads that).
        if self.rest.len() >= STREAM_HEADER_BYTES && self.rest.starts_with(&MAGIC) {
            self.rest = &self.rest[STREAM_HEADER_BYTES..];
            if self.rest.is_empty() {
                return Ok(None);
            }
        }
        let (length, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| corrupt("snappy: cut in the length of a block"))?;
        let length = usize::try_from(i32::from_be_bytes(*length))
            .map_err(|_| corrupt("snappy: negative length of a block"))?;
        let (block, rest) = rest
            .split_at_checked(length)
            .ok_or_else(|| corrupt("snappy: block beyond the end"))?;
        self.rest = rest;
        Ok(Some(block))
    }
}

impl Read for SnappyReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() {
            let Some(compressed) = self.next_block()? else {
                return Ok(0);
            };
            let declared = snap::raw::decompress_len(compressed)
                .map_err(|error| corrupt(&error.to_string()))?;
            if declared > compressed.len() * RATIO_MAX {
                return Err(corrupt(
                    "snappy: declared size is more than the block can hold",
                ));
            }
            self.block.clear();
            self.block.resize(declared, 0);
            self.taken = 0;
            snap::raw::Decoder::new()
                .decompress(compressed, &mut self.block)
                .map_err(|error| corrupt(&error.to_string()))?;
        }
        let bytes = out.len().min(self.block.len() - self.taken);
        out[..bytes].copy_from_slice(&self.block[self.taken..self.taken + bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

/// Appends the framed stream of `plain`.
pub fn compress(plain: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&1i32.to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in plain.chunks(BLOCK_BYTES) {
        let at = out.len();
        out.resize(at + 4 + snap::raw::max_compress_len(block.len()), 0);
        let bytes = encoder
            .compress(block, &mut out[at + 4..])
            .expect("the output has the room snappy asks for");
        out[at..at + 4].copy_from_slice(&(bytes as i32).to_be_bytes());
        out.truncate(at + 4 + bytes);
    }
}

fn corrupt(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
