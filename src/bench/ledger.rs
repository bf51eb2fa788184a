//! What was sent and what became of it, batch by batch: the memory that reading is checked against.
//! One per load core, shared by the connections that send to its partitions and the tasks that read them.
//! Always: a batch is known by its connection and count (`Stamp`); it is forgotten once it was read, or when there are too many, which is counted.
//! Looking at bytes is `verify`'s.

use std::collections::{HashMap, VecDeque};

use super::template::Stamp;

/// One batch on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub intended: u64,
    pub crc: u32,
    pub records: u32,
    pub partition: i32,
    pub measured: bool,
    answer: Answer,
    /// By how many it was read.
    reads: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    None,
    Acked,
    /// Refused by the broker, or of unknown fate: it may be read or not.
    Doubtful,
    /// Nobody will read it.
    NotAwaited,
}

/// What reading a batch has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAs {
    /// As it was sent, for the first time.
    Sent(Entry),
    /// Not what was sent under this stamp, or nothing was.
    Different,
    /// Read before, or forgotten.
    Again,
    /// Nobody here has sent it.
    Foreign,
}

#[derive(Debug)]
pub struct Ledger {
    lanes: HashMap<u16, LaneEntries>,
    /// How many read everything.
    readers: u16,
    kept: usize,
    /// Acknowledged batches that were forgotten before they were read.
    pub forgotten: u64,
    /// Reads of acknowledged batches that are still to come.
    unread: u64,
}

#[derive(Debug, Default)]
struct LaneEntries {
    /// Sequence of the first entry.
    first: i32,
    entries: VecDeque<Entry>,
}

/// Batches that are remembered: 40 bytes each.
const ENTRIES_MAX: usize = 8 << 20;

impl Entry {
    pub fn new(intended: u64, crc: u32, records: u32, partition: i32, measured: bool) -> Entry {
        Entry {
            intended,
            crc,
            records,
            partition,
            measured,
            answer: Answer::None,
            reads: 0,
        }
    }
}

impl Entry {
    fn is_settled(&self, readers: u16) -> bool {
        let answered = self.answer != Answer::None;
        self.answer == Answer::NotAwaited || (answered && self.reads >= readers)
    }
}

impl Ledger {
    /// Everything is read by so many.
    pub fn new(readers: u16) -> Ledger {
        Ledger {
            lanes: HashMap::new(),
            readers,
            kept: 0,
            forgotten: 0,
            unread: 0,
        }
    }

    /// Remembers the next batch of a connection and gives its sequence.
    pub fn sent(&mut self, lane: u16, entry: impl FnOnce(i32) -> Entry) -> i32 {
        let entries = self.lanes.entry(lane).or_default();
        let sequence = entries.first.wrapping_add(entries.entries.len() as i32);
        entries.entries.push_back(entry(sequence));
        self.kept += 1;
        if self.kept > ENTRIES_MAX
            && let Some(oldest) = entries.entries.pop_front()
        {
            entries.first = entries.first.wrapping_add(1);
            self.kept -= 1;
            if oldest.answer == Answer::Acked {
                self.forgotten += 1;
                self.unread -= u64::from(self.readers - oldest.reads);
            }
        }
        sequence
    }

    /// The broker has acknowledged it.
    pub fn acked(&mut self, stamp: Stamp) {
        let readers = self.readers;
        self.change(stamp, |entry, unread| {
            entry.answer = Answer::Acked;
            *unread += u64::from(readers - entry.reads);
        });
    }

    /// The broker has refused it, or nobody knows.
    pub fn failed(&mut self, stamp: Stamp) {
        self.change(stamp, |entry, _| entry.answer = Answer::Doubtful);
    }

    /// A batch with this stamp and checksum was read from `partition`.
    pub fn read(&mut self, stamp: Stamp, partition: i32, crc: u32) -> ReadAs {
        let readers = self.readers;
        let Some(lane) = self.lanes.get_mut(&stamp.lane) else {
            return ReadAs::Foreign;
        };
        let at = stamp.sequence.wrapping_sub(lane.first);
        let Some(entry) = lane.get_mut(stamp.sequence) else {
            return match at < 0 {
                true => ReadAs::Again,
                false => ReadAs::Different,
            };
        };
        if entry.crc != crc || entry.partition != partition {
            return ReadAs::Different;
        }
        if entry.reads >= readers {
            return ReadAs::Again;
        }
        entry.reads += 1;
        let seen = *entry;
        if seen.answer == Answer::Acked {
            self.unread -= 1;
        }
        self.forget_settled(stamp.lane);
        ReadAs::Sent(seen)
    }

