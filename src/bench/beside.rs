//! What reading does to writing: `backlog` (build, then drain while producing goes on) and `coldread` (old data is read beside a paced tail).
//! On the first thread; each is a calm run and a disturbed one, in that order and on one topic.
//! Always: both runs have the same rate; "never drained" is a result, not an error.
//! A single run is `modes`'s.

use std::time::Duration;

use super::limit;
use super::load::{Load, Rate};
use super::modes::{self, Extras, Mode};
use super::phase::{Phase, Reading};
use super::recorder::Recorder;
use super::result::{Flow, RunResult};
use super::runner;
use super::series::{SeriesResult, Step};
use super::setup::Setup;
use super::target::Target;
use super::text::{count, duration};

/// Runs a series on a setup of its own; what its end leaves behind is told by the last step.
fn cleaned_up(
    target: &Target,
    load: &Load,
    run: impl FnOnce(&mut Setup) -> Result<SeriesResult, String>,
) -> Result<SeriesResult, String> {
    let mut setup = Setup::new(Mode::EndToEnd, target, load)?;
    let mut series = run(&mut setup);
    let last = series
        .as_mut()
        .ok()
        .and_then(|series| series.steps.last_mut());
    setup.clean_up(target, last.map(|step| &mut step.result));
    series
}

/// Builds a backlog for `build`, then lets consumers at it while producing goes on.
pub fn backlog(
    target: &Target,
    load: &Load,
    build: Duration,
    extras: Extras,
) -> Result<SeriesResult, String> {
    cleaned_up(target, load, |setup| {
        run_backlog(target, setup, build, extras)
    })
}

fn run_backlog(
    target: &Target,
    setup: &mut Setup,
    build: Duration,
    extras: Extras,
) -> Result<SeriesResult, String> {
    let mut series = SeriesResult::new("backlog");
    setup.settle_rate(extras.show)?;
    let calm = Phase {
        reading: Reading::Follow(setup.ends(target)?),
        ..setup.phase.clone()
    };
    let calm = measured(target, setup, &calm, extras)?;
    if !series.take("calm", calm.result) {
        return Ok(series);
    }
    let draining = Phase {
        reading: Reading::FollowLate(setup.ends(target)?),
        warmup: build,
        ..setup.phase.clone()
    };
    let drained = measured(target, setup, &draining, extras)?;
    let complete = series.take("backlog draining", drained.result);
    let rate = setup.load.rate;
    let built = match rate {
        Rate::Fixed(rate) => format!("{} records", count(rate * build.as_secs_f64())),
        Rate::Max | Rate::Flood => format!("{:.1} s of a flood", build.as_secs_f64()),
    };
    let gone = series.steps.last();
    let gone = gone.map_or(0, |step| step.result.verification.unchecked_batches);
    if complete {
        let sending = setup.load.duration_seconds.unwrap_or(f64::MAX);
        series.findings.push(match drained.caught_up_seconds {
            Some(seconds) if seconds <= sending => format!(
                "a backlog of {built} was drained within {seconds:.2} s, while producing went on"
            ),
            Some(seconds) => format!(
                "NEVER DRAINED: a backlog of {built} was still there after {sending:.1} s of reading while producing went on; it took {:.1} s more without",
                seconds - sending
            ),
            None => format!(
                "NEVER DRAINED: a backlog of {built} was still there {:.1} s after producing had ended",
                setup.load.drain_seconds
            ),
        });
        if gone > 0 {
            series.findings.push(format!(
                "of which {gone} batches were never read (retention took them, or the time was over): keep more with --topic-set retention.bytes"
            ));
        }
        let share = drained.caught_up_seconds.map(|seconds| seconds / sending);
        match share {
            Some(share) if share < DRAIN_SHARE_MIN => series.findings.push(
                "that is too short a part of the window to say what it did to producing: use a longer --build or a higher --rate".to_owned(),
            ),
            _ => series.compare_produce("while the backlog was drained"),
        }
    }
    Ok(series)
}

/// Fills a topic with `old` bytes, then reads them beside a paced tail.
pub fn coldread(
    target: &Target,
    load: &Load,
    old: u64,
    extras: Extras,
) -> Result<SeriesResult, String> {
    cleaned_up(target, load, |setup| {
        run_coldread(target, setup, old, extras)
    })
}

