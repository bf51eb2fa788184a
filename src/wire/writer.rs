//! Writes the primitives of the protocol into a growing buffer.
//! Owned by whoever encodes one message or frame.
//! Always: lengths are the true ones; a length that its field can't say is an `EncodeError`.
//! Records that lie elsewhere leave a gap: sending them in its place is the sender's.

use bytes::{BufMut, Bytes, BytesMut};

use super::error::{EncodeError, EncodeReason};
use crate::base::Uuid;

/// A place in the written bytes where records belong that are not in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The records belong in front of this byte of the buffer.
    pub at: usize,
    /// How many bytes they are.
    pub bytes: usize,
}

/// A whole frame, its size in front. With gaps, the bytes of each gap are sent in their place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub bytes: Bytes,
    /// In ascending order of `at`.
    pub gaps: Vec<Gap>,
}

#[derive(Debug, Default)]
pub struct Writer {
    buffer: BytesMut,
    gaps: Vec<Gap>,
    /// A value that the version has no field for is left out instead of refused.
    pub(super) leaves_out: bool,
}

impl Writer {
    pub fn new() -> Writer {
        Writer::default()
    }

    /// For responses: what the asker's version has no room for it can't miss.
    pub(super) fn leaving_out(mut self) -> Writer {
        self.leaves_out = true;
        self
    }

    /// A writer that begins with room for a frame's size; ends with [`finish_frame`](Writer::finish_frame).
    pub fn new_frame() -> Writer {
        let mut writer = Writer::default();
        writer.i32(0);
        writer
    }

    /// Fills in the size of the frame, gaps included. Errors: the frame is larger than the protocol can say.
    pub fn finish_frame(mut self) -> Result<Frame, EncodeError> {
        let gap_bytes: usize = self.gaps.iter().map(|gap| gap.bytes).sum();
        let size = self.buffer.len() - 4 + gap_bytes;
        match i32::try_from(size) {
            Ok(size) => self.buffer[..4].copy_from_slice(&size.to_be_bytes()),
            Err(_) => return Err(too_long(size)),
        }
        Ok(Frame {
            bytes: self.buffer.freeze(),
            gaps: self.gaps,
        })
    }

    /// What was written. Panics if there are gaps: they would be lost.
    pub fn into_bytes(self) -> Bytes {
        assert!(
            self.gaps.is_empty(),
            "{} gaps would be lost",
            self.gaps.len()
        );
        self.buffer.freeze()
    }

    /// Bytes written so far, gaps not counted.
    pub fn position(&self) -> usize {
        self.buffer.len()
    }

    pub fn i8(&mut self, value: i8) {
        self.buffer.put_i8(value);
    }

    pub fn i16(&mut self, value: i16) {
        self.buffer.put_i16(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.buffer.put_u16(value);
    }

    pub fn i32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.buffer.put_u32(value);
    }

    pub fn i64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    pub fn f64(&mut self, value: f64) {
        self.buffer.put_f64(value);
    }

    pub fn bool(&mut self, value: bool) {
        self.buffer.put_u8(u8::from(value));
    }

    pub fn uuid(&mut self, value: Uuid) {
        self.buffer.put_slice(&value.0);
    }

    pub fn slice(&mut self, bytes: &[u8]) {
        self.buffer.put_slice(bytes);
    }

    pub fn uvarint(&mut self, value: u32) {
        self.uvarlong(u64::from(value));
    }

    pub fn uvarlong(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.buffer.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.put_u8(value as u8);
    }

    /// Zigzag.
    pub fn varint(&mut self, value: i32) {
        self.uvarint((value << 1 ^ value >> 31) as u32);
    }

    /// Zigzag.
    pub fn varlong(&mut self, value: i64) {
        self.uvarlong((value << 1 ^ value >> 63) as u64);
    }

    /// The length in front of a string, at most `STRING_BYTES_MAX` in either form; `None` is null.
    pub fn string_length(
        &mut self,
        length: Option<usize>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        let Some(length) = length else {
            if flexible {
                self.uvarint(0);
            } else {
                self.i16(-1);
            }
            return Ok(());
        };
        match i16::try_from(length) {
            Ok(_) if flexible => self.uvarint(length as u32 + 1),
            Ok(length) => self.i16(length),
            Err(_) => return Err(too_long(length)),
        }
        Ok(())
    }

    /// The length in front of bytes or records, or the count in front of an array; `None` is null.
    pub fn bytes_length(
        &mut self,
        length: Option<usize>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        if flexible {
            return self.compact_length(length);
        }
        match length {
            None => self.i32(-1),
            Some(length) => match i32::try_from(length) {
                Ok(length) => self.i32(length),
                Err(_) => return Err(too_long(length)),
            },
        }
        Ok(())
    }

    fn compact_length(&mut self, length: Option<usize>) -> Result<(), EncodeError> {
        match length {
            None => self.uvarint(0),
            Some(length) => match i32::try_from(length) {
                Ok(length) => self.uvarint(length as u32 + 1),
                Err(_) => return Err(too_long(length)),
            },
        }
        Ok(())
    }

    /// Leaves a gap here for records that are sent from elsewhere.
    pub fn gap(&mut self, bytes: usize) {
        if bytes > 0 {
            self.gaps.push(Gap {
                at: self.buffer.len(),
                bytes,
            });
        }
    }

    /// One tagged field: tag, size, value. Panics on a gap inside: its size would be wrong.
    pub fn tagged_field(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut value = Writer::new();
        write(&mut value)?;
        let value = value.into_bytes();
        let size = u32::try_from(value.len()).map_err(|_| too_long(value.len()))?;
        self.uvarint(tag);
        self.uvarint(size);
        self.slice(&value);
        Ok(())
    }
}

fn too_long(length: usize) -> EncodeError {
    EncodeError {
        field: "",
        version: -1,
        reason: EncodeReason::TooLong { length },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reader;

    #[test]
    fn varints_are_read_back() {
        let mut writer = Writer::new();
        let values = [0, 1, -1, 63, 64, -65, i32::MAX, i32::MIN];
        for value in values {
            writer.varint(value);
            writer.varlong(i64::from(value) << 31);
            writer.uvarint(value as u32);
        }
        let mut reader = Reader::new(writer.into_bytes());
        for value in values {
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.varlong(), Ok(i64::from(value) << 31));
            assert_eq!(reader.uvarint(), Ok(value as u32));
        }
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn a_string_longer_than_its_length_field_is_refused() {
        for flexible in [false, true] {
            let error = Writer::new().string_length(Some(32_768), flexible);
            assert!(matches!(
                error,
                Err(EncodeError {
                    reason: EncodeReason::TooLong { length: 32_768 },
                    ..
                })
            ));
        }
    }

    #[test]
    fn the_size_of_a_frame_counts_its_gaps() {
        let mut writer = Writer::new_frame();
        writer.i16(7);
        writer.gap(1000);
        writer.i8(1);
        let frame = writer.finish_frame().expect("it is small");
        assert_eq!(frame.bytes[..], [0, 0, 3, 235, 0, 7, 1]);
        assert_eq!(frame.gaps, [Gap { at: 6, bytes: 1000 }]);
    }

    #[test]
    fn a_frame_that_is_larger_than_the_protocol_can_say_is_refused() {
        for (bytes, fits) in [(i32::MAX as usize, true), (i32::MAX as usize + 1, false)] {
            let mut writer = Writer::new_frame();
            writer.gap(bytes);
            assert_eq!(writer.finish_frame().is_ok(), fits, "{bytes} bytes");
        }
    }
}
