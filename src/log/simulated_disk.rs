//! A disk for tests: what was finished stays, of what is in flight at a power cut any 512-byte sectors land.
//! Owned by a test; checks every rule that an operation must keep when it is handed in.
//! Always: no two operations in flight touch a block of a file; no write reaches past the file's length.
//! What should be on the disk is for the test to know.

use std::collections::{BTreeMap, HashMap};

use super::*;
use crate::base::Offset;
use crate::base::limits::BLOCK_BYTES;
use crate::record::HEADER_BYTES;

/// xorshift64*: a reproducible stream of numbers.
#[derive(Clone)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Files that survive a power cut, and operations that may or may not.
#[derive(Clone, Default)]
pub(super) struct Disk {
    pub files: BTreeMap<i64, Vec<u8>>,
    pub indexes: BTreeMap<i64, (Vec<u8>, Vec<u8>)>,
    pub epochs_text: Option<String>,
    pub checkpoint: Option<PartitionCheckpoint>,
    pub clean: bool,
    pub in_flight: Vec<(IoOp, Vec<u8>)>,
}

impl Disk {
    /// Takes an operation; a write with the bytes that memory held when it was handed out.
    pub fn submit(&mut self, op: IoOp, arena: &HashMap<i64, Vec<u8>>) {
        let bytes = match &op {
            IoOp::Write {
                segment,
                from,
                to,
                covers,
                ..
            } => {
                assert!(from % BLOCK_BYTES == 0 && to % BLOCK_BYTES == 0 && from < to);
                assert!(covers <= to && covers > from);
                let file = self
                    .files
                    .get(&segment.0)
                    .expect("write to a file that is not there");
                assert!(
                    *to <= file.len() as u64,
                    "write past the allocation: {op:?}"
                );
                let mut bytes = arena[&segment.0].clone();
                if covers < to {
                    // What lies behind the data in memory are zeros, at least a header of them.
                    assert!(to - covers >= HEADER_BYTES as u64 || bytes.len() as u64 > *covers);
                    assert_eq!(
                        bytes.len() as u64,
                        *covers,
                        "a tail write covers all that is there"
                    );
                }
                bytes.resize((*to).max(bytes.len() as u64) as usize, 0);
                bytes[*from as usize..*to as usize].to_vec()
            }
            _ => Vec::new(),
        };
        if let Some((segment, from, to)) = touched(&op) {
            for (other, _) in &self.in_flight {
                if let Some((s, f, t)) = touched(other) {
                    assert!(
                        s != segment || to <= f || t <= from,
                        "{op:?} overlaps {other:?} in flight"
                    );
                }
            }
        }
        for (other, _) in &self.in_flight {
            let exclusive = |op: &IoOp| matches!(op, IoOp::Cut { .. });
            assert!(
                !exclusive(other) || segment_of(other) != segment_of(&op),
                "{op:?} during {other:?}"
            );
        }
        self.in_flight.push((op, bytes));
    }

    /// One operation in flight ends well.
    pub fn finish(&mut self, at: usize) -> IoTag {
        let (op, bytes) = self.in_flight.swap_remove(at);
        let tag = op.tag();
        self.apply(op, &bytes);
        tag
    }

