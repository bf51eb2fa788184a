//! Checks what is read: checksum, order of offsets, and that it is what was sent.
//! One `Checks` per reading task and one `Cursor` per partition it reads; pure.
//! Always: every batch is looked at unless verification is off, and then only headers are stepped over; a cut batch at the end is left for the next fetch.
//! What to make of the counts is `result`'s.

use std::collections::HashMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::ledger::{Ledger, ReadAs};
use super::template::Stamp;
use crate::record::{BatchCrc, BatchHeader, HEADER_BYTES, MAGIC};

/// What was found; all but the first three are faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checks {
    pub batches: u64,
    pub records: u64,
    /// Batches of others, of which only checksum and offsets are known.
    pub foreign: u64,
    /// A checksum that does not fit.
    pub damaged: u64,
    /// Offsets that were left out, counted once each.
    pub gaps: u64,
    /// Batches that came a second time.
    pub duplicates: u64,
    /// Batches of one connection in another order than they were sent.
    pub reordered: u64,
    /// Batches that are not what was sent.
    pub different: u64,
    /// Batches that were acknowledged and never came.
    pub lost: u64,
}

/// Where reading is in a partition.
#[derive(Clone, Debug)]
pub struct Cursor {
    pub partition: i32,
    pub next_offset: i64,
    /// What lies from here on is not looked at.
    pub end_offset: i64,
    /// The last count of each connection, and the largest timestamp of that batch.
    last: HashMap<u16, (i32, i64)>,
}

/// A batch in what was read.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub records: u64,
    pub wire_bytes: u64,
    /// When it was meant to be sent, if that is known and it counts.
    pub intended: Option<u64>,
}

impl Checks {
    pub fn faults(&self) -> u64 {
        self.damaged + self.gaps + self.duplicates + self.reordered + self.different + self.lost
    }

    pub fn merge(&mut self, other: &Checks) {
        self.batches += other.batches;
        self.records += other.records;
        self.foreign += other.foreign;
        self.damaged += other.damaged;
        self.gaps += other.gaps;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.different += other.different;
        self.lost += other.lost;
    }
}

impl Cursor {
    pub fn new(partition: i32, next_offset: i64) -> Cursor {
        Cursor {
            partition,
            next_offset,
            end_offset: i64::MAX,
            last: HashMap::new(),
        }
    }

    /// Ends before `end_offset`.
    #[must_use]
    pub fn until(self, end_offset: i64) -> Cursor {
        Cursor { end_offset, ..self }
    }

    /// Goes back to `offset`, to read it all again.
    pub fn rewind(&mut self, offset: i64) {
        self.next_offset = offset;
        self.last.clear();
    }
}

/// How the batches of a fetch are looked at.
pub struct Verifier<'a> {
    pub checks: &'a mut Checks,
    /// `None`: only headers are stepped over.
    pub spent_ns: Option<&'a mut u64>,
    /// What was sent, where this process has sent it.
    pub ledger: Option<&'a mut Ledger>,
}

