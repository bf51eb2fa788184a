//! Counts the system calls of the broker's process with `perf stat`, where that is there and may look.
//! Started and ended on the first thread.
//! Always: without perf, or without the right, there is no count; it never fails a run.
//! What they are set against is `runner`'s.

use std::process::{Child, Command, Stdio};

/// A count under way, or come to its end.
pub enum SyscallCount {
    Running(Child),
    Ended(Option<u64>),
}

const EVENT: &str = "raw_syscalls:sys_enter";

impl SyscallCount {
    pub fn start(pid: u32) -> Option<SyscallCount> {
        let mut command = Command::new("perf");
        command
            .args(["stat", "-x", ",", "-e", EVENT, "-p", &pid.to_string()])
            // It writes its counts when this ends.
            .args(["--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().ok().map(SyscallCount::Running)
    }

    #[must_use]
    pub fn stopped(self) -> SyscallCount {
        match self {
            SyscallCount::Running(mut child) => {
                drop(child.stdin.take());
                let output = child.wait_with_output().ok();
                let text = output.map(|o| String::from_utf8_lossy(&o.stderr).into_owned());
                SyscallCount::Ended(text.and_then(|text| parse(&text)))
            }
            ended => ended,
        }
    }

    pub fn count(self) -> Option<u64> {
        match self.stopped() {
            SyscallCount::Ended(count) => count,
            SyscallCount::Running(_) => None,
        }
    }
}

/// The count in perf's lines `COUNT,UNIT,EVENT,...`; `<not counted>` is none.
fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_line_is_read_and_its_excuses_are_no_count() {
        let line = "12345,,raw_syscalls:sys_enter,1000,100.00,,\n";
        assert_eq!(parse(line), Some(12_345));
        assert_eq!(parse("<not supported>,,raw_syscalls:sys_enter,0,0,,"), None);
        assert_eq!(
            parse("No permission to enable raw_syscalls:sys_enter event"),
            None
        );
        assert_eq!(parse(""), None);
    }
}
