//! Bytes as a partition's directory: valid batches, raw bytes, zeros, flips, files, indexes, a checkpoint. `check` recovers it
//! and holds the recovery to its promises: no panic, the same twice, everything readable is valid and without gaps, and
//! the end is found again when nothing is left behind it.

use ringlog::base::{
    LeaderEpoch, MonoNs, Now, Offset, PartitionIndex, Timestamp, TopicPartition, Uuid,
};
use ringlog::log::{
    Epochs, Log, LogConfig, PartitionCheckpoint, Proof, Recovery, RecoveryInput, SegmentFile,
};
use ringlog::record::scan::{Verified, verify_next};
use ringlog::record::{BatchBuilder, BatchHeader};

/// A file as it is made up.
struct File {
    base: i64,
    bytes: Vec<u8>,
    /// Offset after the last valid batch.
    next: i64,
    offset_index: Option<Vec<u8>>,
    time_index: Option<Vec<u8>>,
}

/// Reads the instructions in `data`, then recovers what they made.
pub fn check(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let mut files = vec![File::new(0)];
    let mut checkpoint = None;
    let mut epoch = 0;
    while let (Some(op), Some(argument)) = (bytes.next(), bytes.next()) {
        let at = files.len() - 1;
        let file = &mut files[at];
        let n = usize::from(argument);
        match op % 16 {
            0..=6 => file.append(i64::from(argument % 7) + 1, n * 3, epoch),
            7 => file.bytes.extend(bytes.by_ref().take(n)),
            8 => file.bytes.resize(file.bytes.len() + n * 64, 0),
            9 => {
                if !file.bytes.is_empty() {
                    let place = (n * 257 + usize::from(op)) % file.bytes.len();
                    file.bytes[place] ^= 1 << (op / 16 % 8);
                }
            }
            10 => {
                // Mostly where the segment before ends, sometimes not quite.
                let base = file.next + i64::from(op >= 224) - i64::from(op < 16);
                if base > file.base && files.len() < 6 {
                    files.push(File::new(base));
                }
            }
            11 => file.offset_index = Some(bytes.by_ref().take(n).collect()),
            12 => file.time_index = Some(bytes.by_ref().take(n).collect()),
            13 => {
                let keep = file.bytes.len().saturating_sub(n);
                file.bytes.truncate(keep);
            }
            14 => epoch = i32::from(argument) / 16,
            _ => checkpoint = Some(proof(&files, argument)),
        }
        if files.iter().map(|f| f.bytes.len()).sum::<usize>() > 1 << 20 {
            break;
        }
    }
    let input = RecoveryInput {
        config: LogConfig::default(),
        files: files.iter().map(File::found).collect(),
        checkpoint,
        clean: data.len().is_multiple_of(5),
        epochs_text: None,
        replay_from: None,
        leader_epoch_max: LeaderEpoch(12),
        verify_all: data.len().is_multiple_of(3),
    };
    let found = recover(&files, input.clone());
    let again = recover(&files, input.clone());
    assert_eq!(
        found.as_ref().map(|log| *log.chain()).map_err(Clone::clone),
        again.as_ref().map(|log| *log.chain()).map_err(Clone::clone),
        "recovery twice"
    );
    let Ok(log) = found else {
        return;
    };
    let whole = input.verify_all || input.checkpoint.is_none();
    let (last, end) = read_all(&log, &files, whole);
    let Some(last) = last else {
        return;
    };
    // Prefix-stable: with nothing behind the end, the end is the same.
    files.retain(|f| f.base <= last);
    let tail = files.last_mut().expect("the last segment has a file");
    tail.bytes.truncate(end as usize);
    let cut = RecoveryInput {
        files: files.iter().map(File::found).collect(),
        clean: false,
        ..input
    };
    let again = recover(&files, cut).expect("a prefix of what was found is fine");
    assert_eq!(log.chain(), again.chain(), "prefix-stable");
}

