//! The idempotent producers of one partition: what their next batch must be, and what to say to a repeated one.
//! Owned by one partition; empty it is a null pointer.
//! Always: at most `PRODUCERS_PER_PARTITION_MAX` producers; the order of the list is the order of `last_seen`.
//! Checks of a batch on its own (a sequence without a producer id) are `record::check`'s.
//!
//! As in Kafka (KIP-360) a producer that is not known may start at any sequence, and moving the log start forgets nobody.
//! A producer expires by our clock, not by the timestamps its records claim: old records written now are no old producer.

use std::collections::HashMap;

use super::entry::{BatchMeta, Entry};
use crate::base::{ErrorCode, Offset, ProducerEpoch, ProducerId, Timestamp, limits};
use crate::record::BatchHeader;

/// All producers of a partition.
#[derive(Clone, Debug, Default)]
pub struct ProducerStates {
    inner: Option<Box<Inner>>,
}

/// What a batch is to its producer's history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// To be appended.
    New,
    /// Appended before: the answer is that of the first time, with the largest timestamp of the batch as append time
    /// (whatever the timestamp type, as Kafka answers).
    Duplicate {
        base_offset: Offset,
        last_offset: Offset,
        timestamp: Timestamp,
    },
}

/// Why a batch may not be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequenceError {
    /// A newer instance of the producer has written.
    StaleEpoch {
        id: ProducerId,
        epoch: ProducerEpoch,
        known: ProducerEpoch,
    },
    /// Batches are missing before this one.
    Gap {
        id: ProducerId,
        epoch: ProducerEpoch,
        sequence: i32,
        /// The last sequence of the known epoch, -1 if there is none.
        last: i32,
    },
    /// A transactional batch outside a transaction.
    NoTransaction { id: ProducerId },
}

impl SequenceError {
    pub fn code(&self) -> ErrorCode {
        match self {
            SequenceError::StaleEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            SequenceError::Gap { .. } => ErrorCode::OutOfOrderSequenceNumber,
            SequenceError::NoTransaction { .. } => ErrorCode::InvalidTxnState,
        }
    }
}

impl std::fmt::Display for SequenceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SequenceError::StaleEpoch { id, epoch, known } => {
                write!(
                    f,
                    "producer {id} has epoch {known}, this batch is of {epoch}"
                )
            }
            SequenceError::Gap {
                id,
                epoch,
                sequence,
                last,
            } => write!(
                f,
                "producer {id} (epoch {epoch}) sent sequence {sequence}, the last known is {last}"
            ),
            SequenceError::NoTransaction { id } => {
                write!(f, "producer {id} has no ongoing transaction here")
            }
        }
    }
}

/// One line of DescribeProducers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActiveProducer {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
    pub last_sequence: i32,
    pub last_timestamp: Timestamp,
    pub coordinator_epoch: i32,
    pub transaction_start: Option<Offset>,
}

impl ProducerStates {
    /// Judges a batch of a client, before it is appended. Changes nothing.
    pub fn check(&self, header: &BatchHeader) -> Result<Verdict, SequenceError> {
        if !header.has_producer_id() {
            return Ok(Verdict::New);
        }
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        let known = self.inner.as_ref().and_then(|inner| inner.get(id));
        if let Some(batch) = known.and_then(|entry| entry.duplicate_of(header)) {
            return Ok(Verdict::Duplicate {
                base_offset: batch.first_offset(),
                last_offset: batch.last_offset,
                timestamp: batch.timestamp,
            });
        }
        let in_transaction = known.is_some_and(|entry| entry.transaction_start.is_some());
        if header.is_transactional() && !in_transaction {
            return Err(SequenceError::NoTransaction { id });
        }
        let (known_epoch, last) = known.map_or((ProducerEpoch::NONE, -1), |entry| {
            (entry.epoch, entry.last_sequence())
        });
        if epoch < known_epoch {
            return Err(SequenceError::StaleEpoch {
                id,
                epoch,
                known: known_epoch,
            });
        }
        let follows = if known_epoch == ProducerEpoch::NONE {
            true
        } else if epoch != known_epoch {
            header.base_sequence == 0
        } else {
            header.base_sequence == next_sequence(last)
        };
        if follows {
            Ok(Verdict::New)
        } else {
            Err(SequenceError::Gap {
                id,
                epoch,
                sequence: header.base_sequence,
                last,
            })
        }
    }

