//! Carries out the disk operations of one partition's log.
//! Runs in a task per operation on the partition's shard, started by `driver`.
//! Always: an operation that returned is durable; a write and its sync have one descriptor.
//! Which operations, and in which order, is the log's; how bytes get to the disk is `io::file`'s.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::cell::{SegmentCell, file_name};
use super::{PartitionCell, Shard};
use crate::base::Offset;
use crate::io::file::{self, SegmentFile, StorageError, Zeroes};
use crate::io::image::FileImage;
use crate::log::{IoFailure, IoOp, PartitionMetadata, Snapshot};
use crate::record::HEADER_BYTES;

impl Shard {
    /// Carries out one operation.
    pub(super) async fn perform(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        op: IoOp,
    ) -> Result<(), IoFailure> {
        let result = match op {
            IoOp::Create {
                segment,
                prealloc,
                recycle,
            } => self.create(cell, segment, prealloc, recycle).await,
            IoOp::Cut {
                segment,
                position,
                prealloc,
                torn,
            } => self.cut(cell, segment, position, prealloc, torn).await,
            IoOp::Preallocate { segment, from, to } => {
                let file = self.open_segment(cell, segment).await?;
                self.set_aside_blocks(cell, &file, from, to).await
            }
            IoOp::ZeroAhead { segment, from, to } => {
                let file = self.open_segment(cell, segment).await?;
                match Zeroes::new(&self.arena) {
                    Some(zeroes) => file.write_zeros(from, to, &zeroes).await,
                    // Only to make later writes cheaper: what is not zeroed reads as zero all the same.
                    None => Ok(()),
                }
            }
            IoOp::Write {
                segment, from, to, ..
            } => self.write(cell, segment, from, to).await,
            IoOp::Seal {
                segment,
                size,
                offset_index,
                time_index,
                snapshot,
            } => {
                let file = self.open_segment(cell, segment).await?;
                if let Some(open) = cell.segment(segment) {
                    open.image.borrow_mut().seal();
                }
                let mut sealed = file.truncate_and_sync(size).await;
                if sealed.is_ok() {
                    sealed = save(cell, segment, offset_index, time_index, snapshot).await;
                }
                if let (Ok(()), Some(open)) = (&sealed, cell.segment(segment)) {
                    // Who reads it later opens it again.
                    *open.file.borrow_mut() = None;
                }
                sealed
            }
            IoOp::Save {
                segment,
                offset_index,
                time_index,
                snapshot,
            } => save(cell, segment, offset_index, time_index, snapshot).await,
            // Written with the directory, when there is a first record.
            IoOp::SaveEpochs { .. } if !cell.directory_made.get() => Ok(()),
            IoOp::SaveEpochs { text } => {
                let path = cell.directory.join(EPOCHS_FILE);
                file::write_file_atomically(&path, text.into_bytes()).await
            }
            IoOp::Delete { segment } => {
                cell.segments.borrow_mut().remove(&segment);
                delete_segment(cell, segment).await
            }
        };
        result.map_err(failure)
    }

    /// Cuts off what is behind the end that a recovery found.
    async fn cut(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        segment: Offset,
        position: u64,
        prealloc: u64,
        torn: bool,
    ) -> Result<(), StorageError> {
        let file = self.open_file(cell, segment).await?;
        if torn {
            keep_torn(cell, segment, position).await?;
        }
        file.truncate_and_sync(position).await?;
        self.set_aside_blocks(cell, &file, position, prealloc).await
    }

    /// Makes the file of a new segment, over a dropped one if there is one.
    async fn create(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        segment: Offset,
        prealloc: u64,
        recycle: Option<Offset>,
    ) -> Result<(), StorageError> {
        self.make_directory(cell).await?;
        let path = segment_path(cell, segment, "log");
        let mode = self.settings.mode;
        let opened = match recycle {
            None => match SegmentFile::create(&path, mode).await {
                // Left by a crash between this and the first write; its name may not be durable.
                Err(error) if error.exists() => {
                    file::sync_dir(&cell.directory).await?;
                    SegmentFile::open(&path, mode).await?
                }
                created => created?,
            },
            Some(old) => {
                delete_companions(cell, old).await?;
                let dropped = cell.segments.borrow_mut().remove(&old);
                let open = dropped.and_then(|old| old.open_file());
                let old_path = segment_path(cell, old, "log");
                take_over(&cell.directory, &old_path, &path).await?;
                match open {
                    Some(file) => file.renamed(&path),
                    None => SegmentFile::open(&path, mode).await?,
                }
            }
        };
        let size = opened.size()?;
        let from = size.min(prealloc);
        match recycle {
            None => self.set_aside_blocks(cell, &opened, from, prealloc).await?,
            // The rest of the last block, which it has.
            Some(_) => opened.preallocate(from, prealloc).await?,
        }
        self.keep_open(&self.segment_cell(cell, segment), opened);
        Ok(())
    }

    /// The partition's directory with its `partition.metadata`, made if it is not there.
    pub(super) async fn make_directory(&self, cell: &PartitionCell) -> Result<(), StorageError> {
        if cell.directory_made.get() {
            return Ok(());
        }
        self.clear_directory(cell).await?;
        file::create_dir(&cell.directory).await?;
        let path = cell.directory.join(METADATA_FILE);
        if file::read_file(&path).await?.is_none() {
            let metadata = PartitionMetadata {
                topic_id: cell.id.topic_id,
            };
            file::write_file_atomically(&path, metadata.to_text().into_bytes()).await?;
        }
        let epochs = cell.partition.borrow().log().epochs().to_text();
        let path = cell.directory.join(EPOCHS_FILE);
        file::write_file_atomically(&path, epochs.into_bytes()).await?;
        cell.directory_made.set(true);
        Ok(())
    }

