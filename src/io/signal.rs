//! Signals that ask the process to end, as something to wait for.
//! Installed once per process by `install`; any shard may wait, all that wait are told.
//! Always: a peer that is gone and a file that may not grow are errors of their calls, never signals.
//! What ending means is decided above.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::doorbell::{Bell, BellHandle};
use super::sys;

/// The eventfd that the handler writes; -1 before `install`.
static ASKED_FD: AtomicI32 = AtomicI32::new(-1);
static ASKED: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static WAITERS: Mutex<Vec<BellHandle>> = Mutex::new(Vec::new());

/// From now on SIGTERM and SIGINT wake [`asked_to_end`], SIGHUP as well unless it is ignored (`nohup`), and SIGPIPE and SIGXFSZ are
/// ignored. Again: nothing.
pub fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    if INSTALLED.set(()).is_err() {
        return Ok(());
    }
    set(libc::SIGPIPE, libc::SIG_IGN)?;
    set(libc::SIGXFSZ, libc::SIG_IGN)?;
    let eventfd = sys::eventfd()?;
    ASKED_FD.store(eventfd.as_raw_fd(), Ordering::SeqCst);
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || tell_loop(&eventfd))?;
    let handler: extern "C" fn(libc::c_int) = on_signal;
    for signal in [libc::SIGTERM, libc::SIGINT] {
        set(signal, handler as libc::sighandler_t)?;
    }
    if !is_ignored(libc::SIGHUP)? {
        set(libc::SIGHUP, handler as libc::sighandler_t)?;
    }
    Ok(())
}

/// Waits for SIGTERM, SIGINT or SIGHUP, or [`ask_to_end`]; gives the signal, 0 for none. At once if it came before.
pub async fn asked_to_end() -> i32 {
    let bell = Bell::new();
    waiters().push(bell.handle());
    while !ASKED.load(Ordering::SeqCst) {
        bell.rung().await;
    }
    SIGNAL.load(Ordering::SeqCst)
}

/// What asked the process to end, for a person.
pub fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        libc::SIGHUP => "SIGHUP",
        _ => "an error",
    }
}

/// Does what a signal does, from inside.
pub fn ask_to_end() {
    ASKED.store(true, Ordering::SeqCst);
    for waiter in waiters().drain(..) {
        waiter.ring();
    }
}

fn waiters() -> std::sync::MutexGuard<'static, Vec<BellHandle>> {
    WAITERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Async-signal-safe: two atomics and one write.
extern "C" fn on_signal(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::SeqCst);
    let fd = ASKED_FD.load(Ordering::SeqCst);
    if fd >= 0 {
        sys::ring_eventfd(fd);
    }
}

/// The thread that tells the shards: a signal handler may take no lock.
fn tell_loop(eventfd: &OwnedFd) {
    let mut word = [0u8; 8];
    loop {
        // SAFETY: the kernel writes 8 bytes to an array of ours. Run by `signal::tests`.
        let read = unsafe { libc::read(eventfd.as_raw_fd(), word.as_mut_ptr().cast(), 8) };
        if read == 8 {
            ask_to_end();
        }
    }
}

fn set(signal: libc::c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a value of the type: no flags but those set here, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is `SIG_IGN` or `on_signal`, which is async-signal-safe. Run by `signal::tests`.
    sys::check(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }).map(drop)
}

fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: an all-zero sigaction is a value of the type.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure. Run by `signal::tests`.
    sys::check(unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) })?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::io::executor::run_shard;

    /// In a process of its own: signals are for all of it.
    #[test]
    fn signal_wakes_all_shards_and_big_files_are_errors() {
        run_inner("inner_signals");
    }

    #[test]
    fn a_hangup_ends_unless_it_is_ignored() {
        run_inner("inner_hangup");
        run_inner("inner_hangup_ignored");
    }

    fn run_inner(name: &str) {
        let inner = format!("io::signal::tests::{name}");
        let output = Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", &inner, "--ignored", "--nocapture"])
            .output()
            .expect("runs itself");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{:?}: {text}", output.status);
        assert!(text.contains("1 passed"), "{text}");
    }

    #[test]
    #[ignore = "run by signal_wakes_all_shards_and_big_files_are_errors"]
    fn inner_signals() {
        install().expect("installs");
        install().expect("again is nothing");
        let shards: Vec<_> = (0..2)
            .map(|_| run_shard(None, "signal", asked_to_end).expect("starts"))
            .collect();
        let none = libc::rlimit {
            rlim_cur: 10,
            rlim_max: 10,
        };
        // SAFETY: the kernel reads the structure; a signal to ourselves has a handler.
        unsafe {
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &none), 0);
            let dir = tempfile::tempdir().expect("scratch directory");
            let written = std::fs::write(dir.path().join("large"), [0; 100]);
            let error = written.expect_err("over the limit");
            assert_eq!(error.raw_os_error(), Some(libc::EFBIG));
            assert_eq!(libc::kill(libc::getpid(), libc::SIGTERM), 0);
        }
        for shard in shards {
            assert_eq!(shard.join().expect("runs"), libc::SIGTERM);
        }
        let late = run_shard(None, "late", asked_to_end).expect("starts");
        assert_eq!(late.join().expect("runs"), libc::SIGTERM);
    }

    #[test]
    #[ignore = "run by a_hangup_ends_unless_it_is_ignored"]
    fn inner_hangup() {
        set(libc::SIGHUP, libc::SIG_DFL).expect("as in a terminal");
        assert_eq!(last_to_end_it(&[libc::SIGHUP]), libc::SIGHUP);
    }

    #[test]
    #[ignore = "run by a_hangup_ends_unless_it_is_ignored"]
    fn inner_hangup_ignored() {
        set(libc::SIGHUP, libc::SIG_IGN).expect("as nohup does");
        assert_eq!(last_to_end_it(&[libc::SIGINT, libc::SIGHUP]), libc::SIGINT);
    }

    /// Sends them one after the other; the last that was not ignored.
    fn last_to_end_it(signals: &[libc::c_int]) -> libc::c_int {
        install().expect("installs");
        for signal in signals {
            // SAFETY: a signal to ourselves that is ignored or has a handler.
            assert_eq!(unsafe { libc::kill(libc::getpid(), *signal) }, 0);
        }
        let shard = run_shard(None, "signal", asked_to_end).expect("starts");
        shard.join().expect("runs")
    }
}
