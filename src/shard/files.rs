//! Descriptors of segment files: opened when they are needed, a bounded number at a time, closed when nobody needs them.
//! Per shard; a segment's is kept in its cell, whoever uses it holds a handle of its own.
//! Always: at most `Descriptors::files_max` are kept, but for files in use; a file is closed only when no operation of its partition is
//! under way, or when it is sealed, so that a write and its sync have one descriptor.
//! What is read from and written to files is `read`'s and `disk`'s.

use std::cell::Cell;
use std::rc::Rc;

use super::cell::SegmentCell;
use super::disk::{failure, segment_path};
use super::{PartitionCell, Shard};
use crate::base::{MonoNs, Offset};
use crate::io::clock;
use crate::io::file::{SegmentFile, StorageError};
use crate::log::IoFailure;

/// A descriptor that is kept, and counted.
pub struct KeptFile {
    file: SegmentFile,
    used: Cell<MonoNs>,
    kept: Rc<Cell<usize>>,
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        self.kept.set(self.kept.get() - 1);
    }
}

impl SegmentCell {
    /// The file, if it is open.
    pub fn open_file(&self) -> Option<SegmentFile> {
        let kept = self.file.borrow();
        let kept = kept.as_ref()?;
        kept.used.set(clock::mono());
        Some(kept.file.clone())
    }
}

impl Shard {
    /// The file of a segment, opened if it is not.
    pub(super) async fn open_segment(
        &self,
        cell: &PartitionCell,
        segment: Offset,
    ) -> Result<SegmentFile, IoFailure> {
        self.open_file(cell, segment).await.map_err(failure)
    }

    /// The file of a segment, opened if it is not.
    pub(super) async fn open_file(
        &self,
        cell: &PartitionCell,
        segment: Offset,
    ) -> Result<SegmentFile, StorageError> {
        let open = self.segment_cell(cell, segment);
        if let Some(file) = open.open_file() {
            return Ok(file);
        }
        let path = segment_path(cell, segment, "log");
        let file = SegmentFile::open(&path, self.settings.mode).await?;
        // Another task may have opened it meanwhile: one descriptor serves all.
        Ok(open
            .open_file()
            .unwrap_or_else(|| self.keep_open(&open, file)))
    }

    /// Keeps a file open for who needs it next; others are closed for it.
    pub(super) fn keep_open(&self, open: &SegmentCell, file: SegmentFile) -> SegmentFile {
        let max = self.settings.descriptors.files_max();
        if self.files_kept.get() >= max {
            self.close_files(max / CLOSED_PART + 1, clock::mono());
        }
        self.files_kept.set(self.files_kept.get() + 1);
        *open.file.borrow_mut() = Some(KeptFile {
            file: file.clone(),
            used: Cell::new(clock::mono()),
            kept: self.files_kept.clone(),
        });
        file
    }

    /// Connections came: every shard gives back the files that it may not keep beside them.
    pub fn close_files_everywhere(self: &Rc<Self>) {
        for shard in self.all_shards() {
            let looked = self.at(shard, |shard| async move { shard.close_excess_files() });
            drop(looked);
        }
    }

    /// Closes files that this shard may not keep now.
    pub(super) fn close_excess_files(&self) {
        let max = self.settings.descriptors.files_max();
        let excess = self.files_kept.get().saturating_sub(max);
        if excess > 0 {
            self.close_files(excess, clock::mono());
        }
    }

    /// Closes up to `count` files last used before `before`, the longest unused first.
    pub(super) fn close_files(&self, count: usize, before: MonoNs) {
        let mut idle = Vec::new();
        for cell in self.all_cells() {
            let partition = cell.partition.borrow();
            let settled = cell.operations.get() == 0 && partition.quiet();
            for (base, segment) in cell.segments.borrow().iter() {
                let free = settled || partition.log().is_sealed(*base);
                let used = segment.file.borrow().as_ref().map(|kept| kept.used.get());
                if let Some(used) = used.filter(|used| *used < before)
                    && free
                    && segment.reading.borrow().is_empty()
                {
                    idle.push((used, segment.clone()));
                }
            }
        }
        idle.sort_by_key(|(used, _)| *used);
        for (_, segment) in idle.into_iter().take(count) {
            *segment.file.borrow_mut() = None;
        }
    }

    /// Segment files that are kept open.
    pub fn files_open(&self) -> usize {
        self.files_kept.get()
    }
}

/// Looking for files to close means looking at all: so many of them, as a part of all, go at once.
const CLOSED_PART: usize = 8;
