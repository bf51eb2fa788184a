//! `ProducerStates` against what Apache Kafka's `UnifiedLog` said to the same appends (`producer.txt`), and its bounds.

use super::*;
use crate::base::limits::PRODUCERS_PER_PARTITION_MAX;
use crate::producer::SnapshotError;
use crate::record::{BatchHeader, sequence_plus};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn batch(id: i64, epoch: i16, sequence: i32, count: i32) -> BatchHeader {
    BatchHeader {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        last_offset_delta: count - 1,
        record_count: count,
        max_timestamp: NOW,
        ..BatchHeader::EMPTY
    }
}

/// Appends as a partition does; the error code, or the base offset and whether it is a repetition.
fn append(
    states: &mut ProducerStates,
    header: &BatchHeader,
    end: &mut i64,
) -> Result<(i64, bool), ErrorCode> {
    match states.check(header).map_err(|error| error.code())? {
        Verdict::New => {
            let base = *end;
            states.update(header, Offset(base), NOW);
            *end += i64::from(header.record_count);
            Ok((base, false))
        }
        Verdict::Duplicate { base_offset, .. } => Ok((base_offset.0, true)),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits"))
        .collect()
}

#[test]
fn every_append_gets_the_answer_kafka_gives() {
    let mut states = ProducerStates::default();
    let mut end = 0;
    let mut appends = 0;
    for (number, line) in include_str!("../../tests/goldens/record/producer.txt")
        .lines()
        .enumerate()
    {
        let columns: Vec<&str> = line.split('\t').collect();
        let number_at = |column: usize| columns[column].parse::<i64>().expect("a number");
        match columns[0] {
            "log" => {
                states = ProducerStates::default();
                end = 0;
            }
            "append" => {
                appends += 1;
                let count = number_at(4) as i32;
                let mut header = batch(
                    number_at(1),
                    number_at(2) as i16,
                    number_at(3) as i32,
                    count,
                );
                header.max_timestamp = Timestamp(number_at(5));
                let ours = match states.check(&header) {
                    Ok(Verdict::New) => {
                        states.update(&header, Offset(end), NOW);
                        end += i64::from(count);
                        format!("OK\t{}\t{}\t-1", end - i64::from(count), end - 1)
                    }
                    Ok(Verdict::Duplicate {
                        base_offset,
                        last_offset,
                        timestamp,
                    }) => format!("OK\t{base_offset}\t{last_offset}\t{}", timestamp.0),
                    Err(error) => format!("ERR\t{}", error.code().code()),
                };
                assert_eq!(ours, columns[6..].join("\t"), "line {}: {line}", number + 1);
            }
            "snapshot" => {
                assert_eq!(number_at(1), end, "line {}", number + 1);
                // Kafka writes no file when nothing was appended since the last.
                if columns[2] != "none" {
                    let kafkas = unhex(columns[2]);
                    assert_eq!(states.encode_snapshot(), kafkas, "line {}", number + 1);
                }
                let bytes = states.encode_snapshot();
                states = ProducerStates::decode_snapshot(&bytes, NOW).expect("our own snapshot");
            }
            other => panic!("unknown step {other}"),
        }
    }
    assert!(appends > 1_000, "{appends} appends");
}

#[test]
fn empty_costs_a_pointer() {
    assert_eq!(size_of::<ProducerStates>(), size_of::<usize>());
    let mut states = ProducerStates::default();
    states.update(&BatchHeader::EMPTY, Offset(0), NOW);
    assert!(
        states.is_empty(),
        "a batch without a producer id leaves nothing"
    );
    states.update(&batch(1, 0, 0, 1), Offset(0), NOW);
    assert_eq!(states.expire(Timestamp(NOW.0 + 10), 10), 1);
    assert!(
        states.is_empty(),
        "after the last has expired nothing is left"
    );
}

#[test]
fn five_batches_are_known_and_the_sixth_back_is_out_of_order() {
    let mut states = ProducerStates::default();
    let mut end = 0;
    for i in 0..7 {
        assert_eq!(
            append(&mut states, &batch(1, 0, i * 2, 2), &mut end),
            Ok((i64::from(i) * 2, false))
        );
    }
    for i in 2..7 {
        assert_eq!(
            append(&mut states, &batch(1, 0, i * 2, 2), &mut end),
            Ok((i64::from(i) * 2, true))
        );
    }
    let sixth_back = append(&mut states, &batch(1, 0, 2, 2), &mut end);
    assert_eq!(sixth_back, Err(ErrorCode::OutOfOrderSequenceNumber));
    // The same first sequence with another length is not the same batch.
    let other_length = append(&mut states, &batch(1, 0, 12, 1), &mut end);
    assert_eq!(other_length, Err(ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(end, 14);
}

#[test]
fn sequences_wrap_to_zero() {
    let mut states = ProducerStates::default();
    let mut end = 0;
    assert!(append(&mut states, &batch(1, 0, i32::MAX - 2, 3), &mut end).is_ok());
    assert!(append(&mut states, &batch(1, 0, 1, 1), &mut end).is_err());
    assert_eq!(
        append(&mut states, &batch(1, 0, 0, 1), &mut end),
        Ok((3, false))
    );
    // A batch that itself goes over the end, and its repetition.
    let mut states = ProducerStates::default();
    assert!(append(&mut states, &batch(1, 0, i32::MAX, 4), &mut end).is_ok());
    assert_eq!(
        append(&mut states, &batch(1, 0, i32::MAX, 4), &mut end),
        Ok((4, true))
    );
    assert_eq!(
        append(&mut states, &batch(1, 0, 3, 1), &mut end),
        Ok((8, false))
    );
}

#[test]
fn a_newer_epoch_starts_at_zero_and_fences_the_older() {
    let mut states = ProducerStates::default();
    let mut end = 0;
    assert!(
        append(&mut states, &batch(1, 5, 40, 1), &mut end).is_ok(),
        "unknown: any sequence"
    );
    assert_eq!(
        append(&mut states, &batch(1, 6, 41, 1), &mut end),
        Err(ErrorCode::OutOfOrderSequenceNumber)
    );
    assert!(append(&mut states, &batch(1, 6, 0, 1), &mut end).is_ok());
    assert_eq!(
        append(&mut states, &batch(1, 5, 41, 1), &mut end),
        Err(ErrorCode::InvalidProducerEpoch)
    );
}

#[test]
fn a_transactional_batch_without_a_transaction_is_refused() {
    let mut header = batch(1, 0, 0, 1);
    header.attributes |= 0x10;
    let error = ProducerStates::default()
        .check(&header)
        .expect_err("no transaction");
    assert_eq!(error.code(), ErrorCode::InvalidTxnState);
}

#[test]
fn the_producer_heard_of_longest_ago_gives_way() {
    let mut states = ProducerStates::default();
    let mut end = 0;
    let max = PRODUCERS_PER_PARTITION_MAX as i64;
    for id in 0..max {
        assert!(append(&mut states, &batch(id, 0, 0, 1), &mut end).is_ok());
    }
    // The first is heard of again, so the second goes.
    assert!(append(&mut states, &batch(0, 0, 1, 1), &mut end).is_ok());
    for id in max..max + 100_000 {
        assert!(append(&mut states, &batch(id, 0, 0, 1), &mut end).is_ok());
        assert_eq!(states.len(), PRODUCERS_PER_PARTITION_MAX);
        if id == max {
            let known: Vec<_> = states.active().map(|p| p.id.0).collect();
            assert!(known.contains(&0) && !known.contains(&1));
        }
    }
    let inner = states.inner.as_ref().expect("full");
    assert_eq!(
        inner.slots.len(),
        PRODUCERS_PER_PARTITION_MAX,
        "slots are used again"
    );
}

#[test]
fn producers_expire_by_our_clock() {
    let mut states = ProducerStates::default();
    let mut old_records = batch(1, 0, 0, 1);
    old_records.max_timestamp = Timestamp(0);
    states.update(&old_records, Offset(0), NOW);
    states.update(&batch(2, 0, 0, 1), Offset(1), Timestamp(NOW.0 + 500));
    assert_eq!(states.expire(Timestamp(NOW.0 + 999), 1_000), 0);
    assert_eq!(states.expire(Timestamp(NOW.0 + 1_000), 1_000), 1);
    let left: Vec<_> = states.active().map(|p| p.id.0).collect();
    assert_eq!(left, [2]);
    // A clock that jumps back expires nobody.
    assert_eq!(states.expire(Timestamp(0), 1_000), 0);
}

#[test]
fn a_restart_keeps_the_last_batch_of_each_producer() {
    let mut states = ProducerStates::default();
    let mut end = 0;
    for i in 0..3 {
        assert!(append(&mut states, &batch(1, 0, i, 1), &mut end).is_ok());
    }
    let bytes = states.encode_snapshot();
    let mut after = ProducerStates::decode_snapshot(&bytes, NOW).expect("whole");
    assert_eq!(
        append(&mut after, &batch(1, 0, 2, 1), &mut end),
        Ok((2, true))
    );
    assert!(append(&mut after, &batch(1, 0, 1, 1), &mut end).is_err());
    assert_eq!(
        append(&mut after, &batch(1, 0, 3, 1), &mut end),
        Ok((3, false))
    );
    // Replaying the log instead keeps all five.
    let mut replayed = ProducerStates::default();
    for i in 0..3 {
        replayed.update(&batch(1, 0, i, 1), Offset(i.into()), NOW);
    }
    assert_eq!(
        append(&mut replayed, &batch(1, 0, 1, 1), &mut end),
        Ok((1, true))
    );
}

#[test]
fn a_damaged_snapshot_is_refused_at_every_bit_and_length() {
    let mut states = ProducerStates::default();
    states.update(&batch(1, 0, 0, 1), Offset(0), NOW);
    states.update(&batch(2, 3, 9, 4), Offset(1), NOW);
    let good = states.encode_snapshot();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(
            ProducerStates::decode_snapshot(&bad, NOW).is_err(),
            "bit {bit}"
        );
    }
    for cut in 0..good.len() {
        assert!(
            ProducerStates::decode_snapshot(&good[..cut], NOW).is_err(),
            "cut at {cut}"
        );
    }
    // With a right checksum: a count beyond the bytes, and values that cannot be.
    let resealed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let crc = crc32c::crc32c(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
        ProducerStates::decode_snapshot(&bytes, NOW).map(|states| states.len())
    };
    for count in [-1, 0, 1, 3, i32::MAX, i32::MIN] {
        let outcome = resealed(&|bytes| bytes[6..10].copy_from_slice(&count.to_be_bytes()));
        assert_eq!(
            outcome,
            Err(SnapshotError::Length(good.len())),
            "count {count}"
        );
    }
    let delta_at = 10 + 8 + 2 + 4 + 8;
    for delta in [-1, 5, i32::MAX, i32::MIN] {
        let outcome =
            resealed(&|bytes| bytes[delta_at..][..4].copy_from_slice(&delta.to_be_bytes()));
        assert_eq!(
            outcome,
            Err(SnapshotError::Entry(ProducerId(1))),
            "delta {delta}"
        );
    }
}

proptest::proptest! {
    /// A client that retries in order, whatever was lost on the way, has every batch in the log exactly once.
    #[test]
    fn retries_in_order_are_appended_exactly_once(
        start in proptest::sample::select(vec![0, 1, i32::MAX - 3, i32::MAX]),
        counts in proptest::collection::vec(1..5i32, 1..40),
        retries in proptest::collection::vec(0..5usize, 40),
    ) {
        let mut states = ProducerStates::default();
        let (mut end, mut sequence) = (0, start);
        let mut sent: Vec<(BatchHeader, i64)> = Vec::new();
        for (count, back) in counts.into_iter().zip(retries) {
            let header = batch(9, 0, sequence, count);
            sequence = sequence_plus(sequence, count);
            let (base, repeated) = append(&mut states, &header, &mut end).expect("the next in order");
            proptest::prop_assert!(!repeated);
            sent.push((header, base));
            // The answer of one of the last five was lost: all behind it are sent again.
            let from = sent.len().saturating_sub(back + 1).max(sent.len().saturating_sub(5));
            for (header, base) in &sent[from..] {
                proptest::prop_assert_eq!(append(&mut states, header, &mut end), Ok((*base, true)));
            }
        }
        let appended: i64 = sent.iter().map(|(header, _)| i64::from(header.record_count)).sum();
        proptest::prop_assert_eq!(end, appended);
    }
}
