//! What a shard does by the clock, and what it does at its end.
//! One task per shard.
//! Always: a shard without partitions that need anything only looks at a few numbers once a second.
//! What is expired or rolled is the log's.

use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{PartitionCell, Shard};
use crate::base::MonoNs;
use crate::io::file::StorageError;
use crate::io::{clock, executor};

/// Where the shards of the process wait for each other when it stops.
#[derive(Default, Debug)]
pub struct Meeting {
    arrived: AtomicUsize,
    begun: OnceLock<MonoNs>,
}

impl Meeting {
    /// When the stop began: the time that the first shard gives. One clock for all, so that a shard that hears of it late is not
    /// left behind, still answering for partitions that are closed already.
    pub fn begun(&self, now: MonoNs) -> MonoNs {
        *self.begun.get_or_init(|| now)
    }
}

impl Shard {
    /// Runs for as long as the shard lives.
    pub async fn upkeep(self: Rc<Self>) {
        let every = self.broker_config().retention_check_interval_ms;
        let mut retention_due = clock::mono().plus_ms(every.min(FIRST_RETENTION_MS));
        let mut idle_due = clock::mono().plus_ms(IDLE_INTERVAL_MS);
        loop {
            executor::sleep(TICK).await;
            let now = clock::now();
            self.wake_starved();
            // Those that were in use when connections came.
            self.close_excess_files();
            self.keep_ballast().await;
            if self.checkpoints.stale.get() {
                self.try_checkpoint().await;
            }
            if now.mono >= retention_due {
                let every = self.broker_config().retention_check_interval_ms;
                retention_due = now.mono.plus_ms(every.max(1));
                self.apply_retention().await;
            }
            if now.mono >= idle_due {
                idle_due = now.mono.plus_ms(IDLE_INTERVAL_MS);
                self.evict_idle();
            }
        }
    }

    /// Logs that wait for disk space ask again.
    fn wake_starved(&self) {
        let now = clock::mono();
        for cell in self.all_cells() {
            let deadline = cell.partition.borrow().io_deadline();
            if deadline.is_some_and(|deadline| deadline <= now) {
                self.schedule(&cell);
            }
        }
    }

    /// Retention of every partition, expired producers too.
    async fn apply_retention(self: &Rc<Self>) {
        let mut moved = false;
        for cell in self.all_cells() {
            if cell.is_metadata() {
                continue;
            }
            cell.partition.borrow_mut().maintain(clock::now());
            if cell.partition.borrow().checkpoint_needed() {
                moved = true;
                cell.moved.notify();
            }
            self.schedule(&cell);
            executor::yield_if_needed().await;
        }
        if moved {
            self.try_checkpoint().await;
        }
    }

    /// A checkpoint that is not written is tried again by the next tick.
    async fn try_checkpoint(self: &Rc<Self>) {
        if let Err(error) = self.checkpoint_now().await {
            tracing::error!("checkpoint not written: {error}");
        }
    }

    /// A segment is full: `retention.bytes` does not wait for the next check, so that a flow that fills its partition's share of
    /// the disk goes on in the files it has.
    pub(super) fn segment_sealed(self: &Rc<Self>, cell: &Rc<PartitionCell>) {
        if cell.is_metadata() {
            return;
        }
        cell.partition.borrow_mut().maintain_size();
        if cell.partition.borrow().checkpoint_needed() {
            cell.moved.notify();
            let shard = self.clone();
            executor::spawn_detached(async move { shard.try_checkpoint().await });
        }
    }

    /// The end of a clean stop: everything is on the disk, and a checkpoint says so. What is not there by `deadline` is left to
    /// the next start; what comes after is refused, for a clean checkpoint says that there is nothing behind it. False: something
    /// is left.
    pub async fn finish(self: &Rc<Self>, deadline: MonoNs) -> Result<bool, StorageError> {
        self.closed.set(true);
        let flushed = executor::until(deadline, self.flush()).await;
        match flushed {
            Some(()) => self.checkpoint_clean().await?,
            // The next start verifies what is behind this checkpoint.
            None => {
                tracing::warn!("shard {} could not flush everything in time", self.id);
                self.checkpoint_now().await?;
            }
        }
        Ok(flushed.is_some())
    }

    async fn flush(self: &Rc<Self>) {
        for cell in self.all_cells() {
            self.settle(&cell).await;
            self.save_indexes(&cell).await;
        }
    }

    /// The indexes of the segment that was written to, so that the next start reads little.
    async fn save_indexes(self: &Rc<Self>, cell: &Rc<PartitionCell>) {
        let op = cell.partition.borrow_mut().final_save();
        if let Some(op) = op {
            let tag = op.tag();
            let result = self.perform(cell, op).await;
            self.ended(cell, tag, result);
        }
    }

    /// Waits until every shard is here, or has had its time.
    pub async fn meet(&self, deadline: MonoNs) {
        let meeting = &self.settings.meeting.arrived;
        let shards = usize::from(self.settings.shards);
        // Each shard comes once per meeting: the number of the meeting follows from how often this one came.
        let round = self.meetings.get() + 1;
        self.meetings.set(round);
        meeting.fetch_add(1, Ordering::AcqRel);
        while meeting.load(Ordering::Acquire) < round * shards && clock::mono() < deadline {
            executor::sleep(Duration::from_millis(1)).await;
        }
    }
}

const TICK: Duration = Duration::from_secs(1);
/// Kafka's `log.initial.task.delay.ms`; no longer than from one check to the next.
const FIRST_RETENTION_MS: i64 = 30_000;
const IDLE_INTERVAL_MS: i64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_begins_when_its_first_shard_hears_of_it() {
        let meeting = Meeting::default();
        assert_eq!(meeting.begun(MonoNs(5)), MonoNs(5));
        assert_eq!(meeting.begun(MonoNs(700_000_000)), MonoNs(5));
    }
}
