//! What a run has found, as it is kept and compared: numbers with everything that is needed to judge them.
//! Written by the modes, read back by `report`.
//! Always: a result that is partial says so; latencies come from merged histograms, in nanoseconds.
//! How it looks is `table`'s and `report`'s.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::load::{Load, Rate};
use super::modes::Mode;
use super::phase::Outcome;
use super::recorder::{Recorder, Second};
use super::verify::Checks;
use crate::client::error::code_name;

/// The version of this format.
pub const FORMAT: u32 = 1;

/// One measured run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    pub format: u32,
    pub mode: String,
    /// One line with what decides about the numbers.
    pub title: String,
    /// Why it is partial; `None`: complete.
    pub partial: Option<String>,
    /// What limits how far it can be trusted, a line each.
    pub notes: Vec<String>,
    pub load: Load,
    /// The rate that was run, if it was open loop.
    pub rate_records_s: Option<f64>,
    pub produce: Option<Flow>,
    /// Reading: fetches, or end to end.
    pub consume: Option<Flow>,
    pub in_flight_at_end_records: u64,
    pub unsent_records: u64,
    /// Acknowledged batches that consumers had not read when their time was over.
    #[serde(default)]
    pub unread_batches: u64,
    pub verification: Verification,
    /// Bytes of values and keys per byte on the wire.
    pub compression_ratio: f64,
    pub connections: usize,
    pub broker_cpu: Option<BrokerCpu>,
    /// Share of the time that the load cores were busy.
    pub load_busy: Option<f64>,
    /// Records per second that this load side reaches against a server that drops everything.
    pub load_max_records_s: Option<f64>,
    /// And how busy its cores are then; far below 1, it is that server that limits.
    pub load_max_busy: Option<f64>,
    /// CPU-seconds per GB of that server, which moves the bytes and does nothing else.
    pub bare_cpu_per_gb: Option<f64>,
    pub environment: Environment,
    /// Direction and counts, for histogram files.
    #[serde(skip)]
    pub recorders: Vec<(&'static str, Recorder)>,
}

/// One direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// What its latency is from and to.
    pub meaning: String,
    pub records: u64,
    /// Of values and keys.
    pub bytes: u64,
    pub wire_bytes: u64,
    pub batches: u64,
    /// From the begin of the window to the last batch, at a given rate to the end of the window if that is later.
    pub seconds: f64,
    pub records_per_s: f64,
    pub mb_per_s: f64,
    pub errors: BTreeMap<String, u64>,
    /// From the intended time.
    pub latency: Latency,
    /// From the real send: what a closed loop would call latency.
    pub latency_from_send: Option<Latency>,
    pub timeline: Vec<Moment>,
    /// The same by minutes, the last one as long as it was.
    #[serde(default)]
    pub minutes: Vec<Minute>,
}

/// Percentiles in nanoseconds, and the histogram they are of.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub p9999: u64,
    pub max: u64,
    /// Quantile and value, as far as the count goes.
    pub curve: Vec<(f64, u64)>,
    /// hdrhistogram V2, deflated, in base64.
    pub histogram: String,
}

/// One second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Moment {
    pub records: u64,
    pub bytes: u64,
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
    /// Mean lateness of the sends.
    pub lag: u64,
}

/// One minute, from the histograms of its seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Minute {
    pub records: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// What was checked, and what that took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verification {
    pub on: bool,
    pub checks: Checks,
    /// Acknowledged batches that retention took before they could be read, that were too many to remember, or not read in time.
    pub unchecked_batches: u64,
    /// CPU time of the load cores.
    pub cost_seconds: f64,
    /// After the clock had stopped.
    pub read_back_seconds: f64,
}

/// What the broker used while the load ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BrokerCpu {
    pub pid: u32,
    pub cpu_seconds: f64,
    pub wall_seconds: f64,
    pub per_gb: f64,
    pub per_million_records: f64,
    /// Of `perf`, where it is there and may look.
    pub syscalls_per_record: Option<f64>,
}

impl Flow {
    /// True if nothing was sent, read or refused.
    fn is_empty(&self) -> bool {
        self.records == 0 && self.errors.is_empty()
    }

