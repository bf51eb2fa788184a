//! Arbitrary bytes as the records of a produce request. Nothing panics; what is accepted is read whole by the reader of logs,
//! has the timestamp its header claims, and holds the same records in another codec.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringlog::base::{LeaderEpoch, Offset, PartitionIndex, Timestamp};
use ringlog::record::check::frame;
use ringlog::record::scan::{Batches, find_timestamp, verify_next};
use ringlog::record::{
    BatchCrc, BatchError, BatchHeader, Compression, HEADER_BYTES, Levels, Origin, Records, Rules,
    TimestampType, check, recompress, stamp,
};

// The first byte chooses the rules, the other codec, and whether length, counts and checksum are made right first.
fuzz_target!(|data: &[u8]| {
    let [choice, field @ ..] = data else {
        return;
    };
    let mut field = field.to_vec();
    let _ = scan(&field);
    if choice & 1 != 0 {
        repair(&mut field);
    }
    let rules = Rules {
        topic: "t",
        partition: PartitionIndex(0),
        max_message_bytes: 1 << 20,
        timestamp_type: match choice & 2 {
            0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        now: Timestamp(1_700_000_000_000),
        keys_required: choice & 4 != 0,
        origin: Origin::Client,
        zstd_allowed: choice & 8 == 0,
    };
    if let Ok(batch) = append(&field, &rules) {
        let codec = Compression::ALL[usize::from(choice >> 4) % Compression::ALL.len()];
        accepted(&batch, &rules, codec);
    }
});

fn repair(field: &mut [u8]) {
    let Some(mut header) = BatchHeader::read(field) else {
        return;
    };
    header.base_offset = Offset::ZERO;
    header.batch_length = field.len() as i32 - 12;
    header.magic = 2;
    header.record_count = header.last_offset_delta.wrapping_add(1);
    header.write(field);
    header.crc = BatchCrc::of(field);
    header.write(field);
}

/// What a partition does with the bytes of a client.
fn append(field: &[u8], rules: &Rules<'_>) -> Result<Vec<u8>, BatchError> {
    let mut header = frame(field)?;
    let mut batch = field[..header.size_in_bytes()].to_vec();
    let facts = check(&header, &batch[HEADER_BYTES..], BatchCrc::of(&batch), rules)?;
    if facts.apply(&mut header) {
        header.write(&mut batch);
    }
    stamp(&mut batch, Offset(1 << 40), LeaderEpoch(7));
    Ok(batch)
}

fn accepted(batch: &[u8], rules: &Rules<'_>, codec: Compression) {
    let header = BatchHeader::read(batch).expect("accepted");
    assert_eq!(BatchCrc::of(batch), header.crc);
    let plain = read(batch);
    assert_eq!(plain.len() as i32, header.record_count);
    let newest = plain.iter().map(|record| record.1).max();
    let expected = match rules.timestamp_type {
        TimestampType::CreateTime => newest.max(Some(Timestamp::NONE)),
        TimestampType::LogAppendTime => Some(rules.now),
    };
    assert_eq!(Some(header.max_timestamp), expected);
    let section = &batch[HEADER_BYTES..];
    let made = recompress(&header, section, codec, Levels::default(), 1 << 30)
        .expect("what was accepted can be made anew");
    assert_eq!(read(&made), plain);
}

type Plain = (Offset, Timestamp, Option<Vec<u8>>, Option<Vec<u8>>, usize);

fn read(batch: &[u8]) -> Vec<Plain> {
    let header = BatchHeader::read(batch).expect("61 bytes");
    let mut scratch = Vec::new();
    Records::new(&header, &batch[HEADER_BYTES..], &mut scratch)
        .expect("what was accepted decodes")
        .map(|record| {
            let record = record.expect("what was accepted is whole");
            (
                record.offset,
                record.timestamp,
                record.key.map(<[u8]>::to_vec),
                record.value.map(<[u8]>::to_vec),
                record.headers.iter().count(),
            )
        })
        .collect()
}

/// The same bytes as a piece of a log.
fn scan(slice: &[u8]) -> usize {
    let _ = verify_next(slice, Offset::ZERO, 1 << 20);
    let _ = find_timestamp(slice, Timestamp(0), Offset::ZERO);
    Batches::new(slice)
        .map(|batch| {
            let mut scratch = Vec::new();
            batch.records(&mut scratch).map_or(0, Iterator::count)
        })
        .sum()
}
