//! The state of one log, and what may be asked about it at any time.
//! Owned by one `Partition`, on the shard that owns the partition.
//! Always: there is at least one segment, the last is the active one; `pending` holds exactly the batches between
//! durable and appended; an offline log never changes again.
//! The flows that change it are in the other files of this folder.

use std::collections::VecDeque;

use super::append::Pending;
use super::chain::Chain;
use super::checkpoint::Proof;
use super::epochs::Epochs;
use super::read::Boundaries;
use super::retention::Dropped;
use super::segment::{FileState, Segment};
use super::writer::Writer;
use super::{LogConfig, PartitionCheckpoint};
use crate::base::{LeaderEpoch, MonoNs, Now, Offset, TopicPartition};

/// One partition's log.
#[derive(Debug)]
pub struct Log {
    pub(super) config: LogConfig,
    pub(super) chain: Chain,
    /// Oldest first.
    pub(super) segments: VecDeque<Segment>,
    pub(super) epochs: Epochs,
    /// Whether `leader-epoch-checkpoint` is behind `epochs`.
    pub(super) epochs_changed: bool,
    pub(super) pending: VecDeque<Pending>,
    pub(super) writer: Writer,
    /// Segments below the log start whose files are still there.
    pub(super) dropped: Vec<Dropped>,
    /// Log start of the last checkpoint known to be on the disk.
    pub(super) checkpointed_log_start: Offset,
    pub(super) last_roll: Option<MonoNs>,
    pub(super) boundaries: Boundaries,
    pub(super) offline: Option<String>,
}

impl Log {
    /// The log of a new partition; its first record gets offset `start`.
    pub fn new(config: LogConfig, start: Offset, now: Now) -> Log {
        Log {
            config,
            chain: Chain::new(start, start),
            segments: VecDeque::from([Segment::new(start, now)]),
            epochs: Epochs::default(),
            epochs_changed: false,
            pending: VecDeque::new(),
            writer: Writer::new(start, 0),
            dropped: Vec::new(),
            checkpointed_log_start: start,
            last_roll: None,
            boundaries: Boundaries::default(),
            offline: None,
        }
    }

    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Takes effect at the next append, roll or retention check.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Why the log takes and acknowledges nothing any more, if so.
    pub fn offline(&self) -> Option<&str> {
        self.offline.as_deref()
    }

    /// Final: nothing is acknowledged, written or retried after this. What was durable may still be read.
    pub fn go_offline(&mut self, reason: String) {
        self.offline.get_or_insert(reason);
    }

    /// This node leads with `epoch` from the next record on.
    pub fn lead(&mut self, epoch: LeaderEpoch) {
        if self.offline.is_none() && self.epochs.assign(epoch, self.chain.appended()) {
            self.epochs_changed = true;
        }
    }

    /// Bytes appended and not yet durable.
    pub fn in_flight_bytes(&self) -> u64 {
        self.writer_index()
            .map(|at| {
                let flushed = self.writer.flushed_to();
                self.segments.range(at..).map(|s| s.size).sum::<u64>() - flushed
            })
            .expect("the writer's segment is in the log")
    }

    /// First offset after a segment that is followed by another.
    pub fn end_of(&self, segment: Offset) -> Option<Offset> {
        let at = self.index_of(segment)?;
        self.segments.get(at + 1).map(|next| next.base)
    }

    /// Whether the segment is complete and never written again; one that was dropped is.
    pub fn is_sealed(&self, segment: Offset) -> bool {
        self.index_of(segment)
            .is_none_or(|at| self.segments[at].file == FileState::Sealed)
    }

