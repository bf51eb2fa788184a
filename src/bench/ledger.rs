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
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sent,
    Acked,
    /// Refused by the broker, or of unknown fate: it may be read or not.
    Doubtful,
    /// Read before its answer came.
    ReadUnacked,
    /// Nothing more is expected.
    Settled,
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

#[derive(Debug, Default)]
pub struct Ledger {
    lanes: HashMap<u16, LaneEntries>,
    kept: usize,
    /// Acknowledged batches that were forgotten before they were read.
    pub forgotten: u64,
    /// Acknowledged batches that were not read yet.
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
            state: State::Sent,
        }
    }
}

impl Ledger {
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
            if oldest.state == State::Acked {
                self.forgotten += 1;
                self.unread -= 1;
            }
        }
        sequence
    }

    /// The broker has acknowledged it.
    pub fn acked(&mut self, stamp: Stamp) {
        self.change(stamp, |entry, unread| {
            entry.state = match entry.state {
                State::ReadUnacked | State::Settled => State::Settled,
                State::Sent | State::Acked | State::Doubtful => {
                    *unread += 1;
                    State::Acked
                }
            };
        });
    }

    /// The broker has refused it, or nobody knows.
    pub fn failed(&mut self, stamp: Stamp) {
        self.change(stamp, |entry, _| {
            entry.state = match entry.state {
                State::Sent | State::Acked | State::Doubtful => State::Doubtful,
                State::ReadUnacked | State::Settled => State::Settled,
            };
        });
    }

    /// A batch with this stamp and checksum was read from `partition`.
    pub fn read(&mut self, stamp: Stamp, partition: i32, crc: u32) -> ReadAs {
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
        match entry.state {
            State::Sent => entry.state = State::ReadUnacked,
            State::Acked => {
                entry.state = State::Settled;
                self.unread -= 1;
            }
            State::Doubtful => entry.state = State::Settled,
            State::ReadUnacked | State::Settled => return ReadAs::Again,
        }
        let seen = *entry;
        self.forget_settled(stamp.lane);
        ReadAs::Sent(seen)
    }

    /// Nothing will be read: what was answered is forgotten.
    pub fn settle(&mut self, stamp: Stamp) {
        self.change(stamp, |entry, _| entry.state = State::Settled);
    }

    /// Acknowledged batches that were not read, all partitions together.
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
        let Some(lane) = self.lanes.get_mut(&lane) else {
            return;
        };
        while lane
            .entries
            .front()
            .is_some_and(|e| e.state == State::Settled)
        {
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
        let mut ledger = Ledger::default();
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
    fn a_refused_batch_need_not_be_read() {
        let mut ledger = Ledger::default();
        let sequence = ledger.sent(0, |_| entry(1));
        ledger.failed(Stamp { lane: 0, sequence });
        assert_eq!(ledger.unread(), 0);
        let read = ledger.read(Stamp { lane: 0, sequence }, 0, 1);
        assert!(matches!(read, ReadAs::Sent(_)), "it may have been written");
    }
}