    /// Remembers a batch that was appended at `base_offset`, or is found in the log at recovery. `now` is our clock's.
    pub fn update(&mut self, header: &BatchHeader, base_offset: Offset, now: Timestamp) {
        if !header.has_producer_id() {
            return;
        }
        let inner = self.inner.get_or_insert_default();
        let entry = inner.touch(header.producer_id);
        entry.last_seen = now;
        if header.is_control() {
            // The end of a transaction: only the epoch lives on.
            entry.set_epoch(header.producer_epoch);
            entry.transaction_start = None;
            entry.last_timestamp = header.max_timestamp;
            return;
        }
        let batch = BatchMeta {
            last_sequence: header.last_sequence(),
            offset_delta: header.last_offset_delta,
            last_offset: base_offset.plus(header.last_offset_delta.into()),
            timestamp: header.max_timestamp,
        };
        entry.add(header.producer_epoch, batch);
        if header.is_transactional() && entry.transaction_start.is_none() {
            entry.transaction_start = Some(base_offset);
        }
    }

    /// Forgets who was not heard of for `expiration_ms` (`producer.id.expiration.ms`). Returns how many.
    pub fn expire(&mut self, now: Timestamp, expiration_ms: i64) -> usize {
        let Some(inner) = &mut self.inner else {
            return 0;
        };
        let before = inner.index.len();
        let mut at = inner.oldest;
        while at != NOBODY {
            let slot = &inner.slots[at as usize];
            if now.0.saturating_sub(slot.entry.last_seen.0) < expiration_ms {
                break;
            }
            let newer = slot.newer;
            if slot.entry.transaction_start.is_none() {
                inner.remove(at);
            }
            at = newer;
        }
        let expired = before - inner.index.len();
        if inner.index.is_empty() {
            self.inner = None;
        }
        expired
    }

    pub fn len(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.index.len())
    }

    pub fn is_empty(&self) -> bool {
        self.inner.is_none()
    }

    /// Everybody known, the one heard of longest ago first.
    pub fn active(&self) -> impl Iterator<Item = ActiveProducer> + '_ {
        self.entries().map(|entry| ActiveProducer {
            id: entry.id,
            epoch: entry.epoch,
            last_sequence: entry.last_sequence(),
            last_timestamp: entry.last_timestamp,
            coordinator_epoch: entry.coordinator_epoch,
            transaction_start: entry.transaction_start,
        })
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> + '_ {
        let inner = self.inner.as_deref();
        let mut at = inner.map_or(NOBODY, |inner| inner.oldest);
        std::iter::from_fn(move || {
            let slot = inner?.slots.get(at as usize)?;
            at = slot.newer;
            Some(&slot.entry)
        })
    }

    /// Takes over an entry of a snapshot as the one heard of last.
    pub(super) fn restore(&mut self, entry: Entry) {
        let id = entry.id;
        *self.inner.get_or_insert_default().touch(id) = entry;
    }
}

/// 2147483647 is followed by 0; without a last sequence (-1) the first is 0.
fn next_sequence(last: i32) -> i32 {
    last.checked_add(1).unwrap_or(0)
}

/// Slots linked from the one heard of longest ago to the newest.
#[derive(Clone, Debug)]
struct Inner {
    index: HashMap<ProducerId, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

#[derive(Clone, Debug)]
struct Slot {
    entry: Entry,
    older: u32,
    newer: u32,
}

const NOBODY: u32 = u32::MAX;

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NOBODY,
            newest: NOBODY,
        }
    }
}

impl Inner {
    fn get(&self, id: ProducerId) -> Option<&Entry> {
        let &at = self.index.get(&id)?;
        Some(&self.slots[at as usize].entry)
    }

    /// The entry of a producer, made if need be, as the newest. The oldest gives way when there are too many.
    fn touch(&mut self, id: ProducerId) -> &mut Entry {
        let at = match self.index.get(&id) {
            Some(&at) => {
                self.unlink(at);
                at
            }
            None => {
                if self.index.len() >= limits::PRODUCERS_PER_PARTITION_MAX {
                    self.remove(self.oldest);
                }
                let at = self.place(Entry::new(id));
                self.index.insert(id, at);
                at
            }
        };
        self.link_newest(at);
        &mut self.slots[at as usize].entry
    }

    fn place(&mut self, entry: Entry) -> u32 {
        let slot = Slot {
            entry,
            older: NOBODY,
            newer: NOBODY,
        };
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.index.remove(&self.slots[at as usize].entry.id);
        self.free.push(at);
    }

    fn unlink(&mut self, at: u32) {
        let (older, newer) = {
            let slot = &self.slots[at as usize];
            (slot.older, slot.newer)
        };
        match older {
            NOBODY => self.oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
        match newer {
            NOBODY => self.newest = older,
            _ => self.slots[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let before = self.newest;
        match before {
            NOBODY => self.oldest = at,
            _ => self.slots[before as usize].newer = at,
        }
        let slot = &mut self.slots[at as usize];
        slot.older = before;
        slot.newer = NOBODY;
        self.newest = at;
    }
}

#[cfg(test)]
#[path = "states_tests.rs"]
mod tests;
