//! Seeded histories of a log on a simulated disk: appends, writes in any order, crashes at any step, recoveries.
//! The disk keeps what was finished for certain; of what was in flight at a crash any subset of 512-byte sectors lands.
//! Checked: what was acknowledged is found again, byte for byte, at its offset; nothing else is ever readable;
//! recovering twice gives the same; no two operations in flight touch a block; no write reaches past the allocation.
//! `RINGLOG_SEED=n` runs one history; every failure prints its seed.

use std::collections::{BTreeMap, HashMap};

use super::checkpoint::PartitionCheckpoint;
use super::simulated_disk::{Disk, Random};
use super::*;
use crate::base::limits::PARTITION_WRITES_MAX;
use crate::base::{LeaderEpoch, MonoNs, Now, Offset, PartitionIndex, Timestamp, TopicPartition};
use crate::record::BatchBuilder;
use crate::record::scan::{Verified, verify_next};

pub(super) fn input(disk: &Disk, config: LogConfig) -> RecoveryInput {
    RecoveryInput {
        config,
        files: disk
            .files
            .iter()
            .map(|(base, file)| SegmentFile {
                base: Offset(*base),
                length: file.len() as u64,
                offset_index: disk.indexes.get(base).map(|i| i.0.clone()),
                time_index: disk.indexes.get(base).map(|i| i.1.clone()),
            })
            .collect(),
        checkpoint: disk.checkpoint.clone(),
        clean: disk.clean,
        epochs_text: disk.epochs_text.clone(),
        replay_from: disk.checkpoint.as_ref().map(|c| c.proof.offset),
        leader_epoch_max: LeaderEpoch(i32::MAX),
        verify_all: false,
    }
}

/// Runs a recovery to its end; the bases of the batches it replayed come with it.
pub(super) fn recover(disk: &Disk, input: RecoveryInput) -> Result<(Log, Vec<i64>), Refusal> {
    let mut recovery = Recovery::start(input, now(0))?;
    let mut replayed = Vec::new();
    while let Some(need) = recovery.need()? {
        let file = &disk.files[&need.segment.0];
        recovery.on_bytes(&file[need.from as usize..need.to as usize], &mut |header| {
            replayed.push(header.base_offset.0);
        })?;
    }
    Ok((recovery.finish(now(0))?, replayed))
}

pub(super) fn now(ms: i64) -> Now {
    Now {
        wall: Timestamp(1_700_000_000_000 + ms),
        mono: MonoNs(ms as u64 * 1_000_000),
    }
}

pub(super) const PARTITION: TopicPartition = TopicPartition {
    topic_id: crate::base::Uuid([7; 16]),
    partition: PartitionIndex(0),
};

/// A log with its disk and the truth about it.
pub(super) struct World {
    pub log: Log,
    pub disk: Disk,
    config: LogConfig,
    /// Bytes of each segment as memory holds them.
    arena: HashMap<i64, Vec<u8>>,
    /// Every batch appended in this life, by base offset.
    appended: BTreeMap<i64, Vec<u8>>,
    /// Batches that were acknowledged, ever, and are not below the log start.
    acknowledged: BTreeMap<i64, Vec<u8>>,
    /// Acknowledged once, now below the log start: a crash before the checkpoint brings them back.
    deleted: BTreeMap<i64, Vec<u8>>,
    epoch: i32,
    ms: i64,
    writing_checkpoint: Option<PartitionCheckpoint>,
    /// What is found next was not written by this world, but is right.
    trusting: bool,
    /// Batches of one record in a few sizes.
    pub grid: bool,
    /// Batches of about 1 MiB among the small ones, and as many under way as there may be.
    large: bool,
    /// Most writes that were in flight at once, and the bytes of the largest.
    writes_max: (usize, u64),
    /// A restart brings a new leader epoch.
    pub bumps: bool,
    pub crashes: u64,
}

impl World {
    pub fn new(config: LogConfig) -> World {
        let mut log = Log::new(config, Offset::ZERO, now(0));
        log.lead(LeaderEpoch(0));
        World {
            log,
            disk: Disk::default(),
            config,
            arena: HashMap::new(),
            appended: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            deleted: BTreeMap::new(),
            epoch: 0,
            ms: 0,
            writing_checkpoint: None,
            trusting: false,
            grid: false,
            large: false,
            writes_max: (0, 0),
            bumps: false,
            crashes: 0,
        }
    }

