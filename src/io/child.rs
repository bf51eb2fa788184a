//! A process of ours that ends when we do.
//! Used before it is started, on the thread that starts it and lives as long as it should.
//! Always: nothing happens between fork and exec but one system call.
//! What it runs is the caller's.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::sys;

/// Has the kernel kill it when the thread that starts it ends, and keeps ^C at the terminal from it.
pub fn bind_to_this_thread(command: &mut Command) {
    command.process_group(0);
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe. Run by `child::tests`.
    unsafe {
        command
            .pre_exec(|| sys::check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)).map(drop));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn the_process_ends_with_the_thread_that_started_it() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("600").stdin(Stdio::null());
            bind_to_this_thread(&mut command);
            command.spawn().expect("sleep is there")
        })
        .join()
        .expect("starts");
        let status = child.wait().expect("ends");
        assert!(!status.success(), "{status}");
    }
}
