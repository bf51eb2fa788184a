//! How each type of field is read and written: one trait, implemented for the primitives here and for every declared
//! structure by `wire_message!`.
//! Owned by nobody.
//! Always: what `write` writes, `read` reads back in the same form.
//! Lengths are checked by `Reader`.

use bytes::Bytes;

use super::error::{DecodeError, DecodeReason, EncodeError, EncodeReason};
use super::reader::Reader;
use super::schema::{Rules, TypeSchema};
use super::text::Str;
use super::writer::Writer;
use crate::base::Uuid;

/// The form of a value: what of its version matters to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    pub version: i16,
    /// Compact lengths and tagged fields (KIP-482).
    pub flexible: bool,
    /// Null is allowed; a structure then has a byte in front that says which it is.
    pub nullable: bool,
}

impl Form {
    fn not_null(self) -> Form {
        Form {
            nullable: false,
            ..self
        }
    }
}

/// A type that a field can have.
pub trait Field: Sized + PartialEq {
    const TYPE: TypeSchema;

    /// The value of an absent field that declares no default (Kafka: zero, empty).
    fn absent() -> Self;

    /// The fewest bytes a value takes in this form.
    fn bytes_min(form: Form) -> usize;

    fn read(reader: &mut Reader, form: Form) -> Result<Self, DecodeError>;

    fn write(&self, writer: &mut Writer, form: Form) -> Result<(), EncodeError>;
}

/// A type whose values can be null, in a field of type `Option<T>`.
pub trait Nullable: Field {
    fn read_nullable(reader: &mut Reader, form: Form) -> Result<Option<Self>, DecodeError>;

    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        form: Form,
    ) -> Result<(), EncodeError>;
}

impl<T: Nullable> Field for Option<T> {
    const TYPE: TypeSchema = T::TYPE;

    fn absent() -> Self {
        Some(T::absent())
    }

    fn bytes_min(form: Form) -> usize {
        // Null is the shortest: one byte for a structure and for a compact length.
        T::bytes_min(form).min(if form.nullable { 1 } else { usize::MAX })
    }

    fn read(reader: &mut Reader, form: Form) -> Result<Self, DecodeError> {
        let value = T::read_nullable(reader, form)?;
        if value.is_none() && !form.nullable {
            return Err(DecodeError::new(DecodeReason::Null));
        }
        Ok(value)
    }

    fn write(&self, writer: &mut Writer, form: Form) -> Result<(), EncodeError> {
        if self.is_none() && !form.nullable {
            return Err(EncodeError {
                field: "",
                version: form.version,
                reason: EncodeReason::Null,
            });
        }
        T::write_nullable(self.as_ref(), writer, form)
    }
}

macro_rules! fixed_size {
    ($($type:ty, $schema:ident, $method:ident, $bytes:literal;)*) => {$(
        impl Field for $type {
            const TYPE: TypeSchema = TypeSchema::$schema;

            fn absent() -> Self {
                <$type>::default()
            }

            fn bytes_min(_: Form) -> usize {
                $bytes
            }

            fn read(reader: &mut Reader, _: Form) -> Result<Self, DecodeError> {
                reader.$method()
            }

            fn write(&self, writer: &mut Writer, _: Form) -> Result<(), EncodeError> {
                writer.$method(*self);
                Ok(())
            }
        }
    )*};
}
fixed_size! {
    bool, Bool, bool, 1;
    i8, Int8, i8, 1;
    i16, Int16, i16, 2;
    u16, Uint16, u16, 2;
    i32, Int32, i32, 4;
    u32, Uint32, u32, 4;
    i64, Int64, i64, 8;
    f64, Float64, f64, 8;
    Uuid, Uuid, uuid, 16;
}

/// A type that writes null by itself, as a length of -1, reads and writes as its `Option` where null is refused.
macro_rules! null_by_length {
    ($([$($generic:tt)*] $type:ty, $schema:expr, $absent:expr, $bytes_min:expr;)*) => {$(
        impl $($generic)* Field for $type {
            const TYPE: TypeSchema = $schema;

            fn absent() -> Self {
                $absent
            }

            fn bytes_min(form: Form) -> usize {
                if form.flexible { 1 } else { $bytes_min }
            }

            fn read(reader: &mut Reader, form: Form) -> Result<Self, DecodeError> {
                match Self::read_nullable(reader, form)? {
                    Some(value) => Ok(value),
                    None => Err(DecodeError::new(DecodeReason::Null)),
                }
            }

            fn write(&self, writer: &mut Writer, form: Form) -> Result<(), EncodeError> {
                Self::write_nullable(Some(self), writer, form)
            }
        }
    )*};
}
null_by_length! {
    [] Str, TypeSchema::String, Str::default(), 2;
    [] Bytes, TypeSchema::Bytes, Bytes::new(), 4;
    [<T: Field>] Vec<T>, TypeSchema::Array(&T::TYPE), Vec::new(), 4;
}

impl Nullable for Str {
    fn read_nullable(reader: &mut Reader, form: Form) -> Result<Option<Self>, DecodeError> {
        reader.string(form.flexible)
    }

    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        form: Form,
    ) -> Result<(), EncodeError> {
        writer.string_length(value.map(|text| text.len()), form.flexible)?;
        if let Some(text) = value {
            writer.slice(text.as_bytes());
        }
        Ok(())
    }
}

