//! Where the value of a key comes from: topic override, dynamic broker, dynamic default, static, default (KIP-226).
//! Borrowed views over the image and the start-up configuration; every shard resolves for itself.
//! Always: entries, sources and synonyms are listed as Kafka's `ConfigHelper` lists them.
//! Typed views of the result are `topic` and `broker`.

use std::collections::BTreeMap;

use super::broker_table::{BROKER_CONFIGS, broker_entry};
use super::definition::{Definition, Value};
use super::statics::StaticConfig;
use super::topic_table::{Synonym, TOPIC_CONFIGS, TopicDefinition};
use crate::wire::Str;

/// Values set for one topic or one broker, by key.
pub type ConfigMap = BTreeMap<Str, Str>;

/// Where a value comes from; the numbers are those of DescribeConfigs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum Source {
    DynamicTopic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
}

impl Source {
    /// The number in DescribeConfigs and CreateTopics.
    pub fn code(self) -> i8 {
        self as i8
    }
}

/// One key as DescribeConfigs shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigEntry {
    pub name: &'static str,
    pub value: Option<String>,
    pub source: Source,
    pub read_only: bool,
    /// Kafka's type number.
    pub kind: i8,
    /// Everything that would give the value, the one in force first.
    pub synonyms: Vec<ConfigSynonym>,
    pub documentation: &'static str,
}

/// One of the values behind an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigSynonym {
    pub name: &'static str,
    pub value: String,
    pub source: Source,
}

/// The values of one broker, highest first.
#[derive(Clone, Copy, Debug)]
pub struct BrokerLayers<'a> {
    /// Set for this node while it runs.
    pub node: &'a ConfigMap,
    /// Set for every node (resource `""`).
    pub default: &'a ConfigMap,
    /// Set at start.
    pub statics: &'a StaticConfig,
}

