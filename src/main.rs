//! The command line of ringlog.

use std::process::ExitCode;

fn main() -> ExitCode {
    ringlog::cli::main()
}
