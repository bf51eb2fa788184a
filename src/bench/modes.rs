//! `produce`, `consume` and `e2e`: one topic, one load, one result.
//! On the first thread.
//! Always: what can be refused is refused before the broker is touched; the topic is cleaned up however the run ends.
//! The other modes are made of these and in files of their own.

use std::sync::Arc;
use std::time::Duration;

use super::load::{Acks, Load, Rate};
use super::payload::Templates;
use super::phase::{Outcome, Phase, Reading};
use super::plan;
use super::result::{Flow, RunResult};
use super::runner::{self, Measured, Show, View};
use super::search;
use super::sink::{Behaviour, Sink};
use super::target::{Prepared, Target};

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

/// A load against the sink, to know the limit of the load side.
const LIMIT: Duration = Duration::from_millis(1_000);
const LIMIT_IN_FLIGHT: usize = 64;
const LIMIT_IN_FLIGHT_BYTES: usize = 8 << 20;
const LIMIT_WARMUP: Duration = Duration::from_millis(300);
/// From this share of its own maximum on, a result is marked.
const LIMIT_NEAR: f64 = 0.8;
/// A load core this busy is the limit, whatever it reached elsewhere.
const LIMIT_BUSY: f64 = 0.9;
/// What `consume` fills a topic with, unless told otherwise.
const FILL_BYTES: u64 = 1 << 30;

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Mode::Produce => "produce",
            Mode::Consume => "consume",
            Mode::EndToEnd => "e2e",
        }
    }
}

/// Runs one load.
pub fn run(mode: Mode, target: &Target, load: &Load, extras: Extras) -> Result<RunResult, String> {
    check(mode, load)?;
    // For refusals and the size of batches; made again when the topic has other partitions.
    let templates = Templates::build(load, load.partitions.max(1) as usize)?;
    let must_exist = mode == Mode::Consume && load.topic.is_some();
    let prepared = target.prepare(load, templates.batch_bytes_max(), must_exist)?;
    let result = run_prepared(mode, target, load, &prepared, templates, extras);
    let left = target.clean_up(&prepared, load.keep_topic);
    let mut result = result?;
    if let Some(why) = left {
        result.notes.push(format!(
            "topic {} was left behind: {why}",
            prepared.topic.name
        ));
    }
    if load.keep_topic {
        result
            .notes
            .push(format!("topic {} was kept", prepared.topic.name));
    }
    Ok(result)
}

fn check(mode: Mode, load: &Load) -> Result<(), String> {
    if mode == Mode::EndToEnd && load.acks == Acks::None {
        return Err("e2e needs acks to know what must arrive; use --acks 1 or all".to_owned());
    }
    if load.rate == Rate::Max && load.acks == Acks::None {
        return Err(
            "--rate max needs acks to see a queue grow; use --acks 1 or all, or a fixed --rate"
                .to_owned(),
        );
    }
    Ok(())
}

