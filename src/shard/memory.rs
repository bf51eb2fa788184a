//! Making room in the arena: what was read back goes first, then the tails of logs that are on the disk and read by nobody lately.
//! Per shard; called by whoever needs memory, and when an allocation was refused.
//! Always: nothing that is not durable is dropped; what is being sent is held by who sends it.
//! Where memory is handed out is `io::arena`'s.

use std::rc::Rc;

use super::Shard;
use crate::base::MonoNs;
use crate::io::{clock, executor};

impl Shard {
    /// Drops at least `wanted` bytes (more: a good part of the arena) of what can be read again; how many.
    pub(super) fn evict(&self, wanted: usize) -> usize {
        let goal = wanted.max((self.arena.budget() / EVICT_PART) as usize);
        let mut freed = self.evict_cold(goal);
        if freed < goal {
            freed += self.evict_hot(goal - freed, clock::mono());
        }
        freed
    }

    /// Drops what was read back, the longest unused first.
    fn evict_cold(&self, goal: usize) -> usize {
        let (mut segments, mut pieces) = (Vec::new(), Vec::new());
        for cell in self.all_cells() {
            for segment in cell.segments.borrow().values() {
                let held = pieces.len();
                pieces.extend(segment.image.borrow().cold_pieces());
                if pieces.len() > held {
                    segments.push(segment.clone());
                }
            }
        }
        pieces.sort_unstable_by_key(|(used, _)| *used);
        let mut found = 0;
        let last = pieces.iter().find(|(_, bytes)| {
            found += bytes;
            found >= goal
        });
        let Some((used, _)) = last.or(pieces.last()) else {
            return 0;
        };
        let evicted = segments.iter();
        evicted
            .map(|segment| segment.image.borrow_mut().evict_cold(*used))
            .sum()
    }

    /// Drops durable tails last used before `before`, the longest unused first.
    fn evict_hot(&self, goal: usize, before: MonoNs) -> usize {
        let mut pieces = Vec::new();
        for cell in self.all_cells() {
            let partition = cell.partition.borrow();
            for (base, segment) in cell.segments.borrow().iter() {
                let image = segment.image.borrow();
                let Some((used, end)) = image.oldest_hot() else {
                    continue;
                };
                let durable = partition.log().readable_end(*base).unwrap_or(0);
                if used < before && end <= durable {
                    pieces.push((used, end, segment.clone()));
                }
            }
        }
        pieces.sort_by_key(|(used, _, _)| *used);
        let mut freed = 0;
        for (_, end, segment) in pieces {
            if freed >= goal {
                break;
            }
            freed += segment.image.borrow_mut().evict_durable(end);
        }
        freed
    }

    /// Answers refused allocations for as long as the shard lives.
    pub async fn keep_room(self: Rc<Self>) {
        let mut fruitless = 0;
        loop {
            self.arena.pressure().await;
            let wanted = self.arena.wanted();
            if wanted == 0 || self.evict(wanted) > 0 {
                fruitless = 0;
            } else {
                fruitless += 1;
                if fruitless % FRUITLESS_MAX == 0 {
                    self.set_receptions_aside();
                }
                // All of it is in use: what is written now becomes durable in a moment, and nobody else will look then.
                executor::sleep(NOTHING_TO_EVICT_WAIT).await;
                self.arena.still_wanted(wanted);
            }
        }
    }

    /// Batches on their way in keep the ends of their logs in memory, and their senders may take their time, or wait for memory
    /// themselves: they go on in memory of their own.
    fn set_receptions_aside(&self) {
        for cell in self.all_cells() {
            for segment in cell.segments.borrow().values() {
                segment.image.borrow_mut().revoke();
            }
        }
    }

    /// Gives back what idle partitions hold.
    pub(super) fn evict_idle(&self) {
        let before = clock::mono().0.saturating_sub(IDLE_NS);
        let held: usize = self.arena.used() as usize;
        if held > 0 {
            self.evict_hot(usize::MAX, MonoNs(before));
        }
        if self.files_open() > 0 {
            self.close_files(usize::MAX, MonoNs(before));
        }
    }
}

/// An eviction frees at least this part of the arena: it looks at everything there is.
const EVICT_PART: u64 = 16;
const NOTHING_TO_EVICT_WAIT: std::time::Duration = std::time::Duration::from_millis(1);
/// After so many waits for nothing the disk is not what it waits for.
const FRUITLESS_MAX: u32 = 100;
/// A tail that nobody asked for in this time goes, whether memory is short or not.
const IDLE_NS: u64 = 60_000_000_000;
