use futures_lite::future::block_on;
use proptest::prelude::*;

use super::*;
use crate::io::testing::{connection, on_shard, pattern};

const GAP: usize = 61;

fn image(budget: usize) -> FileImage {
    let arena = Arena::new(budget as u64).expect("arena");
    FileImage::new(arena, GAP, 0, &[])
}

/// What a write of everything from `from` would put into the file.
fn written(image: &FileImage, from: u64) -> Vec<u8> {
    let range = from..image.write_end(image.end());
    let sources = image.write_sources(range).expect("in memory");
    sources
        .iter()
        .flat_map(|source| source.bytes().to_vec())
        .collect()
}

#[test]
fn records_are_contiguous_and_followed_by_zeroes() {
    let mut image = image(1 << 20);
    let mut file = Vec::new();
    for n in 0..40 {
        let bytes = pattern(n, 900 + n as usize * 37);
        let range = image.append(&[&bytes[..61], &bytes[61..]]).expect("room");
        assert_eq!(range.start, file.len() as u64);
        file.extend_from_slice(&bytes);
        let slice = image.slice(range.start, bytes.len()).expect("in memory");
        assert_eq!(slice.bytes(), bytes, "in one piece");
        let image_of_file = written(&image, 0);
        assert_eq!(image_of_file[..file.len()], file);
        assert!(image_of_file[file.len()..].iter().all(|&byte| byte == 0));
        assert!(image_of_file.len() >= file.len() + GAP);
        assert_eq!(image_of_file.len() % 4096, 0);
    }
}

#[test]
fn memory_used_before_is_zeroed_behind_the_end() {
    let arena = Arena::new(GRANULE_BYTES as u64).expect("arena");
    let dirty = arena.allocate(GRANULE_BYTES).expect("room");
    dirty.fill(0, GRANULE_BYTES, |bytes| bytes.fill(0xdd));
    drop(dirty);
    let mut image = FileImage::new(arena, GAP, 5, b"abcde");
    image.room(10).expect("room");
    let block = written(&image, 0);
    assert_eq!(&block[..5], b"abcde");
    assert!(block[5..].iter().all(|&byte| byte == 0));
    // The gap reaches into the next block.
    image.append(&[&[1; 4090 - 5]]).expect("room");
    let blocks = written(&image, 0);
    assert_eq!(blocks.len(), 8192);
    assert!(blocks[4090..].iter().all(|&byte| byte == 0));
}

#[test]
fn receiving_in_place_needs_no_copy_and_is_unseen_until_the_commit() {
    let mut image = image(1 << 20);
    image.append(&[b"before"]).expect("room");
    let body = pattern(9, 5000);
    let mut receiving = image.begin_receive(GAP, body.len()).expect("room");
    assert_eq!(receiving.fill(&body[..3000]), 3000);
    assert!(image.is_reserved());
    assert_eq!(image.end(), 6);
    assert!(image.slice(6, 1).is_none(), "seen before the commit");
    // A write of what was there before still ends in the gap.
    let block = written(&image, 0);
    assert!(block[6..6 + GAP].iter().all(|&byte| byte == 0));
    assert_eq!(receiving.fill(&body[3000..]), 2000);
    assert_eq!(receiving.fill(b"too much"), 0);
    assert_eq!(&*receiving.filled(), body);
    assert!(receiving.is_in_place());
    let range = image.commit(receiving, &[7; GAP]).expect("in place");
    assert_eq!(range, 6..6 + 61 + 5000);
    let slice = image.slice(6, usize::MAX).expect("in memory");
    assert_eq!(slice.bytes()[..GAP], [7; GAP]);
    assert_eq!(slice.bytes()[GAP..], body);
    assert!(!image.is_reserved());
}

#[test]
fn refused_record_leaves_nothing() {
    let mut image = image(1 << 20);
    image.append(&[b"kept"]).expect("room");
    let mut receiving = image.begin_receive(GAP, 100).expect("room");
    receiving.fill(&[0xbb; 100]);
    drop(receiving);
    assert!(!image.is_reserved());
    assert_eq!(image.end(), 4);
    image.append(&[b"next"]).expect("room");
    let block = written(&image, 0);
    assert_eq!(&block[..8], b"keptnext");
    assert!(block[8..].iter().all(|&byte| byte == 0));
}

