//! Kafka's message definitions, read from its jars: JSON with `//` comments.
//! Always: fails where the jars are missing; a test that compares with nothing is none.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

/// Jars that hold definitions of messages we declare, and the folder in them.
const SOURCES: &[(&str, &str)] = &[
    ("kafka-clients-4.4.0.jar", "common/message/"),
    ("kafka-group-coordinator-4.4.0.jar", "common/message/"),
    ("kafka-metadata-4.4.0.jar", "common/metadata/"),
];

/// Every definition by the name of its message.
pub fn read() -> HashMap<String, Value> {
    let folder = folder();
    let mut definitions = HashMap::new();
    for (jar, inside) in SOURCES {
        let path = folder.join(jar);
        let file = File::open(&path).unwrap_or_else(|error| {
            panic!(
                "{}: {error}; set KAFKA_LIBS to the folder of Kafka's jars, or install them with tests/install/kafka",
                path.display()
            )
        });
        let mut archive = zip::ZipArchive::new(file).expect("a jar is a zip file");
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).expect("an entry of the jar");
            if entry.name().starts_with(inside) && entry.name().ends_with(".json") {
                let mut text = String::new();
                entry.read_to_string(&mut text).expect("UTF-8");
                let definition: Value = serde_json::from_str(&without_comments(&text))
                    .unwrap_or_else(|error| panic!("{}: {error}", entry.name()));
                let name = definition["name"].as_str().expect("a name").to_string();
                definitions.insert(name, definition);
            }
        }
    }
    definitions
}

fn folder() -> PathBuf {
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

/// The text without `//` comments; those inside strings stay.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let mut in_string = false;
        let mut previous = ' ';
        for (at, c) in line.char_indices() {
            if c == '"' && previous != '\\' {
                in_string = !in_string;
            }
            if !in_string && line[at..].starts_with("//") {
                break;
            }
            kept.push(c);
            previous = c;
        }
        kept.push('\n');
    }
    kept
}
