//! A whole message: a declared structure with versions of its own.
//! Owned by nobody.
//! Always: `decode` takes all the bytes that are left or refuses.
//! Which version is spoken is decided by the header, or by the prefix of a record.

use bytes::Bytes;

use super::error::{DecodeError, DecodeReason, EncodeError, EncodeReason};
use super::field::{Field, Form};
use super::reader::Reader;
use super::schema::MessageSchema;
use super::writer::Writer;

/// Implemented by `wire_message!`.
pub trait Message: Field + Default {
    const SCHEMA: MessageSchema;

    /// Reads the rest of `reader` as this message.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let message = Self::decode_prefix(reader, version)?;
        reader
            .finish()
            .map_err(|error| error.within(Self::SCHEMA.name))?;
        Ok(message)
    }

    /// Reads this message from the start of `reader` and leaves what follows it (a header before its body).
    fn decode_prefix(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        match Self::form(version) {
            Some(form) => Self::read(reader, form),
            None => Err(DecodeError {
                field: Self::SCHEMA.name,
                reason: DecodeReason::Version { version },
            }),
        }
    }

    /// Reads all of `bytes` as this message.
    fn decode_bytes(bytes: Bytes, version: i16) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(bytes), version)
    }

    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        match Self::form(version) {
            Some(form) => self.write(writer, form),
            None => Err(EncodeError {
                field: Self::SCHEMA.name,
                version,
                reason: EncodeReason::Version,
            }),
        }
    }

    /// This message alone in memory of its own.
    fn encode_bytes(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut writer = Writer::new();
        self.encode(&mut writer, version)?;
        Ok(writer.into_bytes())
    }

    /// How the fields of this version are encoded, if there is such a version.
    fn form(version: i16) -> Option<Form> {
        let exists = Self::SCHEMA.versions.contains(version);
        exists.then(|| Form {
            version,
            flexible: Self::SCHEMA.flexible.contains(version),
            nullable: false,
        })
    }
}