#[test]
fn stalled_sender_is_moved_aside_and_goes_on() {
    let mut image = image(1 << 20);
    let body = pattern(2, 1000);
    let mut stalled = image.begin_receive(3, body.len()).expect("room");
    stalled.fill(&body[..400]);
    image.append(&[b"overtakes"]).expect("room");
    assert!(!stalled.is_in_place());
    assert_eq!(&*stalled.filled(), &body[..400]);
    stalled.fill(&body[400..]);
    let mut second = image.begin_receive(3, 4).expect("room");
    second.fill(b"2222");
    // The second is in place; the first is committed over it, and the second moves aside in turn.
    let range = image.commit(stalled, b"abc").expect("room");
    assert_eq!(range, 9..9 + 1003);
    assert!(!second.is_in_place());
    let range = image.commit(second, b"xyz").expect("room");
    let slice = image.slice(range.start, 100).expect("in memory");
    assert_eq!(slice.bytes(), b"xyz2222");
    let slice = image.slice(9, 1003).expect("in memory");
    assert_eq!(&slice.bytes()[3..], body);
    let third = image.begin_receive(0, 5).expect("room");
    assert_eq!(third.move_aside(), b"");
}

#[test]
fn no_room_gives_the_record_back() {
    let mut image = image(2 * GRANULE_BYTES);
    let mut receiving = image.begin_receive(1, 10).expect("room");
    receiving.fill(&[5; 10]);
    image.revoke();
    let filler = image.arena.allocate(GRANULE_BYTES).expect("room");
    image
        .append(&[&[1; GRANULE_BYTES - GAP - 5]])
        .expect("room");
    let (no_room, receiving) = image.commit(receiving, b"p").expect_err("full");
    assert!(no_room.wanted > 0);
    drop(filler);
    let range = image.commit(receiving, b"p").expect("room");
    assert_eq!(
        image.slice(range.start, 11).expect("there").bytes()[1..],
        [5; 10]
    );
}

#[test]
fn record_that_does_not_fit_starts_a_new_extent_with_the_partial_block() {
    let mut image = image(8 << 20);
    let first = pattern(1, 10_000);
    image.append(&[&first]).expect("room");
    let before = image.slice(0, usize::MAX).expect("in memory");
    let second = pattern(2, 100_000);
    let range = image.append(&[&second]).expect("room");
    assert_eq!(
        image
            .slice(range.start, second.len())
            .expect("there")
            .bytes(),
        second
    );
    assert_eq!(
        image.slice(9_000, 1000).expect("there").bytes(),
        &first[9_000..]
    );
    assert_eq!(before.bytes(), first, "what is held does not change");
    let file = written(&image, 0);
    assert_eq!(file[..10_000], first);
    assert_eq!(file[10_000..110_000], second);
    let part = image.write_sources(4096..12_288).expect("in memory");
    assert_eq!(part.len(), 2, "two blocks, one in each extent");
}

#[test]
fn extents_grow_with_the_rate_and_give_their_rest_back() {
    let mut image = image(64 << 20);
    let record = vec![1; 100_000];
    for _ in 0..200 {
        image.append(&[&record]).expect("room");
    }
    let used = image.arena.used();
    let pieces = image.hot.len();
    assert!(pieces < 60, "{pieces} extents for 200 records");
    assert_eq!(used, image.hot_bytes() as u64);
    let closed: usize = image.hot.iter().rev().skip(1).map(|p| p.extent.len()).sum();
    let data: u64 = image
        .hot
        .iter()
        .rev()
        .skip(1)
        .map(|p| p.end - p.start)
        .sum();
    assert!(
        closed as u64 <= data + (pieces * GRANULE_BYTES) as u64,
        "{closed} bytes held for {data}"
    );
    image.seal();
    assert!(image.arena.used() <= used);
}

