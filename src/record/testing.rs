//! Golden bytes of the tests: batches that Apache Kafka's own classes wrote (`tests/goldens/record/Goldens.java`).

use super::header::BatchHeader;

/// Every batch of `batches.txt`.
pub const KAFKA_BATCHES: [&str; 13] = [
    "none",
    "gzip",
    "snappy",
    "lz4",
    "zstd",
    "gzip-9",
    "lz4-17",
    "zstd-22",
    "zstd--5",
    "idempotent",
    "transactional",
    "control",
    "append-time",
];

/// The batch of this name.
pub fn kafka_batch(name: &str) -> Vec<u8> {
    let line = include_str!("../../tests/goldens/record/batches.txt")
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'))
        .unwrap_or_else(|| panic!("no golden batch {name}"));
    unhex(line)
}

pub fn kafka_header(name: &str) -> BatchHeader {
    BatchHeader::read(&kafka_batch(name)).expect("a golden batch has a header")
}

pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2) && text.is_ascii(), "{text}");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits"))
        .collect()
}
