//! Keeps the disk busy: asks logs for their operations and tells them how these ended.
//! One driver task per shard; partitions that something happened to are on its list.
//! Always: what was appended in one turn of the executor goes into one write; an end is told once.
//! Which operations there are is the log's, how they are done `disk`'s.

use std::cell::RefCell;
use std::rc::Rc;

use super::{PartitionCell, Shard};
use crate::base::ErrorCode;
use crate::io::sync::Notify;
use crate::io::{clock, executor};
use crate::log::{IoFailure, IoOp, IoTag};

/// Partitions to look at.
#[derive(Default)]
pub struct Dirty {
    cells: RefCell<Vec<Rc<PartitionCell>>>,
    some: Notify,
}

impl Shard {
    /// Something happened to the partition: its log is asked for operations soon.
    pub(super) fn schedule(&self, cell: &Rc<PartitionCell>) {
        if !cell.scheduled.replace(true) {
            self.dirty.cells.borrow_mut().push(cell.clone());
            self.dirty.some.notify();
        }
    }

    /// The driver of this shard.
    pub async fn drive(self: Rc<Self>) {
        loop {
            let some = self.dirty.some.wait();
            let cells = self.dirty.cells.take();
            if cells.is_empty() {
                some.await;
                continue;
            }
            for cell in cells {
                cell.scheduled.set(false);
                self.start_operations(&cell);
            }
        }
    }

    /// Starts every operation that the log has now.
    fn start_operations(self: &Rc<Self>, cell: &Rc<PartitionCell>) {
        if cell.deleted.get() {
            return;
        }
        let more_coming = cell.arriving.get() > 0;
        loop {
            let op = cell
                .partition
                .borrow_mut()
                .poll_io(clock::now(), more_coming);
            let Some(op) = op else {
                break;
            };
            cell.operations.set(cell.operations.get() + 1);
            executor::spawn_detached(self.clone().run(cell.clone(), op));
        }
    }

    async fn run(self: Rc<Self>, cell: Rc<PartitionCell>, op: IoOp) {
        let tag = op.tag();
        let result = self.perform(&cell, op).await;
        match &result {
            Ok(()) if matches!(tag, IoTag::Delete(_)) => self.space_freed(),
            Ok(()) => {}
            Err(IoFailure::NoSpace(text)) => self.wants_space(&cell, text),
            Err(failure) => {
                tracing::error!(partition = %cell.name(), "{tag:?} failed: {failure}");
            }
        }
        cell.operations.set(cell.operations.get() - 1);
        self.ended(&cell, tag, result);
        cell.settled.notify();
        if matches!(tag, IoTag::Seal(_)) {
            self.segment_sealed(&cell);
        }
        self.start_operations(&cell);
    }

    /// Tells the log how an operation ended, and those who waited for it.
    pub(super) fn ended(&self, cell: &PartitionCell, tag: IoTag, result: Result<(), IoFailure>) {
        let mut partition = cell.partition.borrow_mut();
        let progress = partition.on_io(tag, result, clock::now());
        let starved = partition.log().starved();
        drop(partition);
        if let Some(durable) = progress.durable {
            cell.durable_to(durable);
            self.checkpoints.stale.set(true);
        }
        if progress.offline {
            self.went_offline(cell);
        } else if starved && !cell.is_internal() {
            // Their batches go to the disk when there is room, but that may be long. Sent again by an idempotent producer they are
            // known. The broker's own records keep waiting: it would not know what became of them.
            cell.fail_waiting(ErrorCode::KafkaStorageError);
        }
    }

    /// The partition can't be written any more; what is durable stays readable.
    pub(super) fn went_offline(&self, cell: &PartitionCell) {
        let partition = cell.partition.borrow();
        let reason = partition.offline().unwrap_or("unknown").to_owned();
        drop(partition);
        tracing::error!(
            partition = %cell.name(),
            "partition is offline: {reason}; its files are left as they are; restart the broker when the disk is well"
        );
        cell.fail_waiting(ErrorCode::KafkaStorageError);
    }

    /// Waits until everything appended to the partition is on the disk and no operation is under way.
    pub(super) async fn settle(self: &Rc<Self>, cell: &Rc<PartitionCell>) {
        loop {
            let settled = cell.settled.wait();
            let quiet = {
                let partition = cell.partition.borrow();
                partition.offline().is_some() || partition.quiet() || cell.deleted.get()
            };
            if quiet && cell.operations.get() == 0 {
                return;
            }
            self.schedule(cell);
            settled.await;
        }
    }
}
