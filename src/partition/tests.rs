//! A partition end to end on an instant disk: every promise of produce, fetch, offsets and recovery that needs no bytes.

use super::*;
use crate::base::{
    ErrorCode, LeaderEpoch, MonoNs, Now, Offset, PartitionIndex, ProducerEpoch, ProducerId,
    Timestamp, TopicPartition, Uuid,
};
use crate::log::{IoFailure, IoOp, IoTag, LogConfig, Progress};
use crate::record::BatchHeader;

const ID: TopicPartition = TopicPartition {
    topic_id: Uuid([9; 16]),
    partition: PartitionIndex(1),
};

fn now(ms: i64) -> Now {
    Now {
        wall: Timestamp(1_700_000_000_000 + ms),
        mono: MonoNs(ms as u64 * 1_000_000),
    }
}

fn batch(records: i32, size: usize) -> BatchHeader {
    BatchHeader {
        batch_length: size as i32 - 12,
        last_offset_delta: records - 1,
        record_count: records,
        base_timestamp: now(0).wall,
        max_timestamp: now(0).wall,
        ..BatchHeader::EMPTY
    }
}

fn idempotent(records: i32, epoch: i16, sequence: i32) -> BatchHeader {
    BatchHeader {
        producer_id: ProducerId(77),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        ..batch(records, 200)
    }
}

fn partition(config: PartitionConfig) -> Partition {
    let mut partition = Partition::new(ID, config, now(0));
    partition.lead(LeaderEpoch(3));
    partition
}

/// Carries out everything the partition asks for.
fn settle(partition: &mut Partition, at: Now) -> Vec<IoOp> {
    let mut ops = Vec::new();
    while let Some(op) = partition.poll_io(at, false) {
        partition.on_io(op.tag(), Ok(()), at);
        ops.push(op);
    }
    ops
}

fn append(partition: &mut Partition, header: &BatchHeader, at: Now) -> crate::log::Appended {
    assert_eq!(
        partition.check_produce(header, -1),
        Ok(ProduceCheck::Append)
    );
    let place = partition.next_position(header, at);
    let appended = partition.append(header, at);
    assert_eq!(appended.place, place);
    appended
}

fn ask(offset: i64) -> FetchAsk {
    FetchAsk {
        offset: Offset(offset),
        current_leader_epoch: LeaderEpoch::NONE,
        last_fetched_epoch: LeaderEpoch::NONE,
    }
}

#[test]
fn a_produce_is_durable_and_visible_when_its_write_ended() {
    let mut partition = partition(PartitionConfig::default());
    let first = append(&mut partition, &batch(3, 300), now(0));
    assert_eq!(
        (first.base_offset, first.end, first.leader_epoch),
        (Offset(0), Offset(3), LeaderEpoch(3))
    );
    let second = append(&mut partition, &batch(2, 300), now(0));
    assert_eq!(second.end, Offset(5));
    assert_eq!(partition.chain().durable(), Offset(0));
    let plan = partition.fetch(&ask(0)).unwrap();
    assert_eq!(plan.location.position, plan.location.limit);
    assert_eq!(plan.high_watermark, Offset(0));

    let ops = settle(&mut partition, now(1));
    assert!(matches!(ops[0], IoOp::Create { .. }));
    assert_eq!(partition.chain().durable(), second.end);
    let plan = partition.fetch(&ask(4)).unwrap();
    assert_eq!(plan.high_watermark, Offset(5));
    assert_eq!(plan.last_stable, Offset(5));
    assert_eq!((plan.location.position, plan.location.limit), (0, 600));
}

