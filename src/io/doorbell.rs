//! Wakes a task of this shard from another thread.
//! One `Doorbell` per shard, installed by `executor::run_shard`; a task takes a `Bell`, others get its `BellHandle`.
//! Always: a ring is never lost; the eventfd is written only when the shard may be asleep, so many rings cost one wake.
//! What the wake is about lies in a place the two sides share (`mesh`, `blocking`).

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::ring::Ring;
use super::sys;

/// The part of a shard's doorbell that all threads share.
struct Doorbell {
    state: Mutex<Rung>,
    eventfd: OwnedFd,
}

struct Rung {
    /// Bells that were rung since the shard looked.
    bells: Vec<u32>,
    /// The shard waits at the eventfd.
    asleep: bool,
}

/// The bells of this shard.
struct Bells {
    doorbell: Arc<Doorbell>,
    eventfd: Rc<OwnedFd>,
    slots: Vec<Option<BellState>>,
    free: Vec<u32>,
}

#[derive(Default)]
struct BellState {
    rung: bool,
    waker: Option<Waker>,
}

thread_local! {
    static BELLS: RefCell<Option<Bells>> = const { RefCell::new(None) };
}

/// One thing that a task of this shard can be woken by.
pub struct Bell {
    index: u32,
    doorbell: Arc<Doorbell>,
    /// `!Send`: the bell is known by its place in a table of this thread.
    _local: std::marker::PhantomData<Rc<()>>,
}

/// Rings a [`Bell`] from any thread.
#[derive(Clone)]
pub struct BellHandle {
    index: u32,
    doorbell: Arc<Doorbell>,
}

impl Doorbell {
    fn lock(&self) -> MutexGuard<'_, Rung> {
        // Nothing in here can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BellHandle {
    /// Wakes the task that waits at the bell, or the next that will.
    pub fn ring(&self) {
        let mut state = self.doorbell.lock();
        state.bells.push(self.index);
        let asleep = std::mem::replace(&mut state.asleep, false);
        drop(state);
        if asleep {
            sys::ring_eventfd(self.doorbell.eventfd.as_raw_fd());
        }
    }
}

impl Bell {
    /// A bell of this shard. Panics outside of `executor::run_shard`.
    pub fn new() -> Bell {
        with_bells(|bells| {
            let index = bells.free.pop().unwrap_or_else(|| {
                bells.slots.push(None);
                (bells.slots.len() - 1) as u32
            });
            bells.slots[index as usize] = Some(BellState::default());
            Bell {
                index,
                doorbell: bells.doorbell.clone(),
                _local: std::marker::PhantomData,
            }
        })
        .expect("a bell exists only on a shard")
    }

    pub fn handle(&self) -> BellHandle {
        BellHandle {
            index: self.index,
            doorbell: self.doorbell.clone(),
        }
    }

    /// Ready if it was rung since it was last ready. May be ready for the ring of an earlier bell in the same place: look
    /// at the shared place again.
    pub fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<()> {
        with_bells(|bells| {
            let state = bells.slots[self.index as usize]
                .as_mut()
                .expect("a bell keeps its slot");
            if std::mem::take(&mut state.rung) {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .unwrap_or(Poll::Pending)
    }

    /// Waits until it is rung.
    pub async fn rung(&self) {
        std::future::poll_fn(|cx| self.poll_rung(cx)).await;
    }
}

impl Default for Bell {
    fn default() -> Self {
        Bell::new()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // At the end of the shard the table may be gone already.
        with_bells(|bells| {
            bells.slots[self.index as usize] = None;
            bells.free.push(self.index);
        });
    }
}

fn with_bells<T>(look: impl FnOnce(&mut Bells) -> T) -> Option<T> {
    BELLS.with(|bells| bells.borrow_mut().as_mut().map(look))
}

pub(super) fn install() -> io::Result<()> {
    let doorbell = Arc::new(Doorbell {
        state: Mutex::new(Rung {
            bells: Vec::new(),
            asleep: false,
        }),
        eventfd: sys::eventfd()?,
    });
    let eventfd = Rc::new(doorbell.eventfd.try_clone()?);
    BELLS.with(|bells| {
        *bells.borrow_mut() = Some(Bells {
            doorbell,
            eventfd,
            slots: Vec::new(),
            free: Vec::new(),
        });
    });
    Ok(())
}

pub(super) fn uninstall() {
    BELLS.with(|bells| bells.borrow_mut().take());
}

/// Runs for the life of the shard: wakes the tasks whose bells were rung, sleeps at the eventfd in between.
pub(super) async fn listen() {
    let (doorbell, eventfd) = with_bells(|bells| (bells.doorbell.clone(), bells.eventfd.clone()))
        .expect("installed before");
    let ring = Ring::current();
    loop {
        let rung = {
            let mut state = doorbell.lock();
            if state.bells.is_empty() {
                state.asleep = true;
                None
            } else {
                Some(std::mem::take(&mut state.bells))
            }
        };
        match rung {
            Some(rung) => wake(&rung),
            None => {
                if let Err(error) = ring.read_word(&eventfd).await {
                    panic!("the doorbell of the shard cannot be read: {error}");
                }
            }
        }
    }
}

fn wake(rung: &[u32]) {
    for &index in rung {
        let waker = with_bells(|bells| {
            let state = bells.slots.get_mut(index as usize)?.as_mut()?;
            state.rung = true;
            state.waker.take()
        })
        .flatten();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::executor::run_shard;

    #[test]
    fn bell_is_heard_from_another_thread_also_before_the_wait() {
        let shard = run_shard(None, "bell", || async {
            let bell = Bell::new();
            for round in 0..100 {
                let handle = bell.handle();
                let ringer = std::thread::spawn(move || handle.ring());
                if round % 2 == 0 {
                    // The ring is there before anybody waits.
                    ringer.join().expect("ringer");
                    bell.rung().await;
                } else {
                    bell.rung().await;
                    ringer.join().expect("ringer");
                }
            }
            let other = Bell::new();
            let stale = other.handle();
            drop(other);
            // A bell that is gone: nobody to wake, nothing breaks.
            stale.ring();
            bell.handle().ring();
            bell.rung().await;
        });
        shard.expect("starts").join().expect("runs");
    }
}
