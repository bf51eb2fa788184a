//! The plan of a log's disk operations: what to write next, and what a finished write makes durable.
//! Owned by `Log`; one operation is handed out per `poll_io`, its end comes back by `on_io`.
//! Always: no two operations in flight touch a block; durable is the finished prefix; a segment is written only after
//! the one before it is durable as a whole; no write reaches past what is allocated.
//! A failure is final: the log goes offline, later successes change nothing.
//!
//! ```text
//!  segment file:  | durable | write 1 | write 2 | not issued | zeros (61+) |  zeroed ahead  |  allocated  |
//!                           ^ flushed           ^ issued     ^ size                         ^ zeroed_to   ^ allocated
//! ```
//! A write that ends inside a block (it carries the zeros behind the data) is the last in flight until it is done:
//! what is appended meanwhile goes into the same block.

use smallvec::SmallVec;

use super::Log;
use super::io_op::{IoFailure, IoOp, IoTag, Progress, WriteId};
use super::segment::{FileState, block_down, block_up};
use crate::base::limits::{BLOCK_BYTES, PARTITION_IN_FLIGHT_BYTES_MAX, PARTITION_WRITES_MAX};
use crate::base::{MonoNs, Now, Offset};
use crate::record::HEADER_BYTES;

/// Where the segment that is being made durable stands.
#[derive(Debug)]
pub(super) struct Writer {
    segment: Offset,
    /// Everything before is durable.
    flushed: u64,
    /// End of the last durable batch.
    durable_position: u64,
    /// Everything before is durable or in a write in flight.
    issued: u64,
    in_flight: SmallVec<[InFlight; PARTITION_WRITES_MAX]>,
    /// The last write in flight ends inside a block.
    tail_in_flight: bool,
    preallocating: Option<u64>,
    zeroing: Option<(u64, u64)>,
    /// Small writes in a row.
    small_writes: u8,
    cut: Cut,
    saving: bool,
    saving_epochs: bool,
    /// Durable position at the last `Save`.
    saved_position: u64,
    /// When space may be asked for again.
    starved_until: Option<MonoNs>,
    /// Deletes that must be done before the first write: segments a recovery found behind the end.
    pub(super) strays: Vec<Offset>,
    deleting_stray: bool,
    next_id: u64,
}

/// Whether bytes behind the end may be left from before a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    NotNeeded,
    /// Before the first write.
    Needed,
    UnderWay {
        prealloc: u64,
    },
}

#[derive(Debug)]
struct InFlight {
    id: WriteId,
    covers: u64,
    tail: bool,
    done: bool,
}

impl Writer {
    /// A writer at `position` of `segment`; everything before is durable.
    pub fn new(segment: Offset, position: u64) -> Writer {
        Writer {
            segment,
            flushed: position,
            durable_position: position,
            issued: position,
            in_flight: SmallVec::new(),
            tail_in_flight: false,
            preallocating: None,
            zeroing: None,
            small_writes: 0,
            cut: Cut::NotNeeded,
            saving: false,
            saving_epochs: false,
            saved_position: position,
            starved_until: None,
            strays: Vec::new(),
            deleting_stray: false,
            next_id: 0,
        }
    }

    pub fn segment(&self) -> Offset {
        self.segment
    }

    pub fn flushed_to(&self) -> u64 {
        self.flushed
    }

    pub fn durable_position(&self) -> u64 {
        self.durable_position
    }

    pub fn require_cut(&mut self) {
        self.cut = Cut::Needed;
    }

    /// What was saved when: the next `Save` counts from here.
    pub fn set_saved_position(&mut self, position: u64) {
        self.saved_position = position;
    }
}

impl Log {
    /// The next disk operation, if there is one now. Ask again until `None`, after each append and each `on_io`.
    /// `more_coming`: a batch for this log is on its way, so the partial last block can wait for it.
    pub fn poll_io(&mut self, now: Now, more_coming: bool) -> Option<IoOp> {
        if self.offline.is_some() {
            return None;
        }
        self.advance_writer();
        if self
            .writer
            .starved_until
            .is_some_and(|until| now.mono >= until)
        {
            self.writer.starved_until = None;
        }
        self.next_stray()
            .or_else(|| self.next_create())
            .or_else(|| self.next_cut())
            .or_else(|| self.next_preallocate())
            .or_else(|| self.next_write(more_coming))
            .or_else(|| self.next_seal())
            .or_else(|| self.next_save_epochs())
            .or_else(|| self.next_save())
            .or_else(|| self.next_zero_ahead())
            .or_else(|| self.next_delete(now))
    }

