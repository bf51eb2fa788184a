//! Floor 7: `ringlog bench`: loads a broker on a schedule, checks what it reads, and says what it has measured and under which conditions.
//! Called by `cli` on the first thread; one pinned reactor per load core.
//! Always: an open loop times from when a batch was meant to go, not from when it went; histograms are merged, never averaged; what is
//! partial, unverified or limited by the load side says so.
//! The protocol is `client`'s; the words of the command line are `cli`'s.
//!
//! # Where is what
//! | file | what |
//! |---|---|
//! | `load`, `payload`, `keys`, `template` | what is sent |
//! | `schedule`, `plan` | when, and by whom |
//! | `lane`, `reader`, `core`, `phase`, `runner` | sending, reading, all cores, progress |
//! | `ledger`, `verify` | what must come back, and whether it does |
//! | `recorder`, `result`, `table`, `histogram_files`, `report`, `chart` | counting, results, how they look |
//! | `target`, `own_broker`, `environment`, `process`, `syscalls` | the broker and the machine |
//! | `setup`, `modes`, `search`, `limit`, `sink` | single runs, the highest rate, the limit of the load side |
//! | `series`, `beside`, `compare` | what is made of several runs |

mod beside;
mod chart;
mod compare;
mod core;
mod environment;
mod histogram_files;
mod keys;
mod lane;
mod ledger;
mod limit;
pub mod load;
mod modes;
mod own_broker;
mod payload;
mod phase;
mod plan;
mod process;
#[cfg(test)]
mod proof;
mod reader;
mod recorder;
mod report;
pub mod result;
mod runner;
mod schedule;
mod search;
mod series;
mod setup;
mod sink;
mod syscalls;
mod table;
mod target;
mod template;
mod text;
mod verify;

pub use modes::{Extras, Mode};
pub use own_broker::OwnOptions;
pub use payload::mean_record_bytes;
pub use runner::Show;
pub use target::TargetOptions;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use compare::Comparison;
use load::Load;
use result::RunResult;
use series::SeriesResult;
use target::Target;

use crate::io::{preflight, signal};

/// How a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// As asked.
    Good,
    /// With a result that is partial or has found faults.
    Troubled,
}

/// What is run.
#[derive(Clone, Debug)]
pub enum Plan {
    Single(Mode),
    /// Up to so many consumers that each read everything.
    Fanout(usize),
    /// Up to so many connections.
    Connections(usize),
    /// Up to so many partitions.
    Partitions(usize),
    /// Each of these.
    Sweep(Vec<(String, Load)>),
    /// Built for so long.
    Backlog(Duration),
    /// So many bytes of old data.
    ColdRead(u64),
}

/// Runs it, prints what was found, and writes it where it is wanted.
pub fn run(
    plan: &Plan,
    options: &TargetOptions,
    load: &Load,
    extras: Extras,
    output: &Output,
) -> Result<Ending, String> {
    prepare_process()?;
    output.check()?;
    let target = Target::open(options)?;
    let series = match plan {
        Plan::Single(mode) => {
            let result = modes::run(*mode, &target, load, extras)?;
            let named = report::Named {
                name: result.mode.clone(),
                result: result.clone(),
            };
            let (table, empty) = (table::of(&result), result.is_empty());
            output.give(&table, empty, &result, vec![named], &result.recorders)?;
            return Ok(Ending::of(&result.troubles()));
        }
        Plan::Fanout(most) => {
            let loads = series::fanout(load, *most);
            series::run("fanout", Mode::EndToEnd, &target, &loads, extras)?
        }
        Plan::Connections(most) => {
            let loads = series::connections(load, *most);
            series::run("connections", Mode::Produce, &target, &loads, extras)?
        }
        Plan::Partitions(most) => {
            let loads = series::partitions(load, *most);
            series::run("partitions", Mode::Produce, &target, &loads, extras)?
        }
        Plan::Sweep(loads) => series::run("sweep", Mode::Produce, &target, loads, extras)?,
        Plan::Backlog(build) => beside::backlog(&target, load, *build, extras)?,
        Plan::ColdRead(old) => beside::coldread(&target, load, *old, extras)?,
    };
    let (table, empty) = (series.table(), series.is_empty());
    output.give(&table, empty, &series, series.ends(), &[])?;
    Ok(Ending::of(&series.troubles()))
}

/// The same load on two brokers in turn, so many rounds.
pub fn compare(
    both: &[TargetOptions; 2],
    mode: Mode,
    load: &Load,
    rounds: usize,
    extras: Extras,
    output: &Output,
) -> Result<Ending, String> {
    prepare_process()?;
    output.check()?;
    let comparison = compare::run(mode, both, load, rounds, extras)?;
    let (table, empty) = (comparison.table(), comparison.runs.is_empty());
    output.give(&table, empty, &comparison, comparison.middle(), &[])?;
    Ok(Ending::of(&comparison.runs.troubles()))
}

