//! The memory of a shard that files are written from and consumers are sent from: one memfd, mapped once.
//! One per shard, `!Send`; extents of it are reference-counted.
//! Always: bytes handed to `sendfile` never change while a packet may hold them: a place that was ever sent from is
//! hole-punched before it is used again; memory in use by the kernel is held by a `Pinned`.
//! Who gives memory back when it is short is decided by its user (`pressure`, `FileImage::evict_durable`).
//!
//! Pages are huge where the kernel has them: a write of 1 MiB from 256 small pages in all places took half as long again, and
//! a third more of the core.

mod buddy;
mod extent;
mod mapping;
mod pages;
mod regions;

pub use extent::{Extent, Pinned, SliceRef};

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;

use super::sync::{Counted, Notify};
use buddy::Buddy;
use mapping::{HUGE_BYTES, Mapping};
use pages::Pages;
use regions::Regions;

/// A handle on the arena of a shard.
#[derive(Clone)]
pub struct Arena(Rc<ArenaState>);

struct ArenaState {
    pages: Arc<Pages>,
    buddy: RefCell<Buddy>,
    regions: RefCell<Regions>,
    room: Notify,
    pressure: Notify,
    /// Largest allocation that was refused since room was last made.
    wanted: Cell<usize>,
    /// How many wait for room.
    waiting: Cell<usize>,
    counters: Cell<ArenaCounters>,
}

/// What the arena did so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct ArenaCounters {
    pub allocations: u64,
    pub refusals: u64,
    pub punched_bytes: u64,
    /// Bytes that can't be used any more because the kernel refused to punch them.
    pub lost_bytes: u64,
}

/// Unit of the arena in bytes; the smallest extent.
pub const GRANULE_BYTES: usize = 16 << 10;
/// The largest extent in bytes.
pub const EXTENT_BYTES_MAX: usize = GRANULE_BYTES << buddy::ORDER_MAX;

impl Arena {
    /// An arena of `budget` bytes (rounded down to granules, at least one). Memory is taken from the system at first use.
    pub fn new(budget: u64) -> io::Result<Arena> {
        let granules = (budget / GRANULE_BYTES as u64).clamp(1, u32::MAX as u64 / 2) as u32;
        let mapping = Mapping::new(granules as usize * GRANULE_BYTES)?;
        Ok(Arena(Rc::new(ArenaState {
            pages: Pages::new(mapping),
            buddy: RefCell::new(Buddy::new(granules)),
            regions: RefCell::new(Regions::new(granules)),
            room: Notify::new(),
            pressure: Notify::new(),
            wanted: Cell::new(0),
            waiting: Cell::new(0),
            counters: Cell::new(ArenaCounters::default()),
        })))
    }

    /// A contiguous extent of at least `len` bytes (rounded up to granules), 4 KiB-aligned. Its bytes are anything.
    /// `None`: no room in one piece; `pressure` is notified.
    pub fn allocate(&self, len: usize) -> Option<Extent> {
        let count = len.max(1).div_ceil(GRANULE_BYTES) as u32;
        let taken = if len > EXTENT_BYTES_MAX {
            None
        } else {
            self.0.buddy.borrow_mut().take(count)
        };
        match taken {
            Some(start) => {
                self.0.count(|counters| counters.allocations += 1);
                let mut regions = self.0.regions.borrow_mut();
                let fresh = regions.take(start, count);
                let ahead = regions.ask_behind(start + count, REGIONS_AHEAD);
                self.0.pages.make_soon(ahead);
                fresh
                    .into_iter()
                    .for_each(|region| self.0.pages.make(region));
                Some(Extent::new(
                    self.clone(),
                    start as usize * GRANULE_BYTES,
                    count as usize * GRANULE_BYTES,
                ))
            }
            None => {
                self.0.count(|counters| counters.refusals += 1);
                self.0.wanted.set(self.0.wanted.get().max(len));
                self.0.pressure.notify();
                None
            }
        }
    }

