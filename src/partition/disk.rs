//! The disk side of a partition: operations of its log, producer snapshots that go with them, and their ends.
//! Driven by the shard: `poll_io` until `None` after every append, every `on_io`, every checkpoint.
//! Always: a snapshot is written only when every record in it is durable.
//! Carrying out an `IoOp` is the shard's.

use super::Partition;
use crate::base::{MonoNs, Now, Offset};
use crate::log::{IoFailure, IoOp, IoTag, Progress, Snapshot};

impl Partition {
    /// See `Log::poll_io`.
    pub fn poll_io(&mut self, now: Now, more_coming: bool) -> Option<IoOp> {
        let op = self.log.poll_io(now, more_coming);
        let op = op.or_else(|| self.timed_save(now))?;
        Some(self.with_snapshot(op))
    }

    /// Indexes and producer state now and then, so that a start after a kill reads little. They go together: without the state of
    /// the producers every batch behind the last one would have to be read.
    fn timed_save(&mut self, now: Now) -> Option<IoOp> {
        if !self.log.save_due(now) {
            return None;
        }
        if self.snapshots.is_empty() {
            let at = self.log.chain().appended();
            self.snapshots
                .push_back((at, self.producers.encode_snapshot()));
            self.bytes_since_snapshot = 0;
        }
        // Until a snapshot is durable, the end of each write asks again.
        let durable = self.log.chain().durable();
        let ready = self.snapshots.iter().any(|(offset, _)| *offset <= durable);
        ready.then(|| self.log.save()).flatten()
    }

    /// At a clean stop, when everything is durable: indexes and producer state, so that the next start reads little.
    pub fn final_save(&mut self) -> Option<IoOp> {
        let op = self.log.final_save()?;
        let end = self.log.chain().durable();
        self.snapshots
            .push_back((end, self.producers.encode_snapshot()));
        Some(self.with_snapshot(op))
    }

    /// The end of an operation: tells what it moved. A failure takes the partition offline.
    pub fn on_io(&mut self, tag: IoTag, result: Result<(), IoFailure>, now: Now) -> Progress {
        let sealed = matches!(tag, IoTag::Seal(_)) && result.is_ok();
        self.snapshot_ended(tag, result.is_ok());
        let progress = self.log.on_io(tag, result, now);
        if sealed {
            self.maintain(now);
        }
        progress
    }

    /// The partition can't go on (a damaged batch was found, its directory is gone): final.
    pub fn go_offline(&mut self, reason: String) {
        self.log.go_offline(reason);
    }

    /// See `Log::ask_again`.
    pub fn ask_again(&mut self) {
        self.log.ask_again();
    }

    /// When `poll_io` should be asked again although nothing happened.
    pub fn io_deadline(&self) -> Option<MonoNs> {
        self.log.io_deadline()
    }

    /// Whether everything appended is durable and no write is under way.
    pub fn quiet(&self) -> bool {
        self.log.quiet()
    }

    fn with_snapshot(&mut self, mut op: IoOp) -> IoOp {
        let tag = op.tag();
        let taken = match &mut op {
            IoOp::Seal {
                segment, snapshot, ..
            } => {
                let end = self.log.end_of(*segment);
                *snapshot = self.take_snapshot(|offset| Some(offset) == end);
                snapshot
            }
            IoOp::Save { snapshot, .. } => {
                let durable = self.log.chain().durable();
                *snapshot = self.take_snapshot(|offset| offset <= durable);
                snapshot
            }
            IoOp::Create { .. }
            | IoOp::Cut { .. }
            | IoOp::Preallocate { .. }
            | IoOp::ZeroAhead { .. }
            | IoOp::Write { .. }
            | IoOp::SaveEpochs { .. }
            | IoOp::Delete { .. } => return op,
        };
        if let Some(taken) = taken {
            self.snapshots_written.push((tag, taken.clone()));
        }
        op
    }

    /// The newest waiting snapshot that fits; older ones are of no use then.
    fn take_snapshot(&mut self, fits: impl Fn(Offset) -> bool) -> Option<Snapshot> {
        let at = self
            .snapshots
            .iter()
            .rposition(|(offset, _)| fits(*offset))?;
        let (offset, bytes) = self.snapshots.drain(..=at).next_back()?;
        let older = self.loose_snapshots.iter().filter(|loose| **loose < offset);
        Some(Snapshot {
            offset,
            bytes,
            replaces: older.copied().collect(),
        })
    }

    /// The snapshot that went with an operation is on the disk; or it may be, and waits to be written again.
    fn snapshot_ended(&mut self, tag: IoTag, written: bool) {
        let at = self.snapshots_written.iter().position(|(of, _)| *of == tag);
        let Some(at) = at else {
            return;
        };
        let (_, snapshot) = self.snapshots_written.swap_remove(at);
        if written {
            self.loose_snapshots
                .retain(|loose| !snapshot.replaces.contains(loose));
        }
        // One at the end of a sealed segment stays with the segment that begins there.
        self.loose_snapshots
            .retain(|loose| *loose != snapshot.offset);
        if matches!(tag, IoTag::Save(_)) {
            self.loose_snapshots.push(snapshot.offset);
        }
        if !written {
            let at = self
                .snapshots
                .partition_point(|(offset, _)| *offset < snapshot.offset);
            self.snapshots.insert(at, (snapshot.offset, snapshot.bytes));
        }
    }
}
