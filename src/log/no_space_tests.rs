//! A full disk, operation by operation.

use super::*;
use crate::base::{LeaderEpoch, MonoNs, Now, Offset, Timestamp};

fn now(ms: i64) -> Now {
    Now {
        wall: Timestamp(1_000_000 + ms),
        mono: MonoNs(ms as u64 * 1_000_000),
    }
}

fn append(log: &mut Log, size: u32) {
    let facts = BatchFacts {
        size,
        last_offset_delta: 0,
        max_timestamp: Timestamp(1_000_000),
    };
    log.append(&facts, now(0));
}

fn full() -> Result<(), IoFailure> {
    Err(IoFailure::NoSpace("errno 28".to_owned()))
}

fn kind(tag: IoTag) -> &'static str {
    match tag {
        IoTag::Create(_) => "create",
        IoTag::Cut(_) => "cut",
        IoTag::Preallocate(_) => "preallocate",
        IoTag::ZeroAhead(_) => "zero ahead",
        IoTag::Write(_) => "write",
        IoTag::Seal(_) => "seal",
        IoTag::Save(_) => "save",
        IoTag::SaveEpochs => "save epochs",
        IoTag::Delete(_) => "delete",
    }
}

/// A minute of a log's life with every kind of operation, of which the first of this kind finds no space.
struct Life {
    log: Log,
    refused: &'static str,
    refused_at: Option<i64>,
    asked_again_at: Option<i64>,
}

impl Life {
    fn run(refused: &'static str) -> Life {
        let config = LogConfig {
            segment_bytes: 2 << 20,
            ..LogConfig::default()
        };
        let mut log = Log::new(config, Offset(0), now(0));
        log.lead(LeaderEpoch(0));
        log.writer.require_cut(false);
        let mut life = Life {
            log,
            refused,
            refused_at: None,
            asked_again_at: None,
        };
        for ms in (0..80_000).step_by(100) {
            if ms < 60_000 && !life.log.starved() {
                append(&mut life.log, 9_000);
            }
            if ms == 50_000 {
                life.settle(ms);
                let end = life.log.chain().high_watermark();
                life.log.delete_records_before(end).expect("in the log");
                life.log.on_checkpoint(end);
            }
            life.settle(ms);
            if ms % 5_000 == 0
                && let Some(save) = life.log.save()
            {
                life.end(save.tag(), ms);
            }
            if life.log.offline().is_some() {
                break;
            }
        }
        life
    }

    fn settle(&mut self, ms: i64) {
        loop {
            let ops: Vec<_> = std::iter::from_fn(|| self.log.poll_io(now(ms), false)).collect();
            if ops.is_empty() {
                return;
            }
            for op in ops {
                self.end(op.tag(), ms);
            }
        }
    }

    fn end(&mut self, tag: IoTag, ms: i64) {
        let wanted = kind(tag) == self.refused;
        match self.refused_at {
            None if wanted => {
                self.refused_at = Some(ms);
                let progress = self.log.on_io(tag, full(), now(ms));
                assert_eq!(progress.durable, None);
                return;
            }
            Some(at) if wanted => {
                // Space may be asked for again at once, if it is less.
                let at_once = at == ms && self.refused != "preallocate";
                assert!(!at_once, "a full disk is asked again at once: {tag:?}");
                self.asked_again_at.get_or_insert(ms);
            }
            _ => {}
        }
        self.log.on_io(tag, Ok(()), now(ms));
    }
}

#[test]
fn every_operation_but_a_write_is_asked_for_again_when_there_may_be_space() {
    let kinds = [
        "create",
        "cut",
        "preallocate",
        "zero ahead",
        "seal",
        "save",
        "save epochs",
        "delete",
    ];
    for kind in kinds {
        let life = Life::run(kind);
        let (log, refused) = (&life.log, life.refused_at);
        let refused = refused.unwrap_or_else(|| panic!("there was no {kind}"));
        let again = life.asked_again_at;
        let again = again.unwrap_or_else(|| panic!("{kind} was not asked for again"));
        let soon = if kind == "save" { 5_000 } else { 1_500 };
        assert!(again <= refused + soon, "{kind}: {again}");
        assert_eq!(log.offline(), None, "{kind}");
        assert!(log.quiet(), "{kind}: everything is durable at the end");
        assert_eq!(log.chain().durable(), log.chain().appended());
        assert!(log.chain().durable() > Offset(580), "{kind}: it went on");
        assert!(
            log.disk_bytes() < 10 << 20,
            "{kind}: files are left: {}",
            log.disk_bytes()
        );
    }
}

#[test]
fn a_write_that_finds_no_space_is_final() {
    let life = Life::run("write");
    assert!(life.log.offline().expect("offline").contains("Write"));
    assert_eq!(life.log.chain().durable(), Offset(0));
}

