//! The same load on two brokers in turn (A B A B ...): medians and ratios.
//! On the first thread.
//! Always: both get the same records at the same rate; a rate that is searched is searched on each; nothing is said of fewer rounds than were run.
//! A single run is `modes`'s.

use serde::{Deserialize, Serialize};

use super::load::Load;
use super::modes::{self, Extras, Mode};
use super::report;
use super::result::{FORMAT, Flow, RunResult};
use super::runner::Show;
use super::series::{SeriesResult, Step};
use super::target::{Target, TargetOptions};
use super::text::{count, duration};

/// Two brokers side by side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    pub format: u32,
    pub rounds: usize,
    /// Every run, in the order they were made.
    pub runs: SeriesResult,
    pub medians: Vec<Median>,
}

/// One number of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Median {
    pub name: String,
    pub a: f64,
    pub b: f64,
    /// `a / b`.
    pub ratio: f64,
    #[serde(skip)]
    shown: (String, String),
}

const LETTERS: [&str; 2] = ["A", "B"];

/// Runs `rounds` of each. A broker of our own is started anew for each round and is the only one that runs then.
pub fn run(
    mode: Mode,
    options: &[TargetOptions; 2],
    load: &Load,
    rounds: usize,
    extras: Extras,
) -> Result<Comparison, String> {
    let mut runs = SeriesResult::new("compare");
    for (letter, options) in LETTERS.into_iter().zip(options) {
        // One that is not there is found before the other has run for nothing.
        if options.bootstrap.is_some() {
            let target = Target::open(options).and_then(|target| target.answers());
            target.map_err(|why| format!("{letter}: {why}"))?;
        }
    }
    'all: for round in 1..=rounds {
        for (letter, options) in LETTERS.into_iter().zip(options) {
            let name = format!("{letter}{round}");
            if extras.show == Show::Progress {
                eprintln!("compare {name} of {rounds}");
            }
            let result =
                Target::open(options).and_then(|target| modes::run(mode, &target, load, extras));
            let result = match result {
                Ok(result) => result,
                Err(why) if runs.steps.is_empty() => return Err(format!("{letter}: {why}")),
                Err(why) => {
                    runs.partial = Some(format!("{name}: {why}"));
                    break 'all;
                }
            };
            runs.partial = result.partial.as_ref().map(|why| format!("{name}: {why}"));
            runs.steps.push(Step { name, result });
            if runs.partial.is_some() {
                break 'all;
            }
        }
    }
    let medians = medians(whole_rounds(&runs.steps));
    Ok(Comparison {
        format: FORMAT,
        rounds,
        runs,
        medians,
    })
}

impl Comparison {
    pub fn table(&self) -> String {
        let mut out = self.runs.table();
        out.push_str(&self.sides());
        let rounds = whole_rounds(&self.runs.steps).len() / 2;
        if rounds == 0 {
            return out;
        }
        out.push_str(&format!(
            "\n{:<44}{:>14}{:>14}{:>9}\n",
            format!("median of {rounds} rounds"),
            "A",
            "B",
            "A / B"
        ));
        for median in &self.medians {
            let (a, b) = &median.shown;
            out.push_str(&format!(
                "{:<44}{a:>14}{b:>14}{:>9.2}\n",
                median.name, median.ratio
            ));
        }
        out
    }

    /// What each is, on which cores, and what it promises; with a word where they promise different things.
    fn sides(&self) -> String {
        let mut out = String::from("\n");
        let mut promises = Vec::new();
        for letter in LETTERS {
            let own = of_letter(&self.runs.steps, letter);
            if let Some(step) = own.first() {
                let broker = &step.result.environment.broker;
                out.push_str(&format!(
                    "{letter}: {} at {}, core {}: {}\n",
                    broker.software, broker.address, broker.cores, broker.durability
                ));
                promises.push(&broker.durability);
            }
        }
        if let [a, b] = promises[..]
            && a != b
        {
            out.push_str("note: the two promise different things for an acknowledged record\n");
        }
        out
    }

