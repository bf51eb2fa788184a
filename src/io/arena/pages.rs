//! Huge pages for the regions of an arena. Asking for one takes the kernel up to milliseconds, so a thread of its own asks ahead of
//! the use.
//! Shared by the shard, which knows what was asked for (`regions`), and that thread.
//! Always: pages change, bytes don't; a region that is used before its page is there goes on with small ones.
//! Which region is used next, and when its pages are given up, is the `Arena`'s.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::mapping::{HUGE_BYTES, Mapping};
use crate::io::blocking::{self, Lane};

pub(super) struct Pages {
    pub mapping: Mapping,
    /// How often in a row a huge page was refused.
    refused: AtomicU32,
    made: AtomicU64,
}

impl Pages {
    pub fn new(mapping: Mapping) -> Arc<Pages> {
        Arc::new(Pages {
            mapping,
            refused: AtomicU32::new(0),
            made: AtomicU64::new(0),
        })
    }

    /// Huge pages that the system gave so far.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Has the pages of regions that are used soon asked for.
    pub fn make_soon(self: &Arc<Self>, regions: Vec<u32>) {
        if !regions.is_empty() {
            let pages = self.clone();
            let work = move || regions.into_iter().for_each(|region| pages.make(region));
            blocking::submit(Lane::Memory, Box::new(work));
        }
    }

    /// New pages for a region, see [`Mapping::punch`].
    pub fn punch(&self, region: u32) -> io::Result<u64> {
        let offset = region as usize * HUGE_BYTES;
        let len = HUGE_BYTES.min(self.mapping.len() - offset);
        self.mapping.punch(offset, len)?;
        Ok(len as u64)
    }

    /// Asks for the page of a region.
    pub fn make(&self, region: u32) {
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
