//! One segment: a run of batches in one file, with its indexes.
//! Owned by `Log`; names its file by its base offset.
//! Always: batches never span segments; relative offsets fit `i32`; `max` speaks of durable batches only.
//! Whether the file exists and what was written is kept here, but moved by the writer.

use super::index::{OffsetEntry, OffsetIndex, TimeEntry, TimeIndex};
use super::{BatchFacts, LogConfig};
use crate::base::limits::BLOCK_BYTES;
use crate::base::{Now, Offset, Timestamp};

/// Where the segment's file stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileState {
    /// No file yet. -> Creating
    Absent,
    /// `Create` is under way. -> Open
    Creating,
    /// Durable in its directory, `allocated` bytes may be written. -> Sealing
    Open,
    /// `Seal` is under way. -> Sealed
    Sealing,
    /// Cut to its size, indexes on the disk; never written again.
    Sealed,
}

/// A timestamp and the last offset of the batch that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MaxTimestamp {
    pub timestamp: Timestamp,
    pub offset: Offset,
}

#[derive(Debug)]
pub(super) struct Segment {
    pub base: Offset,
    /// Bytes appended.
    pub size: u64,
    pub file: FileState,
    /// Length of the file that writes may use; a multiple of `BLOCK_BYTES`.
    pub allocated: u64,
    /// Blocks before here were written before (zeroed ahead, or recycled), apart from a gap that data fills first.
    pub zeroed_to: u64,
    /// The log rolled to it: its file must exist before older ones go, since its name keeps the offset.
    pub rolled_to: bool,
    /// Reads of the file in flight.
    pub readers: u32,
    /// Answers under way that are sent from it.
    pub holds: u32,
    created: Timestamp,
    /// Greatest timestamp of the first batch, which `segment.ms` counts from.
    first_timestamp: Timestamp,
    /// Greatest timestamp among durable batches.
    pub max: MaxTimestamp,
    appended_max: MaxTimestamp,
    bytes_since_entry: u64,
    pub offset_index: OffsetIndex,
    pub time_index: TimeIndex,
}

impl Segment {
    pub fn new(base: Offset, now: Now) -> Segment {
        let max = MaxTimestamp {
            timestamp: Timestamp::NONE,
            offset: base,
        };
        Segment {
            base,
            size: 0,
            file: FileState::Absent,
            allocated: 0,
            zeroed_to: 0,
            rolled_to: false,
            readers: 0,
            holds: 0,
            created: now.wall,
            first_timestamp: Timestamp::NONE,
            max,
            appended_max: max,
            bytes_since_entry: 0,
            offset_index: OffsetIndex::default(),
            time_index: TimeIndex::default(),
        }
    }

    /// A segment found on the disk: `size` bytes of it and these index entries are known.
    pub fn found(
        base: Offset,
        size: u64,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
        now: Now,
    ) -> Segment {
        let mut segment = Segment::new(base, now);
        segment.size = size;
        // Entries up to here exist: the next batch gets one, as it had before.
        segment.bytes_since_entry = if size > 0 { u64::from(u32::MAX) + 1 } else { 0 };
        if let Some(first) = time_index.entries().first() {
            segment.first_timestamp = Timestamp(first.timestamp);
        }
        if let Some(last) = time_index.entries().last() {
            segment.max = MaxTimestamp {
                timestamp: Timestamp(last.timestamp),
                offset: base.plus(i64::from(last.relative)),
            };
            segment.appended_max = segment.max;
        }
        segment.offset_index = offset_index;
        segment.time_index = time_index;
        segment
    }

    /// The same segment with nothing known of its bytes.
    pub fn emptied(&self) -> Segment {
        let now = Now {
            wall: self.created,
            ..Now::default()
        };
        Segment::new(self.base, now)
    }

