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
//! | `modes`, `search`, `sink` | the runs, the highest rate, the limit of the load side |

mod chart;
mod core;
mod environment;
mod histogram_files;
mod keys;
mod lane;
mod ledger;
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
mod sink;
mod syscalls;
mod table;
mod target;
mod template;
mod text;
mod verify;

pub use modes::{Extras, Mode};
pub use own_broker::OwnOptions;
pub use runner::Show;
pub use target::TargetOptions;

use std::path::{Path, PathBuf};

use load::Load;
use result::RunResult;
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

/// `ringlog bench produce`, `consume`, `e2e`.
pub fn simple(
    mode: Mode,
    options: &TargetOptions,
    load: &Load,
    extras: Extras,
    output: &Output,
) -> Result<Ending, String> {
    prepare_process()?;
    let target = Target::open(options)?;
    let result = modes::run(mode, &target, load, extras)?;
    finish(&result, output)
}

/// `ringlog bench report`: one result, or two laid over each other.
pub fn report(paths: &[PathBuf], out: &Path) -> Result<(), String> {
    let mut runs = Vec::new();
    for path in paths {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{shown}: {error}; give files that --json has written"))?;
        let result: RunResult = serde_json::from_str(&text).map_err(|error| {
            format!("{shown} is no result of this version of ringlog bench: {error}")
        })?;
        if result.format != result::FORMAT {
            return Err(format!(
                "{shown} has format {}, this version reads {}; run it again",
                result.format,
                result::FORMAT
            ));
        }
        let name = path.file_stem().unwrap_or_default();
        runs.push(report::Named {
            name: name.to_string_lossy().into_owned(),
            result,
        });
    }
    save("--out", out, report::html(&runs)?.as_bytes())
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

/// Prints a result and writes it where it is wanted.
fn finish(result: &RunResult, output: &Output) -> Result<Ending, String> {
    print!("{}", table::of(result));
    if let Some(path) = &output.json {
        save("--json", path, json(result)?.as_bytes())?;
    }
    if let Some(path) = &output.html {
        let named = report::Named {
            name: result.mode.clone(),
            result: result.clone(),
        };
        save("--html", path, report::html(&[named])?.as_bytes())?;
    }
    if let Some(prefix) = &output.histograms {
        histogram_files::write(prefix, &result.recorders)?;
    }
    match result.troubles().is_empty() {
        true => Ok(Ending::Good),
        false => Ok(Ending::Troubled),
    }
}

fn json(result: &RunResult) -> Result<String, String> {
    serde_json::to_string_pretty(result)
        .map(|text| text + "\n")
        .map_err(|error| format!("the result can't be written as JSON: {error}"))
}

fn save(flag: &str, path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| format!("{flag} {}: {error}", path.display()))
}