fn run_prepared(
    mode: Mode,
    target: &Target,
    load: &Load,
    prepared: &Prepared,
    templates: Templates,
    extras: Extras,
) -> Result<RunResult, String> {
    let partitions = prepared.topic.partitions();
    let templates = match templates.shares.len() == partitions {
        true => templates,
        false => Templates::build(load, partitions)?,
    };
    let producers = match mode {
        Mode::Produce | Mode::EndToEnd => load.producers,
        Mode::Consume => load.producers.max(load.consumers),
    };
    let consumers = match mode {
        Mode::Produce => 0,
        Mode::Consume | Mode::EndToEnd => load.consumers,
    };
    let plans = plan::plan(
        &prepared.topic,
        &templates.shares,
        producers,
        consumers,
        target.load_cores.len(),
    )?;
    let mut phase = Phase {
        load: Arc::new(load.clone()),
        topic: prepared.topic.clone(),
        templates: Arc::new(templates),
        plans,
        cores: target.load_cores.clone(),
        rate: None,
        reading: Reading::Nothing,
        warmup: Duration::from_secs_f64(load.warmup_seconds),
        duration: load.duration_seconds.map(Duration::from_secs_f64),
        records: load.records,
    };
    let mut load = load.clone();
    match mode {
        Mode::Produce | Mode::EndToEnd => {
            if load.rate == Rate::Max {
                load.rate = Rate::Fixed(search::highest_rate(&phase, extras.show)?);
            }
            phase.rate = Some(load.rate);
            // The search has written, too.
            let first = target.bounds(&prepared.topic)?;
            let first: Vec<i64> = first.iter().map(|bounds| bounds.1).collect();
            phase.reading = match mode {
                Mode::EndToEnd => Reading::Follow(first),
                _ if load.verify && load.acks != Acks::None => Reading::Back(first),
                _ => Reading::Nothing,
            };
        }
        Mode::Consume => {
            phase.reading = Reading::Loop(fill(target, &phase, prepared, &mut load)?);
        }
    }
    let limit = match extras.limit {
        true => Some(own_limit(mode, target, &phase)?),
        false => None,
    };
    let view = View {
        broker: target.watched,
        show: extras.show,
        syscalls: extras.syscalls,
    };
    let measured = runner::run(&phase, view)?;
    Ok(result(
        mode,
        target,
        &load,
        prepared,
        measured,
        (limit, extras.syscalls),
    ))
}

/// Puts records into a topic that has none; gives its bounds.
fn fill(
    target: &Target,
    phase: &Phase,
    prepared: &Prepared,
    load: &mut Load,
) -> Result<Vec<(i64, i64)>, String> {
    let empty = prepared.bounds.iter().all(|(first, end)| first == end);
    if !empty {
        return Ok(prepared.bounds.clone());
    }
    if !prepared.made {
        return Err(format!(
            "topic {} is empty; fill it with `ringlog bench produce --topic {} --keep-topic`, or leave --topic out",
            prepared.topic.name, prepared.topic.name
        ));
    }
    let (_, record_bytes) = phase.templates.means();
    let wanted = (FILL_BYTES as f64 / record_bytes.max(1.0)) as u64;
    let filling = Phase {
        rate: Some(Rate::Flood),
        reading: Reading::Nothing,
        warmup: Duration::ZERO,
        duration: None,
        records: Some(load.records.unwrap_or(wanted).min(wanted).max(1)),
        ..phase.clone()
    };
    let filled = runner::run(&filling, View::BLIND)?.outcome;
    match filled.failure {
        Some(why) => Err(format!("the topic could not be filled: {why}")),
        None => target.bounds(&prepared.topic),
    }
}

/// What this load side reaches against a server that drops everything, on the broker's core.
fn own_limit(mode: Mode, target: &Target, phase: &Phase) -> Result<Limit, String> {
    let core = target.broker_cores.as_ref().and_then(|cores| cores.first());
    let other = crate::io::executor::available_cores()
        .into_iter()
        .find(|core| !target.load_cores.contains(core));
    let consume = mode == Mode::Consume;
    let (records, end_offset) = match consume {
        true => phase.templates.canned(phase.load.fetch_bytes),
        false => (bytes::Bytes::new(), 0),
    };
    let sink = Sink::start(
        core.copied().or(other),
        Behaviour {
            records,
            end_offset,
            ..Behaviour::default()
        },
    )?;
    let mut topic = phase.topic.clone();
    topic.leaders.fill(sink.address());
    let mut plans = phase.plans.clone();
    for plan in &mut plans {
        plan.lanes
            .iter_mut()
            .for_each(|lane| lane.address = sink.address());
        plan.readers
            .iter_mut()
            .for_each(|reader| reader.address = sink.address());
    }
    // What is in flight must not be the limit.
    let batch_bytes = phase.templates.batch_bytes_max().max(1);
    let more = phase
        .load
        .in_flight
        .max((LIMIT_IN_FLIGHT_BYTES / batch_bytes).min(LIMIT_IN_FLIGHT));
    let limited = Phase {
        load: Arc::new(Load {
            in_flight: more,
            ..(*phase.load).clone()
        }),
        topic,
        plans,
        rate: (!consume).then_some(Rate::Flood),
        reading: match consume {
            true => Reading::Loop(vec![(0, end_offset); phase.topic.partitions()]),
            false => Reading::Nothing,
        },
        warmup: LIMIT_WARMUP,
        duration: Some(LIMIT),
        records: None,
        ..phase.clone()
    };
    let Measured {
        outcome, load_busy, ..
    } = runner::run(&limited, View::BLIND)?;
    if let Some(why) = outcome.failure {
        return Err(format!(
            "the limit of the load side can't be measured: {why}"
        ));
    }
    let flow = if consume {
        outcome.consumed
    } else {
        outcome.produced
    };
    Ok(Limit {
        records_s: flow.records as f64 / flow.elapsed_seconds().max(1e-3),
        busy: load_busy,
    })
}

