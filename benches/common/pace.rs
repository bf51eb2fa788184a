//! How often parts that wait for the machine are timed, and where.

use std::path::PathBuf;

use ringlog::io::executor;

use crate::common::measures;

/// So often for a median; a few times just to see that it runs.
pub fn times(wanted: usize) -> usize {
    if measures() { wanted } else { 3 }
}

/// Two cores this process may use; twice the same if it has one.
pub fn two_cores() -> [usize; 2] {
    let cores = executor::available_cores();
    [cores[0], cores[cores.len() - 1]]
}

/// `--dir DIR`, where to write; by default on the disk of the build.
pub fn directory() -> PathBuf {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--dir");
    match arguments.nth(1) {
        Some(dir) => dir.into(),
        None => env!("CARGO_TARGET_TMPDIR").into(),
    }
}
