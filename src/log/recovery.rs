//! From the files found at start to a `Log`: what is certain is trusted, what lies behind it is verified.
//! Owned by whoever opens the partition: it asks for bytes by `Need`, nothing is read or changed here.
//! Always: the end found is the first place behind the proof where no valid batch follows; damage before the proof, or
//! before data of a later segment, is a `Refusal` (the partition stays offline, its bytes as they are); running it
//! again on the same files gives the same.
//! What must change on the disk (cut, strays) is left to the `Log` it yields, before its first write.
//!
//! Reads are bounded by what lies behind the last saved index, snapshot and checkpoint, not by the size of the log.

mod candidate;

use candidate::{Candidate, Plan, candidate, dropped, proven_segment};

use super::checkpoint::{PartitionCheckpoint, Proof};
use super::epochs::Epochs;
use super::retention::Dropped;
use super::segment::{FileState, block_down};
use super::writer::Writer;
use super::{BatchFacts, Chain, Log, LogConfig};
use crate::base::limits::REQUEST_BYTES_MAX;
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

/// What a recovery found, for the log line of a start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Bytes that were read and verified.
    pub verified_bytes: u64,
    /// Segment, position and why the bytes there are no batch, if they are not zeros: a torn tail, or damage since the
    /// checkpoint, which looks the same. It is cut before the next write, and kept aside.
    pub torn: Option<(Offset, u64, String)>,
    /// Later segments without data, to be deleted.
    pub strays: Vec<Offset>,
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
    epochs_text: Option<String>,
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
    report: RecoveryReport,
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
        let named = files.iter().map(|f| f.base);
        if let Some(odd) = named
            .chain(input.replay_from)
            .find(|o| !BASES.contains(&o.0))
        {
            return refuse(format!("a segment or snapshot file is named {odd}"));
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
            epochs_text: input.epochs_text,
            leader_epoch_max: input.leader_epoch_max,
            replay_from,
            below: dropped(below, first_base),
            candidates,
            proven,
            at: 0,
            position: 0,
            expected: Expected::Base(first_base),
            last_epoch: LeaderEpoch::NONE,
            want: LOOK_BYTES,
            stage: Stage::Scan,
            report: RecoveryReport::default(),
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
            if from == candidate.length || self.stopped_here() {
                self.no_batch(FILE_ENDS)?;
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
                    self.want = (self.want * 2).min(CHUNK_BYTES).max(bytes as u64);
                    return Ok(());
                }
                // Whole and in its place, but of an epoch that nobody knows: not to be believed, and not to be cut either.
                Verified::Batch { header, .. } if header.leader_epoch > self.leader_epoch_max => {
                    return self.damaged("a leader epoch is from the future");
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
                Verified::End => ZEROS.to_owned(),
                Verified::Torn(torn) => torn.to_string(),
            };
            return self.no_batch(&why);
        }
        self.want = (self.want * 2).min(CHUNK_BYTES);
        Ok(())
    }

    /// What was found so far.
    pub fn report(&self) -> RecoveryReport {
        let strays = self.candidates.iter().skip(self.at + 1).map(|c| c.base);
        RecoveryReport {
            strays: strays.filter(|_| self.stage == Stage::Ended).collect(),
            ..self.report.clone()
        }
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
        log.epochs_changed = self.epochs_text.as_deref() != Some(&self.epochs.to_text());
        log.epochs = self.epochs;
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
        let quiet = self.clean && self.proof.offset == end;
        if !quiet {
            log.writer.set_saved_position(resumed);
        }
        if !quiet && length > self.position {
            log.writer.require_cut(self.report.torn.is_some());
        }
        Ok(log)
    }

    /// A clean stop left nothing behind its checkpoint.
    fn stopped_here(&self) -> bool {
        self.clean
            && self.stage == Stage::Scan
            && self.at == self.proven
            && self.at + 1 == self.candidates.len()
            && self.position == self.proof.position
            && self.expected == Expected::Base(self.proof.offset)
    }

    fn enter(&mut self, at: usize) {
        let candidate = &self.candidates[at];
        self.at = at;
        (self.position, self.expected) = match candidate.plan {
            Plan::Trust | Plan::Whole => (0, Expected::Base(candidate.base)),
            Plan::Replay(entry) | Plan::Resume(entry) => (
                u64::from(entry.position),
                Expected::Last(candidate.base.plus(i64::from(entry.relative))),
            ),
        };
        // Up to the proof and a look behind it, in one read if it is small: most partitions were idle.
        let certain = match (at < self.proven, at == self.proven) {
            (true, _) => candidate.length.saturating_sub(self.position),
            (_, true) => self.proof.position.saturating_sub(self.position),
            _ => 0,
        };
        self.want = (certain + LOOK_BYTES).min(CHUNK_BYTES);
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
        self.report.verified_bytes += size;
        self.position = next;
        self.expected = Expected::Base(header.next_offset());
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
        if next == Some(end) {
            self.enter(self.at + 1);
            return Ok(());
        }
        if why != ZEROS && why != FILE_ENDS {
            let base = self.candidates[self.at].base;
            self.report.torn = Some((base, self.position, why.to_owned()));
        }
        self.probe(self.at + 1);
        Ok(())
    }

    fn probe(&mut self, at: usize) {
        self.want = LOOK_BYTES;
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
            "segment {} is damaged at byte {}: {why}",
            self.candidates[self.at].base, self.position
        ))
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
    // No batch came in a larger request, so what claims to be one is not waited for.
    match verify_next(bytes, expected, rest.min(REQUEST_BYTES_MAX)) {
        Verified::NeedMore { bytes } if bytes > rest => Verified::Torn(Torn::Length {
            batch_length: rest as i32,
        }),
        other => other,
    }
}

fn refuse<T>(reason: String) -> Result<T, Refusal> {
    Err(Refusal(reason))
}

const ZEROS: &str = "zeros follow";
const FILE_ENDS: &str = "the file ends";
/// Offsets that a file may be named by: relative offsets must not leave the range.
const BASES: std::ops::Range<i64> = 0..i64::MAX - u32::MAX as i64;
/// Bytes asked for first behind what is certain; doubled from one read to the next.
const LOOK_BYTES: u64 = 16 << 10;
/// Most bytes asked for at a time; a larger batch is asked for whole.
const CHUNK_BYTES: u64 = 4 << 20;
