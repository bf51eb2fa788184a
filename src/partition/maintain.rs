//! What time changes in a partition, and what the checkpoint says about it.
//! Called by the shard's sweep, and by the partition when a segment was sealed.
//! Always: only whole segments expire; their files go after the next durable checkpoint.
//! How often to sweep and when to write the checkpoint is the shard's.

use super::Partition;
use crate::base::{Now, Offset};
use crate::log::PartitionCheckpoint;

impl Partition {
    /// Retention and expiry of producers. Afterwards poll for `IoOp`s, and see `checkpoint_needed`.
    pub fn maintain(&mut self, now: Now) {
        self.producers
            .expire(now.wall, self.config.producer_expiration_ms);
        if self.config.cleanup_delete {
            self.log.expire(now);
        }
    }

    /// `retention.bytes`, as soon as a segment is full. Afterwards poll for `IoOp`s, and see `checkpoint_needed`.
    pub fn maintain_size(&mut self) {
        if self.config.cleanup_delete {
            self.log.expire_by_size();
        }
    }

    /// Gives up the oldest segment, for the hard budget of the ring. False: there is nothing to give up.
    pub fn drop_oldest(&mut self, now: Now) -> bool {
        self.log.drop_oldest(now).log_start.is_some()
    }

    /// The entry for the checkpoint file; `None` keeps the partition out of it.
    pub fn checkpoint(&self) -> Option<PartitionCheckpoint> {
        match &self.refused {
            // Behind it is what nobody has looked at: the next start must.
            Some(kept) => kept.clone().map(|kept| PartitionCheckpoint {
                settled: false,
                ..kept
            }),
            None => Some(self.log.checkpoint(self.id)),
        }
    }

    /// Whether files or a DeleteRecords wait for a checkpoint.
    pub fn checkpoint_needed(&self) -> bool {
        self.refused.is_none() && self.log.checkpoint_needed()
    }

    /// A checkpoint with this log start is on the disk. Poll for `IoOp`s after it.
    pub fn on_checkpoint(&mut self, log_start: Offset) {
        if self.refused.is_none() {
            self.log.on_checkpoint(log_start);
        }
    }
}
