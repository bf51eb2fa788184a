//! What the state machines cost: finding an offset or a time in a full segment, a heartbeat of a group member.
//!
//! Estimate, on a core of 3 GHz:
//! - an index of n entries is halved log2(n) times, 20 cycles each (the first dozen places stay in L1, the last ones come from L2
//!   or L3). A time is looked for twice: the offset before it, then its place. The segment being written has an entry each 4 KiB
//!   (n = 258,000), a sealed one each 64 KiB (n = 16,000).
//! - a heartbeat finds its group (10 halvings of 1,000 names) and three times its member (4 of 10), 40 cycles each, since the text
//!   of a name lies apart from its tree; takes its timer out and puts it back (13 of 10,000, 10 cycles each); and counts or copies
//!   4 names, 60 cycles each.
//!
//! `cargo bench --bench state`.

mod common;
#[path = "common/sampled.rs"]
mod sampled;

use std::hint::black_box;

use bytes::Bytes;
use common::cycles;
use criterion::Criterion;
use ringlog::base::{ErrorCode, MonoNs, Now, Offset, Timestamp};
use ringlog::group::{Config, Coordinator, HeartbeatRequest};
use ringlog::log::{BatchFacts, Log, LogConfig};
use ringlog::wire::messages::coordinator_records::{
    GroupMetadataKey, GroupMetadataValue, MemberMetadata,
};
use ringlog::wire::{Message, Str, Writer};
use sampled::sampled;

const HALVING_CYCLES: f64 = 20.0;
const NAME_COMPARED_CYCLES: f64 = 40.0;
const TIMER_COMPARED_CYCLES: f64 = 10.0;
const NAME_TAKEN_CYCLES: f64 = 60.0;

const SEGMENT_BYTES: u64 = 1 << 30;
/// Just above the interval of the index: every batch gets an entry.
const BATCH_BYTES: u32 = 4160;
const RECORDS_A_BATCH: u64 = 4;
const SEALED_INTERVAL_BYTES: u64 = 64 << 10;
const START_MS: i64 = 1_800_000_000_000;

const GROUPS: usize = 1_000;
const MEMBERS: usize = 10;

fn main() {
    let mut criterion = sampled::criterion();
    let batches = SEGMENT_BYTES / u64::from(BATCH_BYTES);
    let mut log = Log::new(LogConfig::default(), Offset::ZERO, now(0));
    grow(&mut log, batches);
    assert_eq!(log.segments().count(), 1);
    lookups(&mut criterion, &log, "a segment being written", batches);
    // It rolls, and the full segment is sealed.
    grow(&mut log, 1);
    assert!(log.is_sealed(Offset::ZERO));
    let entries = SEGMENT_BYTES / SEALED_INTERVAL_BYTES;
    lookups(&mut criterion, &log, "a sealed segment", entries);
    heartbeat(&mut criterion);
    criterion.final_summary();
}

/// Appends so many batches, and lets a disk that does everything at once make them durable.
fn grow(log: &mut Log, batches: u64) {
    let facts = |number: u64| BatchFacts {
        size: BATCH_BYTES,
        last_offset_delta: RECORDS_A_BATCH as i32 - 1,
        max_timestamp: time_of(number),
    };
    let begin = log.chain().appended().0 as u64 / RECORDS_A_BATCH;
    for number in begin..begin + batches {
        log.append(&facts(number), now(number));
        while let Some(op) = log.poll_io(now(number), false) {
            log.on_io(op.tag(), Ok(()), now(number));
        }
    }
    assert_eq!(log.chain().durable(), log.chain().appended());
}

/// Each batch is a millisecond later than the one before.
fn time_of(batch: u64) -> Timestamp {
    Timestamp(START_MS + batch as i64)
}

fn now(ms: u64) -> Now {
    Now {
        wall: time_of(ms),
        mono: MonoNs((1_000 + ms) * 1_000_000),
    }
}

