//! The rules of the write plan, one by one.

use super::*;
use crate::base::limits::PARTITION_WRITES_MAX;
use crate::base::{ErrorCode, LeaderEpoch, MonoNs, Now, Offset, Timestamp};

fn now(ms: i64) -> Now {
    Now {
        wall: Timestamp(1_000_000 + ms),
        mono: MonoNs(ms as u64 * 1_000_000),
    }
}

fn log(config: LogConfig) -> Log {
    let mut log = Log::new(config, Offset(0), now(0));
    log.lead(LeaderEpoch(0));
    log
}

fn append(log: &mut Log, size: u32) -> Appended {
    let facts = BatchFacts {
        size,
        last_offset_delta: 0,
        max_timestamp: Timestamp(1_000_000),
    };
    log.append(&facts, now(0))
}

fn polls(log: &mut Log, more_coming: bool) -> Vec<IoOp> {
    std::iter::from_fn(|| log.poll_io(now(0), more_coming)).collect()
}

/// The writes asked for; what else is asked for is done at once.
fn writes(log: &mut Log, more_coming: bool) -> Vec<IoOp> {
    let (writes, others): (Vec<_>, Vec<_>) = polls(log, more_coming)
        .into_iter()
        .partition(|op| matches!(op, IoOp::Write { .. }));
    for op in others {
        done(log, &op);
    }
    writes
}

fn done(log: &mut Log, op: &IoOp) -> Progress {
    log.on_io(op.tag(), Ok(()), now(0))
}

/// A log whose file exists, with everything before durable.
fn settled(log: &mut Log) {
    loop {
        let ops = polls(log, false);
        if ops.is_empty() {
            return;
        }
        for op in ops {
            done(log, &op);
        }
    }
}

fn write(op: &IoOp) -> (u64, u64, u64) {
    match op {
        IoOp::Write {
            from, to, covers, ..
        } => (*from, *to, *covers),
        other => panic!("{other:?} is no write"),
    }
}

#[test]
fn the_file_comes_with_the_first_record_and_before_the_first_write() {
    let mut log = log(LogConfig::default());
    assert!(
        polls(&mut log, false).is_empty(),
        "an unused log has no file"
    );
    append(&mut log, 300);
    let ops = polls(&mut log, false);
    assert!(matches!(ops[0], IoOp::Create { recycle: None, .. }));
    assert!(!ops.iter().any(|op| matches!(op, IoOp::Write { .. })));
    done(&mut log, &ops[0]);
    let ops = polls(&mut log, false);
    assert_eq!(write(&ops[0]), (0, 4096, 300));
    assert_eq!(done(&mut log, &ops[0]).durable, Some(Offset(1)));
}

#[test]
fn a_flush_rewrites_the_block_of_the_first_unflushed_byte_and_leaves_a_header_of_zeros() {
    let mut log = log(LogConfig::default());
    append(&mut log, 4000);
    settled(&mut log);
    append(&mut log, 40);
    // 4040 + 61 reaches into the second block.
    assert_eq!(write(&polls(&mut log, false)[0]), (0, 8192, 4040));
}

#[test]
fn batches_gather_while_a_write_that_ends_inside_a_block_is_in_flight() {
    let mut log = log(LogConfig::default());
    append(&mut log, 100);
    settled(&mut log);
    append(&mut log, 100);
    let first = writes(&mut log, false);
    append(&mut log, 512 << 10);
    append(&mut log, 100);
    assert!(writes(&mut log, false).is_empty());
    assert_eq!(done(&mut log, &first[0]).durable, Some(Offset(2)));
    let second = writes(&mut log, false);
    assert_eq!(write(&second[0]), (0, 528_384, 300 + (512 << 10)));
    assert_eq!(done(&mut log, &second[0]).durable, Some(Offset(4)));
}

