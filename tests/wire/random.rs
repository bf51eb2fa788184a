//! Random messages as bytes, written from the schema alone: an encoder that shares nothing with the codec under test.
//! Always: the same seed gives the same bytes.

use ringlog::wire::schema::{MessageSchema, Rules, StructSchema, TypeSchema};

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// From 0 to `end`, `end` excluded.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The seed of this run: `RINGLOG_SEED`, or one of the clock; printed, so that a failure can be run again.
pub fn seed() -> u64 {
    let seed = match std::env::var("RINGLOG_SEED") {
        Ok(text) => text.parse().expect("RINGLOG_SEED is a number"),
        Err(_) => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_nanos() as u64,
    };
    println!("RINGLOG_SEED={seed}");
    seed
}

pub struct Bytes {
    pub bytes: Vec<u8>,
    /// A tagged field was written: its value may be the default, which is left out when the message is encoded again.
    pub has_tags: bool,
}

/// A random message of this version. With `unknown_tags` it also has tagged fields that nobody knows.
pub fn message(
    random: &mut Random,
    message: &MessageSchema,
    structure: &StructSchema,
    version: i16,
    unknown_tags: bool,
) -> Bytes {
    let mut writer = Writer {
        random,
        version,
        unknown_tags,
        out: Vec::new(),
        has_tags: false,
    };
    writer.structure(structure, message.flexible.contains(version));
    Bytes {
        bytes: writer.out,
        has_tags: writer.has_tags,
    }
}

struct Writer<'a> {
    random: &'a mut Random,
    version: i16,
    unknown_tags: bool,
    out: Vec<u8>,
    has_tags: bool,
}

impl Writer<'_> {
    fn structure(&mut self, structure: &StructSchema, flexible: bool) {
        for field in structure.fields {
            let rules = &field.rules;
            if rules.versions.contains(self.version) && !rules.tagged.contains(self.version) {
                self.field(field.type_schema, rules, flexible && !rules.inflexible);
            }
        }
        if flexible {
            self.tags(structure);
        }
    }

    fn tags(&mut self, structure: &StructSchema) {
        let mut tags: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in structure.fields {
            if field.rules.tagged.contains(self.version) && self.random.one_in(2) {
                let before = std::mem::take(&mut self.out);
                self.field(field.type_schema, &field.rules, true);
                let value = std::mem::replace(&mut self.out, before);
                tags.push((field.rules.tag.expect("tagged"), value));
                self.has_tags = true;
            }
        }
        if self.unknown_tags && self.random.one_in(3) {
            let value = (0..self.random.below(200)).map(|i| i as u8).collect();
            tags.push((9_000 + self.random.below(9_000) as u32, value));
        }
        tags.sort();
        self.uvarint(tags.len() as u64);
        for (tag, value) in tags {
            self.uvarint(u64::from(tag));
            self.uvarint(value.len() as u64);
            self.out.extend(value);
        }
    }

    fn field(&mut self, kind: &TypeSchema, rules: &Rules, flexible: bool) {
        let null = rules.nullable.contains(self.version) && self.random.one_in(4);
        match kind {
            TypeSchema::Struct(structure) => {
                if rules.nullable.contains(self.version) {
                    self.out.push(if null { 0xff } else { 1 });
                }
                if !null {
                    self.structure(structure, flexible);
                }
            }
            TypeSchema::String if null && !flexible => self.out.extend((-1i16).to_be_bytes()),
            TypeSchema::String | TypeSchema::Bytes | TypeSchema::Records | TypeSchema::Array(_)
                if null =>
            {
                if flexible {
                    self.out.push(0);
                } else {
                    self.out.extend((-1i32).to_be_bytes());
                }
            }
            TypeSchema::Array(element) => {
                let count = self.random.below(4);
                self.length(count, 4, flexible);
                for _ in 0..count {
                    self.field(element, &Rules::new("0+"), flexible);
                }
            }
            TypeSchema::String => {
                let text = self.text();
                self.length(text.len(), 2, flexible);
                self.out.extend(text.as_bytes());
            }
            TypeSchema::Bytes | TypeSchema::Records => {
                let size = if self.random.one_in(8) { 3_000 } else { 20 };
                let length = self.random.below(size);
                self.length(length, 4, flexible);
                for _ in 0..length {
                    let byte = self.random.next() as u8;
                    self.out.push(byte);
                }
            }
            TypeSchema::Bool => {
                let value = self.random.below(2) as u8;
                self.out.push(value);
            }
            TypeSchema::Int8 => self.number(1),
            TypeSchema::Int16 | TypeSchema::Uint16 => self.number(2),
            TypeSchema::Int32 | TypeSchema::Uint32 => self.number(4),
            TypeSchema::Int64 | TypeSchema::Float64 => self.number(8),
            TypeSchema::Uuid => {
                self.number(8);
                self.number(8);
            }
        }
    }

    /// Mostly small numbers and the ends of the range.
    fn number(&mut self, bytes: usize) {
        let value: u64 = match self.random.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::MAX >> 1,
            3 => self.random.below(100) as u64,
            _ => self.random.next(),
        };
        self.out.extend(&value.to_be_bytes()[..bytes]);
    }

    fn text(&mut self) -> String {
        let length = if self.random.one_in(10) { 300 } else { 12 };
        (0..self.random.below(length))
            .map(|_| match self.random.below(12) {
                0 => 'ü',
                1 => '\u{1f980}',
                _ => char::from(b'a' + self.random.below(26) as u8),
            })
            .collect()
    }

    fn length(&mut self, length: usize, bytes: usize, flexible: bool) {
        if flexible {
            self.uvarint(length as u64 + 1);
        } else {
            self.out.extend(&(length as u64).to_be_bytes()[8 - bytes..]);
        }
    }

    fn uvarint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
