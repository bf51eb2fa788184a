//! Sparse indexes of one segment: offset -> file position, timestamp -> offset.
//! Owned by `Segment`; bytes are Kafka's `.index` (8-byte entries) and `.timeindex` (12-byte entries).
//! Always: entries rise strictly; an offset entry is (last offset of a batch, where that batch starts), as Kafka writes it.
//! Only a hint: a reader verifies the batch it finds there; the log's end is never taken from an index.

/// One offset entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OffsetEntry {
    /// Last offset of the batch, relative to the segment's base.
    pub relative: u32,
    /// Where the batch starts in the file.
    pub position: u32,
}

/// Offset -> position (Kafka's `OffsetIndex`).
#[derive(Default, Debug)]
pub(super) struct OffsetIndex {
    entries: Vec<OffsetEntry>,
}

impl OffsetIndex {
    pub fn push(&mut self, entry: OffsetEntry) {
        if let Some(last) = self.entries.last() {
            assert!(
                entry.relative > last.relative && entry.position > last.position,
                "index entry {entry:?} after {last:?}"
            );
        }
        self.entries.push(entry);
    }

    pub fn bytes(&self) -> u64 {
        self.entries.len() as u64 * OFFSET_ENTRY_BYTES as u64
    }

    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<OffsetEntry>()
    }

    /// The last entry at or before `relative`.
    pub fn lookup(&self, relative: u32) -> Option<OffsetEntry> {
        let after = self.entries.partition_point(|e| e.relative <= relative);
        after.checked_sub(1).map(|at| self.entries[at])
    }

    /// The last entry whose batch starts at or before `position`.
    pub fn lookup_position(&self, position: u64) -> Option<OffsetEntry> {
        let after = self
            .entries
            .partition_point(|e| u64::from(e.position) <= position);
        after.checked_sub(1).map(|at| self.entries[at])
    }

    /// Keeps the entries whose batch starts before `position`.
    pub fn truncate_at(&mut self, position: u64) {
        let keep = self
            .entries
            .partition_point(|e| u64::from(e.position) < position);
        self.entries.truncate(keep);
    }

    /// Keeps about one entry per `interval` bytes of the file.
    pub fn thin(&mut self, interval: u32) {
        let mut last = 0u32;
        self.entries.retain(|e| {
            let keep = e.position - last >= interval;
            if keep {
                last = e.position;
            }
            keep
        });
        self.entries.shrink_to_fit();
    }

    /// The bytes of `.index`, of entries whose batch starts before `limit`.
    pub fn encode(&self, limit: u64) -> Vec<u8> {
        self.entries
            .iter()
            .take_while(|e| u64::from(e.position) < limit)
            .flat_map(|e| {
                let mut bytes = [0u8; OFFSET_ENTRY_BYTES];
                bytes[..4].copy_from_slice(&e.relative.to_be_bytes());
                bytes[4..].copy_from_slice(&e.position.to_be_bytes());
                bytes
            })
            .collect()
    }

    /// Reads `.index`; `None` unless whole, strictly rising and inside a file of `length` bytes.
    pub fn decode(bytes: &[u8], length: u64) -> Option<OffsetIndex> {
        if !bytes.len().is_multiple_of(OFFSET_ENTRY_BYTES) {
            return None;
        }
        let mut entries: Vec<OffsetEntry> = Vec::with_capacity(bytes.len() / OFFSET_ENTRY_BYTES);
        for chunk in bytes.chunks_exact(OFFSET_ENTRY_BYTES) {
            let entry = OffsetEntry {
                relative: be_u32(&chunk[..4]),
                position: be_u32(&chunk[4..]),
            };
            let rises = entries
                .last()
                .is_none_or(|l| entry.relative > l.relative && entry.position > l.position);
            let inside = u64::from(entry.position) < length && entry.relative <= i32::MAX as u32;
            if !rises || !inside {
                return None;
            }
            entries.push(entry);
        }
        Some(OffsetIndex { entries })
    }
}