    /// Whether this batch must go to a new segment (`LogSegment.shouldRoll`).
    pub fn must_roll(
        &self,
        config: &LogConfig,
        base: Offset,
        facts: &BatchFacts,
        now: Now,
    ) -> bool {
        if self.size == 0 {
            return false;
        }
        let last = base.plus(i64::from(facts.last_offset_delta));
        let waited_ms = if self.first_timestamp.0 >= 0 && facts.max_timestamp.0 >= 0 {
            facts.max_timestamp.0.saturating_sub(self.first_timestamp.0)
        } else {
            now.wall.0.saturating_sub(self.created.0)
        };
        self.size + u64::from(facts.size) > config.segment_bytes
            || waited_ms > config.segment_ms
            || self.offset_index.bytes() >= u64::from(config.index_bytes_max)
            || self.time_index.bytes() >= u64::from(config.index_bytes_max)
            || last.since(self.base) > i64::from(i32::MAX)
    }

    /// Takes in one batch at the end; `base` is its first offset.
    pub fn append(&mut self, config: &LogConfig, base: Offset, facts: &BatchFacts) {
        let position = self.size;
        let last = base.plus(i64::from(facts.last_offset_delta));
        if self.size == 0 {
            self.first_timestamp = facts.max_timestamp;
        }
        if facts.max_timestamp > self.appended_max.timestamp {
            self.appended_max = MaxTimestamp {
                timestamp: facts.max_timestamp,
                offset: last,
            };
        }
        if self.bytes_since_entry > u64::from(config.index_interval_bytes) {
            self.offset_index.push(OffsetEntry {
                relative: self.relative(last),
                position: u32::try_from(position).expect("segments are below 4 GiB"),
            });
            self.time_index.raise(TimeEntry {
                timestamp: self.appended_max.timestamp.0,
                relative: self.relative(self.appended_max.offset),
            });
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += u64::from(facts.size);
        self.size += u64::from(facts.size);
    }

    /// A batch became durable: its timestamp counts for lookups and retention.
    pub fn durable(&mut self, last: Offset, max_timestamp: Timestamp) {
        if max_timestamp > self.max.timestamp {
            self.max = MaxTimestamp {
                timestamp: max_timestamp,
                offset: last,
            };
        }
    }

    /// `offset` relative to the base; it must lie within the segment's reach.
    pub fn relative(&self, offset: Offset) -> u32 {
        let relative = offset.since(self.base);
        u32::try_from(relative)
            .ok()
            .filter(|r| *r <= i32::MAX as u32)
            .unwrap_or_else(|| panic!("offset {offset} is out of reach of segment {}", self.base))
    }

    /// The index files up to `position`, which is the end of the batch before `end`.
    pub fn encode_indexes(&self, position: u64, end: Offset) -> (Vec<u8>, Vec<u8>) {
        let last = TimeEntry {
            timestamp: self.max.timestamp.0,
            relative: self.relative(self.max.offset),
        };
        // `end` may be one past what a relative offset can say.
        let relative_end = u32::try_from(end.since(self.base)).unwrap_or(u32::MAX);
        (
            self.offset_index.encode(position),
            self.time_index.encode(relative_end, last),
        )
    }

    /// After sealing: fewer entries are enough, the reader scans a little further.
    pub fn thin_indexes(&mut self) {
        self.time_index.raise(TimeEntry {
            timestamp: self.max.timestamp.0,
            relative: self.relative(self.max.offset),
        });
        self.offset_index.thin(SEALED_INTERVAL_BYTES);
        self.time_index.thin(&self.offset_index);
    }

    pub fn heap_bytes(&self) -> usize {
        self.offset_index.heap_bytes() + self.time_index.heap_bytes()
    }

    /// Greatest timestamp of a segment, as retention takes it: without any, when it was made.
    pub fn newest(&self) -> Timestamp {
        if self.max.timestamp.0 >= 0 {
            self.max.timestamp
        } else {
            self.created
        }
    }
}

/// The multiple of `BLOCK_BYTES` at or below.
pub(super) fn block_down(position: u64) -> u64 {
    position / BLOCK_BYTES * BLOCK_BYTES
}

/// The multiple of `BLOCK_BYTES` at or above.
pub(super) fn block_up(position: u64) -> u64 {
    position.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// Bytes of a sealed segment between two index entries kept in memory.
const SEALED_INTERVAL_BYTES: u32 = 64 << 10;