#[test]
fn evicted_end_keeps_its_partial_block() {
    let mut image = image(1 << 20);
    let bytes = pattern(4, 10_000);
    image.append(&[&bytes]).expect("room");
    assert_eq!(image.evict_durable(9_999), 0, "not all is durable");
    assert!(image.evict_durable(10_000) > 0);
    assert_eq!(image.arena.used(), 0);
    assert_eq!(image.hot_start(), 10_000);
    assert!(image.slice(9_999, 1).is_none());
    assert!(image.write_sources(8192..12_288).is_none());
    let range = image.append(&[b"more"]).expect("room");
    assert_eq!(range, 10_000..10_004);
    assert_eq!(image.hot_start(), 8192);
    assert_eq!(
        image.slice(8192, 1808).expect("there").bytes(),
        &bytes[8192..]
    );
    let block = written(&image, 8192);
    assert_eq!(&block[..1808], &bytes[8192..]);
    assert_eq!(&block[1808..1812], b"more");
}

#[test]
fn end_with_a_reservation_is_not_evicted() {
    let mut image = image(1 << 20);
    image.append(&[b"x"]).expect("room");
    let receiving = image.begin_receive(0, 10).expect("room");
    assert_eq!(image.evict_durable(1), 0);
    drop(receiving);
    assert!(image.evict_durable(1) > 0);
}

#[test]
fn a_forgotten_image_holds_no_memory_and_its_receiver_goes_on() {
    let mut image = image(1 << 20);
    image.append(&[b"written"]).expect("room");
    let mut receiving = image.begin_receive(0, 10).expect("room");
    receiving.fill(b"01234");
    let extent = image.arena.allocate(16_384).expect("room");
    image.insert_cold(0, extent.pin(0, 8192));
    drop(extent);
    image.forget();
    assert_eq!((image.arena.used(), image.cold_bytes()), (0, 0));
    receiving.fill(b"56789");
    assert!(receiving.is_full() && !receiving.is_in_place());
}

#[test]
fn cold_pieces_are_found_and_evicted_by_use() {
    let mut image = FileImage::new(Arena::new(1 << 20).expect("arena"), GAP, 40_960, &[]);
    let bytes = pattern(6, 16_384);
    let extent = image.arena.allocate(16_384).expect("room");
    extent.copy_in(0, &bytes);
    image.insert_cold(4096, extent.pin(0, 8192));
    image.insert_cold(12_288, extent.pin(8192, 8192));
    drop(extent);
    assert_eq!(
        image.slice(5000, 100).expect("there").bytes(),
        &bytes[904..1004]
    );
    assert_eq!(image.slice(12_000, 1000).expect("there").len(), 288);
    assert!(image.slice(4095, 1).is_none());
    assert!(image.slice(20_480, 1).is_none());
    let oldest = |image: &FileImage| image.cold_pieces().map(|(used, _)| used).min();
    let first = oldest(&image).expect("two pieces");
    std::thread::sleep(std::time::Duration::from_millis(1));
    image.slice(4096, 1).expect("there");
    let newer = image.cold.evict(first);
    assert!(newer > 0 || oldest(&image).expect("one piece") > first);
    image.evict_cold(clock::mono());
    assert_eq!((image.cold_bytes(), image.arena.used()), (0, 0));
}

#[test]
fn socket_receives_straight_into_the_image() {
    on_shard(|| async {
        let (client, server) = connection().await;
        let body = pattern(8, 3 << 20);
        let sent = body.clone();
        let sender = crate::io::executor::spawn(async move {
            client.send(&sent, false).await.expect("sends");
        });
        let mut image = image(16 << 20);
        image.append(&[b"first"]).expect("room");
        let mut receiving = image.begin_receive(GAP, body.len()).expect("room");
        while !receiving.is_full() {
            let count = server.recv_into(&mut receiving).await.expect("reads");
            assert!(count > 0);
        }
        sender.await;
        assert!(receiving.is_in_place());
        let range = image.commit(receiving, &[1; GAP]).expect("in place");
        let slice = image.slice(range.start, usize::MAX).expect("there");
        assert!(slice.bytes()[GAP..] == body);
    });
}

