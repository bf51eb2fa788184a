//! Questions about offsets: ListOffsets, OffsetForLeaderEpoch, DeleteRecords.
//! Answers come at once, but for a timestamp (the shard scans where it is told) and a deletion (waits for the checkpoint).
//! Always: an offset at or above the high watermark is never told as that of a record.
//! Which special timestamps a request version may use is the handler's.

use super::Partition;
use crate::base::{ErrorCode, LeaderEpoch, Offset, Timestamp};
use crate::log::Location;

/// Answer to one partition of ListOffsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListOffsets {
    /// This offset; timestamp is -1.
    Offset { offset: Offset, epoch: LeaderEpoch },
    /// The first record from `from` on with a timestamp of at least `timestamp` and an offset below `below`: scan
    /// from `location` on (`record::scan::find_timestamp`), at the limit go on with `lookup_timestamp`.
    Search {
        location: Location,
        timestamp: Timestamp,
        from: Offset,
        below: Offset,
    },
    /// No such record: offset -1, timestamp -1, no error.
    NotFound,
}

/// Answer to DeleteRecords.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deleted {
    /// The log start, already durable.
    Done(Offset),
    /// The log start, which stays only after the next checkpoint: answer after `on_checkpoint` told it.
    AfterCheckpoint(Offset),
}

impl Partition {
    /// Answers a ListOffsets for `timestamp`: -1 latest, -2 earliest, -3 greatest timestamp, -4 earliest local, -5
    /// latest tiered, else the first record not older. Errors: epochs as for fetch, KAFKA_STORAGE_ERROR.
    pub fn list_offsets(
        &self,
        timestamp: i64,
        current_leader_epoch: LeaderEpoch,
    ) -> Result<ListOffsets, ErrorCode> {
        self.check_readable()?;
        self.check_leader_epoch(current_leader_epoch)?;
        let chain = self.log.chain();
        let epochs = self.log.epochs();
        Ok(match timestamp {
            LATEST => ListOffsets::Offset {
                offset: chain.high_watermark(),
                epoch: self.leader_epoch,
            },
            EARLIEST | EARLIEST_LOCAL => ListOffsets::Offset {
                offset: chain.log_start(),
                epoch: epochs.at(chain.log_start()).unwrap_or(LeaderEpoch::NONE),
            },
            MAX_TIMESTAMP => match self.log.max_timestamp() {
                Some(max) => ListOffsets::Search {
                    location: max.location,
                    timestamp: max.timestamp,
                    from: chain.log_start(),
                    below: chain.high_watermark(),
                },
                None => ListOffsets::NotFound,
            },
            ..0 => ListOffsets::NotFound,
            0.. => self.lookup_timestamp(Timestamp(timestamp), chain.log_start()),
        })
    }

    /// Goes on with a timestamp search at `from`, where the scan of a segment ended without a record.
    pub fn lookup_timestamp(&self, timestamp: Timestamp, from: Offset) -> ListOffsets {
        let below = self.log.chain().high_watermark();
        match self.log.lookup_timestamp(timestamp, from) {
            Some(location) if from < below => ListOffsets::Search {
                location,
                timestamp,
                from,
                below,
            },
            _ => ListOffsets::NotFound,
        }
    }

    /// The epoch that holds at a record, for the answer.
    pub fn epoch_at(&self, offset: Offset) -> LeaderEpoch {
        self.log.epochs().at(offset).unwrap_or(LeaderEpoch::NONE)
    }

    /// OffsetForLeaderEpoch: the greatest epoch at or below `epoch` and where it ends; (NONE, NONE) if unknown.
    pub fn offset_for_leader_epoch(
        &self,
        current_leader_epoch: LeaderEpoch,
        epoch: LeaderEpoch,
    ) -> Result<(LeaderEpoch, Offset), ErrorCode> {
        self.check_readable()?;
        self.check_leader_epoch(current_leader_epoch)?;
        let end = self.log.chain().high_watermark();
        Ok(self.log.epochs().end_offset_for(epoch, end))
    }

    /// DeleteRecords before `offset` (-1: the high watermark). Errors: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
    pub fn delete_records(&mut self, offset: Offset) -> Result<Deleted, ErrorCode> {
        self.check_readable()?;
        let log_start = self.log.delete_records_before(offset)?;
        if log_start <= self.log.checkpointed_log_start() {
            return Ok(Deleted::Done(log_start));
        }
        Ok(Deleted::AfterCheckpoint(log_start))
    }
}

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
