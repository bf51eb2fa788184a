//! The floors of the crate documentation, checked: a file imports only its own floor and lower ones, nothing below the
//! reactor is async or touches the machine, and `unsafe` stays under `src/io/`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Module, floor, and the only modules of the same floor it may import (itself aside).
const FLOORS: &[(&str, u8, &[&str])] = &[
    ("base", 0, &[]),
    ("record", 1, &["wire"]),
    ("wire", 1, &[]),
    ("log", 2, &[]),
    ("producer", 2, &[]),
    ("group", 2, &[]),
    ("metadata", 2, &[]),
    ("partition", 3, &[]),
    ("io", 4, &[]),
    ("shard", 5, &[]),
    ("server", 6, &["admin"]),
    ("admin", 6, &[]),
    ("client", 7, &["bench", "cli"]),
    ("bench", 7, &["client", "cli"]),
    ("cli", 7, &["client", "bench"]),
];

/// Words that code may contain only from this floor up.
const RESERVED: &[(u8, &str)] = &[
    (4, "async "),
    (4, ".await"),
    (4, "std::fs"),
    (4, "Instant::now"),
    (4, "SystemTime::now"),
    (4, "getrandom::"),
    (4, "std::net"),
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file without comments and without its unit tests (`#[cfg(test)]` to the end).
fn code_of(text: &str) -> String {
    let text = match text.find("#[cfg(test)]\nmod ") {
        Some(end) => &text[..end],
        None => text,
    };
    text.lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every module named after `crate::` in the code, groups (`crate::{a::b, c}`) included.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            let mut taking = true;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        found.push(std::mem::take(&mut word));
                        taking = true;
                    }
                    ':' if depth == 0 => taking = false,
                    c if taking && depth == 0 && (c.is_alphanumeric() || c == '_') => word.push(c),
                    _ => {}
                }
            }
            found.push(word);
        } else {
            found.push(
                rest.chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect(),
            );
        }
    }
    found.retain(|module| !module.is_empty());
    found
}

/// Path under `src`, module of the crate, code.
fn checked_files() -> Vec<(PathBuf, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(!files.is_empty(), "no source found under {root:?}");
    files
        .into_iter()
        .map(|path| {
            let relative = path.strip_prefix(&root).expect("under src").to_path_buf();
            let top = relative.components().next().expect("a path has a part");
            let module = top.as_os_str().to_string_lossy().replace(".rs", "");
            let code = code_of(&fs::read_to_string(&path).expect("a source file is text"));
            (relative, module, code)
        })
        .collect()
}

#[test]
fn every_file_imports_only_its_own_floor_and_lower_ones() {
    let floors: HashMap<&str, (u8, &[&str])> =
        FLOORS.iter().map(|&(m, f, same)| (m, (f, same))).collect();
    let mut wrong = Vec::new();
    for (path, module, code) in checked_files() {
        if module == "lib" || module == "main" {
            continue;
        }
        let Some(&(floor, same)) = floors.get(module.as_str()) else {
            wrong.push(format!("{}: module {module} has no floor", path.display()));
            continue;
        };
        for import in imports(&code) {
            let Some(&(other, _)) = floors.get(import.as_str()) else {
                continue; // a macro exported at the root
            };
            let allowed = other < floor
                || import == module
                || (other == floor && same.contains(&import.as_str()));
            if !allowed {
                wrong.push(format!(
                    "{} (floor {floor}) imports {import} (floor {other})",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// True if the code has the word, not a longer one that begins with it (`.await_durable`).
fn says(code: &str, word: &str) -> bool {
    let longer = |rest: &str| {
        let name = |c: char| c.is_alphanumeric() || c == '_';
        word.ends_with(name) && rest.starts_with(name)
    };
    code.match_indices(word)
        .any(|(at, _)| !longer(&code[at + word.len()..]))
}

#[test]
fn a_longer_word_is_another_one() {
    assert!(says("future.await?", ".await"));
    assert!(!says("partition.await_durable(token)", ".await"));
    assert!(says("libc::open", "libc::"));
}

#[test]
fn nothing_below_the_reactor_is_async_or_touches_the_machine() {
    let floors: HashMap<&str, u8> = FLOORS.iter().map(|&(m, f, _)| (m, f)).collect();
    let mut wrong = Vec::new();
    for (path, module, code) in checked_files() {
        let Some(&floor) = floors.get(module.as_str()) else {
            continue;
        };
        for &(lowest, word) in RESERVED {
            if floor < lowest && says(&code, word) {
                wrong.push(format!("{} (floor {floor}) uses {word:?}", path.display()));
            }
        }
        for word in ["glommio::", "io_uring::", "libc::"] {
            if module != "io" && code.contains(word) {
                wrong.push(format!("{} uses {word}, which is io's", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_stays_under_io() {
    let mut wrong = Vec::new();
    for (path, module, code) in checked_files() {
        let used = code
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .any(|word| word == "unsafe");
        if used && module != "io" {
            wrong.push(path.display().to_string());
        }
    }
    assert!(
        wrong.is_empty(),
        "unsafe outside src/io: {}",
        wrong.join(", ")
    );
}

#[test]
fn the_import_reader_sees_groups_and_paths() {
    let code = "use crate::{base::{Now, Offset}, log}; let x = crate::wire::Str::new();";
    assert_eq!(imports(code), ["base", "log", "wire"]);
}
