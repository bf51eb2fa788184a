//! What a log asks of the disk next, in the order of the functions here; each asks for at most one operation.
//! Part of the writer.
//! Always: what is asked for is noted in the state at once, so it is not asked for twice; a write stays within what is
//! allocated and away from blocks in flight.
//! What the end of an operation changes is the writer's.

use super::{Cut, InFlight};
use crate::base::limits::{BLOCK_BYTES, PARTITION_IN_FLIGHT_BYTES_MAX, PARTITION_WRITES_MAX};
use crate::base::{MonoNs, Now};
use crate::log::Log;
use crate::log::io_op::{IoOp, WriteId};
use crate::log::segment::{FileState, block_down, block_up};
use crate::record::HEADER_BYTES;

impl Log {
    /// A file for the segment being written, and for the one after it while this one is still being flushed.
    pub(super) fn next_create(&mut self) -> Option<IoOp> {
        if self.writer.starved_until.is_some() || !self.writer.strays.is_empty() {
            return None;
        }
        let at = self.writer_index()?;
        // Files that are not sealed can't be closed, and are read again by a recovery.
        if at - self.first_unsealed() >= UNSEALED_MAX {
            return None;
        }
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
        let step = block_up(previous / 16).clamp(ALLOCATE_BYTES_MIN, self.writer.step_max);
        let recycle = self.take_spare();
        let recycled = recycle.map_or(0, |(_, length)| block_up(length));
        let segment = &mut self.segments[index];
        segment.file = FileState::Creating;
        // A spare is taken as it is: lengthening it could fail for want of space after it got its new name.
        segment.allocated = if recycled > 0 {
            recycled
        } else {
            let limit = allocation_limit(self.config.segment_bytes, segment.size);
            wanted.max(step).min(limit)
        };
        Some(IoOp::Create {
            segment: segment.base,
            prealloc: segment.allocated,
            recycle: recycle.map(|(base, _)| base),
        })
    }

    pub(super) fn next_stray(&mut self) -> Option<IoOp> {
        if self.writer.deleting_stray || self.writer.files_wait() {
            return None;
        }
        let segment = *self.writer.strays.last()?;
        self.writer.deleting_stray = true;
        Some(IoOp::Delete { segment })
    }

    pub(super) fn next_cut(&mut self) -> Option<IoOp> {
        let at = self.writer_index()?;
        let segment = &mut self.segments[at];
        let wanted = segment.size > self.writer.issued;
        let starved = self.writer.starved_until.is_some();
        if self.writer.cut != Cut::Needed || !wanted || starved || !self.writer.strays.is_empty() {
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
            torn: self.writer.torn,
        })
    }

    pub(super) fn next_preallocate(&mut self) -> Option<IoOp> {
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
        let step = segment.allocated.clamp(ALLOCATE_BYTES_MIN, writer.step_max);
        let to = if rolled {
            needed
        } else {
            (segment.allocated + step).max(needed).min(limit)
        };
        assert!(to.is_multiple_of(BLOCK_BYTES), "{to} bytes are no blocks");
        writer.preallocating = Some(to);
        Some(IoOp::Preallocate {
            segment: segment.base,
            from: segment.allocated,
            to,
        })
    }

    pub(super) fn next_write(&mut self, more_coming: bool) -> Option<IoOp> {
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
        let tail_to = block_up(size + HEADER_BYTES as u64);
        // What is left of a batch would be a write of its own, after this one.
        let most = if tail_to <= from + WRITE_BYTES_MAX + WRITE_REST_BYTES {
            WRITE_BYTES_MAX + WRITE_REST_BYTES
        } else {
            WRITE_BYTES_MAX
        };
        let ceiling = segment
            .allocated
            .min(writer.zeroing.map_or(u64::MAX, |(zeroing, _)| zeroing))
            .min(from + most);
        let whole_to = block_down(size).min(ceiling);
        let whole = whole_to.saturating_sub(from);
        // A write with the tail keeps all later ones waiting, so with others in flight the partial block waits for more
        // data, or to be alone: several large writes at a time are what makes durable cheap.
        let hold_tail = !rolled && (!alone || (more_coming && whole >= WRITE_AHEAD_BYTES_MIN));
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
    pub(super) fn next_seal(&mut self) -> Option<IoOp> {
        let at = self.first_unsealed();
        if self.writer.files_wait()
            || at >= self.writer_index()?
            || self.segments[at].file != FileState::Open
        {
            return None;
        }
        let end = self.segments[at + 1].base;
        let segment = &mut self.segments[at];
        segment.file = FileState::Sealing;
        segment.thin_indexes();
        let (offset_index, time_index) = segment.encode_indexes(segment.size, end);
        Some(IoOp::Seal {
            segment: segment.base,
            size: segment.size,
            offset_index,
            time_index,
            snapshot: None,
        })
    }

    pub(super) fn next_save_epochs(&mut self) -> Option<IoOp> {
        let durable = self
            .epochs
            .latest()
            .is_none_or(|e| e.start <= self.chain.durable());
        // Without a file there is no directory entry worth keeping epochs for; the first write brings it.
        let exists = self.segments[0].file != FileState::Absent;
        let busy = self.writer.saving_epochs || self.writer.files_wait();
        if !self.epochs_changed || busy || !durable || !exists {
            return None;
        }
        self.epochs_changed = false;
        self.writer.saving_epochs = true;
        Some(IoOp::SaveEpochs {
            text: self.epochs.to_text(),
        })
    }

    pub(super) fn next_save(&mut self) -> Option<IoOp> {
        if self.writer.unsaved() < SAVE_BYTES {
            return None;
        }
        self.save()
    }

    /// A `Save` is due by time: what there is would be read again after a kill. The owner asks for it with `save`, once the
    /// state of the producers is there to go with it.
    pub fn save_due(&mut self, now: Now) -> bool {
        if self.writer.unsaved() < SAVE_BYTES_MIN {
            return false;
        }
        self.writer.unsaved_since.get_or_insert(now.mono);
        self.save_deadline().is_some_and(|due| now.mono >= due)
    }

    pub(super) fn save_deadline(&self) -> Option<MonoNs> {
        let since = self.writer.unsaved_since?;
        (!self.writer.saving).then(|| since.plus_ms(SAVE_MS))
    }

    /// The indexes as they are now, if they can be saved now.
    pub fn save(&mut self) -> Option<IoOp> {
        let at = self.writer_index()?;
        let segment = &self.segments[at];
        let busy = self.writer.saving || self.writer.files_wait() || self.offline.is_some();
        if segment.file != FileState::Open || busy {
            return None;
        }
        let (offset_index, time_index) =
            segment.encode_indexes(self.writer.durable_position, self.chain.durable());
        self.writer.saving = true;
        self.writer.unsaved_since = None;
        self.writer.saved_before = self.writer.saved_position;
        self.writer.saved_position = self.writer.durable_position;
        Some(IoOp::Save {
            segment: segment.base,
            offset_index,
            time_index,
            snapshot: None,
        })
    }

    /// Flows of small writes get blocks that were written before: their acks need no file-system metadata.
    pub(super) fn next_zero_ahead(&mut self) -> Option<IoOp> {
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
            // Where space is short there are other uses for it.
            && writer.step_max == ALLOCATE_BYTES_MAX
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
        // What is there is enough if it is worth a write. More comes with room to spare: the end moves on meanwhile.
        let there = segment.allocated.min(to);
        if there < to && there < from + ZERO_AHEAD_BYTES / 2 {
            let to = (to + ZERO_AHEAD_BYTES).min(limit);
            if to <= segment.allocated {
                return None;
            }
            writer.preallocating = Some(to);
            return Some(IoOp::Preallocate {
                segment: segment.base,
                from: segment.allocated,
                to,
            });
        }
        let to = there;
        assert!(
            from.is_multiple_of(BLOCK_BYTES) && to.is_multiple_of(BLOCK_BYTES),
            "zeros for {from}..{to}, which is inside a block"
        );
        writer.zeroing = Some((from, to));
        Some(IoOp::ZeroAhead {
            segment: segment.base,
            from,
            to,
        })
    }
}