    /// `at_least`: the seconds in which these batches were due.
    pub fn of(recorder: &Recorder, meaning: &str, from_send: bool, at_least: f64) -> Flow {
        let seconds = recorder.elapsed_seconds().max(at_least);
        let per_s = |count: u64| count as f64 / seconds.max(1e-9);
        let errors = recorder.errors.iter();
        Flow {
            meaning: meaning.to_owned(),
            records: recorder.records,
            bytes: recorder.bytes,
            wire_bytes: recorder.wire_bytes,
            batches: recorder.batches,
            seconds,
            records_per_s: per_s(recorder.records),
            mb_per_s: per_s(recorder.bytes) / 1e6,
            errors: errors.map(|(&code, &n)| (code_name(code), n)).collect(),
            latency: Latency::of(&recorder.intended),
            latency_from_send: from_send.then(|| Latency::of(&recorder.sent)),
            timeline: recorder.seconds.iter().map(Moment::of).collect(),
            minutes: recorder
                .seconds
                .chunks(SECONDS_OF_MINUTE)
                .map(Minute::of)
                .collect(),
        }
    }
}

impl Moment {
    fn of(second: &Second) -> Moment {
        Moment {
            records: second.records,
            bytes: second.bytes,
            p50: second.latency.value_at_quantile(0.5),
            p99: second.latency.value_at_quantile(0.99),
            max: second.latency.max(),
            lag: second.lag_ns.checked_div(second.batches).unwrap_or(0),
        }
    }
}

impl Minute {
    fn of(seconds: &[Second]) -> Minute {
        let mut all = Second::default();
        seconds.iter().for_each(|second| all.merge(second));
        Minute {
            records: all.records,
            p50: all.latency.value_at_quantile(0.5),
            p99: all.latency.value_at_quantile(0.99),
            p999: all.latency.value_at_quantile(0.999),
            max: all.latency.max(),
        }
    }
}

impl Latency {
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        let curve = histogram
            .iter_quantiles(CURVE_TICKS)
            .map(|step| (step.quantile_iterated_to(), step.value_iterated_to()));
        Latency {
            count: histogram.len(),
            mean: histogram.mean(),
            min: histogram.min(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: histogram.max(),
            curve: curve.collect(),
            histogram: encode(histogram),
        }
    }
}

/// What is due in the last moment is not sent any more. More than this share of all, and of more than so many seconds, is a rate that
/// was not reached.
const UNSENT_FREE: f64 = 0.005;
const BEHIND_FREE: f64 = 0.1;
const SECONDS_OF_MINUTE: usize = 60;
/// Points per halving of the distance to 100 %.
const CURVE_TICKS: u32 = 4;

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    let serialized = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    match serialized {
        Ok(_) => base64(&bytes),
        // Into memory, nothing of it can fail.
        Err(error) => panic!("a histogram can't be written to memory: {error:?}"),
    }
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for at in 0..4 {
            match at <= chunk.len() {
                true => text.push(ALPHABET[(word >> (18 - 6 * at) & 63) as usize].into()),
                false => text.push('='),
            }
        }
    }
    text
}

impl RunResult {
    /// The numbers of an outcome; the caller adds what is around them.
    pub fn of(mode: Mode, load: &Load, outcome: &Outcome, environment: Environment) -> RunResult {
        let produced = &outcome.produced;
        let consumed = &outcome.consumed;
        let wire = produced.wire_bytes + consumed.wire_bytes;
        RunResult {
            format: FORMAT,
            mode: mode.word().to_owned(),
            title: String::new(),
            partial: outcome.failure.clone(),
            notes: Vec::new(),
            load: load.clone(),
            rate_records_s: match load.rate {
                Rate::Fixed(rate) => Some(rate),
                Rate::Max | Rate::Flood => None,
            },
            produce: None,
            consume: None,
            in_flight_at_end_records: outcome.left.unanswered_records,
            unsent_records: outcome.left.unsent * load.batch_records as u64,
            unread_batches: outcome.unread,
            verification: Verification {
                on: mode.verifies(load),
                checks: outcome.checks,
                unchecked_batches: outcome.unchecked,
                cost_seconds: outcome.verify_ns as f64 / 1e9,
                read_back_seconds: outcome.read_back_seconds,
            },
            compression_ratio: (produced.bytes + consumed.bytes) as f64 / wire.max(1) as f64,
            connections: outcome.connections,
            broker_cpu: None,
            load_busy: None,
            load_max_records_s: None,
            load_max_busy: None,
            bare_cpu_per_gb: None,
            recorders: Vec::new(),
            environment,
        }
    }

