//! From the files of a partition's directory to a `Partition`: the log's recovery, with the producers replayed.
//! Owned by whoever opens the partition; asks for bytes like `log::Recovery`.
//! Always: the newest snapshot that can be read is taken, and only what lies behind it is replayed.
//! Reading the files is the shard's.

use super::{Partition, PartitionConfig};
use crate::base::{LeaderEpoch, Now, Offset, TopicPartition};
use crate::log::{
    Need, PartitionCheckpoint, Recovery, RecoveryInput, RecoveryReport, Refusal, SegmentFile,
};
use crate::producer::ProducerStates;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct PartitionFiles {
    pub segments: Vec<SegmentFile>,
    /// Offset (the file's name) and contents of each `.snapshot`.
    pub snapshots: Vec<(Offset, Vec<u8>)>,
    /// Contents of `leader-epoch-checkpoint`.
    pub epochs_text: Option<String>,
    pub checkpoint: Option<PartitionCheckpoint>,
    /// The broker stopped cleanly after that checkpoint.
    pub clean: bool,
}

/// A recovery under way.
#[derive(Debug)]
pub struct PartitionRecovery {
    id: TopicPartition,
    config: PartitionConfig,
    log: Recovery,
    producers: ProducerStates,
    snapshot: Option<Offset>,
}

impl PartitionRecovery {
    /// `leader_epoch_max`: the partition's epoch as `metadata` knows it; `verify_all`: every byte, not only what is
    /// not certain. A refusal means `Partition::refused`.
    pub fn start(
        id: TopicPartition,
        config: PartitionConfig,
        files: PartitionFiles,
        leader_epoch_max: LeaderEpoch,
        verify_all: bool,
        now: Now,
    ) -> Result<PartitionRecovery, Refusal> {
        let mut snapshots = files.snapshots;
        snapshots.sort_by_key(|(offset, _)| std::cmp::Reverse(*offset));
        let newest = snapshots.iter().find_map(|(offset, bytes)| {
            let producers = ProducerStates::decode_snapshot(bytes, now.wall).ok()?;
            Some((*offset, producers))
        });
        let (snapshot, producers) = newest.unzip();
        let log = Recovery::start(
            RecoveryInput {
                config: config.log,
                files: files.segments,
                checkpoint: files.checkpoint,
                clean: files.clean,
                epochs_text: files.epochs_text,
                replay_from: snapshot,
                leader_epoch_max,
                verify_all,
            },
            now,
        )?;
        Ok(PartitionRecovery {
            id,
            config,
            log,
            producers: producers.unwrap_or_default(),
            snapshot,
        })
    }

    /// See `Recovery::need`.
    pub fn need(&mut self) -> Result<Option<Need>, Refusal> {
        self.log.need()
    }

    /// See `Recovery::on_bytes`.
    pub fn on_bytes(&mut self, bytes: &[u8], now: Now) -> Result<(), Refusal> {
        let producers = &mut self.producers;
        self.log.on_bytes(bytes, &mut |header| {
            producers.update(header, header.base_offset, now.wall);
        })
    }

    /// See `Recovery::report`.
    pub fn report(&self) -> RecoveryReport {
        self.log.report()
    }

    /// The partition; it leads with no epoch yet.
    pub fn finish(self, now: Now) -> Result<Partition, Refusal> {
        let log = self.log.finish(now)?;
        let mut partition = Partition::with(self.id, self.config, log, self.producers);
        partition
            .producers
            .expire(now.wall, self.config.producer_expiration_ms);
        // A snapshot in the middle of a segment goes with the next save, one at a segment's start stays with it.
        partition.loose_snapshots = self
            .snapshot
            .filter(|offset| !partition.log.segments().any(|base| base == *offset))
            .into_iter()
            .collect();
        Ok(partition)
    }
}
