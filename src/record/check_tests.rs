//! `check` against what Apache Kafka's `UnifiedLog.appendAsLeader` said to the same bytes (`append.txt`).

use super::*;
use crate::base::{ErrorCode, LeaderEpoch};
use crate::record::crc::BatchCrc;
use crate::record::{BatchBuilder, Levels, stamp, testing};

const NOW: i64 = 1_700_000_000_000;

fn rules() -> Rules<'static> {
    Rules {
        topic: "t",
        partition: PartitionIndex(0),
        max_message_bytes: 1_048_588,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        now: Timestamp(NOW),
        keys_required: false,
        origin: Origin::Client,
        zstd_allowed: true,
    }
}

/// The `key=value,...` column of a golden case.
fn rules_of(config: &str) -> Rules<'static> {
    let mut rules = rules();
    for (key, value) in config.split(',').filter_map(|item| item.split_once('=')) {
        let number = || value.parse::<i64>().expect("a number");
        match key {
            "max" => rules.max_message_bytes = number() as usize,
            "before" => rules.timestamp_before_max_ms = number(),
            "after" => rules.timestamp_after_max_ms = number(),
            "compact" => rules.keys_required = value == "1",
            "version" => rules.zstd_allowed = number() >= 7,
            "ts" if value == "LogAppendTime" => {
                rules.timestamp_type = TimestampType::LogAppendTime;
            }
            _ => panic!("unknown rule {key}={value}"),
        }
    }
    rules
}

/// What is stored of an accepted field, at offset 0 and leader epoch 7, and the facts.
fn append(field: &[u8], rules: &Rules<'_>) -> Result<(Vec<u8>, BatchFacts), BatchError> {
    let mut header = frame(field)?;
    let mut batch = field[..header.size_in_bytes()].to_vec();
    let facts = check(&header, &batch[HEADER_BYTES..], BatchCrc::of(&batch), rules)?;
    if facts.apply(&mut header) {
        header.write(&mut batch);
    }
    stamp(&mut batch, Offset::ZERO, LeaderEpoch(7));
    Ok((batch, facts))
}

/// Where the answer is not Kafka's: names of cases, Kafka's code, ours, and why.
const ALLOWED_DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    (
        "truncated-records-",
        "-1",
        "2",
        "Kafka has no code for bytes that cannot be decompressed",
    ),
    ("garbage-", "-1", "2", "the same"),
    ("nothing-", "-1", "2", "the same"),
    (
        "nothing-zstd",
        "87",
        "2",
        "the same: no frame at all is not an empty one",
    ),
    ("flipped-", "-1", "2", "the same"),
    (
        "flipped-",
        "-1",
        "87",
        "Kafka fails on an offset delta out of place in a compressed batch",
    ),
    (
        "compression-",
        "-1",
        "76",
        "Kafka has no code for a codec nobody has",
    ),
    (
        "length-2147483647",
        "-1",
        "87",
        "Kafka overflows; this batch is not all there",
    ),
    (
        "record-size-",
        "-1",
        "87",
        "Kafka has no code for an endless varint",
    ),
    (
        "random-",
        "OK",
        "87",
        "Kafka appends offset deltas that are not the record's place",
    ),
    (
        "header-value-size--2",
        "OK",
        "87",
        "Kafka takes any negative size for null",
    ),
    (
        "transactional-idempotent",
        "48",
        "OK",
        "the producer state refuses it, not the batch check",
    ),
    ("idempotent-epoch-min", "47", "OK", "the same"),
];

