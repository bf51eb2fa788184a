//! The companion io_uring of a shard: polls, file reads and writes, everything glommio has no call for.
//! One per shard, made by `executor::run_shard`, reached by `Ring::current()`; `!Send`.
//! Always: what an operation reads or writes is owned by its slot until the kernel is done with it, also when the
//! future is dropped; no operation is lost when the queue is full; all that is started in one round of the tasks is submitted
//! by one system call, which is also where an idle shard sleeps.
//! Which operations there are is in `ops`; what they mean for a file or a socket is said there.

mod ops;
mod slots;

pub use slots::Memory;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::{IoUring, types};

use slots::Slots;

/// A handle on the companion ring of this shard.
#[derive(Clone)]
pub struct Ring(Rc<RingState>);

struct RingState {
    uring: RefCell<IoUring>,
    slots: RefCell<Slots>,
    /// Entries that found the submission queue full while the kernel took none.
    backlog: RefCell<VecDeque<Entry>>,
    /// Completions on their way from the queue to their slots; kept to reuse its memory.
    reaped: RefCell<Vec<(u64, i32)>>,
    closed: Cell<bool>,
    counters: Cell<RingCounters>,
}

/// What the ring did so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct RingCounters {
    pub started: u64,
    /// System calls to submit, without those that also sleep.
    pub submits: u64,
    pub completed: u64,
    /// System calls to sleep, which also submit.
    pub sleeps: u64,
    /// Operations that found the queue full (and waited for their turn).
    pub queue_full: u64,
}

/// Entries of the submission queue; the completion queue has four times as many.
pub const RING_DEPTH: u32 = 1024;

/// `user_data` of an operation nobody waits for.
const IGNORED: u64 = u64::MAX;

/// An idle shard looks around this often all the same, so that no wake that was lost, however, stops it.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// How long the end of a shard waits for operations the kernel still works on.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(10);