    /// A log recovered from a disk on which all that is found is right.
    pub fn found(disk: Disk, config: LogConfig) -> World {
        let mut world = World::new(config);
        world.disk = disk;
        world.trusting = true;
        world.recover();
        world.trusting = false;
        world
    }

    fn now(&self) -> Now {
        now(self.ms)
    }

    pub fn pass(&mut self, ms: i64) {
        self.ms += ms;
    }

    pub fn append(&mut self, records: u64, value_bytes: usize, fill: u8) {
        let mut builder = BatchBuilder::new();
        let value = vec![fill; value_bytes];
        for i in 0..records {
            builder.append(
                Timestamp(self.now().wall.0 + i as i64),
                None,
                Some(&value),
                &[],
            );
        }
        let size = builder.clone().finish(Offset::ZERO, LeaderEpoch(0)).len();
        let facts = BatchFacts {
            size: size as u32,
            last_offset_delta: records as i32 - 1,
            max_timestamp: Timestamp(self.now().wall.0 + records as i64 - 1),
        };
        let place = self.log.next_position(&facts, self.now());
        let done = self.log.append(&facts, self.now());
        assert_eq!(done.place, place);
        assert_eq!(done.leader_epoch, LeaderEpoch(self.epoch));
        let bytes = builder.finish(done.base_offset, done.leader_epoch);
        let image = self.arena.entry(place.segment.0).or_default();
        assert_eq!(image.len() as u64, place.position);
        image.extend_from_slice(&bytes);
        self.appended.insert(done.base_offset.0, bytes);
    }

    /// Appends one record in a batch of exactly `size` bytes.
    pub fn append_sized(&mut self, size: usize, fill: u8) {
        let bytes = |value: usize| {
            let mut builder = BatchBuilder::new();
            builder.append(self.now().wall, None, Some(&vec![fill; value]), &[]);
            builder.finish(Offset::ZERO, LeaderEpoch(0)).len()
        };
        // What is around the value depends a little on its length.
        let mut value = size.saturating_sub(80);
        for _ in 0..3 {
            value = value + size - bytes(value);
        }
        assert_eq!(bytes(value), size, "no value makes a batch of {size} bytes");
        self.append(1, value, fill);
    }

    /// Hands out what the log asks for, until it asks for nothing.
    pub fn poll(&mut self, more_coming: bool) {
        while let Some(op) = self.log.poll_io(self.now(), more_coming) {
            if let IoOp::Write { from, to, .. } = op {
                self.writes_max.1 = self.writes_max.1.max(to - from);
            }
            self.disk.submit(op, &self.arena);
        }
        let writes = self.disk.in_flight.iter();
        let writes = writes
            .filter(|(op, _)| matches!(op, IoOp::Write { .. }))
            .count();
        self.writes_max.0 = self.writes_max.0.max(writes);
    }

    pub fn finish_one(&mut self, at: usize) {
        let tag = self.disk.finish(at);
        let progress = self.log.on_io(tag, Ok(()), self.now());
        assert!(!progress.offline);
        if let Some(durable) = progress.durable {
            assert_eq!(durable, self.log.chain().durable());
            for (base, bytes) in self.appended.range(..durable.0) {
                self.acknowledged.insert(*base, bytes.clone());
            }
            self.appended = self.appended.split_off(&durable.0);
        }
        self.forget_deleted();
    }

    pub fn settle(&mut self) {
        loop {
            self.poll(false);
            if self.disk.in_flight.is_empty() {
                return;
            }
            self.finish_one(0);
        }
    }

    fn forget_deleted(&mut self) {
        let start = self.log.chain().log_start().0;
        while let Some((&base, bytes)) = self.acknowledged.first_key_value() {
            let last = crate::record::BatchHeader::read(bytes)
                .expect("a whole batch")
                .last_offset();
            if last.0 >= start {
                break;
            }
            let bytes = self.acknowledged.remove(&base).expect("the first");
            self.deleted.insert(base, bytes);
        }
    }

    /// The power goes and comes back: what is found must be what was acknowledged, and a prefix of what was appended.
    pub fn crash(&mut self, random: &mut Random) {
        self.crashes += 1;
        if let Some(entry) = self.writing_checkpoint.take()
            && random.one_in(2)
        {
            self.disk.checkpoint = Some(entry);
        }
        self.disk.crash(random);
        self.bumps = !self.grid && random.one_in(2);
        self.recover();
    }