#[test]
fn g15_every_batch_gets_the_answer_kafka_gives() {
    let mut agreed = 0;
    let mut used = [false; ALLOWED_DIFFERENCES.len()];
    for line in include_str!("../../tests/goldens/record/append.txt").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, config, hex, outcome, rest @ ..] = &columns[..] else {
            panic!("a golden line has at least four columns: {line}");
        };
        let field = testing::unhex(hex);
        let rules = rules_of(config);
        let ours = append(&field, &rules);
        let kafka_code = match *outcome {
            "OK" => "OK",
            _ => rest[0],
        };
        let our_code = match &ours {
            Ok(_) => "OK".to_string(),
            Err(error) => error.code().code().to_string(),
        };
        if kafka_code != our_code {
            let allowed = ALLOWED_DIFFERENCES
                .iter()
                .position(|(cases, kafka, our, _)| {
                    name.starts_with(cases) && *kafka == kafka_code && *our == our_code
                });
            match allowed {
                Some(entry) => used[entry] = true,
                None => {
                    panic!("{name}: Kafka says {kafka_code} {rest:?}, we say {our_code} {ours:?}")
                }
            }
            continue;
        }
        agreed += 1;
        match ours {
            Ok((stored, facts)) => {
                let (last, max, append_time, bytes) = (rest[1], rest[2], rest[3], rest[4]);
                let expected = match bytes {
                    "same" => {
                        let mut same = field[..stored.len()].to_vec();
                        stamp(&mut same, Offset::ZERO, LeaderEpoch(7));
                        same
                    }
                    hex => testing::unhex(hex),
                };
                assert_eq!(stored, expected, "{name}: stored bytes");
                assert_eq!((facts.record_count - 1).to_string(), last, "{name}");
                assert_eq!(facts.max_timestamp.0.to_string(), max, "{name}");
                let expected_time = match facts.timestamp_type {
                    TimestampType::CreateTime => "-1".to_string(),
                    TimestampType::LogAppendTime => facts.max_timestamp.0.to_string(),
                };
                assert_eq!(append_time, expected_time, "{name}");
            }
            Err(error) => {
                assert_eq!(error.wire_message().unwrap_or_default(), rest[1], "{name}");
                let errors: Vec<String> = error
                    .record_errors()
                    .iter()
                    .map(|e| format!("{}:{}", e.batch_index, e.message))
                    .collect();
                assert_eq!(errors.join("|"), rest[2], "{name}");
            }
        }
    }
    assert!(agreed > 300, "only {agreed} agreed");
    for (entry, used) in ALLOWED_DIFFERENCES.iter().zip(used) {
        assert!(used, "an allowed difference that does not occur: {entry:?}");
    }
}

/// A batch of `count` plain records, to be damaged by hand.
fn batch(count: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for i in 0..count {
        builder.append(
            Timestamp(NOW + i64::from(i)),
            Some(b"key"),
            Some(b"value"),
            &[],
        );
    }
    builder.finish(Offset::ZERO, LeaderEpoch::NONE)
}

fn code(field: &[u8], rules: &Rules<'_>) -> Result<(), ErrorCode> {
    append(field, rules).map(drop).map_err(|error| error.code())
}

#[test]
fn a_batch_at_the_maximum_fits_and_one_byte_more_does_not() {
    let batch = batch(3);
    let with = |max_message_bytes| Rules {
        max_message_bytes,
        ..rules()
    };
    assert_eq!(code(&batch, &with(batch.len())), Ok(()));
    assert_eq!(
        code(&batch, &with(batch.len() - 1)),
        Err(ErrorCode::MessageTooLarge)
    );
}

#[test]
fn transactional_records_need_a_producer_id() {
    let mut header = BatchHeader::read(&batch(1)).expect("61 bytes");
    header.attributes |= 0x10;
    let mut bytes = batch(1);
    header.write(&mut bytes);
    header.crc = BatchCrc::of(&bytes);
    header.write(&mut bytes);
    assert_eq!(code(&bytes, &rules()), Err(ErrorCode::InvalidRecord));
}

#[test]
fn claimed_append_time_does_not_hide_the_timestamps_of_the_records() {
    // The stored header is of CreateTime again, so its maximum must be the records'.
    let claim = |count: i32, base: i64| {
        let mut bytes = batch(count);
        let mut header = BatchHeader::read(&bytes).expect("61 bytes");
        header.attributes |= 0x08;
        header.base_timestamp = Timestamp(base);
        header.max_timestamp = Timestamp(NOW);
        header.write(&mut bytes);
        header.crc = BatchCrc::of(&bytes);
        header.write(&mut bytes);
        bytes
    };
    let (_, facts) = append(&claim(3, NOW - 900), &rules()).expect("in range");
    assert_eq!(facts.max_timestamp, Timestamp(NOW - 898));
    let error = append(&claim(3, i64::MAX - 5), &rules()).expect_err("far future");
    assert_eq!(error.code(), ErrorCode::InvalidTimestamp);
    assert_eq!(error.record_errors().len(), 3);
}

