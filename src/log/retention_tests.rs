//! Segments that roll, are dropped, written over and deleted, rule by rule.

use super::writer_tests::{append, done, log, now, polls, settled};
use super::*;
use crate::base::{ErrorCode, Now, Offset, Timestamp};

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
