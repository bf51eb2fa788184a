//! What was set at start: properties file, `--set` and flags, as texts by broker key.
//! Built once by `cli`, then shared by every shard.
//! Always: every value is one that its definition takes.
//! Which of file and flag wins is decided before it comes here.

use std::collections::BTreeMap;
use std::fmt;

use super::broker_table::{BROKER_CONFIGS, broker_entry};
use super::definition::{Effect, InvalidValue};
use super::not_honoured::{NOT_HONOURED, is_not_honoured};

/// The static values of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticConfig {
    values: BTreeMap<&'static str, String>,
}

/// What became of a key that was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    Honoured,
    /// Kept and shown, without an effect; why.
    Inert(&'static str),
    /// A key of Kafka that ringlog does not act on; not kept.
    NotHonoured,
}

/// Why a key was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StaticError {
    /// No such key; the nearest one, if one is near.
    Unknown {
        suggestion: Option<&'static str>,
    },
    Invalid(InvalidValue),
    /// Running without it would be less safe than the user asked for.
    Unsafe(&'static str),
}

impl fmt::Display for StaticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StaticError::Unknown {
                suggestion: Some(near),
            } => write!(f, "unknown key; did you mean `{near}`?"),
            StaticError::Unknown { suggestion: None } => f.write_str("unknown key"),
            StaticError::Invalid(error) => write!(f, "{error}"),
            StaticError::Unsafe(reason) => f.write_str(reason),
        }
    }
}

impl StaticConfig {
    /// Takes a value, over an earlier one.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Taken, StaticError> {
        if name == "authorizer.class.name" && !value.trim().is_empty() {
            return Err(StaticError::Unsafe(
                "authorization is not served: every client may do everything; remove the key to run like that",
            ));
        }
        let Some(entry) = broker_entry(name) else {
            return match is_not_honoured(name) {
                true => Ok(Taken::NotHonoured),
                false => Err(StaticError::Unknown {
                    suggestion: nearest(name),
                }),
            };
        };
        entry
            .definition
            .parse(value)
            .map_err(StaticError::Invalid)?;
        self.values
            .insert(entry.definition.name, value.trim().to_string());
        Ok(match entry.definition.effect {
            Effect::Honoured => Taken::Honoured,
            Effect::Inert(reason) => Taken::Inert(reason),
        })
    }

    /// The text that was set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The same with the values that only one node has, such as its id and address. Panics on a value of our own making
    /// that is not allowed.
    #[must_use]
    pub fn with(&self, own: &[(&str, &str)]) -> StaticConfig {
        let mut config = self.clone();
        for (name, value) in own {
            match config.set(name, value) {
                Ok(Taken::Honoured) => {}
                other => panic!("static config {name}={value}: {other:?}"),
            }
        }
        config
    }
}

/// The known key with the fewest edits to `name`; `None` if that is more than a third of it.
fn nearest(name: &str) -> Option<&'static str> {
    BROKER_CONFIGS
        .iter()
        .map(|entry| entry.definition.name)
        .chain(NOT_HONOURED.iter().copied())
        .map(|known| (edits(name, known), known))
        .min()
        .filter(|(count, _)| *count <= name.len().div_ceil(3))
        .map(|(_, known)| known)
}

/// Levenshtein distance in bytes.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_key_names_the_nearest_one() {
        let mut config = StaticConfig::default();
        assert_eq!(
            config.set("num.partition", "3").unwrap_err().to_string(),
            "unknown key; did you mean `num.partitions`?"
        );
        assert_eq!(
            config.set("wholly.unlike", "3").unwrap_err().to_string(),
            "unknown key"
        );
    }

    #[test]
    fn kafka_key_without_effect_is_said_to_be_one() {
        let mut config = StaticConfig::default();
        assert_eq!(config.set("num.io.threads", "8"), Ok(Taken::NotHonoured));
        assert_eq!(
            config.set("listener.name.x.ssl.key.password", "8"),
            Ok(Taken::NotHonoured)
        );
        assert!(matches!(
            config.set("log.preallocate", "true"),
            Ok(Taken::Inert(_))
        ));
        assert_eq!(config.set("num.partitions", "8"), Ok(Taken::Honoured));
        assert_eq!(config.get("num.partitions"), Some("8"));
        assert_eq!(config.get("num.io.threads"), None);
    }

    #[test]
    fn authorizer_is_never_left_out_silently() {
        let mut config = StaticConfig::default();
        assert!(matches!(
            config.set("authorizer.class.name", "org.apache.X"),
            Err(StaticError::Unsafe(_))
        ));
    }
}
