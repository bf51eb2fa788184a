use std::path::Path;
use std::time::Duration;

use smallvec::smallvec;

use super::*;
use crate::io::arena::Arena;
use crate::io::executor::{self, spawn};
use crate::io::image::FileImage;
use crate::io::testing::{on_shard, pattern};

/// A scratch directory on the file system of the build (`/tmp` may be memory, which has no O_DIRECT).
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("scratch directory")
}

fn arena() -> Arena {
    Arena::new(16 << 20).expect("arena")
}

#[test]
fn blocks_written_past_the_page_cache_are_read_back() {
    for mode in [WriteMode::Direct, WriteMode::Buffered] {
        on_shard(move || async move {
            let dir = scratch();
            let path = dir.path().join("segment");
            let file = SegmentFile::create(&path, mode).await.expect("creates");
            let arena = arena();
            let bytes = pattern(1, 1 << 20);
            let extent = arena.allocate(1 << 20).expect("room");
            extent.copy_in(0, &bytes);
            // Two pieces of memory, one write; then one piece.
            let halves = smallvec![extent.pin(0, 4096), extent.pin(524_288, 524_288)];
            file.write_blocks(0, halves).await.expect("writes");
            let rest = smallvec![extent.pin(4096, 8192)];
            file.write_blocks(528_384, rest).await.expect("writes");
            let expected = [&bytes[..4096], &bytes[524_288..], &bytes[4096..12_288]].concat();
            assert_eq!(file.size().expect("stat"), expected.len() as u64);
            let target = arena.allocate(1 << 20).expect("room");
            let count = file.read_blocks(0, target.pin(0, 1 << 20)).await;
            assert_eq!(
                count,
                Ok(expected.len()),
                "less than was asked for: the end"
            );
            assert!(target.pin(0, expected.len()).bytes() == expected);
            let count = file.read_blocks(1 << 20, target.pin(0, 4096)).await;
            assert_eq!(count, Ok(0), "behind the end");
            assert!(std::fs::read(&path).expect("reads") == expected);
        });
    }
}

#[test]
fn direct_write_is_in_flight_while_the_shard_runs() {
    on_shard(|| async {
        let dir = scratch();
        let file = SegmentFile::create(&dir.path().join("segment"), WriteMode::Direct)
            .await
            .expect("creates");
        file.preallocate(0, 8 << 20).await.expect("preallocates");
        assert_eq!(file.size().expect("stat"), 8 << 20);
        let arena = arena();
        let extent = arena.allocate(8 << 20).expect("room");
        let tasks: Vec<_> = (0..8u64)
            .map(|n| {
                let at = (n << 20) as usize;
                extent.fill(at, 1 << 20, |bytes| bytes.fill(n as u8 + 1));
                let (file, source) = (file.clone(), extent.pin(at, 1 << 20));
                spawn(async move { file.write_blocks(n << 20, smallvec![source]).await })
            })
            .collect();
        executor::yield_now().await;
        assert!(Ring::current().in_flight() >= 8, "they go one by one");
        for task in tasks {
            task.await.expect("writes");
        }
        let bytes = std::fs::read(file.path()).expect("reads");
        for (n, part) in bytes.chunks(1 << 20).enumerate() {
            assert!(part.iter().all(|&byte| byte == n as u8 + 1));
        }
    });
}

#[test]
fn image_goes_to_the_file_and_back() {
    on_shard(|| async {
        let dir = scratch();
        let path = dir.path().join("segment");
        let file = SegmentFile::create(&path, WriteMode::Direct)
            .await
            .expect("creates");
        let arena = arena();
        let mut image = FileImage::new(arena.clone(), 61, 0, &[]);
        let mut expected = Vec::new();
        let mut durable = 0;
        for n in 0..30 {
            let record = pattern(n, 3_000 + 7_001 * n as usize);
            image.append(&[&record]).expect("room");
            expected.extend(record);
            let range = durable - durable % 4096..image.write_end(image.end());
            let sources = image.write_sources(range.clone()).expect("in memory");
            file.write_blocks(range.start, sources)
                .await
                .expect("writes");
            durable = image.end();
            image.evict_durable(durable / 2);
        }
        let bytes = std::fs::read(&path).expect("reads");
        assert!(bytes[..expected.len()] == expected);
        assert!(bytes[expected.len()..].iter().all(|&byte| byte == 0));
        assert!(bytes.len() >= expected.len() + 61);
        // Evicted, read back cold.
        image.evict_durable(durable);
        let extent = arena.allocate(64 << 10).expect("room");
        let target = extent.pin(0, 64 << 10);
        let count = file.read_blocks(8192, target.clone()).await.expect("reads");
        image.insert_cold(8192, target.part(0, count));
        let slice = image.slice(10_000, 5_000).expect("cold");
        assert!(slice.bytes() == &expected[10_000..15_000]);
    });
}

