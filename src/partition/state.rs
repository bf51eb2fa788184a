//! The state of one partition and what may be asked about it at any time.
//! Owned by the shard that leads it.
//! Always: producer state is that of all appended records.
//! The flows that change it are in the other files of this folder.

use std::collections::VecDeque;

use crate::base::{ErrorCode, LeaderEpoch, Now, Offset, TopicPartition};
use crate::log::{Chain, IoTag, Log, LogConfig, PartitionCheckpoint, Snapshot};
use crate::producer::ProducerStates;

/// Topic configs that a partition lives by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionConfig {
    pub log: LogConfig,
    /// `cleanup.policy` contains `delete`: retention applies.
    pub cleanup_delete: bool,
    /// `producer.id.expiration.ms`.
    pub producer_expiration_ms: i64,
}

impl Default for PartitionConfig {
    fn default() -> Self {
        PartitionConfig {
            log: LogConfig::default(),
            cleanup_delete: true,
            producer_expiration_ms: 86_400_000,
        }
    }
}

/// One partition.
#[derive(Debug)]
pub struct Partition {
    pub(super) id: TopicPartition,
    pub(super) config: PartitionConfig,
    pub(super) log: Log,
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) producers: ProducerStates,
    /// Producer states at offsets that wait to be written with a `Seal` or a `Save`, oldest first.
    pub(super) snapshots: VecDeque<(Offset, Vec<u8>)>,
    /// Snapshots being written, by their operation.
    pub(super) snapshots_written: Vec<(IoTag, Snapshot)>,
    /// Snapshot files that may be there and don't begin a segment: of no use after the next.
    pub(super) loose_snapshots: Vec<Offset>,
    pub(super) bytes_since_snapshot: u64,
    /// The recovery refused the files: nothing can be read, and this entry must stay in the checkpoint.
    pub(super) refused: Option<Option<PartitionCheckpoint>>,
}

impl Partition {
    /// A new partition without records.
    pub fn new(id: TopicPartition, config: PartitionConfig, now: Now) -> Partition {
        let log = Log::new(config.log, Offset::ZERO, now);
        Partition::with(id, config, log, ProducerStates::default())
    }

    /// A partition whose files a recovery refused: every request gets KAFKA_STORAGE_ERROR, the files stay as they are.
    pub fn refused(
        id: TopicPartition,
        config: PartitionConfig,
        reason: String,
        checkpoint: Option<PartitionCheckpoint>,
        now: Now,
    ) -> Partition {
        let mut partition = Partition::new(id, config, now);
        partition.log.go_offline(reason);
        partition.refused = Some(checkpoint);
        partition
    }

    pub(super) fn with(
        id: TopicPartition,
        config: PartitionConfig,
        log: Log,
        producers: ProducerStates,
    ) -> Partition {
        Partition {
            id,
            config,
            log,
            leader_epoch: LeaderEpoch::NONE,
            producers,
            snapshots: VecDeque::new(),
            snapshots_written: Vec::new(),
            loose_snapshots: Vec::new(),
            bytes_since_snapshot: 0,
            refused: None,
        }
    }

    pub fn id(&self) -> TopicPartition {
        self.id
    }

    pub fn config(&self) -> &PartitionConfig {
        &self.config
    }

    /// Takes effect at once.
    pub fn set_config(&mut self, config: PartitionConfig) {
        self.config = config;
        self.log.set_config(config.log);
    }

    /// The log, to look at: sizes, segments, offsets.
    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn chain(&self) -> &Chain {
        self.log.chain()
    }

    pub fn producers(&self) -> &ProducerStates {
        &self.producers
    }

    /// Why the partition is offline, if it is.
    pub fn offline(&self) -> Option<&str> {
        self.log.offline()
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// This node leads with `epoch` from the next record on. An older epoch changes nothing.
    pub fn lead(&mut self, epoch: LeaderEpoch) {
        if epoch > self.leader_epoch {
            self.leader_epoch = epoch;
            self.log.lead(epoch);
        }
    }

    /// Compares a client's idea of the leader epoch with ours; NONE is no idea.
    /// Errors: FENCED_LEADER_EPOCH (older), UNKNOWN_LEADER_EPOCH (newer).
    pub fn check_leader_epoch(&self, epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        if epoch == LeaderEpoch::NONE || epoch == self.leader_epoch {
            Ok(())
        } else if epoch < self.leader_epoch {
            Err(ErrorCode::FencedLeaderEpoch)
        } else {
            Err(ErrorCode::UnknownLeaderEpoch)
        }
    }

    /// Errors: KAFKA_STORAGE_ERROR if not even old records can be read.
    pub(super) fn check_readable(&self) -> Result<(), ErrorCode> {
        match self.refused {
            Some(_) => Err(ErrorCode::KafkaStorageError),
            None => Ok(()),
        }
    }

    /// A reader holds the segment's file: it stays until `end_read`. False: it is gone, locate again.
    pub fn begin_read(&mut self, segment: Offset) -> bool {
        self.log.begin_read(segment)
    }

    /// Ends what `begin_read` began; poll for `IoOp`s after it.
    pub fn end_read(&mut self, segment: Offset) {
        self.log.end_read(segment);
    }

    /// See `Log::hold`.
    pub fn hold(&mut self, segment: Offset) -> bool {
        self.log.hold(segment)
    }

    /// See `Log::release`.
    pub fn release(&mut self, segment: Offset) -> bool {
        self.log.release(segment)
    }

    /// See `Log::give_up_holds`.
    pub fn give_up_holds(&mut self) -> bool {
        self.log.give_up_holds()
    }

    /// See `Log::note_boundary`.
    pub fn note_boundary(&mut self, offset: Offset, segment: Offset, position: u64) {
        self.log.note_boundary(offset, segment, position);
    }

    /// See `Log::distrust_index`.
    pub fn distrust_index(&mut self, segment: Offset) {
        self.log.distrust_index(segment);
    }
}
