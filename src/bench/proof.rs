//! The harness measured by itself: against a server with a known delay and known stalls it must report these.
//! Tests only.
//! Always: what is asserted is a bound from below, or a count of batches; a slow machine makes no number smaller.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::load::{Load, Rate};
use super::payload::Templates;
use super::phase::{Outcome, Phase, Reading};
use super::plan::plan;
use super::runner::{self, Show, View};
use super::search::{Patience, highest_rate};
use super::sink::{Behaviour, Sink};
use crate::base::Uuid;
use crate::client::metadata::Topic;
use crate::io::executor;

const MS: u64 = 1_000_000;

fn phase(sink: &Sink, load: Load, seconds: f64, reading: Reading) -> Phase {
    let topic = Topic {
        name: "proof".to_owned(),
        id: Uuid([7; 16]),
        leaders: vec![sink.address()],
    };
    let consumers = usize::from(reading != Reading::Nothing);
    let templates = Templates::build(&load, 1).expect("a payload");
    Phase {
        plans: plan(&topic, &[1.0], load.producers, consumers, 1).expect("a plan"),
        topic,
        foreign: false,
        templates: Arc::new(templates),
        cores: vec![executor::available_cores()[0]],
        rate: (reading == Reading::Nothing).then_some(load.rate),
        reading,
        cold: Vec::new(),
        warmup: Duration::ZERO,
        duration: Some(Duration::from_secs_f64(seconds)),
        records: None,
        load: Arc::new(load),
    }
}

fn run(behaviour: Behaviour, load: Load, seconds: f64, reading: Reading) -> Outcome {
    let sink = Sink::start(None, behaviour).expect("a server");
    let phase = phase(&sink, load, seconds, reading);
    let outcome = runner::run(&phase, View::BLIND).expect("a result").outcome;
    assert_eq!(outcome.failure, None);
    outcome
}

fn load(rate: Rate, in_flight: usize) -> Load {
    Load {
        rate,
        in_flight,
        record_bytes: 100,
        batch_records: 1,
        ..Load::default()
    }
}

fn share_above(histogram: &Histogram<u64>, nanos: u64) -> f64 {
    let below = histogram.count_between(0, nanos - 1);
    (histogram.len() - below) as f64 / histogram.len() as f64
}

#[test]
fn a_known_delay_is_reported_as_that_delay() {
    let delay = Behaviour {
        delay: Duration::from_millis(50),
        ..Behaviour::default()
    };
    let outcome = run(
        delay,
        load(Rate::Fixed(200.0), 1_000),
        1.5,
        Reading::Nothing,
    );
    let (intended, sent) = (&outcome.produced.intended, &outcome.produced.sent);
    assert_eq!(intended.len(), 300);
    for histogram in [intended, sent] {
        // hdrhistogram rounds down to three digits.
        assert!(histogram.min() >= 49 * MS, "{}", histogram.min());
        let p50 = histogram.value_at_quantile(0.5);
        assert!(p50 < 100 * MS, "{p50}");
    }
}

/// Of every 400 ms the server answers nothing for 200: half of all batches are due in a stall, half of these wait for 100 ms and more.
fn stalls() -> Behaviour {
    Behaviour {
        stall: Some((Duration::from_millis(400), Duration::from_millis(200))),
        ..Behaviour::default()
    }
}

#[test]
fn stalls_show_in_latencies_from_the_intended_time() {
    let open = run(stalls(), load(Rate::Fixed(500.0), 1), 2.0, Reading::Nothing);
    let produced = &open.produced;
    assert_eq!(produced.batches + open.left.unsent, 1_000);
    let (intended, sent) = (
        share_above(&produced.intended, 100 * MS),
        share_above(&produced.sent, 100 * MS),
    );
    assert!(intended > 0.2, "open loop: {intended} of all waited 100 ms");
    // A batch every 2 ms: one of them is due in the first 2 ms of a stall.
    assert!(produced.intended.max() >= 197 * MS);
    // One batch a stall is under way: what a clock that starts at the send would have seen.
    assert!(sent < intended / 4.0, "{sent} of {intended}");
}

