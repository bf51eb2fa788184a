//! What a partition remembers of one producer: its epoch and its last five batches (`ProducerStateEntry`).
//! Owned by `ProducerStates`.
//! Always: the batches are of the current epoch, oldest first.
//! Whether a batch may follow is decided in `states`.

use crate::base::{Offset, ProducerEpoch, ProducerId, Timestamp};
use crate::record::{BatchHeader, NO_SEQUENCE, sequence_minus};

/// `ProducerStateEntry.NUM_BATCHES_TO_RETAIN`: as many as a client has in flight.
pub(super) const BATCHES_KEPT: usize = 5;

/// One appended batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BatchMeta {
    pub last_sequence: i32,
    /// Last offset less first offset, and so for the sequence.
    pub offset_delta: i32,
    pub last_offset: Offset,
    /// The largest of the batch.
    pub timestamp: Timestamp,
}

impl BatchMeta {
    pub fn first_sequence(&self) -> i32 {
        sequence_minus(self.last_sequence, self.offset_delta)
    }

    pub fn first_offset(&self) -> Offset {
        self.last_offset.plus(-i64::from(self.offset_delta))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
    /// Of the transaction coordinator whose marker came last, -1 before any.
    pub coordinator_epoch: i32,
    /// Largest timestamp of the last batch; goes into the snapshot.
    pub last_timestamp: Timestamp,
    /// When we heard of it, by our clock; decides when it expires.
    pub last_seen: Timestamp,
    /// First offset of the open transaction.
    pub transaction_start: Option<Offset>,
    kept: [BatchMeta; BATCHES_KEPT],
    kept_len: u8,
}

impl Entry {
    pub fn new(id: ProducerId) -> Entry {
        Entry {
            id,
            epoch: ProducerEpoch::NONE,
            coordinator_epoch: -1,
            last_timestamp: Timestamp::NONE,
            last_seen: Timestamp::NONE,
            transaction_start: None,
            kept: [BatchMeta::default(); BATCHES_KEPT],
            kept_len: 0,
        }
    }

    /// The batches remembered, oldest first.
    pub fn batches(&self) -> &[BatchMeta] {
        &self.kept[..self.kept_len.into()]
    }

    pub fn last_sequence(&self) -> i32 {
        self.batches()
            .last()
            .map_or(NO_SEQUENCE, |b| b.last_sequence)
    }

    /// The remembered batch with exactly the sequences of this one.
    pub fn duplicate_of(&self, header: &BatchHeader) -> Option<&BatchMeta> {
        let (first, last) = (header.base_sequence, header.last_sequence());
        self.batches().iter().find(|batch| {
            header.producer_epoch == self.epoch
                && batch.first_sequence() == first
                && batch.last_sequence == last
        })
    }

    /// Remembers a batch, forgetting the oldest, and all of an older epoch.
    pub fn add(&mut self, epoch: ProducerEpoch, batch: BatchMeta) {
        self.set_epoch(epoch);
        let len = usize::from(self.kept_len);
        if len == BATCHES_KEPT {
            self.kept.rotate_left(1);
            self.kept[BATCHES_KEPT - 1] = batch;
        } else {
            self.kept[len] = batch;
            self.kept_len += 1;
        }
        self.last_timestamp = batch.timestamp;
    }

    /// A new epoch starts without batches.
    pub fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.kept_len = 0;
        }
    }
}