#[test]
fn big_flows_have_several_writes_of_whole_blocks_in_flight() {
    let mut log = log(LogConfig::default());
    append(&mut log, 8 << 20);
    settled(&mut log);
    let from = 8 << 20;
    append(&mut log, 1 << 20);
    let mut ops = polls(&mut log, true);
    append(&mut log, 1_000_000);
    ops.extend(polls(&mut log, true));
    append(&mut log, 1_000_000);
    ops.extend(polls(&mut log, false));
    let writes: Vec<_> = ops
        .iter()
        .filter(|op| matches!(op, IoOp::Write { .. }))
        .collect();
    let ranges: Vec<_> = writes.iter().map(|op| write(op)).collect();
    assert_eq!(ranges[0], (from, from + (1 << 20), from + (1 << 20)));
    assert_eq!(ranges[1].0, ranges[0].1);
    assert_eq!(ranges[1].1, ranges[1].2, "whole blocks: more is coming");
    assert_eq!(ranges[2].0, ranges[1].1);
    assert_eq!(
        ranges[2].1, ranges[2].2,
        "others are in flight: whole blocks"
    );
    // Durable is the finished prefix.
    assert_eq!(done(&mut log, writes[2]).durable, None);
    assert_eq!(done(&mut log, writes[1]).durable, None);
    assert_eq!(done(&mut log, writes[0]).durable, Some(Offset(3)));
    // Alone: the rest, with its partial block.
    let last = self::writes(&mut log, false);
    let (rest_from, rest_to, covers) = write(&last[0]);
    assert_eq!(rest_from, ranges[2].1);
    assert!(
        covers < rest_to,
        "the end of the data is inside the last block"
    );
    assert_eq!(done(&mut log, &last[0]).durable, Some(Offset(4)));
}

#[test]
fn a_little_rest_goes_with_a_full_write_and_a_larger_one_behind_it() {
    const FULL: u64 = 1 << 20;
    for (rest, first_to) in [
        (500, FULL + 4096),
        ((64 << 10) - 161, FULL + (64 << 10)),
        ((64 << 10) - 160, FULL),
        (300 << 10, FULL),
    ] {
        let mut log = log(LogConfig::default());
        let from = 8 << 20;
        append(&mut log, from as u32 + 100);
        settled(&mut log);
        append(&mut log, (FULL + rest) as u32);
        let (to, covers) = (from + first_to, from + (100 + FULL + rest).min(first_to));
        let first = writes(&mut log, false);
        assert_eq!(write(&first[0]), (from, to, covers), "rest of {rest}");
        for op in &first {
            done(&mut log, op);
        }
        settled(&mut log);
        assert_eq!(log.chain().durable(), Offset(2), "rest of {rest}");
    }
}

#[test]
fn a_rest_is_not_taken_along_where_there_is_no_space_for_it_or_more_is_coming() {
    const FULL: u64 = 1 << 20;
    let mut log = log(LogConfig::default());
    append(&mut log, 100);
    settled(&mut log);
    // More than is allocated: what is there is written, the rest when there is space.
    append(&mut log, FULL as u32);
    let first = writes(&mut log, false);
    let (_, to, covers) = write(&first[0]);
    assert!(to < FULL && covers == to, "{to} bytes");
    done(&mut log, &first[0]);
    settled(&mut log);
    append(&mut log, (64 << 20) - 100);
    settled(&mut log);
    // The last block waits for what comes.
    let from = FULL + (64 << 20);
    append(&mut log, FULL as u32 + 10_000);
    let whole = from + FULL + 8192;
    assert_eq!(write(&writes(&mut log, true)[0]), (from, whole, whole));
}

#[test]
fn no_more_than_eight_writes_are_in_flight() {
    let mut log = log(LogConfig::default());
    append(&mut log, 64 << 20);
    settled(&mut log);
    append(&mut log, 12 << 20);
    let first = writes(&mut log, true);
    assert_eq!(first.len(), PARTITION_WRITES_MAX);
    for pair in first.windows(2) {
        assert_eq!(write(&pair[0]).1, write(&pair[1]).0);
    }
    // The last of them alone makes no room for bytes to be durable, but for a write.
    assert_eq!(done(&mut log, &first[7]).durable, None);
    assert!(writes(&mut log, true).is_empty(), "a place in the order");
    done(&mut log, &first[0]);
    assert_eq!(writes(&mut log, true).len(), 1);
}

#[test]
fn a_held_back_tail_is_written_when_nothing_else_is_in_flight() {
    let mut log = log(LogConfig::default());
    append(&mut log, 100);
    settled(&mut log);
    append(&mut log, 200_000);
    let first = writes(&mut log, true);
    let (_, to, covers) = write(&first[0]);
    assert_eq!(to, covers);
    assert_eq!(
        done(&mut log, &first[0]).durable,
        None,
        "its last bytes are not written"
    );
    let rest = writes(&mut log, true);
    assert_eq!(write(&rest[0]), (to, to + 4096, 200_100));
    assert_eq!(done(&mut log, &rest[0]).durable, Some(Offset(2)));
}

