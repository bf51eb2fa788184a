//! Shortening a log at the front: retention, DeleteRecords, the ring budget, and the files that go.
//! A dropped segment waits here until a checkpoint with the higher log start is durable, nobody reads its file and no answer is
//! sent from it (for those it waits a minute at most, and not at all for space); then its file is deleted, or kept as the spare that the next segment writes over (disk ring).
//! Always: only sealed segments below the log start are dropped; the last file of a log goes only after the next exists.
//! When to look, and the budget, are the owner's.

use super::Log;
use super::io_op::IoOp;
use super::segment::{FileState, Segment, block_down};
use crate::base::{ErrorCode, MonoNs, Now, Offset};

/// A segment that is no longer part of the log, whose file is still there.
#[derive(Debug)]
pub(super) struct Dropped {
    pub base: Offset,
    /// First offset after it.
    pub end: Offset,
    /// Bytes of the file.
    pub length: u64,
    pub readers: u32,
    /// Answers under way that are sent from it.
    pub holds: u32,
    /// How long it waits for them.
    pub held_until: Option<MonoNs>,
    pub state: DroppedState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DroppedState {
    /// For the checkpoint, its readers and the answers sent from it. -> Spare, Deleting
    Waits,
    /// To be written over by the next segment. -> Recycling, Deleting
    Spare { since: MonoNs },
    /// `Create { recycle }` is under way. -> gone, or back to Spare if there was no space
    Recycling { since: MonoNs },
    /// `Delete` is under way. -> gone, or back to Waits if there was no space
    Deleting,
}

/// What a retention check did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expired {
    /// The log start moved: write a checkpoint soon, files go after it.
    pub log_start: Option<Offset>,
}

impl Log {
    /// Applies `retention.ms` and `retention.bytes` (`UnifiedLog.deleteOldSegments`): whole segments from the oldest
    /// on; an active segment that has expired is rolled first.
    pub fn expire(&mut self, now: Now) -> Expired {
        if self.offline.is_some() {
            return Expired::default();
        }
        let by_time = self.expired_by_time(now);
        let by_size = self.expired_by_size();
        let count = by_time.max(by_size);
        if count == 0 {
            return Expired::default();
        }
        if count == self.segments.len() {
            self.roll(now);
        }
        self.raise_log_start(self.segments[count].base)
    }

    /// Applies `retention.bytes` alone: a ring that is full gives its oldest segment to the next one.
    pub fn expire_by_size(&mut self) -> Expired {
        let count = self.expired_by_size();
        if self.offline.is_some() || count == 0 || count == self.segments.len() {
            return Expired::default();
        }
        self.raise_log_start(self.segments[count].base)
    }

    /// Gives up the oldest segment to make room (hard budget of the ring); the active one is rolled first if it is
    /// the only one. Nothing happens while its bytes are not durable.
    pub fn drop_oldest(&mut self, now: Now) -> Expired {
        let first = self.holding_log_start();
        let only = first + 1 == self.segments.len();
        if self.offline.is_some() || (only && (self.in_flight_bytes() > 0 || !self.roll(now))) {
            return Expired::default();
        }
        let next = self.segments[first + 1].base;
        if next > self.chain.high_watermark() {
            return Expired::default();
        }
        self.raise_log_start(next)
    }

    /// DeleteRecords: records before `offset` (-1: the high watermark) are gone. Answer the new log start once
    /// `checkpointed_log_start` has reached it. Errors: OFFSET_OUT_OF_RANGE past the high watermark.
    pub fn delete_records_before(&mut self, offset: Offset) -> Result<Offset, ErrorCode> {
        let to = if offset == Offset::NONE {
            self.chain.high_watermark()
        } else {
            offset
        };
        if to < Offset::ZERO || to > self.chain.high_watermark() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        if self.offline.is_some() {
            return Err(ErrorCode::KafkaStorageError);
        }
        if to > self.chain.log_start() {
            self.raise_log_start(to);
        }
        Ok(self.chain.log_start())
    }

    fn raise_log_start(&mut self, to: Offset) -> Expired {
        if to <= self.chain.log_start() {
            return Expired::default();
        }
        self.chain.log_start_to(to);
        if self.epochs.truncate_from_start(to) {
            self.epochs_changed = true;
        }
        self.drop_below_log_start();
        Expired {
            log_start: Some(to),
        }
    }

