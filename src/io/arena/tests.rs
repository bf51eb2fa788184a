use std::rc::Rc;
use std::time::Duration;

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::io::executor::{self, spawn};
use crate::io::testing::{connection, on_shard, pattern};

#[test]
fn bytes_are_kept_and_memory_comes_back() {
    let arena = Arena::new(1 << 20).expect("arena");
    assert_eq!((arena.budget(), arena.used()), (1 << 20, 0));
    let extent = arena.allocate(20_000).expect("room");
    assert_eq!(extent.len(), 2 * GRANULE_BYTES);
    assert_eq!(arena.used(), 2 * GRANULE_BYTES as u64);
    let bytes = pattern(3, 20_000);
    extent.copy_in(100, &bytes[100..]);
    let pinned = extent.pin(100, 19_900);
    assert_eq!(pinned.bytes(), &bytes[100..]);
    drop(extent);
    assert_eq!(arena.used(), 2 * GRANULE_BYTES as u64, "still pinned");
    assert_eq!(pinned.part(10, 5).bytes(), &bytes[110..115]);
    drop(pinned);
    assert_eq!(arena.used(), 0);
}

#[test]
fn refused_allocation_says_what_was_wanted_and_room_wakes() {
    block_on(async {
        let arena = Arena::new(4 * GRANULE_BYTES as u64).expect("arena");
        let pressure = arena.clone();
        let mut pressed = Box::pin(pressure.pressure());
        assert!(poll_once(&mut pressed).await.is_none());
        let held = arena.allocate(3 * GRANULE_BYTES).expect("room");
        assert!(arena.allocate(2 * GRANULE_BYTES).is_none());
        assert!(poll_once(&mut pressed).await.is_some());
        assert_eq!(arena.wanted(), 2 * GRANULE_BYTES);
        assert_eq!(arena.wanted(), 0);
        let mut room = Box::pin(arena.wait_for_room(2 * GRANULE_BYTES));
        assert!(poll_once(&mut room).await.is_none());
        held.shrink(GRANULE_BYTES);
        assert!(poll_once(&mut room).await.is_some());
        assert!(arena.allocate(2 * GRANULE_BYTES).is_some());
        assert!(arena.allocate(EXTENT_BYTES_MAX + 1).is_none());
    });
}

#[test]
#[should_panic(expected = "beyond the extent")]
fn bytes_beyond_an_extent_are_refused() {
    let arena = Arena::new(1 << 20).expect("arena");
    let extent = arena.allocate(1).expect("room");
    extent.pin(GRANULE_BYTES - 1, 2);
}

#[test]
fn zeroing_and_filling_touch_only_their_range() {
    let arena = Arena::new(1 << 20).expect("arena");
    let extent = arena.allocate(GRANULE_BYTES).expect("room");
    extent.fill(0, GRANULE_BYTES, |bytes| bytes.fill(7));
    extent.zero(10, 5);
    let other = arena.allocate(GRANULE_BYTES).expect("room");
    other.copy_from(0, &extent.pin(8, 9));
    assert_eq!(other.pin(0, 9).bytes(), [7, 7, 0, 0, 0, 0, 0, 7, 7]);
}

/// A packet in the kernel holds pages, not bytes: without the punch the reader would see what is written there later.
#[test]
fn packet_in_flight_keeps_its_bytes() {
    for (len, punched) in [(GRANULE_BYTES, true), (256 << 10, true), (4 << 20, true)] {
        on_shard(move || async move {
            let arena = Arena::new(len as u64).expect("arena");
            let (client, server) = connection().await;
            let bytes = pattern(5, len);
            let extent = arena.allocate(len).expect("room");
            extent.copy_in(0, &bytes);
            // Fill the socket; nobody reads.
            let pinned = extent.pin(0, len);
            let slice = pinned.for_send();
            let mut sent = 0;
            while sent < len
                && let Some(count) = server
                    .try_sendfile(slice.part(sent, len - sent))
                    .expect("sends")
            {
                sent += count;
            }
            assert!(sent > 0);
            drop((pinned, extent));
            assert_eq!(arena.counters().punched_bytes > 0, punched);
            // The same place, other bytes.
            let again = arena.allocate(len).expect("all of it is free");
            assert_eq!(again.pin(0, 64).bytes(), [0; 64], "punched memory is zero");
            again.fill(0, len, |bytes| bytes.fill(0xee));
            let reader = spawn(read_exactly(client, sent));
            let received = reader.await;
            assert!(received == bytes[..sent], "a packet changed under way");
        });
    }
}

/// A hole in a part of a huge page would zero bytes that packets hold, so the part waits for the rest.
#[test]
fn a_part_of_a_huge_page_waits_until_all_of_it_is_free() {
    on_shard(|| async {
        let half = 1 << 20;
        let arena = Arena::new(2 * half as u64).expect("arena");
        let (client, server) = connection().await;
        let first = arena.allocate(half).expect("room");
        let second = arena.allocate(half).expect("room");
        first.fill(0, half, |bytes| bytes.fill(1));
        second.fill(0, half, |bytes| bytes.fill(2));
        let slice = first.pin(0, half).for_send();
        let sent = server.try_sendfile(slice).expect("sends").expect("room");
        drop(first);
        assert_eq!((arena.counters().punched_bytes, arena.free()), (0, 0));
        assert!(arena.allocate(1).is_none());
        assert_eq!(second.pin(half - 1, 1).bytes(), [2]);
        drop(second);
        assert_eq!(arena.counters().punched_bytes, 2 * half as u64);
        assert_eq!(arena.free(), 2 * half as u64);
        let again = arena.allocate(2 * half).expect("room");
        again.fill(0, 2 * half, |bytes| bytes.fill(3));
        let received = read_exactly(client, sent).await;
        assert!(received == vec![1; sent], "a packet changed under way");
    });
}

