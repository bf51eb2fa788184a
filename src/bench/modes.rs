//! `produce`, `consume` and `e2e`: one topic, one load, one result.
//! On the first thread.
//! Always: what can be refused is refused before the broker is touched; the topic is cleaned up however the run ends.
//! The other modes are made of these and in files of their own.

use super::limit::{self, Limit};
use super::load::{Acks, Load, Rate};
use super::phase::{Outcome, Reading};
use super::result::{Flow, RunResult};
use super::runner::{self, Measured, Show, View};
use super::setup::Setup;
use super::target::{self, Prepared, Target};
use super::text;

/// What a simple run does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Produce,
    Consume,
    EndToEnd,
}

/// What is not part of the load.
#[derive(Clone, Copy, Debug)]
pub struct Extras {
    pub show: Show,
    /// Measure the load side's own maximum.
    pub limit: bool,
    /// Count the broker's system calls.
    pub syscalls: bool,
}

/// From this share of its own maximum on, a result is marked.
const LIMIT_NEAR: f64 = 0.8;
/// A load core this busy is the limit, whatever it reached elsewhere.
const LIMIT_BUSY: f64 = 0.9;

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Mode::Produce => "produce",
            Mode::Consume => "consume",
            Mode::EndToEnd => "e2e",
        }
    }

    /// Whether what this load reads is checked: of what nobody acknowledges nothing is read back.
    pub fn verifies(self, load: &Load) -> bool {
        load.verify && (self == Mode::Consume || load.acks != Acks::None)
    }
}

/// Runs one load.
pub fn run(mode: Mode, target: &Target, load: &Load, extras: Extras) -> Result<RunResult, String> {
    let mut setup = Setup::new(mode, target, load)?;
    let mut result = measure(mode, target, &mut setup, extras);
    setup.clean_up(target, result.as_mut().ok());
    result
}

fn measure(
    mode: Mode,
    target: &Target,
    setup: &mut Setup,
    extras: Extras,
) -> Result<RunResult, String> {
    match mode {
        Mode::Produce | Mode::EndToEnd => {
            setup.settle_rate(extras.show)?;
            // The search has written, too.
            let first = setup.ends(target)?;
            setup.phase.reading = match mode {
                Mode::EndToEnd => Reading::Follow(first),
                _ if mode.verifies(&setup.load) => Reading::Back(first),
                _ => Reading::Nothing,
            };
        }
        Mode::Consume => setup.phase.reading = Reading::Loop(setup.filled(target, extras.show)?),
    }
    let limit = match extras.limit {
        true => Some(limit::measure(target, &setup.phase)?),
        false => None,
    };
    let measured = runner::run(&setup.phase, extras.view(target))?;
    Ok(result(mode, target, setup, measured, limit, extras))
}

impl Extras {
    pub fn view(&self, target: &Target) -> View {
        View {
            broker: target.watched,
            show: self.show,
            syscalls: self.syscalls,
        }
    }
}

