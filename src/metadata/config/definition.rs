//! What a config key is: name, type, default, allowed values, documentation; and the parsing of a value by it.
//! Owned by nobody; the tables of topic and broker keys are made of it.
//! Always: a refused value names itself, the key and the rule, in the words of Kafka's `ConfigDef`.
//! Where a value comes from is `resolve`'s.

use std::fmt;

/// One config key.
#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    pub kind: Kind,
    /// `None`: the key has no value until someone sets it.
    pub default: Option<&'static str>,
    pub rule: Rule,
    /// What ringlog does with it, and so which values it takes.
    pub effect: Effect,
    pub doc: &'static str,
}

/// Type of a value; the numbers are those of DescribeConfigs v3+.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum Kind {
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
}

impl Kind {
    /// The number in DescribeConfigs.
    pub fn code(self) -> i8 {
        self as i8
    }

    /// Kafka's name, as in "Not a number of type LONG".
    pub fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "BOOLEAN",
            Kind::String => "STRING",
            Kind::Int => "INT",
            Kind::Short => "SHORT",
            Kind::Long => "LONG",
            Kind::Double => "DOUBLE",
            Kind::List => "LIST",
        }
    }
}

/// Which values are allowed, in the sense of Kafka's validators.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rule {
    Any,
    AtLeast(i64),
    Between(i64, i64),
    /// Between, or this one value besides.
    BetweenOr(i64, i64, i64),
    /// From 0 to 1.
    Fraction,
    OneOf(&'static [&'static str]),
    /// Every element is one of these; the list may be empty.
    EachOf(&'static [&'static str]),
    /// `*`, or elements such as `0:1`.
    ThrottledReplicas,
}

/// What a key does here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The broker acts on it.
    Honoured,
    /// Kept and shown; it steers something ringlog has no need of or does not have (the text says what).
    Inert(&'static str),
}

/// A value that was taken.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(String),
    List(Vec<String>),
}

impl fmt::Display for Value {
    /// As Kafka's `ConfigDef.convertToString` shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Double(value) => write!(f, "{value:?}"),
            Value::Text(value) => f.write_str(value),
            Value::List(values) => f.write_str(&values.join(",")),
        }
    }
}

/// A value that was refused, in Kafka's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidValue {
    pub name: &'static str,
    pub value: String,
    pub reason: String,
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Invalid value {} for configuration {}: {}",
            self.value, self.name, self.reason
        )
    }
}

impl Definition {
    /// Reads a value: type first, then the rule.
    pub fn parse(&self, text: &str) -> Result<Value, InvalidValue> {
        let value = self
            .typed(text.trim())
            .map_err(|reason| self.refuse(text, reason))?;
        self.check(value)
    }

    /// The default, read.
    pub fn default_value(&self) -> Option<Value> {
        self.default.map(|text| match self.parse(text) {
            Ok(value) => value,
            Err(error) => panic!("default of a config key: {error}"),
        })
    }

    fn refuse(&self, value: impl fmt::Display, reason: String) -> InvalidValue {
        InvalidValue {
            name: self.name,
            value: value.to_string(),
            reason,
        }
    }

    fn typed(&self, text: &str) -> Result<Value, String> {
        let range = match self.kind {
            Kind::Boolean if text.eq_ignore_ascii_case("true") => return Ok(Value::Boolean(true)),
            Kind::Boolean if text.eq_ignore_ascii_case("false") => {
                return Ok(Value::Boolean(false));
            }
            Kind::Boolean => return Err("Expected value to be either true or false".to_string()),
            Kind::String => return Ok(Value::Text(text.to_string())),
            Kind::List => return Ok(Value::List(split_list(text))),
            Kind::Double => {
                return match text.parse::<f64>() {
                    Ok(value) => Ok(Value::Double(value)),
                    Err(_) => Err("Not a number of type DOUBLE".to_string()),
                };
            }
            Kind::Short => i64::from(i16::MIN)..=i64::from(i16::MAX),
            Kind::Int => i64::from(i32::MIN)..=i64::from(i32::MAX),
            Kind::Long => i64::MIN..=i64::MAX,
        };
        match text.parse::<i64>() {
            Ok(value) if range.contains(&value) => Ok(Value::Integer(value)),
            _ => Err(format!("Not a number of type {}", self.kind.name())),
        }
    }