/// Small pages would do, but slower: where the kernel makes huge ones at all, the arena has them.
#[test]
fn pages_are_huge_where_the_kernel_makes_them() {
    let arena = Arena::new(4 << 20).expect("arena");
    let extent = arena.allocate(4 << 20).expect("room");
    extent.fill(0, 4 << 20, |bytes| bytes.fill(7));
    let base = extent.pin(0, 1).address() as usize;
    assert_eq!(base % HUGE_BYTES, 0);
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
    let begin = format!("{base:x}-");
    let of_it = smaps.split(&begin).nth(1).expect("it is mapped");
    let mapped = of_it
        .lines()
        .find(|line| line.starts_with("ShmemPmdMapped"));
    let mapped = mapped.and_then(|line| line.split_whitespace().nth(1));
    let huge: u64 = mapped.map_or(0, |kib| kib.parse().expect("a number"));
    assert_eq!(huge / 2048, arena.huge_pages());
}

/// The control of `packet_in_flight_keeps_its_bytes`: without the punch the bytes do change, so the test would notice.
#[test]
fn without_the_punch_a_packet_in_flight_changes() {
    on_shard(|| async {
        let len = 64 << 10;
        let arena = Arena::new(len as u64).expect("arena");
        let (client, server) = connection().await;
        let extent = arena.allocate(len).expect("room");
        extent.fill(0, len, |bytes| bytes.fill(1));
        let slice = extent.pin(0, len).for_send();
        let sent = server.try_sendfile(slice).expect("sends").expect("room");
        extent.fill(0, len, |bytes| bytes.fill(2));
        let received = read_exactly(client, sent).await;
        assert!(received.contains(&2), "loopback has copied the pages");
    });
}

#[test]
fn what_is_copied_often_is_sent_by_reference_from_then_on() {
    let arena = Arena::new(1 << 20).expect("arena");
    let extent = arena.allocate(64 << 10).expect("room");
    let part = extent.pin(0, 16 << 10);
    let mut copies = 0;
    while !part.is_sent_often() {
        part.note_copied(16 << 10);
        copies += 1;
    }
    assert_eq!(copies, 4 * 8, "eight copies of the whole extent");
    drop((part, extent));
    assert_eq!(arena.counters().punched_bytes, 0, "nothing holds its pages");
    let again = arena.allocate(64 << 10).expect("room").pin(0, 1);
    assert!(!again.is_sent_often());
    again.for_send();
    assert!(again.is_sent_often(), "it is punched anyway");
}

#[test]
fn what_begins_inside_a_page_goes_up_to_its_end_first() {
    let arena = Arena::new(1 << 20).expect("arena");
    let extent = arena.allocate(64 << 10).expect("room");
    let first_of = |start, len| extent.pin(start, len).for_send().up_to_page();
    let found =
        [(4095, 9000), (4095, 2), (1, 9000), (4095, 1), (4096, 9000)].map(|(start, len)| {
            first_of(start, len).map(|first| (first.offset as usize % GRANULE_BYTES, first.len))
        });
    assert_eq!(
        found,
        [
            Some((4095, 1)),
            Some((4095, 1)),
            Some((1, 4095)),
            None,
            None
        ]
    );
}

async fn read_exactly(socket: Rc<crate::io::socket::Socket>, len: usize) -> Vec<u8> {
    let mut received = vec![0; len];
    let mut filled = 0;
    while filled < len {
        let count = socket.recv(&mut received[filled..]).await.expect("reads");
        assert!(count > 0, "closed after {filled} bytes");
        filled += count;
    }
    received
}

#[test]
fn never_sent_memory_is_not_punched() {
    let arena = Arena::new(1 << 20).expect("arena");
    let extent = arena.allocate(GRANULE_BYTES).expect("room");
    extent.fill(0, 8, |bytes| bytes.fill(9));
    drop(extent);
    assert_eq!(arena.counters().punched_bytes, 0);
}

#[test]
fn room_is_waited_for_across_tasks() {
    on_shard(|| async {
        let arena = Arena::new(GRANULE_BYTES as u64).expect("arena");
        let held = arena.allocate(1).expect("room");
        let waiter = arena.clone();
        let task = spawn(async move {
            loop {
                if let Some(extent) = waiter.allocate(1) {
                    break extent.len();
                }
                waiter.wait_for_room(1).await;
            }
        });
        executor::sleep(Duration::from_millis(2)).await;
        drop(held);
        assert_eq!(task.await, GRANULE_BYTES);
    });
}

#[test]
fn what_is_still_wanted_is_told_again_while_somebody_waits() {
    on_shard(|| async {
        let arena = Arena::new(GRANULE_BYTES as u64).expect("arena");
        let held = arena.allocate(1).expect("room");
        let waiter = arena.clone();
        let task = spawn(async move { waiter.wait_for_room(1).await });
        arena.pressure().await;
        assert_eq!(arena.wanted(), 1);
        // The one who makes room found nothing to give back, and comes again.
        arena.still_wanted(1);
        arena.pressure().await;
        assert_eq!(arena.wanted(), 1);
        drop(held);
        task.await;
        arena.still_wanted(1);
        assert_eq!(arena.wanted(), 0, "nobody waits any more");
    });
}

#[test]
fn the_largest_extent_is_one_that_an_empty_arena_gives() {
    for granules in [1, 2, 3, 7, 64, 100] {
        let arena = Arena::new((granules * GRANULE_BYTES) as u64).expect("arena");
        let max = arena.extent_bytes_max();
        assert!(arena.allocate(max).is_some(), "{granules} granules");
        assert!(arena.allocate(max + 1).is_none(), "{granules} granules");
    }
}
