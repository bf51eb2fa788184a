//! The index of the known traps of the protocol, G1 to G45 (client quirks, version traps, what brokers got wrong): each that concerns
//! what is served has a test that carries its number, so that nobody takes one away without noticing.
//!
//! A number is carried by a test function (`fn g17_...`), by the label of a check (`"G17: ..."`), or by the comment above a case of
//! the oracle (`# G22: ...`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Left out: transactions (G30 to G32), KIP-848 (G40) and share groups (G41), which are not served.
fn required() -> Vec<u32> {
    (1..=29).chain(33..=39).chain(42..=45).collect()
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the repo") {
        let path = entry.expect("a directory of the repo").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "__pycache__" && name != "node_modules" && name != "target" {
                files(&path, found);
            }
        } else if name != "gotchas.rs" {
            found.push(path);
        }
    }
}

/// The number at the start of a text, if it is one.
fn number(text: &str) -> Option<u32> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Numbers behind each occurrence of `mark` that are followed by `end`.
fn marked(line: &str, mark: &str, end: &str) -> Vec<u32> {
    line.match_indices(mark)
        .map(|(at, _)| &line[at + mark.len()..])
        .filter_map(|rest| {
            let found = number(rest)?;
            rest[found.to_string().len()..]
                .starts_with(end)
                .then_some(found)
        })
        .collect()
}

/// The numbers that this file's tests carry.
fn carried(path: &Path, text: &str) -> Vec<u32> {
    let kind = path.extension().unwrap_or_default().to_string_lossy();
    let mut found = Vec::new();
    let mut test = false;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let bare = line.trim_start();
        match &*kind {
            "rs" => {
                // Behind #[test], and whatever other attributes stand between.
                test |= bare == "#[test]" || bare.starts_with("proptest!");
                if bare.starts_with("fn ") || bare.starts_with("async fn ") {
                    if test {
                        found.extend(marked(bare, "fn g", "_"));
                    }
                    test = false;
                }
            }
            "case"
                if bare.starts_with("# G")
                    && lines.peek().is_some_and(|next| next.starts_with("case ")) =>
            {
                found.extend(marked(bare, "# G", ""));
            }
            // Python, some of it without an extension.
            "py" | "" if !bare.starts_with('#') => found.extend(marked(bare, "\"G", ":")),
            _ => {}
        }
    }
    found
}

#[test]
fn every_known_trap_has_a_test_that_carries_its_number() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    files(&root.join("src"), &mut paths);
    files(&root.join("tests"), &mut paths);
    let mut tests: BTreeMap<u32, usize> = BTreeMap::new();
    for path in &paths {
        // Links lead to files that are read anyway, and not all files are text.
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        for number in carried(path, &text) {
            *tests.entry(number).or_default() += 1;
        }
    }
    let missing: Vec<u32> = required()
        .into_iter()
        .filter(|number| !tests.contains_key(number))
        .collect();
    assert!(missing.is_empty(), "no test carries G{missing:?}");
}

#[test]
fn a_number_is_found_only_where_a_test_carries_it() {
    let rust = |text: &str| carried(Path::new("a.rs"), text);
    assert_eq!(rust("#[test]\nfn g17_the_wrong_node() {}"), [17]);
    assert_eq!(rust("#[test]\n#[ignore]\n    fn g3_x() {}"), [3]);
    assert!(rust("fn g17_the_wrong_node() {}").is_empty());
    assert!(rust("#[test]\nfn other() {}\nfn g17_x() {}").is_empty());
    assert!(rust("#[test]\nfn group17_x() {}\n// G17").is_empty());
    let python = |text: &str| carried(Path::new("a.py"), text);
    assert_eq!(python("with report.check(\"G7: in order\"):"), [7]);
    assert!(python("# \"G7: in order\"\nx = 'G7'").is_empty());
    let case = |text: &str| carried(Path::new("a.case"), text);
    assert_eq!(case("# G22: whole\ncase fetch for Fetch 4-18"), [22]);
    assert!(case("# G22: whole\n\ncase fetch for Fetch 4-18").is_empty());
}