/// One time entry: no record up to `relative` has a timestamp above `timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TimeEntry {
    pub timestamp: i64,
    /// Last offset of the batch with that timestamp, relative to the segment's base.
    pub relative: u32,
}

/// Timestamp -> offset (Kafka's `TimeIndex`).
#[derive(Default, Debug)]
pub(super) struct TimeIndex {
    entries: Vec<TimeEntry>,
}

impl TimeIndex {
    /// Adds the entry if its timestamp is above the last one's.
    pub fn raise(&mut self, entry: TimeEntry) {
        match self.entries.last() {
            Some(last) if entry.timestamp <= last.timestamp => {}
            Some(last) if entry.relative < last.relative => {
                panic!("time entry {entry:?} after {last:?}")
            }
            _ if entry.timestamp < 0 => {}
            _ => self.entries.push(entry),
        }
    }

    pub fn entries(&self) -> &[TimeEntry] {
        &self.entries
    }

    pub fn bytes(&self) -> u64 {
        self.entries.len() as u64 * TIME_ENTRY_BYTES as u64
    }

    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<TimeEntry>()
    }

    /// The last entry with a timestamp at or below `timestamp`.
    pub fn lookup(&self, timestamp: i64) -> Option<TimeEntry> {
        let after = self.entries.partition_point(|e| e.timestamp <= timestamp);
        after.checked_sub(1).map(|at| self.entries[at])
    }

    /// Keeps the entries at or before `relative`.
    pub fn truncate_after(&mut self, relative: u32) {
        let keep = self.entries.partition_point(|e| e.relative <= relative);
        self.entries.truncate(keep);
    }

    /// Keeps, for each offset entry, the last time entry at or before it, and the very last.
    pub fn thin(&mut self, offsets: &OffsetIndex) {
        let mut kept: Vec<TimeEntry> = Vec::with_capacity(offsets.entries.len() + 1);
        for offset in &offsets.entries {
            let after = self
                .entries
                .partition_point(|e| e.relative <= offset.relative);
            if let Some(entry) = after.checked_sub(1).map(|at| self.entries[at])
                && kept.last() != Some(&entry)
            {
                kept.push(entry);
            }
        }
        if let Some(&last) = self.entries.last()
            && kept.last() != Some(&last)
        {
            kept.push(last);
        }
        self.entries = kept;
    }

    /// The bytes of `.timeindex`: entries before `relative_end`, then `last` if it rises above them.
    pub fn encode(&self, relative_end: u32, last: TimeEntry) -> Vec<u8> {
        let inside = self
            .entries
            .partition_point(|e| e.relative < relative_end && e.timestamp < last.timestamp);
        let mut bytes = Vec::with_capacity((inside + 1) * TIME_ENTRY_BYTES);
        let tail = (last.timestamp >= 0).then_some(&last);
        for entry in self.entries[..inside].iter().chain(tail) {
            bytes.extend_from_slice(&entry.timestamp.to_be_bytes());
            bytes.extend_from_slice(&entry.relative.to_be_bytes());
        }
        bytes
    }

    /// Reads `.timeindex`; `None` unless whole and rising.
    pub fn decode(bytes: &[u8]) -> Option<TimeIndex> {
        if !bytes.len().is_multiple_of(TIME_ENTRY_BYTES) {
            return None;
        }
        let mut entries: Vec<TimeEntry> = Vec::with_capacity(bytes.len() / TIME_ENTRY_BYTES);
        for chunk in bytes.chunks_exact(TIME_ENTRY_BYTES) {
            let entry = TimeEntry {
                timestamp: i64::from_be_bytes(chunk[..8].try_into().expect("8 bytes")),
                relative: be_u32(&chunk[8..]),
            };
            let rises = entries
                .last()
                .is_none_or(|l| entry.timestamp > l.timestamp && entry.relative >= l.relative);
            if !rises || entry.timestamp < 0 || entry.relative > i32::MAX as u32 {
                return None;
            }
            entries.push(entry);
        }
        Some(TimeIndex { entries })
    }
}

