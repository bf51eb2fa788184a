//! Which files belong to the log, and how much of each is read.
//! Part of the recovery, before the first byte is read.
//! Always: without a checkpoint everything is read; a sealed segment with valid indexes is trusted, a missing one refused.
//! Reading is the recovery's.

use super::{Refusal, SegmentFile, refuse};
use crate::base::{Now, Offset};
use crate::log::checkpoint::{PartitionCheckpoint, Proof};
use crate::log::index::{OffsetEntry, OffsetIndex, TimeIndex};
use crate::log::retention::{Dropped, DroppedState};
use crate::log::segment::Segment;

/// A segment file that belongs to the log.
#[derive(Debug)]
pub(super) struct Candidate {
    pub base: Offset,
    pub length: u64,
    pub plan: Plan,
    pub segment: Segment,
}

/// How much of a segment is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// Nothing: it is sealed, its indexes are there.
    Trust,
    /// From the batch at this index entry on; the indexes stay.
    Replay(OffsetEntry),
    /// From the batch at this index entry on, which makes the entries from there anew.
    Resume(OffsetEntry),
    /// All of it, which makes the indexes anew.
    Whole,
}

/// Which file the proof names, if all that should be before it is there.
pub(super) fn proven_segment(
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
pub(super) fn candidate(
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

fn decode_indexes(file: &SegmentFile) -> Option<(OffsetIndex, TimeIndex)> {
    let offsets = OffsetIndex::decode(file.offset_index.as_ref()?, file.length)?;
    let times = TimeIndex::decode(file.time_index.as_ref()?)?;
    Some((offsets, times))
}

pub(super) fn dropped(files: Vec<SegmentFile>, first_base: Offset) -> Vec<Dropped> {
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
            holds: 0,
            held_until: None,
            state: DroppedState::Waits,
        })
        .collect()
}