    /// Takes sealed segments below the log start out of the log. The others follow when they are sealed.
    pub(super) fn drop_below_log_start(&mut self) {
        while self.segments.len() > 1
            && self.segments[1].base <= self.chain.log_start()
            && self.segments[0].file == FileState::Sealed
        {
            let end = self.segments[1].base;
            let segment = self.segments.pop_front().expect("two segments");
            self.dropped.push(Dropped {
                base: segment.base,
                end,
                length: segment.size,
                readers: segment.readers,
                holds: segment.holds,
                held_until: None,
                state: DroppedState::Waits,
            });
        }
    }

    /// How many of the oldest segments are wholly visible and older than `retention.ms`.
    fn expired_by_time(&self, now: Now) -> usize {
        let keep_ms = self.config.retention_ms;
        if keep_ms < 0 {
            return 0;
        }
        self.count_expired(|segment| now.wall.0.saturating_sub(segment.newest().0) > keep_ms)
    }

    /// How many of the oldest segments can go with `retention.bytes` still left.
    fn expired_by_size(&self) -> usize {
        if self.config.retention_bytes < 0 {
            return 0;
        }
        let keep = self.config.retention_bytes as u64;
        let mut excess = self.size_bytes().saturating_sub(keep);
        self.count_expired(|segment| {
            let goes = segment.size <= excess;
            excess = excess.saturating_sub(segment.size);
            goes
        })
    }

