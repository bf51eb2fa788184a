//! From the files found at start to a `Log`: what is certain is trusted, what lies behind it is verified.
//! Owned by whoever opens the partition: it asks for bytes by `Need`, nothing is read or changed here.
//! Always: the end found is the first place behind the proof where no valid batch follows; damage before the proof, or
//! before data of a later segment, is a `Refusal` (the partition stays offline, its bytes as they are); running it
//! again on the same files gives the same.
//! What must change on the disk (cut, strays) is left to the `Log` it yields, before its first write.
//!
//! Reads are bounded by what lies behind the last saved index, snapshot and checkpoint, not by the size of the log.

use super::checkpoint::{PartitionCheckpoint, Proof};
use super::epochs::Epochs;
use super::index::{OffsetEntry, OffsetIndex, TimeIndex};
use super::retention::{Dropped, DroppedState};
use super::segment::{FileState, Segment, block_down};
use super::writer::Writer;
use super::{BatchFacts, Chain, Log, LogConfig};
use crate::base::{LeaderEpoch, Now, Offset};
use crate::record::scan::{Torn, Verified, verify_next};
use crate::record::{BatchHeader, HEADER_BYTES};

/// A segment's file as found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFile {
    /// From its name.
    pub base: Offset,
    /// Bytes.
    pub length: u64,
    /// Contents of `.index`, if there is one.
    pub offset_index: Option<Vec<u8>>,
    /// Contents of `.timeindex`, if there is one.
    pub time_index: Option<Vec<u8>>,
}

/// All that is known before the segments are read.
#[derive(Clone, Debug)]
pub struct RecoveryInput {
    pub config: LogConfig,
    /// In any order.
    pub files: Vec<SegmentFile>,
    /// The partition's entry of the checkpoint; without one everything is verified from the first byte on.
    pub checkpoint: Option<PartitionCheckpoint>,
    /// The broker stopped cleanly after that checkpoint.
    pub clean: bool,
    /// Contents of `leader-epoch-checkpoint`, which count when there is no checkpoint.
    pub epochs_text: Option<String>,
    /// Batches from here on are replayed: the offset of the producer snapshot. `None`: from the log start.
    pub replay_from: Option<Offset>,
    /// No batch can have a greater leader epoch.
    pub leader_epoch_max: LeaderEpoch,
    /// Verify every byte, not only what is behind the proof.
    pub verify_all: bool,
}

/// The partition must stay offline, its files untouched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal(pub String);

/// Bytes `from..to` of a segment's file are wanted; `to` is within the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    pub segment: Offset,
    pub from: u64,
    pub to: u64,
}

/// A recovery under way: `need`, `on_bytes`, `need`, ... until it needs nothing, then `finish`.
#[derive(Debug)]
pub struct Recovery {
    config: LogConfig,
    log_start: Offset,
    checkpointed: bool,
    /// Ends at 0 of the first segment if there is no checkpoint.
    proof: Proof,
    clean: bool,
    epochs: Epochs,
    leader_epoch_max: LeaderEpoch,
    replay_from: Offset,
    /// Files of segments wholly below the log start.
    below: Vec<Dropped>,
    /// From the one that holds the log start.
    candidates: Vec<Candidate>,
    /// Which of them the proof names.
    proven: usize,
    /// The one being read, and where in it.
    at: usize,
    position: u64,
    expected: Expected,
    last_epoch: LeaderEpoch,
    /// Bytes to ask for at `position`.
    want: u64,
    stage: Stage,
}

/// A segment file that belongs to the log.
#[derive(Debug)]
struct Candidate {
    base: Offset,
    length: u64,
    plan: Plan,
    segment: Segment,
}

/// How much of a segment is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// Nothing: it is sealed, its indexes are there.
    Trust,
    /// From the batch at this index entry on; the indexes stay.
    Replay(OffsetEntry),
    /// From the batch at this index entry on, which makes the entries from there anew.
    Resume(OffsetEntry),
    /// All of it, which makes the indexes anew.
    Whole,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    /// The next batch begins with this offset.
    Base(Offset),
    /// An index said that here is the batch that ends with this offset.
    Last(Offset),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Reading batch after batch.
    Scan,
    /// The end was found; does this later segment hold data all the same?
    Probe(usize),
    Ended,
}

