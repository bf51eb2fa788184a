//! The memfd of an arena and its mapping: raw memory and the system calls on it.
//! Owned by `ArenaState`; lives until the last extent is gone.
//! Always: the mapping covers the whole memfd, which never changes size, and begins at a multiple of `HUGE_BYTES`; accesses are
//! bounds-checked.
//! Who may write where is `extent`'s and `image`'s.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use crate::base::limits::BLOCK_BYTES;
use crate::io::sys;

/// A huge page.
pub(super) const HUGE_BYTES: usize = 2 << 20;

pub(super) struct Mapping {
    fd: OwnedFd,
    base: NonNull<u8>,
    len: usize,
    /// Addresses that were reserved for it, and how many.
    reserved: (NonNull<u8>, usize),
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
        let room = len + HUGE_BYTES;
        let none = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours. Run by `arena::tests`.
        let reserved = mapped(unsafe {
            libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, none, -1, 0)
        })?;
        let skipped = reserved.addr().get().next_multiple_of(HUGE_BYTES) - reserved.addr().get();
        // SAFETY: less than HUGE_BYTES into the reservation. Run by `arena::tests`.
        let aligned = unsafe { reserved.add(skipped) };
        // SAFETY: replaces a part of the reservation made above, which nobody else knows. Run by `arena::tests`.
        let base = mapped(unsafe {
            libc::mmap(
                aligned.as_ptr().cast(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
                fd.as_raw_fd(),
                0,
            )
        });
        let mapping = Mapping {
            fd,
            base: aligned,
            len,
            reserved: (reserved, room),
        };
        base?;
        // A kernel without huge pages refuses the first one, which is as good.
        let _ = mapping.advise(0, len, libc::MADV_HUGEPAGE);
        let _ = mapping.advise(0, len, libc::MADV_DONTDUMP);
        Ok(mapping)
    }

    /// Makes one huge page of `HUGE_BYTES` from `offset` on, whatever the system's settings are (Linux 6.1). Otherwise its pages
    /// stay small.
    pub fn make_huge(&self, offset: usize) -> io::Result<()> {
        // Where there is no page at all, none is made huge.
        self.advise(offset, BLOCK_BYTES as usize, libc::MADV_POPULATE_WRITE)?;
        self.advise(offset, HUGE_BYTES, libc::MADV_COLLAPSE)
    }

    fn advise(&self, offset: usize, len: usize, advice: libc::c_int) -> io::Result<()> {
        let address = self.address(offset, len).cast();
        // SAFETY: advice on a mapping of our own that changes no byte of it. Run by `arena::tests`.
        sys::check(unsafe { libc::madvise(address, len, advice) }).map(drop)
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

    /// Replaces the pages by new zeroed ones; packets that hold the old ones keep them. Only whole huge pages, see `regions`.
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

// SAFETY: a descriptor, addresses and lengths that never change; what it does is system calls. Who may touch the bytes, and on
// which thread, is decided by `extent`. Run by `arena::tests`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and the last handle on the arena is gone, so no reference into it is left.
        // Run by `arena::tests`.
        unsafe { libc::munmap(self.reserved.0.as_ptr().cast(), self.reserved.1) };
    }
}

/// What `mmap` returned.
fn mapped(address: *mut libc::c_void) -> io::Result<NonNull<u8>> {
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(address.cast::<u8>()).expect("the kernel maps nothing at 0"))
}