#[test]
fn g19_a_duplicate_answers_with_the_first_offset_once_it_is_durable() {
    let mut partition = partition(PartitionConfig::default());
    append(&mut partition, &batch(5, 300), now(0));
    append(&mut partition, &idempotent(2, 0, 0), now(0));
    let again = partition.check_produce(&idempotent(2, 0, 0), -1);
    let Ok(ProduceCheck::Duplicate {
        base_offset, end, ..
    }) = again
    else {
        panic!("{again:?}");
    };
    assert_eq!((base_offset, end), (Offset(5), Offset(7)));
    assert!(
        end > partition.chain().durable(),
        "the first is not durable yet"
    );
    settle(&mut partition, now(0));
    assert_eq!(partition.chain().durable(), end);
    assert_eq!(
        partition.check_produce(&idempotent(1, 0, 9), -1),
        Err(ErrorCode::OutOfOrderSequenceNumber)
    );
    append(&mut partition, &idempotent(1, 1, 0), now(0));
    assert_eq!(
        partition.check_produce(&idempotent(1, 0, 2), -1),
        Err(ErrorCode::InvalidProducerEpoch)
    );
}

#[test]
fn what_cannot_be_appended_is_refused_with_kafkas_code() {
    let mut partition = partition(PartitionConfig {
        log: LogConfig {
            segment_bytes: 1000,
            ..LogConfig::default()
        },
        ..PartitionConfig::default()
    });
    let header = batch(1, 100);
    assert_eq!(
        partition.check_produce(&header, 2),
        Err(ErrorCode::InvalidRequiredAcks)
    );
    for acks in [-1, 1] {
        assert_eq!(
            partition.check_produce(&header, acks),
            Ok(ProduceCheck::Append)
        );
    }
    assert_eq!(
        partition.check_produce(&batch(1, 1001), 1),
        Err(ErrorCode::RecordListTooLarge)
    );
    partition.go_offline("test".to_owned());
    assert_eq!(
        partition.check_produce(&header, 1),
        Err(ErrorCode::KafkaStorageError)
    );
}

#[test]
fn a_full_pipeline_is_busy_until_a_write_ends() {
    let mut partition = partition(PartitionConfig::default());
    let big = batch(1, 20 << 20);
    append(&mut partition, &big, now(0));
    assert_eq!(partition.check_produce(&big, -1), Ok(ProduceCheck::Busy));
    settle(&mut partition, now(0));
    assert_eq!(partition.check_produce(&big, -1), Ok(ProduceCheck::Append));
    let larger_than_the_pipeline = batch(1, 90 << 20);
    assert_eq!(
        partition.check_produce(&larger_than_the_pipeline, -1),
        Ok(ProduceCheck::Append)
    );
}

#[test]
fn a_failed_write_is_final_and_acknowledges_nothing() {
    let mut partition = partition(PartitionConfig::default());
    append(&mut partition, &batch(1, 300), now(0));
    settle(&mut partition, now(0));
    append(&mut partition, &batch(1, 3 << 20), now(0));
    let mut writes = Vec::new();
    while let Some(op) = partition.poll_io(now(0), true) {
        match op {
            IoOp::Write { .. } => writes.push(op.tag()),
            _ => assert!(!partition.on_io(op.tag(), Ok(()), now(0)).offline),
        }
    }
    let fault = IoFailure::Fault("write: errno 5".to_owned());
    let failed = partition.on_io(writes[0], Err(fault), now(0));
    assert_eq!((failed.durable, failed.offline), (None, true));
    for write in &writes[1..] {
        assert_eq!(partition.on_io(*write, Ok(()), now(0)), Progress::default());
    }
    assert_eq!(
        partition.chain().durable(),
        Offset(1),
        "later successes change nothing"
    );
    assert!(
        partition.poll_io(now(0), false).is_none(),
        "nothing is retried"
    );
    assert!(partition.offline().unwrap().contains("errno 5"));
    let plan = partition.fetch(&ask(0)).unwrap();
    assert_eq!(plan.location.limit, 300, "what was durable may be read");
}