impl Recovery {
    /// Judges what was found without reading a segment.
    pub fn start(input: RecoveryInput, now: Now) -> Result<Recovery, Refusal> {
        let mut files = input.files;
        files.sort_by_key(|f| f.base);
        if let Some(negative) = files.iter().find(|f| f.base < Offset::ZERO) {
            return refuse(format!("a segment file is named {}", negative.base));
        }
        let log_start = match (&input.checkpoint, files.first()) {
            (Some(checkpoint), _) => checkpoint.log_start,
            (None, Some(first)) => first.base,
            (None, None) => Offset::ZERO,
        };
        let holding = files.partition_point(|f| f.base <= log_start);
        let below = match holding.checked_sub(1) {
            Some(first) => files.drain(..first).collect::<Vec<_>>(),
            None if files.is_empty() => Vec::new(),
            None => {
                return refuse(format!(
                    "the log starts at {log_start}, but the first segment file is {}",
                    files[0].base
                ));
            }
        };
        let first_base = files.first().map_or(log_start, |f| f.base);
        let proof = match &input.checkpoint {
            // A proof wholly below the log start says no more than the log start does.
            Some(c) if c.proof.segment >= first_base => c.proof,
            _ => Proof {
                segment: first_base,
                position: 0,
                offset: first_base,
            },
        };
        let proven = proven_segment(&files, &proof, input.checkpoint.as_ref())?;
        let epochs = match (&input.checkpoint, &input.epochs_text) {
            (Some(checkpoint), _) => checkpoint.epochs.clone(),
            (None, Some(text)) => Epochs::parse(text).unwrap_or_default(),
            (None, None) => Epochs::default(),
        };
        let replay_from = input.replay_from.unwrap_or(log_start);
        let ends = files[..]
            .iter()
            .skip(1)
            .map(|f| Some(f.base))
            .chain([None])
            .collect::<Vec<_>>();
        let checkpointed = input.checkpoint.is_some();
        let candidates = files
            .into_iter()
            .zip(ends)
            .enumerate()
            .map(|(at, (file, end))| {
                let trusted = checkpointed && !input.verify_all;
                let proof_end = match at.cmp(&proven) {
                    std::cmp::Ordering::Less => Some(file.length),
                    std::cmp::Ordering::Equal => Some(proof.position),
                    std::cmp::Ordering::Greater => None,
                };
                let sealed = at < proven;
                candidate(
                    file,
                    end.filter(|_| sealed),
                    proof_end.filter(|_| trusted),
                    replay_from,
                    now,
                )
            })
            .collect();
        let mut recovery = Recovery {
            config: input.config,
            log_start,
            checkpointed,
            proof,
            clean: input.clean,
            epochs,
            leader_epoch_max: input.leader_epoch_max,
            replay_from,
            below: dropped(below, first_base),
            candidates,
            proven,
            at: 0,
            position: 0,
            expected: Expected::Base(first_base),
            last_epoch: LeaderEpoch::NONE,
            want: CHUNK_BYTES,
            stage: Stage::Scan,
        };
        if recovery.candidates.is_empty() {
            recovery.stage = Stage::Ended;
        } else {
            recovery.enter(0);
        }
        Ok(recovery)
    }

    /// What to read next; `None`: the end was found.
    /// A read that fails is no answer: give up, change nothing, the partition stays offline.
    pub fn need(&mut self) -> Result<Option<Need>, Refusal> {
        loop {
            let (at, from) = match self.stage {
                Stage::Ended => return Ok(None),
                Stage::Scan => (self.at, self.position),
                Stage::Probe(at) => (at, 0),
            };
            let candidate = &self.candidates[at];
            if self.stage == Stage::Scan && candidate.plan == Plan::Trust {
                self.enter(at + 1);
                continue;
            }
            if from == candidate.length {
                self.no_batch("the file ends")?;
                continue;
            }
            return Ok(Some(Need {
                segment: candidate.base,
                from,
                to: candidate.length.min(from + self.want),
            }));
        }
    }

