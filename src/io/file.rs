//! Files: a segment file that is written by whole blocks, and small files that are read or replaced whole.
//! A `SegmentFile` is owned by what drives one partition on its shard; all calls go through the shard's ring.
//! Always: a write that returned is on stable media; an error is final for the caller, nothing is tried again, and after a sync that
//! failed none succeeds; the same descriptor is used from the first write to the last sync.
//! What is in the blocks is `image`'s; what an error does to a partition is decided above.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use smallvec::SmallVec;

use super::arena::Pinned;
use super::blocking::{self, Lane};
use super::ring::{Memory, Ring};
use super::sync::{Permit, Semaphore};
use super::{executor, sys};
use crate::base::limits::BLOCK_BYTES;

/// What went wrong with a file, for a person and for the decision what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageError {
    pub path: PathBuf,
    /// What was tried: "open", "write", ...
    pub operation: &'static str,
    /// `libc::E...`; 0 for what has none, such as a file that is shorter than it must be.
    pub errno: i32,
    pub detail: String,
}

/// How a segment file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteMode {
    /// O_DIRECT and O_DSYNC: past the page cache.
    #[default]
    Direct,
    /// Through the page cache, then fdatasync: for file systems without O_DIRECT.
    Buffered,
}

/// One segment file, open for reading and writing.
#[derive(Clone)]
pub struct SegmentFile {
    /// `None` only while it is dropped.
    fd: Option<Rc<OwnedFd>>,
    path: Rc<Path>,
    mode: WriteMode,
    syncs: Rc<Syncs>,
}

/// Syncs of one open file. The kernel tells a failed write-back to one of them alone: so whose bytes it was must be known, and once
/// one has failed the others know nothing.
struct Syncs {
    /// In buffered mode held from a write to the end of its sync.
    turn: Semaphore,
    failed: Cell<bool>,
}

const SYNC: &str = "sync";
const SYNC_DIRECTORY: &str = "sync directory";
const BLOCK: u64 = BLOCK_BYTES;
/// Zeroes are written in pieces of this size.
const ZEROES_BYTES: usize = 1 << 20;
/// Files that are read whole are not larger.
const WHOLE_FILE_BYTES_MAX: u64 = 1 << 30;

impl SegmentFile {
    /// Opens a file that is there.
    pub async fn open(path: &Path, mode: WriteMode) -> Result<SegmentFile, StorageError> {
        Self::open_with(path, mode, 0).await
    }

    /// Makes a file that is not there yet, and makes its name durable.
    pub async fn create(path: &Path, mode: WriteMode) -> Result<SegmentFile, StorageError> {
        let file = Self::open_with(path, mode, libc::O_CREAT | libc::O_EXCL).await?;
        sync_dir(parent(path)).await?;
        Ok(file)
    }

    async fn open_with(
        path: &Path,
        mode: WriteMode,
        more: i32,
    ) -> Result<SegmentFile, StorageError> {
        let how = match mode {
            WriteMode::Direct => libc::O_DIRECT | DSYNC,
            WriteMode::Buffered => 0,
        };
        let fd = open(path, libc::O_RDWR | how | more).await?;
        Ok(SegmentFile {
            fd: Some(Rc::new(fd)),
            path: path.into(),
            mode,
            syncs: Rc::new(Syncs {
                turn: Semaphore::new(1),
                failed: Cell::new(false),
            }),
        })
    }

