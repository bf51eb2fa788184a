//! What the load side reaches by itself: the same load against a server that drops everything.
//! On the first thread, before the measured run.
//! Always: nothing but the broker is replaced: connections, batches and cores are those of the run.
//! What is made of it is `modes`'s.

use std::sync::Arc;
use std::time::Duration;

use super::load::{Load, Rate};
use super::phase::{Phase, Reading};
use super::runner::{self, Measured, View};
use super::sink::{Behaviour, Sink};
use super::target::Target;

const LIMIT: Duration = Duration::from_millis(1_000);
const WARMUP: Duration = Duration::from_millis(300);
/// In flight, so that waiting for answers is not the limit.
const IN_FLIGHT: usize = 64;
/// What each fetch brings: one piece of an arena.
const CANNED_BYTES: usize = 1 << 20;
/// More than a cache holds, as the records of a broker are.
const SPREAD_BYTES: usize = 256 << 20;
const IN_FLIGHT_BYTES: usize = 8 << 20;

/// What the load side reaches against the sink, and how busy it is then.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub records_s: f64,
    pub busy: f64,
    /// CPU-seconds of that server per GB: what moving the bytes costs by itself.
    pub bare_cpu_per_gb: Option<f64>,
}

/// What this load side reaches against a server that drops everything, on the broker's core.
pub fn measure(target: &Target, phase: &Phase) -> Result<Limit, String> {
    let core = target.broker_cores.as_ref().and_then(|cores| cores.first());
    let other = crate::io::executor::available_cores()
        .into_iter()
        .find(|core| !target.load_cores.contains(core));
    let consume = phase.rate.is_none();
    let (records, end_offset) = match consume {
        true => phase
            .templates
            .canned(phase.load.fetch_bytes.min(CANNED_BYTES)),
        false => (bytes::Bytes::new(), 0),
    };
    let sink = Sink::start(
        core.copied().or(other),
        Behaviour {
            records,
            end_offset,
            spread_bytes: SPREAD_BYTES,
            ..Behaviour::default()
        },
    )?;
    let mut topic = phase.topic.clone();
    topic.leaders.fill(sink.address());
    let mut plans = phase.plans.clone();
    for plan in &mut plans {
        plan.cold.clear();
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
        .max((IN_FLIGHT_BYTES / batch_bytes).min(IN_FLIGHT));
    let limited = Phase {
        load: Arc::new(Load {
            in_flight: more,
            ..(*phase.load).clone()
        }),
        topic,
        plans,
        rate: (!consume).then_some(Rate::Flood),
        cold: Vec::new(),
        reading: match consume {
            true => Reading::Loop(vec![(0, end_offset); phase.topic.partitions()]),
            false => Reading::Nothing,
        },
        warmup: WARMUP,
        duration: Some(LIMIT),
        records: None,
        ..phase.clone()
    };
    let view = View {
        broker: sink.watched(),
        ..View::BLIND
    };
    let Measured {
        outcome,
        load_busy,
        broker_cpu,
    } = runner::run(&limited, view)?;
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
        bare_cpu_per_gb: broker_cpu.map(|cpu| cpu.per_gb),
    })
}
