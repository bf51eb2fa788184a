use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use futures_lite::future::poll_once;

use super::*;
use crate::io::arena::Arena;
use crate::io::executor::{self, spawn};
use crate::io::sys;
use crate::io::testing::{connection, on_shard, pattern, quick, timed};

async fn open(path: &Path) -> Rc<OwnedFd> {
    let name = sys::c_path(path).expect("no NUL");
    let ring = Ring::current();
    let fd = ring.open(name, libc::O_RDWR | libc::O_CREAT, 0o600).await;
    Rc::new(fd.expect("opens"))
}

#[test]
fn file_operations() {
    on_shard(|| async {
        let dir = tempfile::tempdir().expect("scratch directory");
        let ring = Ring::current();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let fd = open(&old).await;
        let (written, _) = ring.write_heap(&fd, 3, b"..abc".to_vec(), 2).await;
        assert_eq!(written.expect("writes"), 3);
        ring.sync(&fd, false).await.expect("fdatasync");
        ring.sync(&fd, true).await.expect("fsync");
        ring.fallocate(&fd, 0, 0, 100).await.expect("fallocate");
        let c = |path: &Path| sys::c_path(path).expect("no NUL");
        ring.rename(c(&old), c(&new)).await.expect("rename");
        let (count, memory) = ring.read_heap(&fd, 0, vec![9; 200], 0).await;
        assert_eq!(count.expect("reads"), 100);
        let Memory::Heap(bytes) = memory else {
            panic!("the memory of a heap read")
        };
        assert_eq!(&bytes[..8], b"\0\0\0abc\0\0");
        ring.unlink(c(&new)).await.expect("unlink");
        let gone = ring.open(c(&new), libc::O_RDONLY, 0).await;
        assert_eq!(gone.unwrap_err().raw_os_error(), Some(libc::ENOENT));
    });
}

#[test]
fn dropped_write_keeps_its_memory() {
    on_shard(|| async {
        let dir = tempfile::tempdir().expect("scratch directory");
        let ring = Ring::current();
        let path = dir.path().join("file");
        let fd = open(&path).await;
        let arena = Arena::new(1 << 20).expect("arena");
        let extent = arena.allocate(1 << 20).expect("room");
        let bytes = pattern(1, 1 << 20);
        extent.copy_in(0, &bytes);
        drop(ring.write_arena(&fd, 0, extent.pin(0, 1 << 20)));
        drop(extent);
        // Nothing was submitted yet, and nothing refers to the memory but the operation.
        assert_eq!(arena.free(), 0, "freed under a write in flight");
        assert_eq!(ring.in_flight(), 2, "the write and the doorbell");
        while ring.in_flight() > 1 {
            executor::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(arena.used(), 0);
        assert_eq!(std::fs::read(&path).expect("reads"), bytes);
    });
}

#[test]
fn dropped_poll_is_cancelled() {
    on_shard(|| async {
        let (_client, server) = connection().await;
        let before = Ring::current().in_flight();
        let mut waiting = Box::pin(server.readable());
        assert!(poll_once(&mut waiting).await.is_none());
        assert_eq!(Ring::current().in_flight(), before + 1);
        drop(waiting);
        while Ring::current().in_flight() > before {
            executor::sleep(Duration::from_millis(1)).await;
        }
        let server = Rc::try_unwrap(server).ok().expect("one owner");
        assert!(server.into_fd().is_ok(), "the poll holds the descriptor");
    });
}

#[test]
fn more_operations_than_the_queue_holds_all_complete() {
    on_shard(|| async {
        let dir = tempfile::tempdir().expect("scratch directory");
        let fd = open(&dir.path().join("file")).await;
        let ring = Ring::current();
        let count = RING_DEPTH as u64 * 6;
        let tasks: Vec<_> = (0..count)
            .map(|n| {
                let (ring, fd) = (ring.clone(), fd.clone());
                spawn(async move {
                    let op = ring.write_heap(&fd, n * 8, n.to_le_bytes().to_vec(), 0);
                    op.await.0.expect("writes")
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await, 8);
        }
        assert!(ring.counters().queue_full > 0, "the queue was never full");
        let (_, memory) = ring.read_heap(&fd, 0, vec![0; count as usize * 8], 0).await;
        let Memory::Heap(bytes) = memory else {
            panic!("the memory of a heap read")
        };
        for (n, word) in bytes.chunks(8).enumerate() {
            assert_eq!(word, (n as u64).to_le_bytes());
        }
    });
}

#[test]
fn one_round_is_one_submit() {
    on_shard(|| async {
        let dir = tempfile::tempdir().expect("scratch directory");
        let fd = open(&dir.path().join("file")).await;
        let ring = Ring::current();
        let before = ring.counters();
        let ops: Vec<_> = (0..100)
            .map(|n| ring.write_heap(&fd, n, vec![1], 0))
            .collect();
        executor::yield_now().await;
        let after = ring.counters();
        assert_eq!(after.started - before.started, 100);
        let calls = after.submits + after.sleeps - before.submits - before.sleeps;
        assert_eq!(calls, 1, "system calls for 100 operations");
        for op in ops {
            op.await.0.expect("writes");
        }
    });
}

#[test]
fn completion_wakes_a_sleeping_shard_at_once() {
    on_shard(|| async {
        let (client, server) = connection().await;
        executor::sleep(Duration::from_millis(10)).await;
        let echo = spawn(async move {
            let mut byte = [0];
            while server.recv(&mut byte).await.expect("reads") == 1 {
                server.send(&byte, false).await.expect("sends");
            }
        });
        let mut times = Vec::new();
        for _ in 0..200 {
            let (_, time) = timed(async {
                client.send(b"x", false).await.expect("sends");
                client.recv(&mut [0]).await.expect("reads");
            })
            .await;
            times.push(time);
        }
        client.shutdown();
        echo.await;
        let quick = quick(times);
        assert!(quick < Duration::from_millis(1), "round trip {quick:?}");
    });
}

#[test]
fn shard_that_ends_waits_for_its_writes() {
    let dir = tempfile::tempdir().expect("scratch directory");
    let path = dir.path().join("file");
    let file = path.clone();
    on_shard(move || async move {
        let fd = open(&file).await;
        for n in 0..64 {
            drop(Ring::current().write_heap(&fd, n << 16, pattern(n, 1 << 16), 0));
        }
    });
    let bytes = std::fs::read(&path).expect("reads");
    for n in 0..64u64 {
        let at = (n << 16) as usize;
        assert_eq!(bytes[at..at + (1 << 16)], pattern(n, 1 << 16));
    }
}