#[test]
fn a_coordinator_may_write_control_batches_at_any_offset() {
    let control = testing::kafka_batch("control");
    assert_eq!(code(&control, &rules()), Err(ErrorCode::InvalidRecord));
    let ours = Rules {
        origin: Origin::Coordinator,
        ..rules()
    };
    assert_eq!(code(&control, &ours), Ok(()));
}

#[test]
fn an_error_names_at_most_the_allowed_number_of_records() {
    let mut builder = BatchBuilder::new();
    for _ in 0..5_000 {
        builder.append(Timestamp(NOW), None, Some(b"v"), &[]);
    }
    let bytes = builder.finish(Offset::ZERO, LeaderEpoch::NONE);
    let compacted = Rules {
        keys_required: true,
        ..rules()
    };
    let error = append(&bytes, &compacted).expect_err("no keys");
    assert_eq!(
        error.record_errors().len(),
        crate::base::limits::RECORD_ERRORS_MAX
    );
    let message = error.wire_message().expect("a message");
    assert!(message.contains("due to 5000 record errors"), "{message}");
}

#[test]
fn bombs_are_too_large_and_cost_no_memory() {
    let value = vec![0; 1 << 20];
    for codec in [
        Compression::Gzip,
        Compression::Lz4,
        Compression::Zstd,
        Compression::Snappy,
    ] {
        let mut builder = BatchBuilder::new().compressed(codec, Levels::default());
        for _ in 0..70 {
            builder.append(Timestamp(NOW), None, Some(&value), &[]);
        }
        let bomb = builder.finish(Offset::ZERO, LeaderEpoch::NONE);
        let wide = Rules {
            max_message_bytes: 100 << 20,
            ..rules()
        };
        assert_eq!(
            code(&bomb, &wide),
            Err(ErrorCode::MessageTooLarge),
            "{codec:?}"
        );
    }
}

