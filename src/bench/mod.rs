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
//! | `recorder`, `result`, `table` | counting, results, how they look |
//! | `target`, `own_broker`, `environment`, `process`, `syscalls` | the broker and the machine |
//! | `modes`, `search`, `sink` | the runs, the highest rate, the limit of the load side |

mod core;
mod environment;
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

use std::path::Path;

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
    json: Option<&Path>,
) -> Result<Ending, String> {
    prepare_process()?;
    let target = Target::open(options)?;
    let result = modes::run(mode, &target, load, extras)?;
    finish(&result, json)
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

/// Prints a result and writes it where it is wanted.
fn finish(result: &RunResult, json: Option<&Path>) -> Result<Ending, String> {
    print!("{}", table::of(result));
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(result)
            .map_err(|error| format!("the result can't be written as JSON: {error}"))?;
        std::fs::write(path, text + "\n")
            .map_err(|error| format!("--json {}: {error}", path.display()))?;
    }
    match result.troubles().is_empty() {
        true => Ok(Ending::Good),
        false => Ok(Ending::Troubled),
    }
}
