//! Recovery of files with every kind of damage: a torn tail is cut, damage to what was durable is refused.

use super::checkpoint::{CheckpointFile, merge};
use super::simulated_disk::{Disk, Random};
use super::simulation::{PARTITION, World, input, now, recover};
use super::*;
use crate::base::{LeaderEpoch, Offset, Timestamp};
use crate::record::{BatchBuilder, BatchHeader};

fn batch(base: i64, records: i64, value: &[u8], epoch: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for i in 0..records {
        builder.append(Timestamp(now(0).wall.0 + base + i), None, Some(value), &[]);
    }
    builder.finish(Offset(base), LeaderEpoch(epoch))
}

/// Batches of 1, 2, 3, ... records from `base` on, and where each ends.
fn batches(base: i64, count: i64) -> (Vec<u8>, Vec<(u64, i64)>) {
    let (mut bytes, mut ends, mut offset) = (Vec::new(), Vec::new(), base);
    for records in 1..=count {
        bytes.extend(batch(offset, records, &[records as u8; 90], 3));
        offset += records;
        ends.push((bytes.len() as u64, offset));
    }
    (bytes, ends)
}

fn epochs() -> Epochs {
    Epochs::from_entries(vec![EpochEntry {
        epoch: LeaderEpoch(3),
        start: Offset(0),
    }])
    .unwrap()
}

fn entry(segment: i64, position: u64, offset: i64, sealed: (u32, u64)) -> PartitionCheckpoint {
    PartitionCheckpoint {
        partition: PARTITION,
        log_start: Offset(0),
        proof: Proof {
            segment: Offset(segment),
            position,
            offset: Offset(offset),
        },
        sealed_segments: sealed.0,
        sealed_bytes: sealed.1,
        settled: true,
        epochs: epochs(),
    }
}

fn disk(files: impl IntoIterator<Item = (i64, Vec<u8>)>, checkpoint: PartitionCheckpoint) -> Disk {
    Disk {
        files: files.into_iter().collect(),
        checkpoint: Some(checkpoint),
        ..Disk::default()
    }
}

fn run(disk: &Disk) -> Result<Log, Refusal> {
    let mut input = input(disk, LogConfig::default());
    input.leader_epoch_max = LeaderEpoch(3);
    recover(disk, input).map(|(log, _)| log)
}

fn refusal(disk: &Disk) -> String {
    let before = disk.files.clone();
    let Err(Refusal(reason)) = run(disk) else {
        panic!("this must be refused");
    };
    assert_eq!(disk.files, before, "the bytes stay");
    reason
}

#[test]
fn a_tail_torn_at_every_byte_is_cut_and_the_log_goes_on() {
    let (bytes, ends) = batches(0, 4);
    let (durable, offset) = ends[2];
    for at in durable as usize..bytes.len() {
        for damage in 0..3 {
            let mut file = bytes[..at].to_vec();
            match damage {
                0 => {}
                1 => file.resize(8192, 0),
                _ => file.resize(8192, 0xaa),
            }
            // The last bytes of a batch may be zeros themselves.
            if file.starts_with(&bytes) {
                continue;
            }
            let disk = disk([(0, file)], entry(0, durable, offset, (0, 0)));
            let log = run(&disk).unwrap();
            assert_eq!(log.chain().durable(), Offset(offset), "cut at {at}");
            // Restart twice, with an append between: what was found stays, what was cut never comes back.
            let mut world = World::found(disk, LogConfig::default());
            world.append(2, 50, 7);
            assert_eq!(world.log.segments().count(), 1, "behind the cut, in place");
            world.settle();
            assert_eq!(world.log.chain().durable(), Offset(offset + 2));
            world.crash(&mut Random::new(at as u64));
            assert_eq!(world.log.chain().durable(), Offset(offset + 2));
        }
    }
}

#[test]
fn a_flip_of_any_byte_that_was_durable_is_refused() {
    let (bytes, ends) = batches(0, 4);
    let (durable, offset) = ends[2];
    for at in 0..durable as usize {
        let mut file = bytes.clone();
        file[at] ^= 0x04;
        let reason = refusal(&disk([(0, file)], entry(0, durable, offset, (0, 0))));
        assert!(reason.contains("damaged"), "byte {at}: {reason}");
    }
}