fn be_u32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("4 bytes"))
}

const OFFSET_ENTRY_BYTES: usize = 8;
const TIME_ENTRY_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(list: &[(u32, u32)]) -> OffsetIndex {
        let mut index = OffsetIndex::default();
        for &(relative, position) in list {
            index.push(OffsetEntry { relative, position });
        }
        index
    }

    #[test]
    fn lookup_gives_the_last_entry_at_or_before() {
        let index = offsets(&[(5, 100), (9, 5000)]);
        assert_eq!(index.lookup(4), None);
        assert_eq!(index.lookup(5).unwrap().position, 100);
        assert_eq!(index.lookup(8).unwrap().position, 100);
        assert_eq!(index.lookup(1000).unwrap().position, 5000);
        assert_eq!(index.lookup_position(99), None);
        assert_eq!(index.lookup_position(100).unwrap().relative, 5);
    }

    #[test]
    fn index_bytes_are_kafkas() {
        // Golden: OffsetIndex.append writes relative offset, then position, both big-endian int32.
        let index = offsets(&[(1, 2), (0x0102_0304, 0x0a0b_0c0d)]);
        let bytes = index.encode(u64::MAX);
        assert_eq!(
            bytes,
            [0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 0x0a, 0x0b, 0x0c, 0x0d]
        );
        let again = OffsetIndex::decode(&bytes, 0x0a0b_0c0e).unwrap();
        assert_eq!(again.entries, index.entries);
        assert_eq!(index.encode(0x0a0b_0c0d).len(), 8);
    }

    #[test]
    fn damaged_index_is_refused() {
        let bytes = offsets(&[(1, 2), (3, 4)]).encode(u64::MAX);
        assert!(OffsetIndex::decode(&bytes[..15], 100).is_none());
        assert!(
            OffsetIndex::decode(&bytes, 4).is_none(),
            "position past the end"
        );
        let mut swapped = bytes[8..].to_vec();
        swapped.extend_from_slice(&bytes[..8]);
        assert!(OffsetIndex::decode(&swapped, 100).is_none());
        assert!(
            OffsetIndex::decode(&[0; 16], 100).is_none(),
            "zero padding does not rise"
        );
    }

    #[test]
    fn thinning_keeps_one_entry_per_interval() {
        let mut index = offsets(&(1..=100u32).map(|i| (i * 10, i * 4096)).collect::<Vec<_>>());
        index.thin(65536);
        assert_eq!(index.entries.len(), 6);
        assert_eq!(
            index.lookup(170).unwrap(),
            OffsetEntry {
                relative: 160,
                position: 65536
            }
        );
    }

    #[test]
    fn time_index_rises_and_thins_without_losing_the_greatest() {
        let mut times = TimeIndex::default();
        for (timestamp, relative) in [(-1, 0), (100, 1), (100, 2), (90, 3), (200, 25), (300, 31)] {
            times.raise(TimeEntry {
                timestamp,
                relative,
            });
        }
        assert_eq!(times.entries().len(), 3);
        assert_eq!(times.lookup(99), None);
        assert_eq!(times.lookup(250).unwrap().relative, 25);
        times.thin(&offsets(&[(30, 500)]));
        assert_eq!(
            times
                .entries()
                .iter()
                .map(|e| e.timestamp)
                .collect::<Vec<_>>(),
            [200, 300]
        );
        let bytes = times.encode(
            31,
            TimeEntry {
                timestamp: 250,
                relative: 28,
            },
        );
        assert_eq!(bytes.len(), 24);
        let again = TimeIndex::decode(&bytes).unwrap();
        assert_eq!(
            again.entries()[1],
            TimeEntry {
                timestamp: 250,
                relative: 28
            }
        );
        assert!(TimeIndex::decode(&bytes[..23]).is_none());
    }
}