    fn fd(&self) -> &Rc<OwnedFd> {
        self.fd.as_ref().expect("only a dropped file has none")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn mode(&self) -> WriteMode {
        self.mode
    }

    /// The same file under another name, after a rename.
    #[must_use]
    pub fn renamed(&self, path: &Path) -> SegmentFile {
        let mut renamed = self.clone();
        renamed.path = path.into();
        renamed
    }

    /// Size in bytes.
    pub fn size(&self) -> Result<u64, StorageError> {
        file_size(self.fd()).map_err(self.error("stat"))
    }

    /// Writes `sources` one behind the other from `position`, whole blocks; durable when it returns.
    pub async fn write_blocks(
        &self,
        position: u64,
        sources: SmallVec<[Pinned; 2]>,
    ) -> Result<(), StorageError> {
        assert_blocks(position, &sources);
        let _turn = self.turn().await;
        let ring = Ring::current();
        let mut at = position;
        let mut left = sources;
        while !left.is_empty() {
            let op = if let [source] = &left[..] {
                ring.write_arena(self.fd(), at, source.clone())
            } else {
                ring.write_arena_vec(self.fd(), at, left.clone())
            };
            let (result, _) = op.await;
            let written = result.map_err(self.error("write"))? as usize;
            if written == 0 {
                return Err(self.short("write", at));
            }
            at += written as u64;
            advance(&mut left, written);
        }
        match self.mode {
            WriteMode::Direct => Ok(()),
            WriteMode::Buffered => self.sync_in_turn().await,
        }
    }

    /// Reads into `target` from `position` (a multiple of the block), until it is full or the file ends; gives the bytes read.
    /// Nobody may look at `target` meanwhile.
    pub async fn read_blocks(&self, position: u64, target: Pinned) -> Result<usize, StorageError> {
        assert_blocks(position, std::slice::from_ref(&target));
        let ring = Ring::current();
        let mut filled = 0;
        while filled < target.len() {
            let part = target.part(filled, target.len() - filled);
            let (result, _) = ring
                .read_arena(self.fd(), position + filled as u64, part)
                .await;
            let count = result.map_err(self.error("read"))? as usize;
            filled += count;
            // A count that is no multiple of the block is the end of the file, and can't be read on from with O_DIRECT.
            if count == 0 || !(count as u64).is_multiple_of(BLOCK) {
                break;
            }
        }
        Ok(filled)
    }

    /// Sets blocks of the disk aside for `from..to` and makes the file at least `to` long; what is new reads as zero.
    pub async fn preallocate(&self, from: u64, to: u64) -> Result<(), StorageError> {
        if to <= from {
            return Ok(());
        }
        let result = Ring::current()
            .fallocate(self.fd(), 0, from, to - from)
            .await;
        match result.map_err(|error| (error.raw_os_error(), error)) {
            Ok(()) => {}
            // A file system without it: the blocks come with the writes. The size does not matter to who reads.
            Err((Some(libc::EOPNOTSUPP), _)) => return Ok(()),
            Err((_, error)) => return Err(self.error("fallocate")(error)),
        }
        self.sync().await
    }

    /// Writes zeroes over `from..to` (whole blocks), so that later writes there change no metadata of the file system.
    pub async fn write_zeros(
        &self,
        from: u64,
        to: u64,
        zeroes: &Zeroes,
    ) -> Result<(), StorageError> {
        let mut at = from;
        while at < to {
            let len = (to - at).min(ZEROES_BYTES as u64) as usize;
            let source = zeroes.0.part(0, len);
            self.write_blocks(at, SmallVec::from_iter([source])).await?;
            at += len as u64;
        }
        Ok(())
    }

    /// Cuts the file (or makes it longer) to `size` bytes; durable when it returns.
    pub async fn truncate_and_sync(&self, size: u64) -> Result<(), StorageError> {
        // Not every kernel has the opcode (6.9), and it is a rare thing.
        let copy = loop {
            match self.fd().try_clone() {
                Err(error) if is_out_of_descriptors(&error) => {
                    executor::sleep(DESCRIPTOR_WAIT).await;
                }
                copy => break copy.map_err(self.error("truncate"))?,
            }
        };
        blocking::run(move || {
            // SAFETY: no memory is involved, the descriptor is open. Run by `file::tests`.
            sys::check(unsafe { libc::ftruncate(copy.as_raw_fd(), size as libc::off_t) })
        })
        .await
        .map_err(self.error("truncate"))?;
        self.sync().await
    }

    /// The error of a file that ends before byte `wanted`.
    pub fn too_short(&self, wanted: u64) -> StorageError {
        StorageError {
            path: self.path.to_path_buf(),
            operation: "read",
            errno: 0,
            detail: format!("the file ends before byte {wanted}"),
        }
    }

    /// fdatasync; an error is final.
    pub async fn sync(&self) -> Result<(), StorageError> {
        let _turn = self.turn().await;
        self.sync_in_turn().await
    }

    /// Past the page cache a write's error is its own; through it, it comes with a sync.
    async fn turn(&self) -> Option<Permit<'_>> {
        match self.mode {
            WriteMode::Direct => None,
            WriteMode::Buffered => Some(self.syncs.turn.acquire(1).await),
        }
    }

    async fn sync_in_turn(&self) -> Result<(), StorageError> {
        if self.syncs.failed.get() {
            return Err(StorageError {
                path: self.path.to_path_buf(),
                operation: SYNC,
                errno: libc::EIO,
                detail: "an earlier sync failed".to_owned(),
            });
        }
        let result = sync(self.fd(), false).await;
        self.syncs
            .failed
            .set(self.syncs.failed.get() | result.is_err());
        result.map_err(self.error(SYNC))
    }

