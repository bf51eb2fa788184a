//! The connections of a shard, and the sweeper that ends those that are idle or stuck.
//! One `Server` per shard; a connection is registered while it lives.
//! Always: a connection that sends a frame too slowly, or is idle or unread for `connections.max.idle.ms`, is closed within
//! about a second, at no cost to the others; sooner if it holds memory that others wait for.
//! What a connection does is `connection`'s.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use super::budget::Budget;
use super::pipeline::Pipeline;
use crate::base::MonoNs;
use crate::io::socket::Socket;
use crate::io::{clock, executor};
use crate::shard::Shard;

/// The protocol's side of a shard.
pub struct Server {
    pub shard: Rc<Shard>,
    /// What requests may take of its memory.
    pub budget: Rc<Budget>,
    connections: RefCell<HashMap<u64, Rc<Activity>>>,
    next: Cell<u64>,
}

/// What the sweeper looks at.
pub struct Activity {
    socket: Rc<Socket>,
    pipeline: Rc<Pipeline>,
    /// When the last request ended or the connection began.
    idle_since: Cell<MonoNs>,
    /// A frame is arriving, and since then so many bytes of it came.
    frame_since: Cell<Option<MonoNs>>,
    frame_bytes: Cell<u64>,
    /// Bytes of the budget that it holds, and whether it goes beyond it.
    held: Cell<usize>,
    beyond: Cell<bool>,
    /// It waits for room in the budget, and is not to blame for what does not come.
    waits: Cell<bool>,
    /// Bytes since the last sweep, and for how many sweeps they were too few.
    swept_bytes: Cell<u64>,
    slow_sweeps: Cell<u32>,
}

/// Takes a connection out of the list when dropped.
pub struct Registered {
    server: Rc<Server>,
    id: u64,
}

impl Server {
    pub fn new(shard: Rc<Shard>) -> Rc<Server> {
        Rc::new(Server {
            budget: Budget::new(shard.settings.request_memory),
            shard,
            connections: RefCell::default(),
            next: Cell::new(0),
        })
    }

    /// Lists a connection while the result lives.
    pub fn register(self: &Rc<Self>, activity: Rc<Activity>) -> Registered {
        let id = self.next.get();
        self.next.set(id + 1);
        self.connections.borrow_mut().insert(id, activity);
        self.shard.counters.connections_open.one();
        if self.shard.settings.descriptors.connection_begins() {
            self.shard.close_files_everywhere();
        }
        Registered {
            server: self.clone(),
            id,
        }
    }

    /// True if the process has as many connections as it may have.
    pub fn is_full(&self) -> bool {
        self.shard.settings.descriptors.connections_are_full()
    }

    /// True if no connection is left.
    pub fn is_empty(&self) -> bool {
        self.connections.borrow().is_empty()
    }

    /// Looks at every connection once a second.
    pub async fn sweep(self: Rc<Self>) {
        loop {
            executor::sleep(SWEEP_INTERVAL).await;
            if self.is_empty() {
                continue;
            }
            let idle_max_ms = self.shard.broker_config().connection_idle_max_ms;
            let now = clock::mono();
            let short = self.budget.is_short();
            for activity in self.connections.borrow().values() {
                if activity.is_over(now, idle_max_ms) || activity.holds_up(short) {
                    activity.socket.shutdown();
                }
            }
        }
    }

    /// Ends every connection, whatever it does.
    pub fn close_all(&self) {
        for activity in self.connections.borrow().values() {
            activity.socket.shutdown();
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.server.connections.borrow_mut().remove(&self.id);
        self.server.shard.counters.connections_open.less(1);
        self.server.shard.settings.descriptors.connection_ends();
    }
}

impl Activity {
    pub fn new(socket: Rc<Socket>, pipeline: Rc<Pipeline>) -> Activity {
        Activity {
            socket,
            pipeline,
            idle_since: Cell::new(clock::mono()),
            frame_since: Cell::new(None),
            frame_bytes: Cell::new(0),
            held: Cell::new(0),
            beyond: Cell::new(false),
            waits: Cell::new(false),
            swept_bytes: Cell::new(0),
            slow_sweeps: Cell::new(0),
        }
    }

    /// Bytes of a frame came.
    pub fn received(&self, count: usize, now: MonoNs) {
        let bytes = self.frame_bytes.get() + count as u64;
        self.frame_bytes.set(bytes);
        self.swept_bytes.set(self.swept_bytes.get() + count as u64);
        // What came in time is no credit for what comes later: else who sends most of a large frame could stall for hours.
        if self.frame_since.get().is_none() || bytes >= FRAME_MS_MAX * FRAME_BYTES_PER_MS_MIN {
            self.frame_since.set(Some(now));
            self.frame_bytes.set(0);
        }
    }

    /// It holds so many bytes of the budget, or is the one that goes beyond it.
    pub fn holds(&self, bytes: usize, beyond: bool) {
        self.held.set(bytes);
        self.beyond.set(beyond);
    }

    /// It waits for room in the budget from now on.
    pub fn waits(&self) {
        self.waits.set(true);
    }

    /// It has room in the budget.
    pub fn goes_on(&self, now: MonoNs) {
        self.waits.set(false);
        self.slow_sweeps.set(0);
        // Until the next sweep it had less time than others.
        self.swept_bytes.set(SHORT_BYTES_MIN);
        if self.frame_since.get().is_some() {
            self.frame_since.set(Some(now));
        }
    }

    /// The frame is here whole.
    pub fn frame_ended(&self) {
        self.frame_since.set(None);
    }

    /// The next request may come.
    pub fn request_ended(&self, now: MonoNs) {
        self.idle_since.set(now);
    }

    /// True for a frame that holds memory and hardly arrives, while others wait for memory. Called once a sweep.
    fn holds_up(&self, short: bool) -> bool {
        let came = self.swept_bytes.take();
        let arrives = self.frame_since.get().is_some() && !self.waits.get();
        let slow = short && arrives && self.held.get() > 0 && came < SHORT_BYTES_MIN;
        self.slow_sweeps.set(match slow {
            true => self.slow_sweeps.get() + 1,
            false => 0,
        });
        let max = match self.beyond.get() {
            true => 0,
            false => SLOW_SWEEPS_MAX,
        };
        self.slow_sweeps.get() > max
    }

    fn is_over(&self, now: MonoNs, idle_max_ms: Option<i64>) -> bool {
        if let Some(since) = self.frame_since.get() {
            return !self.waits.get() && now.ms_since(since) > FRAME_MS_MAX;
        }
        let Some(idle_max_ms) = idle_max_ms.and_then(|ms| u64::try_from(ms).ok()) else {
            return false;
        };
        let last = self.idle_since.get().max(self.pipeline.progress.get());
        now.ms_since(last) > idle_max_ms
    }
}

const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// A frame must be here after this long, or as many of its bytes as come at `FRAME_BYTES_PER_MS_MIN`.
const FRAME_MS_MAX: u64 = 30_000;
const FRAME_BYTES_PER_MS_MIN: u64 = 4;
/// While others wait for memory, who holds some must send so much between two sweeps, or is slow. It is over after more than so many
/// slow sweeps; the one that goes beyond the budget, which all others wait for, after the first.
const SHORT_BYTES_MIN: u64 = 64 << 10;
const SLOW_SWEEPS_MAX: u32 = 3;
