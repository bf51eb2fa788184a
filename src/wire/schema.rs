//! What a declaration says, as constants: versions, nullability, tags; read by the codec at compile time and by tests.
//! Owned by nobody, constants.
//! Always: a mistake in a declaration (a range that can't be read, a tag without flexible versions) fails the build.
//! Bytes are `Reader`'s and `Writer`'s.

/// A range of versions in Kafka's notation: `"3+"`, `"0-12"`, `"4"`, `"none"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    pub min: i16,
    /// `i16::MAX` stands for "and all later ones"; below `min` there are none.
    pub max: i16,
}

impl Versions {
    pub const NONE: Versions = Versions { min: 0, max: -1 };

    /// Reads Kafka's notation; panics (at compile time) on anything else.
    pub const fn parse(text: &str) -> Versions {
        let text = text.as_bytes();
        if let b"none" = text {
            return Versions::NONE;
        }
        let (min, at) = number(text, 0);
        if at == text.len() {
            return Versions { min, max: min };
        }
        if text[at] == b'+' && at + 1 == text.len() {
            return Versions { min, max: i16::MAX };
        }
        assert!(text[at] == b'-', "expected N, N+, N-M or none");
        let (max, end) = number(text, at + 1);
        assert!(end == text.len() && min <= max, "expected N-M with N <= M");
        Versions { min, max }
    }

    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    pub const fn is_none(self) -> bool {
        self.max < self.min
    }
}

const fn number(text: &[u8], mut at: usize) -> (i16, usize) {
    let start = at;
    let mut value: i16 = 0;
    while at < text.len() && text[at].is_ascii_digit() {
        value = value * 10 + (text[at] - b'0') as i16;
        at += 1;
    }
    assert!(at > start, "expected a version number");
    (value, at)
}

/// How a field is encoded: which versions have it, in which it may be null, in which it is tagged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    pub versions: Versions,
    pub nullable: Versions,
    pub tag: Option<u32>,
    pub tagged: Versions,
    /// A value that the version has no field for is left out instead of refused.
    pub ignorable: bool,
    /// The field keeps its old encoding in flexible versions (the request header's client id).
    pub inflexible: bool,
}

impl Rules {
    pub const fn new(versions: &str) -> Rules {
        Rules {
            versions: Versions::parse(versions),
            nullable: Versions::NONE,
            tag: None,
            tagged: Versions::NONE,
            ignorable: false,
            inflexible: false,
        }
    }

    pub const fn nullable(mut self, versions: &str) -> Rules {
        self.nullable = Versions::parse(versions);
        self
    }

    pub const fn tag(mut self, tag: u32, versions: &str) -> Rules {
        self.tag = Some(tag);
        self.tagged = Versions::parse(versions);
        assert!(
            self.tagged.max == i16::MAX,
            "a tagged field stays tagged in all later versions"
        );
        self
    }

    pub const fn ignorable(mut self) -> Rules {
        self.ignorable = true;
        self
    }

    pub const fn inflexible(mut self) -> Rules {
        self.inflexible = true;
        self
    }

    /// The version has the field, in its place among the others.
    pub const fn is_inline(&self, version: i16) -> bool {
        self.versions.contains(version) && !self.tagged.contains(version)
    }

    /// The version has the field, behind its tag.
    pub const fn is_tagged(&self, version: i16) -> bool {
        self.tagged.contains(version)
    }
}

/// A field as declared.
pub struct FieldSchema {
    /// Kafka's name in snake case.
    pub name: &'static str,
    pub rules: Rules,
    pub type_schema: &'static TypeSchema,
    /// The value of a field that is absent, as `Debug` prints it.
    pub default: fn() -> String,
}

/// The type of a field.
pub enum TypeSchema {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    Array(&'static TypeSchema),
    Struct(&'static StructSchema),
}

/// A message or a struct inside one.
pub struct StructSchema {
    pub name: &'static str,
    pub fields: &'static [FieldSchema],
}

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageKind {
    Request,
    Response,
    Header,
    /// A blob that clients exchange through the broker.
    Data,
    /// Key or value of a record in an internal topic.
    Record,
}

/// A message as declared.
#[derive(Clone, Copy, Debug)]
pub struct MessageSchema {
    pub name: &'static str,
    pub kind: MessageKind,
    /// Api key of a request or response, type id of a record.
    pub key: Option<i16>,
    pub versions: Versions,
    pub flexible: Versions,
}

impl MessageSchema {
    const fn new(kind: MessageKind, name: &'static str) -> MessageSchema {
        MessageSchema {
            name,
            kind,
            key: None,
            versions: Versions::NONE,
            flexible: Versions::NONE,
        }
    }

    pub const fn request(name: &'static str) -> MessageSchema {
        MessageSchema::new(MessageKind::Request, name)
    }

    pub const fn response(name: &'static str) -> MessageSchema {
        MessageSchema::new(MessageKind::Response, name)
    }

    pub const fn header(name: &'static str) -> MessageSchema {
        MessageSchema::new(MessageKind::Header, name)
    }

    pub const fn data(name: &'static str) -> MessageSchema {
        MessageSchema::new(MessageKind::Data, name)
    }

    pub const fn record(name: &'static str) -> MessageSchema {
        MessageSchema::new(MessageKind::Record, name)
    }

    pub const fn key(mut self, key: i16) -> MessageSchema {
        self.key = Some(key);
        self
    }

    pub const fn versions(mut self, versions: &str) -> MessageSchema {
        self.versions = Versions::parse(versions);
        self
    }

    pub const fn flexible(mut self, versions: &str) -> MessageSchema {
        self.flexible = Versions::parse(versions);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Versions;

    #[test]
    fn ranges_read_as_kafka_writes_them() {
        assert_eq!(
            Versions::parse("3+"),
            Versions {
                min: 3,
                max: i16::MAX
            }
        );
        assert_eq!(Versions::parse("0-12"), Versions { min: 0, max: 12 });
        assert_eq!(Versions::parse("4"), Versions { min: 4, max: 4 });
        assert!(Versions::parse("none").is_none());
        assert!(!Versions::NONE.contains(0));
    }
}
