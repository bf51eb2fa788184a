//! Every declaration, field by field, against the definition in Kafka's jars; what is served and advertised against the
//! versions there.

use std::collections::HashMap;
use std::path::Path;

use ringlog::wire::ApiKey;
use ringlog::wire::schema::{MessageKind, StructSchema, TypeSchema, Versions};
use serde_json::{Value, json};

use crate::messages::{self, Entry};
use crate::{definitions, random};

/// Where we differ on purpose: the difference as the test words it, and why. One that is not met fails the test.
const ALLOWED: &[(&str, &str)] = &[
    (
        "Produce: advertised 0-13, Kafka has 3-13",
        "librdkafka up to 2.11.0 turns compression off without v0; Kafka's broker says 0 as well (KAFKA-18659)",
    ),
    (
        "InitProducerId: served 0-5, Kafka has 0-6",
        "v6 (two-phase commit) is marked unstable and Kafka's broker doesn't offer it by default",
    ),
    (
        "InitProducerId: advertised 0-5, Kafka has 0-6",
        "v6 (two-phase commit) is marked unstable and Kafka's broker doesn't offer it by default",
    ),
];

#[test]
fn declarations_are_kafkas() {
    let definitions = definitions::read();
    let mut differences = Vec::new();
    for entry in messages::all() {
        match definitions.get(entry.message.name) {
            Some(definition) => differences.extend(compare(&entry, definition)),
            None => differences.push(format!("{}: Kafka has no such message", entry.message.name)),
        }
    }
    for api in ApiKey::ALL {
        differences.extend(compare_versions(*api, &definitions));
    }
    for (allowed, reason) in ALLOWED {
        let before = differences.len();
        differences.retain(|difference| difference != allowed);
        if differences.len() == before {
            differences.push(format!("not met: {allowed} ({reason})"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_declaration_is_compared() {
    let mut declared = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wire");
    for folder in [source.clone(), source.join("messages")] {
        for file in std::fs::read_dir(folder).expect("sources") {
            let path = file.expect("sources").path();
            if path.is_file() && path.file_name().is_some_and(|name| name != "macros.rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                declared.extend(text.lines().filter_map(declared_message));
            }
        }
    }
    declared.sort();
    let mut compared: Vec<String> = messages::all()
        .iter()
        .map(|entry| entry.message.name.to_string())
        .collect();
    compared.sort();
    assert_eq!(declared, compared);
}

/// The name in a line such as `request HeartbeatRequest, key 12, ...`.
fn declared_message(line: &str) -> Option<String> {
    let (kind, rest) = line.trim_start().split_once(' ')?;
    let kinds = ["request", "response", "header", "data", "record"];
    let (name, _) = rest.split_once(", ")?;
    let is_name = name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric);
    (kinds.contains(&kind) && is_name).then(|| name.to_string())
}

/// The comparison itself is tried: whatever is changed in a definition, it says so.
#[test]
fn a_changed_definition_is_noticed() {
    let definitions = definitions::read();
    let mut tried = 0;
    for entry in messages::all() {
        let definition = &definitions[entry.message.name];
        for key in ["validVersions", "flexibleVersions"] {
            let mut changed = definition.clone();
            changed[key] = json!("77+");
            assert!(!compare(&entry, &changed).is_empty(), "{key}");
        }
        let mut paths = Vec::new();
        field_paths(definition, "", &mut paths);
        for path in paths {
            for (key, value) in [
                ("name", json!("Other")),
                ("type", json!("float64")),
                ("versions", json!("77+")),
                ("nullableVersions", json!("77+")),
                ("tag", json!(77)),
                ("taggedVersions", json!("77+")),
                ("default", json!("77")),
                ("flexibleVersions", json!("0-76")),
            ] {
                let mut changed = definition.clone();
                let field = changed.pointer_mut(&path).expect("the path of a field");
                // The default of a structure can't be said in a definition.
                let is_structure = field["fields"].is_array()
                    && !field["type"].as_str().expect("a type").starts_with("[]");
                if key == "default" && is_structure {
                    continue;
                }
                field[key] = value;
                let found = compare(&entry, &changed);
                assert!(
                    !found.is_empty(),
                    "{} {path} {key} was changed unnoticed",
                    entry.message.name
                );
                tried += 1;
            }
            let mut changed = definition.clone();
            let field = changed.pointer_mut(&path).expect("the path of a field");
            field["ignorable"] = json!(!is_ignorable(field));
            assert!(!compare(&entry, &changed).is_empty(), "{path} ignorable");
        }
    }
    assert!(tried > 1_000, "only {tried} changes were tried");
}

/// JSON pointers of all fields under `at`.
fn field_paths(definition: &Value, at: &str, paths: &mut Vec<String>) {
    for list in ["fields", "commonStructs"] {
        let Some(values) = definition[list].as_array() else {
            continue;
        };
        for (index, value) in values.iter().enumerate() {
            let path = format!("{at}/{list}/{index}");
            if list == "fields" {
                paths.push(path.clone());
            }
            field_paths(value, &path, paths);
        }
    }
}

/// How the declaration differs from the definition.
fn compare(entry: &Entry, definition: &Value) -> Vec<String> {
    let name = entry.message.name;
    let mut differences = Vec::new();
    let mut check = |what: &str, ours: String, kafkas: String| {
        if ours != kafkas {
            differences.push(format!("{name}: {what} {ours}, Kafka has {kafkas}"));
        }
    };
    let kind = match definition["type"].as_str() {
        Some("request") => MessageKind::Request,
        Some("response") => MessageKind::Response,
        Some("header") => MessageKind::Header,
        Some("data") => MessageKind::Data,
        Some("coordinator-key" | "coordinator-value" | "metadata") => MessageKind::Record,
        other => panic!("{name}: type {other:?}"),
    };
    check(
        "kind",
        format!("{:?}", entry.message.kind),
        format!("{kind:?}"),
    );
    check(
        "key",
        format!("{:?}", entry.message.key.map(i64::from)),
        format!("{:?}", definition["apiKey"].as_i64()),
    );
    check(
        "versions",
        show(entry.message.versions),
        versions(&definition["validVersions"]),
    );
    check(
        "flexible",
        show(entry.message.flexible),
        versions(&definition["flexibleVersions"]),
    );
    compare_structure(
        entry.structure,
        definition,
        definition,
        name,
        &mut differences,
    );
    differences
}

fn compare_structure(
    ours: &StructSchema,
    kafkas: &Value,
    definition: &Value,
    path: &str,
    differences: &mut Vec<String>,
) {
    let fields = kafkas["fields"].as_array().expect("fields");
    if ours.fields.len() != fields.len() {
        differences.push(format!(
            "{path}: {} fields, Kafka has {}",
            ours.fields.len(),
            fields.len()
        ));
    }
    for (field, kafkas) in ours.fields.iter().zip(fields) {
        let path = format!("{path}.{}", field.name);
        let mut check = |what: &str, ours: String, kafkas: String| {
            if ours != kafkas {
                differences.push(format!("{path}: {what} {ours}, Kafka has {kafkas}"));
            }
        };
        let name = kafkas["name"].as_str().expect("a name");
        let kind = kafkas["type"].as_str().expect("a type");
        let rules = &field.rules;
        check("name", field.name.to_string(), snake_case(name));
        check("type", type_name(field.type_schema), kind.to_string());
        check(
            "versions",
            show(rules.versions),
            versions(&kafkas["versions"]),
        );
        check(
            "nullable",
            show(rules.nullable),
            versions(&kafkas["nullableVersions"]),
        );
        check(
            "tag",
            format!("{:?}", rules.tag.map(u64::from)),
            format!("{:?}", kafkas["tag"].as_u64()),
        );
        check(
            "tagged",
            show(rules.tagged),
            versions(&kafkas["taggedVersions"]),
        );
        check(
            "ignorable",
            rules.ignorable.to_string(),
            is_ignorable(kafkas).to_string(),
        );
        let inflexible = match kafkas["flexibleVersions"].as_str() {
            None => "false".to_string(),
            Some("none") => "true".to_string(),
            Some(other) => other.to_string(),
        };
        check("inflexible", rules.inflexible.to_string(), inflexible);
        if let Some(default) = default_of(field.type_schema, kafkas) {
            check("default", (field.default)(), default);
        }
        let element = match field.type_schema {
            TypeSchema::Array(element) => element,
            other => other,
        };
        if let TypeSchema::Struct(structure) = element {
            let inner = if kafkas["fields"].is_array() {
                Some(kafkas)
            } else {
                definition["commonStructs"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|common| common["name"] == structure.name)
            };
            match inner {
                Some(inner) => compare_structure(structure, inner, definition, &path, differences),
                None => differences.push(format!("{path}: Kafka has no such structure")),
            }
        }
    }
}

/// Written as a boolean here and as text there.
fn is_ignorable(field: &Value) -> bool {
    field["ignorable"] == true || field["ignorable"] == "true"
}

/// What `Debug` prints for the default of Kafka's field; `None` for a structure, whose fields have their own.
fn default_of(kind: &TypeSchema, kafkas: &Value) -> Option<String> {
    let is_nullable = !kafkas["nullableVersions"].is_null();
    let text = match &kafkas["default"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let value = match kind {
        _ if text == "null" && is_nullable => return Some("None".into()),
        TypeSchema::Struct(_) => return None,
        TypeSchema::String => format!("{text:?}"),
        TypeSchema::Records if text.is_empty() => return Some("Null".into()),
        TypeSchema::Array(_) if text.is_empty() => "[]".into(),
        TypeSchema::Bytes if text.is_empty() => "b\"\"".into(),
        TypeSchema::Uuid if text.is_empty() => "AAAAAAAAAAAAAAAAAAAAAA".into(),
        TypeSchema::Bool if text.is_empty() => "false".into(),
        TypeSchema::Float64 if text.is_empty() => "0.0".into(),
        _ if text.is_empty() => "0".into(),
        _ => match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).expect("hex").to_string(),
            None => text,
        },
    };
    Some(if is_nullable {
        format!("Some({value})")
    } else {
        value
    })
}

fn type_name(kind: &TypeSchema) -> String {
    match kind {
        TypeSchema::Bool => "bool".into(),
        TypeSchema::Int8 => "int8".into(),
        TypeSchema::Int16 => "int16".into(),
        TypeSchema::Uint16 => "uint16".into(),
        TypeSchema::Int32 => "int32".into(),
        TypeSchema::Uint32 => "uint32".into(),
        TypeSchema::Int64 => "int64".into(),
        TypeSchema::Float64 => "float64".into(),
        TypeSchema::Uuid => "uuid".into(),
        TypeSchema::String => "string".into(),
        TypeSchema::Bytes => "bytes".into(),
        TypeSchema::Records => "records".into(),
        TypeSchema::Array(element) => format!("[]{}", type_name(element)),
        TypeSchema::Struct(structure) => structure.name.into(),
    }
}

/// Served and advertised versions of an API against the definition of its request.
fn compare_versions(api: ApiKey, definitions: &HashMap<String, Value>) -> Vec<String> {
    let request = &definitions[&format!("{api:?}Request")];
    let mut differences = Vec::new();
    if request["apiKey"].as_i64() != Some(i64::from(api.key())) {
        differences.push(format!(
            "{api:?}: key {}, Kafka has {}",
            api.key(),
            request["apiKey"]
        ));
    }
    let kafkas = versions(&request["validVersions"]);
    for (what, ours) in [("served", api.served()), ("advertised", api.advertised())] {
        if show(ours) != kafkas {
            differences.push(format!(
                "{api:?}: {what} {}, Kafka has {kafkas}",
                show(ours)
            ));
        }
    }
    differences
}

/// A range in one form, whatever it was written as.
fn show(versions: Versions) -> String {
    match (versions.min, versions.max) {
        (min, max) if max < min => "none".into(),
        (min, i16::MAX) => format!("{min}+"),
        (min, max) => format!("{min}-{max}"),
    }
}

/// The same for a range of a definition.
fn versions(value: &Value) -> String {
    match value.as_str() {
        None | Some("none") => "none".into(),
        Some(text) if text.ends_with('+') || text.contains('-') => text.into(),
        Some(text) => format!("{text}-{text}"),
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Every version of every message: what was read is written as it was, tagged fields with default values aside.
#[test]
fn messages_read_from_their_schema_are_written_as_they_were() {
    let mut random = random::Random::new(random::seed());
    for entry in messages::all() {
        for version in entry.versions() {
            for _ in 0..50 {
                let sent =
                    random::message(&mut random, &entry.message, entry.structure, version, false);
                let bytes = bytes::Bytes::from(sent.bytes);
                let name = entry.message.name;
                let written = (entry.recode)(bytes.clone(), version)
                    .unwrap_or_else(|error| panic!("{name} v{version}: {error}"));
                if !sent.has_tags {
                    assert_eq!(written, bytes, "{name} v{version}");
                }
                assert_eq!(
                    (entry.print)(written, version),
                    (entry.print)(bytes, version),
                    "{name} v{version}"
                );
            }
        }
    }
}
