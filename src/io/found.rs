//! Puts on the disk what an earlier process left, before anybody believes it.
//! Called once at start, before there is a shard; blocks, on threads of its own.
//! Always: a file that is synced without error is read from the disk from then on, not from what the page cache held.
//! Which files, and what becomes of one that can't be synced, is the caller's.
//!
//! A process that was killed between a write and its sync, or whose sync failed, leaves bytes in the page cache (or in the cache of
//! the device) that every read gives and a power cut takes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::file::StorageError;

/// A directory and those of its files that are to be synced.
#[derive(Clone, Debug)]
pub struct Left {
    pub directory: PathBuf,
    pub files: Vec<PathBuf>,
}

/// Syncs them all; what went wrong, by the place in `all`. Many at a time: a disk answers many syncs with one flush.
pub fn sync(all: &[Left]) -> Vec<(usize, StorageError)> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(left) = all.get(at) else { return };
            if let Err(error) = sync_one(left) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push((at, error));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..all.len().min(THREADS) {
            scope.spawn(work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn sync_one(left: &Left) -> Result<(), StorageError> {
    for path in &left.files {
        let error = |operation| move |error: io::Error| StorageError::new(path, operation, &error);
        let file = File::open(path).map_err(error("open"))?;
        file.sync_data().map_err(error("sync"))?;
        drop_cached(&file).map_err(error("drop cached pages"))?;
    }
    sync_directory(&left.directory)
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: &Path) -> Result<(), StorageError> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| StorageError::new(path, "sync directory", &error))
}

fn drop_cached(file: &File) -> io::Result<()> {
    // SAFETY: no memory is involved, the descriptor is open. Run by `tests`.
    let errno = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

const THREADS: usize = 16;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_found_is_read_from_the_disk_and_not_from_the_page_cache() {
        // On the file system of the build: `/tmp` may be memory.
        let data = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let all: Vec<_> = (0..40)
            .map(|number| {
                let directory = data.path().join(number.to_string());
                fs::create_dir(&directory).unwrap();
                let files: Vec<_> = (0..2).map(|n| directory.join(n.to_string())).collect();
                for file in &files {
                    // As a process leaves it that was killed before its sync.
                    fs::write(file, vec![7; 64 << 10]).unwrap();
                    assert!(cached_pages(file) > 0);
                }
                Left { directory, files }
            })
            .collect();
        assert_eq!(sync(&all), []);
        for file in all.iter().flat_map(|left| &left.files) {
            assert_eq!(cached_pages(file), 0, "dirty or still believed");
            assert_eq!(fs::read(file).unwrap(), vec![7; 64 << 10]);
        }
        fs::remove_file(&all[17].files[1]).unwrap();
        let failed = sync(&all);
        assert_eq!(failed.len(), 1);
        assert_eq!((failed[0].0, &failed[0].1.path), (17, &all[17].files[1]));
        assert_eq!(sync(&[]), []);
    }

    /// Pages of a file that the kernel has in memory.
    fn cached_pages(path: &Path) -> usize {
        let file = File::open(path).unwrap();
        let len = file.metadata().unwrap().len() as usize;
        let mut pages = vec![0u8; len.div_ceil(4096)];
        // SAFETY: the mapping is only asked about, and is as long as the file, which nobody cuts; `pages` has a byte for each page.
        unsafe {
            let map = libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(map, libc::MAP_FAILED);
            assert_eq!(libc::mincore(map, len, pages.as_mut_ptr()), 0);
            assert_eq!(libc::munmap(map, len), 0);
        }
        pages.iter().filter(|page| **page & 1 != 0).count()
    }
}
