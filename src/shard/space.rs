//! Room on the disk: what is kept back from records, so that a full disk can be emptied again without help.
//! Each shard asks before it sets space aside; the ballast is one file for all shards, made by the controller's.
//! Always: records leave `reserve` free, committed offsets half of it; the metadata and the checkpoints, without which nothing can be
//! deleted, have all of it, and the ballast too where others have filled the disk.
//! What a log does without space is the log's.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use std::{fs, io};

use super::{CONTROLLER, PartitionCell, Shard};
use crate::base::MonoNs;
use crate::io::file::{self, SegmentFile, StorageError, WriteMode};
use crate::io::{clock, executor};
use crate::metadata::topic_name::CONSUMER_OFFSETS;

/// What a shard remembers of it.
#[derive(Default)]
pub struct Space {
    /// A partition waits for space.
    wanted: Cell<bool>,
    /// When answers were last cut for it.
    holds_given_up: Cell<Option<MonoNs>>,
    /// When a person was last told that the disk is full.
    told: Cell<Option<MonoNs>>,
    ballast_due: Cell<MonoNs>,
}

impl Shard {
    /// Sets blocks aside for a partition's file, if they can be spared.
    pub(super) async fn set_aside_blocks(
        self: &Rc<Self>,
        cell: &PartitionCell,
        file: &SegmentFile,
        from: u64,
        to: u64,
    ) -> Result<(), StorageError> {
        if to <= from {
            return Ok(());
        }
        let (all, free) = file::space(file.path()).await?;
        let kept = kept_free(cell, all);
        if free < kept + (to - from) && !cell.is_metadata() {
            let detail = format!(
                "{} bytes are wanted, {free} of the disk's {all} are free, of which {kept} are kept",
                to - from
            );
            return Err(StorageError::no_space(file.path(), "fallocate", detail));
        }
        match file.preallocate(from, to).await {
            Err(full) if full.is_no_space() && cell.is_metadata() => {
                self.release_ballast().await?;
                file.preallocate(from, to).await
            }
            result => result,
        }
    }

    /// The disk is full and something must be written all the same.
    pub(super) async fn release_ballast(&self) -> Result<(), StorageError> {
        let path = self.settings.data.join(BALLAST);
        // XFS frees the blocks of a removed file some time later, those of one that is cut at once.
        match SegmentFile::open(&path, WriteMode::Buffered).await {
            Ok(file) => file.truncate_and_sync(0).await?,
            Err(gone) if gone.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        }
        file::delete(&path).await
    }

    /// Makes the ballast, at start and again once there is plenty of room.
    pub async fn keep_ballast(self: &Rc<Self>) {
        let now = clock::mono();
        if self.id != CONTROLLER || now < self.space.ballast_due.get() {
            return;
        }
        self.space.ballast_due.set(now.plus_ms(BALLAST_MS));
        if let Err(error) = self.make_ballast().await {
            tracing::warn!("no space is kept for when the disk is full: {error}");
        }
    }

    async fn make_ballast(&self) -> Result<(), StorageError> {
        let path = self.settings.data.join(BALLAST);
        let (all, free) = file::space(&self.settings.data).await?;
        let bytes = ballast(all);
        let there = file::read_dir(&self.settings.data).await?;
        let there = there.iter().any(|entry| entry.name == BALLAST);
        if there || free < reserve(all) + 2 * bytes {
            return Ok(());
        }
        let file = SegmentFile::create(&path, WriteMode::Buffered).await?;
        file.preallocate(0, bytes).await
    }

    /// Files are gone: who waits for space asks again now, not only when its time has come.
    pub(super) fn space_freed(&self) {
        if !self.space.wanted.take() {
            return;
        }
        for cell in self.all_cells() {
            cell.partition.borrow_mut().ask_again();
            self.schedule(&cell);
        }
    }

    /// A partition waits for space, and asks again at its time; a person is told now and then.
    pub(super) fn wants_space(self: &Rc<Self>, cell: &Rc<PartitionCell>, what: &str) {
        self.space.wanted.set(true);
        self.give_up_holds_everywhere();
        let (shard, waits) = (self.clone(), cell.clone());
        executor::spawn_detached(async move {
            executor::sleep(RETRY).await;
            shard.schedule(&waits);
        });
        let now = clock::mono();
        let again = |told: MonoNs| now >= told.plus_ms(TELL_MS);
        if self.space.told.get().is_none_or(again) {
            self.space.told.set(Some(now));
            tracing::error!(
                partition = %cell.name(),
                "the disk is full, records are refused until there is room: {what}; delete topics or records, lower retention, or add space"
            );
        }
    }

    /// Dropped files that are kept for slow readers go at once, on all shards: they have one disk.
    fn give_up_holds_everywhere(self: &Rc<Self>) {
        let now = clock::mono();
        let given_up = self.space.holds_given_up.get();
        if given_up.is_some_and(|at| now < at.plus_ms(GIVE_UP_MS)) {
            return;
        }
        self.space.holds_given_up.set(Some(now));
        for shard in self.all_shards() {
            let given_up = self.at(shard, |shard| async move {
                for cell in shard.all_cells() {
                    if cell.partition.borrow_mut().give_up_holds() {
                        shard.schedule(&cell);
                    }
                }
            });
            drop(given_up);
        }
    }
}

/// Before there is a shard: does `write`, and once more without the ballast if there is no space.
pub(super) fn with_ballast(data: &Path, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match write() {
        Err(full) if full.kind() == io::ErrorKind::StorageFull => {
            let path = data.join(BALLAST);
            match fs::File::create(&path).and_then(|_cut| fs::remove_file(&path)) {
                Ok(()) => write(),
                Err(_) => Err(full),
            }
        }
        result => result,
    }
}

fn kept_free(cell: &PartitionCell, all: u64) -> u64 {
    if cell.is_metadata() {
        0
    } else if &*cell.topic == CONSUMER_OFFSETS {
        reserve(all) / 2
    } else {
        reserve(all)
    }
}

/// Bytes of a disk of `all` bytes that records don't get.
fn reserve(all: u64) -> u64 {
    (all / 64).min(16 << 20)
}

fn ballast(all: u64) -> u64 {
    (all / 128).clamp(256 << 10, 8 << 20)
}

const BALLAST: &str = ".ballast";
/// Between two looks at the ballast.
const BALLAST_MS: i64 = 10_000;
const TELL_MS: i64 = 60_000;
/// Between two rounds of cutting answers for space.
const GIVE_UP_MS: i64 = 1_000;
/// A little more than a log waits.
const RETRY: Duration = Duration::from_millis(1_010);
