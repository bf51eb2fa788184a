//! The memfd of an arena and its mapping: raw memory and the system calls on it.
//! Owned by `ArenaState`; lives until the last extent is gone.
//! Always: the mapping covers the whole memfd, which never changes size; accesses are bounds-checked.
//! Who may write where is `extent`'s and `image`'s.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use crate::io::sys;

pub(super) struct Mapping {
    fd: OwnedFd,
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    pub fn new(len: usize) -> io::Result<Mapping> {
        // SAFETY: the name is a C string constant; the new descriptor is ours alone. Run by `arena::tests`.
        let fd = unsafe {
            let fd = sys::check(libc::memfd_create(c"arena".as_ptr(), libc::MFD_CLOEXEC))?;
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: no memory is involved. Run by `arena::tests`.
        sys::check(unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) })?;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours. Run by `arena::tests`.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("the kernel maps nothing at 0");
        let mapping = Mapping { fd, base, len };
        for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_DONTDUMP] {
            // SAFETY: advice on a mapping of our own that changes no byte of it. Run by `arena::tests`.
            let result = unsafe { libc::madvise(mapping.base.as_ptr().cast(), len, advice) };
            // A kernel without huge pages refuses the first one, which is as good.
            let _ = result;
        }
        Ok(mapping)
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of `offset`, from which `len` bytes are inside.
    pub fn address(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "bytes {offset}+{len} are beyond the arena of {}",
            self.len
        );
        // SAFETY: inside the mapping, just checked. Run by `arena::tests`.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Replaces the pages by new zeroed ones; packets that hold the old ones keep them.
    pub fn punch(&self, offset: usize, len: usize) -> io::Result<()> {
        // SAFETY: no memory of Rust's is involved: the caller frees the range, so no reference to it exists.
        // Run by `arena::tests::packet_in_flight_keeps_its_bytes`.
        let result = unsafe {
            libc::fallocate(
                self.fd.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset as libc::off_t,
                len as libc::off_t,
            )
        };
        sys::check(result).map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and the last handle on the arena is gone, so no reference into it is left.
        // Run by `arena::tests`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