fn lookups(criterion: &mut Criterion, log: &Log, segment: &str, entries: u64) {
    let batches = SEGMENT_BYTES / u64::from(BATCH_BYTES);
    let halvings = (entries as f64).log2();
    let mut place = Places(1);
    let name = format!("offset found in {segment} of 1 GiB");
    let estimate = cycles(halvings * HALVING_CYCLES);
    sampled(criterion, &name, estimate, None, || {
        // Not the first of a batch, and not in the first batch, which has no entry.
        let offset = (1 + place.below(batches - 1)) * RECORDS_A_BATCH + 1;
        let found = log.locate(Offset(offset as i64));
        black_box(found.expect("it is there"));
    });
    let name = format!("time found in {segment} of 1 GiB");
    let estimate = cycles(2.0 * halvings * HALVING_CYCLES);
    sampled(criterion, &name, estimate, None, || {
        let timestamp = time_of(1 + place.below(batches - 1));
        let found = log.lookup_timestamp(timestamp, Offset::ZERO);
        black_box(found.expect("it is there"));
    });
}

fn heartbeat(criterion: &mut Criterion) {
    let mut coordinator = coordinator();
    let requests: Vec<HeartbeatRequest> = (0..GROUPS * MEMBERS)
        .map(|at| HeartbeatRequest {
            group_id: group_id(at / MEMBERS),
            generation: 1,
            member_id: member_id(at % MEMBERS),
            group_instance_id: None,
        })
        .collect();
    let mut place = Places(1);
    let mut time_ns = 2_000_000_000;
    let names = (GROUPS as f64).log2() + 3.0 * (MEMBERS as f64).log2();
    let timers = 2.0 * ((GROUPS * MEMBERS) as f64).log2();
    let estimate = cycles(
        names * NAME_COMPARED_CYCLES + timers * TIMER_COMPARED_CYCLES + 4.0 * NAME_TAKEN_CYCLES,
    );
    let name = format!("heartbeat among {GROUPS} groups of {MEMBERS}");
    sampled(criterion, &name, estimate, None, || {
        let request = &requests[place.below(requests.len() as u64) as usize];
        time_ns += 1_000;
        let now = Now {
            wall: Timestamp(START_MS),
            mono: MonoNs(time_ns),
        };
        let answer = coordinator.heartbeat(now, request);
        assert_eq!(answer, ErrorCode::None);
    });
}

/// A coordinator whose groups are stable, loaded from their records.
fn coordinator() -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default());
    for group in 0..GROUPS {
        let key = GroupMetadataKey {
            group: Str::copy_from(&group_id(group)),
        };
        let value = GroupMetadataValue {
            protocol_type: Str::copy_from("consumer"),
            generation: 1,
            protocol: Some(Str::copy_from("range")),
            leader: Some(Str::copy_from(&member_id(0))),
            current_state_timestamp: START_MS,
            members: (0..MEMBERS).map(member).collect(),
        };
        let (key, value) = (versioned(2, &key, 0), versioned(3, &value, 3));
        coordinator
            .replay(&key, Some(&value))
            .expect("a good record");
    }
    coordinator.finish_loading(now(0));
    assert_eq!(coordinator.group_count(), GROUPS);
    coordinator
}

fn member(number: usize) -> MemberMetadata {
    MemberMetadata {
        member_id: Str::copy_from(&member_id(number)),
        client_id: Str::copy_from("consumer"),
        client_host: Str::copy_from("/127.0.0.1"),
        rebalance_timeout: 300_000,
        session_timeout: 45_000,
        ..MemberMetadata::default()
    }
}

fn group_id(number: usize) -> String {
    format!("group-{number:04}")
}

/// As long as those that a coordinator gives.
fn member_id(number: usize) -> String {
    format!("consumer-{number:04}-4a3c1f0e-9d1b-4f7c-8f5d-2f1a6b7c8d9e")
}

/// A key or value of `__consumer_offsets`: its number, then the message.
fn versioned(number: i16, message: &impl Message, version: i16) -> Bytes {
    let mut writer = Writer::new();
    writer.i16(number);
    message.encode(&mut writer, version).expect("fits");
    writer.into_bytes()
}

/// Places in no order, the same ones in every run.
struct Places(u64);

impl Places {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
