//! Runs a phase to its end while people watch: progress line, CPU time of both sides.
//! On the first thread.
//! Always: CPU is taken over the time in which records are counted, and set against the records of that very time.
//! What the numbers become is `result`'s.

use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::phase::{Outcome, Phase, Reading, Running};
use super::process::{self, Watched};
use super::result::BrokerCpu;
use super::syscalls::SyscallCount;
use super::text;
use crate::io::clock;

/// What a phase has brought.
pub struct Measured {
    pub outcome: Outcome,
    pub broker_cpu: Option<BrokerCpu>,
    pub load_busy: f64,
}

/// How a phase is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    Nothing,
    Progress,
}

/// What is watched while a phase runs.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub broker: Option<Watched>,
    pub show: Show,
    /// Count the broker's system calls, which costs it a little.
    pub syscalls: bool,
}

impl View {
    /// Nothing but the counts of the load side.
    pub const BLIND: View = View {
        broker: None,
        show: Show::Nothing,
        syscalls: false,
    };
}

const POLL: Duration = Duration::from_millis(10);
/// Between two lines where they stay: not on a terminal.
const LINES_EVERY: u64 = 5;

struct Sample {
    at: Instant,
    broker: Option<f64>,
    own: f64,
    records: u64,
    bytes: u64,
}

/// Runs it; an error is one that left nothing to report.
pub fn run(phase: &Phase, view: View) -> Result<Measured, String> {
    let View { broker, show, .. } = view;
    let connections = match phase.rate {
        Some(_) => phase
            .plans
            .iter()
            .map(|p| p.lanes.len() + p.readers.len())
            .sum(),
        None => phase.plans.iter().map(|p| p.readers.len()).sum(),
    };
    let running = phase.start()?;
    while !running.ready() {
        std::thread::sleep(POLL);
    }
    let begin = running.go();
    let window = begin + phase.warmup.as_nanos() as u64;
    let mut progress = Progress::new(show);
    let mut first = None;
    let mut last = None;
    let mut syscalls = None;
    while !running.finished() {
        std::thread::sleep(POLL);
        if first.is_none() && clock::mono().0 >= window {
            first = Some(sample(&running, broker));
            let counted = broker.filter(|_| view.syscalls);
            syscalls = counted.and_then(|broker| SyscallCount::start(broker.pid));
        }
        if last.is_none() && first.is_some() && running.measured() {
            last = Some(sample(&running, broker));
            syscalls = syscalls.map(SyscallCount::stopped);
            progress.end();
        }
        match last {
            None => progress.show(&running, window),
            Some(_) => progress.show_reading_back(&phase.reading),
        }
    }
    progress.end();
    if last.is_none() && first.is_some() {
        last = Some(sample(&running, broker));
    }
    let outcome = running.join(connections)?;
    let (broker_cpu, load_busy) = match (first, last) {
        (Some(first), Some(last)) => {
            let syscalls = syscalls.and_then(SyscallCount::count);
            let wall = last.at.duration_since(first.at).as_secs_f64().max(1e-3);
            let busy = (last.own - first.own - beside(broker, &first, &last)) / wall;
            let busy = busy / phase.plans.len().max(1) as f64;
            (broker.and_then(|b| used(b, &first, &last, syscalls)), busy)
        }
        _ => (None, 0.0),
    };
    Ok(Measured {
        outcome,
        broker_cpu,
        load_busy,
    })
}

fn sample(running: &Running, broker: Option<Watched>) -> Sample {
    let live = &running.live;
    Sample {
        at: Instant::now(),
        broker: broker.and_then(Watched::cpu_seconds),
        own: process::own_cpu_seconds(),
        records: live.records.load(Ordering::Relaxed) + live.read_records.load(Ordering::Relaxed),
        bytes: live.bytes.load(Ordering::Relaxed) + live.read_bytes.load(Ordering::Relaxed),
    }
}

/// CPU time of this process that is the server's, where that is a thread of it.
fn beside(broker: Option<Watched>, first: &Sample, last: &Sample) -> f64 {
    let server = broker.filter(|broker| broker.pid == std::process::id());
    let used = server.and_then(|_| Some(last.broker? - first.broker?));
    used.unwrap_or(0.0)
}

/// Records and bytes count each time they pass the broker: in and out.
fn used(
    broker: Watched,
    first: &Sample,
    last: &Sample,
    syscalls: Option<u64>,
) -> Option<BrokerCpu> {
    let cpu_seconds = last.broker? - first.broker?;
    let records = (last.records - first.records) as f64;
    let bytes = (last.bytes - first.bytes) as f64;
    (records > 0.0).then(|| BrokerCpu {
        pid: broker.pid,
        cpu_seconds,
        wall_seconds: last.at.duration_since(first.at).as_secs_f64(),
        per_gb: cpu_seconds / (bytes / 1e9),
        per_million_records: cpu_seconds / (records / 1e6),
        syscalls_per_record: syscalls.map(|count| count as f64 / records),
    })
}

/// Records sent, bytes both ways, records read.
fn counts(running: &Running) -> (u64, u64, u64) {
    let live = &running.live;
    (
        live.records.load(Ordering::Relaxed),
        live.bytes.load(Ordering::Relaxed) + live.read_bytes.load(Ordering::Relaxed),
        live.read_records.load(Ordering::Relaxed),
    )
}

/// One line that is written over, or a line now and then where it can't be.
struct Progress {
    show: Show,
    terminal: bool,
    next: u64,
    shown: u64,
    before: (u64, u64, u64),
}

impl Progress {
    fn new(show: Show) -> Progress {
        Progress {
            show,
            terminal: std::io::stderr().is_terminal(),
            next: 1,
            shown: 0,
            before: (0, 0, 0),
        }
    }

    fn show(&mut self, running: &Running, window: u64) {
        let now = clock::mono().0;
        if self.show == Show::Nothing || now < window {
            // What was sent before the window is not of its first second.
            self.before = counts(running);
            return;
        }
        let seconds = (now - window) / 1_000_000_000;
        if seconds < self.next {
            return;
        }
        let every = if self.terminal { 1 } else { LINES_EVERY };
        let passed = (now - self.shown.max(window)) as f64 / 1e9;
        (self.next, self.shown) = (seconds + every, now);
        let live = &running.live;
        let counts = counts(running);
        let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / passed;
        let slowest = live.slowest.swap(0, Ordering::Relaxed);
        let line = format!(
            "{seconds:>5} s  {:>11} sent/s  {:>11} read/s  {:>8.1} MB/s  slowest {:>9}  in flight {:>5}  errors {}",
            text::count(per_s(counts.0, self.before.0)),
            text::count(per_s(counts.2, self.before.2)),
            per_s(counts.1, self.before.1) / 1e6,
            text::duration(slowest),
            live.in_flight.load(Ordering::Relaxed),
            live.errors.load(Ordering::Relaxed),
        );
        self.before = counts;
        let mut stderr = std::io::stderr();
        // Nobody may be there to see it.
        let _ = match self.terminal {
            true => write!(stderr, "\r{line}\x1b[K"),
            false => writeln!(stderr, "{line}"),
        };
    }

    /// Once, when the clock has stopped and it goes on all the same.
    fn show_reading_back(&mut self, reading: &Reading) {
        if self.show == Show::Progress && matches!(reading, Reading::Back(_)) {
            self.show = Show::Nothing;
            eprintln!("the clock has stopped; reading back what was sent");
        }
    }

    fn end(&self) {
        if self.terminal && self.show == Show::Progress {
            eprint!("\r\x1b[K");
        }
    }
}
