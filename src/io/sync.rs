//! Waiting between the tasks of one shard: a notification, a semaphore, a one-value channel.
//! Owned by the tasks that share them, `!Send`: no atomics.
//! Always: a waiter that is dropped takes nothing with it; wakes are never lost between making a future and polling it.
//! Waiting for another shard or thread is `doorbell`'s and `mesh`'s.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// One more in a count for as long as it lives, such as one who waits.
pub struct Counted<'a>(&'a Cell<usize>);

impl Counted<'_> {
    pub fn new(count: &Cell<usize>) -> Counted<'_> {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// "Something changed": wakes all who waited before it. Make the `wait` future, look at the condition, then await it.
#[derive(Default)]
pub struct Notify {
    generation: Cell<u64>,
    waiters: RefCell<Waiters>,
}

/// Who waits for the next `notify`.
#[derive(Default)]
struct Waiters {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Notify {
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes every future made by `wait` so far.
    pub fn notify(&self) {
        self.generation.set(self.generation.get().wrapping_add(1));
        let waiters = std::mem::take(&mut *self.waiters.borrow_mut());
        for waker in waiters.wakers.into_iter().flatten() {
            waker.wake();
        }
    }

    /// Ready at the first `notify` after this call (not after the first poll).
    pub fn wait(&self) -> Notified<'_> {
        self.since(self.generation())
    }

    /// Counts the calls of `notify`.
    pub fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Ready at the first `notify` after the count was `seen`: for who can't hold the borrow of `wait`.
    pub fn since(&self, seen: u64) -> Notified<'_> {
        Notified {
            notify: self,
            seen,
            place: None,
        }
    }
}

/// See [`Notify::wait`].
pub struct Notified<'a> {
    notify: &'a Notify,
    seen: u64,
    /// Where its waker is, as long as the generation is the one that was seen.
    place: Option<usize>,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.notify.generation.get() != self.seen {
            return Poll::Ready(());
        }
        let mut waiters = self.notify.waiters.borrow_mut();
        let place = self
            .place
            .or_else(|| waiters.free.pop())
            .unwrap_or_else(|| {
                waiters.wakers.push(None);
                waiters.wakers.len() - 1
            });
        match &mut waiters.wakers[place] {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
        drop(waiters);
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        // After a `notify` the places are others'.
        if let Some(place) = self.place
            && self.notify.generation.get() == self.seen
        {
            let mut waiters = self.notify.waiters.borrow_mut();
            let waker = waiters.wakers[place].take();
            waiters.free.push(place);
            drop(waiters);
            drop(waker);
        }
    }
}

/// Counts permits; `acquire` waits in the order of arrival.
pub struct Semaphore {
    state: RefCell<SemaphoreState>,
}

struct SemaphoreState {
    free: u64,
    queue: VecDeque<Rc<Wish>>,
}

/// One waiter of a semaphore.
struct Wish {
    count: u64,
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Semaphore {
    pub fn new(permits: u64) -> Semaphore {
        Semaphore {
            state: RefCell::new(SemaphoreState {
                free: permits,
                queue: VecDeque::new(),
            }),
        }
    }

    pub fn free(&self) -> u64 {
        self.state.borrow().free
    }

    /// `count` permits without waiting; refuses while others wait.
    pub fn try_acquire(&self, count: u64) -> Option<Permit<'_>> {
        let mut state = self.state.borrow_mut();
        if !state.queue.is_empty() || state.free < count {
            return None;
        }
        state.free -= count;
        Some(Permit {
            semaphore: self,
            count,
        })
    }

    /// Waits for `count` permits; those who came earlier are served first.
    pub async fn acquire(&self, count: u64) -> Permit<'_> {
        if let Some(permit) = self.try_acquire(count) {
            return permit;
        }
        let wish = Rc::new(Wish {
            count,
            granted: Cell::new(false),
            waker: RefCell::new(None),
        });
        self.state.borrow_mut().queue.push_back(wish.clone());
        let mut waiting = Waiting {
            semaphore: self,
            wish: Some(wish),
        };
        std::future::poll_fn(|cx| {
            let wish = waiting.wish.as_ref().expect("polled after it was ready");
            if wish.granted.get() {
                waiting.wish = None;
                return Poll::Ready(());
            }
            *wish.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Permit {
            semaphore: self,
            count,
        }
    }

    fn release(&self, count: u64) {
        let mut state = self.state.borrow_mut();
        state.free += count;
        let mut woken = Vec::new();
        while let Some(wish) = state.queue.front().cloned() {
            if state.free < wish.count {
                break;
            }
            state.queue.pop_front();
            state.free -= wish.count;
            wish.granted.set(true);
            woken.extend(wish.waker.borrow_mut().take());
        }
        drop(state);
        for waker in woken {
            waker.wake();
        }
    }
}

/// Gives back what was granted to a future that was dropped before it saw it.
struct Waiting<'a> {
    semaphore: &'a Semaphore,
    wish: Option<Rc<Wish>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(wish) = self.wish.take() else { return };
        if wish.granted.get() {
            self.semaphore.release(wish.count);
        } else {
            self.semaphore
                .state
                .borrow_mut()
                .queue
                .retain(|other| !Rc::ptr_eq(other, &wish));
            // The one behind may ask for less than the one that left.
            self.semaphore.release(0);
        }
    }
}