#[test]
fn a_flip_of_any_byte_behind_the_proof_only_costs_what_was_not_acknowledged() {
    let (bytes, ends) = batches(0, 4);
    let (durable, offset) = ends[2];
    for at in durable as usize..bytes.len() {
        let mut file = bytes.clone();
        file[at] ^= 0x04;
        // A valid batch of an epoch that is not known yet: refused rather than cut.
        if (durable as usize + 12..durable as usize + 16).contains(&at) {
            let found = disk([(0, file)], entry(0, durable, offset, (0, 0)));
            assert!(refusal(&found).contains("from the future"));
            continue;
        }
        let log = run(&disk([(0, file)], entry(0, durable, offset, (0, 0)))).unwrap();
        assert_eq!(log.chain().durable(), Offset(offset), "byte {at}");
    }
}

#[test]
fn what_is_cut_off_is_kept_when_it_is_more_than_zeros() {
    let (bytes, ends) = batches(0, 4);
    let (durable, offset) = ends[2];
    let keeps = |mut file: Vec<u8>| {
        file.resize(8192, 0);
        let disk = disk([(0, file)], entry(0, durable, offset, (0, 0)));
        let mut world = World::found(disk, LogConfig::default());
        world.append(2, 50, 7);
        world.poll(false);
        let cut = world.disk.in_flight.iter().find_map(|(op, _)| match op {
            IoOp::Cut { torn, .. } => Some(*torn),
            _ => None,
        });
        cut.expect("what lies behind the end is cut before the first write")
    };
    let mut flipped = bytes.clone();
    flipped[durable as usize + 70] ^= 0x04;
    assert!(keeps(flipped));
    assert!(keeps(bytes[..bytes.len() - 40].to_vec()));
    assert!(!keeps(bytes[..durable as usize].to_vec()));
}

#[test]
fn zeros_or_a_short_file_before_the_proof_are_damage() {
    let (bytes, ends) = batches(0, 3);
    let proof = entry(0, ends[2].0, ends[2].1, (0, 0));
    let mut zeroed = bytes.clone();
    zeroed[ends[1].0 as usize..].fill(0);
    assert!(refusal(&disk([(0, zeroed)], proof.clone())).contains("damaged"));
    let short = bytes[..ends[1].0 as usize].to_vec();
    assert!(refusal(&disk([(0, short)], proof.clone())).contains("were durable"));
    assert!(refusal(&disk([], proof.clone())).contains("missing"));
    let mut other = proof;
    other.proof.offset = Offset(ends[2].1 + 1);
    assert!(refusal(&disk([(0, bytes)], other)).contains("not the one that was durable"));
}

#[test]
fn a_valid_batch_behind_a_torn_one_never_comes_back() {
    let first = batch(0, 3, b"first", 3);
    // Bytes 3..40 blocks were torn; behind them, on a block boundary, a valid batch of the same write landed.
    let boundary = 40 * 4096;
    let behind = batch(4, 2, b"behind", 3);
    let mut file = first.clone();
    file.resize(boundary, 0);
    file.extend(&behind);
    file.resize(boundary + 8192, 0);
    let disk = disk([(0, file)], entry(0, first.len() as u64, 3, (0, 0)));
    let mut world = World::found(disk, LogConfig::default());
    assert_eq!(world.log.chain().durable(), Offset(3));
    // It ends where the one behind begins, and its write of whole blocks brings no zeros behind it.
    world.append_sized(boundary - first.len(), b'x');
    assert_eq!(world.log.segments().count(), 1, "behind the cut, in place");
    while world.log.chain().durable() < Offset(4) {
        world.poll(true);
        world.finish_one(0);
    }
    world.crash(&mut Random::new(1));
    assert_eq!(world.log.chain().durable(), Offset(4), "not 6");
}

#[test]
fn a_recycled_file_is_empty_until_something_is_written_to_it() {
    let (old, _) = batches(0, 3);
    let (sealed, ends) = batches(6, 4);
    let next = ends[3].1;
    let mut checkpoint = entry(6, ends[3].0, next, (0, 0));
    checkpoint.log_start = Offset(6);
    let disk = disk([(6, sealed), (next, old)], checkpoint);
    let log = run(&disk).unwrap();
    assert_eq!(log.chain().durable(), Offset(next));
    assert_eq!(
        log.segments().collect::<Vec<_>>(),
        [Offset(6), Offset(next)]
    );
}

