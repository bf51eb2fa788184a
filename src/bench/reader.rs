//! One connection that fetches from some partitions, one fetch behind the other, and looks at what comes.
//! A task of a load core.
//! Always: what is read is checked before it is counted; latency end to end is from the intended time of the send.
//! What is looked at is `verify`'s.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::core::Core;
use super::recorder::Done;
use super::verify::{Checks, Cursor, Seen, Verifier};
use crate::base::ErrorCode;
use crate::client::fetch::{FetchLimits, fetch};
use crate::client::metadata::{End, Topic, offsets};
use crate::client::{ClientError, Connection};
use crate::io::clock;

/// What a reading task is to do.
pub struct Reader {
    pub topic: Rc<Topic>,
    pub cursors: Vec<Cursor>,
    pub kind: Kind,
    pub limits: FetchLimits,
    pub verify: bool,
    pub was_caught_up: bool,
    /// Bytes of values and keys per record. Of records that others have made they are not known: counted are those of their batches.
    pub record_bytes: Option<f64>,
    pub core: Rc<Core>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Reads what is being written, until all that was acknowledged has come. Latencies are end to end.
    Follow,
    /// Reads what is there again and again until the end of the window, measured from `window` on: latencies are those of fetches.
    Loop {
        window: u64,
        /// First offset and the one behind the last, by place in `cursors`.
        bounds: Vec<(i64, i64)>,
        /// Records to read in the window at most.
        quota: u64,
    },
    /// As `Loop`, of old data beside a tail: counted apart.
    Cold {
        window: u64,
        bounds: Vec<(i64, i64)>,
    },
    /// Reads what was sent back once, uncounted.
    Back,
}

impl Reader {
    pub async fn run(mut self, mut connection: Connection) {
        if let Err(error) = self.read(&mut connection).await {
            self.core.fail(error.to_string());
        }
    }

    async fn read(&mut self, connection: &mut Connection) -> Result<(), ClientError> {
        let core = self.core.clone();
        let mut quota_used = 0;
        // Partitions take turns at the front, so that a limit of the whole answer starves none.
        let mut turn = 0;
        let mut at_end = false;
        // Since when everything that can be read was.
        let mut ended = None;
        while !core.cut() && !self.done(quota_used, at_end) {
            let wanted = self.wanted(turn);
            turn += 1;
            if wanted.is_empty() {
                return Ok(());
            }
            let sent = clock::mono().0;
            // Of all that will ever come, once nothing is on its way any more.
            at_end = core.over() && core.lanes_running() == 0;
            let mut caught_up = true;
            let fetched = fetch(connection, &self.topic, &wanted, self.limits);
            let Some(fetched) = core.unless_cut(fetched).await else {
                return Ok(());
            };
            let fetched = fetched?;
            let now = clock::mono().0;
            let mut counted = Counted::default();
            for part in fetched {
                let position = self
                    .cursors
                    .iter()
                    .position(|c| c.partition == part.partition);
                let Some(position) = position else {
                    continue;
                };
                if part.error_code == ErrorCode::OffsetOutOfRange.code() {
                    self.skip_expired(connection, position).await?;
                    (at_end, caught_up) = (false, false);
                    continue;
                }
                if part.error_code != 0 {
                    let what = format!("Fetch of {}-{}", self.topic.name, part.partition);
                    return Err(ClientError::refused(what, part.error_code, None));
                }
                self.look_at(position, &part.records, now, &mut counted)
                    .map_err(|what| ClientError::Answer {
                        address: connection.address().to_owned(),
                        what,
                    })?;
                let at_high_watermark = self.cursors[position].next_offset >= part.high_watermark;
                at_end &= at_high_watermark;
                caught_up &= at_high_watermark;
            }
            // What was acknowledged from memory can be read when it is on the disk.
            ended = at_end.then(|| ended.unwrap_or(now));
            at_end = ended.is_some_and(|since| now - since > END_NS);
            if caught_up && self.kind == Kind::Follow && !self.was_caught_up {
                self.was_caught_up = true;
                core.behind.set(core.behind.get() - 1);
                core.caught_up_at.set(now);
            }
            quota_used += self.count_fetch(sent, now, &counted);
        }
        Ok(())
    }

    /// Retention was faster than this reader: it goes on with the oldest there is.
    async fn skip_expired(
        &mut self,
        connection: &mut Connection,
        position: usize,
    ) -> Result<(), ClientError> {
        self.core.expired.set(true);
        let partition = self.cursors[position].partition;
        let first = offsets(connection, &self.topic, &[partition], End::Earliest).await?;
        if let Some(&(_, offset)) = first.first() {
            self.cursors[position].next_offset = offset;
        }
        if let Kind::Loop { bounds, .. } | Kind::Cold { bounds, .. } = &mut self.kind {
            let (first, end) = &mut bounds[position];
            *first = self.cursors[position].next_offset;
            if *first >= *end {
                let what = format!("reading what was in {}-{partition}", self.topic.name);
                return Err(ClientError::refused(
                    what,
                    ErrorCode::OffsetOutOfRange.code(),
                    Some("retention has deleted it; use a topic that keeps its records longer"),
                ));
            }
        }
        Ok(())
    }