#[test]
fn writes_wait_for_space_and_space_comes_ahead() {
    let mut log = log(LogConfig::default());
    append(&mut log, 100);
    settled(&mut log);
    let mut allocated = 256 << 10;
    for _ in 0..200 {
        append(&mut log, 100_000);
        for op in polls(&mut log, false) {
            match op {
                IoOp::Preallocate { from, to, .. } => {
                    assert_eq!(from, allocated);
                    assert!(to > from && to - from <= 64 << 20);
                    allocated = to;
                }
                IoOp::Write { to, .. } => assert!(to <= allocated),
                _ => {}
            }
            done(&mut log, &op);
        }
    }
    settled(&mut log);
    assert_eq!(log.in_flight_bytes(), 0);
}

#[test]
fn a_file_never_grows_past_a_full_segment() {
    let config = LogConfig {
        segment_bytes: 300_000,
        ..LogConfig::default()
    };
    let mut log = log(config);
    for _ in 0..50 {
        append(&mut log, 29_000);
        for op in polls(&mut log, false) {
            if let IoOp::Preallocate { to, .. } | IoOp::Create { prealloc: to, .. } = op {
                assert!(to <= 300_000 + 61 + 4096);
            }
            done(&mut log, &op);
        }
    }
    assert!(log.segments().count() >= 4);
}

#[test]
fn a_new_segment_is_written_only_after_the_one_before_is_durable() {
    let config = LogConfig {
        segment_bytes: 1000,
        ..LogConfig::default()
    };
    let mut log = log(config);
    append(&mut log, 900);
    settled(&mut log);
    append(&mut log, 90);
    let old = polls(&mut log, false);
    let appended = append(&mut log, 500);
    assert!(appended.place.roll && appended.place.position == 0);
    let create = polls(&mut log, false);
    assert!(matches!(
        create[..],
        [IoOp::Create {
            segment: Offset(2),
            ..
        }]
    ));
    done(&mut log, &create[0]);
    assert!(
        polls(&mut log, false).is_empty(),
        "the old one is in flight"
    );
    assert_eq!(done(&mut log, &old[0]).durable, Some(Offset(2)));
    let next = polls(&mut log, false);
    assert!(matches!(
        next[0],
        IoOp::Write {
            segment: Offset(2),
            ..
        }
    ));
    assert!(matches!(
        &next[1],
        IoOp::Seal {
            segment: Offset(0),
            size: 990,
            ..
        }
    ));
}

#[test]
fn segments_are_not_filled_faster_than_they_are_sealed() {
    let config = LogConfig {
        segment_bytes: 1000,
        ..LogConfig::default()
    };
    let mut log = log(config);
    let (mut seals, mut open) = (std::collections::VecDeque::new(), 0);
    for _ in 0..100 {
        append(&mut log, 900);
        loop {
            let ops = polls(&mut log, false);
            if ops.is_empty() {
                break;
            }
            for op in ops {
                match op {
                    IoOp::Seal { .. } => seals.push_back(op),
                    _ => {
                        open += u32::from(matches!(op, IoOp::Create { .. }));
                        done(&mut log, &op);
                    }
                }
            }
        }
    }
    assert!(open <= 12, "{open} files are open and not sealed");
    assert!(log.chain().durable() < Offset(12));
    while let Some(seal) = seals.pop_front() {
        done(&mut log, &seal);
        for op in polls(&mut log, false) {
            match op {
                IoOp::Seal { .. } => seals.push_back(op),
                _ => drop(done(&mut log, &op)),
            }
        }
    }
    settled(&mut log);
    assert_eq!(log.chain().durable(), Offset(100));
}

