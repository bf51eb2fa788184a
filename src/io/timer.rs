//! Sleeping tasks of a shard, in the order of their deadlines.
//! One table per shard, driven by one task with at most one timeout on the companion ring.
//! Always: a sleeper wakes at its deadline or up to a turn later, never earlier; one that is dropped leaves nothing.
//! What deadlines are for is decided above.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_lite::future::or;

use super::clock;
use super::ring::Ring;
use super::sync::Notify;
use crate::base::MonoNs;

/// Ready when the monotonic clock has reached the deadline.
pub(super) struct Sleep {
    deadline: MonoNs,
    key: Option<(MonoNs, u64)>,
}

struct Timers {
    sleepers: BTreeMap<(MonoNs, u64), Option<Waker>>,
    next_id: u64,
    /// The deadline of the timeout under way; `MonoNs(u64::MAX)`: none.
    armed: MonoNs,
    earlier: Rc<Notify>,
}

thread_local! {
    static TIMERS: RefCell<Option<Timers>> = const { RefCell::new(None) };
}

const NEVER: MonoNs = MonoNs(u64::MAX);

fn with_timers<T>(look: impl FnOnce(&mut Timers) -> T) -> Option<T> {
    TIMERS.with(|timers| timers.borrow_mut().as_mut().map(look))
}

pub(super) fn install() {
    TIMERS.with(|timers| {
        *timers.borrow_mut() = Some(Timers {
            sleepers: BTreeMap::new(),
            next_id: 0,
            armed: NEVER,
            earlier: Rc::new(Notify::new()),
        });
    });
}

pub(super) fn uninstall() {
    let timers = TIMERS.with(|timers| timers.borrow_mut().take());
    // Dropped outside of the borrow: a waker may be the last to hold a task with a sleeper in it.
    drop(timers);
}

/// Runs for the life of the shard.
pub(super) async fn run() {
    let ring = Ring::current();
    let earlier = with_timers(|timers| timers.earlier.clone()).expect("installed before");
    loop {
        let changed = earlier.wait();
        let now = clock::mono();
        let due = with_timers(|timers| timers.due(now)).unwrap_or_default();
        for waker in due {
            waker.wake();
        }
        let armed = with_timers(Timers::arm).unwrap_or(NEVER);
        if armed == NEVER {
            changed.await;
        } else {
            let timeout = async {
                if let Err(error) = ring.timeout(clock::until(armed)).await {
                    panic!("the kernel refuses a timeout: {error}");
                }
            };
            or(timeout, changed).await;
        }
    }
}

impl Timers {
    /// Takes the wakers of all whose deadline has come.
    fn due(&mut self, now: MonoNs) -> Vec<Waker> {
        let later = self
            .sleepers
            .split_off(&(MonoNs(now.0.saturating_add(1)), 0));
        let due = std::mem::replace(&mut self.sleepers, later);
        due.into_values().flatten().collect()
    }

    /// The next deadline, which is now the one that is waited for.
    fn arm(&mut self) -> MonoNs {
        let first = self.sleepers.first_key_value();
        self.armed = first.map_or(NEVER, |((deadline, _), _)| *deadline);
        self.armed
    }
}

impl Sleep {
    pub fn new(deadline: MonoNs) -> Sleep {
        Sleep {
            deadline,
            key: None,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if clock::mono() >= self.deadline {
            return Poll::Ready(());
        }
        let (deadline, key) = (self.deadline, self.key);
        let earlier = with_timers(|timers| {
            let key = key.unwrap_or_else(|| {
                timers.next_id += 1;
                (deadline, timers.next_id)
            });
            timers.sleepers.insert(key, Some(cx.waker().clone()));
            self.key = Some(key);
            (deadline < timers.armed).then(|| timers.earlier.clone())
        })
        .expect("sleeping is done on a shard");
        if let Some(earlier) = earlier {
            earlier.notify();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = with_timers(|timers| timers.sleepers.remove(&key)).flatten();
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::io::executor::{sleep, sleep_until, spawn};
    use crate::io::testing::on_shard;

    #[test]
    fn sleepers_wake_in_order_and_never_early() {
        on_shard(|| async {
            let order = Rc::new(RefCell::new(Vec::new()));
            let start = clock::mono();
            // The later ones first, so that each asks for an earlier timeout.
            let tasks: Vec<_> = (0..20)
                .rev()
                .map(|n| {
                    let order = order.clone();
                    spawn(async move {
                        let deadline = start.plus_ms(5 + n);
                        sleep_until(deadline).await;
                        assert!(clock::mono() >= deadline, "early");
                        order.borrow_mut().push(n);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            assert!(order.borrow().is_sorted(), "{order:?}");
            assert!(with_timers(|timers| timers.sleepers.is_empty()).expect("there"));
        });
    }

    #[test]
    fn dropped_sleepers_leave_nothing() {
        on_shard(|| async {
            let long: Vec<_> = (0..100)
                .map(|_| spawn(sleep(Duration::from_secs(3600))))
                .collect();
            sleep(Duration::from_millis(1)).await;
            assert_eq!(with_timers(|timers| timers.sleepers.len()), Some(100));
            for task in long {
                task.cancel().await;
            }
            assert_eq!(with_timers(|timers| timers.sleepers.len()), Some(0));
            sleep_until(MonoNs(0)).await;
        });
    }

    #[test]
    fn timers_fire_on_a_shard_that_is_never_idle() {
        on_shard(|| async {
            let busy = spawn(async {
                loop {
                    crate::io::executor::yield_now().await;
                }
            });
            let start = clock::mono();
            sleep(Duration::from_millis(10)).await;
            assert!(clock::mono() >= start.plus_ms(10));
            busy.cancel().await;
        });
    }
}