impl Nullable for Bytes {
    fn read_nullable(reader: &mut Reader, form: Form) -> Result<Option<Self>, DecodeError> {
        reader.bytes(form.flexible)
    }

    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        form: Form,
    ) -> Result<(), EncodeError> {
        writer.bytes_length(value.map(Bytes::len), form.flexible)?;
        if let Some(bytes) = value {
            writer.slice(bytes);
        }
        Ok(())
    }
}

impl<T: Field> Nullable for Vec<T> {
    fn read_nullable(reader: &mut Reader, form: Form) -> Result<Option<Self>, DecodeError> {
        let form = form.not_null();
        let Some(count) = reader.array_count(form.flexible, T::bytes_min(form))? else {
            return Ok(None);
        };
        // Grows with what is really read: an element can be far larger in memory than in the frame.
        let mut values = Vec::with_capacity(count.min(ELEMENTS_AT_ONCE));
        for _ in 0..count {
            values.push(T::read(reader, form)?);
        }
        Ok(Some(values))
    }

    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        form: Form,
    ) -> Result<(), EncodeError> {
        let form = form.not_null();
        writer.bytes_length(value.map(Vec::len), form.flexible)?;
        for element in value.into_iter().flatten() {
            element.write(writer, form)?;
        }
        Ok(())
    }
}

const ELEMENTS_AT_ONCE: usize = 8;

/// Record batches in a message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Records {
    #[default]
    Null,
    /// In the frame, or copied into it.
    Bytes(Bytes),
    /// Not here: encoding leaves a [`Gap`](super::Gap) of this many bytes for the sender to fill. Never decoded.
    Elsewhere { bytes: usize },
}

impl Records {
    /// The batches if they are here.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Records::Bytes(bytes) => Some(bytes),
            Records::Null | Records::Elsewhere { .. } => None,
        }
    }

    /// Size on the wire; 0 for null.
    pub fn len(&self) -> usize {
        match self {
            Records::Null => 0,
            Records::Bytes(bytes) => bytes.len(),
            Records::Elsewhere { bytes } => *bytes,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Records {
        Records::Bytes(bytes)
    }
}

impl Field for Records {
    const TYPE: TypeSchema = TypeSchema::Records;

    fn absent() -> Self {
        Records::Null
    }

    fn bytes_min(form: Form) -> usize {
        if form.flexible { 1 } else { 4 }
    }

    fn read(reader: &mut Reader, form: Form) -> Result<Self, DecodeError> {
        match reader.bytes(form.flexible)? {
            Some(bytes) => Ok(Records::Bytes(bytes)),
            None if form.nullable => Ok(Records::Null),
            None => Err(DecodeError::new(DecodeReason::Null)),
        }
    }

    fn write(&self, writer: &mut Writer, form: Form) -> Result<(), EncodeError> {
        let length = match self {
            Records::Null if !form.nullable => {
                return Err(EncodeError {
                    field: "",
                    version: form.version,
                    reason: EncodeReason::Null,
                });
            }
            Records::Null => None,
            Records::Bytes(_) | Records::Elsewhere { .. } => Some(self.len()),
        };
        writer.bytes_length(length, form.flexible)?;
        match self {
            Records::Null => {}
            Records::Bytes(bytes) => writer.slice(bytes),
            Records::Elsewhere { bytes } => writer.gap(*bytes),
        }
        Ok(())
    }
}

/// The fewest bytes of a field of a structure.
pub(super) fn field_bytes_min<T: Field>(rules: &Rules, form: Form) -> usize {
    if rules.is_inline(form.version) {
        T::bytes_min(field_form(rules, form))
    } else {
        0
    }
}

/// Reads a field that the version has.
pub(super) fn read_field<T: Field>(
    reader: &mut Reader,
    rules: &Rules,
    form: Form,
    name: &'static str,
) -> Result<T, DecodeError> {
    T::read(reader, field_form(rules, form)).map_err(|error| error.within(name))
}

/// Writes a field that the version has.
pub(super) fn write_field<T: Field>(
    value: &T,
    writer: &mut Writer,
    rules: &Rules,
    form: Form,
    name: &'static str,
) -> Result<(), EncodeError> {
    value
        .write(writer, field_form(rules, form))
        .map_err(|error| {
            if error.field.is_empty() {
                EncodeError {
                    field: name,
                    version: form.version,
                    ..error
                }
            } else {
                error
            }
        })
}

/// Refuses a value that the version has no field for, unless it may be left out.
pub(super) fn check_absent(
    is_default: bool,
    rules: &Rules,
    form: Form,
    name: &'static str,
    writer: &Writer,
) -> Result<(), EncodeError> {
    if is_default || rules.ignorable || writer.leaves_out {
        return Ok(());
    }
    Err(EncodeError {
        field: name,
        version: form.version,
        reason: EncodeReason::Unsupported,
    })
}

fn field_form(rules: &Rules, form: Form) -> Form {
    Form {
        version: form.version,
        flexible: form.flexible && !rules.inflexible,
        nullable: rules.nullable.contains(form.version),
    }
}
