//! Walks the records of a batch without keeping any: every size, delta and count is checked, nothing is left over.
//! Owned by nobody, functions; the uncompressed walk is on the path of every produce request.
//! Always: after `Ok` the section holds exactly `count` records with offset deltas 0 to count-1; memory does not grow with it.
//! What timestamps and keys are acceptable is judged by `check`.

use std::io::Read;

use super::codec::{DecodeFault, Decoder};
use super::header::Compression;
use super::varint;

/// Why a records section is not what its header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A record does not add up. `record` counts from 0.
    Structure { record: u32, what: &'static str },
    /// The compressed bytes cannot be decoded.
    Undecodable(String),
    /// The decompressed records exceed the bounds of `base::limits`.
    TooLarge,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Structure { record, what } => write!(f, "record {record}: {what}"),
            Fault::Undecodable(why) => write!(f, "the records cannot be decompressed: {why}"),
            Fault::TooLarge => f.write_str("the decompressed records are too large"),
        }
    }
}

impl From<DecodeFault> for Fault {
    fn from(fault: DecodeFault) -> Fault {
        match fault {
            DecodeFault::Corrupt(why) => Fault::Undecodable(why),
            DecodeFault::TooLarge => Fault::TooLarge,
        }
    }
}

/// What a visitor is told of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    pub timestamp_delta: i64,
    /// -1 for null.
    pub key_bytes: i32,
    /// -1 for null.
    pub value_bytes: i32,
}

/// Walks a records section, whatever its codec, and shows every record to `visit`.
pub fn walk(
    compression: Compression,
    records: &[u8],
    count: u32,
    visit: impl FnMut(u32, Outline),
) -> Result<(), Fault> {
    match compression {
        Compression::None => walk_slice(records, count, visit),
        Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
            let window_bytes = (records.len() * 8).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
            let decoder = Decoder::new(compression, records)?;
            walk_stream(Stream::new(decoder, window_bytes), count, visit)
        }
    }
}

fn walk_slice(
    mut bytes: &[u8],
    count: u32,
    mut visit: impl FnMut(u32, Outline),
) -> Result<(), Fault> {
    for record in 0..count {
        let fault = |what| Fault::Structure { record, what };
        let Some(size) = varint::take_i32(&mut bytes) else {
            return Err(fault("the batch ends before its last record"));
        };
        let Some((body, rest)) = usize::try_from(size)
            .ok()
            .and_then(|size| bytes.split_at_checked(size))
        else {
            return Err(fault("size beyond the end of the batch"));
        };
        visit(record, walk_body(body, record).map_err(fault)?);
        bytes = rest;
    }
    if bytes.is_empty() {
        Ok(())
    } else {
        Err(Fault::Structure {
            record: count,
            what: "bytes left over behind the last record",
        })
    }
}

/// One record without its size, which must be used up exactly.
#[inline(always)]
fn walk_body(mut body: &[u8], record: u32) -> Result<Outline, &'static str> {
    // The attributes of a record mean nothing yet; Kafka takes any.
    body = body.get(1..).ok_or("cut")?;
    let timestamp_delta = varint::take_i64(&mut body).ok_or("bad timestamp delta")?;
    let offset_delta = varint::take_i32(&mut body).ok_or("bad offset delta")?;
    if offset_delta as u32 != record {
        return Err("offset delta is not its place in the batch");
    }
    let key_bytes = skip_nullable(&mut body).ok_or("bad key size")?;
    let value_bytes = skip_nullable(&mut body).ok_or("bad value size")?;
    if body != [0] {
        skip_headers(body)?;
    }
    Ok(Outline {
        timestamp_delta,
        key_bytes,
        value_bytes,
    })
}

/// Headers to the end of the record.
#[inline(never)]
fn skip_headers(mut body: &[u8]) -> Result<(), &'static str> {
    let count = varint::take_i32(&mut body).ok_or("bad header count")?;
    // Two bytes are the least a header takes: a count beyond that is refused before it is looped over.
    if count < 0 || count as usize > body.len() / 2 {
        return Err("header count beyond the end of the record");
    }
    for _ in 0..count {
        if skip_nullable(&mut body).ok_or("bad header key size")? < 0 {
            return Err("header key is null");
        }
        skip_nullable(&mut body).ok_or("bad header value size")?;
    }
    if body.is_empty() {
        Ok(())
    } else {
        Err("bytes left over in the record")
    }
}

/// A size (-1 for null) and as many bytes.
#[inline(always)]
fn skip_nullable(body: &mut &[u8]) -> Option<i32> {
    let size = varint::take_i32(body)?;
    match usize::try_from(size) {
        Ok(bytes) => *body = body.get(bytes..)?,
        Err(_) if size == -1 => {}
        Err(_) => return None,
    }
    Some(size)
}