#[test]
fn an_empty_segment_behind_a_torn_one_goes_before_the_first_write() {
    let (bytes, ends) = batches(0, 3);
    let torn = bytes[..ends[2].0 as usize - 1].to_vec();
    let disk = disk(
        [(0, torn), (ends[2].1, vec![0; 4096])],
        entry(0, ends[1].0, ends[1].1, (0, 0)),
    );
    let mut world = World::found(disk, LogConfig::default());
    assert_eq!(world.log.chain().durable(), Offset(ends[1].1));
    world.poll(false);
    assert!(
        matches!(world.disk.in_flight[0].0, IoOp::Delete { segment } if segment == Offset(ends[2].1))
    );
    world.append(3, 9, 1);
    world.log.roll(now(0));
    world.append(3, 9, 1);
    world.settle();
    world.crash(&mut Random::new(3));
    assert_eq!(world.log.chain().durable(), Offset(ends[1].1 + 6));
}

#[test]
fn data_in_a_later_segment_proves_the_earlier_ones() {
    let (first, ends) = batches(0, 3);
    let (second, ends_2) = batches(ends[2].1, 2);
    let files = [(0, first), (ends[2].1, second)];
    let mut found = disk(files, entry(0, 0, 0, (0, 0)));
    found.checkpoint = None;
    assert_eq!(run(&found).unwrap().chain().durable(), Offset(ends_2[1].1));
    for at in 0..ends[2].0 as usize {
        let mut damaged = found.clone();
        damaged.files.get_mut(&0).unwrap()[at] ^= 0x20;
        // Without a checkpoint nothing says which epoch is right.
        if (12..16).contains(&at) {
            continue;
        }
        assert!(refusal(&damaged).contains("damaged"), "byte {at}");
    }
}

#[test]
fn a_missing_or_changed_sealed_segment_is_refused_without_reading_it() {
    let (first, ends) = batches(0, 2);
    let (second, ends_2) = batches(ends[1].1, 2);
    let (third, ends_3) = batches(ends_2[1].1, 2);
    let sealed = (2, (first.len() + second.len()) as u64);
    let files = [(0, first), (ends[1].1, second), (ends_2[1].1, third)];
    let whole = disk(files, entry(ends_2[1].1, ends_3[1].0, ends_3[1].1, sealed));
    assert_eq!(run(&whole).unwrap().chain().durable(), Offset(ends_3[1].1));
    for base in [0, ends[1].1] {
        let mut missing = whole.clone();
        missing.files.remove(&base);
        assert!(refusal(&missing).contains("segment"));
        let mut short = whole.clone();
        short.files.get_mut(&base).unwrap().pop();
        assert!(refusal(&short).contains("bytes before segment"));
    }
    let mut rotten = whole.clone();
    rotten.files.get_mut(&ends[1].1).unwrap()[80] ^= 1;
    assert!(
        refusal(&rotten).contains("damaged"),
        "without indexes it is read"
    );
}

#[test]
fn a_trusted_sealed_segment_is_verified_only_when_asked_for() {
    let mut world = World::new(LogConfig {
        index_interval_bytes: 100,
        ..LogConfig::default()
    });
    for _ in 0..20 {
        world.append(3, 200, 5);
    }
    world.settle();
    world.log.roll(now(0));
    world.append(1, 1, 1);
    world.settle();
    world.disk.checkpoint = Some(world.log.checkpoint(PARTITION));
    assert_eq!(world.disk.checkpoint.as_ref().unwrap().sealed_segments, 1);
    let mut damaged = world.disk.clone();
    damaged.files.get_mut(&0).unwrap()[700] ^= 1;
    let trusting = input(&damaged, LogConfig::default());
    assert!(recover(&damaged, trusting.clone()).is_ok());
    let everything = RecoveryInput {
        verify_all: true,
        ..trusting
    };
    assert!(recover(&damaged, everything).is_err());
}

#[test]
fn a_damaged_index_costs_time_and_nothing_else() {
    let config = LogConfig {
        index_interval_bytes: 100,
        ..LogConfig::default()
    };
    let mut world = World::new(config);
    for _ in 0..30 {
        world.pass(10);
        world.append(3, 200, 5);
        world.settle();
    }
    let save = world.log.final_save().expect("unsaved entries");
    world.disk.apply(save, &[]);
    world.disk.checkpoint = Some(world.log.checkpoint(PARTITION));
    let good = world.disk.clone();
    let end = world.log.chain().durable();
    let index = good.indexes[&0].clone();
    assert!(index.0.len() > 80 && index.1.len() > 24);
    let check = |indexes: (Vec<u8>, Vec<u8>)| {
        let mut disk = good.clone();
        disk.indexes.insert(0, indexes);
        let (log, replayed) = recover(&disk, input(&disk, config)).unwrap();
        assert_eq!(log.chain().durable(), end);
        assert!(replayed.is_empty(), "the snapshot is at the end");
        let mut world = World::found(disk, config);
        world.check_contents();
    };
    // Torn at every byte of the last entries, and every bit of one entry flipped.
    for cut in 1..=16 {
        check((index.0[..index.0.len() - cut].to_vec(), index.1.clone()));
        check((index.0.clone(), index.1[..index.1.len() - cut].to_vec()));
    }
    for bit in 0..64 {
        let mut flipped = index.0.clone();
        let at = flipped.len() - 8 + bit / 8;
        flipped[at] ^= 1 << (bit % 8);
        check((flipped, index.1.clone()));
    }
}