    pub fn apply(&mut self, op: IoOp, bytes: &[u8]) {
        match op {
            IoOp::Create {
                segment,
                prealloc,
                recycle,
            } => {
                let mut file = match recycle {
                    Some(old) => {
                        self.indexes.remove(&old.0);
                        self.files.remove(&old.0).expect("a spare file")
                    }
                    None => Vec::new(),
                };
                assert!(!self.files.contains_key(&segment.0), "{segment} exists");
                assert!(prealloc >= file.len() as u64);
                file.resize(prealloc as usize, 0);
                self.files.insert(segment.0, file);
            }
            IoOp::Cut {
                segment,
                position,
                prealloc,
                ..
            } => {
                let file = self.files.get_mut(&segment.0).expect("a file to cut");
                file.truncate(position as usize);
                file.resize(prealloc as usize, 0);
            }
            IoOp::Preallocate { segment, to, .. } => {
                let file = self.files.get_mut(&segment.0).expect("a file to lengthen");
                let length = (to as usize).max(file.len());
                file.resize(length, 0);
            }
            IoOp::ZeroAhead { segment, from, to } => {
                let file = self.files.get_mut(&segment.0).expect("a file to zero");
                file[from as usize..to as usize].fill(0);
            }
            IoOp::Write {
                segment, from, to, ..
            } => {
                let file = self.files.get_mut(&segment.0).expect("a file to write");
                file[from as usize..to as usize].copy_from_slice(bytes);
            }
            IoOp::Seal {
                segment,
                size,
                offset_index,
                time_index,
                ..
            } => {
                let file = self.files.get_mut(&segment.0).expect("a file to seal");
                assert!(size <= file.len() as u64);
                file.truncate(size as usize);
                self.indexes.insert(segment.0, (offset_index, time_index));
            }
            IoOp::Save {
                segment,
                offset_index,
                time_index,
                ..
            } => {
                self.indexes.insert(segment.0, (offset_index, time_index));
            }
            IoOp::SaveEpochs { text } => self.epochs_text = Some(text),
            IoOp::Delete { segment } => {
                self.indexes.remove(&segment.0);
                self.files.remove(&segment.0).expect("a file to delete");
            }
        }
    }

    /// The power goes: of each write in flight any sectors land, other operations land whole, in part or not at all.
    pub fn crash(&mut self, random: &mut Random) {
        for (op, bytes) in std::mem::take(&mut self.in_flight) {
            match &op {
                IoOp::Write { segment, from, .. } => {
                    let Some(file) = self.files.get_mut(&segment.0) else {
                        continue;
                    };
                    let mode = random.below(4);
                    for (sector, new) in bytes.chunks(512).enumerate() {
                        let lands = match mode {
                            0 => false,
                            1 => true,
                            _ => random.one_in(2),
                        };
                        let at = *from as usize + sector * 512;
                        if lands {
                            file[at..at + 512].copy_from_slice(new);
                        }
                    }
                }
                IoOp::Cut {
                    segment, position, ..
                } => {
                    // Cut, not lengthened again; or not even cut.
                    if random.one_in(2) {
                        self.files
                            .get_mut(&segment.0)
                            .expect("a file to cut")
                            .truncate(*position as usize);
                    }
                }
                IoOp::Seal { segment, size, .. } => match random.below(3) {
                    0 => {}
                    1 => self
                        .files
                        .get_mut(&segment.0)
                        .expect("a file to seal")
                        .truncate(*size as usize),
                    _ => self.apply(op, &bytes),
                },
                _ => {
                    if random.one_in(2) {
                        self.apply(op, &bytes);
                    }
                }
            }
        }
    }
}

fn touched(op: &IoOp) -> Option<(Offset, u64, u64)> {
    match op {
        IoOp::Write {
            segment, from, to, ..
        }
        | IoOp::ZeroAhead { segment, from, to } => Some((*segment, *from, *to)),
        IoOp::Cut {
            segment, position, ..
        } => Some((*segment, *position, u64::MAX)),
        IoOp::Seal { segment, .. } => Some((*segment, 0, u64::MAX)),
        _ => None,
    }
}

fn segment_of(op: &IoOp) -> Option<Offset> {
    match op {
        IoOp::Create { segment, .. }
        | IoOp::Cut { segment, .. }
        | IoOp::Preallocate { segment, .. }
        | IoOp::ZeroAhead { segment, .. }
        | IoOp::Write { segment, .. }
        | IoOp::Seal { segment, .. }
        | IoOp::Save { segment, .. }
        | IoOp::Delete { segment } => Some(*segment),
        IoOp::SaveEpochs { .. } => None,
    }
}