    fn check(&self, value: Value) -> Result<Value, InvalidValue> {
        let refuse = |reason: String| Err(self.refuse(&value, reason));
        match (self.rule, &value) {
            (Rule::Any, _) => {}
            (Rule::AtLeast(min), Value::Integer(given)) if *given < min => {
                return refuse(format!("Value must be at least {min}"));
            }
            (Rule::Between(min, _), Value::Integer(given)) if *given < min => {
                return refuse(format!("Value must be at least {min}"));
            }
            (Rule::Between(_, max), Value::Integer(given)) if *given > max => {
                return refuse(format!("Value must be no more than {max}"));
            }
            (Rule::BetweenOr(min, max, other), Value::Integer(given))
                if (*given < min || *given > max) && *given != other =>
            {
                return refuse(format!(
                    "Value must be between {min} and {max} or equal to {other}"
                ));
            }
            (Rule::Fraction, Value::Double(given)) if *given < 0.0 || given.is_nan() => {
                return refuse("Value must be at least 0".to_string());
            }
            (Rule::Fraction, Value::Double(given)) if *given > 1.0 => {
                return refuse("Value must be no more than 1".to_string());
            }
            (Rule::OneOf(names), Value::Text(given)) if !names.contains(&given.as_str()) => {
                return refuse(format!("String must be one of: {}", names.join(", ")));
            }
            (Rule::EachOf(names), Value::List(given)) => {
                return self.check_each(names, given);
            }
            (Rule::ThrottledReplicas, Value::List(given)) => {
                let wildcard = given.len() == 1 && given[0] == "*";
                if !wildcard && !given.iter().all(|element| is_replica(element)) {
                    return Err(self.refuse(
                        format_args!("[{}]", given.join(", ")),
                        format!("{} must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...", self.name),
                    ));
                }
            }
            (Rule::AtLeast(_) | Rule::Between(..) | Rule::BetweenOr(..), Value::Integer(_))
            | (Rule::Fraction, Value::Double(_))
            | (Rule::OneOf(_), Value::Text(_)) => {}
            (rule, value) => panic!(
                "config {}: the rule {rule:?} does not suit the value {value:?}",
                self.name
            ),
        }
        Ok(value)
    }

    /// Refuses the first unknown element; drops repeated ones, as Kafka does.
    fn check_each(&self, names: &[&str], given: &[String]) -> Result<Value, InvalidValue> {
        let mut kept: Vec<String> = Vec::new();
        for element in given {
            if element.is_empty() {
                return Err(self.refuse(
                    given.join(","),
                    format!("Configuration '{}' values must not be empty.", self.name),
                ));
            }
            if !names.contains(&element.as_str()) {
                return Err(self.refuse(
                    element,
                    format!("String must be one of: {}", names.join(", ")),
                ));
            }
            if !kept.contains(element) {
                kept.push(element.clone());
            }
        }
        Ok(Value::List(kept))
    }
}

/// Elements between commas, without the blanks around them; an empty text is an empty list.
pub fn split_list(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|s| s.trim().to_string()).collect()
}

/// `partition:broker`, both numbers.
fn is_replica(text: &str) -> bool {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    matches!(text.split_once(':'), Some((partition, broker)) if digits(partition) && digits(broker))
}

#[cfg(test)]
mod tests {
    use super::super::topic_table::topic_definition;

    fn refusal(name: &str, value: &str) -> String {
        topic_definition(name)
            .expect("a topic config")
            .parse(value)
            .expect_err("refused")
            .to_string()
    }

    /// Texts as Apache Kafka 4.4.0 answers them to CreateTopics.
    #[test]
    fn refusals_have_kafkas_words() {
        for (name, value, text) in [
            (
                "retention.ms",
                "abc",
                "Invalid value abc for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "retention.ms",
                "-2",
                "Invalid value -2 for configuration retention.ms: Value must be at least -1",
            ),
            (
                "retention.ms",
                "",
                "Invalid value  for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "retention.ms",
                "99999999999999999999",
                "Invalid value 99999999999999999999 for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "max.message.bytes",
                "3000000000",
                "Invalid value 3000000000 for configuration max.message.bytes: Not a number of type INT",
            ),
            (
                "segment.bytes",
                "10",
                "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576",
            ),
            (
                "cleanup.policy",
                "foo",
                "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            (
                "compression.type",
                "lzo",
                "Invalid value lzo for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
            ),
            (
                "compression.gzip.level",
                "0",
                "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
            ),
            (
                "compression.zstd.level",
                "23",
                "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22",
            ),
            (
                "min.cleanable.dirty.ratio",
                "1.5",
                "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
            ),
            (
                "preallocate",
                "yes",
                "Invalid value yes for configuration preallocate: Expected value to be either true or false",
            ),
            (
                "leader.replication.throttled.replicas",
                "x",
                "Invalid value [x] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            ),
        ] {
            assert_eq!(refusal(name, value), text);
        }
    }

    #[test]
    fn taken_values_are_shown_as_kafka_shows_them() {
        for (name, value, shown) in [
            ("segment.bytes", " 2097152 ", "2097152"),
            ("cleanup.policy", "delete,delete", "delete"),
            ("cleanup.policy", "compact, delete", "compact,delete"),
            ("cleanup.policy", "", ""),
            ("preallocate", "TRUE", "true"),
            ("min.cleanable.dirty.ratio", "1", "1.0"),
            ("leader.replication.throttled.replicas", "*", "*"),
            (
                "leader.replication.throttled.replicas",
                "0:1, 1:1",
                "0:1,1:1",
            ),
        ] {
            let value = topic_definition(name).unwrap().parse(value);
            assert_eq!(value.unwrap().to_string(), shown, "{name}");
        }
    }
}
