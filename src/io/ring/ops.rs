//! The operations of the companion ring. Each starts when it is called, not when it is first polled.
//! Used by `file`, `socket`, `doorbell` and `signal`; the shard itself calls those.
//! Always: an entry points only into what its slot owns.
//! Loops for short reads and writes, and what an error means, are the caller's.

use std::ffi::CString;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use smallvec::SmallVec;

use super::slots::{Hold, IoVecs, Memory};
use super::{IGNORED, Ring};
use crate::io::arena::Pinned;

/// An operation under way; gives the result and the memory back.
/// Dropped: a wait (poll, word read) is cancelled, anything else runs to its end unseen.
#[must_use = "the result of an operation is lost"]
pub struct Op {
    ring: Ring,
    index: u32,
    finished: bool,
}

impl Ring {
    /// Waits until `fd` is ready for one of `events` (`libc::POLLIN`, ...); gives the events that are.
    pub async fn poll(&self, fd: &Rc<OwnedFd>, events: i32) -> io::Result<i32> {
        let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), events as u32).build();
        let (result, _) = self.start(entry, fd, Memory::None, true).await;
        result.map(|events| events as i32)
    }

    /// Reads the counter of an eventfd (blocking or not: the ring waits), which sets it to zero.
    pub async fn read_word(&self, fd: &Rc<OwnedFd>) -> io::Result<u64> {
        let mut word = Box::new(0u64);
        let address: *mut u64 = &mut *word;
        let entry = opcode::Read::new(types::Fd(fd.as_raw_fd()), address.cast(), 8).build();
        let (result, memory) = self.start(entry, fd, Memory::Word(word), true).await;
        result?;
        match memory {
            Memory::Word(word) => Ok(*word),
            _ => unreachable!("a slot gives back the memory it was given"),
        }
    }

    /// Waits for `duration`.
    pub async fn timeout(&self, duration: Duration) -> io::Result<()> {
        let time = Box::new(types::Timespec::from(duration));
        let address: *const types::Timespec = &*time;
        let entry = opcode::Timeout::new(address).build();
        let (result, _) = self.start_with(entry, None, Memory::Time(time), true).await;
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Writes arena memory at `position`; may be short.
    pub fn write_arena(&self, fd: &Rc<OwnedFd>, position: u64, source: Pinned) -> Op {
        let entry = opcode::Write::new(
            types::Fd(fd.as_raw_fd()),
            source.address(),
            source.len() as u32,
        )
        .offset(position)
        .build();
        self.start(entry, fd, Memory::Arena(source), false)
    }

    /// Writes several pieces of arena memory one behind the other at `position`; may be short.
    pub fn write_arena_vec(
        &self,
        fd: &Rc<OwnedFd>,
        position: u64,
        sources: SmallVec<[Pinned; 2]>,
    ) -> Op {
        let vector: Box<[libc::iovec]> = sources
            .iter()
            .map(|source| libc::iovec {
                iov_base: source.address().cast_mut().cast(),
                iov_len: source.len(),
            })
            .collect();
        // Moving the box moves no vector element.
        let entry = opcode::Writev::new(
            types::Fd(fd.as_raw_fd()),
            vector.as_ptr(),
            vector.len() as u32,
        )
        .offset(position)
        .build();
        self.start(entry, fd, Memory::ArenaVec(sources, IoVecs(vector)), false)
    }

    /// Reads into arena memory that nobody else looks at; may be short, 0 at the end of the file.
    pub fn read_arena(&self, fd: &Rc<OwnedFd>, position: u64, target: Pinned) -> Op {
        let entry = opcode::Read::new(
            types::Fd(fd.as_raw_fd()),
            target.address().cast_mut(),
            target.len() as u32,
        )
        .offset(position)
        .build();
        self.start(entry, fd, Memory::Arena(target), false)
    }

    /// Writes `bytes[skip..]` at `position`; may be short.
    pub fn write_heap(&self, fd: &Rc<OwnedFd>, position: u64, bytes: Vec<u8>, skip: usize) -> Op {
        let tail = &bytes[skip..];
        let length = tail.len().min(HEAP_BYTES_MAX) as u32;
        let entry = opcode::Write::new(types::Fd(fd.as_raw_fd()), tail.as_ptr(), length)
            .offset(position)
            .build();
        self.start(entry, fd, Memory::Heap(bytes), false)
    }

    /// Reads into `bytes[skip..]` from `position`; may be short, 0 at the end of the file.
    pub fn read_heap(
        &self,
        fd: &Rc<OwnedFd>,
        position: u64,
        mut bytes: Vec<u8>,
        skip: usize,
    ) -> Op {
        let tail = &mut bytes[skip..];
        let length = tail.len().min(HEAP_BYTES_MAX) as u32;
        let entry = opcode::Read::new(types::Fd(fd.as_raw_fd()), tail.as_mut_ptr(), length)
            .offset(position)
            .build();
        self.start(entry, fd, Memory::Heap(bytes), false)
    }

    /// fdatasync, or fsync with `metadata`.
    pub async fn sync(&self, fd: &Rc<OwnedFd>, metadata: bool) -> io::Result<()> {
        let flags = if metadata {
            types::FsyncFlags::empty()
        } else {
            types::FsyncFlags::DATASYNC
        };
        let entry = opcode::Fsync::new(types::Fd(fd.as_raw_fd()))
            .flags(flags)
            .build();
        let (result, _) = self.start(entry, fd, Memory::None, false).await;
        result.map(drop)
    }

    /// fallocate with `mode` (`libc::FALLOC_FL_*`).
    pub async fn fallocate(
        &self,
        fd: &Rc<OwnedFd>,
        mode: i32,
        position: u64,
        length: u64,
    ) -> io::Result<()> {
        let entry = opcode::Fallocate::new(types::Fd(fd.as_raw_fd()), length)
            .offset(position)
            .mode(mode)
            .build();
        let (result, _) = self.start(entry, fd, Memory::None, false).await;
        result.map(drop)
    }

    /// openat from the working directory.
    pub async fn open(&self, path: CString, flags: i32, mode: u32) -> io::Result<OwnedFd> {
        let entry = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr())
            .flags(flags)
            .mode(mode)
            .build();
        let (result, _) = self.start_at(entry, Memory::Path(path)).await;
        let fd = result? as i32;
        // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
        // `ring::tests::file_operations` runs it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    pub async fn rename(&self, from: CString, to: CString) -> io::Result<()> {
        let entry = opcode::RenameAt::new(
            types::Fd(libc::AT_FDCWD),
            from.as_ptr(),
            types::Fd(libc::AT_FDCWD),
            to.as_ptr(),
        )
        .build();
        let (result, _) = self.start_at(entry, Memory::Paths(from, to)).await;
        result.map(drop)
    }

    pub async fn unlink(&self, path: CString) -> io::Result<()> {
        let entry = opcode::UnlinkAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr()).build();
        let (result, _) = self.start_at(entry, Memory::Path(path)).await;
        result.map(drop)
    }

    fn start_at(&self, entry: Entry, memory: Memory) -> Op {
        self.start_with(entry, None, memory, false)
    }

    fn start(&self, entry: Entry, fd: &Rc<OwnedFd>, memory: Memory, cancellable: bool) -> Op {
        self.start_with(entry, Some(fd.clone()), memory, cancellable)
    }

    fn start_with(
        &self,
        entry: Entry,
        fd: Option<Rc<OwnedFd>>,
        memory: Memory,
        cancellable: bool,
    ) -> Op {
        let (index, user_data) = self.0.slots.borrow_mut().begin(Hold {
            fd,
            memory,
            cancellable,
        });
        self.push(entry.user_data(user_data));
        Op {
            ring: self.clone(),
            index,
            finished: false,
        }
    }
}

impl Future for Op {
    type Output = (io::Result<u32>, Memory);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.ring.0.slots.borrow_mut().poll(self.index, cx.waker());
        let Some((result, hold)) = answer else {
            return Poll::Pending;
        };
        self.finished = true;
        let result = if result < 0 {
            Err(io::Error::from_raw_os_error(-result))
        } else {
            Ok(result as u32)
        };
        Poll::Ready((result, hold.memory))
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if self.finished || self.ring.0.closed.get() {
            return;
        }
        let left = self.ring.0.slots.borrow_mut().abandon(self.index);
        match left {
            Ok(Some(user_data)) => self.ring.push(cancel(user_data)),
            Ok(None) => {}
            Err(hold) => drop(hold),
        }
    }
}

/// Asks the kernel to end a wait.
pub(super) fn cancel(user_data: u64) -> Entry {
    opcode::AsyncCancel::new(user_data)
        .build()
        .user_data(IGNORED)
}

/// Most bytes of one read or write; the kernel takes no more than 2 GiB - 4 KiB.
const HEAP_BYTES_MAX: usize = 1 << 30;