#[test]
fn small_flows_get_zeroed_blocks_ahead_and_big_ones_do_not() {
    let mut log = log(LogConfig::default());
    let (mut zeroed, mut spaces) = (0, 0);
    for _ in 0..400 {
        let end = append(&mut log, 3000).place.position + 3000;
        let ops = polls(&mut log, false);
        // The end moves on while operations are under way.
        append(&mut log, 3000);
        for op in &ops {
            spaces += usize::from(matches!(op, IoOp::Preallocate { .. }));
            if let IoOp::ZeroAhead { from, to, .. } = op {
                assert!(*from >= end + 61 && to > from);
                zeroed += to - from;
            }
        }
        for op in &ops {
            done(&mut log, op);
        }
    }
    assert!(zeroed >= 1 << 20, "zeroed {zeroed}");
    assert!(spaces < 12, "space was asked for {spaces} times");
    let mut big = Log::new(LogConfig::default(), Offset(0), now(0));
    for _ in 0..100 {
        append(&mut big, 1 << 20);
        for op in polls(&mut big, false) {
            assert!(!matches!(op, IoOp::ZeroAhead { .. }));
            done(&mut big, &op);
        }
    }
}

#[test]
fn a_write_waits_for_zeros_in_flight_that_it_would_touch() {
    let mut log = log(LogConfig::default());
    let mut zeroing = None;
    while zeroing.is_none() {
        append(&mut log, 3000);
        for op in polls(&mut log, false) {
            match op {
                IoOp::ZeroAhead { from, .. } => zeroing = Some((op, from)),
                _ => {
                    done(&mut log, &op);
                }
            }
        }
    }
    let (op, from) = zeroing.unwrap();
    append(&mut log, 2 << 20);
    for op in polls(&mut log, false) {
        if let IoOp::Write { to, .. } = op {
            assert!(to <= from);
        }
        done(&mut log, &op);
    }
    polls(&mut log, false);
    done(&mut log, &op);
    settled(&mut log);
    assert_eq!(log.in_flight_bytes(), 0);
}

#[test]
fn a_dropped_segment_is_written_over_by_the_next_one() {
    let config = LogConfig {
        segment_bytes: 100_000,
        retention_bytes: 150_000,
        ..LogConfig::default()
    };
    let mut log = log(config);
    let mut recycled = 0;
    for _ in 0..60 {
        append(&mut log, 9_000);
        for op in polls(&mut log, false) {
            if let IoOp::Create {
                recycle: Some(old), ..
            } = &op
            {
                assert!(*old < log.checkpointed_log_start());
                recycled += 1;
            }
            done(&mut log, &op);
        }
        log.expire(now(0));
        let start = log.chain().log_start();
        log.on_checkpoint(start);
    }
    assert!(recycled >= 2, "{recycled} files were used again");
    assert!(log.disk_bytes() < 450_000);
}

#[test]
fn a_full_ring_gives_up_what_does_not_fit_and_no_more() {
    let mut log = log(LogConfig {
        segment_bytes: 10_000,
        retention_bytes: 25_000,
        ..LogConfig::default()
    });
    for _ in 0..2 {
        append(&mut log, 9_000);
    }
    settled(&mut log);
    assert_eq!(log.expire_by_size(), Expired::default());
    append(&mut log, 9_000);
    append(&mut log, 9_000);
    settled(&mut log);
    assert_eq!(log.expire_by_size().log_start, Some(Offset(1)));
    assert_eq!(log.expire_by_size(), Expired::default());
    assert_eq!(log.size_bytes(), 27_000);
}

#[test]
fn a_file_that_is_written_over_is_zeroed_in_whole_blocks_behind_its_old_end() {
    let config = LogConfig {
        segment_bytes: 1 << 20,
        retention_bytes: 1 << 20,
        ..LogConfig::default()
    };
    let mut log = log(config);
    let (mut recycled, mut zeroed_behind) = (None, 0);
    for round in 0..3_000 {
        // The first are long, so that the file ends inside a block; the last are small and many.
        append(&mut log, if round < 60 { 50_001 } else { 3_001 });
        for op in polls(&mut log, false) {
            match &op {
                IoOp::Create { recycle, .. } => recycled = *recycle,
                IoOp::ZeroAhead { from, to, .. } => {
                    assert!(from.is_multiple_of(4096) && to.is_multiple_of(4096));
                    zeroed_behind += u64::from(recycled.is_some());
                }
                _ => {}
            }
            done(&mut log, &op);
        }
        log.expire(now(0));
        let start = log.chain().log_start();
        log.on_checkpoint(start);
    }
    assert!(zeroed_behind > 0);
}

