//! Single system calls that several files of this floor use.
//! Stateless, any thread.
//! Always: descriptors are close-on-exec.
//! Calls of one flow alone stay in its file.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Turns the -1 of libc into an error.
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The same for calls that return a length.
pub(super) fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A new eventfd with a counter of zero.
pub(super) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved; the descriptor is new and ours alone. Run by every test that makes a ring.
    unsafe { check(libc::eventfd(0, libc::EFD_CLOEXEC)).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Adds one to an eventfd: wakes who reads it. Async-signal-safe.
pub(super) fn ring_eventfd(fd: RawFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: the kernel reads 8 bytes of a local array. Run by `doorbell::tests`.
    let written = unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
    // It can only fail when the counter is at its end, and then the reader is awake anyway.
    let _ = written;
}

/// A path as the kernel wants it; a NUL inside is an error (`EINVAL`), never a shorter path.
pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Sets O_NONBLOCK or clears it.
pub(super) fn set_nonblocking(fd: &impl AsRawFd, on: bool) -> io::Result<()> {
    let mut value: libc::c_int = on.into();
    // SAFETY: FIONBIO reads one int of ours. Run by `socket::tests`.
    unsafe { check(libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &mut value)) }.map(drop)
}