    /// The bytes asked for, all of them. `replay` gets each batch from `replay_from` on, in order.
    pub fn on_bytes(
        &mut self,
        bytes: &[u8],
        replay: &mut dyn FnMut(&BatchHeader),
    ) -> Result<(), Refusal> {
        let mut used = 0;
        while used < bytes.len() {
            let (at, from) = match self.stage {
                Stage::Ended => return Ok(()),
                Stage::Scan => (self.at, self.position),
                Stage::Probe(at) => (at, 0),
            };
            let rest = self.candidates[at].length - from;
            let base = match (self.stage, self.expected) {
                (Stage::Probe(at), _) => Some(self.candidates[at].base),
                (_, Expected::Base(base)) => Some(base),
                (_, Expected::Last(_)) => None,
            };
            let why = match verify(&bytes[used..], rest, base) {
                Verified::NeedMore { bytes } => {
                    self.want = (bytes as u64).max(CHUNK_BYTES);
                    return Ok(());
                }
                Verified::Batch { header, size } => match self.misfit(&header) {
                    None if self.stage == Stage::Scan => {
                        self.accept(&header, replay)?;
                        used += size;
                        continue;
                    }
                    None => return self.later_data(at),
                    Some(why) => why.to_owned(),
                },
                Verified::End => "zeros follow".to_owned(),
                Verified::Torn(torn) => torn.to_string(),
            };
            return self.no_batch(&why);
        }
        Ok(())
    }

    /// The log as it stands on the disk. Only after `need` gave `None`.
    pub fn finish(mut self, now: Now) -> Result<Log, Refusal> {
        assert_eq!(self.stage, Stage::Ended, "finish before the end was found");
        let Expected::Base(end) = self.expected else {
            panic!(
                "the end of a log is at a known offset, not {:?}",
                self.expected
            );
        };
        if end < self.log_start || end < self.replay_from {
            return refuse(format!(
                "the log ends at offset {end}, before its start {} or its producer snapshot {}",
                self.log_start, self.replay_from
            ));
        }
        let strays = self
            .candidates
            .split_off((self.at + 1).min(self.candidates.len()))
            .iter()
            .map(|c| c.base)
            .collect();
        let mut log = Log::new(self.config, end, now);
        log.chain = Chain::new(self.log_start, end);
        self.epochs.truncate_from_end(end);
        self.epochs.truncate_from_start(self.log_start);
        log.epochs = self.epochs;
        log.epochs_changed = true;
        log.dropped = self.below;
        // Without a checkpoint nothing says that the log start is durable, but then nothing is below it either.
        log.checkpointed_log_start = if self.checkpointed {
            self.log_start
        } else {
            Offset::ZERO
        };
        if self.candidates.is_empty() {
            return Ok(log);
        }
        let last = self.candidates.len() - 1;
        let length = self.candidates[last].length;
        let proven = self.proven;
        let resumed = match self.candidates[last].plan {
            Plan::Resume(entry) | Plan::Replay(entry) => u64::from(entry.position),
            Plan::Whole | Plan::Trust => 0,
        };
        log.segments = self
            .candidates
            .into_iter()
            .enumerate()
            .map(|(at, candidate)| {
                let mut segment = candidate.segment;
                segment.file = FileState::Open;
                segment.allocated = block_down(candidate.length);
                if at < proven {
                    segment.file = FileState::Sealed;
                    segment.allocated = segment.size;
                    segment.thin_indexes();
                }
                segment
            })
            .collect();
        log.writer = Writer::new(log.active().base, self.position);
        log.writer.strays = strays;
        log.writer.set_saved_position(resumed);
        let quiet = self.clean && self.proof.offset == end;
        if !quiet && length > self.position {
            log.writer.require_cut();
        }
        Ok(log)
    }

    fn enter(&mut self, at: usize) {
        let candidate = &self.candidates[at];
        self.at = at;
        self.want = CHUNK_BYTES;
        (self.position, self.expected) = match candidate.plan {
            Plan::Trust | Plan::Whole => (0, Expected::Base(candidate.base)),
            Plan::Replay(entry) | Plan::Resume(entry) => (
                u64::from(entry.position),
                Expected::Last(candidate.base.plus(i64::from(entry.relative))),
            ),
        };
    }