impl<'a> BrokerLayers<'a> {
    /// The values of every layer that has one for `name`, highest first; the table's default last.
    fn values(self, name: &str) -> impl Iterator<Item = (String, Source)> + use<'a> {
        let default = broker_entry(name).and_then(|entry| entry.definition.default);
        let of = |map: &'a ConfigMap| map.get(name).map(|value| value.to_string());
        [
            (of(self.node), Source::DynamicBroker),
            (of(self.default), Source::DynamicDefaultBroker),
            (
                self.statics.get(name).map(str::to_string),
                Source::StaticBroker,
            ),
            (default.map(str::to_string), Source::Default),
        ]
        .into_iter()
        .filter_map(|(value, source)| value.map(|value| (value, source)))
    }

    /// The value in force of a broker key: the highest layer whose text can be read.
    /// Panics if ringlog has no such key.
    pub fn value(self, name: &str) -> Option<Value> {
        self.explicit_or_default(name).map(|(value, _)| value)
    }

    fn explicit_or_default(self, name: &str) -> Option<(Value, Source)> {
        let definition = broker_definition(name);
        self.values(name)
            .find_map(|(text, source)| definition.parse(&text).ok().map(|value| (value, source)))
    }

    /// True if someone set the key, at start or since.
    pub fn is_set(self, name: &str) -> bool {
        matches!(self.explicit_or_default(name), Some((_, source)) if source != Source::Default)
    }

    /// A number; panics if the key is no number or has no value.
    pub fn integer(self, name: &str) -> i64 {
        match self.value(name) {
            Some(Value::Integer(value)) => value,
            other => panic!("broker config {name} is no number: {other:?}"),
        }
    }

    /// A yes or no; panics if the key is none.
    pub fn boolean(self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Boolean(value)) => value,
            other => panic!("broker config {name} is no boolean: {other:?}"),
        }
    }

    /// What a topic key is without an override: the first synonym that has a value, in the unit of the topic key.
    fn topic_default(self, entry: &TopicDefinition) -> Value {
        for synonym in entry.synonyms {
            match self.value(synonym.name) {
                Some(Value::Integer(value)) => {
                    // Any negative limit is "no limit" (-1) once it is a broker default in another unit.
                    let scaled = value.saturating_mul(synonym.factor);
                    let value = if synonym.factor == 1 { value } else { scaled };
                    return Value::Integer(clamp(&entry.definition, value));
                }
                Some(value) => return value,
                None => {}
            }
        }
        entry
            .definition
            .default_value()
            .expect("every topic key has a default")
    }

    /// The value of a topic key, and whether the topic itself set it.
    pub fn topic_value(self, entry: &TopicDefinition, overrides: &ConfigMap) -> (Value, bool) {
        let own = overrides
            .get(entry.definition.name)
            .and_then(|text| entry.definition.parse(text).ok());
        match own {
            Some(value) => (value, true),
            None => (self.topic_default(entry), false),
        }
    }

    /// The entries of one topic, by name.
    pub fn describe_topic(self, overrides: &ConfigMap) -> Vec<ConfigEntry> {
        TOPIC_CONFIGS
            .iter()
            .map(|entry| {
                let definition = &entry.definition;
                let mut synonyms = Vec::new();
                if let Some(text) = overrides.get(definition.name) {
                    synonyms.push(ConfigSynonym {
                        name: definition.name,
                        value: text.to_string(),
                        source: Source::DynamicTopic,
                    });
                }
                if let Some(first) = entry.synonyms.first() {
                    synonyms.extend(self.synonyms(first.name, entry.synonyms));
                }
                let value = self.topic_value(entry, overrides).0.to_string();
                describe(definition, Some(value), synonyms, false)
            })
            .collect()
    }

    /// The entries of one broker, by name.
    pub fn describe_broker(self) -> Vec<ConfigEntry> {
        BROKER_CONFIGS
            .iter()
            .map(|entry| {
                let definition = &entry.definition;
                let value = self.value(definition.name).map(|value| value.to_string());
                let synonyms = self.synonyms(definition.name, siblings(definition.name));
                describe(definition, value, synonyms, !entry.dynamic)
            })
            .collect()
    }

    /// The entries of resource `""`: what was set for every broker.
    pub fn describe_default(self) -> Vec<ConfigEntry> {
        BROKER_CONFIGS
            .iter()
            .filter_map(|entry| {
                let definition = &entry.definition;
                let text = self.default.get(definition.name)?.to_string();
                let synonym = ConfigSynonym {
                    name: definition.name,
                    value: text.clone(),
                    source: Source::DynamicDefaultBroker,
                };
                Some(describe(
                    definition,
                    Some(text),
                    vec![synonym],
                    !entry.dynamic,
                ))
            })
            .collect()
    }

    /// The values behind broker key `name`, layer by layer over its siblings; Kafka starts the list at the first value of
    /// `name` itself.
    fn synonyms(self, name: &str, siblings: &[Synonym]) -> Vec<ConfigSynonym> {
        let mut found = Vec::new();
        for source in [
            Source::DynamicBroker,
            Source::DynamicDefaultBroker,
            Source::StaticBroker,
            Source::Default,
        ] {
            let names = if siblings.is_empty() {
                vec![broker_definition(name).name]
            } else {
                siblings.iter().map(|synonym| synonym.name).collect()
            };
            for key in names {
                let value = self
                    .values(key)
                    .find(|(_, from)| *from == source)
                    .map(|(value, _)| value);
                if let Some(value) = value {
                    found.push(ConfigSynonym {
                        name: key,
                        value,
                        source,
                    });
                }
            }
        }
        let start = found.iter().position(|synonym| synonym.name == name);
        start.map_or(Vec::new(), |start| found.split_off(start))
    }
}

/// The broker keys that stand for the same topic key as `name`; empty if `name` stands alone.
fn siblings(name: &str) -> &'static [Synonym] {
    TOPIC_CONFIGS
        .iter()
        .find(|entry| entry.synonyms.iter().any(|synonym| synonym.name == name))
        .map_or(&[], |entry| entry.synonyms)
}

fn broker_definition(name: &str) -> &'static Definition {
    match broker_entry(name) {
        Some(entry) => &entry.definition,
        None => panic!("no broker config {name}"),
    }
}

/// A broker default may be lower than what a topic may set (`log.retention.ms=-5` is "no limit").
fn clamp(definition: &Definition, value: i64) -> i64 {
    match definition.rule {
        super::definition::Rule::AtLeast(min) => value.max(min),
        _ => value,
    }
}

fn describe(
    definition: &Definition,
    value: Option<String>,
    synonyms: Vec<ConfigSynonym>,
    read_only: bool,
) -> ConfigEntry {
    let source = synonyms.first().map_or(Source::Default, |s| s.source);
    ConfigEntry {
        name: definition.name,
        value,
        source,
        read_only,
        kind: definition.kind.code(),
        synonyms,
        documentation: definition.doc,
    }
}
