//! Bytes of a log for those who read it: from memory if they are there, else read back from the disk, ahead of who reads on.
//! On the partition's shard; another shard of the node borrows a piece for the time of a send.
//! Always: what is given out is durable; two readers of the same place share one read, which goes on when they are gone; nobody
//! waits for a disk but who asked.
//! Which bytes a reader wants is `fetch`'s and the recovery's.

use std::rc::Rc;

use super::cell::{SegmentCell, WindowRead};
use super::{LogRange, PartitionCell, Shard};
use crate::base::limits::BLOCK_BYTES;
use crate::base::{ErrorCode, Offset};
use crate::io::arena::{Extent, Pinned, SliceRef};
use crate::io::executor;
use crate::io::socket::SENDFILE_BYTES_MIN;

/// Bytes of a log in memory, for as long as it lives.
pub enum Piece {
    Here(Pinned),
    /// Of another shard of the process.
    There {
        slice: SliceRef,
        release: Release,
    },
    /// Too small to be borrowed from another shard.
    Copied(Vec<u8>),
}

/// How what is left of a piece, or the beginning of that, is to be sent. What begins inside a page goes up to its end first: a
/// `sendfile` from a page's start costs a seventh less, as its packets then end where what is handed over at a time does.
pub enum Rest<'a> {
    Copy(&'a [u8]),
    /// By `sendfile`.
    Reference(SliceRef),
}

/// What another shard gives of its memory.
enum Lent {
    Copy(Vec<u8>),
    Slice(SliceRef, u64),
}

/// Tells the owner of a borrowed piece that it is free.
pub struct Release {
    shard: Rc<Shard>,
    owner: crate::base::ShardId,
    export: u64,
}

impl Drop for Release {
    fn drop(&mut self) {
        let export = self.export;
        let returned = self.shard.at(self.owner, move |shard| async move {
            shard.exports.borrow_mut().remove(&export);
        });
        drop(returned);
    }
}

impl Piece {
    pub fn len(&self) -> usize {
        match self {
            Piece::Here(pinned) => pinned.len(),
            Piece::There { slice, .. } => slice.len,
            Piece::Copied(bytes) => bytes.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is left after `done` bytes.
    pub fn rest(&self, done: usize) -> Rest<'_> {
        match self {
            Piece::Here(pinned) => {
                let left = pinned.len() - done;
                if left < SENDFILE_BYTES_MIN || !pinned.is_sent_often() {
                    return Rest::Copy(&pinned.bytes()[done..]);
                }
                let slice = pinned.part(done, left).for_send();
                match up_to_page(slice) {
                    Some(first) => Rest::Copy(&pinned.bytes()[done..done + first.len]),
                    None => Rest::Reference(slice),
                }
            }
            Piece::There { slice, .. } => {
                let left = slice.part(done, slice.len - done);
                Rest::Reference(up_to_page(left).unwrap_or(left))
            }
            Piece::Copied(bytes) => Rest::Copy(&bytes[done..]),
        }
    }

    /// `count` bytes were sent as a copy.
    pub fn note_copied(&self, count: usize) {
        if let Piece::Here(pinned) = self {
            pinned.note_copied(count);
        }
    }
}

/// What goes before a `sendfile` that begins at a page, if that is worth it.
fn up_to_page(slice: SliceRef) -> Option<SliceRef> {
    let first = slice.up_to_page()?;
    (slice.len - first.len >= SENDFILE_BYTES_MIN).then_some(first)
}

impl Shard {
    /// The next piece of a range, after `sent` bytes of it. `None`: the segment is gone, or can't be read.
    pub async fn resolve(self: &Rc<Self>, range: LogRange, sent: usize) -> Option<Piece> {
        let position = range.position + sent as u64;
        let wanted = range.bytes - sent;
        if range.shard == self.id {
            let cell = self.cell(range.partition)?;
            let read = self.read_at(&cell, range.segment, position, wanted).await;
            return read.ok().map(Piece::Here);
        }
        let owner = range.shard;
        let lent = self.at(owner, move |shard| async move {
            let cell = shard.cell(range.partition)?;
            let pinned = shard
                .read_at(&cell, range.segment, position, wanted)
                .await
                .ok()?;
            if pinned.len() < SENDFILE_BYTES_MIN {
                return Some(Lent::Copy(pinned.bytes().to_vec()));
            }
            let slice = pinned.for_send();
            let export = shard.next_export.get();
            shard.next_export.set(export + 1);
            shard.exports.borrow_mut().insert(export, pinned);
            Some(Lent::Slice(slice, export))
        });
        let piece = match lent.await.ok()?? {
            Lent::Copy(bytes) => Piece::Copied(bytes),
            Lent::Slice(slice, export) => Piece::There {
                slice,
                release: Release {
                    shard: self.clone(),
                    owner,
                    export,
                },
            },
        };
        Some(piece)
    }

