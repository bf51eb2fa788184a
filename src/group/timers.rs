//! The timers of one coordinator: what falls due when, in order.
//! Owned by the coordinator's `Effects`; whoever schedules keeps the handle.
//! Always: a timer fires at most once and never before its deadline; equal deadlines fire in the order they were set.
//! What a timer means is left to the flow that set it.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::base::MonoNs;

/// What falls due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A member, or a pending member, was not heard of for its session timeout.
    Session { group: Rc<str>, member: Rc<str> },
    /// The first rebalance of an empty group has waited `delay_ms` and may wait `remaining_ms` more.
    InitialRebalance {
        group: Rc<str>,
        delay_ms: i32,
        remaining_ms: i32,
    },
    /// The rebalance timeout: members that have not rejoined are dropped.
    Join { group: Rc<str> },
    /// The time to sync is over for members of this generation.
    Sync { group: Rc<str>, generation: i32 },
    /// Time to look for expired offsets and groups.
    Retention,
}

/// Names a scheduled timer; using it after it fired or was cancelled does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerHandle {
    at: MonoNs,
    sequence: u64,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<TimerHandle, Event>,
    sequence: u64,
}

impl Timers {
    pub fn schedule(&mut self, at: MonoNs, event: Event) -> TimerHandle {
        self.sequence += 1;
        let handle = TimerHandle {
            at,
            sequence: self.sequence,
        };
        self.due.insert(handle, event);
        handle
    }

    /// Takes the handle out of where it is kept and forgets the timer.
    pub fn cancel(&mut self, handle: &mut Option<TimerHandle>) {
        if let Some(handle) = handle.take() {
            self.due.remove(&handle);
        }
    }

    pub fn next_deadline(&self) -> Option<MonoNs> {
        self.due.keys().next().map(|handle| handle.at)
    }

    /// The first timer that is due at `now`.
    pub fn pop_due(&mut self, now: MonoNs) -> Option<(TimerHandle, Event)> {
        let first = self.due.first_entry()?;
        (first.key().at <= now).then(|| first.remove_entry())
    }

    pub fn clear(&mut self) {
        self.due.clear();
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.due.len()
    }
}