    /// Nothing will be read: what was answered is forgotten.
    pub fn settle(&mut self, stamp: Stamp) {
        self.change(stamp, |entry, _| entry.answer = Answer::NotAwaited);
    }

    /// Reads of acknowledged batches that are still to come, all partitions together.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    fn change(&mut self, stamp: Stamp, change: impl FnOnce(&mut Entry, &mut u64)) {
        let lane = self.lanes.get_mut(&stamp.lane);
        if let Some(entry) = lane.and_then(|lane| lane.get_mut(stamp.sequence)) {
            change(entry, &mut self.unread);
        }
        self.forget_settled(stamp.lane);
    }

    fn forget_settled(&mut self, lane: u16) {
        let readers = self.readers;
        let Some(lane) = self.lanes.get_mut(&lane) else {
            return;
        };
        while lane.entries.front().is_some_and(|e| e.is_settled(readers)) {
            lane.entries.pop_front();
            lane.first = lane.first.wrapping_add(1);
            self.kept -= 1;
        }
    }
}

impl LaneEntries {
    fn get_mut(&mut self, sequence: i32) -> Option<&mut Entry> {
        let at = sequence.wrapping_sub(self.first);
        self.entries.get_mut(usize::try_from(at).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(crc: u32) -> Entry {
        Entry::new(0, crc, 1, 0, true)
    }

    #[test]
    fn a_batch_is_read_once_and_as_it_was_sent() {
        let mut ledger = Ledger::new(1);
        for crc in 0..3 {
            assert_eq!(ledger.sent(7, |_| entry(crc)), crc as i32);
        }
        let stamp = |sequence| Stamp { lane: 7, sequence };
        ledger.acked(stamp(0));
        ledger.acked(stamp(1));
        assert_eq!(ledger.unread(), 2);
        assert!(matches!(ledger.read(stamp(0), 0, 0), ReadAs::Sent(_)));
        assert_eq!(ledger.read(stamp(0), 0, 0), ReadAs::Again);
        assert_eq!(ledger.read(stamp(1), 0, 99), ReadAs::Different);
        assert_eq!(ledger.read(stamp(1), 5, 1), ReadAs::Different);
        // Read before the answer has come.
        assert!(matches!(ledger.read(stamp(2), 0, 2), ReadAs::Sent(_)));
        ledger.acked(stamp(2));
        assert_eq!(ledger.unread(), 1, "what was acknowledged and never read");
        let nobody = Stamp {
            lane: 8,
            sequence: 0,
        };
        assert_eq!(ledger.read(nobody, 0, 0), ReadAs::Foreign);
    }

    #[test]
    fn several_readers_must_each_have_it() {
        let mut ledger = Ledger::new(3);
        let sequence = ledger.sent(0, |_| entry(1));
        let stamp = Stamp { lane: 0, sequence };
        assert!(matches!(ledger.read(stamp, 0, 1), ReadAs::Sent(_)));
        ledger.acked(stamp);
        assert_eq!(ledger.unread(), 2);
        assert!(matches!(ledger.read(stamp, 0, 1), ReadAs::Sent(_)));
        assert!(matches!(ledger.read(stamp, 0, 1), ReadAs::Sent(_)));
        assert_eq!(ledger.unread(), 0);
        assert_eq!(ledger.read(stamp, 0, 1), ReadAs::Again);
    }

    #[test]
    fn a_refused_batch_need_not_be_read() {
        let mut ledger = Ledger::new(1);
        let sequence = ledger.sent(0, |_| entry(1));
        ledger.failed(Stamp { lane: 0, sequence });
        assert_eq!(ledger.unread(), 0);
        let read = ledger.read(Stamp { lane: 0, sequence }, 0, 1);
        assert!(matches!(read, ReadAs::Sent(_)), "it may have been written");
    }
}