    /// Up to `wanted` bytes (at least one) of a segment from `position` on, all of them durable.
    /// Errors: OFFSET_OUT_OF_RANGE if the segment is gone, KAFKA_STORAGE_ERROR if the disk fails.
    pub(super) async fn read_at(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        segment: Offset,
        position: u64,
        wanted: usize,
    ) -> Result<Pinned, ErrorCode> {
        loop {
            let end = cell.partition.borrow().log().readable_end(segment);
            let Some(end) = end.filter(|end| position < *end) else {
                return Err(ErrorCode::OffsetOutOfRange);
            };
            let wanted = wanted.min((end - position) as usize);
            let open = self.segment_cell(cell, segment);
            let found = open.image.borrow().slice(position, wanted);
            if let Some(pinned) = found {
                let sequential = open.read_end.replace(position + pinned.len() as u64) == position;
                if sequential {
                    self.read_ahead(cell, &open, position + pinned.len() as u64, end);
                }
                return Ok(pinned);
            }
            let window = position / WINDOW_BYTES * WINDOW_BYTES;
            self.read_window(cell, &open, window).await?;
        }
    }

    /// Reads the windows after `position` in the background, if they are not in memory.
    fn read_ahead(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        open: &Rc<SegmentCell>,
        position: u64,
        end: u64,
    ) {
        let first = position.div_ceil(WINDOW_BYTES);
        for window in (first..first + WINDOWS_AHEAD).map(|index| index * WINDOW_BYTES) {
            let here = open.image.borrow().contains(window);
            if window >= end || here || open.reading.borrow().contains_key(&window) {
                continue;
            }
            // Who needs it asks again, and is told what is wrong.
            let _ = self.begin_read(cell, open, window);
        }
    }

    /// Reads one window of a segment's file into memory, or waits for who does.
    async fn read_window(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        open: &Rc<SegmentCell>,
        window: u64,
    ) -> Result<(), ErrorCode> {
        let under_way = open.reading.borrow().get(&window).cloned();
        let read = match under_way {
            Some(read) => read,
            None => self.begin_read(cell, open, window)?,
        };
        loop {
            let done = read.done.wait();
            if let Some(result) = read.result.get() {
                return result;
            }
            done.await;
        }
    }

    /// Begins to read a window. A task of its own does it: who asked may be dropped at any time, and others wait for it, too.
    fn begin_read(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        open: &Rc<SegmentCell>,
        window: u64,
    ) -> Result<Rc<WindowRead>, ErrorCode> {
        if !cell.partition.borrow_mut().begin_read(open.base) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let read = Rc::new(WindowRead::default());
        open.reading.borrow_mut().insert(window, read.clone());
        let (shard, cell, open, told) = (self.clone(), cell.clone(), open.clone(), read.clone());
        executor::spawn_detached(async move {
            let result = shard.read_window_now(&cell, &open, window).await;
            cell.partition.borrow_mut().end_read(open.base);
            shard.schedule(&cell);
            open.reading.borrow_mut().remove(&window);
            told.result.set(Some(result));
            told.done.notify();
        });
        Ok(read)
    }

