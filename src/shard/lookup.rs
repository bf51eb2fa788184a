//! Offsets by timestamp and by leader epoch, DeleteRecords, sizes: what a partition is asked besides records (G28, G29).
//! On the partition's shard.
//! Always: an offset at or past the high watermark is never found.
//! The requests are the handlers'.

use std::rc::Rc;

use super::{PartitionCell, Shard};
use crate::base::{ErrorCode, LeaderEpoch, Offset, PartitionIndex, Timestamp, TopicPartition};
use crate::io::{executor, file};
use crate::log::Location;
use crate::partition::{Deleted, ListOffsets};
use crate::record::{BatchHeader, HEADER_BYTES, Records};

/// What ListOffsets asks of a partition.
#[derive(Clone, Copy, Debug)]
pub struct OffsetAsk {
    /// Or one of the special ones, below 0.
    pub timestamp: Timestamp,
    pub current_leader_epoch: LeaderEpoch,
}

/// What is found; offset -1 if nothing is.
#[derive(Clone, Copy, Debug)]
pub struct ListedOffset {
    pub offset: Offset,
    pub timestamp: Timestamp,
    pub leader_epoch: LeaderEpoch,
}

impl ListedOffset {
    const NOTHING: ListedOffset = ListedOffset {
        offset: Offset::NONE,
        timestamp: Timestamp::NONE,
        leader_epoch: LeaderEpoch::NONE,
    };
}

/// Bytes of a partition's log.
#[derive(Clone, Debug)]
pub struct LogDir {
    pub topic: String,
    pub partition: PartitionIndex,
    pub bytes: u64,
}

impl Shard {
    /// ListOffsets of one partition.
    pub async fn list_offset(
        self: &Rc<Self>,
        partition: TopicPartition,
        ask: OffsetAsk,
    ) -> Result<ListedOffset, ErrorCode> {
        let cell = self
            .cell(partition)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let answer = cell
            .partition
            .borrow()
            .list_offsets(ask.timestamp.0, ask.current_leader_epoch)?;
        match answer {
            ListOffsets::Offset { offset, epoch } => Ok(ListedOffset {
                offset,
                timestamp: Timestamp::NONE,
                leader_epoch: epoch,
            }),
            ListOffsets::NotFound => Ok(ListedOffset::NOTHING),
            search @ ListOffsets::Search { .. } => self.search(&cell, search).await,
        }
    }

    /// Scans for the first record that a search wants, segment after segment.
    async fn search(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        mut search: ListOffsets,
    ) -> Result<ListedOffset, ErrorCode> {
        loop {
            let ListOffsets::Search {
                location,
                timestamp,
                mut from,
                below,
            } = search
            else {
                return Ok(ListedOffset::NOTHING);
            };
            let mut position = self.first_position(cell, &location).await?;
            while position < location.limit {
                let header = self.header_at(cell, &location, position).await?;
                if header.max_timestamp >= timestamp && header.last_offset() >= from {
                    let wanted = |(offset, at): (Offset, Timestamp)| {
                        at >= timestamp && offset >= from && offset < below
                    };
                    let found = self
                        .record_in(cell, &location, position, &header, wanted)
                        .await?;
                    if let Some((offset, timestamp)) = found {
                        return Ok(ListedOffset {
                            offset,
                            timestamp,
                            leader_epoch: header.leader_epoch,
                        });
                    }
                }
                position += header.size_in_bytes() as u64;
                from = from.max(header.next_offset());
                executor::yield_if_needed().await;
            }
            search = cell.partition.borrow().lookup_timestamp(timestamp, from);
        }
    }

    /// Offset and timestamp of the first record of a batch that is wanted.
    async fn record_in(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        location: &Location,
        position: u64,
        header: &BatchHeader,
        wanted: impl Fn((Offset, Timestamp)) -> bool,
    ) -> Result<Option<(Offset, Timestamp)>, ErrorCode> {
        let bytes = self
            .bytes_at(cell, location.segment, position, header.size_in_bytes())
            .await?;
        let mut scratch = Vec::new();
        let records = Records::new(header, &bytes.bytes()[HEADER_BYTES..], &mut scratch)
            .map_err(|_| ErrorCode::CorruptMessage)?;
        for record in records {
            let record = record.map_err(|_| ErrorCode::CorruptMessage)?;
            if wanted((record.offset, record.timestamp)) {
                return Ok(Some((record.offset, record.timestamp)));
            }
        }
        Ok(None)
    }

    /// OffsetForLeaderEpoch of one partition: the largest epoch up to `wanted`, and its end.
    pub fn offset_for_leader_epoch(
        &self,
        partition: TopicPartition,
        current: LeaderEpoch,
        wanted: LeaderEpoch,
    ) -> Result<(LeaderEpoch, Offset), ErrorCode> {
        let cell = self
            .cell(partition)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
        cell.partition
            .borrow()
            .offset_for_leader_epoch(current, wanted)
    }

    /// DeleteRecords of one partition; the new log start, once it is certain to stay.
    pub async fn delete_records(
        self: &Rc<Self>,
        partition: TopicPartition,
        before: Offset,
    ) -> Result<Offset, ErrorCode> {
        let cell = self
            .cell(partition)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let deleted = cell.partition.borrow_mut().delete_records(before)?;
        match deleted {
            Deleted::Done(start) => Ok(start),
            Deleted::AfterCheckpoint(start) => {
                cell.moved.notify();
                self.schedule(&cell);
                self.checkpoint_now()
                    .await
                    .map_err(|_| ErrorCode::KafkaStorageError)?;
                Ok(start)
            }
        }
    }

    /// Sizes of this shard's partitions.
    pub fn log_dir_sizes(&self) -> Vec<LogDir> {
        let cells = self.all_cells();
        let known = cells.iter().filter(|cell| !cell.is_metadata());
        known
            .map(|cell| LogDir {
                topic: cell.topic.to_string(),
                partition: cell.id.partition,
                bytes: cell.partition.borrow().log().size_bytes(),
            })
            .collect()
    }

    /// Bytes of the data directory's file system, all and free; -1 if the system does not say.
    pub async fn disk_space(&self) -> (i64, i64) {
        match file::space(&self.settings.data).await {
            Ok((total, free)) => (total as i64, free as i64),
            Err(error) => {
                tracing::warn!("{error}");
                (-1, -1)
            }
        }
    }
}
