//! One connection that sends batches on a schedule, and takes their answers.
//! Two tasks of a load core: one sends, one receives.
//! Always: a batch that is due while the connection is full or the task is late is sent later under its own intended time (no coordinated
//! omission); all batches due at once go out in one system call.
//! When batches are due is `schedule`'s.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::core::Core;
use super::ledger::Entry;
use super::payload::Templates;
use super::recorder::Done;
use super::schedule::{Next, Schedule};
use super::template::Stamp;
use crate::base::{ErrorCode, MonoNs};
use crate::client::produce::ProduceForm;
use crate::client::{ClientError, Receiver, Sender};
use crate::io::sync::Notify;
use crate::io::{clock, executor};
use crate::record::HEADER_BYTES;

/// One connection and what goes over it.
pub struct Lane {
    pub id: u16,
    /// In turn; a partition stands there more than once if it gets more than others.
    pub partitions: Vec<i32>,
    pub schedule: Schedule,
    pub in_flight_max: usize,
    pub form: ProduceForm,
    pub templates: Arc<Templates>,
    /// What was sent is read back.
    pub remember: bool,
    pub core: Rc<Core>,
}

/// What the two tasks share.
struct Shared {
    in_flight: RefCell<VecDeque<InFlight>>,
    room: Notify,
    /// Nothing more comes from the sender.
    sent_all: Cell<bool>,
}

#[derive(Clone, Copy)]
struct InFlight {
    correlation: i32,
    stamp: Stamp,
    intended: u64,
    sent: u64,
    measured: bool,
    records: u32,
    bytes: u64,
    wire_bytes: u32,
}

/// What is left of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneEnd {
    /// Batches that were due and never sent.
    pub unsent: u64,
    /// Batches sent and never answered.
    pub unanswered: u64,
    /// The same in records.
    pub unanswered_records: u64,
}

/// Bytes that go out in one system call, unless one batch is larger.
const BURST_BYTES: usize = 256 << 10;
/// Pieces of one system call, each batch has four.
const BURST_BATCHES: usize = 200;

/// Codes after which a producer would try again: they are counted, others end the run.
const PASSING: [ErrorCode; 6] = [
    ErrorCode::NotLeaderOrFollower,
    ErrorCode::LeaderNotAvailable,
    ErrorCode::RequestTimedOut,
    ErrorCode::NotEnoughReplicas,
    ErrorCode::NotEnoughReplicasAfterAppend,
    ErrorCode::UnknownTopicOrPartition,
];

/// One batch about to be sent.
struct Outgoing {
    head: bytes::Bytes,
    header: [u8; HEADER_BYTES],
    body: bytes::Bytes,
    tail: bytes::Bytes,
    flight: InFlight,
}

impl Lane {
    /// Sends until the schedule or the core is over, then waits for the answers.
    pub async fn run(self, sender: Sender, receiver: Receiver) -> LaneEnd {
        let shared = Rc::new(Shared {
            in_flight: RefCell::default(),
            room: Notify::new(),
            sent_all: Cell::new(false),
        });
        let answers = self.form.acks != 0;
        let receiving = answers.then(|| {
            let taker = Taker {
                form: self.form.clone(),
                shared: shared.clone(),
                core: self.core.clone(),
                remember: self.remember,
            };
            executor::spawn(taker.run(receiver))
        });
        let core = self.core.clone();
        let unsent = self.send(&sender, &shared).await;
        shared.sent_all.set(true);
        let everything = async {
            loop {
                let room = shared.room.wait();
                if shared.in_flight.borrow().is_empty() {
                    return;
                }
                room.await;
            }
        };
        // The core is cut when patience is at its end.
        core.unless_cut(everything).await;
        sender.shutdown();
        if let Some(receiving) = receiving {
            receiving.await;
        }
        let left = shared.in_flight.borrow();
        LaneEnd {
            unsent,
            unanswered: left.len() as u64,
            unanswered_records: left.iter().map(|flight| u64::from(flight.records)).sum(),
        }
    }