    fn error(&self, operation: &'static str) -> impl FnOnce(io::Error) -> StorageError {
        let path = self.path.clone();
        move |error| StorageError::new(&path, operation, &error)
    }

    fn short(&self, operation: &'static str, position: u64) -> StorageError {
        StorageError {
            path: self.path.to_path_buf(),
            operation,
            errno: 0,
            detail: format!("no progress at byte {position}"),
        }
    }
}

impl Drop for SegmentFile {
    /// Closing the last descriptor of a file that was deleted frees its blocks, which takes as long as it takes.
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take().and_then(Rc::into_inner) {
            let lane = match has_name(&fd) {
                true => Lane::Short,
                false => Lane::Deletes,
            };
            blocking::submit(lane, Box::new(move || drop(fd)));
        }
    }
}

/// Zeroed arena memory to write from; one per shard is enough.
pub struct Zeroes(Pinned);

impl Zeroes {
    /// `None`: no room in the arena.
    pub fn new(arena: &super::arena::Arena) -> Option<Zeroes> {
        let extent = arena.allocate(ZEROES_BYTES)?;
        extent.zero(0, ZEROES_BYTES);
        Some(Zeroes(extent.pin(0, ZEROES_BYTES)))
    }
}

/// Reads a whole file; `None` if there is none.
pub async fn read_file(path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    let fd = match open(path, libc::O_RDONLY).await {
        Ok(fd) => Rc::new(fd),
        Err(error) if error.errno == libc::ENOENT => return Ok(None),
        Err(error) => return Err(error),
    };
    let error = |operation| move |error: io::Error| StorageError::new(path, operation, &error);
    let size = file_size(&fd).map_err(error("stat"))?;
    if size > WHOLE_FILE_BYTES_MAX {
        return Err(StorageError {
            path: path.to_owned(),
            operation: "read",
            errno: libc::EFBIG,
            detail: format!("{size} bytes are too many to read at once"),
        });
    }
    // One byte more: the end is seen without another read if the size is right.
    let mut bytes = vec![0; size as usize + 1];
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            bytes.resize(filled * 2, 0);
        }
        let op = Ring::current().read_heap(&fd, filled as u64, bytes, filled);
        let (result, memory) = op.await;
        bytes = heap(memory);
        let count = result.map_err(error("read"))? as usize;
        if count == 0 {
            break;
        }
        filled += count;
    }
    bytes.truncate(filled);
    Ok(Some(bytes))
}

/// Replaces a file by `bytes`: a crash leaves the old one or the new one, whole. Durable when it returns.
pub async fn write_file_atomically(path: &Path, bytes: Vec<u8>) -> Result<(), StorageError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    match write_new(&temporary, bytes).await {
        Ok(()) => rename(&temporary, path).await,
        Err(error) => {
            // On a full disk what was written of it would be missed.
            let _ = delete(&temporary).await;
            Err(error)
        }
    }
}

async fn write_new(path: &Path, mut bytes: Vec<u8>) -> Result<(), StorageError> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    let fd = Rc::new(open(path, flags).await?);
    let error = |operation| move |error: io::Error| StorageError::new(path, operation, &error);
    let mut written = 0;
    while written < bytes.len() {
        let op = Ring::current().write_heap(&fd, written as u64, bytes, written);
        let (result, memory) = op.await;
        bytes = heap(memory);
        let count = result.map_err(error("write"))? as usize;
        if count == 0 {
            return Err(error("write")(io::ErrorKind::WriteZero.into()));
        }
        written += count;
    }
    // Nothing but this file is lost if it fails: unlike that of a log, this sync may be repeated, with the writes.
    sync(&fd, false).await.map_err(error("flush"))
}

/// Renames a file (over another, if there is one) and makes it durable. Both names are in the same directory.
pub async fn rename(from: &Path, to: &Path) -> Result<(), StorageError> {
    let error = |error: io::Error| StorageError::new(from, "rename", &error);
    let (old, new) = (
        sys::c_path(from).map_err(error)?,
        sys::c_path(to).map_err(error)?,
    );
    Ring::current().rename(old, new).await.map_err(error)?;
    sync_dir(parent(to)).await
}

