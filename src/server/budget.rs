//! The memory that requests of a shard's connections may take while they arrive and are served.
//! One `Budget` per shard, a part of `--memory`; a connection has a `Charge` for what it holds.
//! Always: all charges together are within the budget, but for one connection that may go beyond it: so the largest request gets
//! through, and connections that wait for each other do too. Who gets nothing is not read from until there is room.
//! Who takes too long with what is held while others wait is ended by `sweep`.

use std::cell::Cell;
use std::rc::Rc;

use crate::io::sync::{Counted, Notify};

/// See the module.
pub struct Budget {
    bytes_max: usize,
    held: Cell<usize>,
    /// One goes beyond the budget now.
    beyond: Cell<bool>,
    waiting: Cell<usize>,
    freed: Notify,
}

/// What one connection holds of it; given back when dropped.
pub struct Charge {
    budget: Rc<Budget>,
    bytes: usize,
    beyond: bool,
}

impl Budget {
    pub fn new(bytes_max: usize) -> Rc<Budget> {
        Rc::new(Budget {
            bytes_max,
            held: Cell::new(0),
            beyond: Cell::new(false),
            waiting: Cell::new(0),
            freed: Notify::new(),
        })
    }

    /// True while somebody is kept waiting.
    pub fn is_short(&self) -> bool {
        self.waiting.get() > 0
    }
}

impl Charge {
    /// Nothing yet.
    pub fn new(budget: Rc<Budget>) -> Charge {
        Charge {
            budget,
            bytes: 0,
            beyond: false,
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if it is the one that goes beyond the budget.
    pub fn is_beyond(&self) -> bool {
        self.beyond
    }

    /// Raises it to `bytes` if there is room.
    pub fn try_raise(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            return true;
        };
        let budget = &self.budget;
        let held = budget.held.get() + more;
        if held > budget.bytes_max && !self.beyond {
            if budget.beyond.replace(true) {
                return false;
            }
            self.beyond = true;
        }
        budget.held.set(held);
        self.bytes = bytes;
        true
    }

    /// Raises it to `bytes`, once there is room.
    pub async fn raise(&mut self, bytes: usize) {
        let budget = self.budget.clone();
        let _waits = Counted::new(&budget.waiting);
        loop {
            let freed = budget.freed.wait();
            if self.try_raise(bytes) {
                return;
            }
            freed.await;
        }
    }

    /// What is held so far goes to its own owner, and the connection begins anew.
    pub fn split(&mut self) -> Charge {
        let next = Charge::new(self.budget.clone());
        std::mem::replace(self, next)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let budget = &self.budget;
        budget.held.set(budget.held.get() - self.bytes);
        if self.beyond {
            budget.beyond.set(false);
        }
        budget.freed.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    use futures_lite::future;

    #[test]
    fn one_goes_beyond_the_budget_and_the_others_wait_for_what_is_given_back() {
        let budget = Budget::new(100);
        let [mut first, mut second, mut third] = [(); 3].map(|()| Charge::new(budget.clone()));
        assert!(first.try_raise(60) && second.try_raise(40));
        assert!(first.try_raise(60), "no more than it has");
        assert!(first.try_raise(1_000), "one may");
        assert!(first.try_raise(2_000), "and go on");
        assert!(!second.try_raise(41) && !third.try_raise(1));
        assert_eq!(budget.held.get(), 2_040);
        future::block_on(async {
            let mut raised = pin!(third.raise(1));
            assert!(future::poll_once(&mut raised).await.is_none());
            assert!(budget.is_short());
            drop(first.split());
            assert!(future::poll_once(&mut raised).await.is_some());
        });
        assert!(!budget.is_short());
        drop((second, third));
        assert_eq!(budget.held.get(), 0);
    }

    #[test]
    fn those_who_hold_each_other_up_get_through_one_after_the_other() {
        let budget = Budget::new(100);
        let mut charges: Vec<_> = (0..10).map(|_| Charge::new(budget.clone())).collect();
        assert!(charges.iter_mut().all(|charge| charge.try_raise(10)));
        while let Some(mut one) = charges.pop() {
            assert!(one.try_raise(100));
            let mut others = charges.iter_mut();
            assert!(others.all(|other| !other.try_raise(100)), "one at a time");
        }
    }
}
