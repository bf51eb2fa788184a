//! Producer states as bytes: Kafka's `.snapshot` file (`ProducerSnapshot`, version 1).
//! Owned by nobody; the file is named after the offset up to which the states reach, by the log.
//! Always: what is decoded was encoded whole (CRC-32C), and no count is believed beyond the bytes that are there.
//! A damaged snapshot is no loss: the log is replayed instead.
//!
//! ```text
//! version 2 | crc 4 (of what follows) | count 4 | { id 8, epoch 2, last sequence 4, last offset 8, offset delta 4,
//!                                                   timestamp 8, coordinator epoch 4, transaction start 8 }*
//! ```

use std::fmt;

use super::entry::{BatchMeta, Entry};
use super::states::ProducerStates;
use crate::base::{Offset, ProducerEpoch, ProducerId, Timestamp};
use crate::record::NO_SEQUENCE;

/// Why bytes are no snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    Version(i16),
    Length(usize),
    Checksum {
        stored: u32,
        computed: u32,
    },
    /// A producer whose values cannot be.
    Entry(ProducerId),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Version(version) => write!(f, "unknown version {version}"),
            SnapshotError::Length(bytes) => write!(f, "{bytes} bytes don't fit the count"),
            SnapshotError::Checksum { stored, computed } => {
                write!(f, "checksum {stored:#010x}, computed {computed:#010x}")
            }
            SnapshotError::Entry(id) => write!(f, "impossible values of producer {id}"),
        }
    }
}

impl ProducerStates {
    /// The content of a `.snapshot` file, producers in the order of their ids. Of the batches it has the last one each.
    pub fn encode_snapshot(&self) -> Vec<u8> {
        let mut entries: Vec<&Entry> = self.entries().collect();
        entries.sort_unstable_by_key(|entry| entry.id);
        let mut out = Vec::with_capacity(HEAD_BYTES + entries.len() * ENTRY_BYTES);
        out.extend(VERSION.to_be_bytes());
        out.extend([0; 4]);
        out.extend((entries.len() as i32).to_be_bytes());
        for entry in entries {
            let last = entry.batches().last();
            out.extend(entry.id.0.to_be_bytes());
            out.extend(entry.epoch.0.to_be_bytes());
            out.extend(entry.last_sequence().to_be_bytes());
            out.extend(last.map_or(Offset::NONE, |b| b.last_offset).0.to_be_bytes());
            out.extend(last.map_or(0, |b| b.offset_delta).to_be_bytes());
            out.extend(entry.last_timestamp.0.to_be_bytes());
            out.extend(entry.coordinator_epoch.to_be_bytes());
            let start = entry.transaction_start.unwrap_or(Offset::NONE);
            out.extend(start.0.to_be_bytes());
        }
        let crc = crc32c::crc32c(&out[CRC_COVERS_FROM..]);
        out[2..CRC_COVERS_FROM].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads what `encode_snapshot` or Kafka wrote. A restart counts as having heard of everybody at `now`: a producer that
    /// is in the middle of something when the broker restarts must not be forgotten for the age of its records.
    pub fn decode_snapshot(bytes: &[u8], now: Timestamp) -> Result<ProducerStates, SnapshotError> {
        let length = SnapshotError::Length(bytes.len());
        let mut reader = bytes;
        let version = i16::from_be_bytes(take(&mut reader).ok_or(length)?);
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let stored = u32::from_be_bytes(take(&mut reader).ok_or(length)?);
        let computed = crc32c::crc32c(reader);
        if stored != computed {
            return Err(SnapshotError::Checksum { stored, computed });
        }
        let count = i32::from_be_bytes(take(&mut reader).ok_or(length)?);
        let fits =
            usize::try_from(count).is_ok_and(|n| n.checked_mul(ENTRY_BYTES) == Some(reader.len()));
        if !fits {
            return Err(length);
        }
        let mut entries = Vec::with_capacity(reader.len() / ENTRY_BYTES);
        while !reader.is_empty() {
            entries.push(decode_entry(&mut reader, now).ok_or(length)??);
        }
        // Who wrote last by its own account is the last to give way.
        entries.sort_by_key(|entry| entry.last_timestamp);
        let mut states = ProducerStates::default();
        for entry in entries {
            states.restore(entry);
        }
        Ok(states)
    }
}

fn decode_entry(reader: &mut &[u8], now: Timestamp) -> Option<Result<Entry, SnapshotError>> {
    let id = ProducerId(i64::from_be_bytes(take(reader)?));
    let epoch = ProducerEpoch(i16::from_be_bytes(take(reader)?));
    let last_sequence = i32::from_be_bytes(take(reader)?);
    let last_offset = Offset(i64::from_be_bytes(take(reader)?));
    let offset_delta = i32::from_be_bytes(take(reader)?);
    let timestamp = Timestamp(i64::from_be_bytes(take(reader)?));
    let coordinator_epoch = i32::from_be_bytes(take(reader)?);
    let transaction_start = Offset(i64::from_be_bytes(take(reader)?));
    let mut entry = Entry::new(id);
    entry.epoch = epoch;
    if last_offset >= Offset::ZERO {
        if offset_delta < 0
            || i64::from(offset_delta) > last_offset.0
            || last_sequence < NO_SEQUENCE
        {
            return Some(Err(SnapshotError::Entry(id)));
        }
        let batch = BatchMeta {
            last_sequence,
            offset_delta,
            last_offset,
            timestamp,
        };
        entry.add(epoch, batch);
    }
    entry.last_timestamp = timestamp;
    entry.last_seen = now;
    entry.coordinator_epoch = coordinator_epoch;
    entry.transaction_start = (transaction_start >= Offset::ZERO).then_some(transaction_start);
    Some(Ok(entry))
}

fn take<const N: usize>(reader: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = reader.split_first_chunk()?;
    *reader = rest;
    Some(*taken)
}

const VERSION: i16 = 1;
const CRC_COVERS_FROM: usize = 6;
const HEAD_BYTES: usize = 10;
const ENTRY_BYTES: usize = 46;