#[test]
fn a_wrong_index_entry_of_a_trusted_segment_is_noticed_by_the_reader_and_forgotten() {
    let config = LogConfig {
        index_interval_bytes: 100,
        ..LogConfig::default()
    };
    let mut world = World::new(config);
    for _ in 0..400 {
        world.pass(10);
        world.append(1, 900, 5);
    }
    world.settle();
    world.log.roll(now(0));
    world.append(1, 1, 1);
    world.settle();
    world.disk.checkpoint = Some(world.log.checkpoint(PARTITION));
    let mut disk = world.disk.clone();
    let index = &mut disk.indexes.get_mut(&0).unwrap().0;
    assert!(index.len() > 16, "kept every 64 KiB");
    index[8 + 7] ^= 1;
    let (mut log, _) = recover(&disk, input(&disk, config)).unwrap();
    let asked = Offset(150);
    let location = log.locate(asked).unwrap();
    let file = &disk.files[&0];
    let there = BatchHeader::read(&file[location.position as usize..]).unwrap();
    let said = location.indexed.expect("from the index");
    assert_ne!(
        Some(there.base_offset.0),
        Some(said.0),
        "no such batch there"
    );
    log.distrust_index(Offset(0));
    let again = log.locate(asked).unwrap();
    assert_eq!((again.position, again.indexed), (0, None));
}

#[test]
fn after_a_clean_stop_little_is_read_and_the_last_group_is_checked() {
    let config = LogConfig::default();
    let mut world = World::new(config);
    for _ in 0..200 {
        world.append(3, 3000, 5);
    }
    world.settle();
    let save = world.log.final_save().expect("unsaved entries");
    world.disk.apply(save, &[]);
    world.disk.checkpoint = Some(world.log.checkpoint(PARTITION));
    world.disk.clean = true;
    let disk = world.disk.clone();
    let mut recovery = Recovery::start(input(&disk, config), now(0)).unwrap();
    let mut read = 0;
    while let Some(need) = recovery.need().unwrap() {
        read += need.to - need.from;
        let file = &disk.files[&need.segment.0];
        let bytes = &file[need.from as usize..need.to as usize];
        recovery.on_bytes(bytes, &mut |_| {}).unwrap();
    }
    assert!(read < 64 << 10, "read {read} bytes");
    assert_eq!(recovery.report().torn, None);
    let mut log = recovery.finish(now(0)).unwrap();
    assert!(
        log.poll_io(now(0), false).is_none(),
        "nothing to put in order"
    );
    assert!(log.final_save().is_none(), "nothing new to save");
    let position = disk.checkpoint.as_ref().unwrap().proof.position as usize;
    let mut damaged = disk.clone();
    damaged.files.get_mut(&0).unwrap()[position - 100] ^= 1;
    assert!(recover(&damaged, input(&damaged, config)).is_err());
}

#[test]
fn a_clean_stop_hides_nothing_behind_the_proof_of_a_partition_that_was_not_settled() {
    let (bytes, ends) = batches(0, 4);
    let file = CheckpointFile {
        clean: true,
        sequence: 1,
        // As a partition that was refused in the life before leaves it: acknowledged records are behind it.
        entries: vec![PartitionCheckpoint {
            settled: false,
            ..entry(0, ends[1].0, ends[1].1, (0, 0))
        }],
    };
    let file = CheckpointFile::decode(&file.encode()).unwrap();
    let merged = merge([file]).remove(&PARTITION).unwrap();
    let mut found = disk([(0, bytes)], merged.entry);
    found.clean = merged.clean;
    assert_eq!(run(&found).unwrap().chain().durable(), Offset(ends[3].1));
}