/// `ringlog bench report`: one result, or two laid over each other; of a series its ends, of a comparison both sides.
pub fn report(paths: &[PathBuf], out: &Path) -> Result<(), String> {
    let mut runs = Vec::new();
    for path in paths {
        let shown = path.display();
        if is_same(path, out) {
            return Err(format!(
                "--out {shown} would overwrite what is reported; give another file"
            ));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{shown}: {error}; give files that --json has written"))?;
        let kept: Kept = serde_json::from_str(&text).map_err(|_| {
            format!("{shown} is no result of this version of ringlog bench; give files that --json has written")
        })?;
        let (format, of_file) = kept.drawn(path);
        if format != result::FORMAT {
            return Err(format!(
                "{shown} has format {format}, this version reads {}; run it again",
                result::FORMAT
            ));
        }
        if of_file.len() != 1 && paths.len() > 1 {
            return Err(format!(
                "{shown} has several runs; give it alone, or two results of single runs"
            ));
        }
        runs.extend(of_file);
    }
    save("--out", out, report::html(&runs)?.as_bytes())
}

/// What --json has written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Kept {
    Run(Box<RunResult>),
    Series(SeriesResult),
    Comparison(Comparison),
}

impl Kept {
    /// Its format, and what of it is drawn.
    fn drawn(self, path: &Path) -> (u32, Vec<report::Named>) {
        match self {
            Kept::Run(result) => {
                let name = path.file_stem().unwrap_or_default();
                let named = report::Named {
                    name: name.to_string_lossy().into_owned(),
                    result: *result,
                };
                (named.result.format, vec![named])
            }
            Kept::Series(series) => (series.format, series.ends()),
            Kept::Comparison(comparison) => (comparison.format, comparison.middle()),
        }
    }
}

fn prepare_process() -> Result<(), String> {
    signal::install().map_err(|error| format!("signals can't be taken: {error}"))?;
    let fatal = preflight::check_machine()
        .into_iter()
        .find(|finding| finding.weight == preflight::Weight::Fatal);
    match fatal {
        Some(finding) => Err(finding.text),
        None => Ok(()),
    }
}

/// Where results go besides the terminal.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub json: Option<PathBuf>,
    /// A page with charts.
    pub html: Option<PathBuf>,
    /// Prefix of histogram files.
    pub histograms: Option<PathBuf>,
}

impl Ending {
    fn of(troubles: &[String]) -> Ending {
        match troubles.is_empty() {
            true => Ending::Good,
            false => Ending::Troubled,
        }
    }
}

impl Output {
    /// That it can be written is seen before anything is run.
    fn check(&self) -> Result<(), String> {
        let prefix = self.histograms.as_deref();
        let folder = prefix
            .and_then(Path::parent)
            .filter(|folder| *folder != Path::new(""));
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(format!(
                "--histograms: {} is no directory",
                folder.display()
            ));
        }
        if let (Some(json), Some(html)) = (&self.json, &self.html)
            && is_same(json, html)
        {
            return Err(format!(
                "--json and --html are both {}; give each a file",
                json.display()
            ));
        }
        let files = [("--json", &self.json), ("--html", &self.html)];
        for (flag, path) in files {
            let Some(path) = path else { continue };
            let there = path.exists();
            let mut open = std::fs::OpenOptions::new();
            let opened = open.append(true).create(true).open(path);
            opened.map_err(|error| format!("{flag} {}: {error}", path.display()))?;
            if !there {
                // A run that comes to nothing leaves nothing.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// True if something would be overwritten.
    fn is_there(&self) -> bool {
        [&self.json, &self.html]
            .into_iter()
            .flatten()
            .any(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 0))
    }

    /// Prints the table and writes the files; of an `empty` result none that would take the place of an earlier one.
    fn give(
        &self,
        table: &str,
        empty: bool,
        all: &impl Serialize,
        shown: Vec<report::Named>,
        recorders: &[(&'static str, recorder::Recorder)],
    ) -> Result<(), String> {
        let saved = match empty && self.is_there() {
            true => {
                eprintln!("nothing was measured: files that were there are left as they were");
                Ok(())
            }
            false => self.save(all, shown, recorders),
        };
        // What can't be kept is shown, and what can't be shown was kept.
        show(table).and(saved)
    }

    /// Everything as JSON; one or two of the runs as a page; the histograms of a single run.
    fn save(
        &self,
        all: &impl Serialize,
        shown: Vec<report::Named>,
        recorders: &[(&'static str, recorder::Recorder)],
    ) -> Result<(), String> {
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(all)
                .map_err(|error| format!("the result can't be written as JSON: {error}"))?;
            save("--json", path, (text + "\n").as_bytes())?;
        }
        if let Some(path) = &self.html {
            save("--html", path, report::html(&shown)?.as_bytes())?;
        }
        match &self.histograms {
            Some(prefix) => histogram_files::write(prefix, recorders),
            None => Ok(()),
        }
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        let there = std::fs::canonicalize(path);
        there.or_else(|_| std::path::absolute(path)).ok()
    };
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// On stdout, which may be a full disk or a pipe that nobody reads any more.
fn show(text: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    let shown = stdout.write_all(text.as_bytes());
    shown
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("the result can't be printed: {error}"))
}

fn save(flag: &str, path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| format!("{flag} {}: {error}", path.display()))
}
