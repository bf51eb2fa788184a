//! The checkpoint file of a shard: what is certain to be on the disk, so that a start is short and damage is told from a torn tail.
//! Per shard, `DATA/checkpoint.<shard>`; written every second or so while there is something new, before a log start moves for
//! good, and at a clean stop.
//! Always: one write at a time; logs are told what became certain.
//! What an entry says is the log's.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use super::Shard;
use crate::base::ShardId;
use crate::io::file::{self, StorageError};
use crate::io::mesh::Gone;
use crate::io::sync::Semaphore;
use crate::log::checkpoint::CheckpointFile;

/// The state of a shard's checkpoints.
pub struct Checkpoints {
    turn: Semaphore,
    sequence: Cell<u64>,
    /// Something changed since the last one began.
    pub(super) stale: Cell<bool>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Checkpoints {
            turn: Semaphore::new(1),
            sequence: Cell::new(0),
            stale: Cell::new(true),
        }
    }
}

impl Shard {
    /// Writes a checkpoint of what is certain now.
    pub async fn checkpoint_now(self: &Rc<Self>) -> Result<(), StorageError> {
        self.write_checkpoint(false).await
    }

    /// Writes the last checkpoint of a clean stop: everything is settled.
    pub async fn checkpoint_clean(self: &Rc<Self>) -> Result<(), StorageError> {
        self.write_checkpoint(true).await
    }

    async fn write_checkpoint(self: &Rc<Self>, clean: bool) -> Result<(), StorageError> {
        let _turn = self.checkpoints.turn.acquire(1).await;
        // What changes from here on is in the next one.
        self.checkpoints.stale.set(false);
        let result = self.write_next(clean).await;
        if result.is_err() {
            self.checkpoints.stale.set(true);
        }
        result
    }

    async fn write_next(self: &Rc<Self>, clean: bool) -> Result<(), StorageError> {
        let sequence = self.checkpoints.sequence.get() + 1;
        self.checkpoints.sequence.set(sequence);
        let cells = self.all_cells();
        let entries: Vec<_> = cells
            .iter()
            .filter_map(|cell| cell.partition.borrow().checkpoint())
            .collect();
        let starts: Vec<_> = entries.iter().map(|entry| entry.log_start).collect();
        let partitions: Vec<_> = entries.iter().map(|entry| entry.partition).collect();
        let file = CheckpointFile {
            clean,
            sequence,
            entries,
        };
        let (path, bytes) = (self.checkpoint_path(self.id), file.encode());
        match file::write_file_atomically(&path, bytes.clone()).await {
            // Files are deleted only after a checkpoint: without one the disk stays full.
            Err(full) if full.is_no_space() => {
                self.release_ballast().await?;
                file::write_file_atomically(&path, bytes).await?;
            }
            result => result?,
        }
        for (partition, log_start) in partitions.into_iter().zip(starts) {
            let Some(cell) = self.cell(partition) else {
                continue;
            };
            cell.partition.borrow_mut().on_checkpoint(log_start);
            // Files below the log start may go now.
            self.schedule(&cell);
        }
        Ok(())
    }

    fn checkpoint_path(&self, shard: ShardId) -> PathBuf {
        self.settings
            .data
            .join(format!("{CHECKPOINT_PREFIX}{shard}"))
    }

    /// Removes the checkpoints of shards that this process does not have. Their partitions belong to other shards now, so first every
    /// one of these says what they said.
    pub async fn remove_old_checkpoints(self: &Rc<Self>) -> Result<(), StorageError> {
        let found = file::read_dir(&self.settings.data).await?;
        let old: Vec<_> = found
            .into_iter()
            .map(|entry| entry.name)
            .filter(|name| shard_of(name).is_some_and(|shard| shard >= self.settings.shards))
            .collect();
        if old.is_empty() {
            return Ok(());
        }
        let written: Vec<_> = self
            .all_shards()
            .map(|to| self.at(to, |shard| async move { shard.checkpoint_now().await }))
            .collect();
        for written in written {
            match written.await {
                Ok(result) => result?,
                // That shard is stopping: the next start removes them.
                Err(Gone) => return Ok(()),
            }
        }
        for name in old {
            file::delete(&self.settings.data.join(name)).await?;
        }
        Ok(())
    }
}

/// The shard whose checkpoint has this name.
pub(super) fn shard_of(name: &str) -> Option<u16> {
    name.strip_prefix(CHECKPOINT_PREFIX)?.parse().ok()
}

/// Checkpoint files are called so, with the shard's number behind. The directory of a partition ends in `-<partition>`, so whatever
/// a topic is called, its directories have other names than this.
pub const CHECKPOINT_PREFIX: &str = "checkpoint.";
