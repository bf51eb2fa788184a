//! What the tasks of one load core share: counts, the ledger, and the word that ends them.
//! One per load core and phase, in an `Rc`; `Live` is what the first thread sees of it.
//! Always: the first failure is kept and ends every task of every core.
//! Sending and reading are `lane`'s and `reader`'s.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::ledger::Ledger;
use super::recorder::Recorder;
use super::verify::Checks;
use crate::base::MonoNs;
use crate::io::sync::Notify;
use crate::io::{clock, executor, signal};

/// What the load cores of a phase tell while it runs, all together.
#[derive(Debug, Default)]
pub struct Live {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub read_records: AtomicU64,
    pub read_bytes: AtomicU64,
    pub in_flight: AtomicU64,
    pub errors: AtomicU64,
    /// Nanoseconds: the longest of the running second, from the intended time.
    pub slowest: AtomicU64,
    /// Cores that are connected, or have failed to.
    pub ready: AtomicU64,
    /// Begin of the warm-up, once it is known to all: nanoseconds of the monotonic clock; 0 before.
    pub begin: AtomicU64,
    /// Cores whose window is over and whose batches are answered.
    pub measured: AtomicU64,
    ends: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Live {
    /// Ends the phase on all cores; the first reason counts.
    pub fn fail(&self, reason: String) {
        let mut kept = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert(reason);
        drop(kept);
        self.ends.store(true, Ordering::SeqCst);
    }

    pub fn failure(&self) -> Option<String> {
        let kept = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clone()
    }

    pub fn ends(&self) -> bool {
        self.ends.load(Ordering::SeqCst)
    }
}

/// Shared by the tasks of a load core.
pub struct Core {
    pub produced: RefCell<Recorder>,
    pub consumed: RefCell<Recorder>,
    /// Of those who read old data beside.
    pub cold: RefCell<Recorder>,
    pub ledger: RefCell<Ledger>,
    pub checks: RefCell<Checks>,
    pub verify_ns: Cell<u64>,
    /// Retention has taken what was not read yet: what is missing is not lost.
    pub expired: Cell<bool>,
    /// Followers that are not yet at the end of what is there, and when the last of them got there.
    pub behind: Cell<usize>,
    pub caught_up_at: Cell<u64>,
    /// Connections that send, or wait for answers.
    lanes: Cell<usize>,
    /// Nothing more is sent.
    over: Cell<bool>,
    /// The tasks are to end, whatever they wait for.
    cut: Cell<bool>,
    /// Rung when one of the two is set, and when a connection has come to its end.
    pub changed: Notify,
    pub live: Arc<Live>,
}

/// How often a core looks whether another has failed.
const LOOK: Duration = Duration::from_millis(20);
/// A broker that answers nothing for so long ends the run.
const SILENCE: Duration = Duration::from_secs(30);

impl Core {
    pub fn new(window: u64, readers: u16, live: Arc<Live>) -> Rc<Core> {
        Rc::new(Core {
            produced: RefCell::new(Recorder::new(window)),
            consumed: RefCell::new(Recorder::new(window)),
            cold: RefCell::new(Recorder::new(window)),
            ledger: RefCell::new(Ledger::new(readers)),
            checks: RefCell::default(),
            verify_ns: Cell::new(0),
            expired: Cell::new(false),
            behind: Cell::new(0),
            caught_up_at: Cell::new(window),
            lanes: Cell::new(0),
            over: Cell::new(false),
            cut: Cell::new(false),
            changed: Notify::new(),
            live,
        })
    }

    pub fn over(&self) -> bool {
        self.over.get()
    }

    pub fn cut(&self) -> bool {
        self.cut.get()
    }

    pub fn lanes_running(&self) -> usize {
        self.lanes.get()
    }

    pub fn set_lanes_running(&self, lanes: usize) {
        self.lanes.set(lanes);
    }

    /// Ends sending.
    pub fn end_sending(&self) {
        self.over.set(true);
        self.changed.notify();
    }

    /// Ends everything.
    pub fn end_all(&self) {
        self.over.set(true);
        self.cut.set(true);
        self.changed.notify();
    }

    pub fn fail(&self, reason: String) {
        self.live.fail(reason);
        self.end_all();
    }

    /// `future`, or `None` once sending is over.
    pub async fn unless_over<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.unless(|| self.over(), future).await
    }

    /// `future`, or `None` once everything ends.
    pub async fn unless_cut<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.unless(|| self.cut(), future).await
    }

    async fn unless<T>(
        &self,
        ended: impl Fn() -> bool,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        futures_lite::future::or(async { Some(future.await) }, async {
            loop {
                let changed = self.changed.wait();
                if ended() {
                    return None;
                }
                changed.await;
            }
        })
        .await
    }

    /// Runs beside the tasks: ends sending at `end`, and everything when another core has failed, the broker is silent or the user asks for it.
    pub async fn watch(self: Rc<Core>, end: u64) {
        let live = self.live.clone();
        let _interrupted = executor::spawn(async move {
            signal::asked_to_end().await;
            live.fail(INTERRUPTED.to_owned());
        });
        let (mut progress, mut since) = (0, clock::mono().0);
        loop {
            let now = clock::mono().0;
            if now >= end && !self.over() {
                self.end_sending();
            }
            let done = self.live.records.load(Ordering::Relaxed)
                + self.live.read_records.load(Ordering::Relaxed);
            let waits = self.live.in_flight.load(Ordering::Relaxed) > 0;
            if done != progress || !waits {
                (progress, since) = (done, now);
            }
            if now - since > SILENCE.as_nanos() as u64 {
                let seconds = SILENCE.as_secs();
                self.live
                    .fail(format!("the broker has answered nothing for {seconds} s"));
            }
            if self.live.ends() {
                self.end_all();
                return;
            }
            let until_end = match self.over() {
                true => u64::MAX,
                false => end,
            };
            let look = now.saturating_add(LOOK.as_nanos() as u64);
            executor::sleep_until(MonoNs(look.min(until_end))).await;
        }
    }
}

/// Why a run that the user ended is partial.
pub const INTERRUPTED: &str = "interrupted";
