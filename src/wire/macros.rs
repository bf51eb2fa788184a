//! `wire_message!`: the declaration of a message, from which its structure and codec follow.
//! Owned by nobody.
//! Always: one declaration is all there is about a message; `tests/schemas.rs` compares it with Kafka's own.
//! Types of fields and their encodings are `field`'s.
//!
//! ```text
//! wire_message! {
//!     /// What it is for.
//!     request ProduceRequest, key 0, versions "3-13", flexible "9+" {
//!         transactional_id: Option<Str> = None, "3+", nullable "3+";
//!         acks: i16, "0+";
//!         topic_data: Vec<TopicProduceData>, "0+";
//!     }
//!     struct TopicProduceData {
//!         name: Str, "0-12", ignorable;
//!         ...
//!     }
//! }
//! ```
//! A message begins with its kind: `request`, `response`, `header`, `data` (what clients exchange through the broker) or
//! `record` (key or value of a record in an internal topic); `struct` declares a part of it. A field has a name (Kafka's,
//! in snake case), a type, a default if it is not zero or empty, the versions that have it, and then any of `nullable
//! "VERSIONS"`, `tag N "VERSIONS"`, `ignorable`, `inflexible`. Versions are in Kafka's notation.

macro_rules! wire_message {
    (@message struct $name:ident) => {};
    (@message $kind:ident $name:ident $(, $option:ident $argument:literal)+) => {
        impl $crate::wire::Message for $name {
            const SCHEMA: $crate::wire::schema::MessageSchema =
                $crate::wire::schema::MessageSchema::$kind(stringify!($name))
                    $(.$option($argument))+;
        }
    };
    (@default $type:ty) => { <$type as $crate::wire::Field>::absent() };
    (@default $type:ty, $default:expr) => {{
        let default: $type = $default;
        default
    }};
    ($(
        $(#[$attribute:meta])*
        $kind:ident $name:ident $(, $option:ident $argument:literal)* {
            $(
                $(#[$field_attribute:meta])*
                $field:ident: $type:ty $(= $default:expr)?, $versions:literal
                    $(, $rule:ident $($rule_argument:literal)*)*;
            )*
        }
    )+) => {$(
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {
            $(
                $(#[$field_attribute])*
                pub $field: $type,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name {
                    $($field: wire_message!(@default $type $(, $default)?),)*
                }
            }
        }

        impl $crate::wire::Field for $name {
            const TYPE: $crate::wire::schema::TypeSchema =
                $crate::wire::schema::TypeSchema::Struct(&$crate::wire::schema::StructSchema {
                    name: stringify!($name),
                    fields: &[$(
                        $crate::wire::schema::FieldSchema {
                            name: stringify!($field),
                            rules: $crate::wire::schema::Rules::new($versions)
                                $(.$rule($($rule_argument),*))*,
                            type_schema: &<$type as $crate::wire::Field>::TYPE,
                            default: || {
                                format!("{:?}", wire_message!(@default $type $(, $default)?))
                            },
                        },
                    )*],
                });

            fn absent() -> Self {
                $name::default()
            }

            #[allow(unused_variables)]
            fn bytes_min(form: $crate::wire::Form) -> usize {
                let tags = usize::from(form.flexible);
                let presence = usize::from(form.nullable);
                tags + presence $(+ {
                    const RULES: $crate::wire::schema::Rules =
                        $crate::wire::schema::Rules::new($versions)
                            $(.$rule($($rule_argument),*))*;
                    $crate::wire::field::field_bytes_min::<$type>(&RULES, form)
                })*
            }

            #[allow(unused_mut)]
            fn read(
                reader: &mut $crate::wire::Reader,
                form: $crate::wire::Form,
            ) -> Result<Self, $crate::wire::DecodeError> {
                let mut message = $name::default();
                $({
                    const RULES: $crate::wire::schema::Rules =
                        $crate::wire::schema::Rules::new($versions)
                            $(.$rule($($rule_argument),*))*;
                    if RULES.is_inline(form.version) {
                        message.$field = $crate::wire::field::read_field(
                            reader,
                            &RULES,
                            form,
                            concat!(stringify!($name), ".", stringify!($field)),
                        )?;
                    }
                })*
                if form.flexible {
                    reader.tagged_fields(|_tag, _reader| {
                        $({
                            const RULES: $crate::wire::schema::Rules =
                                $crate::wire::schema::Rules::new($versions)
                                    $(.$rule($($rule_argument),*))*;
                            if RULES.tag == Some(_tag) && RULES.is_tagged(form.version) {
                                message.$field = $crate::wire::field::read_field(
                                    _reader,
                                    &RULES,
                                    form,
                                    concat!(stringify!($name), ".", stringify!($field)),
                                )?;
                                return Ok(true);
                            }
                        })*
                        Ok(false)
                    })?;
                }
                Ok(message)
            }

            #[allow(unused_mut, unused_variables)]
            fn write(
                &self,
                writer: &mut $crate::wire::Writer,
                form: $crate::wire::Form,
            ) -> Result<(), $crate::wire::EncodeError> {
                let mut tagged: Vec<(u32, fn(&Self, &mut $crate::wire::Writer, $crate::wire::Form) -> Result<(), $crate::wire::EncodeError>)> = Vec::new();
                $({
                    const RULES: $crate::wire::schema::Rules =
                        $crate::wire::schema::Rules::new($versions)
                            $(.$rule($($rule_argument),*))*;
                    const NAME: &str = concat!(stringify!($name), ".", stringify!($field));
                    if RULES.is_inline(form.version) {
                        $crate::wire::field::write_field(&self.$field, writer, &RULES, form, NAME)?;
                    } else {
                        let is_default =
                            self.$field == wire_message!(@default $type $(, $default)?);
                        match RULES.tag {
                            Some(tag) if RULES.is_tagged(form.version) => {
                                if !is_default {
                                    tagged.push((tag, |message, writer, form| {
                                        $crate::wire::field::write_field(
                                            &message.$field, writer, &RULES, form, NAME,
                                        )
                                    }));
                                }
                            }
                            _ => $crate::wire::field::check_absent(is_default, &RULES, form, NAME, writer)?,
                        }
                    }
                })*
                if form.flexible {
                    // Declarations list fields as Kafka does, not by tag.
                    tagged.sort_unstable_by_key(|(tag, _)| *tag);
                    writer.uvarint(tagged.len() as u32);
                    for (tag, write) in tagged {
                        writer.tagged_field(tag, |value| write(self, value, form))?;
                    }
                }
                Ok(())
            }
        }

        impl $crate::wire::Nullable for $name {
            fn read_nullable(
                reader: &mut $crate::wire::Reader,
                form: $crate::wire::Form,
            ) -> Result<Option<Self>, $crate::wire::DecodeError> {
                if form.nullable && reader.i8()? < 0 {
                    return Ok(None);
                }
                Ok(Some(<$name as $crate::wire::Field>::read(reader, form)?))
            }

            fn write_nullable(
                value: Option<&Self>,
                writer: &mut $crate::wire::Writer,
                form: $crate::wire::Form,
            ) -> Result<(), $crate::wire::EncodeError> {
                if form.nullable {
                    writer.i8(if value.is_some() { 1 } else { -1 });
                }
                match value {
                    Some(message) => $crate::wire::Field::write(message, writer, form),
                    None => Ok(()),
                }
            }
        }

        wire_message!(@message $kind $name $(, $option $argument)*);
    )+};
}

pub(crate) use wire_message;