fn run_coldread(
    target: &Target,
    setup: &mut Setup,
    old: u64,
    extras: Extras,
) -> Result<SeriesResult, String> {
    let mut series = SeriesResult::new("coldread");
    if old < OLD_BYTES_SURE {
        series.findings.push(
            "so little old data may lie in the broker's memory, which is read instead of the disk (of ringlog 1 GiB a core unless --memory says otherwise): use a larger --old".to_owned(),
        );
    }
    let old_bounds = setup.fill(target, setup.records_of(old), extras.show)?;
    setup.settle_rate(extras.show)?;
    let calm = Phase {
        reading: Reading::Follow(setup.ends(target)?),
        ..setup.phase.clone()
    };
    let calm = measured(target, setup, &calm, extras)?;
    if !series.take("calm", calm.result) {
        return Ok(series);
    }
    let mut plans = setup.phase.plans.clone();
    for plan in &mut plans {
        plan.cold = plan.readers.clone();
    }
    let disturbed = Phase {
        reading: Reading::Follow(setup.ends(target)?),
        cold: old_bounds,
        plans,
        ..setup.phase.clone()
    };
    let disturbed = measured(target, setup, &disturbed, extras)?;
    let cold = Flow::of(&disturbed.cold, "cold: of a fetch", false, 0.0);
    if series.take("beside a cold reader", disturbed.result) {
        series.findings.push(format!(
            "the cold reader took {:.1} MB/s of {:.2} GB of old data",
            cold.mb_per_s,
            old as f64 / 1e9
        ));
        series.compare_produce("beside the cold reader");
        series.compare_tail("beside the cold reader");
    }
    Ok(series)
}

/// Draining that took less than this of the window has left no mark in its percentiles.
const DRAIN_SHARE_MIN: f64 = 0.1;
/// Less may be in memory.
const OLD_BYTES_SURE: u64 = 2 << 30;

struct Measured {
    result: RunResult,
    cold: Recorder,
    caught_up_seconds: Option<f64>,
}

fn measured(
    target: &Target,
    setup: &Setup,
    phase: &Phase,
    extras: Extras,
) -> Result<Measured, String> {
    let limit = match extras.limit {
        true => Some(limit::measure(target, phase)?),
        false => None,
    };
    let run = runner::run(phase, extras.view(target))?;
    let (cold, caught_up_seconds) = (run.outcome.cold.clone(), run.outcome.caught_up_seconds);
    Ok(Measured {
        result: modes::result(Mode::EndToEnd, target, setup, run, limit, extras),
        cold,
        caught_up_seconds,
    })
}

impl SeriesResult {
    /// Adds a step; false if it ended early and so does the series.
    fn take(&mut self, name: &str, result: RunResult) -> bool {
        self.partial = result.partial.as_ref().map(|why| format!("{name}: {why}"));
        self.steps.push(Step {
            name: name.to_owned(),
            result,
        });
        self.partial.is_none()
    }

    fn compare_produce(&mut self, when: &str) {
        self.compare("produce", when, |result| result.produce.as_ref());
    }

    fn compare_tail(&mut self, when: &str) {
        self.compare("end-to-end", when, |result| result.consume.as_ref());
    }

    /// The last step against the first.
    fn compare(&mut self, what: &str, when: &str, flow: fn(&RunResult) -> Option<&Flow>) {
        let ends = self.steps.first().zip(self.steps.last());
        let flows = ends.and_then(|(calm, last)| flow(&calm.result).zip(flow(&last.result)));
        if let Some((calm, last)) = flows {
            let (calm, last) = (&calm.latency, &last.latency);
            let ratio =
                |of: fn(&super::result::Latency) -> u64| of(last) as f64 / of(calm).max(1) as f64;
            self.findings.push(format!(
                "{what} p99 {} calm, {} {when}: x {:.2}; p99.9 x {:.2}",
                duration(calm.p99),
                duration(last.p99),
                ratio(|latency| latency.p99),
                ratio(|latency| latency.p999)
            ));
        }
    }
}