#[test]
fn records_larger_than_the_window_are_walked_field_by_field() {
    let value: Vec<u8> = (0..200_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    for codec in Compression::ALL {
        let mut builder = BatchBuilder::new().compressed(codec, Levels::default());
        let headers: Vec<_> = (0..20)
            .map(|_| (&value[..9_000], Some(&value[..7_000])))
            .collect();
        builder.append(Timestamp(NOW), Some(&value), Some(&value), &[]);
        builder.append(Timestamp(NOW + 2), None, None, &headers);
        builder.append(Timestamp(NOW + 1), Some(b""), Some(&value), &headers);
        let bytes = builder.finish(Offset::ZERO, LeaderEpoch::NONE);
        let wide = Rules {
            max_message_bytes: 10 << 20,
            ..rules()
        };
        let (_, facts) = append(&bytes, &wide).expect("a good batch");
        assert_eq!(facts.record_count, 3);
        assert_eq!(facts.max_timestamp, Timestamp(NOW + 2));
        let compacted = Rules {
            keys_required: true,
            ..wide
        };
        let error = append(&bytes, &compacted).expect_err("the second has no key");
        assert_eq!(error.record_errors().len(), 1, "{codec:?}");
        assert_eq!(error.record_errors()[0].batch_index, 1);
    }
}

/// xorshift64*: the tests need numbers, not quality.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Seed of the random tests: `RINGLOG_SEED`, or a new one; always printed.
fn seed() -> u64 {
    let seed = match std::env::var("RINGLOG_SEED") {
        Ok(text) => text.parse().expect("RINGLOG_SEED is a number"),
        Err(_) => std::process::id().into(),
    };
    println!("RINGLOG_SEED={seed}");
    seed
}

#[test]
fn what_is_accepted_after_damage_is_read_the_same_by_every_reader() {
    use crate::record::Records;
    let mut numbers = Numbers(seed() * 2 + 1);
    let mut accepted = 0;
    for round in 0..6_000 {
        let codec = Compression::ALL[round % 5];
        let mut builder = BatchBuilder::new().compressed(codec, Levels::default());
        let count = 1 + numbers.below(5);
        for _ in 0..count {
            let value = vec![b'x'; numbers.below(80)];
            let key = (numbers.below(3) > 0).then_some(&value[..value.len() / 2]);
            let headers: Vec<_> = (0..numbers.below(3)).map(|_| (&b"name"[..], key)).collect();
            let time = Timestamp(NOW + numbers.below(1000) as i64);
            builder.append(time, key, Some(&value), &headers);
        }
        let mut bytes = builder.finish(Offset::ZERO, LeaderEpoch::NONE);
        for _ in 0..numbers.below(3) {
            let at = HEADER_BYTES + numbers.below(bytes.len() - HEADER_BYTES);
            bytes[at] ^= 1 << numbers.below(8);
        }
        // Half of the time the damage has a right checksum, as a hostile client's would.
        if round % 2 == 0 {
            let mut header = BatchHeader::read(&bytes).expect("61 bytes");
            header.crc = BatchCrc::of(&bytes);
            header.write(&mut bytes);
        }
        let Ok((stored, facts)) = append(&bytes, &rules()) else {
            continue;
        };
        accepted += 1;
        let header = BatchHeader::read(&stored).expect("61 bytes");
        let mut scratch = Vec::new();
        let records: Vec<_> = Records::new(&header, &stored[HEADER_BYTES..], &mut scratch)
            .expect("what was accepted decodes")
            .collect::<Result<_, _>>()
            .expect("what was accepted is whole");
        assert_eq!(records.len(), facts.record_count as usize);
        let newest = records.iter().map(|r| r.timestamp).max();
        assert_eq!(
            newest.max(Some(Timestamp::NONE)),
            Some(header.max_timestamp)
        );
        for (place, record) in records.iter().enumerate() {
            assert_eq!(record.offset, Offset(place as i64));
        }
        // A second, independent decoder sees the same records (it refuses header keys that are not UTF-8).
        let mut field = bytes::Bytes::from(stored.clone());
        if let Ok(set) = kafka_protocol::records::RecordBatchDecoder::decode(&mut field) {
            let other: Vec<_> = set
                .records
                .iter()
                .map(|r| (r.offset, r.timestamp, r.key.clone(), r.value.clone()))
                .collect();
            let mine: Vec<_> = records
                .iter()
                .map(|r| {
                    let owned = |b: &[u8]| bytes::Bytes::copy_from_slice(b);
                    (
                        r.offset.0,
                        r.timestamp.0,
                        r.key.map(owned),
                        r.value.map(owned),
                    )
                })
                .collect();
            assert_eq!(mine, other);
        }
    }
    assert!(accepted > 1_000, "{accepted} of 6000 accepted");
}

#[test]
fn no_bytes_at_all_make_it_panic() {
    let mut numbers = Numbers(seed() * 2 + 1);
    let good = [
        batch(3),
        testing::kafka_batch("gzip"),
        testing::kafka_batch("snappy"),
        testing::kafka_batch("lz4"),
        testing::kafka_batch("zstd"),
    ];
    for round in 0..20_000 {
        let mut bytes = good[round % good.len()].clone();
        bytes.truncate(1 + numbers.below(bytes.len()));
        for _ in 0..numbers.below(6) {
            let at = numbers.below(bytes.len());
            bytes[at] = numbers.next() as u8;
        }
        if let Some(mut header) = BatchHeader::read(&bytes) {
            header.base_offset = Offset::ZERO;
            if numbers.below(2) == 0 {
                header.batch_length = bytes.len() as i32 - 12;
                header.magic = MAGIC;
            }
            header.write(&mut bytes);
            header.crc = BatchCrc::of(&bytes);
            header.write(&mut bytes);
        }
        let _ = append(&bytes, &rules());
        for found in crate::record::scan::Batches::new(&bytes) {
            let mut scratch = Vec::new();
            if let Ok(records) = found.records(&mut scratch) {
                assert!(records.count() <= bytes.len() * limits_ratio());
            }
        }
        let _ = crate::record::scan::verify_next(&bytes, Offset::ZERO, 1 << 20);
    }
}

/// A record takes a byte at least, and a byte unfolds to so many at most.
fn limits_ratio() -> usize {
    crate::base::limits::DECOMPRESSED_BYTES_MAX
}