    /// The middle run of each, for the page.
    pub fn middle(&self) -> Vec<report::Named> {
        let of = |letter: &str| {
            let mut steps = of_letter(&self.runs.steps, letter);
            steps.sort_by(|a, b| main_rate(&a.result).total_cmp(&main_rate(&b.result)));
            let middle = steps.len().checked_sub(1)? / 2;
            Some(report::Named {
                name: letter.to_owned(),
                result: steps[middle].result.clone(),
            })
        };
        LETTERS.into_iter().filter_map(of).collect()
    }
}

fn of_letter<'a>(steps: &'a [Step], letter: &str) -> Vec<&'a Step> {
    let own = steps.iter().filter(|step| step.name.starts_with(letter));
    own.collect()
}

fn main_rate(result: &RunResult) -> f64 {
    let flow = result.produce.as_ref().or(result.consume.as_ref());
    flow.map_or(0.0, |flow| flow.records_per_s)
}

type Number = fn(&RunResult) -> Option<f64>;
type Shown = fn(f64) -> String;

/// What was measured on both sides to the end.
fn whole_rounds(steps: &[Step]) -> &[Step] {
    let whole = steps
        .iter()
        .take_while(|step| step.result.partial.is_none())
        .count();
    &steps[..whole / 2 * 2]
}

fn medians(steps: &[Step]) -> Vec<Median> {
    let nanos: Shown = |value| duration(value as u64);
    let plain: Shown = count;
    let small: Shown = |value| format!("{value:.2}");
    let numbers: [(&str, Number, Shown); 11] = [
        (
            "produced, records/s",
            |r| produce(r, |f| f.records_per_s),
            plain,
        ),
        ("produced, MB/s", |r| produce(r, |f| f.mb_per_s), small),
        (
            "produced, latency p50",
            |r| produce(r, |f| f.latency.p50 as f64),
            nanos,
        ),
        (
            "produced, latency p99",
            |r| produce(r, |f| f.latency.p99 as f64),
            nanos,
        ),
        (
            "produced, latency p99.9",
            |r| produce(r, |f| f.latency.p999 as f64),
            nanos,
        ),
        (
            "read, records/s",
            |r| consume(r, |f| f.records_per_s),
            plain,
        ),
        ("read, MB/s", |r| consume(r, |f| f.mb_per_s), small),
        (
            "read, latency p50",
            |r| consume(r, |f| f.latency.p50 as f64),
            nanos,
        ),
        (
            "read, latency p99",
            |r| consume(r, |f| f.latency.p99 as f64),
            nanos,
        ),
        (
            "broker CPU-seconds per GB",
            |r| r.broker_cpu.as_ref().map(|c| c.per_gb),
            small,
        ),
        (
            "broker CPU-seconds per million records",
            |r| r.broker_cpu.as_ref().map(|c| c.per_million_records),
            small,
        ),
    ];
    let median_of = |letter: &str, number: Number| {
        let own = of_letter(steps, letter);
        let values: Vec<f64> = own.iter().filter_map(|step| number(&step.result)).collect();
        median(values)
    };
    numbers
        .into_iter()
        .filter_map(|(name, number, shown)| {
            let (a, b) = (median_of("A", number)?, median_of("B", number)?);
            // Less than the clock can tell, as the CPU time of a short run: there is no ratio to it.
            if b == 0.0 {
                return None;
            }
            Some(Median {
                name: name.to_owned(),
                a,
                b,
                ratio: a / b,
                shown: (shown(a), shown(b)),
            })
        })
        .collect()
}

fn produce(result: &RunResult, value: fn(&Flow) -> f64) -> Option<f64> {
    result.produce.as_ref().map(value)
}

fn consume(result: &RunResult, value: fn(&Flow) -> f64) -> Option<f64> {
    result.consume.as_ref().map(value)
}

/// The middle value, of two middle ones the mean.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    match values.len() % 2 {
        1 => Some(values[middle]),
        _ => Some((values[middle] + values[middle + 1]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