#[test]
fn a_closed_loop_omits_what_it_did_not_send() {
    let closed = run(stalls(), load(Rate::Flood, 1), 2.0, Reading::Nothing);
    let share = share_above(&closed.produced.intended, 100 * MS);
    assert!(
        share < 0.05,
        "a closed loop must not see the stalls, or the open loop proves nothing: {share}"
    );
}

#[test]
fn a_rate_beyond_the_server_leaves_batches_unsent() {
    let slow = Behaviour {
        delay: Duration::from_millis(20),
        ..Behaviour::default()
    };
    // One in flight and 20 ms each: at most 50 a second.
    let outcome = run(slow, load(Rate::Fixed(200.0), 1), 1.0, Reading::Nothing);
    assert_eq!(outcome.produced.batches + outcome.left.unsent, 200);
    assert!(
        outcome.produced.batches <= 51,
        "{}",
        outcome.produced.batches
    );
}

#[test]
fn reading_again_and_again_is_verified_each_time() {
    let load = load(Rate::Flood, 1);
    let templates = Templates::build(&load, 1).expect("a payload");
    let (records, end_offset) = templates.canned(10_000);
    let behaviour = |records| Behaviour {
        records,
        end_offset,
        ..Behaviour::default()
    };
    let reading = || Reading::Loop(vec![(0, end_offset)]);
    let good = run(behaviour(records.clone()), load.clone(), 0.3, reading());
    assert!(good.checks.records > end_offset as u64, "{:?}", good.checks);
    assert_eq!(good.checks.faults(), 0);
    let mut damaged = records.to_vec();
    *damaged.last_mut().expect("bytes") ^= 1;
    let bad = run(behaviour(damaged.into()), load, 0.3, reading());
    assert!(bad.checks.damaged > 0);
    assert_eq!(bad.checks.faults(), bad.checks.damaged);
}

#[test]
fn the_highest_rate_is_found_and_not_overstated() {
    let slow = Behaviour {
        delay: Duration::from_millis(20),
        ..Behaviour::default()
    };
    let sink = Sink::start(None, slow).expect("a server");
    let phase = phase(&sink, load(Rate::Max, 1), 1.0, Reading::Nothing);
    let patience = Patience {
        flood: Duration::from_millis(500),
        trial: Duration::from_secs(1),
        warmup: Duration::ZERO,
    };
    let rate = highest_rate(&phase, patience, Show::Nothing).expect("a rate");
    // One in flight and 20 ms each: at most 50 a second, whatever the machine does.
    assert!(rate > 0.0 && rate <= 50.0 * 1.05, "{rate}");
}

#[test]
fn a_fetch_that_is_never_answered_makes_the_result_partial() {
    let load = Load {
        drain_seconds: 0.2,
        ..load(Rate::Flood, 1)
    };
    let templates = Templates::build(&load, 1).expect("a payload");
    let (records, end_offset) = templates.canned(10_000);
    let behaviour = Behaviour {
        // It answers for a second, and then no more.
        stall: Some((Duration::from_secs(100), Duration::from_secs(99))),
        records,
        end_offset,
        ..Behaviour::default()
    };
    let sink = Sink::start(None, behaviour).expect("a server");
    let phase = phase(&sink, load, 2.0, Reading::Loop(vec![(0, end_offset)]));
    let outcome = runner::run(&phase, View::BLIND).expect("a result").outcome;
    let failure = outcome.failure.expect("it is partial");
    assert!(failure.contains("a fetch was not answered"), "{failure}");
}

#[test]
fn the_server_in_this_process_is_not_counted_as_load() {
    let sink = Sink::start(None, Behaviour::default()).expect("a server");
    let phase = phase(&sink, load(Rate::Flood, 64), 1.0, Reading::Nothing);
    let view = View {
        broker: sink.watched(),
        ..View::BLIND
    };
    let measured = runner::run(&phase, view).expect("a result");
    // One load core; ticks are of 10 ms.
    assert!(measured.load_busy < 1.1, "{}", measured.load_busy);
}