/// Removes the name of a file and makes that durable; it's no error if there is none.
pub async fn delete(path: &Path) -> Result<(), StorageError> {
    let error = |error: io::Error| StorageError::new(path, "delete", &error);
    let name = sys::c_path(path).map_err(error)?;
    match Ring::current().unlink(name).await {
        Err(gone) if gone.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
        result => result.map_err(error)?,
    }
    sync_dir(parent(path)).await
}

/// Copies a file from byte `from` on to the same place of another, but for what is zero there, and makes the copy's bytes durable.
/// A copy that is there already is replaced.
pub async fn copy_rest(path: &Path, from: u64, copy: &Path) -> Result<(), StorageError> {
    let (source, target) = (path.to_owned(), copy.to_owned());
    let work = move || {
        let (source, target) = (File::open(source)?, File::create(target)?);
        let mut piece = vec![0; COPY_BYTES];
        let mut at = from;
        loop {
            let count = source.read_at(&mut piece, at)?;
            if count == 0 {
                return target.sync_all();
            }
            if piece[..count].iter().any(|byte| *byte != 0) {
                target.write_all_at(&piece[..count], at)?;
            }
            at += count as u64;
        }
    };
    // It may take as long as a delete does.
    blocking::run_in(Lane::Deletes, work)
        .await
        .map_err(|error| StorageError::new(copy, "copy", &error))
}

const COPY_BYTES: usize = 1 << 20;

/// Bytes of the file system that holds `path`: all, and free for us.
pub async fn space(path: &Path) -> Result<(u64, u64), StorageError> {
    let wanted = sys::c_path(path).map_err(|error| StorageError::new(path, "statvfs", &error))?;
    let result = blocking::run(move || {
        // SAFETY: the kernel fills the structure, whose all-zero value is valid; the name ends in a zero byte. Run by
        // `file::tests`.
        unsafe {
            let mut found: libc::statvfs = std::mem::zeroed();
            sys::check(libc::statvfs(wanted.as_ptr(), &mut found)).map(|_| found)
        }
    });
    let found = result
        .await
        .map_err(|error| StorageError::new(path, "statvfs", &error))?;
    let unit = found.f_frsize as u64;
    Ok((found.f_blocks as u64 * unit, found.f_bavail as u64 * unit))
}

/// Makes the names in a directory durable.
pub async fn sync_dir(path: &Path) -> Result<(), StorageError> {
    let fd = Rc::new(open(path, libc::O_RDONLY | libc::O_DIRECTORY).await?);
    sync(&fd, true)
        .await
        .map_err(|error| StorageError::new(path, SYNC_DIRECTORY, &error))
}

/// Makes a directory and those above it that are missing, and makes their names durable; no error if it is there.
pub async fn create_dir(path: &Path) -> Result<(), StorageError> {
    let wanted = path.to_owned();
    blocking::run(move || create_dir_now(&wanted))
        .await
        .map_err(|error| StorageError::new(path, "make directory", &error))
}

/// As `create_dir`, before there is a shard.
pub(super) fn create_dir_now(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
        .collect();
    std::fs::create_dir_all(path)?;
    // A name that a power cut takes away would take all below with it.
    for made in missing {
        let parent = loop {
            match std::fs::File::open(parent(made)) {
                Err(error) if is_out_of_descriptors(&error) => std::thread::sleep(DESCRIPTOR_WAIT),
                opened => break opened?,
            }
        };
        parent.sync_all()?;
    }
    Ok(())
}

/// Removes a directory with all that is in it and makes that durable; no error if there is none.
pub async fn delete_dir(path: &Path) -> Result<(), StorageError> {
    let wanted = path.to_owned();
    let remove = move || std::fs::remove_dir_all(wanted);
    let result = blocking::run_in(Lane::Deletes, remove).await;
    match result {
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.map_err(|error| StorageError::new(path, "delete directory", &error))?,
    }
    sync_dir(parent(path)).await
}

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DirEntry {
    pub name: String,
    pub is_dir: bool,
    pub size: u64,
}

/// The names in a directory, sorted; names that are not UTF-8 are left out, they are none of ours.
pub async fn read_dir(path: &Path) -> Result<Vec<DirEntry>, StorageError> {
    let wanted = path.to_owned();
    blocking::run(move || list(&wanted))
        .await
        .map_err(|error| StorageError::new(path, "read directory", &error))
}

fn list(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // It was removed since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let Ok(name) = entry.file_name().into_string() {
            entries.push(DirEntry {
                name,
                is_dir: metadata.is_dir(),
                size: metadata.len(),
            });
        }
    }
    entries.sort();
    Ok(entries)
}