#[test]
fn where_much_does_not_fit_less_is_asked_for_before_records_are_refused() {
    let mut log = Log::new(LogConfig::default(), Offset(0), now(0));
    let mut asked = Vec::new();
    // Sizes that are no round numbers of blocks.
    append(&mut log, 11_111_111);
    for ms in 0..2_000 {
        if !log.starved() {
            append(&mut log, 100_000);
        }
        while let Some(op) = log.poll_io(now(ms), false) {
            let result = match op {
                IoOp::Preallocate { from, to, .. } if to > 40 << 20 => {
                    asked.push(to - from);
                    full()
                }
                _ => Ok(()),
            };
            log.on_io(op.tag(), result, now(ms));
        }
        if log.starved() {
            break;
        }
    }
    assert!(log.starved());
    assert!(
        asked.len() > 3 && asked.is_sorted_by(|a, b| a >= b),
        "{asked:?}"
    );
    assert_eq!(asked.last(), Some(&(256 << 10)));
    let used = 11_111_111 + (log.chain().durable().0 - 1) * 100_000;
    assert!(used > 38 << 20, "{used} bytes of 40 MiB were used");
}

/// A log of three segments whose fourth finds no space, since others have the disk.
fn without_space_to_roll() -> Log {
    let config = LogConfig {
        segment_bytes: 1000,
        ..LogConfig::default()
    };
    let mut log = Log::new(config, Offset(0), now(0));
    for offset in 0..4 {
        append(&mut log, 900);
        while let Some(op) = log.poll_io(now(0), false) {
            let refused = matches!(op, IoOp::Create { segment, .. } if segment == Offset(3));
            log.on_io(op.tag(), if refused { full() } else { Ok(()) }, now(0));
        }
        assert_eq!(log.starved(), offset == 3);
    }
    log
}

#[test]
fn dropped_segments_make_room_for_the_next_that_finds_none() {
    for all in [false, true] {
        let mut log = without_space_to_roll();
        let to = Offset(if all { 3 } else { 2 });
        log.delete_records_before(to).expect("in the log");
        log.on_checkpoint(to);
        let (mut deleted, mut recycled) = (Vec::new(), None);
        for ms in [0, 1_000, 2_000] {
            while let Some(op) = log.poll_io(now(ms), false) {
                // There is space only where a file goes or is used again.
                let result = match &op {
                    IoOp::Delete { segment } => {
                        deleted.push(*segment);
                        Ok(())
                    }
                    IoOp::Create {
                        recycle: Some(old), ..
                    } => {
                        recycled = Some(*old);
                        Ok(())
                    }
                    IoOp::Create { recycle: None, .. } => full(),
                    _ => Ok(()),
                };
                log.on_io(op.tag(), result, now(ms));
            }
        }
        assert_eq!(log.chain().durable(), Offset(4), "all: {all}");
        assert_eq!(recycled, Some(Offset(0)));
        // The last one, where all were dropped, is kept for the segment after.
        assert_eq!(deleted, [Offset(1)]);
    }
}

#[test]
fn the_last_file_stays_until_the_next_exists() {
    let mut log = without_space_to_roll();
    log.delete_records_before(Offset(3)).expect("in the log");
    log.on_checkpoint(Offset(3));
    // Long after the last roll no spare is kept.
    let late = 10_000_000;
    let mut deleted = Vec::new();
    for ms in [late, late + 1_000, late + 2_000] {
        while let Some(op) = log.poll_io(now(ms), false) {
            let result = match &op {
                IoOp::Create { .. } if deleted.len() < 2 => full(),
                IoOp::Delete { segment } => {
                    assert_ne!(*segment, Offset(2), "the last one");
                    deleted.push(*segment);
                    Ok(())
                }
                IoOp::Create { .. } => {
                    assert_eq!(deleted, [Offset(0), Offset(1)]);
                    return;
                }
                _ => Ok(()),
            };
            log.on_io(op.tag(), result, now(ms));
        }
    }
    panic!("the next segment was not asked for again");
}

#[test]
fn segments_that_cannot_be_sealed_for_want_of_space_end_in_a_refusal() {
    let config = LogConfig {
        segment_bytes: 1000,
        ..LogConfig::default()
    };
    let mut log = Log::new(config, Offset(0), now(0));
    log.lead(LeaderEpoch(0));
    let mut appended = 0;
    while !log.starved() {
        assert!(appended < 100, "producers would wait for ever");
        append(&mut log, 900);
        appended += 1;
        while let Some(op) = log.poll_io(now(0), false) {
            let refused = matches!(op, IoOp::Seal { .. });
            log.on_io(op.tag(), if refused { full() } else { Ok(()) }, now(0));
        }
    }
    assert!(appended > 2, "where there is a file records go on");
    while let Some(op) = log.poll_io(now(1_000), false) {
        log.on_io(op.tag(), Ok(()), now(1_000));
    }
    assert!(!log.starved());
    assert_eq!(log.chain().durable(), Offset(appended));
}