    async fn read_window_now(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        open: &Rc<SegmentCell>,
        window: u64,
    ) -> Result<(), ErrorCode> {
        let _turn = self.turns.read().await;
        let extent = self.extent(WINDOW_BYTES as usize).await;
        let failed = |error| {
            tracing::error!(partition = %cell.name(), "read failed: {error}");
            ErrorCode::KafkaStorageError
        };
        let file = self.open_file(cell, open.base).await.map_err(failed)?;
        // What becomes durable while we read may or may not be in what was read.
        let end = cell.partition.borrow().log().readable_end(open.base);
        let end = end.ok_or(ErrorCode::OffsetOutOfRange)?;
        if end <= window {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let blocks = (end - window)
            .min(WINDOW_BYTES)
            .next_multiple_of(BLOCK_BYTES) as usize;
        self.counters.fetch_cold_reads.one();
        let target = extent.pin(0, blocks);
        let count = file.read_blocks(window, target).await.map_err(failed)?;
        let good = count.min((end - window) as usize);
        if good == 0 {
            tracing::error!(
                partition = %cell.name(),
                "segment {} ends before byte {window}, where {end} bytes are durable", open.base
            );
            return Err(ErrorCode::KafkaStorageError);
        }
        if cell.deleted.get() {
            // Nobody would look for memory there any more.
            return Err(ErrorCode::OffsetOutOfRange);
        }
        open.image
            .borrow_mut()
            .insert_cold(window, extent.pin(0, good));
        Ok(())
    }

    /// Memory of `bytes`, made free by eviction if there is none.
    pub(super) async fn extent(self: &Rc<Self>, bytes: usize) -> Extent {
        loop {
            if let Some(extent) = self.arena.allocate(bytes) {
                return extent;
            }
            if self.evict(bytes) == 0 {
                self.arena.wait_for_room(bytes).await;
            }
        }
    }
}

/// Cold data is read in aligned windows of this size.
const WINDOW_BYTES: u64 = 256 << 10;
/// How many windows a sequential reader is kept ahead of.
const WINDOWS_AHEAD: u64 = 4;

#[cfg(test)]
mod tests {
    use super::{Piece, Rest};
    use crate::io::arena::{Arena, Pinned};

    /// The lengths in which a piece is sent, and how; what is sent is what is there.
    fn sends_of(pinned: Pinned) -> Vec<(&'static str, usize)> {
        let piece = Piece::Here(pinned.part(0, pinned.len()));
        let mut sends = Vec::new();
        let mut done = 0;
        while done < piece.len() {
            let (how, len) = match piece.rest(done) {
                Rest::Copy(bytes) => {
                    assert_eq!(bytes, &pinned.bytes()[done..done + bytes.len()]);
                    ("copy", bytes.len())
                }
                Rest::Reference(slice) => ("sendfile", slice.len),
            };
            sends.push((how, len));
            done += len;
        }
        sends
    }

    #[test]
    fn what_is_sent_by_reference_begins_at_a_page() {
        let arena = Arena::new(1 << 20).expect("arena");
        let numbers: Vec<u8> = (0..=250).cycle().take(256 << 10).collect();
        let held = arena.hold(&numbers).expect("room");
        let rarely = held.part(1000, 200_000);
        assert_eq!(sends_of(rarely), [("copy", 200_000)]);
        held.for_send();
        let often = held.part(1000, 200_000);
        assert_eq!(sends_of(often), [("copy", 3096), ("sendfile", 196_904)]);
        let from_page = held.part(8192, 200_000);
        assert_eq!(sends_of(from_page), [("sendfile", 200_000)]);
        let just_enough = held.part(1000, 3096 + (64 << 10));
        assert_eq!(
            sends_of(just_enough),
            [("copy", 3096), ("sendfile", 65_536)]
        );
        let too_little = held.part(1000, 3095 + (64 << 10));
        assert_eq!(sends_of(too_little), [("sendfile", 68_631)]);
        let small = held.part(1000, 60_000);
        assert_eq!(sends_of(small), [("copy", 60_000)]);
    }
}