    async fn write(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        segment: Offset,
        from: u64,
        to: u64,
    ) -> Result<(), StorageError> {
        let file = self.open_file(cell, segment).await?;
        let open = self.segment_cell(cell, segment);
        let sources = open.image.borrow().write_sources(from..to);
        let sources = sources.unwrap_or_else(|| {
            panic!(
                "bytes {from}..{to} of segment {segment} of {} left memory",
                cell.name()
            )
        });
        let _turn = self.turns.write();
        self.counters.disk_writes.one();
        self.counters.disk_write_bytes.add(to - from);
        file.write_blocks(from, sources).await
    }

    /// What this shard holds of a segment; an image with nothing in it if it is not there yet.
    pub(super) fn segment_cell(&self, cell: &PartitionCell, segment: Offset) -> Rc<SegmentCell> {
        let mut segments = cell.segments.borrow_mut();
        let open = segments.entry(segment).or_insert_with(|| {
            let image = FileImage::new(self.arena.clone(), HEADER_BYTES, 0, &[]);
            Rc::new(SegmentCell::new(segment, image))
        });
        open.clone()
    }
}

/// Gives a dropped file its new name. It may have it already, from a try that then found no space for more.
async fn take_over(directory: &Path, old: &Path, new: &Path) -> Result<(), StorageError> {
    match file::rename(old, new).await {
        // If it has neither name, who opens it is told.
        Err(gone) if gone.is_not_found() => file::sync_dir(directory).await,
        result => result,
    }
}

/// Replaces the index files of a segment, and the producer snapshot if there is one.
async fn save(
    cell: &PartitionCell,
    segment: Offset,
    offset_index: Vec<u8>,
    time_index: Vec<u8>,
    snapshot: Option<Snapshot>,
) -> Result<(), StorageError> {
    file::write_file_atomically(&segment_path(cell, segment, "index"), offset_index).await?;
    file::write_file_atomically(&segment_path(cell, segment, "timeindex"), time_index).await?;
    if let Some(snapshot) = snapshot {
        let path = segment_path(cell, snapshot.offset, "snapshot");
        file::write_file_atomically(&path, snapshot.bytes).await?;
        for old in snapshot.replaces {
            file::delete(&segment_path(cell, old, "snapshot")).await?;
        }
    }
    Ok(())
}

/// Copies what is behind `position` of a segment before it is cut off: if it is no unfinished write, somebody may want it.
async fn keep_torn(
    cell: &PartitionCell,
    segment: Offset,
    position: u64,
) -> Result<(), StorageError> {
    let torn = segment_path(cell, segment, TORN);
    file::copy_rest(&segment_path(cell, segment, "log"), position, &torn).await?;
    file::sync_dir(&cell.directory).await
}

async fn delete_segment(cell: &PartitionCell, segment: Offset) -> Result<(), StorageError> {
    delete_companions(cell, segment).await?;
    file::delete(&segment_path(cell, segment, "log")).await
}

/// Removes the files that lie beside a segment's log.
async fn delete_companions(cell: &PartitionCell, segment: Offset) -> Result<(), StorageError> {
    for extension in ["index", "timeindex", "snapshot", TORN] {
        file::delete(&segment_path(cell, segment, extension)).await?;
    }
    Ok(())
}

/// The path of one of a segment's files.
pub(super) fn segment_path(cell: &PartitionCell, segment: Offset, extension: &str) -> PathBuf {
    cell.directory.join(file_name(segment, extension))
}

/// What the log is told of an error.
pub(super) fn failure(error: StorageError) -> IoFailure {
    match error.is_no_space() {
        true => IoFailure::NoSpace(error.to_string()),
        false => IoFailure::Fault(error.to_string()),
    }
}

/// Extension of the file that keeps what was cut off a segment.
pub(super) const TORN: &str = "torn";
pub(super) const METADATA_FILE: &str = "partition.metadata";
pub(super) const EPOCHS_FILE: &str = "leader-epoch-checkpoint";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::io::testing::on_shard;

    #[test]
    fn a_dropped_file_is_taken_over_again_after_a_try_that_found_no_space() {
        on_shard(|| async {
            let directory = tempfile::tempdir().unwrap();
            let (old, new) = (
                directory.path().join("0.log"),
                directory.path().join("9.log"),
            );
            fs::write(&old, b"bytes").unwrap();
            for _ in 0..2 {
                let taken = take_over(directory.path(), &old, &new).await;
                assert_eq!(taken, Ok(()));
                assert_eq!(fs::read(&new).unwrap(), b"bytes");
                assert!(!old.exists());
            }
        });
    }

    #[test]
    fn the_rest_of_a_file_is_copied_to_the_same_place_without_its_zeros() {
        on_shard(|| async {
            let directory = tempfile::tempdir().unwrap();
            let (log, torn) = (
                directory.path().join("0.log"),
                directory.path().join("0.torn"),
            );
            let mut bytes = vec![7; 5000];
            bytes.resize(4 << 20, 0);
            fs::write(&log, &bytes).unwrap();
            fs::write(&torn, b"older").unwrap();
            file::copy_rest(&log, 4990, &torn).await.unwrap();
            let kept = fs::read(&torn).unwrap();
            assert!(kept.len() < 2 << 20, "{} bytes", kept.len());
            assert!(kept[..4990].iter().all(|byte| *byte == 0));
            assert_eq!(kept[4990..5000], [7; 10]);
            assert!(kept[5000..].iter().all(|byte| *byte == 0));
            let gone = directory.path().join("gone.log");
            let error = file::copy_rest(&gone, 0, &torn).await.unwrap_err();
            assert!(error.is_not_found());
        });
    }
}
