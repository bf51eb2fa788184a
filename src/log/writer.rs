//! A log's disk operations: which may go out, and what their ends change. What to ask for next is in `plan.rs`.
//! Owned by `Log`; one operation is handed out per `poll_io`, its end comes back by `on_io`.
//! Always: no two operations in flight touch a block; durable is the finished prefix; a segment is written only after
//! the one before it is durable as a whole; no write reaches past what is allocated.
//! A failure is final: the log goes offline, later successes change nothing. Only where the disk had no space, and nothing that was
//! promised can have been lost by it, the operation is as if it had not been asked for, and is asked for again.
//!
//! ```text
//!  segment file:  | durable | write 1 | write 2 | not issued | zeros (61+) |  zeroed ahead  |  allocated  |
//!                           ^ flushed           ^ issued     ^ size                         ^ zeroed_to   ^ allocated
//! ```
//! A write that ends inside a block (it carries the zeros behind the data) is the last in flight until it is done:
//! what is appended meanwhile goes into the same block.

mod plan;

use plan::{ALLOCATE_BYTES_MAX, ALLOCATE_BYTES_MIN, UNSEALED_MAX};

use smallvec::SmallVec;

use super::Log;
use super::io_op::{IoFailure, IoOp, IoTag, Progress, WriteId};
use super::segment::{FileState, Segment, block_down, block_up};
use crate::base::limits::PARTITION_WRITES_MAX;
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
    /// What is cut is a batch that is not whole.
    torn: bool,
    saving: bool,
    saving_epochs: bool,
    /// Durable position at the last `Save`.
    saved_position: u64,
    /// The same before the `Save` under way.
    saved_before: u64,
    /// Since when there is something worth a `Save`.
    unsaved_since: Option<MonoNs>,
    /// When space for records may be asked for again.
    starved_until: Option<MonoNs>,
    /// When index files and the like may be written again, after there was no space for them.
    files_until: Option<MonoNs>,
    /// Most space to ask for ahead; less where there was too little.
    step_max: u64,
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
            torn: false,
            saving: false,
            saving_epochs: false,
            saved_position: position,
            saved_before: position,
            unsaved_since: None,
            starved_until: None,
            files_until: None,
            step_max: ALLOCATE_BYTES_MAX,
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

    pub fn require_cut(&mut self, torn: bool) {
        self.cut = Cut::Needed;
        self.torn = torn;
    }

    /// There was no space for records a moment ago.
    pub(super) fn starves(&self) -> bool {
        self.starved_until.is_some()
    }

    /// There was no space for index files a moment ago.
    pub(super) fn files_wait(&self) -> bool {
        self.files_until.is_some()
    }

    /// Durable bytes that the saved indexes don't know.
    fn unsaved(&self) -> u64 {
        self.durable_position - self.saved_position
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
        let writer = &mut self.writer;
        for until in [&mut writer.starved_until, &mut writer.files_until] {
            until.take_if(|until| now.mono >= *until);
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
            // A write has its space already: what is on the disk after it failed is unknown.
            Err(IoFailure::NoSpace(_)) if !matches!(tag, IoTag::Write(_)) => {
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
        // A segment is not begun before older ones are sealed and what was left behind the end is deleted: that takes space too.
        let held = self.writer.files_wait()
            && (!self.writer.strays.is_empty() || at - self.first_unsealed() >= UNSEALED_MAX);
        (self.writer.starved_until.is_some() || held) && short && !self.pending.is_empty()
    }

    /// There may be space now: poll again.
    pub fn ask_again(&mut self) {
        self.writer.starved_until = None;
        self.writer.files_until = None;
    }

    /// When `poll_io` should be asked again although nothing happened.
    pub fn io_deadline(&self) -> Option<MonoNs> {
        let deadlines = [
            self.writer.starved_until,
            self.writer.files_until,
            self.save_deadline(),
            self.dropped_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Whether everything appended is durable and no write is under way.
    pub fn quiet(&self) -> bool {
        self.pending.is_empty() && self.writer.in_flight.is_empty() && self.writer.zeroing.is_none()
    }

    /// Whether all that is in the files counts: nothing behind the end waits to be cut or deleted, and no write has failed.
    pub(super) fn settled(&self) -> bool {
        self.offline.is_none()
            && self.quiet()
            && self.writer.cut == Cut::NotNeeded
            && self.writer.strays.is_empty()
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
            writer.unsaved_since = None;
        }
    }

    fn io_done(&mut self, tag: IoTag) -> Option<Offset> {
        match tag {
            IoTag::Write(id) => return self.write_done(id),
            IoTag::Create(base) => {
                self.space_was_there();
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
                self.space_was_there();
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
        self.chain.durable_to(end);
        Some(end)
    }

    fn space_was_there(&mut self) {
        self.writer.starved_until = None;
        self.writer.step_max = (self.writer.step_max * 2).min(ALLOCATE_BYTES_MAX);
    }

    /// As if the operation had not been asked for.
    fn io_starved(&mut self, tag: IoTag, now: Now) {
        let again = now.mono.plus_ms(STARVED_RETRY_MS);
        match tag {
            IoTag::Create(base) => {
                self.return_spare();
                let segment = self.segment_mut(base, tag);
                segment.file = FileState::Absent;
                let asked = segment.allocated;
                self.ask_less(asked, again);
            }
            IoTag::Preallocate(base) => {
                let to = self.writer.preallocating.take();
                let allocated = self.segment_mut(base, tag).allocated;
                self.ask_less(to.unwrap_or(allocated) - allocated, again);
            }
            // The end is cut off again: that is the same the second time.
            IoTag::Cut(_) => {
                self.writer.cut = Cut::Needed;
                self.writer.starved_until = Some(again);
            }
            IoTag::ZeroAhead(_) => {
                self.writer.zeroing = None;
                self.writer.starved_until = Some(again);
            }
            IoTag::Seal(base) => {
                self.segment_mut(base, tag).file = FileState::Open;
                self.writer.files_until = Some(again);
            }
            IoTag::Save(_) => {
                self.writer.saving = false;
                self.writer.saved_position = self.writer.saved_before;
                self.writer.files_until = Some(again);
            }
            IoTag::SaveEpochs => {
                self.writer.saving_epochs = false;
                self.epochs_changed = true;
                self.writer.files_until = Some(again);
            }
            IoTag::Delete(base) => {
                if self.writer.strays.last() == Some(&base) {
                    self.writer.deleting_stray = false;
                } else {
                    self.return_deleting(base);
                }
                self.writer.files_until = Some(again);
            }
            IoTag::Write(_) => panic!("{tag:?} has its space"),
        }
    }

    /// Where less would do, less is asked for at once.
    fn ask_less(&mut self, asked: u64, again: MonoNs) {
        let writer = &mut self.writer;
        let least = writer.step_max == ALLOCATE_BYTES_MIN;
        writer.step_max = block_down(asked.min(writer.step_max) / 4).max(ALLOCATE_BYTES_MIN);
        if least || asked <= ALLOCATE_BYTES_MIN {
            writer.starved_until = Some(again);
        }
    }

    fn segment_mut(&mut self, base: Offset, tag: IoTag) -> &mut Segment {
        let at = self
            .index_of(base)
            .unwrap_or_else(|| panic!("end of {tag:?} for a segment that is not in the log"));
        &mut self.segments[at]
    }
}

/// A burst of small batches must not cost an idle log memory.
const PENDING_KEPT: usize = 16;
/// Between two tries to get space on a full disk.
const STARVED_RETRY_MS: i64 = 1000;