#[test]
fn a_full_disk_refuses_appends_until_there_is_space() {
    let mut partition = partition(PartitionConfig::default());
    let first = append(&mut partition, &batch(1, 300), now(0));
    let create = partition.poll_io(now(0), false).unwrap();
    let full = Err(IoFailure::NoSpace("fallocate: errno 28".to_owned()));
    assert_eq!(
        partition.on_io(create.tag(), full, now(0)),
        Progress::default()
    );
    assert_eq!(
        partition.check_produce(&batch(1, 300), 1),
        Err(ErrorCode::KafkaStorageError)
    );
    assert!(partition.poll_io(now(500), false).is_none());
    assert_eq!(partition.io_deadline(), Some(now(1000).mono));
    assert!(partition.offline().is_none());
    settle(&mut partition, now(1000));
    assert_eq!(partition.chain().durable(), first.end);
    assert_eq!(partition.io_deadline(), None);
}

#[test]
fn g23_fetches_outside_the_log_are_out_of_range_and_at_the_end_empty() {
    let mut partition = partition(PartitionConfig::default());
    append(&mut partition, &batch(4, 300), now(0));
    settle(&mut partition, now(0));
    assert_eq!(partition.fetch(&ask(-5)), Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(partition.fetch(&ask(5)), Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(
        partition.fetch(&ask(i64::MAX)),
        Err(ErrorCode::OffsetOutOfRange)
    );
    let end = partition.fetch(&ask(4)).unwrap().location;
    assert_eq!(end.position, end.limit);
    let inside = partition.fetch(&ask(2)).unwrap().location;
    assert_eq!(
        (inside.position, inside.limit),
        (0, 300),
        "the whole batch is given"
    );
}

#[test]
fn g28_leader_epochs_are_fenced_and_divergence_is_told() {
    let mut partition = partition(PartitionConfig::default());
    append(&mut partition, &batch(10, 300), now(0));
    partition.lead(LeaderEpoch(5));
    append(&mut partition, &batch(10, 300), now(0));
    settle(&mut partition, now(0));
    let with = |offset, current, last| {
        partition.fetch(&FetchAsk {
            offset: Offset(offset),
            current_leader_epoch: LeaderEpoch(current),
            last_fetched_epoch: LeaderEpoch(last),
        })
    };
    assert_eq!(with(0, 4, -1), Err(ErrorCode::FencedLeaderEpoch));
    assert_eq!(with(0, 6, -1), Err(ErrorCode::UnknownLeaderEpoch));
    assert_eq!(with(12, 5, 5).unwrap().diverging, None);
    assert_eq!(with(10, 5, 3).unwrap().diverging, None);
    let diverging = with(12, 5, 3).unwrap();
    assert_eq!(
        diverging.diverging,
        Some(Diverging {
            epoch: LeaderEpoch(3),
            end_offset: Offset(10)
        })
    );
    assert_eq!(diverging.location.position, diverging.location.limit);
    assert_eq!(
        with(12, 5, 4).unwrap().diverging.unwrap().epoch,
        LeaderEpoch(3)
    );
    assert_eq!(with(12, 5, 9), Err(ErrorCode::OffsetOutOfRange));
    let end = |epoch| partition.offset_for_leader_epoch(LeaderEpoch(5), LeaderEpoch(epoch));
    assert_eq!(end(3), Ok((LeaderEpoch(3), Offset(10))));
    assert_eq!(end(5), Ok((LeaderEpoch(5), Offset(20))));
    assert_eq!(end(6), Ok((LeaderEpoch::NONE, Offset::NONE)));
    assert_eq!(
        partition.offset_for_leader_epoch(LeaderEpoch(6), LeaderEpoch(3)),
        Err(ErrorCode::UnknownLeaderEpoch)
    );
}

#[test]
fn g29_special_timestamps_and_searches() {
    let mut partition = partition(PartitionConfig::default());
    let none = LeaderEpoch::NONE;
    assert_eq!(partition.list_offsets(-3, none), Ok(ListOffsets::NotFound));
    for (i, ms) in [100, 300, 200].into_iter().enumerate() {
        let mut header = batch(10, 300);
        header.max_timestamp = now(ms).wall;
        assert_eq!(
            append(&mut partition, &header, now(ms)).base_offset.0,
            i as i64 * 10
        );
    }
    let latest = partition.list_offsets(-1, none);
    let offset = |offset, epoch| {
        Ok(ListOffsets::Offset {
            offset: Offset(offset),
            epoch: LeaderEpoch(epoch),
        })
    };
    assert_eq!(latest, offset(0, 3), "nothing is durable yet");
    settle(&mut partition, now(0));
    assert_eq!(partition.list_offsets(-1, none), offset(30, 3));
    assert_eq!(partition.list_offsets(-2, none), offset(0, 3));
    assert_eq!(partition.list_offsets(-4, none), offset(0, 3));
    assert_eq!(partition.list_offsets(-5, none), Ok(ListOffsets::NotFound));
    assert_eq!(
        partition.list_offsets(-1, LeaderEpoch(2)),
        Err(ErrorCode::FencedLeaderEpoch)
    );
    let Ok(ListOffsets::Search {
        timestamp, below, ..
    }) = partition.list_offsets(-3, none)
    else {
        panic!("there is a greatest timestamp");
    };
    assert_eq!((timestamp, below), (now(300).wall, Offset(30)));
    assert!(matches!(
        partition.list_offsets(now(150).wall.0, none),
        Ok(ListOffsets::Search { .. })
    ));
    assert_eq!(
        partition.list_offsets(now(301).wall.0, none),
        Ok(ListOffsets::NotFound)
    );
}

#[test]
fn delete_records_is_answered_when_the_checkpoint_is_durable() {
    let mut partition = partition(PartitionConfig::default());
    append(&mut partition, &batch(10, 300), now(0));
    settle(&mut partition, now(0));
    assert_eq!(
        partition.delete_records(Offset(11)),
        Err(ErrorCode::OffsetOutOfRange)
    );
    assert_eq!(
        partition.delete_records(Offset(0)),
        Ok(Deleted::Done(Offset(0)))
    );
    let after = |offset| Ok(Deleted::AfterCheckpoint(Offset(offset)));
    assert_eq!(partition.delete_records(Offset(4)), after(4));
    assert_eq!(partition.delete_records(Offset(-1)), after(10));
    assert!(partition.checkpoint_needed());
    assert_eq!(partition.fetch(&ask(9)), Err(ErrorCode::OffsetOutOfRange));
    partition.on_checkpoint(Offset(4));
    assert_eq!(
        partition.delete_records(Offset(4)),
        after(10),
        "an older one was written"
    );
    let entry = partition.checkpoint().unwrap();
    partition.on_checkpoint(entry.log_start);
    assert_eq!(
        partition.delete_records(Offset(4)),
        Ok(Deleted::Done(Offset(10)))
    );
    assert!(!partition.checkpoint_needed());
}

#[test]
fn a_roll_writes_the_producer_state_of_the_segments_end() {
    let mut partition = partition(PartitionConfig {
        log: LogConfig {
            segment_bytes: 1000,
            ..LogConfig::default()
        },
        ..PartitionConfig::default()
    });
    let mut snapshots = Vec::new();
    for sequence in 0..12 {
        append(&mut partition, &idempotent(1, 0, sequence), now(0));
        for op in settle(&mut partition, now(0)) {
            if let IoOp::Seal {
                segment, snapshot, ..
            } = op
            {
                snapshots.push((segment, snapshot.expect("taken at the roll")));
            }
        }
    }
    assert_eq!(snapshots.len(), 2);
    for (segment, snapshot) in snapshots {
        assert_eq!(snapshot.offset, segment.plus(5));
        let states =
            crate::producer::ProducerStates::decode_snapshot(&snapshot.bytes, now(0).wall).unwrap();
        let known = states.active().next().unwrap();
        assert_eq!(known.last_sequence as i64, snapshot.offset.0 - 1);
    }
}

#[test]
fn a_refused_partition_answers_storage_error_and_keeps_its_checkpoint_entry() {
    let mut source = partition(PartitionConfig::default());
    append(&mut source, &batch(1, 300), now(0));
    settle(&mut source, now(0));
    let entry = source.checkpoint();
    let mut refused = Partition::refused(
        ID,
        PartitionConfig::default(),
        "damaged".to_owned(),
        entry.clone(),
        now(0),
    );
    refused.lead(LeaderEpoch(4));
    // The stop may be clean, but nobody has seen what is behind this entry.
    let mut kept = entry.expect("an entry");
    assert!(std::mem::take(&mut kept.settled));
    assert_eq!(refused.checkpoint(), Some(kept));
    let error = ErrorCode::KafkaStorageError;
    assert_eq!(refused.check_produce(&batch(1, 100), 1), Err(error));
    assert_eq!(refused.fetch(&ask(0)), Err(error));
    assert_eq!(refused.list_offsets(-1, LeaderEpoch::NONE), Err(error));
    assert_eq!(refused.delete_records(Offset(0)), Err(error));
    assert!(refused.poll_io(now(0), false).is_none());
}

#[test]
fn an_idle_partition_costs_less_than_8_kib() {
    // What it holds on the heap, counted by hand: one segment, a few waiters, epochs, boundaries, no producers.
    let mut partition = partition(PartitionConfig::default());
    for i in 0..10 {
        append(&mut partition, &batch(1, 300), now(i));
        settle(&mut partition, now(i));
    }
    let heap = partition.log().heap_bytes();
    let whole = std::mem::size_of::<Partition>() + heap;
    assert!(whole < 4096, "{whole} bytes, {heap} of them on the heap");
}

#[test]
fn recovery_replays_the_producers_behind_the_snapshot() {
    use crate::log::SegmentFile;
    use crate::record::BatchBuilder;
    let mut file = Vec::new();
    for sequence in 0..6 {
        let mut builder = BatchBuilder::new().idempotent(ProducerId(5), ProducerEpoch(0), sequence);
        builder.append(now(0).wall, None, Some(b"value"), &[]);
        file.extend(builder.finish(Offset(i64::from(sequence)), LeaderEpoch(2)));
    }
    let mut states = crate::producer::ProducerStates::default();
    let third = BatchHeader {
        producer_id: ProducerId(5),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 2,
        ..batch(1, 100)
    };
    states.update(&third, Offset(2), now(0).wall);
    let recovered = |snapshots| {
        let mut recovery = PartitionRecovery::start(
            ID,
            PartitionConfig::default(),
            PartitionFiles {
                segments: vec![SegmentFile {
                    base: Offset(0),
                    length: file.len() as u64,
                    offset_index: None,
                    time_index: None,
                }],
                snapshots,
                ..PartitionFiles::default()
            },
            LeaderEpoch(2),
            false,
            now(0),
        )
        .unwrap();
        while let Some(need) = recovery.need().unwrap() {
            let bytes = &file[need.from as usize..need.to as usize];
            recovery.on_bytes(bytes, now(0)).unwrap();
        }
        recovery.finish(now(0)).unwrap()
    };
    let damaged = (Offset(5), vec![1, 2, 3]);
    for snapshots in [
        Vec::new(),
        vec![(Offset(3), states.encode_snapshot()), damaged],
    ] {
        let partition = recovered(snapshots);
        assert_eq!(partition.chain().durable(), Offset(6));
        let known = partition.producers().active().next().unwrap();
        assert_eq!((known.id, known.last_sequence), (ProducerId(5), 5));
        let mut next = third;
        next.base_sequence = 6;
        assert_eq!(partition.check_produce(&next, 1), Ok(ProduceCheck::Append));
        assert_eq!(partition.log().epochs().at(Offset(0)), Some(LeaderEpoch(2)));
    }
}

#[test]
fn a_clean_stop_saves_indexes_and_producers_once() {
    let mut partition = partition(PartitionConfig::default());
    append(&mut partition, &idempotent(2, 0, 0), now(0));
    assert!(partition.final_save().is_none(), "not durable yet");
    settle(&mut partition, now(0));
    let op = partition.final_save().expect("something is unsaved");
    let IoOp::Save {
        snapshot: Some(snapshot),
        ..
    } = &op
    else {
        panic!("{op:?}");
    };
    assert_eq!((snapshot.offset, &snapshot.replaces), (Offset(2), &vec![]));
    assert!(partition.final_save().is_none(), "one is under way");
    assert!(
        !partition
            .on_io(IoTag::Save(Offset(0)), Ok(()), now(0))
            .offline
    );
    assert!(partition.final_save().is_none(), "nothing is unsaved");
    assert!(partition.quiet());
}

fn snapshot_of(op: Option<IoOp>) -> (Offset, Vec<Offset>) {
    match op {
        Some(IoOp::Save {
            snapshot: Some(snapshot),
            ..
        }) => (snapshot.offset, snapshot.replaces),
        other => panic!("{other:?}"),
    }
}

#[test]
fn indexes_and_producers_are_saved_by_time() {
    let mut partition = partition(PartitionConfig::default());
    let save = IoTag::Save(Offset(0));
    append(&mut partition, &idempotent(2, 0, 0), now(0));
    append(&mut partition, &batch(1, 1 << 20), now(0));
    settle(&mut partition, now(100));
    assert_eq!(partition.io_deadline(), Some(now(30_100).mono));
    assert!(partition.poll_io(now(30_099), false).is_none());
    // A batch that is not durable yet: its producer is in the snapshot, so that waits for it.
    append(&mut partition, &idempotent(2, 0, 2), now(30_099));
    let write = partition.poll_io(now(30_100), false).unwrap();
    assert!(matches!(write, IoOp::Write { .. }));
    assert!(partition.poll_io(now(30_100), false).is_none());
    partition.on_io(write.tag(), Ok(()), now(30_101));
    let taken = snapshot_of(partition.poll_io(now(30_101), false));
    assert_eq!(taken, (Offset(5), vec![]));
    assert!(partition.poll_io(now(70_000), false).is_none(), "under way");
    partition.on_io(save, Ok(()), now(70_000));
    assert_eq!(partition.io_deadline(), None, "nothing is unsaved");
    // The next takes its place.
    append(&mut partition, &batch(1, 1 << 20), now(70_000));
    settle(&mut partition, now(70_000));
    let taken = snapshot_of(partition.poll_io(now(100_000), false));
    assert_eq!(taken, (Offset(6), vec![Offset(5)]));
}

#[test]
fn a_snapshot_that_found_no_space_is_written_later() {
    let full = || Err(IoFailure::NoSpace("write: errno 28".to_owned()));
    let config = PartitionConfig {
        log: LogConfig {
            segment_bytes: 1000,
            ..LogConfig::default()
        },
        ..PartitionConfig::default()
    };
    let mut partition = partition(config);
    append(&mut partition, &idempotent(2, 0, 0), now(0));
    settle(&mut partition, now(0));
    let save = IoTag::Save(Offset(0));
    for ms in [0, 2000] {
        assert!(partition.poll_io(now(ms), false).is_none());
        let taken = snapshot_of(partition.final_save());
        assert_eq!(taken, (Offset(2), vec![]));
        assert!(!partition.on_io(save, full(), now(ms)).offline);
        assert!(partition.final_save().is_none(), "the disk is full");
    }
    // The seal saves the same and more; the file that may be there goes.
    append(&mut partition, &batch(1, 900), now(2000));
    let mut seals = Vec::new();
    for ms in [2000, 4000, 6000] {
        while let Some(op) = partition.poll_io(now(ms), false) {
            let refused = matches!(op, IoOp::Seal { .. }) && seals.is_empty();
            let result = if refused { full() } else { Ok(()) };
            assert!(!partition.on_io(op.tag(), result, now(ms)).offline);
            if let IoOp::Seal { snapshot, .. } = op {
                let snapshot = snapshot.expect("the state at the end of the segment");
                seals.push((snapshot.offset, snapshot.replaces));
            }
        }
    }
    assert_eq!(seals[0], (Offset(2), vec![]));
    assert_eq!(seals[1], seals[0]);
    append(&mut partition, &idempotent(2, 0, 2), now(4000));
    settle(&mut partition, now(4000));
    assert_eq!(snapshot_of(partition.final_save()).0, Offset(5));
}
