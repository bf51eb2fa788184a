//! What a record batch costs on its way in: checksum and copy into the arena, then the check whether it may be appended.
//!
//! Estimate, on a core of 3 GHz:
//! - copy and CRC-32C: the bytes once at 10 GB/s (copy; its target was written a while ago, so it is not in a cache) and once at
//!   20 GB/s (CRC, 64 KiB at a time, just copied);
//! - check of plain records: 5 varints of mostly one byte and 2 bounds, 25 cycles a record; the checksum was taken before, values
//!   are stepped over; a record of its own cache lines waits for one, another 40 cycles (L2 or L3: the batch has just arrived);
//! - check of a compressed batch: its plain bytes at the pace of the codec (gzip 0.5, zstd 1.5, snappy 2.5, lz4 4 GB/s, what
//!   is usual for text), then the same walk. Also printed: what that is per compressed byte, as a sender pays for its bytes.
//!
//! `cargo bench --bench batch`, with a word behind `--` to choose parts by name.

mod common;
#[path = "common/sampled.rs"]
mod sampled;

use std::hint::black_box;

use common::cycles;
use criterion::Criterion;
use ringlog::base::{LeaderEpoch, Offset, PartitionIndex, Timestamp};
use ringlog::io::arena::Arena;
use ringlog::io::image::FileImage;
use ringlog::record::{
    BatchBuilder, BatchCrc, BatchHeader, Compression, HEADER_BYTES, Levels, Origin, Rules,
    TimestampType, check,
};
use sampled::sampled;

/// Bytes in a nanosecond, GB/s.
const COPY_RATE: f64 = 10.0;
const CRC_RATE: f64 = 20.0;
const RECORD_CYCLES: f64 = 25.0;
const CACHE_MISS_CYCLES: f64 = 40.0;
const CACHE_LINE_BYTES: usize = 64;
/// Twice what the last cache of a core's group holds.
const COLD_BYTES: usize = 64 << 20;
/// Different ones in turn, so that a branch is not foreseen because it was there a moment ago.
const BATCHES: u64 = 8;
/// What a `recv` brings of a large batch.
const PIECE_BYTES: usize = 64 << 10;
const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn main() {
    let mut criterion = sampled::criterion();
    for bytes in [16 << 10, 128 << 10, 1 << 20] {
        receive(&mut criterion, bytes);
    }
    for record_bytes in [1024, 100] {
        check_plain(&mut criterion, record_bytes);
    }
    for record_bytes in [1024, 100] {
        for codec in [
            Compression::Lz4,
            Compression::Zstd,
            Compression::Snappy,
            Compression::Gzip,
        ] {
            check_compressed(&mut criterion, codec, record_bytes);
        }
    }
    criterion.final_summary();
}

/// Bytes that were just received go to the end of a segment's image, their checksum is taken there.
fn receive(criterion: &mut Criterion, bytes: usize) {
    let batch = vec![0x5a; bytes];
    let (header, records) = batch.split_first_chunk().expect("more than a header");
    let arena = Arena::new(3 * COLD_BYTES as u64).expect("memory");
    let mut images: Vec<FileImage> = (0..COLD_BYTES / bytes)
        .map(|_| FileImage::new(arena.clone(), HEADER_BYTES, 0, &[]))
        .collect();
    let mut next = 0;
    let name = format!("copy and CRC-32C into the arena, {} KiB", bytes >> 10);
    let estimate = bytes as f64 / COPY_RATE + bytes as f64 / CRC_RATE;
    sampled(criterion, &name, estimate, Some(bytes), || {
        next = (next + 1) % images.len();
        let mut receiving = images[next]
            .begin_receive(HEADER_BYTES, records.len())
            .expect("the arena holds them all");
        let mut crc = BatchCrc::new(header);
        for piece in records.chunks(PIECE_BYTES) {
            let before = receiving.len() - receiving.remaining();
            receiving.fill(piece);
            crc.update(&receiving.filled()[before..]);
        }
        // Dropped, not committed: another comes to the same place later.
        black_box(crc.value());
    });
}

