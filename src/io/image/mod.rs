//! The part of one file that is in the arena: its growing end, what was written lately, what was read back.
//! One per open segment file, owned by what drives the file on the shard.
//! Always: a record that was appended or received whole lies contiguous in one extent; the `gap` bytes behind the end are zero in
//! every write that contains the end; bytes before the end never change while they are held.
//! Which bytes are durable, and when to write, is known above; the writing is `file`'s.
//!
//! ```text
//!   file    |....block....|....block....|....block....|....block....|
//!   extent 1 [============================= end of 1 |gap 0000]
//!   extent 2                             [partial copy|=========== end |gap 0000]
//! ```
//! A record that does not fit behind the end starts a new extent at the block that holds the end; the partial block is copied,
//! and from then on is written from there.

mod cold;
mod receive;

pub use receive::Receiving;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::rc::{Rc, Weak};

use smallvec::SmallVec;

use super::arena::{Arena, EXTENT_BYTES_MAX, Extent, GRANULE_BYTES, Pinned};
use super::clock;
use crate::base::{MonoNs, limits::BLOCK_BYTES};
use cold::Cold;
use receive::Place;

/// See the module.
pub struct FileImage {
    arena: Arena,
    gap: usize,
    end: u64,
    /// The end and what lies before it, in file order. Only the last one grows.
    hot: VecDeque<Piece>,
    /// What was read back from the file.
    cold: Cold,
    /// The bytes from the start of the last block to the end, while no piece holds the end.
    partial: Vec<u8>,
    /// The reservation at the end, while its owner has it.
    reserved: Weak<Place>,
    growth: Growth,
}

/// An extent that holds the bytes `start..end` of the file, from its first byte on.
struct Piece {
    start: u64,
    end: u64,
    extent: Extent,
    /// When it was last asked for.
    used: Cell<MonoNs>,
}

/// There is no memory for it now; evict, or wait for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// Bytes in one piece that are missing.
    pub wanted: usize,
}

/// How fast the end moves, and so how large the next extent is.
struct Growth {
    size: usize,
    opened: MonoNs,
}

const BLOCK: u64 = BLOCK_BYTES;
/// An extent should last about this long at the rate of its writer.
const EXTENT_LASTS_MS: u64 = 20;
/// The largest extent that is opened for small records.
const GROWTH_BYTES_MAX: usize = 8 << 20;

const _: () = assert!(
    (GRANULE_BYTES as u64).is_multiple_of(BLOCK),
    "extents are whole blocks"
);

impl FileImage {
    /// An image of a file that ends at `end`, of which nothing is in memory but `partial`: the bytes of the file from the start of
    /// the block that holds `end`. `gap`: how many zero bytes follow the end in every write, and the most a receive leaves out
    /// in front.
    pub fn new(arena: Arena, gap: usize, end: u64, partial: &[u8]) -> FileImage {
        assert_eq!(
            partial.len() as u64,
            end % BLOCK,
            "the partial block of a file that ends at {end}"
        );
        FileImage {
            arena,
            gap,
            end,
            hot: VecDeque::new(),
            cold: Cold::default(),
            partial: partial.to_vec(),
            reserved: Weak::new(),
            growth: Growth {
                size: GRANULE_BYTES,
                opened: MonoNs(0),
            },
        }
    }

    /// The longest record that images in this arena can take, when nothing else is in memory.
    pub fn record_bytes_max(arena: &Arena, gap: usize) -> usize {
        // The partial block in front, and the gap.
        let around = BLOCK as usize + gap.next_multiple_of(BLOCK as usize);
        arena.extent_bytes_max().saturating_sub(around)
    }

    /// Where the next byte goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The end of a write that contains `position` as end of the data: whole blocks with the gap in them.
    pub fn write_end(&self, position: u64) -> u64 {
        (position + self.gap as u64).next_multiple_of(BLOCK)
    }

    /// Makes sure that `len` bytes and the gap fit contiguously at the end. Moves a reservation aside if it is in the way.
    pub fn room(&mut self, len: usize) -> Result<(), NoRoom> {
        if self.hot.back().is_some_and(|tail| {
            let used = (self.end - tail.start) as usize;
            used + len + self.gap <= tail.extent.len()
        }) {
            return Ok(());
        }
        self.open_extent(len)
    }