    /// Why a valid batch is not the one that belongs here.
    fn misfit(&self, header: &BatchHeader) -> Option<&'static str> {
        let floor = self
            .epochs
            .at(header.base_offset)
            .map_or(self.last_epoch, |epoch| epoch.max(self.last_epoch));
        if header.leader_epoch < floor {
            return Some("a leader epoch goes back");
        }
        if header.leader_epoch > self.leader_epoch_max {
            return Some("a leader epoch is from the future");
        }
        match self.expected {
            Expected::Last(last)
                if self.stage == Stage::Scan
                    && (header.last_offset() != last
                        || header.base_offset < self.candidates[self.at].base) =>
            {
                Some("an index entry does not fit")
            }
            _ => None,
        }
    }

    fn accept(
        &mut self,
        header: &BatchHeader,
        replay: &mut dyn FnMut(&BatchHeader),
    ) -> Result<(), Refusal> {
        let size = header.size_in_bytes() as u64;
        let next = self.position + size;
        let proof_ahead = self.at == self.proven && self.position < self.proof.position;
        if proof_ahead && next > self.proof.position {
            return self.damaged("a batch reaches over the end of what was durable");
        }
        let candidate = &mut self.candidates[self.at];
        if matches!(candidate.plan, Plan::Whole | Plan::Resume(_)) {
            let facts = BatchFacts {
                size: u32::try_from(size).expect("a batch length is an i32"),
                last_offset_delta: header.last_offset_delta,
                max_timestamp: header.max_timestamp,
            };
            let reach = header.last_offset().since(candidate.base);
            if reach > i64::from(i32::MAX) || next > u64::from(u32::MAX) {
                return self.damaged("a segment holds more than it can");
            }
            candidate
                .segment
                .append(&self.config, header.base_offset, &facts);
            candidate
                .segment
                .durable(header.last_offset(), header.max_timestamp);
        }
        self.last_epoch = header.leader_epoch;
        if header.leader_epoch > LeaderEpoch::NONE {
            self.epochs.assign(header.leader_epoch, header.base_offset);
        }
        if header.base_offset >= self.replay_from {
            replay(header);
        }
        self.position = next;
        self.expected = Expected::Base(header.next_offset());
        self.want = CHUNK_BYTES;
        let at_proof = self.at == self.proven && self.position == self.proof.position;
        if at_proof && header.next_offset() != self.proof.offset {
            return self.damaged("the offset is not the one that was durable here");
        }
        Ok(())
    }

    /// No batch that belongs here follows. Is that the end, the end of this segment, a wrong index, or damage?
    fn no_batch(&mut self, why: &str) -> Result<(), Refusal> {
        if let Stage::Probe(probed) = self.stage {
            self.probe(probed + 1);
            return Ok(());
        }
        let candidate = &mut self.candidates[self.at];
        let end = match self.expected {
            Expected::Base(end) => end,
            Expected::Last(_) => {
                // Only the index said that a batch starts here: it is not to be trusted, the log may be whole.
                candidate.segment = candidate.segment.emptied();
                candidate.plan = Plan::Whole;
                self.enter(self.at);
                return Ok(());
            }
        };
        let next = self.candidates.get(self.at + 1).map(|c| c.base);
        let length = self.candidates[self.at].length;
        if self.at < self.proven {
            return if self.position == length && next == Some(end) {
                self.enter(self.at + 1);
                Ok(())
            } else {
                self.damaged(why)
            };
        }
        if self.at == self.proven && self.position < self.proof.position {
            return self.damaged(why);
        }
        match next {
            Some(base) if base == end => self.enter(self.at + 1),
            Some(_) => self.probe(self.at + 1),
            None => self.stage = Stage::Ended,
        }
        Ok(())
    }

    fn probe(&mut self, at: usize) {
        self.want = CHUNK_BYTES;
        self.stage = if at < self.candidates.len() {
            Stage::Probe(at)
        } else {
            Stage::Ended
        };
    }

    /// A later segment begins with a valid batch: this one was complete once.
    fn later_data<T>(&self, later: usize) -> Result<T, Refusal> {
        refuse(format!(
            "segment {} is damaged at byte {}: it should go on to offset {}, where the next segment has data",
            self.candidates[self.at].base, self.position, self.candidates[later].base
        ))
    }

    fn damaged<T>(&self, why: &str) -> Result<T, Refusal> {
        refuse(format!(
            "segment {} is damaged at byte {}, where data was durable: {why}",
            self.candidates[self.at].base, self.position
        ))
    }
}