#[test]
fn a_file_goes_only_after_the_checkpoint_and_its_last_reader() {
    let config = LogConfig {
        segment_bytes: 1000,
        ..LogConfig::default()
    };
    let mut log = log(config);
    append(&mut log, 900);
    append(&mut log, 900);
    settled(&mut log);
    assert!(log.begin_read(Offset(0)));
    assert_eq!(log.delete_records_before(Offset(1)), Ok(Offset(1)));
    assert!(log.checkpoint_needed());
    settled(&mut log);
    log.on_checkpoint(Offset(1));
    assert!(polls(&mut log, false).is_empty(), "somebody reads it");
    assert!(log.begin_read(Offset(0)), "a planned read may still begin");
    log.end_read(Offset(0));
    log.end_read(Offset(0));
    // It rolled just now, so the file is kept for the next segment, for a while.
    assert!(polls(&mut log, false).is_empty());
    assert!(!log.begin_read(Offset(0)));
    let later = log.io_deadline().expect("the spare does not stay for ever");
    let late = Now {
        mono: later,
        ..now(0)
    };
    assert_eq!(
        log.poll_io(late, false),
        Some(IoOp::Delete { segment: Offset(0) })
    );
}

#[test]
fn a_file_waits_for_the_answers_sent_from_it_for_a_minute_and_not_when_space_is_short() {
    let config = LogConfig {
        segment_bytes: 1000,
        ..LogConfig::default()
    };
    let late = |log: &Log| Now {
        mono: log.io_deadline().expect("it does not wait for ever"),
        ..now(0)
    };
    // A log whose first segment is held by two and was dropped.
    let held = || {
        let mut log = log(config);
        append(&mut log, 900);
        append(&mut log, 900);
        settled(&mut log);
        assert!(log.hold(Offset(0)));
        assert_eq!(log.delete_records_before(Offset(1)), Ok(Offset(1)));
        settled(&mut log);
        log.on_checkpoint(Offset(1));
        assert!(polls(&mut log, false).is_empty());
        assert!(log.hold(Offset(0)), "an answer that was just made");
        assert_eq!(log.locate(Offset(0)), Err(ErrorCode::OffsetOutOfRange));
        assert_eq!(log.readable_end(Offset(0)), Some(900));
        log
    };

    let mut sent = held();
    assert!(!sent.release(Offset(0)));
    assert!(polls(&mut sent, false).is_empty());
    assert_eq!(sent.readable_end(Offset(0)), Some(900));
    assert!(sent.release(Offset(0)), "the last of them");
    // It becomes the spare.
    assert!(polls(&mut sent, false).is_empty());
    assert_eq!(sent.readable_end(Offset(0)), None);
    assert!(!sent.hold(Offset(0)));

    let mut slow = held();
    let after_a_minute = late(&slow);
    assert_eq!(after_a_minute.mono, now(0).mono.plus_ms(60_000));
    assert_eq!(slow.poll_io(after_a_minute, false), None);
    assert_eq!(slow.readable_end(Offset(0)), None, "it is the spare");
    assert!(!slow.release(Offset(0)));
    assert!(!slow.release(Offset(0)));

    let mut elsewhere = held();
    assert!(elsewhere.give_up_holds(), "others need space");
    assert!(polls(&mut elsewhere, false).is_empty(), "it is the spare");
    assert_eq!(elsewhere.readable_end(Offset(0)), None);

    let mut short = held();
    append(&mut short, 900);
    let full = || Err(IoFailure::NoSpace("full".to_owned()));
    let taken = (0..100).any(|_| match short.poll_io(now(0), false) {
        Some(IoOp::Create {
            recycle: Some(Offset(0)),
            ..
        }) => true,
        Some(op @ IoOp::Create { .. }) => {
            short.on_io(op.tag(), full(), now(0));
            false
        }
        Some(op) => {
            done(&mut short, &op);
            false
        }
        None => {
            short.ask_again();
            false
        }
    });
    assert!(taken, "there was no other space");
}