#[test]
fn a_log_is_settled_when_nothing_waits_behind_its_end() {
    let (mut bytes, ends) = batches(0, 2);
    bytes.resize(8192, 0xaa);
    let found = disk([(0, bytes)], entry(0, ends[1].0, ends[1].1, (0, 0)));
    let mut world = World::found(found, LogConfig::default());
    let settled = |world: &World| world.log.checkpoint(PARTITION).settled;
    world.poll(false);
    assert!(!settled(&world), "the tail is cut before the first write");
    world.append(1, 10, 1);
    world.poll(false);
    assert!(!settled(&world), "a write is under way");
    world.settle();
    assert!(settled(&world));
    world.log.go_offline("a write failed".to_owned());
    assert!(
        !settled(&world),
        "what is behind the last good write is unknown"
    );
}

#[test]
fn a_batch_larger_than_a_read_is_recovered_and_a_claimed_one_is_not_waited_for() {
    let big = batch(0, 1, &vec![1; 9 << 20], 3);
    let size = big.len();
    let mut file = big.clone();
    let mut liar = BatchHeader {
        base_offset: Offset(1),
        batch_length: i32::MAX,
        last_offset_delta: 0,
        record_count: 1,
        ..BatchHeader::EMPTY
    };
    liar.leader_epoch = LeaderEpoch(3);
    file.extend(liar.to_bytes());
    file.resize(size + 100_000, 0);
    let found = disk([(0, file)], entry(0, 0, 0, (0, 0)));
    assert_eq!(run(&found).unwrap().chain().durable(), Offset(1));
    // In a file that is long enough for it.
    let mut input = input(&found, LogConfig::default());
    input.files[0].length = u64::from(u32::MAX);
    input.leader_epoch_max = LeaderEpoch(3);
    let mut recovery = Recovery::start(input, now(0)).unwrap();
    while let Some(need) = recovery.need().unwrap() {
        assert!(
            need.to < found.files[&0].len() as u64 + (8 << 20),
            "{need:?}"
        );
        let mut bytes = vec![0; (need.to - need.from) as usize];
        let there = &found.files[&0][need.from as usize..];
        let count = there.len().min(bytes.len());
        bytes[..count].copy_from_slice(&there[..count]);
        recovery.on_bytes(&bytes, &mut |_| {}).unwrap();
    }
    assert_eq!(
        recovery.finish(now(0)).unwrap().chain().durable(),
        Offset(1)
    );
}

#[test]
fn a_log_that_ends_before_its_start_or_its_snapshot_is_refused() {
    let (bytes, ends) = batches(0, 2);
    let mut checkpoint = entry(0, 0, 0, (0, 0));
    checkpoint.log_start = Offset(ends[1].1 + 1);
    let disk = disk([(0, bytes)], checkpoint);
    assert!(refusal(&disk).contains("before its start"));
    let mut with_snapshot = input(&disk, LogConfig::default());
    with_snapshot.checkpoint = None;
    with_snapshot.replay_from = Some(Offset(ends[1].1 + 1));
    assert!(recover(&disk, with_snapshot).is_err());
}

#[test]
fn empty_and_absent_files_are_an_empty_log() {
    let nothing = Disk::default();
    let log = run(&nothing).unwrap();
    assert_eq!(log.chain().appended(), Offset(0));
    let zero_length = disk([(0, Vec::new())], entry(0, 0, 0, (0, 0)));
    assert_eq!(run(&zero_length).unwrap().chain().appended(), Offset(0));
    let preallocated = disk([(0, vec![0; 1 << 20])], entry(0, 0, 0, (0, 0)));
    assert_eq!(run(&preallocated).unwrap().chain().appended(), Offset(0));
    let mut odd = Disk::default();
    odd.files.insert(i64::MAX - 3, Vec::new());
    assert!(run(&odd).is_err());
}

#[test]
fn leader_epochs_come_back_from_batches() {
    let mut file = batch(0, 2, b"a", 1);
    file.extend(batch(2, 2, b"b", 3));
    let mut found = disk([(0, file)], entry(0, 0, 0, (0, 0)));
    found.checkpoint = None;
    let log = run(&found).unwrap();
    let end = |epoch| log.epochs().end_offset_for(LeaderEpoch(epoch), Offset(4));
    assert_eq!(end(1), (LeaderEpoch(1), Offset(2)));
    assert_eq!(end(3), (LeaderEpoch(3), Offset(4)));
    let mut back = batch(0, 2, b"a", 3);
    back.extend(batch(2, 2, b"b", 1));
    found.files.insert(0, back);
    assert_eq!(
        run(&found).unwrap().chain().durable(),
        Offset(2),
        "an epoch never goes back"
    );
}
