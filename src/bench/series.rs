//! Several runs as one result: a step each, one line each.
//! Made by the modes that vary something; `fanout`, `connections`, `partitions` and `sweep` are lists of loads and nothing more.
//! Always: the first step that is partial ends the series, which then is partial too; steps that were not run are counted.
//! A single run is `modes`'s.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::load::Load;
use super::modes::{self, Extras, Mode};
use super::report;
use super::result::{FORMAT, Flow, RunResult};
use super::runner::Show;
use super::table;
use super::target::Target;
use super::text::{count, duration, things};

/// One run of a series.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    pub name: String,
    pub result: RunResult,
}

/// A whole series.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SeriesResult {
    pub format: u32,
    pub mode: String,
    pub steps: Vec<Step>,
    /// What follows from the steps, a line each.
    pub findings: Vec<String>,
    /// Why it ended early.
    pub partial: Option<String>,
}

/// A load with the name of its step.
pub type Named = (String, Load);

/// Runs one load after the other.
pub fn run(
    word: &str,
    mode: Mode,
    target: &Target,
    loads: &[Named],
    extras: Extras,
) -> Result<SeriesResult, String> {
    let mut series = SeriesResult::new(word);
    for (index, (name, load)) in loads.iter().enumerate() {
        if extras.show == Show::Progress {
            eprintln!("{word} {}/{}: {name}", index + 1, loads.len());
        }
        let result = match modes::run(mode, target, load, extras) {
            Ok(result) => result,
            Err(why) if series.steps.is_empty() => return Err(why),
            Err(why) => {
                series.end_early(name, &why, loads.len());
                break;
            }
        };
        let partial = result.partial.clone();
        series.steps.push(Step {
            name: name.clone(),
            result,
        });
        if let Some(why) = partial {
            series.end_early(name, &why, loads.len());
            break;
        }
    }
    Ok(series)
}

impl SeriesResult {
    pub fn new(mode: &str) -> SeriesResult {
        SeriesResult {
            format: FORMAT,
            mode: mode.to_owned(),
            steps: Vec::new(),
            findings: Vec::new(),
            partial: None,
        }
    }

    fn end_early(&mut self, name: &str, why: &str, planned: usize) {
        let left = planned - self.steps.len();
        let not_run = match left {
            0 => String::new(),
            _ => format!(" ({left} of {planned} steps not run)"),
        };
        self.partial = Some(format!("at {name}: {why}{not_run}"));
    }

    /// True if no step has measured anything.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| step.result.is_empty())
    }

    /// The first and the last step, for the page.
    pub fn ends(&self) -> Vec<report::Named> {
        let ends = match &self.steps[..] {
            [] => Vec::new(),
            [only] => vec![only],
            [first, .., last] => vec![first, last],
        };
        let named = ends.into_iter().map(|step| report::Named {
            name: step.name.clone(),
            result: step.result.clone(),
        });
        named.collect()
    }

    /// Everything that makes the exit code say "not as asked".
    pub fn troubles(&self) -> Vec<String> {
        let mut found: Vec<String> = self
            .partial
            .iter()
            .map(|why| format!("PARTIAL result: {why}"))
            .collect();
        for step in &self.steps {
            let of_step = step.result.troubles();
            found.extend(of_step.into_iter().map(|t| format!("{}: {t}", step.name)));
        }
        found
    }

    /// As people read it.
    pub fn table(&self) -> String {
        let mut out = format!("{}: {} steps\n", self.mode, self.steps.len());
        if let Some(first) = self.steps.first() {
            let _ = writeln!(out, "first step: {}", first.result.title);
        }
        for trouble in self.troubles() {
            let _ = writeln!(out, "!! {trouble}");
        }
        let mut notes: Vec<&String> = Vec::new();
        for note in self.steps.iter().flat_map(|step| &step.result.notes) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        for note in notes {
            let _ = writeln!(out, "note: {note}");
        }
        let _ = writeln!(
            out,
            "\n{:<28}{:<10}{:>13}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "step", "", "records/s", "MB/s", "p50", "p99", "p99.9", "max", "CPU-s/GB"
        );
        for step in &self.steps {
            let flows = [&step.result.produce, &step.result.consume];
            for (at, flow) in flows.into_iter().flatten().enumerate() {
                let name = if at == 0 { step.name.as_str() } else { "" };
                out.push_str(&line(name, flow, &step.result));
            }
        }
        for finding in &self.findings {
            let _ = writeln!(out, "{finding}");
        }
        if let Some(last) = self.steps.last() {
            let limits = self.steps.iter().map(|step| &step.result);
            let busy = limits.clone().filter_map(|result| result.load_busy);
            let busiest = busy.fold(0.0, f64::max);
            let verified = limits
                .clone()
                .map(|result| result.verification.checks.records);
            let cost = limits.map(|result| result.verification.cost_seconds);
            let _ = write!(
                out,
                "\nload      cores at most {:.0} % busy",
                busiest * 100.0
            );
            if self
                .steps
                .iter()
                .any(|s| s.result.load_max_records_s.is_some())
            {
                out.push_str("; --json has of each step what they reach against a server that drops everything");
            }
            let _ = writeln!(
                out,
                "\nverified  {} records, which cost {:.2} CPU-s of the load side",
                count(verified.sum::<u64>() as f64),
                cost.sum::<f64>(),
            );
            for step in &self.steps {
                let unchecked = step.result.verification.unchecked_batches;
                if unchecked > 0 {
                    let _ = writeln!(
                        out,
                        "{}: {unchecked} batches were never read: retention took them, they were too many to remember, or the time was over",
                        step.name
                    );
                }
            }
            for promise in self.promises() {
                let _ = writeln!(out, "{promise}");
            }
            out.push_str(&table::around(&last.result));
        }
        out
    }

    /// What each step was promised of a record, where that is not the same for all.
    fn promises(&self) -> Vec<String> {
        let promise = |step: &Step| step.result.environment.broker.durability.clone();
        let differ = self
            .steps
            .windows(2)
            .any(|two| promise(&two[0]) != promise(&two[1]));
        let lines = self.steps.iter().filter(|_| differ);
        lines
            .map(|step| format!("{}: {}", step.name, promise(step)))
            .collect()
    }
}