#[test]
#[should_panic(expected = "not whole")]
fn commit_of_half_a_record_is_a_bug() {
    let mut image = image(1 << 20);
    let receiving = image.begin_receive(0, 2).expect("room");
    let _ = image.commit(receiving, b"");
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Receive(usize, bool),
    Interleave(usize, usize),
    EvictAll,
    EvictTo(prop::sample::Index),
    Seal,
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![1usize..200, 1usize..30_000, 4000usize..4200];
    prop_oneof![
        4 => len.clone().prop_map(Step::Append),
        4 => (len.clone(), any::<bool>()).prop_map(|(len, commit)| Step::Receive(len, commit)),
        2 => (len.clone(), len).prop_map(|(a, b)| Step::Interleave(a, b)),
        1 => Just(Step::EvictAll),
        1 => any::<prop::sample::Index>().prop_map(Step::EvictTo),
        1 => Just(Step::Seal),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The image against a file that is written after every step: what is in memory is what was appended, and what is written
    /// is the file with zeroes behind its end.
    #[test]
    fn image_is_the_file(steps in prop::collection::vec(step(), 1..60), start in 0usize..9000) {
        let mut file = pattern(99, start);
        let arena = Arena::new(16 << 20).expect("arena");
        let mut image =
            FileImage::new(arena.clone(), GAP, start as u64, &file[start - start % 4096..]);
        let mut disk = file.clone();
        let mut durable = start as u64;
        for (n, step) in steps.into_iter().enumerate() {
            let bytes = |len: usize| pattern(n as u64, len);
            match step {
                Step::Append(len) => {
                    let bytes = bytes(len);
                    image.append(&[&bytes]).expect("room");
                    file.extend(bytes);
                }
                Step::Receive(len, commit) => {
                    let bytes = bytes(len + GAP);
                    let mut receiving = image.begin_receive(GAP, len).expect("room");
                    receiving.fill(&bytes[GAP..]);
                    if commit {
                        image.commit(receiving, &bytes[..GAP]).expect("in place");
                        file.extend(bytes);
                    }
                }
                Step::Interleave(a, b) => {
                    let (one, two) = (bytes(a), bytes(b + 1));
                    let mut receiving = image.begin_receive(0, a).expect("room");
                    receiving.fill(&one[..a / 2]);
                    image.append(&[&two]).expect("room");
                    receiving.fill(&one[a / 2..]);
                    image.commit(receiving, &[]).expect("room");
                    file.extend(two);
                    file.extend(one);
                }
                Step::EvictAll => {
                    image.evict_durable(durable);
                }
                Step::EvictTo(index) => {
                    image.evict_durable(index.index(durable as usize + 1) as u64);
                }
                Step::Seal => image.seal(),
            }
            prop_assert_eq!(image.end(), file.len() as u64);
            // Write from the block of the first byte that is not durable.
            if durable < image.end() {
                let from = durable - durable % 4096;
                let blocks = written(&image, from);
                disk.truncate(from as usize);
                disk.extend(blocks);
                durable = image.end();
                prop_assert!(disk[..file.len()] == file[..], "the disk differs");
                prop_assert!(disk[file.len()..].iter().all(|&byte| byte == 0));
                prop_assert!(disk.len() >= file.len() + GAP);
            }
            let mut at = image.hot_start();
            while at < image.end() {
                let slice = image.slice(at, usize::MAX).expect("no hole up to the end");
                prop_assert_eq!(slice.bytes(), &file[at as usize..at as usize + slice.len()]);
                at += slice.len() as u64;
            }
            prop_assert_eq!(image.hot_bytes() as u64, arena.used());
        }
        drop(image);
        prop_assert_eq!(arena.used(), 0);
    }
}

#[test]
fn positions_beyond_the_first_segment_gigabytes_work() {
    block_on(async {
        let start = (5u64 << 32) + 123;
        let mut image = FileImage::new(Arena::new(1 << 20).expect("arena"), GAP, start, &[9; 123]);
        let range = image.append(&[b"far"]).expect("room");
        assert_eq!(range.start, start);
        assert_eq!(image.slice(start, 3).expect("there").bytes(), b"far");
    });
}