    /// Gives the batches that were due and not sent.
    async fn send(mut self, sender: &Sender, shared: &Shared) -> u64 {
        let core = self.core.clone();
        let mut turn = self.id as usize;
        let mut burst: Vec<Outgoing> = Vec::new();
        loop {
            let now = clock::mono().0;
            match self.schedule.next(now) {
                _ if core.over() => break,
                Next::Over => break,
                Next::At(at) if at > now => {
                    core.unless_over(executor::sleep_until(MonoNs(at))).await;
                    continue;
                }
                Next::At(_) => {}
            }
            let room = shared.room.wait();
            let in_flight = shared.in_flight.borrow().len();
            if in_flight >= self.in_flight_max {
                core.unless_over(room).await;
                continue;
            }
            drop(room);
            let mut bytes = 0;
            while burst.len() < (self.in_flight_max - in_flight).min(BURST_BATCHES)
                && bytes < BURST_BYTES
                && let Some(due) = self.schedule.take(now)
            {
                let partition = self.partitions[turn % self.partitions.len()];
                let template = self.templates.pick(partition, turn);
                turn += 1;
                let lane = self.id;
                let mut header = [0; HEADER_BYTES];
                let sequence = core.ledger.borrow_mut().sent(lane, |sequence| {
                    let (stamped, crc) = template.stamp(Stamp { lane, sequence }, clock::wall());
                    header = stamped;
                    Entry::new(due.intended, crc, template.records, partition, due.measured)
                });
                let correlation = sender.next_correlation();
                let around = self
                    .form
                    .around(correlation, partition, template.wire_bytes());
                let (head, tail) = match around {
                    Ok(around) => around,
                    Err(error) => {
                        core.fail(error.to_string());
                        break;
                    }
                };
                bytes += head.len() + template.wire_bytes() + tail.len();
                burst.push(Outgoing {
                    head,
                    header,
                    body: template.body.clone(),
                    tail,
                    flight: InFlight {
                        correlation,
                        stamp: Stamp { lane, sequence },
                        intended: due.intended,
                        sent: 0,
                        measured: due.measured,
                        records: template.records,
                        bytes: template.payload_bytes,
                        wire_bytes: template.wire_bytes() as u32,
                    },
                });
            }
            if let Err(error) = self.send_burst(sender, shared, &mut burst).await {
                core.fail(error.to_string());
            }
            executor::yield_if_needed().await;
        }
        self.schedule.behind(clock::mono().0)
    }

    async fn send_burst(
        &self,
        sender: &Sender,
        shared: &Shared,
        burst: &mut Vec<Outgoing>,
    ) -> Result<(), ClientError> {
        let sent = clock::mono().0;
        let answers = self.form.acks != 0;
        if answers {
            let flights = burst.iter().map(|out| InFlight { sent, ..out.flight });
            shared.in_flight.borrow_mut().extend(flights);
            let count = burst.len() as u64;
            self.core.live.in_flight.fetch_add(count, Ordering::Relaxed);
        }
        let pieces: Vec<&[u8]> = burst
            .iter()
            .flat_map(|out| [&out.head[..], &out.header, &out.body, &out.tail])
            .filter(|piece| !piece.is_empty())
            .collect();
        // A broker that does not read any more must not keep the run from ending.
        let result = self.core.unless_cut(sender.send(&pieces)).await;
        if !answers {
            for out in burst.iter() {
                let flight = InFlight { sent, ..out.flight };
                settle(&self.core, flight, self.remember);
            }
        }
        burst.clear();
        result.unwrap_or(Ok(()))
    }
}

/// Takes the answers of a connection.
struct Taker {
    form: ProduceForm,
    shared: Rc<Shared>,
    core: Rc<Core>,
    remember: bool,
}

impl Taker {
    async fn run(self, mut receiver: Receiver) {
        loop {
            let frame = match receiver.frame().await {
                Ok(frame) => frame,
                Err(error) => {
                    let expected = self.shared.sent_all.get() || self.core.cut();
                    if !expected || !self.shared.in_flight.borrow().is_empty() {
                        self.core.fail(error.to_string());
                    }
                    self.shared.room.notify();
                    return;
                }
            };
            if let Err(error) = self.take(&receiver, frame) {
                self.core.fail(error.to_string());
                self.shared.room.notify();
                return;
            }
        }
    }

    fn take(&self, receiver: &Receiver, frame: bytes::Bytes) -> Result<(), ClientError> {
        let ack = self.form.read_ack(receiver, frame)?;
        let flight = self.shared.in_flight.borrow_mut().pop_front();
        let flight = flight.filter(|flight| flight.correlation == ack.correlation);
        let Some(flight) = flight else {
            return Err(ClientError::Answer {
                address: receiver.address().to_owned(),
                what: format!(
                    "an answer with correlation id {} that is not the next",
                    ack.correlation
                ),
            });
        };
        self.core.live.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.shared.room.notify();
        if ack.error_code == 0 {
            settle(&self.core, flight, self.remember);
            return Ok(());
        }
        self.core.ledger.borrow_mut().failed(flight.stamp);
        self.core.produced.borrow_mut().error(ack.error_code);
        self.core.live.errors.fetch_add(1, Ordering::Relaxed);
        let passes = PASSING.iter().any(|code| code.code() == ack.error_code);
        if !passes {
            let what = format!("Produce to partition {}", ack.partition);
            return Err(ClientError::refused(what, ack.error_code, None));
        }
        Ok(())
    }
}

/// Counts a batch that is done.
fn settle(core: &Core, flight: InFlight, remember: bool) {
    let now = clock::mono().0;
    let mut ledger = core.ledger.borrow_mut();
    match remember {
        true => ledger.acked(flight.stamp),
        false => ledger.settle(flight.stamp),
    }
    drop(ledger);
    let live = &core.live;
    live.records
        .fetch_add(u64::from(flight.records), Ordering::Relaxed);
    live.bytes.fetch_add(flight.bytes, Ordering::Relaxed);
    live.slowest
        .fetch_max(now.saturating_sub(flight.intended), Ordering::Relaxed);
    if flight.measured {
        core.produced.borrow_mut().done(Done {
            intended: flight.intended,
            sent: flight.sent,
            now,
            records: flight.records.into(),
            bytes: flight.bytes,
            wire_bytes: flight.wire_bytes.into(),
        });
    }
}