    /// Appends `parts` as one record, contiguous. Moves a reservation aside. Gives the range of the file.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<Range<u64>, NoRoom> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.room(len)?;
        self.revoke();
        let tail = self.hot.back().expect("room was just made");
        let mut at = (self.end - tail.start) as usize;
        for part in parts {
            tail.extent.copy_in(at, part);
            at += part.len();
        }
        Ok(self.advance(len))
    }

    /// Reserves the end for a record of `prefix + len` bytes, of which the last `len` come from a socket (`prefix` is at most the
    /// gap). Only one reservation is in place at a time: an earlier one is moved aside.
    pub fn begin_receive(&mut self, prefix: usize, len: usize) -> Result<Receiving, NoRoom> {
        assert!(
            prefix <= self.gap,
            "a prefix of {prefix} bytes is longer than the gap of {}",
            self.gap
        );
        self.room(prefix + len)?;
        self.revoke();
        let tail = self.hot.back().expect("room was just made");
        let at = (self.end - tail.start) as usize + prefix;
        let place = Rc::new(Place::new(tail.extent.clone(), at));
        self.reserved = Rc::downgrade(&place);
        Ok(Receiving::new(place, prefix, len))
    }

    /// True while a reservation holds the end.
    pub fn is_reserved(&self) -> bool {
        self.reserved
            .upgrade()
            .is_some_and(|place| place.is_in_place())
    }

    /// True if this image's end is where the record is being received.
    pub fn holds(&self, received: &Receiving) -> bool {
        received.is_in_place() && std::ptr::eq(self.reserved.as_ptr(), received.place())
    }

    /// Moves the bytes of the reservation, if there is one, to memory of its own; its owner goes on without noticing.
    pub fn revoke(&mut self) {
        if let Some(place) = std::mem::take(&mut self.reserved).upgrade() {
            place.move_aside();
        }
    }

    /// Appends the record that was received whole, with `prefix` in front (of the length that was reserved). Where it was received
    /// in place nothing is copied. Without room (it was moved aside) it comes back to be tried again.
    pub fn commit(
        &mut self,
        received: Receiving,
        prefix: &[u8],
    ) -> Result<Range<u64>, (NoRoom, Receiving)> {
        assert!(received.is_full(), "{received:?} is not whole");
        assert_eq!(
            prefix.len(),
            received.prefix(),
            "the prefix of {received:?}"
        );
        if !received.is_in_place() {
            let appended = self.append(&[prefix, &received.filled()]);
            return appended.map_err(|no_room| (no_room, received));
        }
        assert!(
            std::ptr::eq(self.reserved.as_ptr(), received.place()),
            "{received:?} was reserved in another image"
        );
        self.reserved = Weak::new();
        let tail = self.hot.back().expect("a reservation holds its piece");
        tail.extent
            .copy_in((self.end - tail.start) as usize, prefix);
        Ok(self.advance(prefix.len() + received.len()))
    }

    /// Moves the end over `len` bytes that are there, and zeroes what follows in the blocks of the next write.
    fn advance(&mut self, len: usize) -> Range<u64> {
        let start = self.end;
        self.end += len as u64;
        let write_end = self.write_end(self.end);
        let tail = self.hot.back_mut().expect("the end is in a piece");
        tail.end = self.end;
        tail.extent.zero(
            (self.end - tail.start) as usize,
            (write_end - self.end) as usize,
        );
        start..self.end
    }

    /// A new extent at the block of the end, for `len` bytes and the gap.
    fn open_extent(&mut self, len: usize) -> Result<(), NoRoom> {
        let start = self.end - self.end % BLOCK;
        let partial = (self.end - start) as usize;
        // Blocks are written whole: the last one must be inside too.
        let need = (partial + len + self.gap).next_multiple_of(BLOCK as usize);
        let now = clock::mono();
        let size = self.growth.next(now, self.tail_len()).max(need);
        let extent = self
            .arena
            .allocate(size)
            .or_else(|| self.arena.allocate(need))
            .ok_or(NoRoom { wanted: need })?;
        self.revoke();
        match self.hot.back() {
            Some(tail) if partial > 0 => {
                let from = (start - tail.start) as usize;
                extent.copy_from(0, &tail.extent.pin(from, partial));
            }
            _ => extent.copy_in(0, &self.partial),
        }
        if self.hot.back().is_some_and(|tail| tail.start == start) {
            // All of it was in the partial block, which is in the new one.
            self.hot.pop_back();
        } else {
            self.close_tail();
        }
        self.partial = Vec::new();
        self.growth.opened = now;
        self.hot.push_back(Piece {
            start,
            end: self.end,
            extent,
            used: Cell::new(now),
        });
        // The gap behind the end, in case it is written before anything is appended.
        let tail = self.hot.back().expect("just pushed");
        let write_len = (self.write_end(self.end) - start) as usize;
        tail.extent.zero(partial, write_len - partial);
        Ok(())
    }

    fn tail_len(&self) -> usize {
        self.hot
            .back()
            .map_or(0, |tail| (tail.end - tail.start) as usize)
    }

    /// Gives back what the tail has not used, but for the blocks that a write under way may contain.
    fn close_tail(&mut self) {
        let write_end = self.write_end(self.end);
        if let Some(tail) = self.hot.back() {
            tail.extent.shrink((write_end - tail.start) as usize);
        }
    }

    /// No more will be appended: gives back unused memory. (Appending later works all the same.)
    pub fn seal(&mut self) {
        self.revoke();
        self.close_tail();
    }

    /// Up to `len_max` bytes from `position`, as many as lie contiguous in memory; `None` if the first is not in memory.
    pub fn slice(&self, position: u64, len_max: usize) -> Option<Pinned> {
        let after = self.hot.partition_point(|piece| piece.start <= position);
        if let Some(piece) = after.checked_sub(1).map(|index| &self.hot[index])
            && position < piece.end
        {
            piece.used.set(clock::mono());
            let len = len_max.min((piece.end - position) as usize);
            return Some(piece.extent.pin((position - piece.start) as usize, len));
        }
        self.cold.slice(position, len_max)
    }

    /// Whether the byte at `position` is in memory.
    pub fn contains(&self, position: u64) -> bool {
        self.slice(position, 1).is_some()
    }

    /// What a write of `range` (whole blocks, up to `write_end(end)`) consists of, in order. `None` if not all is in memory.
    pub fn write_sources(&self, range: Range<u64>) -> Option<SmallVec<[Pinned; 2]>> {
        assert!(
            range.start.is_multiple_of(BLOCK) && range.end.is_multiple_of(BLOCK),
            "{range:?} is not whole blocks"
        );
        assert!(
            range.end <= self.write_end(self.end),
            "{range:?} is beyond the end {}",
            self.end
        );
        let mut sources = SmallVec::new();
        let mut at = range.start;
        let mut index = self
            .hot
            .partition_point(|piece| piece.start <= at)
            .checked_sub(1)?;
        while at < range.end {
            let piece = self.hot.get(index)?;
            // The next piece has the later copy of the block they share.
            let piece_end = match self.hot.get(index + 1) {
                Some(next) => next.start,
                None => self.write_end(self.end),
            };
            let end = range.end.min(piece_end);
            if end <= at {
                return None;
            }
            let from = (at - piece.start) as usize;
            sources.push(piece.extent.pin(from, (end - at) as usize));
            at = end;
            index += 1;
        }
        Some(sources)
    }

    /// The first position from which all up to the end is in memory without a hole; the end itself if nothing is.
    pub fn hot_start(&self) -> u64 {
        self.hot.front().map_or(self.end, |piece| piece.start)
    }

    /// Bytes of arena memory held for the end and what lies before it.
    pub fn hot_bytes(&self) -> usize {
        self.hot.iter().map(|piece| piece.extent.len()).sum()
    }

    /// Bytes of arena memory held for what was read back.
    pub fn cold_bytes(&self) -> usize {
        self.cold.bytes()
    }

    /// When the oldest hot piece was last asked for, and its end; `None` if there is none.
    pub fn oldest_hot(&self) -> Option<(MonoNs, u64)> {
        self.hot.front().map(|piece| (piece.used.get(), piece.end))
    }

    /// Drops the hot pieces that end at or before `position` (which is durable); returns their bytes (given back when the last
    /// `Pinned` of them goes). If the end is among them its partial block is kept aside. A piece with a reservation stays.
    pub fn evict_durable(&mut self, position: u64) -> usize {
        let mut freed = 0;
        while let Some(piece) = self.hot.front() {
            if piece.end > position {
                break;
            }
            if self.hot.len() == 1 {
                if self.is_reserved() {
                    break;
                }
                let block = self.end - self.end % BLOCK;
                let len = (self.end - block) as usize;
                let pinned = piece.extent.pin((block - piece.start) as usize, len);
                self.partial = pinned.bytes().to_vec();
                self.growth.size = GRANULE_BYTES;
            }
            freed += piece.extent.len();
            self.hot.pop_front();
        }
        freed
    }

    /// Drops all it has in memory: the file is gone. Who still sends from it, or receives into it, holds what it needs.
    pub fn forget(&mut self) {
        self.revoke();
        self.evict_durable(u64::MAX);
        self.cold = Cold::default();
    }

    /// Keeps `pinned` as the bytes of the file from `position` on.
    pub fn insert_cold(&mut self, position: u64, pinned: Pinned) {
        self.cold.insert(position, pinned);
    }

    /// When each cold piece was last asked for, and its bytes.
    pub fn cold_pieces(&self) -> impl Iterator<Item = (MonoNs, usize)> {
        self.cold.pieces()
    }

    /// Drops cold pieces last asked for at or before `used`; returns their bytes.
    pub fn evict_cold(&mut self, used: MonoNs) -> usize {
        self.cold.evict(used)
    }
}

impl Growth {
    /// The size of an extent that lasts `EXTENT_LASTS_MS` at the rate at which `filled` bytes came since the last was opened.
    fn next(&mut self, now: MonoNs, filled: usize) -> usize {
        let took_ms = now.ms_since(self.opened).max(1);
        let at_rate = filled as u64 * EXTENT_LASTS_MS / took_ms;
        // At most eight times the last: one burst doesn't claim megabytes for every partition.
        self.size = (at_rate as usize)
            .clamp(GRANULE_BYTES, (self.size * 8).min(GROWTH_BYTES_MAX))
            .next_power_of_two();
        self.size
    }
}

impl fmt::Debug for FileImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileImage")
            .field("end", &self.end)
            .field("hot", &self.hot.len())
            .field("hot_bytes", &self.hot_bytes())
            .field("cold_bytes", &self.cold_bytes())
            .finish_non_exhaustive()
    }
}

const _: () = assert!(GROWTH_BYTES_MAX <= EXTENT_BYTES_MAX);

#[cfg(test)]
mod tests;