/// The same over a decompressed stream, of which only a window is held: a bomb costs time, not memory.
fn walk_stream(
    mut stream: Stream<'_>,
    count: u32,
    mut visit: impl FnMut(u32, Outline),
) -> Result<(), Fault> {
    for record in 0..count {
        let fault = |what| Fault::Structure { record, what };
        stream.fill(VARINT_BYTES_MAX)?;
        let mut window = stream.window();
        let before = window.len();
        let Some(size) = varint::take_i32(&mut window) else {
            return Err(fault("the batch ends before its last record"));
        };
        stream.skip_held(before - window.len());
        let size = usize::try_from(size).map_err(|_| fault("size is negative"))?;
        let outline = if size <= stream.buffer.len() {
            stream.fill(size)?;
            let body = stream
                .window()
                .get(..size)
                .ok_or_else(|| fault("size beyond the end of the batch"))?;
            let outline = walk_body(body, record).map_err(fault)?;
            stream.skip_held(size);
            outline
        } else {
            LongBody {
                stream: &mut stream,
                left: size,
                record,
            }
            .walk()?
        };
        visit(record, outline);
    }
    stream.fill(1)?;
    if stream.window().is_empty() {
        Ok(())
    } else {
        Err(Fault::Structure {
            record: count,
            what: "bytes left over behind the last record",
        })
    }
}

/// A record larger than the window, field by field.
struct LongBody<'s, 'a> {
    stream: &'s mut Stream<'a>,
    left: usize,
    record: u32,
}

impl LongBody<'_, '_> {
    fn walk(mut self) -> Result<Outline, Fault> {
        self.skip(1, "cut")?;
        let timestamp_delta = self.number("bad timestamp delta", varint::take_i64)?;
        let offset_delta = self.number("bad offset delta", varint::take_i32)?;
        if offset_delta as u32 != self.record {
            return Err(self.fault("offset delta is not its place in the batch"));
        }
        let key_bytes = self.skip_nullable("bad key size")?;
        let value_bytes = self.skip_nullable("bad value size")?;
        let headers = self.number("bad header count", varint::take_i32)?;
        if headers < 0 || headers as usize > self.left / 2 {
            return Err(self.fault("header count beyond the end of the record"));
        }
        for _ in 0..headers {
            if self.skip_nullable("bad header key size")? < 0 {
                return Err(self.fault("header key is null"));
            }
            self.skip_nullable("bad header value size")?;
        }
        if self.left > 0 {
            return Err(self.fault("bytes left over in the record"));
        }
        Ok(Outline {
            timestamp_delta,
            key_bytes,
            value_bytes,
        })
    }

    fn fault(&self, what: &'static str) -> Fault {
        Fault::Structure {
            record: self.record,
            what,
        }
    }

    fn number<T>(
        &mut self,
        what: &'static str,
        take: impl Fn(&mut &[u8]) -> Option<T>,
    ) -> Result<T, Fault> {
        self.stream.fill(VARINT_BYTES_MAX)?;
        let window = self.stream.window();
        let mut rest = &window[..window.len().min(self.left)];
        let before = rest.len();
        let value = take(&mut rest).ok_or_else(|| self.fault(what))?;
        let used = before - rest.len();
        self.left -= used;
        self.stream.skip_held(used);
        Ok(value)
    }

    fn skip_nullable(&mut self, what: &'static str) -> Result<i32, Fault> {
        let size = self.number(what, varint::take_i32)?;
        match usize::try_from(size) {
            Ok(bytes) => self.skip(bytes, what)?,
            Err(_) if size == -1 => {}
            Err(_) => return Err(self.fault(what)),
        }
        Ok(size)
    }

    fn skip(&mut self, bytes: usize, what: &'static str) -> Result<(), Fault> {
        if bytes > self.left {
            return Err(self.fault(what));
        }
        self.left -= bytes;
        let mut to_skip = bytes;
        while to_skip > 0 {
            self.stream.fill(1)?;
            let held = self.stream.window().len().min(to_skip);
            if held == 0 {
                return Err(self.fault("size beyond the end of the batch"));
            }
            self.stream.skip_held(held);
            to_skip -= held;
        }
        Ok(())
    }
}

/// A decoder with a window of its output.
struct Stream<'a> {
    decoder: Decoder<'a>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<'a> Stream<'a> {
    fn new(decoder: Decoder<'a>, window_bytes: usize) -> Stream<'a> {
        Stream {
            decoder,
            buffer: vec![0; window_bytes],
            start: 0,
            end: 0,
        }
    }

    /// The bytes held and not yet skipped.
    fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn skip_held(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(
            self.start <= self.end,
            "skipped to {} of {} held bytes",
            self.start,
            self.end
        );
    }

    /// Holds at least `bytes` (at most the window's), fewer only at the end of the stream.
    fn fill(&mut self, bytes: usize) -> Result<(), Fault> {
        if self.end - self.start >= bytes {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < bytes {
            match self.decoder.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) => return Err(self.decoder.fault(error).into()),
            }
        }
        Ok(())
    }
}

/// Decompressed bytes held at a time: fewer for a small batch, which should not pay for a large one's.
const WINDOW_BYTES_MIN: usize = 2 << 10;
const WINDOW_BYTES_MAX: usize = 64 << 10;
const VARINT_BYTES_MAX: usize = 10;