    pub fn recover(&mut self) {
        let (log, replayed) = recover(&self.disk, input(&self.disk, self.config))
            .unwrap_or_else(|refusal| panic!("refused after a crash: {refusal:?}"));
        let (again, replayed_again) =
            recover(&self.disk, input(&self.disk, self.config)).expect("the second time too");
        assert_eq!(log.chain(), again.chain(), "recovery twice is the same");
        assert_eq!(replayed, replayed_again);
        let mut all = input(&self.disk, self.config);
        all.verify_all = true;
        let (all, _) = recover(&self.disk, all).expect("verifying everything finds the same");
        assert_eq!(log.chain(), all.chain());
        let old_start = self.log.chain().log_start();
        self.log = log;
        assert!(self.trusting || self.log.chain().log_start() <= old_start);
        self.check_contents();
        // Memory now holds what was read back, and appends go on behind it.
        self.arena = self
            .log
            .segments()
            .map(|base| {
                let file = self.disk.files.get(&base.0).cloned().unwrap_or_default();
                (base.0, file)
            })
            .collect();
        let end = self.log.next_position(
            &BatchFacts {
                size: 1,
                last_offset_delta: 0,
                max_timestamp: Timestamp::NONE,
            },
            now(self.ms),
        );
        if !end.roll {
            let image = self.arena.entry(end.segment.0).or_default();
            image.truncate(end.position as usize);
        }
        self.appended.clear();
        // A restart may keep the leader epoch: then only the cut keeps stale batches away.
        let found = self.log.epochs().latest().map_or(0, |e| e.epoch.0);
        self.epoch = self.epoch.max(found) + i32::from(self.bumps);
        self.log.lead(LeaderEpoch(self.epoch));
    }

    /// Reads the log from start to end as a consumer would, by `locate` and by scanning.
    pub fn check_contents(&mut self) {
        let chain = *self.log.chain();
        let mut found = BTreeMap::new();
        let mut offset = chain.log_start();
        while offset < chain.high_watermark() {
            let location = self.log.locate(offset).expect("inside the log");
            let file = &self.disk.files[&location.segment.0];
            let mut position = location.position;
            let mut next = None;
            while position < location.limit {
                let bytes = &file[position as usize..location.limit as usize];
                let header = crate::record::BatchHeader::read(bytes).expect("a header");
                match verify_next(bytes, header.base_offset, bytes.len()) {
                    Verified::Batch { header, size } if header.last_offset() < offset => {
                        assert!(!location.exact);
                        position += size as u64;
                    }
                    Verified::Batch { header, size } => {
                        assert!(!location.exact || header.base_offset == offset || next.is_some());
                        found.insert(header.base_offset.0, bytes[..size].to_vec());
                        position += size as u64;
                        next = Some(header.next_offset());
                    }
                    other => panic!("at {position} of {}: {other:?}", location.segment),
                }
            }
            let next = next.expect("a segment that was located holds the offset");
            assert!(next > offset);
            offset = next;
        }
        assert_eq!(offset, chain.high_watermark());
        for (base, bytes) in &self.acknowledged {
            assert!(
                found.get(base) == Some(bytes),
                "acknowledged batch {base} is lost or changed, found {:?}",
                found.keys()
            );
        }
        for (base, bytes) in found.iter().filter(|_| !self.trusting) {
            let known = self
                .acknowledged
                .get(base)
                .or(self.appended.get(base))
                .or(self.deleted.get(base));
            assert!(
                known == Some(bytes),
                "garbage became readable at offset {base}"
            );
        }
        // What survived is seen by consumers from now on: it must stay.
        self.acknowledged = found;
    }