    /// Bytes of all segments from the one that holds the log start.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.size).sum()
    }

    /// Bytes of files, with what is allocated ahead and dropped files not yet gone.
    pub fn disk_bytes(&self) -> u64 {
        let live: u64 = self.segments.iter().map(|s| s.allocated.max(s.size)).sum();
        live + self.dropped.iter().map(|d| d.length).sum::<u64>()
    }

    /// Bytes of heap this log holds; for the memory budget.
    pub fn heap_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
            + self.segments.iter().map(Segment::heap_bytes).sum::<usize>()
            + self.pending.capacity() * size_of::<Pending>()
            + size_of_val(self.epochs.entries())
            + self.boundaries.heap_bytes()
            + self.dropped.capacity() * size_of::<Dropped>()
    }

    /// Base offsets of the segments, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = Offset> + '_ {
        self.segments.iter().map(|s| s.base)
    }

    /// What is certain to be on the disk, complete: never moves back, never names a file that may not be there.
    pub fn proof(&self) -> Proof {
        // The first segment that is not sealed, but only if all before it are; a complete one holds the proof at its
        // end until it is sealed and its successor has a file.
        let at = self.first_unsealed();
        let at = match self.segments[at].file {
            FileState::Absent | FileState::Creating => at.saturating_sub(1),
            FileState::Open | FileState::Sealing | FileState::Sealed => at,
        };
        let segment = &self.segments[at];
        match self.segments.get(at + 1) {
            Some(next) if next.base <= self.chain.durable() => Proof {
                segment: segment.base,
                position: segment.size,
                offset: next.base,
            },
            _ => Proof {
                segment: segment.base,
                position: self.writer.durable_position(),
                offset: self.chain.durable(),
            },
        }
    }

    /// This log's entry for the checkpoint file.
    pub fn checkpoint(&self, partition: TopicPartition) -> PartitionCheckpoint {
        let proof = self.proof();
        let proven = self
            .segments
            .iter()
            .position(|s| s.base == proof.segment)
            .expect("the proof names a segment of the log");
        // Segments wholly below the log start that are not dropped yet don't count: their files may go first.
        let first = self.holding_log_start();
        PartitionCheckpoint {
            partition,
            log_start: self.chain.log_start(),
            proof,
            sealed_segments: (proven.saturating_sub(first)) as u32,
            sealed_bytes: self
                .segments
                .range(first.min(proven)..proven)
                .map(|s| s.size)
                .sum(),
            settled: self.settled(),
            epochs: {
                let mut epochs = self.epochs.clone();
                epochs.truncate_from_end(proof.offset);
                epochs
            },
        }
    }

    /// A checkpoint with this log start is on the disk. Returns whether files may now go (poll again).
    pub fn on_checkpoint(&mut self, log_start: Offset) -> bool {
        self.checkpointed_log_start = self.checkpointed_log_start.max(log_start);
        !self.dropped.is_empty()
    }

    /// Whether the log start moved since the last durable checkpoint: DeleteRecords waits for it, files too.
    pub fn checkpoint_needed(&self) -> bool {
        self.checkpointed_log_start < self.chain.log_start()
    }

    /// Log start of the last durable checkpoint.
    pub fn checkpointed_log_start(&self) -> Offset {
        self.checkpointed_log_start
    }

    pub(super) fn active(&self) -> &Segment {
        self.segments.back().expect("there is always a segment")
    }

    /// Index of the segment that holds the log start.
    pub(super) fn holding_log_start(&self) -> usize {
        let log_start = self.chain.log_start();
        self.segments
            .partition_point(|s| s.base <= log_start)
            .saturating_sub(1)
    }

    /// Index of the first segment that is not sealed: the writer's, or one shortly before it, since they are sealed in
    /// order.
    pub(super) fn first_unsealed(&self) -> usize {
        let mut at = self
            .writer_index()
            .expect("the writer's segment is in the log");
        while at > 0 && self.segments[at - 1].file != FileState::Sealed {
            at -= 1;
        }
        at
    }

    pub(super) fn index_of(&self, base: Offset) -> Option<usize> {
        let at = self.segments.partition_point(|s| s.base < base);
        (self.segments.get(at)?.base == base).then_some(at)
    }

    pub(super) fn writer_index(&self) -> Option<usize> {
        self.index_of(self.writer.segment())
    }
}