    /// Waits until memory was given back that may hold `len` bytes; try again then.
    pub async fn wait_for_room(&self, len: usize) {
        let count = len.div_ceil(GRANULE_BYTES) as u32;
        let _waits = Counted::new(&self.0.waiting);
        loop {
            let freed = self.0.room.wait();
            if self.0.buddy.borrow().largest() >= count {
                return;
            }
            self.0.wanted.set(self.0.wanted.get().max(len));
            self.0.pressure.notify();
            freed.await;
        }
    }

    /// Ready when an allocation was refused after this call: evict, at least [`Arena::wanted`] bytes in one piece.
    pub async fn pressure(&self) {
        if self.0.wanted.get() == 0 {
            self.0.pressure.wait().await;
        }
    }

    /// A copy of `bytes`, ready to be sent; `None` if there is no room for it.
    pub fn hold(&self, bytes: &[u8]) -> Option<Pinned> {
        let extent = self.allocate(bytes.len())?;
        extent.copy_in(0, bytes);
        Some(extent.pin(0, bytes.len()))
    }

    /// Nothing could be given back for this: it is wanted all the same as long as somebody waits, so look again soon.
    pub fn still_wanted(&self, len: usize) {
        if self.0.waiting.get() > 0 {
            self.0.wanted.set(self.0.wanted.get().max(len));
        }
    }

    /// Takes the size of the largest allocation that was refused since the last call; 0 if none was.
    pub fn wanted(&self) -> usize {
        self.0.wanted.take()
    }

    /// Bytes of the largest extent there can be, when nothing else is in memory.
    pub fn extent_bytes_max(&self) -> usize {
        let granules = self.0.pages.mapping.len() / GRANULE_BYTES;
        (GRANULE_BYTES << granules.ilog2()).min(EXTENT_BYTES_MAX)
    }

    pub fn budget(&self) -> u64 {
        self.0.pages.mapping.len() as u64
    }

    pub fn free(&self) -> u64 {
        self.0.buddy.borrow().free_granules() as u64 * GRANULE_BYTES as u64
    }

    pub fn used(&self) -> u64 {
        self.budget() - self.free()
    }

    /// Bytes of the largest extent that can be had now (a power of two of granules).
    pub fn largest_free(&self) -> usize {
        self.0.buddy.borrow().largest() as usize * GRANULE_BYTES
    }

    /// Huge pages that the system gave so far.
    pub fn huge_pages(&self) -> u64 {
        self.0.pages.made()
    }

    pub fn counters(&self) -> ArenaCounters {
        self.0.counters.get()
    }

    /// The memfd, for `sendfile`.
    pub fn fd(&self) -> RawFd {
        self.0.pages.mapping.fd()
    }

    /// Gives a range back; `sent`: some of it may be in packets under way.
    fn release(&self, offset: usize, len: usize, sent: bool) {
        let start = (offset / GRANULE_BYTES) as u32;
        let count = (len / GRANULE_BYTES) as u32;
        let ready = self.0.regions.borrow_mut().release(start, count, sent);
        if !sent {
            self.0.buddy.borrow_mut().release(start, count);
        }
        for region in ready {
            self.punch(region);
        }
        self.0.room.notify();
    }

    /// New pages for a region of which nothing is in use; what waits in it is free then.
    fn punch(&self, region: u32) {
        let mut regions = self.0.regions.borrow_mut();
        let punched = match self.0.pages.punch(region) {
            Ok(bytes) => bytes,
            Err(error) => {
                // Its old bytes may be on their way to a consumer: never use it again.
                let lost = regions.lost(region) as usize * GRANULE_BYTES;
                tracing::error!(%error, lost, "the system refuses to punch arena memory; it is lost until restart");
                self.0.count(|counters| counters.lost_bytes += lost as u64);
                return;
            }
        };
        self.0.count(|counters| counters.punched_bytes += punched);
        let mut buddy = self.0.buddy.borrow_mut();
        for (start, count) in regions.punched(region) {
            buddy.release(start, count);
        }
        let start = region * (HUGE_BYTES / GRANULE_BYTES) as u32;
        self.0.pages.make_soon(regions.ask_behind(start, 1));
    }
}

/// So many regions beyond those in use have their pages before they are used.
const REGIONS_AHEAD: u32 = 4;

impl ArenaState {
    fn count(&self, change: impl FnOnce(&mut ArenaCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

#[cfg(test)]
mod tests;