thread_local! {
    static CURRENT: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

impl Ring {
    /// The ring of the shard this runs on. Panics outside of `executor::run_shard`.
    pub fn current() -> Ring {
        CURRENT.with(|ring| {
            ring.borrow()
                .clone()
                .expect("the companion ring exists only on a shard")
        })
    }

    /// Makes the ring; it must stay on this thread.
    pub(super) fn new(depth: u32) -> io::Result<Ring> {
        Ok(Ring(Rc::new(RingState {
            uring: RefCell::new(build(depth)?),
            slots: RefCell::new(Slots::default()),
            backlog: RefCell::new(VecDeque::new()),
            reaped: RefCell::new(Vec::new()),
            closed: Cell::new(false),
            counters: Cell::new(RingCounters::default()),
        })))
    }

    /// Makes this ring the one that `current` gives on this thread.
    pub(super) fn install(&self) {
        CURRENT.with(|current| *current.borrow_mut() = Some(self.clone()));
    }

    pub fn counters(&self) -> RingCounters {
        self.0.counters.get()
    }

    /// Operations whose completion is not here yet.
    pub fn in_flight(&self) -> usize {
        self.0.slots.borrow().in_flight()
    }

    /// Runs for the life of the shard, once in every round of its tasks: submits what the round has started and takes what has
    /// completed. `turns` counts the turns of all other tasks: when none had one for two rounds, none is ready, and it sleeps in the
    /// kernel until something completes. Whatever wakes a shard is an operation of this ring.
    ///
    /// glommio's own sleep would do as well, but takes about ten system calls where this takes one; and glommio 0.9 may fall asleep
    /// with tasks ready to run, when its preempt timer fires before the first of them has run.
    pub(super) async fn drive(self, turns: impl Fn() -> u64) {
        let mut seen = 0;
        let mut quiet_rounds = 0;
        std::future::poll_fn(|cx| {
            let now = turns();
            quiet_rounds = if now == seen { quiet_rounds + 1 } else { 0 };
            seen = now;
            if quiet_rounds >= 2 {
                quiet_rounds = 0;
                self.sleep();
            } else if self.0.has_work() {
                self.submit();
            }
            self.reap();
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
    }

    /// Submits what is queued and waits for a completion, in one system call.
    fn sleep(&self) {
        let state = &*self.0;
        if state.fill_from_backlog() {
            self.submit();
            return;
        }
        state.count(|counters| counters.sleeps += 1);
        let longest = types::Timespec::from(SLEEP_MAX);
        let args = types::SubmitArgs::new().timespec(&longest);
        let result = state.uring.borrow().submitter().submit_with_args(1, &args);
        match result.map_err(|error| error.raw_os_error()) {
            Ok(_) | Err(Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
            Err(error) => panic!("io_uring_enter refused the ring of this shard: {error:?}"),
        }
    }

    /// Queues one entry for the next submit. `entry` carries its `user_data` already.
    fn push(&self, entry: Entry) {
        let state = &*self.0;
        state.count(|counters| counters.started += 1);
        if state.closed.get() {
            return;
        }
        if !state.backlog.borrow().is_empty() || !state.try_push(&entry) {
            // Full: give the kernel what is there now, the order of entries is kept by the backlog.
            state.count(|counters| counters.queue_full += 1);
            state.backlog.borrow_mut().push_back(entry);
            self.submit();
            self.reap();
        }
    }

    /// One `io_uring_enter` for all that is queued, more only if it did not all fit.
    fn submit(&self) {
        let state = &*self.0;
        loop {
            let left = state.fill_from_backlog();
            state.count(|counters| counters.submits += 1);
            let result = state.uring.borrow().submit();
            match result {
                Ok(_) if left => {}
                Ok(_) => return,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The kernel is out of room for completions or of memory: take completions, try again next round.
                    Some(libc::EBUSY | libc::EAGAIN) => return,
                    _ => panic!("io_uring_enter refused the ring of this shard: {error}"),
                },
            }
        }
    }

    /// Takes all completions and wakes who waits for them; returns how many there were.
    fn reap(&self) -> usize {
        let state = &*self.0;
        let mut reaped = std::mem::take(&mut *state.reaped.borrow_mut());
        reaped.extend(
            state
                .uring
                .borrow_mut()
                .completion()
                .map(|entry| (entry.user_data(), entry.result())),
        );
        let count = reaped.len();
        state.count(|counters| counters.completed += count as u64);
        for (user_data, result) in reaped.drain(..) {
            if user_data != IGNORED {
                // Waking and freeing run foreign code: no borrow is held.
                let done = state.slots.borrow_mut().complete(user_data, result);
                done.finish();
            }
        }
        *state.reaped.borrow_mut() = reaped;
        count
    }

    /// Cancels the waits and waits for the rest, so that the kernel writes into nothing that is freed.
    pub(super) fn close(&self) {
        let state = &*self.0;
        let deadline = Instant::now() + CLOSE_WAIT_MAX;
        let waits = state.slots.borrow().cancellable();
        for user_data in waits {
            self.push(ops::cancel(user_data));
        }
        state.closed.set(true);
        self.submit();
        while self.in_flight() > 0 && Instant::now() < deadline {
            self.sleep();
            self.reap();
        }
        let left = self.in_flight();
        if left > 0 {
            tracing::error!(left, "the disk did not finish its operations at shutdown");
            state.slots.borrow_mut().leak();
        }
        CURRENT.with(|current| current.borrow_mut().take());
    }
}

impl RingState {
    /// There is something to submit, or a completion that waits for a system call of this thread.
    fn has_work(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let queue = uring.submission();
        !queue.is_empty()
            || queue.taskrun()
            || queue.cq_overflow()
            || !self.backlog.borrow().is_empty()
    }

    /// False if the submission queue is full.
    fn try_push(&self, entry: &Entry) -> bool {
        let mut uring = self.uring.borrow_mut();
        // SAFETY: what the entry points to is owned by its slot (`slots::Memory`, `Rc<OwnedFd>`) until its completion was
        // reaped; `ops` builds no entry otherwise. `ring::tests::dropped_write_keeps_its_memory` runs it.
        unsafe { uring.submission().push(entry).is_ok() }
    }

    /// Moves what waits into the submission queue; true if some still waits.
    fn fill_from_backlog(&self) -> bool {
        let mut backlog = self.backlog.borrow_mut();
        while let Some(entry) = backlog.front() {
            if !self.try_push(entry) {
                return true;
            }
            backlog.pop_front();
        }
        false
    }

    fn count(&self, change: impl FnOnce(&mut RingCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

/// Completions are worked off when the shard asks for them, where the kernel can do that (6.1): no interrupts, no signals.
fn build(depth: u32) -> io::Result<IoUring> {
    let mut newest = IoUring::builder();
    newest
        .dontfork()
        .setup_cqsize(depth * 4)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag();
    newest
        .build(depth)
        .or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => IoUring::builder()
                .dontfork()
                .setup_cqsize(depth * 4)
                .build(depth),
            _ => Err(error),
        })
}

#[cfg(test)]
mod tests;
