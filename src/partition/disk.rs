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
        let op = self.log.poll_io(now, more_coming)?;
        Some(self.with_snapshot(op))
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

    /// When `poll_io` should be asked again although nothing happened.
    pub fn io_deadline(&self) -> Option<MonoNs> {
        self.log.io_deadline()
    }

    /// Whether everything appended is durable and no write is under way.
    pub fn quiet(&self) -> bool {
        self.log.quiet()
    }

    fn with_snapshot(&mut self, mut op: IoOp) -> IoOp {
        match &mut op {
            IoOp::Seal {
                segment, snapshot, ..
            } => {
                let end = self.log.end_of(*segment);
                *snapshot = self.take_snapshot(|offset| Some(offset) == end);
                // The file stays with the segment that begins there.
                self.saved_snapshot = None;
            }
            IoOp::Save { snapshot, .. } => {
                let durable = self.log.chain().durable();
                *snapshot = self.take_snapshot(|offset| offset <= durable);
                if let Some(taken) = snapshot {
                    self.saved_snapshot = Some(taken.offset);
                }
            }
            IoOp::Create { .. }
            | IoOp::Cut { .. }
            | IoOp::Preallocate { .. }
            | IoOp::ZeroAhead { .. }
            | IoOp::Write { .. }
            | IoOp::SaveEpochs { .. }
            | IoOp::Delete { .. } => {}
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
        Some(Snapshot {
            offset,
            bytes,
            replaces: self.saved_snapshot.filter(|saved| *saved < offset),
        })
    }
}
