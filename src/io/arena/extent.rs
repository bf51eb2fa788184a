//! A contiguous piece of the arena, reference-counted, and views of it.
//! Owned by images, by operations of the ring (`Pinned`) and by whoever sends it; all on one shard.
//! Always: the piece is free only when the last `Extent` and `Pinned` of it is gone; bytes behind a `Pinned` that was made for
//! reading don't change.
//! Which bytes of it mean what is `image`'s.

use std::cell::Cell;
use std::fmt;
use std::os::fd::RawFd;
use std::rc::Rc;

use super::{Arena, GRANULE_BYTES};

/// A piece of the arena; clones share it.
#[derive(Clone)]
pub struct Extent(Rc<Piece>);

struct Piece {
    arena: Arena,
    offset: usize,
    len: Cell<usize>,
    sent: Cell<bool>,
    /// Bytes of it that were copied on their way out.
    copied: Cell<u64>,
}

/// Some bytes of an extent, held: they stay where they are as long as this lives.
#[derive(Clone)]
pub struct Pinned {
    extent: Extent,
    start: usize,
    len: usize,
}

/// Where bytes are, without holding them: for another shard, while the owner keeps the [`Pinned`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceRef {
    pub fd: RawFd,
    /// Offset in `fd`.
    pub offset: u64,
    pub len: usize,
}

impl Extent {
    pub(super) fn new(arena: Arena, offset: usize, len: usize) -> Extent {
        Extent(Rc::new(Piece {
            arena,
            offset,
            len: Cell::new(len),
            sent: Cell::new(false),
            copied: Cell::new(0),
        }))
    }