#[test]
fn preallocation_reads_as_zeroes_and_truncation_cuts() {
    on_shard(|| async {
        let dir = scratch();
        let path = dir.path().join("segment");
        let file = SegmentFile::create(&path, WriteMode::Direct)
            .await
            .expect("creates");
        let arena = arena();
        file.preallocate(0, 3 << 20).await.expect("preallocates");
        file.preallocate(5, 5).await.expect("nothing to do");
        let zeroes = Zeroes::new(&arena).expect("room");
        file.write_zeros(0, (2 << 20) + 4096, &zeroes)
            .await
            .expect("writes");
        let bytes = std::fs::read(&path).expect("reads");
        assert_eq!(bytes.len(), 3 << 20);
        assert!(bytes.iter().all(|&byte| byte == 0));
        file.truncate_and_sync(1234).await.expect("truncates");
        assert_eq!(file.size().expect("stat"), 1234);
        let again = SegmentFile::open(&path, WriteMode::Direct)
            .await
            .expect("opens");
        let target = arena.allocate(4096).expect("room");
        let count = again.read_blocks(0, target.pin(0, 4096)).await;
        assert_eq!(count, Ok(1234), "the last, partial block");
    });
}

#[test]
fn whole_files_are_replaced_atomically() {
    on_shard(|| async {
        let dir = scratch();
        let path = dir.path().join("state");
        assert_eq!(read_file(&path).await, Ok(None));
        write_file_atomically(&path, Vec::new())
            .await
            .expect("writes");
        assert_eq!(read_file(&path).await, Ok(Some(Vec::new())));
        let bytes = pattern(3, 300_000);
        write_file_atomically(&path, bytes.clone())
            .await
            .expect("writes");
        assert_eq!(read_file(&path).await, Ok(Some(bytes)));
        let names: Vec<_> = read_dir(dir.path()).await.expect("lists");
        assert_eq!(names.len(), 1, "the temporary file is gone: {names:?}");
        assert_eq!((names[0].name.as_str(), names[0].size), ("state", 300_000));
        rename(&path, &dir.path().join("other"))
            .await
            .expect("renames");
        assert_eq!(read_file(&path).await, Ok(None));
        delete(&dir.path().join("other")).await.expect("deletes");
        delete(&dir.path().join("other"))
            .await
            .expect("is gone already");
        let deep = dir.path().join("a/b/c");
        create_dir(&deep).await.expect("makes");
        create_dir(&deep).await.expect("is there already");
        assert!(read_dir(dir.path()).await.expect("lists")[0].is_dir);
        delete_dir(&dir.path().join("a")).await.expect("deletes");
        delete_dir(&dir.path().join("a"))
            .await
            .expect("is gone already");
        assert_eq!(read_dir(dir.path()).await, Ok(Vec::new()));
    });
}

#[test]
fn space_of_a_file_system_is_told() {
    on_shard(|| async {
        let dir = scratch();
        let (all, free) = space(dir.path()).await.expect("statvfs");
        assert!(free > 0 && free < all, "{free} of {all}");
        let error = space(&dir.path().join("none")).await.expect_err("missing");
        assert!(error.is_not_found() && !error.is_no_space() && !error.exists());
    });
}

#[test]
fn errors_name_file_operation_and_cause() {
    on_shard(|| async {
        let dir = scratch();
        let path = dir.path().join("missing/segment");
        let error = SegmentFile::create(&path, WriteMode::Direct)
            .await
            .err()
            .expect("no such directory");
        assert_eq!((error.operation, error.errno), ("open", libc::ENOENT));
        let text = error.to_string();
        assert!(
            text.contains("open of ") && text.contains("missing/segment"),
            "{text}"
        );
        assert!(text.contains("No such file"), "{text}");
        let there = dir.path().join("there");
        SegmentFile::create(&there, WriteMode::Direct)
            .await
            .expect("creates");
        let error = SegmentFile::create(&there, WriteMode::Direct)
            .await
            .err()
            .expect("is there");
        assert_eq!(error.errno, libc::EEXIST);
        let nul = read_file(Path::new("a\0b")).await.expect_err("NUL");
        assert_eq!(nul.errno, libc::EINVAL);
    });
}

#[test]
fn memory_file_system_has_no_direct_writes_but_buffered_ones() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        panic!("/dev/shm is not there to be tried")
    };
    on_shard(move || async move {
        let path = dir.path().join("segment");
        // tmpfs accepts O_DIRECT since Linux 6.6 and copies all the same; before, it refuses.
        if let Err(error) = SegmentFile::create(&path, WriteMode::Direct).await {
            assert_eq!(error.errno, libc::EINVAL);
        }
        delete(&path).await.expect("deletes");
        let file = SegmentFile::create(&path, WriteMode::Buffered)
            .await
            .expect("creates");
        let extent = arena().allocate(4096).expect("room");
        extent.fill(0, 4096, |bytes| bytes.fill(3));
        file.write_blocks(0, smallvec![extent.pin(0, 4096)])
            .await
            .expect("writes");
        assert_eq!(std::fs::read(&path).expect("reads"), [3; 4096]);
    });
}