/// Which file the proof names, if all that should be before it is there.
fn proven_segment(
    files: &[SegmentFile],
    proof: &Proof,
    checkpoint: Option<&PartitionCheckpoint>,
) -> Result<usize, Refusal> {
    let Some(checkpoint) = checkpoint else {
        return Ok(0);
    };
    let Some(at) = files.iter().position(|f| f.base == proof.segment) else {
        // The file of a new log comes with its first record.
        return if files.is_empty() && proof.position == 0 && proof.offset == checkpoint.log_start {
            Ok(0)
        } else {
            refuse(format!("the segment file {} is missing", proof.segment))
        };
    };
    if files[at].length < proof.position {
        return refuse(format!(
            "segment {} has {} bytes, {} were durable",
            proof.segment, files[at].length, proof.position
        ));
    }
    let bytes: u64 = files[..at].iter().map(|f| f.length).sum();
    if at != checkpoint.sealed_segments as usize || bytes != checkpoint.sealed_bytes {
        return refuse(format!(
            "{at} segments with {bytes} bytes before segment {}, there were {} with {}",
            proof.segment, checkpoint.sealed_segments, checkpoint.sealed_bytes
        ));
    }
    Ok(at)
}

/// How a segment is to be read. `end`: where it ends if it is sealed. `proof_end`: its durable bytes, if that is known
/// and need not be verified.
fn candidate(
    file: SegmentFile,
    end: Option<Offset>,
    proof_end: Option<u64>,
    replay_from: Offset,
    now: Now,
) -> Candidate {
    let indexes = decode_indexes(&file);
    let whole = || Candidate {
        base: file.base,
        length: file.length,
        plan: Plan::Whole,
        segment: Segment::new(file.base, now),
    };
    let (Some((offsets, times)), Some(proof_end)) = (indexes, proof_end) else {
        return whole();
    };
    let replay = replay_from.since(file.base).clamp(0, i64::from(i32::MAX)) as u32;
    let replay_entry = offsets.lookup(replay);
    if let Some(end) = end {
        let plan = match replay_entry {
            _ if replay_from >= end => Plan::Trust,
            Some(entry) => Plan::Replay(entry),
            // From the start, so the indexes may as well be made anew.
            None => return whole(),
        };
        return Candidate {
            base: file.base,
            length: file.length,
            plan,
            segment: Segment::found(file.base, file.length, offsets, times, now),
        };
    }
    let resume = proof_end
        .checked_sub(1)
        .and_then(|before| offsets.lookup_position(before))
        .zip(replay_entry)
        .map(|(proof, replay)| {
            if proof.position < replay.position {
                proof
            } else {
                replay
            }
        });
    let Some(entry) = resume else {
        return whole();
    };
    let (mut offsets, mut times) = (offsets, times);
    offsets.truncate_at(u64::from(entry.position));
    times.truncate_after(entry.relative);
    let size = u64::from(entry.position);
    Candidate {
        base: file.base,
        length: file.length,
        plan: Plan::Resume(entry),
        segment: Segment::found(file.base, size, offsets, times, now),
    }
}

/// Looks at `bytes`, behind which the file goes on to `rest` bytes from their start.
fn verify(bytes: &[u8], rest: u64, base: Option<Offset>) -> Verified {
    let head = rest.min(HEADER_BYTES as u64) as usize;
    if bytes.len() < head {
        return Verified::NeedMore { bytes: head };
    }
    if bytes[..head].iter().all(|b| *b == 0) {
        return Verified::End;
    }
    // Without a known base any will do here; `misfit` judges it.
    let expected = base
        .or_else(|| BatchHeader::read(bytes).map(|header| header.base_offset))
        .unwrap_or_default();
    let rest = usize::try_from(rest).unwrap_or(usize::MAX);
    match verify_next(bytes, expected, rest) {
        Verified::NeedMore { bytes } if bytes > rest => Verified::Torn(Torn::Length {
            batch_length: rest as i32,
        }),
        other => other,
    }
}

fn decode_indexes(file: &SegmentFile) -> Option<(OffsetIndex, TimeIndex)> {
    let offsets = OffsetIndex::decode(file.offset_index.as_ref()?, file.length)?;
    let times = TimeIndex::decode(file.time_index.as_ref()?)?;
    Some((offsets, times))
}

fn dropped(files: Vec<SegmentFile>, first_base: Offset) -> Vec<Dropped> {
    let ends: Vec<Offset> = files
        .iter()
        .skip(1)
        .map(|f| f.base)
        .chain([first_base])
        .collect();
    files
        .into_iter()
        .zip(ends)
        .map(|(file, end)| Dropped {
            base: file.base,
            end,
            length: file.length,
            readers: 0,
            state: DroppedState::Waits,
        })
        .collect()
}

fn refuse<T>(reason: String) -> Result<T, Refusal> {
    Err(Refusal(reason))
}

/// Bytes asked for at a time; a larger batch is asked for whole.
const CHUNK_BYTES: u64 = 4 << 20;