/// What a measured run says, with everything around it.
pub fn result(
    mode: Mode,
    target: &Target,
    setup: &Setup,
    measured: Measured,
    limit: Option<Limit>,
    extras: Extras,
) -> RunResult {
    let (load, prepared) = (&setup.load, &setup.prepared);
    let outcome = &measured.outcome;
    let environment = target.environment(prepared, load, setup.phase.plans.len());
    let mut result = RunResult::of(mode, load, outcome, environment);
    let closed = load.rate == Rate::Flood;
    // At a given rate the next batch was due later than the last answer came.
    let due = match (load.rate, load.duration_seconds, &outcome.failure) {
        (Rate::Fixed(_), Some(seconds), None) => seconds,
        _ => 0.0,
    };
    let produced = |meaning: &str| Flow::of(&outcome.produced, meaning, !closed, due);
    match mode {
        Mode::Produce => {
            result.produce = Some(produced(produce_meaning(load)));
        }
        Mode::EndToEnd => {
            result.produce = Some(produced(produce_meaning(load)));
            let meaning = "read: end to end, intended to read";
            result.consume = Some(Flow::of(&outcome.consumed, meaning, false, due));
        }
        Mode::Consume => {
            let meaning = "read: of a fetch (closed loop)";
            result.consume = Some(Flow::of(&outcome.consumed, meaning, false, 0.0));
        }
    }
    result.recorders = [
        ("produce", &outcome.produced),
        ("consume", &outcome.consumed),
    ]
    .into_iter()
    .filter(|(_, recorder)| recorder.batches > 0)
    .map(|(direction, recorder)| (direction, recorder.clone()))
    .collect();
    let cut = outcome.failure.is_some() && outcome.checks.records == 0;
    result.verification.on &= !cut;
    let verified = result.verification.on;
    result.title = title(mode, load, prepared, mean_bytes(outcome, load), verified);
    result.notes = target.notes();
    if mode == Mode::Consume && !prepared.made {
        result.notes.push(
            "records of another's making: bytes are those of their batches, with headers and as they are compressed".to_owned(),
        );
    }
    if setup.rate_was_searched {
        result.notes.push(format!(
            "the rate, {}, is the highest that kept up (--rate max)",
            load.rate
        ));
    }
    let there = prepared.topic.partitions();
    if !prepared.made
        && load.partitions != Load::default().partitions
        && load.partitions as usize != there
    {
        result.notes.push(format!(
            "topic {} was there and has {}; --partitions {} is for a topic that is made",
            prepared.topic.name,
            text::things(there, "partition"),
            load.partitions
        ));
    }
    if let Reading::Loop(bounds) = &setup.phase.reading {
        let there: i64 = bounds.iter().map(|(first, end)| end - first).sum();
        result.notes.push(format!(
            "{} records were there, and were read again and again",
            text::count(there as f64)
        ));
    }
    if result.partial.is_some()
        && let Some(complaint) = target.complaint()
    {
        result.notes.push(format!("the broker's log: {complaint}"));
    }
    let counted = measured
        .broker_cpu
        .as_ref()
        .and_then(|cpu| cpu.syscalls_per_record);
    if extras.syscalls && counted.is_none() {
        result.notes.push("system calls were not counted: perf is not there, may not look, or the broker is not on this machine".to_owned());
    }
    result.broker_cpu = measured.broker_cpu;
    result.load_busy = Some(measured.load_busy);
    result.load_max_records_s = limit.map(|limit| limit.records_s);
    result.load_max_busy = limit.map(|limit| limit.busy);
    result.bare_cpu_per_gb = limit.and_then(|limit| limit.bare_cpu_per_gb);
    if closed && mode != Mode::Consume {
        result.notes.push(
            "a flood is a closed loop: its rate is the maximum, its latencies say nothing about a given rate".to_owned(),
        );
    }
    let reached = match mode {
        Mode::Consume => result.consume.as_ref(),
        Mode::Produce | Mode::EndToEnd => result.produce.as_ref(),
    };
    let reached = reached.map_or(0.0, |flow| flow.records_per_s);
    let near_limit = limit
        .is_some_and(|limit| limit.busy > LIMIT_NEAR && reached > LIMIT_NEAR * limit.records_s);
    if near_limit || measured.load_busy > LIMIT_BUSY {
        result.notes.push(format!(
            "LIMITED BY THE LOAD SIDE: its cores are {:.0} % busy; use more --cores or another machine for the load",
            measured.load_busy * 100.0
        ));
    }
    result
}

/// Of a record's value and key; that of a file is known when it was read.
fn mean_bytes(outcome: &Outcome, load: &Load) -> f64 {
    let records = outcome.produced.records + outcome.consumed.records;
    let bytes = outcome.produced.bytes + outcome.consumed.bytes;
    match records {
        0 => load.record_bytes as f64,
        _ => bytes as f64 / records as f64,
    }
}

fn produce_meaning(load: &Load) -> &'static str {
    match (load.acks, load.rate) {
        (Acks::None, _) => "sent: until it left (acks=0)",
        (_, Rate::Flood) => "produced: send to ack (closed loop)",
        _ => "produced: intended to ack",
    }
}

fn title(
    mode: Mode,
    load: &Load,
    prepared: &Prepared,
    record_bytes: f64,
    verified: bool,
) -> String {
    let verified = match verified {
        true => "",
        false => ", NOT VERIFIED",
    };
    let batch = match mode {
        Mode::Consume if !prepared.made => String::new(),
        _ => format!(" x {} a batch", load.batch_records),
    };
    let rate = match mode {
        Mode::Consume => "closed loop".to_owned(),
        Mode::Produce | Mode::EndToEnd => load.rate.to_string(),
    };
    let producers = text::things(load.producers, "producer");
    let consumers = text::things(load.consumers * load.copies, "consumer");
    let clients = match mode {
        Mode::Produce => producers,
        Mode::Consume => consumers,
        Mode::EndToEnd => format!("{producers}, {consumers}"),
    };
    format!(
        "{}: {:.0} B{batch}, {}, {clients}, acks={} ({}), {}, {rate}{verified}",
        mode.word(),
        record_bytes,
        text::things(prepared.topic.partitions(), "partition"),
        load.acks,
        match (mode, load.acks) {
            (Mode::Produce | Mode::EndToEnd, Acks::None) => "not acknowledged",
            _ => target::durable(&prepared.configs),
        },
        load.codec,
    )
}
