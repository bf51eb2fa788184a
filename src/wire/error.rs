//! Why bytes are not a message, and why a message can't be written.
//! Owned by nobody, plain values.
//! Always: names the field (`Struct.field`) where it went wrong, if it was inside one.
//! What follows (close the connection) is decided by the caller.

use std::fmt;

/// The bytes are not the message they claim to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// `Struct.field`, empty when the fault is in no field.
    pub field: &'static str,
    pub reason: DecodeReason,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeReason {
    /// More bytes are needed than are left.
    Truncated { needed: u64, left: usize },
    /// A varint is longer than its type can fill, or its value larger.
    Varint,
    /// A length or count below -1.
    NegativeLength { length: i32 },
    /// More bytes than a string may have.
    StringTooLong { length: usize },
    /// Null where this version allows none.
    Null,
    /// More array elements than one request may have.
    TooManyElements { count: u64, left: usize },
    /// Tags are not in strictly ascending order.
    TagOrder { tag: u32 },
    /// A tagged field did not use all of its declared size.
    TagSize { tag: u32, left: usize },
    /// Bytes follow the last field.
    TrailingBytes { count: usize },
    /// The message has no such version.
    Version { version: i16 },
}

impl DecodeError {
    pub(crate) fn new(reason: DecodeReason) -> DecodeError {
        DecodeError { field: "", reason }
    }

    /// Names the field, unless one further in was named already.
    pub(crate) fn within(self, field: &'static str) -> DecodeError {
        if self.field.is_empty() {
            DecodeError { field, ..self }
        } else {
            self
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        match self.reason {
            DecodeReason::Truncated { needed, left } => {
                write!(f, "{needed} bytes needed, {left} left")
            }
            DecodeReason::Varint => f.write_str("varint is too long or too large"),
            DecodeReason::NegativeLength { length } => write!(f, "length {length}"),
            DecodeReason::StringTooLong { length } => write!(f, "a string of {length} bytes"),
            DecodeReason::Null => f.write_str("null where none is allowed"),
            DecodeReason::TooManyElements { count, left } => {
                write!(f, "{count} array elements, {left} more are allowed")
            }
            DecodeReason::TagOrder { tag } => write!(f, "tag {tag} is out of order"),
            DecodeReason::TagSize { tag, left } => {
                write!(f, "tag {tag} has {left} bytes too many")
            }
            DecodeReason::TrailingBytes { count } => write!(f, "{count} bytes after the end"),
            DecodeReason::Version { version } => write!(f, "version {version} does not exist"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// The message has no form in this version; a defect of whoever filled it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodeError {
    /// `Struct.field`, empty when the fault is in no field.
    pub field: &'static str,
    pub version: i16,
    pub reason: EncodeReason,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodeReason {
    /// Null where this version allows none.
    Null,
    /// The field has a value, the version has no such field, and it may not be left out.
    Unsupported,
    /// Text or bytes longer than their length field can say.
    TooLong { length: usize },
    /// The message has no such version.
    Version,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at version {}: ", self.field, self.version)?;
        match self.reason {
            EncodeReason::Null => f.write_str("null is not allowed"),
            EncodeReason::Unsupported => f.write_str("the version has no such field"),
            EncodeReason::TooLong { length } => write!(f, "{length} bytes are too long"),
            EncodeReason::Version => f.write_str("no such version"),
        }
    }
}

impl std::error::Error for EncodeError {}
