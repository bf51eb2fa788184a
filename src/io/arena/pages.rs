//! Huge pages for the regions of an arena. Asking for one takes the kernel up to milliseconds, so a thread of its own asks ahead of
//! the use.
//! Shared by the shard and that thread, which know of each other only what stands in the states.
//! Always: pages change, bytes don't; a region that is used before its page is there goes on with small ones.
//! Which region is used next, and when its pages are given up, is the `Arena`'s.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::mapping::{HUGE_BYTES, Mapping};
use crate::io::blocking::{self, Lane};

pub(super) struct Pages {
    pub mapping: Mapping,
    states: Box<[AtomicU8]>,
    /// How often in a row a huge page was refused.
    refused: AtomicU32,
    made: AtomicU64,
}

/// Nobody has asked for a region's page.
const UNASKED: u8 = 0;
/// Somebody has, or it is there.
const ASKED: u8 = 1;

impl Pages {
    pub fn new(mapping: Mapping) -> Arc<Pages> {
        let regions = mapping.len().div_ceil(HUGE_BYTES);
        Arc::new(Pages {
            mapping,
            states: (0..regions).map(|_| AtomicU8::new(UNASKED)).collect(),
            refused: AtomicU32::new(0),
            made: AtomicU64::new(0),
        })
    }

    /// Huge pages that the system gave so far.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Asks for the page of a region that is used now.
    pub fn now(&self, region: u32) {
        if self.ask(region) {
            self.make(region);
        }
    }

    /// Has the pages of regions that are used soon asked for.
    pub fn soon(self: &Arc<Self>, regions: impl Iterator<Item = u32>) {
        let unasked: Vec<u32> = regions.filter(|&region| self.ask(region)).collect();
        if !unasked.is_empty() {
            let pages = self.clone();
            let work = move || unasked.into_iter().for_each(|region| pages.make(region));
            blocking::submit(Lane::Memory, Box::new(work));
        }
    }

    /// New pages for a region, see [`Mapping::punch`].
    pub fn punch(&self, region: u32) -> io::Result<u64> {
        let offset = region as usize * HUGE_BYTES;
        let len = HUGE_BYTES.min(self.mapping.len() - offset);
        self.mapping.punch(offset, len)?;
        self.states[region as usize].store(UNASKED, Ordering::Relaxed);
        Ok(len as u64)
    }

    /// True if nobody did before.
    fn ask(&self, region: u32) -> bool {
        let state = self.states.get(region as usize);
        let asked = state.map(|state| state.swap(ASKED, Ordering::Relaxed));
        asked == Some(UNASKED)
    }

    fn make(&self, region: u32) {
        let offset = region as usize * HUGE_BYTES;
        let refused = self.refused.load(Ordering::Relaxed);
        if refused >= REFUSED_MAX || offset + HUGE_BYTES > self.mapping.len() {
            return;
        }
        match self.mapping.make_huge(offset) {
            Ok(()) => {
                self.refused.store(0, Ordering::Relaxed);
                self.made.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => self.refused.store(refused + 1, Ordering::Relaxed),
        }
    }
}

/// After so many refusals in a row no huge page is asked for any more: looking for one takes time.
const REFUSED_MAX: u32 = 8;