/// Every readable byte is a batch that follows the one before. Gives the last segment and the end in it.
fn read_all(log: &Log, files: &[File], verified: bool) -> (Option<i64>, u64) {
    let chain = log.chain();
    let mut end = (None, 0);
    let mut at = chain.log_start();
    while at < chain.high_watermark() {
        let location = log.locate(at).expect("inside the log");
        let file = files.iter().find(|f| f.base == location.segment.0);
        let bytes = &file.expect("a located segment has a file").bytes;
        if !verified {
            // What a checkpoint vouches for is not read; only that positions are inside the file counts.
            assert!(location.position <= location.limit && location.limit <= bytes.len() as u64);
            end = (Some(location.segment.0), location.limit);
            match log.next_segment(location.segment) {
                Some(next) => at = next.segment,
                None => break,
            }
            continue;
        }
        let mut position = location.position as usize;
        let mut next = at;
        while position < location.limit as usize {
            let rest = &bytes[position..location.limit as usize];
            let base = BatchHeader::read(rest).expect("a header").base_offset;
            match verify_next(rest, base, rest.len()) {
                Verified::Batch { header, size } => {
                    assert!(next == at || base == next, "{base} follows {next}");
                    next = header.next_offset();
                    position += size;
                }
                other => panic!("{other:?} became readable"),
            }
        }
        assert!(next > at, "segment {} holds {at}", location.segment);
        at = next;
        end = (Some(location.segment.0), location.limit);
    }
    // An empty active segment comes after the last readable one.
    let last = log.segments().last().map(|base| base.0);
    match (end.0, last) {
        (Some(segment), Some(last)) if last > segment && files.iter().any(|f| f.base == last) => {
            (Some(last), 0)
        }
        _ => end,
    }
}

fn recover(files: &[File], input: RecoveryInput) -> Result<Log, String> {
    let now = Now {
        wall: Timestamp(1_700_000_000_000),
        mono: MonoNs(0),
    };
    let mut recovery = Recovery::start(input, now).map_err(|refusal| refusal.0)?;
    while let Some(need) = recovery.need().map_err(|refusal| refusal.0)? {
        let file = files.iter().find(|f| f.base == need.segment.0);
        let bytes = &file.expect("a known file is asked for").bytes;
        assert!(need.from < need.to, "{need:?} is empty");
        recovery
            .on_bytes(&bytes[need.from as usize..need.to as usize], &mut |_| {})
            .map_err(|refusal| refusal.0)?;
    }
    recovery.finish(now).map_err(|refusal| refusal.0)
}

/// A checkpoint that fits what was made so far, or nearly.
fn proof(files: &[File], argument: u8) -> PartitionCheckpoint {
    let (last, sealed) = files.split_last().expect("there is a file");
    PartitionCheckpoint {
        partition: TopicPartition {
            topic_id: Uuid([1; 16]),
            partition: PartitionIndex(0),
        },
        log_start: Offset(i64::from(argument % 4)),
        proof: Proof {
            segment: Offset(last.base),
            position: last.bytes.len() as u64,
            offset: Offset(last.next + i64::from(argument / 250)),
        },
        sealed_segments: sealed.len() as u32,
        sealed_bytes: sealed.iter().map(|f| f.bytes.len() as u64).sum(),
        settled: true,
        epochs: Epochs::default(),
    }
}

impl File {
    fn new(base: i64) -> File {
        File {
            base,
            bytes: Vec::new(),
            next: base,
            offset_index: None,
            time_index: None,
        }
    }

    fn append(&mut self, records: i64, value_bytes: usize, epoch: i32) {
        let value = vec![records as u8; value_bytes];
        let mut builder = BatchBuilder::new();
        for i in 0..records {
            builder.append(Timestamp(self.next + i), None, Some(&value), &[]);
        }
        self.bytes
            .extend(builder.finish(Offset(self.next), LeaderEpoch(epoch)));
        self.next += records;
    }

    fn found(&self) -> SegmentFile {
        SegmentFile {
            base: Offset(self.base),
            length: self.bytes.len() as u64,
            offset_index: self.offset_index.clone(),
            time_index: self.time_index.clone(),
        }
    }
}
