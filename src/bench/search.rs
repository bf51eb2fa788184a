//! Finds the highest rate that keeps up: floods once, then halves the distance between what keeps up and what does not.
//! On the first thread, before the measured run.
//! Always: a rate keeps up if everything due was sent and sends did not get later and later; what is measured afterwards is an open loop.
//! Running a phase is `runner`'s.

use std::time::Duration;

use super::load::Rate;
use super::phase::{Outcome, Phase, Reading};
use super::runner::{self, Show, View};
use super::text;

/// How long is looked at what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub flood: Duration,
    /// Each rate that is tried.
    pub trial: Duration,
    pub warmup: Duration,
}

impl Patience {
    pub const USUAL: Patience = Patience {
        flood: Duration::from_secs(2),
        trial: Duration::from_secs(3),
        warmup: Duration::from_millis(500),
    };
}

/// What is found is at most this far below what would not keep up.
const CLOSE: f64 = 1.04;
const TRIES: usize = 8;
/// Sends this late on average are no growing queue, only a busy machine.
const LAG_FREE_NS: u64 = 20_000_000;

/// The highest rate in records per second, by trying.
pub fn highest_rate(base: &Phase, patience: Patience, show: Show) -> Result<f64, String> {
    let flooded = trial(base, Rate::Flood, patience.flood, patience)?;
    let flood = flooded.produced.records as f64 / flooded.produced.elapsed_seconds().max(1e-3);
    if flood <= 0.0 {
        return Err(format!(
            "nothing was acknowledged within {:.1} s; try a fixed --rate",
            patience.flood.as_secs_f64()
        ));
    }
    tell(show, format!("flood: {} records/s", text::count(flood)));
    let (mut keeps, mut grows) = (0.0, flood * CLOSE);
    let mut rate = flood * 0.95;
    for _ in 0..TRIES {
        let outcome = trial(base, Rate::Fixed(rate), patience.trial, patience)?;
        let good = keeps_up(&outcome, patience);
        let word = if good { "keeps up" } else { "the queue grows" };
        tell(show, format!("{} records/s: {word}", text::count(rate)));
        match good {
            true => keeps = rate,
            false => grows = rate,
        }
        if keeps > 0.0 && grows / keeps <= CLOSE {
            break;
        }
        rate = match keeps > 0.0 {
            true => (keeps * grows).sqrt(),
            false => grows * 0.7,
        };
    }
    match keeps > 0.0 {
        true => Ok(keeps),
        false => Err(format!(
            "no rate down to {} records/s keeps up, though a flood reaches {}; the latency of this broker swings too much: give a --rate",
            text::count(rate),
            text::count(flood)
        )),
    }
}

fn trial(
    base: &Phase,
    rate: Rate,
    duration: Duration,
    patience: Patience,
) -> Result<Outcome, String> {
    let phase = Phase {
        rate: Some(rate),
        reading: Reading::Nothing,
        warmup: patience.warmup,
        duration: Some(duration),
        records: None,
        ..base.clone()
    };
    let outcome = runner::run(&phase, View::BLIND)?.outcome;
    match &outcome.failure {
        Some(why) => Err(why.clone()),
        None => Ok(outcome),
    }
}

/// All was sent, and sends were not later in the last second than in the first.
fn keeps_up(outcome: &Outcome, patience: Patience) -> bool {
    let lags: Vec<u64> = outcome
        .produced
        .seconds
        .iter()
        .take((patience.trial.as_secs() as usize).max(1))
        .map(|second| second.lag_ns.checked_div(second.batches).unwrap_or(0))
        .collect();
    let (first, last) = (lags.first().copied(), lags.last().copied());
    let late = last.unwrap_or(u64::MAX);
    let grew = late > LAG_FREE_NS && (lags.len() < 2 || late > first.unwrap_or(0));
    outcome.left.unsent == 0 && outcome.left.unanswered == 0 && !grew
}

fn tell(show: Show, line: String) {
    if show == Show::Progress {
        eprintln!("  {line}");
    }
}