#[test]
fn an_expired_active_segment_is_rolled_and_its_successor_exists_before_it_goes() {
    let mut log = log(LogConfig {
        retention_ms: 1000,
        ..LogConfig::default()
    });
    append(&mut log, 500);
    settled(&mut log);
    assert_eq!(log.expire(now(1000)), Expired::default());
    assert_eq!(log.expire(now(1001)).log_start, Some(Offset(1)));
    log.on_checkpoint(Offset(1));
    let late = now(700_000);
    let create = log.poll_io(late, false).unwrap();
    assert!(matches!(
        create,
        IoOp::Create {
            segment: Offset(1),
            ..
        }
    ));
    while let Some(op) = log.poll_io(late, false) {
        assert!(
            !matches!(op, IoOp::Delete { .. }),
            "before the next file exists"
        );
        log.on_io(op.tag(), Ok(()), late);
    }
    log.on_io(create.tag(), Ok(()), late);
    assert_eq!(
        log.poll_io(late, false),
        Some(IoOp::Delete { segment: Offset(0) })
    );
    assert_eq!(log.chain().log_start(), log.chain().appended());
}

#[test]
fn segments_roll_by_size_time_and_index() {
    let facts = |size, ms: i64| BatchFacts {
        size,
        last_offset_delta: 0,
        max_timestamp: Timestamp(1_000_000 + ms),
    };
    let mut log = log(LogConfig {
        segment_bytes: 1000,
        segment_ms: 5000,
        index_interval_bytes: 1,
        index_bytes_max: 24,
        ..LogConfig::default()
    });
    log.append(&facts(100, 0), now(0));
    assert!(!log.next_position(&facts(900, 5000), now(0)).roll);
    assert!(log.next_position(&facts(901, 5000), now(0)).roll, "by size");
    assert!(
        log.next_position(&facts(1, 5001), now(0)).roll,
        "by time of records"
    );
    for _ in 0..3 {
        assert!(!log.next_position(&facts(10, 0), now(0)).roll);
        log.append(&facts(10, 0), now(0));
    }
    assert!(
        log.next_position(&facts(10, 0), now(0)).roll,
        "the index is full"
    );
    let far = BatchFacts {
        last_offset_delta: i32::MAX - 3,
        ..facts(10, 0)
    };
    let mut log = Log::new(LogConfig::default(), Offset(0), now(0));
    for _ in 0..3 {
        log.append(&facts(10, 0), now(0));
    }
    assert!(!log.next_position(&far, now(0)).roll);
    log.append(&facts(10, 0), now(0));
    assert!(
        log.next_position(&far, now(0)).roll,
        "relative offsets are 31 bits"
    );
}

#[test]
fn the_proof_names_only_files_that_are_there() {
    let config = LogConfig {
        segment_bytes: 1000,
        ..LogConfig::default()
    };
    let mut log = log(config);
    append(&mut log, 900);
    assert_eq!(log.proof().position, 0);
    settled(&mut log);
    let at = |segment, position, offset| Proof {
        segment: Offset(segment),
        position,
        offset: Offset(offset),
    };
    assert_eq!(log.proof(), at(0, 900, 1));
    append(&mut log, 800);
    let create = polls(&mut log, false);
    assert!(matches!(create[0], IoOp::Create { .. }));
    let seal = create
        .iter()
        .find(|op| matches!(op, IoOp::Seal { .. }))
        .unwrap();
    done(&mut log, seal);
    assert_eq!(
        log.proof(),
        at(0, 900, 1),
        "sealed, but the next has no file"
    );
    done(&mut log, &create[0]);
    assert_eq!(log.proof(), at(1, 0, 1));
    settled(&mut log);
    assert_eq!(log.proof(), at(1, 800, 2));
}

#[test]
fn a_segment_may_hold_every_offset_that_a_relative_one_can_say() {
    let mut log = log(LogConfig::default());
    let facts = BatchFacts {
        size: 100,
        last_offset_delta: i32::MAX,
        max_timestamp: Timestamp(1_000_000),
    };
    let end = log.append(&facts, now(0)).end;
    settled(&mut log);
    assert_eq!(log.chain().high_watermark(), end);
    let first = log.lookup_timestamp(Timestamp(1_000_000), Offset(0));
    assert_eq!(first.map(|location| location.position), Some(0));
    assert_eq!(log.lookup_timestamp(Timestamp(1_000_000), end), None);
    assert_eq!(log.lookup_timestamp(Timestamp(1_000_000), end.next()), None);
    assert!(log.locate(end).is_ok() && log.max_timestamp().is_some());
    append(&mut log, 100);
    assert_eq!(log.segments().collect::<Vec<_>>(), [Offset(0), end]);
    settled(&mut log);
}
