//! The checkpoint file of a shard: for each of its partitions, where the log starts and what is certain to be on disk.
//! Written now and then by replacing the whole file; read by a recovery, which tells damage from a torn tail by it.
//! Always: an entry only says what is durable, so an old one is too low, never wrong; a damaged file is refused whole.
//! Naming, replacing and syncing the file is the shard's.
//!
//! ```text
//! "RINGCKPT" version:u16 flags:u16 sequence:u64 count:u32 entry*count crc32c:u32     (big-endian; crc of all before it)
//! entry: topic_id:16 partition:i32 log_start:i64 segment:i64 position:u64 offset:i64 sealed_segments:u32
//!        sealed_bytes:u64 settled:u8 epochs:u32 (epoch:i32 start:i64)*epochs
//! ```

use std::collections::BTreeMap;

use super::epochs::{EpochEntry, Epochs};
use crate::base::{LeaderEpoch, Offset, PartitionIndex, TopicPartition, Uuid};

/// Up to where a log is certain to be on the disk: `position` in `segment` is the end of the batch before `offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    pub segment: Offset,
    pub position: u64,
    pub offset: Offset,
}

/// One partition's entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionCheckpoint {
    pub partition: TopicPartition,
    pub log_start: Offset,
    pub proof: Proof,
    /// Segments from the one that holds `log_start` to the one before `proof.segment`: all sealed.
    pub sealed_segments: u32,
    /// Their bytes.
    pub sealed_bytes: u64,
    /// Nothing that counts is behind the proof and nothing was pending: only then a clean stop says that nobody need look there. Not
    /// so for a partition that is offline, whose files were refused, or with bytes behind its end that are still to be cut.
    pub settled: bool,
    pub epochs: Epochs,
}

/// The whole file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckpointFile {
    /// Written at a clean stop: no write was under way, nothing was pending, but for entries that are not settled. Whoever starts again replaces the file by
    /// one that is not clean, durably, before the first write to a log.
    pub clean: bool,
    /// Rises with every write of this file.
    pub sequence: u64,
    pub entries: Vec<PartitionCheckpoint>,
}

/// An entry as a start finds it, whichever shard wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    pub entry: PartitionCheckpoint,
    /// The broker stopped cleanly after it, and the partition was settled.
    pub clean: bool,
}

impl CheckpointFile {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.entries.len() * (ENTRY_BYTES_MIN + 12));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&u16::from(self.clean).to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_be_bytes());
        for entry in &self.entries {
            out.extend_from_slice(&entry.partition.topic_id.0);
            out.extend_from_slice(&entry.partition.partition.0.to_be_bytes());
            out.extend_from_slice(&entry.log_start.0.to_be_bytes());
            out.extend_from_slice(&entry.proof.segment.0.to_be_bytes());
            out.extend_from_slice(&entry.proof.position.to_be_bytes());
            out.extend_from_slice(&entry.proof.offset.0.to_be_bytes());
            out.extend_from_slice(&entry.sealed_segments.to_be_bytes());
            out.extend_from_slice(&entry.sealed_bytes.to_be_bytes());
            out.push(u8::from(entry.settled));
            out.extend_from_slice(&(entry.epochs.entries().len() as u32).to_be_bytes());
            for epoch in entry.epochs.entries() {
                out.extend_from_slice(&epoch.epoch.0.to_be_bytes());
                out.extend_from_slice(&epoch.start.0.to_be_bytes());
            }
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    /// The error says what is wrong with the file.
    pub fn decode(bytes: &[u8]) -> Result<CheckpointFile, String> {
        let (body, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| format!("{} bytes are too few", bytes.len()))?;
        let (computed, stored) = (crc32c::crc32c(body), u32::from_be_bytes(*crc));
        if computed != stored {
            return Err(format!(
                "checksum is {stored:#010x}, the bytes have {computed:#010x}"
            ));
        }
        let mut reader = Reader(body);
        if reader.take::<8>()? != *MAGIC {
            return Err("not a checkpoint file".to_owned());
        }
        let version = u16::from_be_bytes(reader.take()?);
        if version != VERSION {
            return Err(format!("version {version}, this program reads {VERSION}"));
        }
        let clean = match u16::from_be_bytes(reader.take()?) {
            0 => false,
            1 => true,
            flags => return Err(format!("unknown flags {flags:#x}")),
        };
        let sequence = u64::from_be_bytes(reader.take()?);
        let count = u32::from_be_bytes(reader.take()?) as usize;
        if count > reader.0.len() / ENTRY_BYTES_MIN {
            return Err(format!("{count} entries in {} bytes", reader.0.len()));
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(PartitionCheckpoint::decode(&mut reader)?);
        }
        if !reader.0.is_empty() {
            return Err(format!("{} bytes too many", reader.0.len()));
        }
        Ok(CheckpointFile {
            clean,
            sequence,
            entries,
        })
    }
}

