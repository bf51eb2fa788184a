//! The rules of the write plan, one by one.

use super::*;
use crate::base::limits::PARTITION_WRITES_MAX;
use crate::base::{LeaderEpoch, MonoNs, Now, Offset, Timestamp};

pub(super) fn now(ms: i64) -> Now {
    Now {
        wall: Timestamp(1_000_000 + ms),
        mono: MonoNs(ms as u64 * 1_000_000),
    }
}

pub(super) fn log(config: LogConfig) -> Log {
    let mut log = Log::new(config, Offset(0), now(0));
    log.lead(LeaderEpoch(0));
    log
}

pub(super) fn append(log: &mut Log, size: u32) -> Appended {
    let facts = BatchFacts {
        size,
        last_offset_delta: 0,
        max_timestamp: Timestamp(1_000_000),
    };
    log.append(&facts, now(0))
}

pub(super) fn polls(log: &mut Log, more_coming: bool) -> Vec<IoOp> {
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

pub(super) fn done(log: &mut Log, op: &IoOp) -> Progress {
    log.on_io(op.tag(), Ok(()), now(0))
}

/// A log whose file exists, with everything before durable.
pub(super) fn settled(log: &mut Log) {
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