    /// An operation ended.
    pub fn on_io(&mut self, tag: IoTag, result: Result<(), IoFailure>, now: Now) -> Progress {
        if self.offline.is_some() {
            return Progress::default();
        }
        match result {
            Ok(()) => Progress {
                durable: self.io_done(tag),
                offline: false,
            },
            Err(IoFailure::NoSpace(_))
                if matches!(tag, IoTag::Create(_) | IoTag::Preallocate(_)) =>
            {
                self.io_starved(tag, now);
                Progress::default()
            }
            Err(failure) => {
                self.go_offline(format!("{tag:?} failed: {failure}"));
                Progress {
                    durable: None,
                    offline: true,
                }
            }
        }
    }

    /// The disk is full and batches wait for space: no more may be appended now.
    pub fn starved(&self) -> bool {
        let at = self
            .writer_index()
            .expect("the writer's segment is in the log");
        let segment = &self.segments[at];
        let short = segment.file != FileState::Open
            || segment.allocated < block_up(segment.size + HEADER_BYTES as u64);
        self.writer.starved_until.is_some() && short && !self.pending.is_empty()
    }

    /// When `poll_io` should be asked again although nothing happened.
    pub fn io_deadline(&self) -> Option<MonoNs> {
        let starved = self.writer.starved_until;
        let spare = self.spare_deadline();
        match (starved, spare) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether everything appended is durable and no write is under way.
    pub fn quiet(&self) -> bool {
        self.pending.is_empty() && self.writer.in_flight.is_empty() && self.writer.zeroing.is_none()
    }

    /// At a clean stop: indexes of the active segment as they are now, so that the next start reads little.
    pub fn final_save(&mut self) -> Option<IoOp> {
        let idle = self.offline.is_none() && self.quiet() && !self.writer.saving;
        if !idle || self.writer.saved_position == self.writer.durable_position {
            return None;
        }
        self.save()
    }

    fn advance_writer(&mut self) {
        loop {
            let at = self
                .writer_index()
                .expect("the writer's segment is in the log");
            let done = self.writer.in_flight.is_empty()
                && self.writer.zeroing.is_none()
                && self.writer.preallocating.is_none()
                && !matches!(self.writer.cut, Cut::UnderWay { .. })
                && !self.writer.saving
                && self.writer.flushed == self.segments[at].size;
            let Some(next) = self.segments.get(at + 1).filter(|_| done) else {
                return;
            };
            assert_eq!(
                self.chain.durable(),
                next.base,
                "segment {} is durable to its end, the next is {}",
                self.segments[at].base,
                next.base
            );
            let writer = &mut self.writer;
            writer.segment = next.base;
            writer.flushed = 0;
            writer.durable_position = 0;
            writer.issued = 0;
            writer.cut = Cut::NotNeeded;
            writer.saved_position = 0;
        }
    }

    /// A file for the segment being written, and for the one after it while this one is still being flushed.
    fn next_create(&mut self) -> Option<IoOp> {
        if self.writer.starved_until.is_some() || !self.writer.strays.is_empty() {
            return None;
        }
        let at = self.writer_index()?;
        let to = (at + 2).min(self.segments.len());
        let index = (at..to).find(|&i| self.segments[i].file == FileState::Absent)?;
        // A new log makes its file with its first record; a rolled one at once, since the file name keeps the offset.
        let needed = self.segments[index].size > 0 || self.segments[index].rolled_to;
        let creating = self
            .segments
            .range(at..to)
            .any(|s| s.file == FileState::Creating);
        if !needed || creating {
            return None;
        }
        let wanted = block_up(self.segments[index].size + HEADER_BYTES as u64);
        let previous = index
            .checked_sub(1)
            .map_or(0, |before| self.segments[before].size);
        let step = block_up(previous / 16).clamp(ALLOCATE_BYTES_MIN, ALLOCATE_BYTES_MAX);
        let recycle = self.take_spare();
        let recycled = recycle.map_or(0, |(_, length)| block_up(length));
        let segment = &mut self.segments[index];
        segment.file = FileState::Creating;
        segment.allocated = wanted
            .max(step)
            .min(allocation_limit(self.config.segment_bytes, segment.size))
            .max(recycled);
        Some(IoOp::Create {
            segment: segment.base,
            prealloc: segment.allocated,
            recycle: recycle.map(|(base, _)| base),
        })
    }

    fn next_stray(&mut self) -> Option<IoOp> {
        if self.writer.deleting_stray {
            return None;
        }
        let segment = *self.writer.strays.last()?;
        self.writer.deleting_stray = true;
        Some(IoOp::Delete { segment })
    }

    fn next_cut(&mut self) -> Option<IoOp> {
        let at = self.writer_index()?;
        let segment = &mut self.segments[at];
        let wanted = segment.size > self.writer.issued;
        if self.writer.cut != Cut::Needed || !wanted || !self.writer.strays.is_empty() {
            return None;
        }
        let limit = allocation_limit(self.config.segment_bytes, segment.size);
        let prealloc = (block_up(segment.size + HEADER_BYTES as u64) + ALLOCATE_BYTES_MIN)
            .min(limit)
            .max(block_up(self.writer.flushed));
        self.writer.cut = Cut::UnderWay { prealloc };
        Some(IoOp::Cut {
            segment: segment.base,
            position: self.writer.flushed,
            prealloc,
        })
    }

    fn next_preallocate(&mut self) -> Option<IoOp> {
        let at = self.writer_index()?;
        let rolled = at + 1 < self.segments.len();
        let segment = &self.segments[at];
        let writer = &mut self.writer;
        let busy = writer.preallocating.is_some()
            || writer.cut != Cut::NotNeeded
            || writer.starved_until.is_some();
        if segment.file != FileState::Open || busy || segment.size == writer.flushed {
            return None;
        }
        let needed = block_up(segment.size + HEADER_BYTES as u64);
        let ahead = if rolled {
            0
        } else {
            (segment.allocated / 4).min(ALLOCATE_AHEAD_BYTES)
        };
        let limit = allocation_limit(self.config.segment_bytes, segment.size);
        if needed + ahead <= segment.allocated || segment.allocated >= limit {
            return None;
        }
        let step = segment
            .allocated
            .clamp(ALLOCATE_BYTES_MIN, ALLOCATE_BYTES_MAX);
        let to = if rolled {
            needed
        } else {
            (segment.allocated + step).max(needed).min(limit)
        };
        writer.preallocating = Some(to);
        Some(IoOp::Preallocate {
            segment: segment.base,
            from: segment.allocated,
            to,
        })
    }

    fn next_write(&mut self, more_coming: bool) -> Option<IoOp> {
        let at = self.writer_index()?;
        let rolled = at + 1 < self.segments.len();
        let segment = &self.segments[at];
        let writer = &mut self.writer;
        let size = segment.size;
        if segment.file != FileState::Open
            || writer.cut != Cut::NotNeeded
            || !writer.strays.is_empty()
            || writer.tail_in_flight
            || writer.in_flight.len() == PARTITION_WRITES_MAX
            || writer.issued == size
        {
            return None;
        }
        let alone = writer.in_flight.is_empty();
        let from = block_down(writer.issued);
        assert!(
            alone || from == writer.issued,
            "writes in flight end at {}, inside a block",
            writer.issued
        );
        let ceiling = segment
            .allocated
            .min(writer.zeroing.map_or(u64::MAX, |(zeroing, _)| zeroing))
            .min(from + WRITE_BYTES_MAX);
        let whole_to = block_down(size).min(ceiling);
        let whole = whole_to.saturating_sub(from);
        let tail_to = block_up(size + HEADER_BYTES as u64);
        let hold_tail = more_coming && !rolled && !(alone && whole < WRITE_AHEAD_BYTES_MIN);
        let (to, covers) = if tail_to <= ceiling && !hold_tail {
            (tail_to, size)
        } else if whole >= WRITE_AHEAD_BYTES_MIN || (alone && whole > 0) {
            (whole_to, whole_to)
        } else {
            return None;
        };
        let id = WriteId(writer.next_id);
        writer.next_id += 1;
        writer.issued = covers;
        writer.tail_in_flight = covers < to;
        writer.in_flight.push(InFlight {
            id,
            covers,
            tail: covers < to,
            done: false,
        });
        writer.small_writes = if to - from <= SMALL_WRITE_BYTES {
            writer.small_writes.saturating_add(1)
        } else {
            0
        };
        Some(IoOp::Write {
            id,
            segment: segment.base,
            from,
            to,
            covers,
        })
    }

    /// Seals the oldest segment that is durable as a whole.
    fn next_seal(&mut self) -> Option<IoOp> {
        let end = self.writer_index()?;
        let at = self
            .segments
            .iter()
            .position(|s| s.file != FileState::Sealed)?;
        if at >= end || self.segments[at].file != FileState::Open {
            return None;
        }
        let next_base = self.segments[at + 1].base;
        let segment = &mut self.segments[at];
        segment.file = FileState::Sealing;
        let (offset_index, time_index) = segment.encode_indexes(segment.size, next_base);
        Some(IoOp::Seal {
            segment: segment.base,
            size: segment.size,
            offset_index,
            time_index,
            snapshot: None,
        })
    }

    fn next_save_epochs(&mut self) -> Option<IoOp> {
        let durable = self
            .epochs
            .latest()
            .is_none_or(|e| e.start <= self.chain.durable());
        // Without a file there is no directory entry worth keeping epochs for; the first write brings it.
        let exists = self.segments[0].file != FileState::Absent;
        if !self.epochs_changed || self.writer.saving_epochs || !durable || !exists {
            return None;
        }
        self.epochs_changed = false;
        self.writer.saving_epochs = true;
        Some(IoOp::SaveEpochs {
            text: self.epochs.to_text(),
        })
    }

    fn next_save(&mut self) -> Option<IoOp> {
        let due = self.writer.durable_position - self.writer.saved_position >= SAVE_BYTES;
        if !due || self.writer.saving {
            return None;
        }
        self.save()
    }

    fn save(&mut self) -> Option<IoOp> {
        let at = self.writer_index()?;
        let segment = &self.segments[at];
        if segment.file != FileState::Open {
            return None;
        }
        let (offset_index, time_index) =
            segment.encode_indexes(self.writer.durable_position, self.chain.durable());
        self.writer.saving = true;
        self.writer.saved_position = self.writer.durable_position;
        Some(IoOp::Save {
            segment: segment.base,
            offset_index,
            time_index,
            snapshot: None,
        })
    }

    /// Flows of small writes get blocks that were written before: their acks need no file-system metadata.
    fn next_zero_ahead(&mut self) -> Option<IoOp> {
        let at = self.writer_index()?;
        let active = at + 1 == self.segments.len();
        let segment = &self.segments[at];
        let writer = &mut self.writer;
        let tail = block_up(segment.size + HEADER_BYTES as u64);
        let wanted = active
            && segment.file == FileState::Open
            && writer.cut == Cut::NotNeeded
            && writer.small_writes >= SMALL_WRITES_MIN
            && writer.zeroing.is_none()
            && writer.preallocating.is_none()
            && writer.starved_until.is_none()
            && segment.zeroed_to < tail + ZERO_AHEAD_BYTES / 2;
        if !wanted {
            return None;
        }
        // The gap keeps the zeros away from what the next small writes touch.
        let from = segment.zeroed_to.max(tail + ZERO_GAP_BYTES);
        let limit = allocation_limit(self.config.segment_bytes, segment.size);
        let to = (from + ZERO_AHEAD_BYTES).min(limit);
        if to <= from {
            return None;
        }
        if to > segment.allocated {
            writer.preallocating = Some(to);
            return Some(IoOp::Preallocate {
                segment: segment.base,
                from: segment.allocated,
                to,
            });
        }
        writer.zeroing = Some((from, to));
        Some(IoOp::ZeroAhead {
            segment: segment.base,
            from,
            to,
        })
    }

    fn io_done(&mut self, tag: IoTag) -> Option<Offset> {
        match tag {
            IoTag::Write(id) => return self.write_done(id),
            IoTag::Create(base) => {
                self.writer.starved_until = None;
                let segment = self.segment_mut(base, tag);
                assert_eq!(segment.file, FileState::Creating, "end of {tag:?}");
                segment.file = FileState::Open;
                let recycled = self.finish_recycle();
                self.segment_mut(base, tag).zeroed_to = recycled;
            }
            IoTag::Cut(base) => {
                let Cut::UnderWay { prealloc } = self.writer.cut else {
                    panic!("end of {tag:?} that is not under way");
                };
                self.writer.cut = Cut::NotNeeded;
                self.segment_mut(base, tag).allocated = prealloc;
            }
            IoTag::Preallocate(base) => {
                self.writer.starved_until = None;
                let to = self
                    .writer
                    .preallocating
                    .take()
                    .unwrap_or_else(|| panic!("end of {tag:?} that is not under way"));
                self.segment_mut(base, tag).allocated = to;
            }
            IoTag::ZeroAhead(base) => {
                let (_, to) = self
                    .writer
                    .zeroing
                    .take()
                    .unwrap_or_else(|| panic!("end of {tag:?} that is not under way"));
                self.segment_mut(base, tag).zeroed_to = to;
            }
            IoTag::Seal(base) => {
                let segment = self.segment_mut(base, tag);
                assert_eq!(segment.file, FileState::Sealing, "end of {tag:?}");
                segment.file = FileState::Sealed;
                segment.allocated = segment.size;
                segment.thin_indexes();
                self.drop_below_log_start();
            }
            IoTag::Save(_) => {
                assert!(self.writer.saving, "end of {tag:?} that is not under way");
                self.writer.saving = false;
            }
            IoTag::SaveEpochs => {
                assert!(
                    self.writer.saving_epochs,
                    "end of {tag:?} that is not under way"
                );
                self.writer.saving_epochs = false;
            }
            IoTag::Delete(base) => {
                if self.writer.strays.last() == Some(&base) {
                    self.writer.strays.pop();
                    self.writer.deleting_stray = false;
                } else {
                    self.finish_delete(base);
                }
            }
        }
        None
    }

    fn write_done(&mut self, id: WriteId) -> Option<Offset> {
        let writer = &mut self.writer;
        let write = writer
            .in_flight
            .iter_mut()
            .find(|w| w.id == id && !w.done)
            .unwrap_or_else(|| panic!("end of write {id:?} that is not in flight"));
        write.done = true;
        let finished = writer.in_flight.iter().take_while(|w| w.done).count();
        for write in writer.in_flight.drain(..finished) {
            writer.flushed = write.covers;
            if write.tail {
                writer.tail_in_flight = false;
            }
        }
        let (segment_base, flushed) = (writer.segment, writer.flushed);
        let at = self
            .writer_index()
            .expect("the writer's segment is in the log");
        let before = (self.chain.durable(), self.writer.durable_position);
        let mut durable = None;
        while let Some(batch) = self
            .pending
            .front()
            .filter(|b| b.segment == segment_base && b.end_position <= flushed)
        {
            self.segments[at].durable(batch.end.previous(), batch.max_timestamp);
            durable = Some((batch.end, batch.end_position));
            self.pending.pop_front();
        }
        let (end, position) = durable?;
        if self.pending.is_empty() && self.pending.capacity() > PENDING_KEPT {
            self.pending = std::collections::VecDeque::new();
        }
        // A reader at the tail waits exactly here.
        self.boundaries.note(before.0, segment_base, before.1);
        self.writer.durable_position = position;
        self.durable_bytes += position - before.1;
        self.chain.durable_to(end);
        Some(end)
    }

    fn io_starved(&mut self, tag: IoTag, now: Now) {
        self.writer.starved_until = Some(now.mono.plus_ms(STARVED_RETRY_MS));
        match tag {
            IoTag::Create(base) => {
                self.return_spare();
                self.segment_mut(base, tag).file = FileState::Absent;
            }
            _ => self.writer.preallocating = None,
        }
    }

    fn segment_mut(&mut self, base: Offset, tag: IoTag) -> &mut super::segment::Segment {
        let at = self
            .index_of(base)
            .unwrap_or_else(|| panic!("end of {tag:?} for a segment that is not in the log"));
        &mut self.segments[at]
    }
}

/// No file grows past what a full segment needs.
fn allocation_limit(segment_bytes: u64, size: u64) -> u64 {
    block_up(segment_bytes.max(size) + HEADER_BYTES as u64)
}

/// Most bytes of one write: big writes are cheap, but acks wait for the whole of one.
const WRITE_BYTES_MAX: u64 = 4 << 20;
/// Fewer whole blocks than this wait for a write in flight to end: group commit.
const WRITE_AHEAD_BYTES_MIN: u64 = 128 << 10;
/// Allocation grows by what there is, between these.
const ALLOCATE_BYTES_MIN: u64 = 256 << 10;
const ALLOCATE_BYTES_MAX: u64 = 64 << 20;
/// Allocation starts when this much (or a quarter of the file) is left.
const ALLOCATE_AHEAD_BYTES: u64 = 16 << 20;
/// A write up to this size is small: metadata would be most of its cost.
const SMALL_WRITE_BYTES: u64 = 64 << 10;
const SMALL_WRITES_MIN: u8 = 8;
const ZERO_AHEAD_BYTES: u64 = 1 << 20;
const ZERO_GAP_BYTES: u64 = 128 << 10;
/// Indexes and producer state of the active segment are saved this often: bounds what a recovery reads again.
const SAVE_BYTES: u64 = 64 << 20;
/// A burst of small batches must not cost an idle log memory.
const PENDING_KEPT: usize = 16;
/// Between two tries to get space on a full disk.
const STARVED_RETRY_MS: i64 = 1000;

// Writes may fill the pipeline before the partition stops taking batches.
const _: () =
    assert!(WRITE_BYTES_MAX * PARTITION_WRITES_MAX as u64 <= PARTITION_IN_FLIGHT_BYTES_MAX);
const _: () = assert!(WRITE_BYTES_MAX.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(ALLOCATE_BYTES_MIN.is_multiple_of(BLOCK_BYTES));
