//! Zstandard frames, one after the other until the section ends.
//! A reader borrows the compressed bytes; its context goes back to the thread it was taken from.
//! Always: a frame that is not whole is corrupt; a context that grew beyond `POOLED_BYTES_MAX` is not kept.
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
    rest: &'a [u8],
    /// `None` only while it is dropped.
    context: Option<DCtx<'static>>,
    /// Nothing is missing: the last frame came out whole.
    at_frame_end: bool,
}

impl<'a> ZstdReader<'a> {
    pub fn new(compressed: &'a [u8]) -> io::Result<ZstdReader<'a>> {
        let context = match IDLE.take() {
            Some(context) => context,
            None => {
                let mut context = DCtx::create();
                context
                    .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
                    .map_err(corrupt)?;
                context
            }
        };
        Ok(ZstdReader {
            rest: compressed,
            context: Some(context),
            at_frame_end: false,
        })
    }
}

impl Read for ZstdReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let context = self.context.as_mut().expect("held until dropped");
        loop {
            if self.at_frame_end && self.rest.is_empty() {
                return Ok(0);
            }
            let mut input = InBuffer::around(self.rest);
            let mut output = OutBuffer::around(&mut *out);
            let wanted = context
                .decompress_stream(&mut output, &mut input)
                .map_err(corrupt)?;
            let (taken, given) = (input.pos(), output.pos());
            self.rest = &self.rest[taken..];
            self.at_frame_end = wanted == 0;
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
}

impl Drop for ZstdReader<'_> {
    fn drop(&mut self) {
        let Some(mut context) = self.context.take() else {
            return;
        };
        if context.sizeof() <= POOLED_BYTES_MAX
            && context.reset(ResetDirective::SessionOnly).is_ok()
        {
            IDLE.set(Some(context));
        }
    }
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

/// Level 22 without a known size declares a window of 2^27 bytes, and Kafka reads that. The memory is asked for but only
/// touched as far as bytes come out, which `decompressed_limit` bounds.
const WINDOW_LOG_MAX: u32 = 27;
/// A window of level 3, which is Kafka's default, fits.
const POOLED_BYTES_MAX: usize = 4 << 20;