    /// True if nothing was measured, neither sent nor read nor refused.
    pub fn is_empty(&self) -> bool {
        let mut flows = [&self.produce, &self.consume].into_iter().flatten();
        flows.all(Flow::is_empty)
    }

    /// Everything that makes the exit code say "not as asked".
    pub fn troubles(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(why) = &self.partial {
            found.push(format!("PARTIAL result: {why}"));
        }
        let faults = self.verification.checks.faults();
        if self.verification.on && faults > 0 {
            let c = &self.verification.checks;
            found.push(format!(
                "what was read is not what was sent: {} damaged, {} gaps, {} duplicates, {} reordered, {} different, {} lost batches",
                c.damaged, c.gaps, c.duplicates, c.reordered, c.different, c.lost
            ));
        }
        if self.partial.is_none() && self.produce.as_ref().is_some_and(Flow::is_empty) {
            found.push(
                "nothing was measured: no batch came to its end within the window; use a longer --duration, a higher --rate or a smaller --batch"
                    .to_owned(),
            );
        }
        for flow in [&self.produce, &self.consume].into_iter().flatten() {
            for (name, count) in &flow.errors {
                found.push(format!("the broker refused {count} batches: {name}"));
            }
        }
        let sent = self.produce.as_ref().map_or(0, |flow| flow.records);
        let due = (sent + self.unsent_records) as f64;
        let unsent = self.unsent_records as f64;
        let behind_seconds = unsent / self.rate_records_s.unwrap_or(f64::MAX);
        if self.partial.is_none() && unsent > UNSENT_FREE * due && behind_seconds > BEHIND_FREE {
            let asked = self.rate_records_s.unwrap_or(0.0);
            let got = self.produce.as_ref().map_or(0.0, |flow| flow.records_per_s);
            found.push(format!(
                "rate not reached: {got:.0} of {asked:.0} records/s; {} records were due and never sent; use a lower --rate, or --rate max to find the highest",
                self.unsent_records
            ));
        }
        if self.partial.is_some() && self.in_flight_at_end_records + self.unsent_records > 0 {
            found.push(format!(
                "when it ended {} records were sent and not answered, {} were due and not sent",
                self.in_flight_at_end_records, self.unsent_records
            ));
        }
        if self.partial.is_none() && self.in_flight_at_end_records > 0 {
            found.push(format!(
                "{} records were sent and not answered within {} s",
                self.in_flight_at_end_records, self.load.drain_seconds
            ));
        }
        if self.in_flight_at_end_records == 0 && self.unread_batches > 0 {
            found.push(match self.mode == Mode::Produce.word() {
                true => format!(
                    "{} batches that were acknowledged had not been read back after {:.0} s",
                    self.unread_batches, self.verification.read_back_seconds
                ),
                false => format!(
                    "the consumers did not keep up: {} batches that were acknowledged had not been read {} s after the last answer; use a lower --rate or more --consumers",
                    self.unread_batches, self.load.drain_seconds
                ),
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::recorder::Done;

    #[test]
    fn base64_is_the_usual_one() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    #[test]
    fn a_minute_has_the_percentiles_of_its_seconds_together() {
        let mut recorder = Recorder::new(0);
        for second in 0..61u64 {
            for n in 0..10 {
                let now = (second + 1) * 1_000_000_000 + n;
                // One of 600 is slow: its second alone would have it as its p99.
                let latency = if (second, n) == (30, 0) {
                    9_000_000
                } else {
                    1_000
                };
                recorder.done(Done {
                    intended: now - latency,
                    sent: now - latency,
                    now,
                    records: 1,
                    bytes: 1,
                    wire_bytes: 1,
                });
            }
        }
        let flow = Flow::of(&recorder, "test", false, 0.0);
        let records: Vec<u64> = flow.minutes.iter().map(|minute| minute.records).collect();
        assert_eq!(records, [590, 20]);
        let slow = &flow.minutes[0];
        assert!(slow.p99 < 1_100 && slow.p999 > 8_900_000, "{slow:?}");
        assert!(flow.minutes[1].max < 1_100, "{:?}", flow.minutes[1]);
    }

    #[test]
    fn an_empty_histogram_has_a_latency_of_nothing() {
        let empty = Histogram::<u64>::new(3).unwrap();
        let latency = Latency::of(&empty);
        assert_eq!((latency.count, latency.max, latency.curve.len()), (0, 0, 0));
    }
}
