//! The ids of the protocol and of the machine, one newtype each.
//! Owned by nobody, plain values.
//! Always: an id prints as Kafka prints it.
//! Who hands out new ids is decided by `metadata` and `producer`.

use std::fmt;

/// 16 bytes; prints as Kafka's `Uuid.toString`: URL-safe base64 without padding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Kafka's `Uuid.ZERO_UUID`: "no id".
    pub const ZERO: Uuid = Uuid([0; 16]);
    /// Kafka's `Uuid.METADATA_TOPIC_ID`: the id of `__cluster_metadata`.
    pub const METADATA_TOPIC: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// True for the id that means "none".
    pub fn is_zero(self) -> bool {
        self == Uuid::ZERO
    }

    /// A version 4 UUID from 16 random bytes.
    pub fn from_random(mut bytes: [u8; 16]) -> Uuid {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uuid(bytes)
    }

    /// Reads what `Display` writes; `None` unless it is exactly 22 characters of URL-safe base64.
    pub fn parse(text: &str) -> Option<Uuid> {
        if text.len() != 22 {
            return None;
        }
        let mut bits: u128 = 0;
        for (index, c) in text.bytes().enumerate() {
            let value = BASE64.iter().position(|&b| b == c)? as u128;
            // 21 characters of 6 bits and one of which only the two high bits count.
            if index < 21 {
                bits = bits << 6 | value;
            } else if value & 0x0f == 0 {
                bits = bits << 2 | value >> 4;
            } else {
                return None;
            }
        }
        Some(Uuid(bits.to_be_bytes()))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0u8; 22];
        for (index, slot) in text.iter_mut().enumerate() {
            let value = if index < 21 {
                bits >> (122 - 6 * index) & 0x3f
            } else {
                (bits & 0x3) << 4
            };
            *slot = BASE64[value as usize];
        }
        f.write_str(std::str::from_utf8(&text).expect("base64 is ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The id of a topic; a topic that is deleted and made anew has another (KIP-516).
pub type TopicId = Uuid;

/// Index of a partition within its topic, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct PartitionIndex(pub i32);

/// A partition, named by what never changes: topic id and index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct TopicPartition {
    pub topic_id: TopicId,
    pub partition: PartitionIndex,
}

/// What Kafka metadata calls a broker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct NodeId(pub i32);

/// A shard (core) of this process, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct ShardId(pub u16);

/// Counts the leaders of a partition; -1 means "unknown" on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
}

/// The id of an idempotent producer; -1 means "not idempotent".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct ProducerId(pub i64);

impl ProducerId {
    pub const NONE: ProducerId = ProducerId(-1);
}

/// Fences older instances of a producer; -1 with `ProducerId::NONE`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct ProducerEpoch(pub i16);

impl ProducerEpoch {
    pub const NONE: ProducerEpoch = ProducerEpoch(-1);
}

macro_rules! display_inner {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}
display_inner!(
    PartitionIndex,
    NodeId,
    ShardId,
    LeaderEpoch,
    ProducerId,
    ProducerEpoch
);

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic_id, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::Uuid;

    #[test]
    fn uuid_text_is_kafkas() {
        // Golden: Kafka's Uuid.METADATA_TOPIC_ID and ZERO_UUID as its tools print them.
        assert_eq!(Uuid::METADATA_TOPIC.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        let id = Uuid::from_random([0xfe; 16]);
        assert_eq!(Uuid::parse(&id.to_string()), Some(id));
        assert_eq!(Uuid::parse("AAAAAAAAAAAAAAAAAAAAAB"), None);
        assert_eq!(Uuid::parse("short"), None);
    }
}