fn line(name: &str, flow: &Flow, result: &RunResult) -> String {
    let direction = flow.meaning.split(':').next().unwrap_or("");
    let latency = &flow.latency;
    let cpu = result.broker_cpu.as_ref();
    format!(
        "{name:<28}{direction:<10}{:>13}{:>10.1}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
        count(flow.records_per_s),
        flow.mb_per_s,
        duration(latency.p50),
        duration(latency.p99),
        duration(latency.p999),
        duration(latency.max),
        cpu.map_or(String::new(), |cpu| format!("{:.2}", cpu.per_gb)),
    )
}

/// 1, 2, 4, ... consumers that each read everything.
pub fn fanout(base: &Load, most: usize) -> Vec<Named> {
    steps(most, 2)
        .map(|copies| {
            let load = Load {
                copies,
                ..base.clone()
            };
            (things(copies, "consumer"), load)
        })
        .collect()
}

/// 1, 10, 100, ... connections, each to one partition.
pub fn connections(base: &Load, most: usize) -> Vec<Named> {
    steps(most, 10)
        .map(|producers| {
            let load = Load {
                producers,
                // More than one partition could mean more than one leader, and so more than one connection.
                partitions: base.partitions.min(producers as i32),
                ..base.clone()
            };
            (things(producers, "connection"), load)
        })
        .collect()
}

/// 1, 10, 100, ... partitions.
pub fn partitions(base: &Load, most: usize) -> Vec<Named> {
    steps(most, 10)
        .map(|partitions| {
            let load = Load {
                partitions: partitions as i32,
                ..base.clone()
            };
            (things(partitions, "partition"), load)
        })
        .collect()
}

/// Powers of `factor` below `most`, and `most`.
fn steps(most: usize, factor: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1usize), move |n| n.checked_mul(factor));
    powers.take_while(move |n| *n < most).chain([most])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_with_the_most() {
        let all = |most, factor| steps(most, factor).collect::<Vec<_>>();
        assert_eq!(all(16, 2), [1, 2, 4, 8, 16]);
        assert_eq!(all(5, 2), [1, 2, 4, 5]);
        assert_eq!(all(10_000, 10), [1, 10, 100, 1_000, 10_000]);
        assert_eq!(all(1, 10), [1]);
    }

    #[test]
    fn each_step_changes_what_it_says_and_nothing_else() {
        let base = Load::default();
        let (name, load) = fanout(&base, 4).pop().unwrap();
        assert_eq!((name.as_str(), load.copies), ("4 consumers", 4));
        assert_eq!(Load { copies: 1, ..load }, base);
        assert_eq!(partitions(&base, 30).last().unwrap().1.partitions, 30);
        assert_eq!(connections(&base, 30).last().unwrap().1.producers, 30);
    }
}
