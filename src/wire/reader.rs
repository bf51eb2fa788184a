//! Reads the primitives of the protocol from one frame; every length and count is checked before anything is allocated.
//! Owned by whoever decodes the frame, for as long as that takes.
//! Always: never reads past the frame, allocates no more than the bytes that are there and the element budget justify.
//! Which fields follow each other is said by the declarations under `messages`.

use bytes::Bytes;

use super::error::{DecodeError, DecodeReason};
use super::text::{STRING_BYTES_MAX, Str};
use crate::base::{Uuid, limits};

/// A position in a frame. Strings and blobs it gives out share the frame's memory.
#[derive(Clone, Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    /// Nothing is read from here on: the end of the frame, or of the tagged field that is being read.
    end: usize,
    /// Array elements that may still be read.
    elements_left: usize,
}

type Result<T> = std::result::Result<T, DecodeError>;

impl Reader {
    pub fn new(frame: Bytes) -> Reader {
        Reader {
            position: 0,
            end: frame.len(),
            elements_left: limits::REQUEST_ELEMENTS_MAX,
            frame,
        }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// Refuses bytes after the last field.
    pub fn finish(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(DecodeError::new(DecodeReason::TrailingBytes { count })),
        }
    }

    fn check(&self, needed: u64) -> Result<()> {
        let left = self.remaining();
        if needed > left as u64 {
            return Err(DecodeError::new(DecodeReason::Truncated { needed, left }));
        }
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.check(N as u64)?;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.frame[self.position..self.position + N]);
        self.position += N;
        Ok(bytes)
    }

    /// The next `length` bytes, shared with the frame.
    pub fn slice(&mut self, length: usize) -> Result<Bytes> {
        self.check(length as u64)?;
        let slice = self.frame.slice(self.position..self.position + length);
        self.position += length;
        Ok(slice)
    }

    pub fn skip(&mut self, length: usize) -> Result<()> {
        self.check(length as u64)?;
        self.position += length;
        Ok(())
    }

    pub fn i8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.take()?))
    }

    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.take()?))
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.take()?))
    }

    /// Any byte but 0 is true, as in Kafka.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.i8()? != 0)
    }

    pub fn uuid(&mut self) -> Result<Uuid> {
        Ok(Uuid(self.take()?))
    }

    /// An unsigned varint of at most 5 bytes; padded encodings are read, as in Kafka.
    pub fn uvarint(&mut self) -> Result<u32> {
        let value = self.uvarint_bytes(5)?;
        u32::try_from(value).map_err(|_| DecodeError::new(DecodeReason::Varint))
    }

    /// An unsigned varint of at most 10 bytes.
    pub fn uvarlong(&mut self) -> Result<u64> {
        self.uvarint_bytes(10)
    }

    /// A zigzag varint of at most 5 bytes.
    pub fn varint(&mut self) -> Result<i32> {
        let raw = self.uvarint()?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// A zigzag varint of at most 10 bytes.
    pub fn varlong(&mut self) -> Result<i64> {
        let raw = self.uvarlong()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn uvarint_bytes(&mut self, bytes_max: u32) -> Result<u64> {
        let mut value: u64 = 0;
        for index in 0..bytes_max {
            let [byte] = self.take()?;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index;
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::new(DecodeReason::Varint))
    }

    /// The length in front of a string; `None` is null.
    pub fn string_length(&mut self, flexible: bool) -> Result<Option<usize>> {
        if flexible {
            self.compact_length()
        } else {
            let length = self.i16()?;
            length_or_null(i32::from(length))
        }
    }

    /// The length in front of bytes or records, or the count in front of an array; `None` is null.
    pub fn bytes_length(&mut self, flexible: bool) -> Result<Option<usize>> {
        if flexible {
            self.compact_length()
        } else {
            let length = self.i32()?;
            length_or_null(length)
        }
    }

    fn compact_length(&mut self) -> Result<Option<usize>> {
        Ok((self.uvarint()? as usize).checked_sub(1))
    }

    /// A string of at most [`STRING_BYTES_MAX`] bytes, also where its length has room for more (as in Kafka).
    pub fn string(&mut self, flexible: bool) -> Result<Option<Str>> {
        match self.string_length(flexible)? {
            None => Ok(None),
            Some(length) if length > STRING_BYTES_MAX => {
                Err(DecodeError::new(DecodeReason::StringTooLong { length }))
            }
            Some(length) => match Str::read(self.slice(length)?) {
                Ok(text) => Ok(Some(text)),
                Err(length) => Err(DecodeError::new(DecodeReason::StringTooLong { length })),
            },
        }
    }

    pub fn bytes(&mut self, flexible: bool) -> Result<Option<Bytes>> {
        match self.bytes_length(flexible)? {
            None => Ok(None),
            Some(length) => Ok(Some(self.slice(length)?)),
        }
    }

    /// The count in front of an array of elements that take at least `element_bytes_min` bytes each; `None` is null.
    /// The count is taken off the element budget of the frame.
    pub fn array_count(
        &mut self,
        flexible: bool,
        element_bytes_min: usize,
    ) -> Result<Option<usize>> {
        let Some(count) = self.bytes_length(flexible)? else {
            return Ok(None);
        };
        self.check((count as u64).saturating_mul(element_bytes_min.max(1) as u64))?;
        match self.elements_left.checked_sub(count) {
            Some(left) => self.elements_left = left,
            None => {
                return Err(DecodeError::new(DecodeReason::TooManyElements {
                    count: count as u64,
                    left: self.elements_left,
                }));
            }
        }
        Ok(Some(count))
    }

    /// The tagged fields at the end of a structure. `known` reads the field of a tag it knows and says so; a tag it
    /// doesn't know is skipped. Tags must ascend, and a known field must use its size exactly.
    pub fn tagged_fields(
        &mut self,
        mut known: impl FnMut(u32, &mut Reader) -> Result<bool>,
    ) -> Result<()> {
        let count = self.uvarint()?;
        let mut next_tag: u64 = 0;
        for _ in 0..count {
            let tag = self.uvarint()?;
            if u64::from(tag) < next_tag {
                return Err(DecodeError::new(DecodeReason::TagOrder { tag }));
            }
            next_tag = u64::from(tag) + 1;
            let size = self.uvarint()? as usize;
            self.check(size as u64)?;
            let outer_end = self.end;
            let field_end = self.position + size;
            self.end = field_end;
            if known(tag, self)? {
                let left = self.remaining();
                if left > 0 {
                    return Err(DecodeError::new(DecodeReason::TagSize { tag, left }));
                }
            }
            self.position = field_end;
            self.end = outer_end;
        }
        Ok(())
    }
}

pub(super) fn length_or_null(length: i32) -> Result<Option<usize>> {
    match length {
        -1 => Ok(None),
        0.. => Ok(Some(length as usize)),
        _ => Err(DecodeError::new(DecodeReason::NegativeLength { length })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader {
        Reader::new(Bytes::copy_from_slice(bytes))
    }

    fn reason<T: std::fmt::Debug>(result: Result<T>) -> DecodeReason {
        result.expect_err("must be refused").reason
    }

    #[test]
    fn varints_read_as_kafkas() {
        // Golden: org.apache.kafka.common.utils.ByteUtils.
        assert_eq!(reader(&[0xac, 0x02]).uvarint(), Ok(300));
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).uvarint(),
            Ok(u32::MAX)
        );
        assert_eq!(reader(&[0x01]).varint(), Ok(-1));
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint(),
            Ok(i32::MIN)
        );
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).varlong(),
            Ok(i64::MIN)
        );
        assert_eq!(
            reader(&[0x80, 0x00]).uvarint(),
            Ok(0),
            "padding is harmless"
        );
    }

    #[test]
    fn varints_that_are_too_long_or_too_large_are_refused() {
        let six = [0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(reason(reader(&six).uvarint()), DecodeReason::Varint);
        let above_32_bits = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert_eq!(
            reason(reader(&above_32_bits).uvarint()),
            DecodeReason::Varint
        );
        let above_64_bits = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(
            reason(reader(&above_64_bits).uvarlong()),
            DecodeReason::Varint
        );
        let eleven = [0x80; 11];
        assert_eq!(reason(reader(&eleven).uvarlong()), DecodeReason::Varint);
        assert!(matches!(
            reason(reader(&[0x80, 0x80]).uvarint()),
            DecodeReason::Truncated { .. }
        ));
    }

    #[test]
    fn hostile_lengths_are_refused_before_anything_is_allocated() {
        // -2 is neither a length nor null.
        assert_eq!(
            reason(reader(&[0xff, 0xfe]).string(false)),
            DecodeReason::NegativeLength { length: -2 }
        );
        assert_eq!(
            reason(reader(&[0xff, 0xff, 0xff, 0xfe]).array_count(false, 1)),
            DecodeReason::NegativeLength { length: -2 }
        );
        // 2^31 - 1 elements, strings and blobs in an otherwise empty frame.
        let max = [0x7f, 0xff, 0xff, 0xff];
        assert!(matches!(
            reason(reader(&max).array_count(false, 1)),
            DecodeReason::Truncated { .. }
        ));
        assert!(matches!(
            reason(reader(&max).bytes(false)),
            DecodeReason::Truncated { .. }
        ));
        let compact_max = [0xff, 0xff, 0xff, 0xff, 0x0f];
        assert!(matches!(
            reason(reader(&compact_max).array_count(true, 1)),
            DecodeReason::Truncated { .. }
        ));
        assert_eq!(
            reason(reader(&compact_max).string(true)),
            DecodeReason::StringTooLong {
                length: u32::MAX as usize - 1
            }
        );
        let past_the_end = [0xff, 0x01];
        assert!(matches!(
            reason(reader(&past_the_end).string(true)),
            DecodeReason::Truncated { .. }
        ));
        // 3 elements of 4 bytes don't fit in 11 bytes.
        let mut short = vec![4];
        short.extend([0; 11]);
        assert!(matches!(
            reason(reader(&short).array_count(true, 4)),
            DecodeReason::Truncated {
                needed: 12,
                left: 11
            }
        ));
    }

    #[test]
    fn elements_of_all_arrays_share_one_budget() {
        let half = limits::REQUEST_ELEMENTS_MAX as i32 / 2 + 1;
        let mut bytes = Vec::new();
        for _ in 0..2 {
            bytes.extend(half.to_be_bytes());
            bytes.resize(bytes.len() + half as usize, 0);
        }
        let mut reader = Reader::new(Bytes::from(bytes));
        assert_eq!(reader.array_count(false, 1), Ok(Some(half as usize)));
        reader.skip(half as usize).expect("the elements are there");
        assert!(matches!(
            reason(reader.array_count(false, 1)),
            DecodeReason::TooManyElements { .. }
        ));
    }

    #[test]
    fn tagged_fields_are_bounded_and_ordered() {
        let skip = |_: u32, _: &mut Reader| Ok(false);
        // Two unknown tags are skipped.
        let mut two = reader(&[2, 0, 1, 0xaa, 5, 0, 0x77]);
        two.tagged_fields(skip).expect("well formed");
        assert_eq!(two.i8(), Ok(0x77));
        // The same tag twice, and a lower one after a higher.
        let twice = reader(&[2, 3, 0, 3, 0]).tagged_fields(skip);
        assert_eq!(reason(twice), DecodeReason::TagOrder { tag: 3 });
        let falling = reader(&[2, 3, 0, 1, 0]).tagged_fields(skip);
        assert_eq!(reason(falling), DecodeReason::TagOrder { tag: 1 });
        // A size beyond the frame.
        let huge = reader(&[1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]).tagged_fields(skip);
        assert!(matches!(reason(huge), DecodeReason::Truncated { .. }));
        // A million tags claimed by six bytes end at the end of the frame.
        let million = reader(&[0xc0, 0x84, 0x3d, 0, 0, 1]).tagged_fields(skip);
        assert!(matches!(reason(million), DecodeReason::Truncated { .. }));
        // A known field that leaves some of its bytes, and one that wants more than its size.
        let read_i16 = |_: u32, r: &mut Reader| r.i16().map(|_| true);
        let leaves = reader(&[1, 0, 3, 0, 0, 0]).tagged_fields(read_i16);
        assert_eq!(reason(leaves), DecodeReason::TagSize { tag: 0, left: 1 });
        let wants = reader(&[1, 0, 1, 0, 0, 0]).tagged_fields(read_i16);
        assert_eq!(
            reason(wants),
            DecodeReason::Truncated { needed: 2, left: 1 }
        );
    }

    #[test]
    fn bytes_after_the_end_are_refused() {
        let mut rest = reader(&[0, 1, 9]);
        rest.i16().expect("two bytes are there");
        assert_eq!(
            reason(rest.finish()),
            DecodeReason::TrailingBytes { count: 1 }
        );
    }
}