impl PartitionCheckpoint {
    fn decode(reader: &mut Reader<'_>) -> Result<PartitionCheckpoint, String> {
        let partition = TopicPartition {
            topic_id: Uuid(reader.take()?),
            partition: PartitionIndex(i32::from_be_bytes(reader.take()?)),
        };
        let log_start = Offset(i64::from_be_bytes(reader.take()?));
        let proof = Proof {
            segment: Offset(i64::from_be_bytes(reader.take()?)),
            position: u64::from_be_bytes(reader.take()?),
            offset: Offset(i64::from_be_bytes(reader.take()?)),
        };
        let sealed_segments = u32::from_be_bytes(reader.take()?);
        let sealed_bytes = u64::from_be_bytes(reader.take()?);
        let settled = match reader.take()? {
            [0] => false,
            [1] => true,
            [other] => return Err(format!("{partition} has settled {other}")),
        };
        let count = u32::from_be_bytes(reader.take()?) as usize;
        if count > reader.0.len() / 12 {
            return Err(format!("{count} epochs in {} bytes", reader.0.len()));
        }
        let mut epochs = Vec::with_capacity(count);
        for _ in 0..count {
            epochs.push(EpochEntry {
                epoch: LeaderEpoch(i32::from_be_bytes(reader.take()?)),
                start: Offset(i64::from_be_bytes(reader.take()?)),
            });
        }
        let epochs = Epochs::from_entries(epochs)
            .ok_or_else(|| format!("the leader epochs of {partition} are out of order"))?;
        if log_start < Offset::ZERO
            || proof.segment < Offset::ZERO
            || proof.offset < proof.segment
            || (proof.position == 0) != (proof.offset == proof.segment)
        {
            return Err(format!(
                "{partition} has log start {log_start} and {proof:?}"
            ));
        }
        Ok(PartitionCheckpoint {
            partition,
            log_start,
            proof,
            sealed_segments,
            sealed_bytes,
            settled,
            epochs,
        })
    }

    /// What of two entries of one partition is the later one.
    fn rank(&self) -> (Offset, Offset, Offset) {
        (self.proof.offset, self.log_start, self.proof.segment)
    }
}

/// The entry that counts for each partition, when all files found are put together: shards may have changed.
pub fn merge(files: impl IntoIterator<Item = CheckpointFile>) -> BTreeMap<TopicPartition, Merged> {
    let mut merged: BTreeMap<TopicPartition, Merged> = BTreeMap::new();
    for file in files {
        for entry in file.entries {
            let found = Merged {
                clean: file.clean && entry.settled,
                entry,
            };
            match merged.entry(found.entry.partition) {
                std::collections::btree_map::Entry::Vacant(slot) => {
                    slot.insert(found);
                }
                std::collections::btree_map::Entry::Occupied(mut slot) => {
                    let known = slot.get_mut();
                    match found.entry.rank().cmp(&known.entry.rank()) {
                        std::cmp::Ordering::Greater => *known = found,
                        // The same place from two shards: only certain if both say so.
                        std::cmp::Ordering::Equal => known.clean &= found.clean,
                        std::cmp::Ordering::Less => {}
                    }
                }
            }
        }
    }
    merged
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| "the file is too short".to_owned())?;
        self.0 = rest;
        Ok(*head)
    }
}

const MAGIC: &[u8; 8] = b"RINGCKPT";
const VERSION: u16 = 1;
const ENTRY_BYTES_MIN: usize = 16 + 4 + 8 + 8 + 8 + 8 + 4 + 8 + 1 + 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(topic: u8, log_start: i64, offset: i64) -> PartitionCheckpoint {
        PartitionCheckpoint {
            partition: TopicPartition {
                topic_id: Uuid([topic; 16]),
                partition: PartitionIndex(3),
            },
            log_start: Offset(log_start),
            proof: Proof {
                segment: Offset(5),
                position: 777,
                offset: Offset(offset),
            },
            sealed_segments: 2,
            sealed_bytes: 12345,
            settled: true,
            epochs: Epochs::from_entries(vec![EpochEntry {
                epoch: LeaderEpoch(1),
                start: Offset(2),
            }])
            .unwrap(),
        }
    }

    fn file() -> CheckpointFile {
        CheckpointFile {
            clean: true,
            sequence: 9,
            entries: vec![entry(1, 2, 20), entry(2, 0, 30)],
        }
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_refused() {
        let bytes = file().encode();
        assert_eq!(CheckpointFile::decode(&bytes), Ok(file()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(CheckpointFile::decode(&damaged).is_err(), "byte {at}");
            assert!(CheckpointFile::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn counts_are_bounded_by_the_bytes_that_are_there() {
        let mut bytes = CheckpointFile::default().encode();
        bytes.truncate(bytes.len() - 8);
        bytes.extend_from_slice(&u32::MAX.to_be_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        assert!(
            CheckpointFile::decode(&bytes)
                .unwrap_err()
                .contains("4294967295 entries")
        );
    }

    #[test]
    fn merging_takes_the_highest_and_is_clean_only_if_all_are() {
        let (old, new) = (entry(1, 2, 20), entry(1, 2, 25));
        let one = |clean, entry: &PartitionCheckpoint| CheckpointFile {
            clean,
            sequence: 1,
            entries: vec![entry.clone()],
        };
        for files in [
            [one(true, &old), one(false, &new)],
            [one(false, &new), one(true, &old)],
        ] {
            let merged = merge(files);
            let found = &merged[&old.partition];
            assert_eq!((found.entry.proof.offset, found.clean), (Offset(25), false));
        }
        let both = merge([one(true, &new), one(false, &new)]);
        assert!(!both[&new.partition].clean);
        let mut unsettled = new.clone();
        unsettled.settled = false;
        assert!(merge([one(true, &new)])[&new.partition].clean);
        assert!(!merge([one(true, &unsettled)])[&new.partition].clean);
        let decoded = CheckpointFile::decode(&one(true, &unsettled).encode()).unwrap();
        assert_eq!(decoded.entries, [unsettled]);
    }
}