    /// Bytes, a multiple of the granule.
    pub fn len(&self) -> usize {
        self.0.len.get()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if nobody else holds a part of it.
    pub fn is_sole(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    /// Holds `len` bytes from `start` (offsets in the extent).
    pub fn pin(&self, start: usize, len: usize) -> Pinned {
        self.check(start, len);
        Pinned {
            extent: self.clone(),
            start,
            len,
        }
    }

    /// Gives back what lies behind the first `keep` bytes (rounded up to granules). Nothing behind may be pinned:
    /// only its image, which knows that, calls it.
    pub(in crate::io) fn shrink(&self, keep: usize) {
        let keep = keep.max(1).div_ceil(GRANULE_BYTES) * GRANULE_BYTES;
        let len = self.len();
        if keep < len {
            self.0.len.set(keep);
            // What was never filled was never sent either.
            self.0
                .arena
                .release(self.0.offset + keep, len - keep, false);
        }
    }

    /// Copies `bytes` to `start`. The caller (an image, a test) knows that nobody looks at these bytes.
    pub(in crate::io) fn copy_in(&self, start: usize, bytes: &[u8]) {
        self.check(start, bytes.len());
        let target = self.address(start, bytes.len());
        // SAFETY: the target is inside the extent (checked), `bytes` is no part of it: safe code gets `&[u8]` of an extent only
        // by `Pinned::bytes`, of ranges that are not written any more. Run by `image::tests`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }

    /// Copies within the extent's arena: `len` bytes from `source` to `start`.
    pub(in crate::io) fn copy_from(&self, start: usize, source: &Pinned) {
        self.check(start, source.len);
        let target = self.address(start, source.len);
        // SAFETY: both ranges are inside extents that are held; `copy` allows any overlap. Run by `image::tests`.
        unsafe { std::ptr::copy(source.address(), target, source.len) };
    }

    /// Zeroes `len` bytes from `start`; same condition as `copy_in`.
    pub(in crate::io) fn zero(&self, start: usize, len: usize) {
        self.check(start, len);
        // SAFETY: inside the extent (checked) and looked at by nobody (the caller's condition). Run by `image::tests`.
        unsafe { std::ptr::write_bytes(self.address(start, len), 0, len) };
    }

    /// Lets `fill` write to `len` bytes from `start`; same condition as `copy_in`.
    pub(in crate::io) fn fill<T>(
        &self,
        start: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> T,
    ) -> T {
        self.check(start, len);
        // SAFETY: inside the extent (checked), mapped memory is always initialised, and nobody else has a reference to these
        // bytes while `fill` runs (the caller's condition; one thread). Run by `image::tests`.
        fill(unsafe { std::slice::from_raw_parts_mut(self.address(start, len), len) })
    }

    fn address(&self, start: usize, len: usize) -> *mut u8 {
        self.0
            .arena
            .0
            .pages
            .mapping
            .address(self.0.offset + start, len)
    }

    fn check(&self, start: usize, len: usize) {
        assert!(
            start.checked_add(len).is_some_and(|end| end <= self.len()),
            "bytes {start}+{len} are beyond the extent of {}",
            self.len()
        );
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.arena
            .release(self.offset, self.len.get(), self.sent.get());
    }
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extent({}+{})", self.0.offset, self.len())
    }
}

impl Pinned {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes. Not while the kernel reads a file into them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the extent (`pin` checked), which is held; bytes that are pinned for reading are not written any more.
        // Run by `arena::tests`.
        unsafe { std::slice::from_raw_parts(self.address(), self.len) }
    }

    /// Where they are, for a system call.
    pub(in crate::io) fn address(&self) -> *const u8 {
        self.extent.address(self.start, self.len)
    }

    /// A part of it, held on its own.
    pub fn part(&self, start: usize, len: usize) -> Pinned {
        assert!(
            start.checked_add(len).is_some_and(|end| end <= self.len),
            "bytes {start}+{len} are beyond the {} pinned",
            self.len
        );
        Pinned {
            extent: self.extent.clone(),
            start: self.start + start,
            len,
        }
    }

    /// The extent it is a part of.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// True if it pays to send it by reference: it was copied so often that its pages may be given up for it.
    pub fn is_sent_often(&self) -> bool {
        let piece = &self.extent.0;
        piece.sent.get() || piece.copied.get() >= COPIES_MAX * piece.len.get() as u64
    }

    /// `count` bytes of it were copied on their way out.
    pub fn note_copied(&self, count: usize) {
        let copied = &self.extent.0.copied;
        copied.set(copied.get() + count as u64);
    }

    /// Where to send it from. From here on the kernel may hold these pages in packets, so the extent is punched when it is
    /// freed. Valid as long as this `Pinned` lives, on any thread.
    pub fn for_send(&self) -> SliceRef {
        self.extent.0.sent.set(true);
        SliceRef {
            fd: self.extent.0.arena.fd(),
            offset: (self.extent.0.offset + self.start) as u64,
            len: self.len,
        }
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({:?}[{}+{}])", self.extent, self.start, self.len)
    }
}

impl SliceRef {
    /// A part of it.
    #[must_use]
    pub fn part(self, start: usize, len: usize) -> SliceRef {
        assert!(
            start.checked_add(len).is_some_and(|end| end <= self.len),
            "bytes {start}+{len} are beyond {}",
            self.len
        );
        SliceRef {
            offset: self.offset + start as u64,
            len,
            ..self
        }
    }

    /// What lies before the next page, if it begins inside one and goes beyond it.
    pub fn up_to_page(self) -> Option<SliceRef> {
        let first = (self.offset.next_multiple_of(PAGE_BYTES) - self.offset) as usize;
        (first > 0 && first < self.len).then(|| self.part(0, first))
    }
}

/// The unit in which the kernel takes memory into packets.
const PAGE_BYTES: u64 = 4096;

/// What was sent by reference needs new pages afterwards (a hole, faults, zeroing: 0.9 CPU seconds per GB on a virtual machine); a
/// copy takes 0.1. So bytes are copied until the copies have cost about as much as new pages.
const COPIES_MAX: u64 = 8;