async fn open(path: &Path, flags: i32) -> Result<OwnedFd, StorageError> {
    let error = |error: io::Error| StorageError::new(path, "open", &error);
    let name = sys::c_path(path).map_err(error)?;
    let mut told = false;
    loop {
        let ring = Ring::current();
        let opened = ring.open(name.clone(), flags | libc::O_CLOEXEC, 0o640);
        match opened.await {
            // Nothing has happened, and others give descriptors back all the time.
            Err(none_left) if is_out_of_descriptors(&none_left) => {
                if !told {
                    told = true;
                    tracing::warn!(
                        "{} waits to be opened: no descriptors are left; raise the limit (ulimit -n 65536, or LimitNOFILE=65536 in the service)",
                        path.display()
                    );
                }
                executor::sleep(DESCRIPTOR_WAIT).await;
            }
            result => return result.map_err(error),
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

const DESCRIPTOR_WAIT: Duration = Duration::from_millis(20);

/// fdatasync, or fsync with `metadata`.
async fn sync(fd: &Rc<OwnedFd>, metadata: bool) -> io::Result<()> {
    if cfg!(feature = "unsafe-no-fsync") {
        return Ok(());
    }
    Ring::current().sync(fd, metadata).await
}

/// Left out only to prove that the power-cut test notices.
const DSYNC: i32 = if cfg!(feature = "unsafe-no-fsync") {
    0
} else {
    libc::O_DSYNC
};

fn file_size(fd: &OwnedFd) -> io::Result<u64> {
    Ok(stat(fd)?.st_size as u64)
}

/// False for a file that was deleted: the last descriptor closed frees its blocks.
fn has_name(fd: &OwnedFd) -> bool {
    stat(fd).is_ok_and(|stat| stat.st_nlink > 0)
}

fn stat(fd: &OwnedFd) -> io::Result<libc::stat> {
    // SAFETY: an all-zero stat is a value of the type. Run by `file::tests`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure it is given. Run by `file::tests`.
    sys::check(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
    Ok(stat)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Leaves out the first `count` bytes.
fn advance(sources: &mut SmallVec<[Pinned; 2]>, mut count: usize) {
    while count > 0 {
        let first = sources
            .first_mut()
            .expect("no more is written than was given");
        if count < first.len() {
            *first = first.part(count, first.len() - count);
            return;
        }
        count -= first.len();
        sources.remove(0);
    }
}

fn assert_blocks(position: u64, sources: &[Pinned]) {
    assert!(
        position.is_multiple_of(BLOCK),
        "{position} is inside a block"
    );
    for source in sources {
        assert!(
            (source.len() as u64).is_multiple_of(BLOCK)
                && (source.address() as u64).is_multiple_of(BLOCK),
            "{source:?} is not whole blocks"
        );
    }
}

fn heap(memory: Memory) -> Vec<u8> {
    match memory {
        Memory::Heap(bytes) => bytes,
        _ => unreachable!("a slot gives back the memory it was given"),
    }
}

impl StorageError {
    /// The disk is full (or the quota is), and nothing that was there before is lost by it: a sync that fails for want of space is as
    /// final as any.
    pub fn is_no_space(&self) -> bool {
        let synced = matches!(self.operation, SYNC | SYNC_DIRECTORY);
        matches!(self.errno, libc::ENOSPC | libc::EDQUOT) && !synced
    }

    /// As if the disk were full: what is left of it is kept for something else.
    pub fn no_space(path: &Path, operation: &'static str, detail: String) -> StorageError {
        StorageError {
            path: path.to_owned(),
            operation,
            errno: libc::ENOSPC,
            detail,
        }
    }

    /// There is no such file.
    pub fn is_not_found(&self) -> bool {
        self.errno == libc::ENOENT
    }

    /// There is such a file already, or such a directory with something in it.
    pub fn exists(&self) -> bool {
        matches!(self.errno, libc::EEXIST | libc::ENOTEMPTY)
    }

    pub fn new(path: &Path, operation: &'static str, error: &io::Error) -> StorageError {
        StorageError {
            path: path.to_owned(),
            operation,
            errno: error.raw_os_error().unwrap_or(0),
            detail: error.to_string(),
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} failed: {}",
            self.operation,
            self.path.display(),
            self.detail
        )
    }
}

impl std::error::Error for StorageError {}

#[cfg(test)]
mod tests;
