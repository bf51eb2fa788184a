//! The checkpoint file of a shard: what is certain to be on the disk, so that a start is short and damage is told from a torn tail.
//! Per shard, `DATA/checkpoint-<shard>`; written every second or so while there is something new, before a log start moves for
//! good, and at a clean stop.
//! Always: one write at a time; logs are told what became certain.
//! What an entry says is the log's.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use super::Shard;
use crate::base::ShardId;
use crate::io::file::{self, StorageError};
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
        self.checkpoints.stale.set(false);
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
        file::write_file_atomically(&self.checkpoint_path(self.id), file.encode()).await?;
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

    /// Removes the checkpoints of shards that this process does not have, once its own say all they said.
    pub async fn remove_old_checkpoints(&self) -> Result<(), StorageError> {
        for entry in file::read_dir(&self.settings.data).await? {
            let shard = entry.name.strip_prefix(CHECKPOINT_PREFIX);
            let shard = shard.and_then(|shard| shard.parse::<u16>().ok());
            if shard.is_some_and(|shard| shard >= self.settings.shards) {
                file::delete(&self.settings.data.join(entry.name)).await?;
            }
        }
        Ok(())
    }
}

/// Checkpoint files are called so, with the shard's number behind.
pub const CHECKPOINT_PREFIX: &str = "checkpoint-";
