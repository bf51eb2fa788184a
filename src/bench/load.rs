//! What a run is asked to do: the words of the command line, checked.
//! Plain values, part of every result.
//! Always: sizes and counts are at least 1 and fit into the protocol.
//! Doing it is `phase`'s.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The load of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Load {
    /// `None`: a topic of its own, deleted afterwards.
    pub topic: Option<String>,
    pub partitions: i32,
    /// Topic configuration for a topic it makes.
    pub configs: Vec<(String, String)>,
    pub producers: usize,
    pub consumers: usize,
    /// How often everything is read, each time by `consumers`.
    pub copies: usize,
    pub rate: Rate,
    pub warmup_seconds: f64,
    /// Length of the measured window; `None` with `records`.
    pub duration_seconds: Option<f64>,
    /// Measured records.
    pub records: Option<u64>,
    /// Bytes of a record's value.
    pub record_bytes: usize,
    /// Records of a batch.
    pub batch_records: usize,
    pub acks: Acks,
    pub codec: Codec,
    /// Requests in flight on a connection.
    pub in_flight: usize,
    pub payload: Payload,
    pub keys: Keys,
    pub key_count: usize,
    /// Bytes a fetch may bring of a partition, and in all.
    pub fetch_bytes: usize,
    pub verify: bool,
    pub keep_topic: bool,
    /// How long after the last send answers are waited for.
    pub drain_seconds: f64,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            topic: None,
            partitions: 1,
            configs: Vec::new(),
            producers: 1,
            consumers: 1,
            copies: 1,
            rate: Rate::Max,
            warmup_seconds: 2.0,
            duration_seconds: Some(10.0),
            records: None,
            record_bytes: 1024,
            batch_records: 16,
            acks: Acks::All,
            codec: Codec::None,
            in_flight: 5,
            payload: Payload::Random,
            keys: Keys::None,
            key_count: 100_000,
            fetch_bytes: 1 << 20,
            verify: true,
            keep_topic: false,
            drain_seconds: 10.0,
        }
    }
}

/// Records per second over all producers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Rate {
    /// Open loop at this rate.
    Fixed(f64),
    /// Open loop at the highest rate that keeps up, which is searched first.
    Max,
    /// Closed loop: as many as the requests in flight allow.
    Flood,
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        match text {
            "max" => Ok(Rate::Max),
            "flood" => Ok(Rate::Flood),
            number => match parse_count(number) {
                Some(rate) if rate >= 1.0 => Ok(Rate::Fixed(rate)),
                _ => Err(format!(
                    "`{text}` is no rate; write records per second (20000, 50k, 1.5M), max or flood"
                )),
            },
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Fixed(rate) => write!(f, "{rate:.0} records/s, open loop"),
            Rate::Max => f.write_str("the highest that keeps up, open loop"),
            Rate::Flood => f.write_str("flood, closed loop"),
        }
    }
}

/// A number with k, M or G behind it.
pub fn parse_count(text: &str) -> Option<f64> {
    let (digits, factor) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1e3),
        'm' | 'M' => (&text[..text.len() - 1], 1e6),
        'g' | 'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let number: f64 = digits.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * factor)
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal: $($variant:ident = $word:literal),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($variant),+ }

        impl $name {
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                match text {
                    $($word => Ok($name::$variant),)+
                    _ => Err(format!(
                        concat!("`{}` is no ", $what, "; write one of {}"),
                        text,
                        [$($word),+].join(", ")
                    )),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words! {
    /// When a broker answers a batch.
    Acks, "number of acks": None = "0", Leader = "1", All = "all"
}

words! {
    /// How batches are compressed.
    Codec, "codec": None = "none", Gzip = "gzip", Snappy = "snappy", Lz4 = "lz4", Zstd = "zstd"
}

words! {
    /// Which keys records have, and so which partitions they go to.
    Keys, "distribution of keys": None = "none", Uniform = "uniform", Zipf = "zipf"
}

impl Acks {
    pub fn on_wire(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// What records hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// Bytes that don't compress.
    Random,
    /// The same byte again and again.
    Repeated,
    /// The lines of a file.
    Lines(String),
    /// The records of a file, each behind its length in 4 bytes, big-endian.
    Prefixed(String),
}

impl std::str::FromStr for Payload {
    type Err = String;

    fn from_str(text: &str) -> Result<Payload, String> {
        match text {
            "random" => Ok(Payload::Random),
            "repeated" => Ok(Payload::Repeated),
            _ => Ok(match text.strip_prefix("prefixed:") {
                Some(path) => Payload::Prefixed(path.to_owned()),
                None => Payload::Lines(text.strip_prefix("lines:").unwrap_or(text).to_owned()),
            }),
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Random => f.write_str("random"),
            Payload::Repeated => f.write_str("repeated"),
            Payload::Lines(path) => write!(f, "lines of {path}"),
            Payload::Prefixed(path) => write!(f, "records of {path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_words_are_read() {
        assert_eq!("50k".parse(), Ok(Rate::Fixed(50_000.0)));
        assert_eq!("1.5M".parse(), Ok(Rate::Fixed(1_500_000.0)));
        assert_eq!("max".parse(), Ok(Rate::Max));
        assert_eq!("flood".parse(), Ok(Rate::Flood));
        for text in ["", "0", "-5", "fast", "k", "NaN", "inf"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert_eq!("all".parse(), Ok(Acks::All));
        let error = "2".parse::<Acks>().unwrap_err();
        assert_eq!(error, "`2` is no number of acks; write one of 0, 1, all");
        assert_eq!(
            "prefixed:a:b".parse(),
            Ok(Payload::Prefixed("a:b".to_owned()))
        );
    }
}