    fn count_expired(&self, mut goes: impl FnMut(&Segment) -> bool) -> usize {
        let high_watermark = self.chain.high_watermark();
        let mut count = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            let end = self
                .segments
                .get(at + 1)
                .map_or(self.chain.appended(), |next| next.base);
            if segment.size == 0 || end > high_watermark || !goes(segment) {
                break;
            }
            count += 1;
        }
        count
    }

    /// The next dropped file that may go.
    pub(super) fn next_delete(&mut self, now: Now) -> Option<IoOp> {
        if self.writer.files_wait() {
            return None;
        }
        let last = self.last_file();
        let has_spare = self.dropped.iter().any(|d| {
            matches!(
                d.state,
                DroppedState::Spare { .. } | DroppedState::Recycling { .. }
            )
        });
        let rolls_often = self
            .last_roll
            .is_some_and(|at| now.mono.ms_since(at) < SPARE_MS_MAX as u64);
        let spare_wanted = !has_spare && rolls_often;
        let checkpointed = self.checkpointed_log_start;
        let short_of_space = self.writer.starves();
        for dropped in self.dropped.iter_mut().filter(|d| d.holds > 0) {
            let until = now.mono.plus_ms(HELD_MS_MAX);
            dropped.held_until.get_or_insert(until);
        }
        let ready = self.dropped.iter_mut().find(|d| match d.state {
            DroppedState::Waits => {
                let free = d.readers == 0
                    && d.end <= checkpointed
                    && (spare_wanted || last != Some(d.base));
                free && (short_of_space || !d.is_held(now.mono))
            }
            DroppedState::Spare { since } => {
                now.mono >= since.plus_ms(SPARE_MS_MAX) && last != Some(d.base)
            }
            DroppedState::Recycling { .. } | DroppedState::Deleting => false,
        })?;
        if ready.state == DroppedState::Waits && spare_wanted {
            ready.state = DroppedState::Spare { since: now.mono };
            return self.next_delete(now);
        }
        ready.state = DroppedState::Deleting;
        Some(IoOp::Delete {
            segment: ready.base,
        })
    }

    /// The dropped file that must not go before the next segment has one: its name keeps the end offset if the checkpoint is lost.
    /// The others may: without them there may be no space for the next.
    fn last_file(&self) -> Option<Offset> {
        let no_file =
            |segment: &Segment| matches!(segment.file, FileState::Absent | FileState::Creating);
        let none = no_file(self.active()) && self.segments.iter().all(no_file);
        let bases = self.dropped.iter().map(|d| d.base);
        bases.max().filter(|_| none)
    }

    pub(super) fn finish_delete(&mut self, base: Offset) {
        let at = self
            .dropped
            .iter()
            .position(|d| d.base == base && d.state == DroppedState::Deleting)
            .unwrap_or_else(|| panic!("end of a delete of {base} that is not under way"));
        self.dropped.swap_remove(at);
    }

    /// The file could not be removed now: it waits again.
    pub(super) fn return_deleting(&mut self, base: Offset) {
        for dropped in &mut self.dropped {
            if dropped.base == base && dropped.state == DroppedState::Deleting {
                dropped.state = DroppedState::Waits;
            }
        }
    }

    /// The spare for the next segment: its base and length.
    pub(super) fn take_spare(&mut self) -> Option<(Offset, u64)> {
        let spare = self.dropped.iter_mut().find_map(|d| match d.state {
            DroppedState::Spare { since } => Some((d, since)),
            DroppedState::Waits | DroppedState::Recycling { .. } | DroppedState::Deleting => None,
        });
        let (dropped, since) = spare?;
        dropped.state = DroppedState::Recycling { since };
        Some((dropped.base, dropped.length))
    }

    /// The spare became a segment; bytes of its whole blocks that were written before, 0 if there was none.
    pub(super) fn finish_recycle(&mut self) -> u64 {
        let at = self
            .dropped
            .iter()
            .position(|d| matches!(d.state, DroppedState::Recycling { .. }));
        at.map_or(0, |at| block_down(self.dropped.swap_remove(at).length))
    }

    /// There was no space to make the spare a segment: it stays a spare.
    pub(super) fn return_spare(&mut self) {
        for dropped in &mut self.dropped {
            if let DroppedState::Recycling { since } = dropped.state {
                dropped.state = DroppedState::Spare { since };
            }
        }
    }

    /// When the spare is no longer worth its space, or a file no longer waits for the answers that are sent from it.
    pub(super) fn dropped_deadline(&self) -> Option<MonoNs> {
        let deadlines = self.dropped.iter().filter_map(|d| match d.state {
            DroppedState::Spare { since } => Some(since.plus_ms(SPARE_MS_MAX)),
            DroppedState::Waits => d.held_until.filter(|_| d.holds > 0),
            DroppedState::Recycling { .. } | DroppedState::Deleting => None,
        });
        deadlines.min()
    }

    /// A segment that is no longer part of the log, but can be read.
    pub(super) fn readable_dropped(&mut self, base: Offset) -> Option<&mut Dropped> {
        self.dropped
            .iter_mut()
            .find(|d| d.base == base && d.state == DroppedState::Waits)
    }

    /// Bytes that can be read of a segment that is no longer part of the log.
    pub(super) fn dropped_length(&self, base: Offset) -> Option<u64> {
        let dropped = self.dropped.iter().find(|d| d.base == base)?;
        (dropped.state == DroppedState::Waits).then_some(dropped.length)
    }

    pub(super) fn end_read_dropped(&mut self, base: Offset) {
        let dropped = self
            .dropped
            .iter_mut()
            .find(|d| d.base == base && d.readers > 0)
            .unwrap_or_else(|| panic!("end of a read of {base} that never began"));
        dropped.readers -= 1;
    }

    /// Space is needed: dropped files wait for answers no longer. True: poll again.
    pub fn give_up_holds(&mut self) -> bool {
        let mut held = false;
        for dropped in self.dropped.iter_mut().filter(|d| d.holds > 0) {
            dropped.held_until = Some(MonoNs(0));
            held = true;
        }
        held
    }

    /// An answer that was sent from a dropped segment is done; it may be gone long since. True if the segment may go now.
    pub(super) fn release_dropped(&mut self, base: Offset) -> bool {
        let held = self.dropped.iter_mut().find(|d| d.base == base);
        let Some(dropped) = held.filter(|d| d.holds > 0) else {
            return false;
        };
        dropped.holds -= 1;
        dropped.holds == 0 && dropped.state == DroppedState::Waits
    }
}

impl Dropped {
    /// Whether it waits for answers that are sent from it.
    fn is_held(&self, now: MonoNs) -> bool {
        self.holds > 0 && self.held_until.is_none_or(|until| now < until)
    }
}

/// Who takes longer for an answer loses the rest of it: the default of Kafka's `file.delete.delay.ms`, which does the same.
const HELD_MS_MAX: i64 = 60_000;

/// A spare that was not needed for this long goes; so does one of a log that has not rolled for as long.
const SPARE_MS_MAX: i64 = 10 * 60 * 1000;
