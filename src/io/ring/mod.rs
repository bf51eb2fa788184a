//! The companion io_uring of a shard: polls, file reads and writes, everything glommio has no call for.
//! One per shard, made by `executor::run_shard`, reached by `Ring::current()`; `!Send`.
//! Always: what an operation reads or writes is owned by its slot until the kernel is done with it, also when the
//! future is dropped; no operation is lost when the queue is full; all that is started in one turn is submitted by one
//! system call.
//! Which operations there are is in `ops`; what they mean for a file or a socket is said there.

mod ops;
mod slots;

pub use slots::Memory;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::{IoUring, types};

use super::sys;
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
    submitter: RefCell<Option<Waker>>,
    submit_wanted: Cell<bool>,
    closed: Cell<bool>,
    eventfd: OwnedFd,
    counters: Cell<RingCounters>,
}

/// What the ring did so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct RingCounters {
    pub started: u64,
    pub submits: u64,
    pub completed: u64,
    /// Operations that found the queue full (and waited for their turn).
    pub queue_full: u64,
}

/// Entries of the submission queue; the completion queue has four times as many.
pub const RING_DEPTH: u32 = 1024;

/// `user_data` of an operation nobody waits for.
const IGNORED: u64 = u64::MAX;

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
        let uring = build(depth)?;
        let eventfd = sys::eventfd()?;
        uring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        Ok(Ring(Rc::new(RingState {
            uring: RefCell::new(uring),
            slots: RefCell::new(Slots::default()),
            backlog: RefCell::new(VecDeque::new()),
            reaped: RefCell::new(Vec::new()),
            submitter: RefCell::new(None),
            submit_wanted: Cell::new(false),
            closed: Cell::new(false),
            eventfd,
            counters: Cell::new(RingCounters::default()),
        })))
    }

    /// Makes this ring the one that `current` gives on this thread.
    pub(super) fn install(&self) {
        CURRENT.with(|current| *current.borrow_mut() = Some(self.clone()));
    }

    /// A copy of the eventfd that is written at every completion.
    pub(super) fn completion_eventfd(&self) -> io::Result<RawFd> {
        Ok(self.0.eventfd.try_clone()?.into_raw_fd())
    }

    pub fn counters(&self) -> RingCounters {
        self.0.counters.get()
    }

    /// Operations whose completion is not here yet.
    pub fn in_flight(&self) -> usize {
        self.0.slots.borrow().in_flight()
    }

    /// Runs for the life of the shard: submits what the turn has gathered, then takes what has completed.
    pub(super) async fn submit_loop(self) {
        std::future::poll_fn(|cx| {
            if self.0.submit_wanted.replace(false) {
                self.submit();
            }
            let mut submitter = self.0.submitter.borrow_mut();
            match &mut *submitter {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *submitter = Some(cx.waker().clone()),
            }
            Poll::<()>::Pending
        })
        .await;
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
        }
        if !state.submit_wanted.replace(true)
            && let Some(waker) = &*state.submitter.borrow()
        {
            waker.wake_by_ref();
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
                Ok(_) => break,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The kernel is out of room for completions or of memory: take completions, try again next turn.
                    Some(libc::EBUSY | libc::EAGAIN) => {
                        state.submit_wanted.set(true);
                        if let Some(waker) = &*state.submitter.borrow() {
                            waker.wake_by_ref();
                        }
                        break;
                    }
                    _ => panic!("io_uring_enter refused the ring of this shard: {error}"),
                },
            }
        }
        self.reap();
    }

    /// Takes what has completed, between two tasks of a busy shard.
    pub(super) fn turn(&self) {
        // Completions that wait for a system call of this thread.
        if self.0.uring.borrow_mut().submission().taskrun() {
            self.submit();
        } else {
            self.reap();
        }
    }

    /// Takes all completions and wakes who waits for them; returns how many there were.
    pub(super) fn reap(&self) -> usize {
        let state = &*self.0;
        let mut reaped = std::mem::take(&mut *state.reaped.borrow_mut());
        {
            let mut uring = state.uring.borrow_mut();
            reaped.extend(
                uring
                    .completion()
                    .map(|entry| (entry.user_data(), entry.result())),
            );
            if uring.submission().cq_overflow() {
                state.submit_wanted.set(true);
                if let Some(waker) = &*state.submitter.borrow() {
                    waker.wake_by_ref();
                }
            }
        }
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
            let wait = types::Timespec::new().nsec(50_000_000);
            let args = types::SubmitArgs::new().timespec(&wait);
            let result = state.uring.borrow().submitter().submit_with_args(1, &args);
            match result.map_err(|error| error.raw_os_error()) {
                Ok(_) | Err(Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
                Err(_) => break,
            }
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

/// With the flags that save interrupts where the kernel has them (6.0), plain where it has not.
fn build(depth: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .dontfork()
        .setup_cqsize(depth * 4)
        .setup_submit_all()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_single_issuer()
        .build(depth)
        .or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => IoUring::builder()
                .dontfork()
                .setup_cqsize(depth * 4)
                .build(depth),
            _ => Err(error),
        })
}

/// Reads the completion eventfd through glommio and takes completions each time it was written: this is what ends the sleep of an
/// idle shard. `fd` is a copy of the eventfd that becomes ours.
pub(super) async fn reap_loop(ring: Ring, fd: RawFd) -> io::Result<()> {
    // SAFETY: `fd` is a descriptor of our own that nothing else closes; `BufferedFile` becomes its owner.
    // Every test that awaits an operation runs it.
    let eventfd = unsafe { glommio::io::BufferedFile::from_raw_fd(fd) };
    loop {
        eventfd
            .read_at(0, 8)
            .await
            .map_err(|error| io::Error::other(error.to_string()))?;
        ring.reap();
    }
}

#[cfg(test)]
mod tests;