/// Permits held; dropping gives them back.
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    count: u64,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.release(self.count);
    }
}

/// A channel for one value within a shard.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Rc::new(Slot {
        value: RefCell::new(None),
        waker: RefCell::new(None),
        sender_gone: Cell::new(false),
    });
    (Sender(slot.clone()), Receiver(slot))
}

struct Slot<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    sender_gone: Cell<bool>,
}

/// The end of [`oneshot`] that gives the value.
pub struct Sender<T>(Rc<Slot<T>>);

impl<T> Sender<T> {
    /// Hands the value over; nobody may be there to take it.
    pub fn send(self, value: T) {
        *self.0.value.borrow_mut() = Some(value);
    }

    /// True once the receiver was dropped.
    pub fn is_unwanted(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.sender_gone.set(true);
        let waker = self.0.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The end of [`oneshot`] that waits; `None` if the sender was dropped without a value.
pub struct Receiver<T>(Rc<Slot<T>>);

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if self.0.sender_gone.get() {
            return Poll::Ready(self.0.value.borrow_mut().take());
        }
        *self.0.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};

    #[test]
    fn notify_between_wait_and_poll_is_not_lost() {
        block_on(async {
            let notify = Notify::new();
            let waiting = notify.wait();
            notify.notify();
            waiting.await;
            assert!(poll_once(notify.wait()).await.is_none());
        });
    }

    #[test]
    fn given_up_waits_leave_no_trace_and_all_others_are_woken() {
        block_on(async {
            let notify = Notify::new();
            for _ in 0..100 {
                assert!(poll_once(notify.wait()).await.is_none());
            }
            assert_eq!(notify.waiters.borrow().wakers.len(), 1, "places pile up");
            let mut waits: Vec<_> = (0..10).map(|_| notify.wait()).collect();
            for wait in &mut waits {
                assert!(poll_once(&mut *wait).await.is_none());
            }
            let seen = notify.generation();
            drop(waits.pop());
            notify.notify();
            let late = notify.wait();
            for wait in waits {
                wait.await;
            }
            notify.since(seen).await;
            assert!(poll_once(late).await.is_none());
        });
    }

    #[test]
    fn semaphore_serves_in_order_and_survives_dropped_waiters() {
        block_on(async {
            let semaphore = Semaphore::new(4);
            let held = semaphore.acquire(3).await;
            let mut big = Box::pin(semaphore.acquire(4));
            let mut small = Box::pin(semaphore.acquire(1));
            assert!(poll_once(&mut big).await.is_none());
            assert!(poll_once(&mut small).await.is_none(), "overtook the first");
            drop(big);
            let small = poll_once(&mut small).await.expect("next in line");
            drop(held);
            assert_eq!(semaphore.free(), 3);

            // Granted but dropped before it was polled: the permits come back.
            let mut late = Box::pin(semaphore.acquire(4));
            assert!(poll_once(&mut late).await.is_none());
            drop(small);
            drop(late);
            assert_eq!(semaphore.free(), 4);
            assert!(semaphore.try_acquire(5).is_none());
        });
    }

    #[test]
    fn oneshot_gives_the_value_or_says_that_none_comes() {
        block_on(async {
            let (sender, receiver) = oneshot();
            sender.send(7);
            assert_eq!(receiver.await, Some(7));
            let (sender, receiver) = oneshot::<u8>();
            drop(sender);
            assert_eq!(receiver.await, None);
            let (sender, receiver) = oneshot::<u8>();
            assert!(!sender.is_unwanted());
            drop(receiver);
            assert!(sender.is_unwanted());
        });
    }
}