fn check_plain(criterion: &mut Criterion, record_bytes: usize) {
    let batches = Batch::several(Compression::None, record_bytes, 1 << 20);
    let batch = &batches[0];
    let mut next = batches.iter().cycle();
    let name = format!("check of 1 MiB in records of {record_bytes} B, plain");
    let estimate = batch.walk_ns();
    let measured = sampled(criterion, &name, estimate, Some(batch.plain_bytes), || {
        next.next().expect("they come again").check();
    });
    if let Some(ns) = measured {
        println!("    {:.1} ns a record", ns / batch.records as f64);
    }
}

fn check_compressed(criterion: &mut Criterion, codec: Compression, record_bytes: usize) {
    let batches = Batch::several(codec, record_bytes, 128 << 10);
    let batch = &batches[0];
    let mut next = batches.iter().cycle();
    let name = format!("check of 128 KiB in records of {record_bytes} B, {codec:?}");
    let rate = match codec {
        Compression::None => f64::INFINITY,
        Compression::Gzip => 0.5,
        Compression::Snappy => 2.5,
        Compression::Lz4 => 4.0,
        Compression::Zstd => 1.5,
    };
    let estimate = batch.plain_bytes as f64 / rate + batch.walk_ns();
    let measured = sampled(criterion, &name, estimate, Some(batch.plain_bytes), || {
        next.next().expect("they come again").check();
    });
    if let Some(ns) = measured {
        let compressed = batch.bytes.len() - HEADER_BYTES;
        println!(
            "    compressed {:.1} to 1: {:.2} ns per compressed byte (s/GB)",
            batch.plain_bytes as f64 / compressed as f64,
            ns / compressed as f64
        );
    }
}

/// A batch as a producer sends it.
struct Batch {
    bytes: Vec<u8>,
    header: BatchHeader,
    crc: u32,
    records: usize,
    record_bytes: usize,
    plain_bytes: usize,
}

impl Batch {
    fn several(codec: Compression, record_bytes: usize, plain_bytes: usize) -> Vec<Batch> {
        (1..=BATCHES)
            .map(|seed| Batch::new(codec, record_bytes, plain_bytes, seed))
            .collect()
    }

    fn new(codec: Compression, record_bytes: usize, plain_bytes: usize, seed: u64) -> Batch {
        let mut builder = BatchBuilder::new().compressed(codec, Levels::default());
        let mut lines = Lines(seed);
        while builder.plain_bytes() + record_bytes < plain_bytes {
            builder.append(NOW, None, Some(&lines.take(record_bytes)), &[]);
        }
        let records = builder.record_count() as usize;
        let plain_bytes = builder.plain_bytes() - HEADER_BYTES;
        let bytes = builder.finish(Offset::ZERO, LeaderEpoch::NONE);
        Batch {
            header: BatchHeader::read(&bytes).expect("a whole batch"),
            crc: BatchCrc::of(&bytes),
            bytes,
            records,
            record_bytes,
            plain_bytes,
        }
    }

    fn walk_ns(&self) -> f64 {
        let alone = self.record_bytes >= 2 * CACHE_LINE_BYTES;
        let miss = if alone { CACHE_MISS_CYCLES } else { 0.0 };
        cycles(self.records as f64 * (RECORD_CYCLES + miss))
    }

    fn check(&self) {
        let rules = Rules {
            topic: "bench",
            partition: PartitionIndex(0),
            max_message_bytes: 2 << 20,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            now: NOW,
            keys_required: false,
            origin: Origin::Client,
            zstd_allowed: true,
        };
        let facts = check(
            &self.header,
            black_box(&self.bytes[HEADER_BYTES..]),
            self.crc,
            &rules,
        );
        assert_eq!(
            facts.expect("a good batch").record_count,
            self.records as u32
        );
    }
}

/// Lines of a log as services write them: names that come again and again, numbers and ids that don't.
struct Lines(u64);

impl Lines {
    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut text = String::new();
        while text.len() < bytes {
            let (service, path) = (self.below(8), self.below(30));
            let (status, took, user) = (self.below(4), self.below(5_000), self.below(1 << 30));
            let trace = (self.below(u64::MAX), self.below(u64::MAX));
            text += &format!(
                "{{\"trace\":\"{:016x}{:016x}\",\"user\":{user},\"took_us\":{took},\"service\":\"shop-{service}\",\
                 \"path\":\"/api/v1/items/{path}\",\"status\":20{status},\"level\":\"info\"}}\n",
                trace.0, trace.1
            );
        }
        text.truncate(bytes);
        text.into_bytes()
    }

    /// Any number below `end`; the same ones in every run.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