    fn step(&mut self, random: &mut Random) {
        self.ms += random.below(50) as i64;
        match random.below(100) {
            0..=34 => {
                if self.log.in_flight_bytes() >= if self.large { 10 << 20 } else { 1 << 20 } {
                    return;
                }
                let fill = random.next() as u8 | 1;
                if self.grid {
                    // Ends on sector and block boundaries, same offsets in every life: stale batches fit everywhere.
                    self.append_sized([4096, 135_168][random.below(2) as usize], fill);
                } else if self.large && random.one_in(2) {
                    self.append_sized((1 << 20) - 40_000 + random.below(120_000) as usize, fill);
                } else {
                    let records = 1 + random.below(5);
                    let bytes = match random.below(8) {
                        0 => random.below(60_000),
                        1..=3 => random.below(9_000),
                        _ => random.below(300),
                    };
                    self.append(records, bytes as usize, fill);
                }
            }
            35..=59 => self.poll(random.one_in(if self.grid { 2 } else { 3 })),
            60..=89 => {
                if !self.disk.in_flight.is_empty() {
                    let at = random.below(self.disk.in_flight.len() as u64) as usize;
                    self.finish_one(at);
                }
            }
            90..=91 => {
                let _ = if random.one_in(2) {
                    self.log.expire(self.now())
                } else {
                    self.log.expire_by_size()
                };
                self.forget_deleted();
            }
            92 => {
                let chain = self.log.chain();
                let span = chain.high_watermark().since(chain.log_start()).max(1) as u64;
                let to = chain.log_start().plus(random.below(span) as i64 / 4);
                self.log.delete_records_before(to).expect("inside the log");
                self.forget_deleted();
            }
            93..=94 => match self.writing_checkpoint.take() {
                Some(entry) => {
                    let start = entry.log_start;
                    self.disk.checkpoint = Some(entry);
                    self.log.on_checkpoint(start);
                }
                None => self.writing_checkpoint = Some(self.log.checkpoint(PARTITION)),
            },
            95 => {
                self.log.roll(self.now());
            }
            96 => {
                self.epoch += 1;
                self.log.lead(LeaderEpoch(self.epoch));
            }
            97 => {
                if random.one_in(4) {
                    let _ = self.log.drop_oldest(self.now());
                    self.forget_deleted();
                }
            }
            _ => {
                if random.one_in(3) {
                    self.crash(random);
                }
            }
        }
    }
}

fn history(seed: u64, steps: u64, large: bool) -> World {
    let mut random = Random::new(seed);
    let scale = if large { 16 } else { 1 };
    let config = LogConfig {
        segment_bytes: [320_000, 700_000, 1_500_000, 3_000_000][random.below(4) as usize] * scale,
        retention_bytes: [-1, 200_000, 1_000_000][random.below(3) as usize] * scale as i64,
        retention_ms: [-1, 20_000][random.below(2) as usize],
        index_interval_bytes: [100, 4096][random.below(2) as usize],
        ..LogConfig::default()
    };
    let mut world = World::new(config);
    world.grid = random.one_in(3) && !large;
    world.large = large;
    for _ in 0..steps {
        world.step(&mut random);
    }
    world.settle();
    assert_eq!(world.log.in_flight_bytes(), 0, "everything gets durable");
    world.check_contents();
    world.crash(&mut random);
    world
}

/// Histories of these seeds, or of the one that RINGLOG_SEED names.
fn histories(count: u64, steps: u64, large: bool) -> Vec<World> {
    let one = std::env::var("RINGLOG_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seeds = match one {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    };
    let run = |seed| {
        std::panic::catch_unwind(|| history(seed, steps, large)).unwrap_or_else(|panic| {
            eprintln!("RINGLOG_SEED={seed}");
            std::panic::resume_unwind(panic);
        })
    };
    let worlds: Vec<World> = seeds.clone().map(run).collect();
    let crashes: u64 = worlds.iter().map(|world| world.crashes).sum();
    eprintln!("{crashes} crashes in histories {seeds:?}");
    assert!(crashes >= worlds.len() as u64);
    worlds
}

#[test]
fn no_acknowledged_record_is_lost_and_no_garbage_is_read_in_random_histories() {
    histories(200, 300, false);
}

#[test]
fn none_is_lost_where_batches_of_a_mebibyte_keep_all_writes_busy() {
    let worlds = histories(12, 300, true);
    if worlds.len() == 1 {
        // A history that RINGLOG_SEED names need not have it all.
        return;
    }
    let writes = worlds.iter().map(|world| world.writes_max.0).max();
    let bytes = worlds.iter().map(|world| world.writes_max.1).max();
    assert_eq!(writes, Some(PARTITION_WRITES_MAX), "writes in flight");
    assert!(bytes > Some(1 << 20), "no write took its rest along");
}