/// What the load side reaches against the sink, and how busy it is then.
#[derive(Clone, Copy, Debug)]
struct Limit {
    records_s: f64,
    busy: f64,
}

fn result(
    mode: Mode,
    target: &Target,
    load: &Load,
    prepared: &Prepared,
    measured: Measured,
    (limit, syscalls): (Option<Limit>, bool),
) -> RunResult {
    let outcome = &measured.outcome;
    let environment = target.environment(prepared, load);
    let mut result = RunResult::of(mode.word(), load, outcome, environment);
    let closed = load.rate == Rate::Flood;
    let produced = |meaning: &str| Flow::of(&outcome.produced, meaning, !closed);
    match mode {
        Mode::Produce => {
            result.produce = Some(produced(produce_meaning(load)));
        }
        Mode::EndToEnd => {
            result.produce = Some(produced(produce_meaning(load)));
            let meaning = "read: end to end, intended to read";
            result.consume = Some(Flow::of(&outcome.consumed, meaning, false));
        }
        Mode::Consume => {
            let meaning = "read: of a fetch (closed loop)";
            result.consume = Some(Flow::of(&outcome.consumed, meaning, false));
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
    result.title = title(mode, load, prepared, mean_bytes(outcome, load));
    result.notes = target.notes();
    if result.partial.is_some()
        && let Some(complaint) = target.complaint()
    {
        result.notes.push(format!("the broker's log: {complaint}"));
    }
    let counted = measured
        .broker_cpu
        .as_ref()
        .and_then(|cpu| cpu.syscalls_per_record);
    if syscalls && counted.is_none() {
        result.notes.push("system calls were not counted: perf is not there, may not look, or the broker is not on this machine".to_owned());
    }
    result.broker_cpu = measured.broker_cpu;
    result.load_busy = Some(measured.load_busy);
    result.load_max_records_s = limit.map(|limit| limit.records_s);
    result.load_max_busy = limit.map(|limit| limit.busy);
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
        (Acks::None, _) => "sent: until it left (acks=0, nothing answers)",
        (_, Rate::Flood) => "produced: send to ack (closed loop)",
        _ => "produced: intended to ack",
    }
}

fn title(mode: Mode, load: &Load, prepared: &Prepared, record_bytes: f64) -> String {
    let verified = if load.verify { "" } else { ", NOT VERIFIED" };
    let flush = match prepared.configs.get("flush.messages").map(String::as_str) {
        None => "durability unknown",
        Some("1") => "durable",
        Some(_) => "not durable",
    };
    let rate = match mode {
        Mode::Consume => "closed loop".to_owned(),
        Mode::Produce | Mode::EndToEnd => load.rate.to_string(),
    };
    format!(
        "{}: {:.0} B x {} a batch, {} partitions, {} producers, {} consumers, acks={} ({flush}), {}, {rate}{verified}",
        mode.word(),
        record_bytes,
        load.batch_records,
        prepared.topic.partitions(),
        load.producers,
        load.consumers,
        load.acks,
        load.codec,
    )
}
