//! Floor 7: the command line and the properties file.
//! Runs once, before anything else, on the main thread.
//! Always: what is wrong is named with its place, its value and the fix, and the exit code is 2.
//! Running the broker is `server`'s.

mod args;
mod bench;
mod properties;
mod run;
mod serve;
mod values;

use std::process::ExitCode;

use clap::Parser;

use serve::ServeOptions;
use values::HostPort;

/// Why the command line or the file can't be used; one line for a person.
#[derive(Clone, PartialEq, Eq, Debug)]
struct UsageError(String);

/// Exit code of a wrong command line, as clap has it.
const USAGE_EXIT: u8 = 2;

/// Reads the command line and runs what it names.
pub fn main() -> ExitCode {
    match args::Args::parse().command {
        args::Command::Bench(command) => bench::run(*command),
        args::Command::Serve(flags) => match serve::options(&flags) {
            Ok(options) => {
                for warning in &options.warnings {
                    eprintln!("warning: {warning}");
                }
                run::serve(options)
            }
            Err(UsageError(text)) => {
                eprintln!("error: {text}");
                ExitCode::from(USAGE_EXIT)
            }
        },
    }
}