    /// Which partitions to fetch, from where.
    fn wanted(&mut self, turn: usize) -> Vec<(i32, i64)> {
        if let Kind::Loop { bounds, .. } | Kind::Cold { bounds, .. } = &self.kind {
            for (cursor, &(first, end)) in self.cursors.iter_mut().zip(bounds) {
                if cursor.next_offset >= end {
                    cursor.rewind(first);
                }
            }
        }
        let count = self.cursors.len();
        (0..count)
            .map(|n| &self.cursors[(n + turn) % count])
            .map(|cursor| (cursor.partition, cursor.next_offset))
            .collect()
    }

    fn done(&self, quota_used: u64, at_end: bool) -> bool {
        match &self.kind {
            Kind::Follow | Kind::Back => {
                let unread = self.core.ledger.borrow().unread();
                let idle = self.core.over() && self.core.lanes_running() == 0;
                idle && (unread == 0 || at_end)
            }
            Kind::Loop { quota, .. } => self.core.over() || quota_used >= *quota,
            Kind::Cold { .. } => self.core.over(),
        }
    }

    fn look_at(
        &mut self,
        position: usize,
        bytes: &[u8],
        now: u64,
        counted: &mut Counted,
    ) -> Result<(), String> {
        let core = self.core.clone();
        let mut checks = core.checks.borrow_mut();
        let mut ledger = core.ledger.borrow_mut();
        let mut consumed = core.consumed.borrow_mut();
        let mut spent = core.verify_ns.get();
        let with_ledger = !matches!(self.kind, Kind::Loop { .. } | Kind::Cold { .. });
        let follow = self.kind == Kind::Follow;
        let value_bytes = self.value_bytes();
        let mut verifier = Verifier {
            checks: &mut checks,
            spent_ns: self.verify.then_some(&mut spent),
            ledger: with_ledger.then_some(&mut *ledger),
        };
        verifier.read(&mut self.cursors[position], bytes, |seen: Seen| {
            counted.add(&seen);
            if follow && let Some(intended) = seen.intended {
                consumed.done(Done {
                    intended,
                    sent: intended,
                    now,
                    records: seen.records,
                    bytes: value_bytes(seen.records, seen.wire_bytes),
                    wire_bytes: seen.wire_bytes,
                });
            }
        })?;
        core.verify_ns.set(spent);
        Ok(())
    }

    /// Bytes of so many records in batches of so many bytes.
    fn value_bytes(&self) -> impl Fn(u64, u64) -> u64 + use<> {
        let record_bytes = self.record_bytes;
        move |records, wire_bytes| match record_bytes {
            Some(each) => (records as f64 * each) as u64,
            None => wire_bytes,
        }
    }

    /// A fetch of a `Loop` is a thing with a latency of its own; gives the records that count.
    fn count_fetch(&self, sent: u64, now: u64, counted: &Counted) -> u64 {
        if self.kind == Kind::Back {
            return 0;
        }
        let core = &self.core;
        let live = &core.live;
        let bytes = self.value_bytes()(counted.records, counted.wire_bytes);
        live.read_records
            .fetch_add(counted.records, Ordering::Relaxed);
        live.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        let (window, recorder) = match &self.kind {
            Kind::Loop { window, .. } => (*window, &core.consumed),
            Kind::Cold { window, .. } => (*window, &core.cold),
            Kind::Follow | Kind::Back => return 0,
        };
        live.slowest
            .fetch_max(now.saturating_sub(sent), Ordering::Relaxed);
        if sent < window || counted.records == 0 {
            return 0;
        }
        recorder.borrow_mut().done(Done {
            intended: sent,
            sent,
            now,
            records: counted.records,
            bytes,
            wire_bytes: counted.wire_bytes,
        });
        counted.records
    }
}

/// For so long nothing may come before what is missing counts as lost.
const END_NS: u64 = 1_000_000_000;

/// What one fetch has brought.
#[derive(Default)]
struct Counted {
    records: u64,
    wire_bytes: u64,
}

impl Counted {
    fn add(&mut self, seen: &Seen) {
        self.records += seen.records;
        self.wire_bytes += seen.wire_bytes;
    }
}

/// What was found, and how many batches were not checked. What is missing at the end is a fault, unless retention may have taken it.
pub fn count_lost(core: &Core) -> (Checks, u64) {
    let mut checks = *core.checks.borrow();
    let ledger = core.ledger.borrow();
    match core.expired.get() {
        true => (checks, ledger.forgotten + ledger.unread()),
        false => {
            checks.lost += ledger.unread();
            (checks, ledger.forgotten)
        }
    }
}
