//! Zstandard frames, one after the other until the section ends.
//! A reader borrows the compressed bytes; its context goes back to the thread it was taken from.
//! Always: a frame that is not whole is corrupt; memory is the window of usual levels, or what really comes out.
//! The bound on the whole stream is kept by `codec::Decoder`.

use std::cell::RefCell;
use std::io::{self, Read};

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

thread_local! {
    /// Making a context costs as much as decompressing 20 KB: small batches use the last one again.
    static IDLE: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Decompresses as far as it is read.
pub struct ZstdReader<'a> {
    mode: Mode<'a>,
    /// `None` only while it is dropped.
    context: Option<DCtx<'static>>,
}

enum Mode<'a> {
    Stream {
        rest: &'a [u8],
        /// Nothing is missing: the last frame came out whole.
        at_frame_end: bool,
    },
    /// Levels above 19 declare windows of up to 128 MiB, whatever the size of the batch. A stream would ask for that much
    /// memory; decompressed at once the output is the window.
    Whole {
        compressed: &'a [u8],
        limit: usize,
    },
    Decompressed {
        plain: Vec<u8>,
        taken: usize,
    },
}

impl<'a> ZstdReader<'a> {
    /// A reader that need not give more than `limit` bytes and one.
    pub fn new(compressed: &'a [u8], limit: usize) -> io::Result<ZstdReader<'a>> {
        let window = window_bytes(compressed).unwrap_or(0);
        if window > 1 << WINDOW_LOG_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "zstd: window beyond 128 MiB",
            ));
        }
        let context = match IDLE.take() {
            Some(context) => context,
            None => {
                let mut context = DCtx::create();
                context
                    .set_parameter(DParameter::WindowLogMax(STREAM_WINDOW_LOG_MAX))
                    .map_err(corrupt)?;
                context
            }
        };
        Ok(ZstdReader {
            mode: if window > 1 << STREAM_WINDOW_LOG_MAX {
                Mode::Whole { compressed, limit }
            } else {
                Mode::Stream {
                    rest: compressed,
                    at_frame_end: false,
                }
            },
            context: Some(context),
        })
    }
}

impl Read for ZstdReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let context = self.context.as_mut().expect("held until dropped");
        match &mut self.mode {
            Mode::Stream { rest, at_frame_end } => read_stream(context, rest, at_frame_end, out),
            Mode::Whole { compressed, limit } => {
                // Memory that is not written to is only an address.
                let mut plain = Vec::with_capacity(limit.saturating_add(1));
                context
                    .decompress(&mut plain, compressed)
                    .map_err(|code| match code {
                        NO_ROOM => io::Error::from(io::ErrorKind::FileTooLarge),
                        _ => corrupt(code),
                    })?;
                self.mode = Mode::Decompressed { plain, taken: 0 };
                self.read(out)
            }
            Mode::Decompressed { plain, taken } => {
                let bytes = out.len().min(plain.len() - *taken);
                out[..bytes].copy_from_slice(&plain[*taken..*taken + bytes]);
                *taken += bytes;
                Ok(bytes)
            }
        }
    }
}

fn read_stream(
    context: &mut DCtx<'static>,
    rest: &mut &[u8],
    at_frame_end: &mut bool,
    out: &mut [u8],
) -> io::Result<usize> {
    loop {
        if *at_frame_end && rest.is_empty() {
            return Ok(0);
        }
        let mut input = InBuffer::around(rest);
        let mut output = OutBuffer::around(&mut *out);
        let wanted = context
            .decompress_stream(&mut output, &mut input)
            .map_err(corrupt)?;
        let (taken, given) = (input.pos(), output.pos());
        *rest = &rest[taken..];
        *at_frame_end = wanted == 0;
        if given > 0 {
            return Ok(given);
        }
        if taken == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "zstd: incomplete frame",
            ));
        }
    }
}

impl Drop for ZstdReader<'_> {
    fn drop(&mut self) {
        if let Some(mut context) = self.context.take()
            && context.sizeof() <= POOLED_BYTES_MAX
            && context.reset(ResetDirective::SessionOnly).is_ok()
        {
            IDLE.set(Some(context));
        }
    }
}

/// The window that the first frame declares (RFC 8878, 3.1.1.1); `None` if it is no frame.
fn window_bytes(compressed: &[u8]) -> Option<u64> {
    let (magic, rest) = compressed.split_first_chunk()?;
    let (&descriptor, rest) = rest.split_first()?;
    if u32::from_le_bytes(*magic) != MAGIC {
        return None;
    }
    if descriptor & SINGLE_SEGMENT_BIT == 0 {
        let window = rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // One segment: the window is the content.
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = 1 << (descriptor >> 6);
    let field = rest.get(dictionary_bytes..dictionary_bytes + size_bytes)?;
    let mut size = [0; 8];
    size[..size_bytes].copy_from_slice(field);
    Some(u64::from_le_bytes(size))
}

/// Appends a frame of `plain`.
pub fn compress(plain: &[u8], level: i32, out: &mut Vec<u8>) {
    let range = zstd::compression_level_range();
    let level = level.clamp(*range.start(), *range.end());
    zstd::stream::copy_encode(plain, out, level).expect("writing to memory does not fail");
}

fn corrupt(code: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, get_error_name(code))
}

const MAGIC: u32 = 0xFD2F_B528;
const SINGLE_SEGMENT_BIT: u8 = 0x20;
/// What the Java client reads, and the window of level 22.
const WINDOW_LOG_MAX: u32 = 27;
/// 8 MiB: what decoders must support, and what levels up to 19 use.
const STREAM_WINDOW_LOG_MAX: u32 = 23;
/// A context beyond this is not kept for the next batch; a window of level 3, which is Kafka's default, fits.
const POOLED_BYTES_MAX: usize = 4 << 20;
/// `ZSTD_error_dstSize_tooSmall`, as functions return it.
const NO_ROOM: usize = 0usize.wrapping_sub(70);
