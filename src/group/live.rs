//! What is still true of a coordinator's records: the last of each key, without those that a tombstone took back.
//! Made by whoever shortens the log, from a replay of it.
//! Always: replaying the log and then its live records, all or some first ones, gives the state that the log alone gives; so do
//! the live records alone (but for a group that holds nothing any more).
//! When to shorten a log, and how, is the caller's.

use std::collections::HashMap;

use crate::base::{Offset, Timestamp};

/// The live records of a log up to some offset.
#[derive(Debug, Default)]
pub struct LiveRecords {
    by_key: HashMap<Vec<u8>, Last>,
    bytes: u64,
}

#[derive(Debug)]
struct Last {
    offset: Offset,
    timestamp: Timestamp,
    value: Vec<u8>,
}

/// The last record of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRecord {
    pub offset: Offset,
    pub timestamp: Timestamp,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl LiveRecords {
    /// Takes the next record of the log. One without a key is nobody's and does not live on, as in Kafka's cleaner.
    pub fn take(
        &mut self,
        offset: Offset,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        let Some(key) = key else {
            return;
        };
        let before = match value {
            None => self.by_key.remove(key),
            Some(value) => {
                let last = Last {
                    offset,
                    timestamp,
                    value: value.to_vec(),
                };
                self.bytes += record_bytes(key, value);
                self.by_key.insert(key.to_vec(), last)
            }
        };
        self.bytes -= before.map_or(0, |last| record_bytes(key, &last.value));
    }

    /// About as many bytes as they will have in a log.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The records in the order of their offsets.
    pub fn into_records(self) -> Vec<LiveRecord> {
        let live = self.by_key.into_iter().map(|(key, last)| LiveRecord {
            offset: last.offset,
            timestamp: last.timestamp,
            key,
            value: last.value,
        });
        let mut records: Vec<_> = live.collect();
        records.sort_unstable_by_key(|record| record.offset);
        records
    }
}

impl LiveRecord {
    /// About as many bytes as it has in a batch.
    pub fn bytes(&self) -> u64 {
        record_bytes(&self.key, &self.value)
    }
}

fn record_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + RECORD_FRAME_BYTES
}

/// Lengths, deltas and attributes of a record.
const RECORD_FRAME_BYTES: u64 = 16;