impl Verifier<'_> {
    /// Goes through the batches of one partition and moves its cursor; an error is a length that can't be.
    pub fn read(
        &mut self,
        cursor: &mut Cursor,
        mut bytes: &[u8],
        mut each: impl FnMut(Seen),
    ) -> Result<(), String> {
        let began = Instant::now();
        while let Some(header) = BatchHeader::read(bytes) {
            let size = header.size_in_bytes();
            if size < HEADER_BYTES || header.magic != MAGIC {
                return Err(format!(
                    "partition {}: after offset {} comes a batch of length {} and magic {}, which can't be",
                    cursor.partition, cursor.next_offset, header.batch_length, header.magic
                ));
            }
            let Some((batch, rest)) = bytes.split_at_checked(size) else {
                break;
            };
            bytes = rest;
            if header.base_offset.0 >= cursor.end_offset {
                break;
            }
            let last = header.base_offset.0 + i64::from(header.last_offset_delta);
            if last < cursor.next_offset && header.base_offset.0 < cursor.next_offset {
                // A fetch may begin inside of a batch, never behind one.
                self.checks.duplicates += 1;
                continue;
            }
            let mut seen = Seen {
                records: u64::try_from(header.record_count).unwrap_or(0),
                wire_bytes: size as u64,
                intended: None,
            };
            if self.spent_ns.is_some() {
                self.check(cursor, &header, batch);
            }
            if header.has_producer_id() {
                self.checks.foreign += 1;
            } else if let Some(ledger) = self.ledger.as_deref_mut() {
                seen.intended = match ledger.read(Stamp::of(&header), cursor.partition, header.crc)
                {
                    ReadAs::Sent(entry) => entry.measured.then_some(entry.intended),
                    ReadAs::Foreign => {
                        self.checks.foreign += 1;
                        None
                    }
                    ReadAs::Different => {
                        self.checks.different += 1;
                        None
                    }
                    ReadAs::Again => {
                        self.checks.duplicates += 1;
                        None
                    }
                };
            }
            cursor.next_offset = last + 1;
            self.checks.batches += 1;
            self.checks.records += seen.records;
            each(seen);
        }
        if let Some(spent) = self.spent_ns.as_deref_mut() {
            *spent += began.elapsed().as_nanos() as u64;
        }
        Ok(())
    }

    fn check(&mut self, cursor: &mut Cursor, header: &BatchHeader, batch: &[u8]) {
        if BatchCrc::of(batch) != header.crc {
            self.checks.damaged += 1;
        }
        if header.base_offset.0 > cursor.next_offset {
            self.checks.gaps += 1;
        }
        // A batch of a real producer has an id and no count of ours.
        let stamp = Stamp::of(header);
        if header.has_producer_id() || stamp.sequence < 0 {
            return;
        }
        let time = header.max_timestamp.0;
        let before = cursor.last.insert(stamp.lane, (stamp.sequence, time));
        // Another run counts from its begin again, and is a later one.
        let before = before.filter(|(_, then)| self.ledger.is_some() || time <= *then);
        match before {
            Some((count, _)) if count > stamp.sequence => self.checks.reordered += 1,
            Some((count, _)) if count == stamp.sequence => self.checks.duplicates += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{LeaderEpoch, Offset, Timestamp};
    use crate::bench::ledger::Entry;
    use crate::bench::template::Template;
    use crate::record::stamp;

    fn batch(offset: i64, sequence: i32) -> Vec<u8> {
        batch_at(5, offset, sequence)
    }

    fn batch_at(time: i64, offset: i64, sequence: i32) -> Vec<u8> {
        let values = [&b"a"[..], b"b"];
        let template = Template::build(values.iter().map(|v| (None, *v)), Default::default());
        let (head, _) = template.stamp(Stamp { lane: 1, sequence }, Timestamp(time));
        let mut bytes = [&head[..], &template.body].concat();
        stamp(&mut bytes, Offset(offset), LeaderEpoch(0));
        bytes
    }

    fn read(bytes: &[u8], ledger: Option<&mut Ledger>) -> (Checks, i64) {
        let (mut checks, mut spent) = (Checks::default(), 0);
        let mut cursor = Cursor::new(0, 10);
        let mut verifier = Verifier {
            checks: &mut checks,
            spent_ns: Some(&mut spent),
            ledger,
        };
        verifier.read(&mut cursor, bytes, |_| {}).expect("lengths");
        (checks, cursor.next_offset)
    }

    #[test]
    fn whole_batches_pass_and_a_cut_one_waits() {
        let (first, second) = (batch(10, 0), batch(12, 1));
        let bytes = [&first[..], &second[..second.len() - 1]].concat();
        let (checks, next) = read(&bytes, None);
        assert_eq!((checks.batches, checks.records, checks.faults()), (1, 2, 0));
        assert_eq!(next, 12);
    }

    #[test]
    fn each_kind_of_fault_is_found() {
        let mut flipped = batch(10, 0);
        *flipped.last_mut().unwrap() ^= 1;
        assert_eq!(read(&flipped, None).0.damaged, 1);
        assert_eq!(read(&batch(11, 0), None).0.gaps, 1);
        let twice = [batch(10, 3), batch(12, 3)].concat();
        assert_eq!(read(&twice, None).0.duplicates, 1);
        let back = [batch(10, 4), batch(12, 3)].concat();
        assert_eq!(read(&back, None).0.reordered, 1);
        let old = [batch(10, 0), batch(10, 1)].concat();
        assert_eq!(read(&old, None).0.duplicates, 1);
    }

    #[test]
    fn a_later_run_may_count_from_its_begin_again() {
        for sequence in [0, 7] {
            let runs = [batch_at(5, 10, 7), batch_at(6, 12, sequence)].concat();
            let (checks, next) = read(&runs, None);
            assert_eq!((checks.batches, checks.faults(), next), (2, 0, 14));
        }
        // Of one run alone, nothing counts back.
        let mut ledger = Ledger::new(1);
        let back = [batch_at(5, 10, 7), batch_at(6, 12, 3)].concat();
        assert_eq!(read(&back, Some(&mut ledger)).0.reordered, 1);
    }

    #[test]
    fn what_was_not_sent_like_this_is_found() {
        let mut ledger = Ledger::new(1);
        ledger.sent(1, |_| Entry::new(0, 1234, 2, 0, true));
        let (checks, _) = read(&batch(10, 0), Some(&mut ledger));
        assert_eq!((checks.different, checks.batches), (1, 1));
        let (checks, _) = read(&batch(10, 5), Some(&mut ledger));
        assert_eq!(checks.different, 1, "no such batch was sent");
    }

    #[test]
    fn what_lies_behind_the_end_is_left_alone() {
        let bytes = [batch(10, 0), batch(12, 0)].concat();
        let (mut checks, mut cursor) = (Checks::default(), Cursor::new(0, 10).until(12));
        let mut verifier = Verifier {
            checks: &mut checks,
            spent_ns: None,
            ledger: None,
        };
        verifier.read(&mut cursor, &bytes, |_| {}).expect("lengths");
        assert_eq!((checks.batches, cursor.next_offset), (1, 12));
    }

    #[test]
    fn an_impossible_length_ends_reading() {
        let mut bytes = batch(10, 0);
        bytes[8..12].copy_from_slice(&7i32.to_be_bytes());
        let (mut checks, mut cursor) = (Checks::default(), Cursor::new(0, 10));
        let mut verifier = Verifier {
            checks: &mut checks,
            spent_ns: None,
            ledger: None,
        };
        let error = verifier.read(&mut cursor, &bytes, |_| {}).unwrap_err();
        assert!(error.contains("after offset 10"), "{error}");
    }
}
