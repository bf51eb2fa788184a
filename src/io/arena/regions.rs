//! The arena in regions of the size of a huge page: which of them were asked a page for, and what in them waits for a hole.
//! Owned by the `Arena` of a shard; knows no memory, only numbers.
//! Always: a hole is made under a whole region only, and when nothing in it is in use: in a part of a huge page the kernel would
//! zero the bytes in place, under the packets that hold them.

use super::GRANULE_BYTES;
use super::mapping::HUGE_BYTES;

const GRANULES: u32 = (HUGE_BYTES / GRANULE_BYTES) as u32;
const _: () = assert!(GRANULES == u128::BITS);

pub(super) struct Regions(Vec<Region>);

#[derive(Clone, Copy, Default)]
struct Region {
    /// A huge page was asked for.
    asked: bool,
    /// Granules that are not free.
    used: u32,
    /// Those of them that were sent from and are used by nobody any more.
    waiting: u128,
}

impl Regions {
    pub fn new(granules: u32) -> Regions {
        Regions(vec![
            Region::default();
            granules.div_ceil(GRANULES) as usize
        ])
    }

    /// `count` granules from `start` are taken; those of their regions that no huge page was asked for before.
    pub fn take(&mut self, start: u32, count: u32) -> Vec<u32> {
        for (index, mask) in parts(start, count) {
            self.0[index as usize].used += mask.count_ones();
        }
        let end = (start + count).div_ceil(GRANULES);
        self.ask(start / GRANULES, end)
    }

    /// The `count` regions behind the granule `end`, as far as no huge page was asked for before.
    pub fn ask_behind(&mut self, end: u32, count: u32) -> Vec<u32> {
        let first = end.div_ceil(GRANULES);
        self.ask(first, (first + count).min(self.0.len() as u32))
    }

    fn ask(&mut self, first: u32, end: u32) -> Vec<u32> {
        let unasked = |index: &u32| !std::mem::replace(&mut self.0[*index as usize].asked, true);
        (first..end).filter(unasked).collect()
    }

    /// `count` granules from `start` are used by nobody any more; if they were sent from they are not free yet.
    /// The regions under which a hole can be made now.
    pub fn release(&mut self, start: u32, count: u32, sent: bool) -> Vec<u32> {
        let mut ready = Vec::new();
        for (index, mask) in parts(start, count) {
            let region = &mut self.0[index as usize];
            match sent {
                true => region.waiting |= mask,
                false => region.used -= mask.count_ones(),
            }
            if region.waiting != 0 && region.waiting.count_ones() == region.used {
                ready.push(index);
            }
        }
        ready
    }

    /// A hole was made under a region: the runs of granules (start, count) that are free by that.
    pub fn punched(&mut self, index: u32) -> Vec<(u32, u32)> {
        let region = std::mem::take(&mut self.0[index as usize]);
        let (mut left, mut at, mut runs) = (region.waiting, index * GRANULES, Vec::new());
        while left != 0 {
            let gap = left.trailing_zeros();
            left >>= gap;
            let run = left.trailing_ones();
            runs.push((at + gap, run));
            at += gap + run;
            left = left.checked_shr(run).unwrap_or(0);
        }
        runs
    }

    /// No hole can be made under a region: what waits in it is never free again. How many granules.
    pub fn lost(&mut self, index: u32) -> u32 {
        std::mem::take(&mut self.0[index as usize].waiting).count_ones()
    }
}

/// The regions of `count` granules from `start`, and which granules of each.
fn parts(start: u32, count: u32) -> impl Iterator<Item = (u32, u128)> {
    let end = start + count;
    (start / GRANULES..end.div_ceil(GRANULES)).map(move |index| {
        let first = index * GRANULES;
        let (from, to) = (start.max(first) - first, end.min(first + GRANULES) - first);
        (index, (u128::MAX >> (GRANULES - (to - from))) << from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_waits_for_all_that_was_in_it() {
        let mut regions = Regions::new(300);
        assert_eq!(regions.take(0, 10), [0]);
        assert!(regions.take(10, 5).is_empty());
        assert_eq!(regions.take(100, 190), [1, 2]);
        assert!(regions.release(0, 10, true).is_empty());
        assert_eq!(regions.release(100, 190, true), [1, 2]);
        assert_eq!(regions.punched(1), [(128, 128)]);
        assert_eq!(regions.punched(2), [(256, 34)]);
        assert_eq!(regions.release(10, 5, false), [0]);
        assert_eq!(regions.punched(0), [(0, 10), (100, 28)]);
        assert_eq!(regions.take(0, 129), [0, 1], "they need new pages");
    }

    #[test]
    fn what_was_never_sent_is_free_at_once() {
        let mut regions = Regions::new(128);
        regions.take(0, 128);
        assert!(regions.release(0, 64, false).is_empty());
        assert!(regions.take(0, 1).is_empty());
        assert!(regions.release(64, 64, true).is_empty());
        assert_eq!(regions.release(0, 1, false), [0]);
    }

    #[test]
    fn lost_granules_are_not_waited_for_again() {
        let mut regions = Regions::new(128);
        regions.take(0, 8);
        assert!(regions.release(0, 4, true).is_empty());
        assert_eq!(regions.release(4, 4, false), [0]);
        assert_eq!(regions.lost(0), 4);
        regions.take(4, 4);
        assert!(regions.release(4, 4, true).is_empty());
    }
}