/// A full disk fills the write half way: the rest must be tried, and its error must come out.
#[test]
fn full_disk_is_an_error_and_short_writes_are_seen() {
    let dir = scratch();
    let mount = dir.path().join("small");
    std::fs::create_dir(&mount).expect("makes");
    let target = sys::c_path(&mount).expect("no NUL");
    // SAFETY: all arguments are C strings that outlive the call.
    let mounted = unsafe {
        libc::mount(
            c"none".as_ptr(),
            target.as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            c"size=64k".as_ptr().cast(),
        )
    };
    assert_eq!(
        mounted,
        0,
        "mounting a tmpfs: {}",
        io::Error::last_os_error()
    );
    let path = mount.join("segment");
    on_shard(move || async move {
        let file = SegmentFile::create(&path, WriteMode::Buffered)
            .await
            .expect("creates");
        let arena = arena();
        let extent = arena.allocate(128 << 10).expect("room");
        let whole = smallvec![extent.pin(0, 64 << 10), extent.pin(64 << 10, 64 << 10)];
        let error = file.write_blocks(0, whole).await.expect_err("too large");
        assert_eq!((error.operation, error.errno), ("write", libc::ENOSPC));
        assert!(file.size().expect("stat") > 0, "a part was written");
    });
    // SAFETY: as above.
    unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
}

#[test]
fn write_outlives_its_task() {
    on_shard(|| async {
        let dir = scratch();
        let path = dir.path().join("segment");
        let file = SegmentFile::create(&path, WriteMode::Direct)
            .await
            .expect("creates");
        let arena = arena();
        let extent = arena.allocate(1 << 20).expect("room");
        extent.fill(0, 1 << 20, |bytes| bytes.fill(8));
        let source = extent.pin(0, 1 << 20);
        drop(extent);
        let task = spawn(async move { file.write_blocks(0, smallvec![source]).await });
        executor::yield_now().await;
        task.cancel().await;
        // (The disk may have been faster than this.)
        let under_way = Ring::current().in_flight() > 1;
        assert!(!under_way || arena.used() > 0, "freed under the write");
        // Whoever comes next gets other memory.
        while let Some(other) = arena.allocate(1 << 20) {
            other.fill(0, 1 << 20, |bytes| bytes.fill(1));
            std::mem::forget(other);
        }
        while Ring::current().in_flight() > 1 {
            executor::sleep(Duration::from_millis(1)).await;
        }
        assert!(std::fs::read(&path).expect("reads") == vec![8; 1 << 20]);
    });
}

#[test]
fn no_space_is_final_where_a_sync_finds_it() {
    let full = io::Error::from_raw_os_error(libc::ENOSPC);
    let path = Path::new("segment");
    for operation in ["fallocate", "write", "flush", "open", "rename"] {
        assert!(StorageError::new(path, operation, &full).is_no_space());
    }
    for operation in [SYNC, SYNC_DIRECTORY] {
        assert!(!StorageError::new(path, operation, &full).is_no_space());
    }
}

#[test]
fn buffered_writes_of_a_file_take_turns_and_none_succeeds_after_a_failed_sync() {
    on_shard(|| async {
        let dir = scratch();
        let file = SegmentFile::create(&dir.path().join("segment"), WriteMode::Buffered)
            .await
            .expect("creates");
        let arena = arena();
        let extent = arena.allocate(64 << 10).expect("room");
        let tasks: Vec<_> = (0..8u64)
            .map(|n| {
                let (file, source) = (file.clone(), extent.pin(0, 4096));
                spawn(async move { file.write_blocks(n * 4096, smallvec![source]).await })
            })
            .collect();
        let mut most = 0;
        for task in tasks {
            executor::yield_now().await;
            most = most.max(Ring::current().in_flight());
            task.await.expect("writes");
        }
        // The shard's own wait is in the ring too.
        assert!(most <= 2, "{most} in flight");
        // The clone shares what happened: whoever got the error, nobody is told that all is well.
        file.clone().syncs.failed.set(true);
        let error = file.sync().await.expect_err("unknown what is on the disk");
        assert_eq!((error.operation, error.errno), (SYNC, libc::EIO));
        let source = smallvec![extent.pin(0, 4096)];
        assert!(file.write_blocks(0, source).await.is_err());
        assert!(file.preallocate(0, 1 << 20).await.is_err());
    });
}

#[test]
fn a_deleted_file_is_known_by_its_descriptor() {
    let dir = scratch();
    let path = dir.path().join("segment");
    let fd = OwnedFd::from(std::fs::File::create(&path).expect("creates"));
    assert!(has_name(&fd));
    std::fs::remove_file(&path).expect("removes");
    assert!(!has_name(&fd));
}