/// No file grows past what a full segment needs.
fn allocation_limit(segment_bytes: u64, size: u64) -> u64 {
    block_up(segment_bytes.max(size) + HEADER_BYTES as u64)
}

/// Most bytes of one write: larger ones are no cheaper, and acks wait for the whole of one.
const WRITE_BYTES_MAX: u64 = 1 << 20;

/// Unless no more than this is left behind it: a batch of 1 MiB that begins inside a block goes in one write if nothing follows it.
const WRITE_REST_BYTES: u64 = 64 << 10;
/// Fewer whole blocks than this wait for a write in flight to end: group commit.
const WRITE_AHEAD_BYTES_MIN: u64 = 128 << 10;
/// Allocation grows by what there is, between these.
pub(super) const ALLOCATE_BYTES_MIN: u64 = 256 << 10;
pub(super) const ALLOCATE_BYTES_MAX: u64 = 64 << 20;
/// Allocation starts when this much (or a quarter of the file) is left.
const ALLOCATE_AHEAD_BYTES: u64 = 16 << 20;
/// A write up to this size is small: metadata would be most of its cost.
const SMALL_WRITE_BYTES: u64 = 64 << 10;
const SMALL_WRITES_MIN: u8 = 8;
const ZERO_AHEAD_BYTES: u64 = 1 << 20;
const ZERO_GAP_BYTES: u64 = 128 << 10;
/// Complete segments that wait to be sealed: small ones are filled faster than they are sealed.
pub(super) const UNSEALED_MAX: usize = 8;
/// Indexes and producer state of the active segment are saved this often: bounds what a recovery reads again.
const SAVE_BYTES: u64 = 64 << 20;
/// They are saved by time too, if there is as much as this.
const SAVE_BYTES_MIN: u64 = 1 << 20;
const SAVE_MS: i64 = 30_000;

// Writes may fill the pipeline before the partition stops taking batches.
const _: () = assert!(
    (WRITE_BYTES_MAX + WRITE_REST_BYTES) * PARTITION_WRITES_MAX as u64
        <= PARTITION_IN_FLIGHT_BYTES_MAX
);
const _: () = assert!((WRITE_BYTES_MAX | WRITE_REST_BYTES).is_multiple_of(BLOCK_BYTES));
const _: () = assert!(ALLOCATE_BYTES_MIN.is_multiple_of(BLOCK_BYTES));
