//! A buddy allocator over granules: which parts of the arena are free.
//! Owned by the `Arena` of a shard; knows no memory, only numbers.
//! Always: a free block is aligned to its size and never has its free buddy beside it; blocks are powers of two of granules.
//! Ranges may be freed in other pieces than they were given out in.

use std::collections::BTreeSet;

/// Block sizes: 1, 2, 4, ... `1 << ORDER_MAX` granules.
pub(super) const ORDER_MAX: u32 = 14;

pub(super) struct Buddy {
    /// Starts of the free blocks of each size, lowest first so that the arena fills from one side.
    free: [BTreeSet<u32>; ORDER_MAX as usize + 1],
    free_granules: u32,
    granules: u32,
}

impl Buddy {
    /// All of `granules` free.
    pub fn new(granules: u32) -> Buddy {
        let mut buddy = Buddy {
            free: std::array::from_fn(|_| BTreeSet::new()),
            free_granules: 0,
            granules,
        };
        buddy.release(0, granules);
        buddy
    }

    pub fn free_granules(&self) -> u32 {
        self.free_granules
    }

    /// `count` contiguous granules aligned to the next power of two; `None` if there are none in one piece.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        assert!(count > 0, "an empty extent");
        let order = order_for(count)?;
        let from = (order..=ORDER_MAX).find(|&order| !self.free[order as usize].is_empty())?;
        let start = self.free[from as usize]
            .pop_first()
            .expect("just seen to be there");
        for lower in (order..from).rev() {
            self.free[lower as usize].insert(start + (1 << lower));
        }
        self.free_granules -= 1 << order;
        // What the power of two is too large by goes back.
        self.release(start + count, (1 << order) - count);
        Some(start)
    }

    /// Gives `count` granules from `start` back; they must be taken.
    pub fn release(&mut self, start: u32, count: u32) {
        assert!(
            start + count <= self.granules,
            "granules {start}+{count} are beyond the arena of {}",
            self.granules
        );
        let (mut at, end) = (start, start + count);
        while at < end {
            let order = (at.trailing_zeros().min(ORDER_MAX)).min((end - at).ilog2());
            self.release_block(at, order);
            at += 1 << order;
        }
    }

    fn release_block(&mut self, mut start: u32, mut order: u32) {
        let inside = (order..=ORDER_MAX)
            .any(|above| self.free[above as usize].contains(&(start & !((1 << above) - 1))));
        assert!(!inside, "granule {start} is free already");
        self.free_granules += 1 << order;
        while order < ORDER_MAX && self.free[order as usize].remove(&(start ^ (1 << order))) {
            start &= !(1 << order);
            order += 1;
        }
        self.free[order as usize].insert(start);
    }

    /// Granules of the largest free block.
    pub fn largest(&self) -> u32 {
        (0..=ORDER_MAX)
            .rev()
            .find(|&order| !self.free[order as usize].is_empty())
            .map_or(0, |order| 1 << order)
    }
}

/// The smallest order whose block holds `count`; `None` beyond the largest.
fn order_for(count: u32) -> Option<u32> {
    let order = count.checked_next_power_of_two()?.ilog2();
    (order <= ORDER_MAX).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_that_is_taken_and_freed_becomes_one_block_again() {
        let mut buddy = Buddy::new(64);
        assert_eq!(buddy.largest(), 64);
        let taken: Vec<u32> = (0..64).map(|_| buddy.take(1).expect("room")).collect();
        assert_eq!(taken, (0..64).collect::<Vec<_>>());
        assert_eq!(buddy.take(1), None);
        for start in taken.into_iter().rev() {
            buddy.release(start, 1);
        }
        assert_eq!((buddy.free_granules(), buddy.largest()), (64, 64));
    }

    #[test]
    fn odd_sizes_take_what_they_need_and_may_be_freed_in_parts() {
        let mut buddy = Buddy::new(100);
        assert_eq!(buddy.free_granules(), 100);
        let start = buddy.take(5).expect("room");
        assert_eq!(start % 8, 0);
        assert_eq!(buddy.free_granules(), 95);
        buddy.release(start + 3, 2);
        buddy.release(start, 3);
        assert_eq!((buddy.free_granules(), buddy.largest()), (100, 64));
        assert_eq!(buddy.take(65), None, "100 granules hold no block of 128");
        assert_eq!(buddy.take(1 << 15), None);
    }

    #[test]
    #[should_panic(expected = "free already")]
    fn double_free_is_a_bug() {
        let mut buddy = Buddy::new(8);
        let start = buddy.take(1).expect("room");
        buddy.release(start, 1);
        buddy.release(start, 1);
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_nothing_is_lost(
            granules in 1u32..3000,
            steps in prop::collection::vec((1u32..200, any::<bool>(), any::<prop::sample::Index>()), 1..200),
        ) {
            let mut buddy = Buddy::new(granules);
            let mut held: Vec<(u32, u32)> = Vec::new();
            for (count, take, pick) in steps {
                if take || held.is_empty() {
                    if let Some(start) = buddy.take(count) {
                        prop_assert!(start + count <= granules);
                        for &(other, len) in &held {
                            prop_assert!(start + count <= other || other + len <= start);
                        }
                        held.push((start, count));
                    }
                } else {
                    let (start, count) = held.swap_remove(pick.index(held.len()));
                    buddy.release(start, count);
                }
                let taken: u32 = held.iter().map(|&(_, count)| count).sum();
                prop_assert_eq!(buddy.free_granules() + taken, granules);
            }
        }
    }
}
