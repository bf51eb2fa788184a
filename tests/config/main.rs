//! The config tables compared with Kafka's own definitions, read from its jars by a small Java program.
//!
//! `KAFKA_LIBS` names the folder of Kafka's jars (else the one that `tests/install/kafka` fills). What differs on purpose is in
//! `differences.txt`, a line each with its reason; a line that is not needed fails the test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use ringlog::metadata::config::{
    BROKER_CONFIGS, BrokerLayers, ConfigMap, Definition, NOT_HONOURED, Rule, StaticConfig,
    TOPIC_CONFIGS,
};

/// What is compared of a key, by the name of the property.
type Properties = BTreeMap<&'static str, String>;
/// Keys by scope (`topic`, `broker`) and name.
type Keys = BTreeMap<(String, String), Properties>;

fn jars() -> PathBuf {
    if let Some(folder) = std::env::var_os("KAFKA_LIBS") {
        return PathBuf::from(folder);
    }
    let cache = match std::env::var_os("RINGLOG_TEST_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => {
            let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
            PathBuf::from(home).join(".cache/ringlog-tests")
        }
    };
    cache.join("kafka")
}

fn kafkas() -> Keys {
    let folder = jars();
    let output = Command::new("java")
        .arg("-cp")
        .arg(folder.join("*"))
        .arg("tests/config/Definitions.java")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("java: {error}; install a JDK, 17 or newer"));
    assert!(
        output.status.success(),
        "{}: {}; set KAFKA_LIBS to the folder of Kafka's jars, or install them with tests/install/kafka",
        folder.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [scope, name, kind, default, rule, synonyms, dynamic] = fields[..] else {
                panic!("not seven fields: {line}");
            };
            let properties = Properties::from([
                ("type", kind.to_string()),
                ("default", default.to_string()),
                ("rule", rule.to_string()),
                ("synonyms", synonyms.to_string()),
                ("dynamic", dynamic.to_string()),
            ]);
            ((scope.to_string(), name.to_string()), properties)
        })
        .collect()
}

fn ours() -> Keys {
    let mut keys = Keys::new();
    for entry in TOPIC_CONFIGS {
        let names: Vec<&str> = entry.synonyms.iter().map(|synonym| synonym.name).collect();
        let properties = properties(&entry.definition, names.join(","), false);
        keys.insert(
            ("topic".to_string(), entry.definition.name.to_string()),
            properties,
        );
    }
    for entry in BROKER_CONFIGS {
        let properties = properties(&entry.definition, String::new(), entry.dynamic);
        keys.insert(
            ("broker".to_string(), entry.definition.name.to_string()),
            properties,
        );
    }
    keys
}

fn properties(definition: &Definition, synonyms: String, dynamic: bool) -> Properties {
    Properties::from([
        ("type", definition.kind.name().to_string()),
        (
            "default",
            definition.default.unwrap_or("<none>").to_string(),
        ),
        ("rule", rule_text(definition.rule)),
        ("synonyms", synonyms),
        ("dynamic", dynamic.to_string()),
    ])
}

/// As Kafka's validators print themselves.
fn rule_text(rule: Rule) -> String {
    match rule {
        Rule::Any => String::new(),
        Rule::AtLeast(min) => format!("[{min},...]"),
        Rule::Between(min, max) => format!("[{min},...,{max}]"),
        Rule::BetweenOr(min, max, other) => format!("[{min},...,{max}] or {other}"),
        Rule::Fraction => "[0,...,1]".to_string(),
        Rule::OneOf(names) | Rule::EachOf(names) => format!("[{}]", names.join(", ")),
        Rule::ThrottledReplicas => {
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...".to_string()
        }
    }
}

/// Every difference as `scope name property: kafka=... ours=...`.
fn differences() -> Vec<String> {
    let (kafkas, ours) = (kafkas(), ours());
    let mut found = Vec::new();
    for ((scope, name), theirs) in &kafkas {
        match ours.get(&(scope.clone(), name.clone())) {
            Some(mine) => {
                for (property, value) in theirs {
                    if mine[property] != *value {
                        found.push(format!(
                            "{scope} {name} {property}: kafka={value} ours={}",
                            mine[property]
                        ));
                    }
                }
            }
            None if scope == "broker" && NOT_HONOURED.contains(&name.as_str()) => {}
            None => found.push(format!("{scope} {name} presence: kafka=yes ours=no")),
        }
    }
    for key @ (scope, name) in ours.keys() {
        if !kafkas.contains_key(key) {
            found.push(format!("{scope} {name} presence: kafka=no ours=yes"));
        }
    }
    for name in NOT_HONOURED {
        let key = ("broker".to_string(), name.to_string());
        if !kafkas.contains_key(&key) || ours.contains_key(&key) {
            found.push(format!("broker {name} presence: listed as not honoured"));
        }
    }
    found
}

#[test]
fn tables_are_kafkas_but_for_the_listed_differences() {
    let mut allowed: Vec<&str> = Vec::new();
    for line in include_str!("differences.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (difference, reason) = line
            .split_once(" | ")
            .unwrap_or_else(|| panic!("no reason in: {line}"));
        assert!(!reason.trim().is_empty(), "no reason in: {line}");
        allowed.push(difference.trim());
    }
    let found = differences();
    let unlisted: Vec<&String> = found
        .iter()
        .filter(|d| !allowed.contains(&d.as_str()))
        .collect();
    assert!(unlisted.is_empty(), "not in differences.txt: {unlisted:#?}");
    let unused: Vec<&&str> = allowed
        .iter()
        .filter(|a| !found.iter().any(|d| d == **a))
        .collect();
    assert!(
        unused.is_empty(),
        "not needed in differences.txt: {unused:#?}"
    );
}

#[test]
fn tables_are_sorted_and_documented() {
    let definitions = TOPIC_CONFIGS.iter().map(|entry| &entry.definition);
    let topics: Vec<&str> = definitions.clone().map(|d| d.name).collect();
    assert!(topics.is_sorted_by(|a, b| a < b), "{topics:?}");
    let brokers: Vec<&str> = BROKER_CONFIGS.iter().map(|e| e.definition.name).collect();
    assert!(brokers.is_sorted_by(|a, b| a < b), "{brokers:?}");
    assert!(NOT_HONOURED.is_sorted_by(|a, b| a < b));
    for definition in definitions.chain(BROKER_CONFIGS.iter().map(|entry| &entry.definition)) {
        assert!(definition.doc.ends_with('.'), "{}", definition.name);
        // Reads the default by the key's own rule.
        definition.default_value();
    }
}

/// A topic without overrides, on a broker where nothing is set, has the defaults of the topic table.
#[test]
fn broker_defaults_agree_with_topic_defaults() {
    let (none, statics) = (ConfigMap::new(), StaticConfig::default());
    let layers = BrokerLayers {
        node: &none,
        default: &none,
        statics: &statics,
    };
    for entry in layers.describe_topic(&none) {
        let table = TOPIC_CONFIGS
            .iter()
            .find(|t| t.definition.name == entry.name);
        let default = table.expect("from the table").definition.default_value();
        assert_eq!(
            entry.value,
            default.map(|value| value.to_string()),
            "{}",
            entry.name
        );
    }
}
