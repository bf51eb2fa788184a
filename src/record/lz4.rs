//! The LZ4 frame as Kafka's Java client reads it: version 1, independent blocks, an end mark that must be there.
//! Owned by nobody; a reader borrows the compressed bytes.
//! Always: what this accepts, `Lz4BlockInputStream` accepts; a consumer never meets a frame it cannot read.
//! The bound on the whole stream is kept by `codec::Decoder`.
//!
//! ```text
//! magic 4 | FLG 1 | BD 1 | content size 8? | HC 1 | { size 4 (top bit: stored), block, checksum 4? }* | 0 4 | checksum 4?
//! ```

use std::io::{self, Read, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

const MAGIC: u32 = 0x184D_2204;
const STORED_BIT: u32 = 1 << 31;

/// Decompresses block by block.
pub struct Lz4Reader<'a> {
    rest: &'a [u8],
    /// `None` once the end mark was read.
    frame: Option<Frame>,
    block: Vec<u8>,
    taken: usize,
}

#[derive(Clone, Copy)]
struct Frame {
    block_bytes_max: usize,
    block_checksums: bool,
    content_checksum: bool,
}

impl<'a> Lz4Reader<'a> {
    /// Reads the frame header.
    pub fn new(compressed: &'a [u8]) -> io::Result<Lz4Reader<'a>> {
        let cut = || corrupt("lz4: cut in the frame header");
        let (magic, descriptor) = compressed.split_first_chunk().ok_or_else(cut)?;
        if u32::from_le_bytes(*magic) != MAGIC {
            return Err(corrupt("lz4: not a frame"));
        }
        let &[flags, block_size, ..] = descriptor else {
            return Err(cut());
        };
        if flags >> 6 != 1 || flags & 0b11 != 0 {
            return Err(corrupt("lz4: unknown version or a dictionary"));
        }
        if flags & 0x20 == 0 {
            return Err(corrupt("lz4: blocks that depend on each other"));
        }
        let block_bytes_max = match block_size {
            0x40 => 64 << 10,
            0x50 => 256 << 10,
            0x60 => 1 << 20,
            0x70 => 4 << 20,
            _ => return Err(corrupt("lz4: unknown block size")),
        };
        let descriptor_bytes = if flags & 0x08 != 0 { 10 } else { 2 };
        let (descriptor, rest) = descriptor
            .split_at_checked(descriptor_bytes)
            .ok_or_else(cut)?;
        let (&checksum, rest) = rest.split_first().ok_or_else(cut)?;
        if (XxHash32::oneshot(0, descriptor) >> 8) as u8 != checksum {
            return Err(corrupt("lz4: checksum of the frame header"));
        }
        Ok(Lz4Reader {
            rest,
            frame: Some(Frame {
                block_bytes_max,
                block_checksums: flags & 0x10 != 0,
                content_checksum: flags & 0x04 != 0,
            }),
            block: Vec::new(),
            taken: 0,
        })
    }

    /// Decompresses the next block into `self.block`; false at the end mark.
    fn next_block(&mut self, frame: Frame) -> io::Result<bool> {
        let size = self.number()?;
        if size == 0 {
            if frame.content_checksum {
                self.number()?;
            }
            self.frame = None;
            return match self.rest {
                [] => Ok(false),
                _ => Err(corrupt("lz4: bytes behind the end mark")),
            };
        }
        let (stored, size) = (size & STORED_BIT != 0, (size & !STORED_BIT) as usize);
        if size > frame.block_bytes_max {
            return Err(corrupt("lz4: block larger than the frame allows"));
        }
        let (data, rest) = self
            .rest
            .split_at_checked(size)
            .ok_or_else(|| corrupt("lz4: block beyond the end"))?;
        self.rest = rest;
        if frame.block_checksums && XxHash32::oneshot(0, data) != self.number()? {
            return Err(corrupt("lz4: checksum of a block"));
        }
        self.taken = 0;
        self.block.clear();
        if stored {
            self.block.extend_from_slice(data);
        } else {
            // A byte unfolds to 255 at most; a small block does not pay for the frame's largest.
            self.block.resize(frame.block_bytes_max.min(size * 255), 0);
            let bytes = lz4_flex::block::decompress_into(data, &mut self.block)
                .map_err(|error| corrupt(&format!("lz4: {error}")))?;
            self.block.truncate(bytes);
        }
        Ok(true)
    }

    fn number(&mut self) -> io::Result<u32> {
        let (number, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| corrupt("lz4: no end mark"))?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*number))
    }
}

impl Read for Lz4Reader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() {
            let Some(frame) = self.frame else {
                return Ok(0);
            };
            if !self.next_block(frame)? {
                return Ok(0);
            }
        }
        let bytes = out.len().min(self.block.len() - self.taken);
        out[..bytes].copy_from_slice(&self.block[self.taken..self.taken + bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

/// Appends the frame of `plain`, in the 64 KiB blocks of the Java client.
pub fn compress(plain: &[u8], out: &mut Vec<u8>) {
    let info = FrameInfo::new()
        .block_mode(BlockMode::Independent)
        .block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    encoder
        .write_all(plain)
        .and_then(|()| encoder.finish().map_err(io::Error::other))
        .expect("writing to memory does not fail");
}

fn corrupt(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
