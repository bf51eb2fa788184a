//! Fetch: what a reader may see from an offset on.
//! A plan holds positions only; the shard finds batch boundaries and bytes.
//! Always: nothing above the high watermark is planned; an answer always carries the offsets of the partition.
//! Size rules of the whole request, and waiting for more, are the shard's.

use super::Partition;
use crate::base::{ErrorCode, LeaderEpoch, Offset};
use crate::log::Location;

/// One partition of a Fetch request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchAsk {
    pub offset: Offset,
    /// `current_leader_epoch`, NONE if the client doesn't say.
    pub current_leader_epoch: LeaderEpoch,
    /// `last_fetched_epoch`, NONE if the client doesn't say.
    pub last_fetched_epoch: LeaderEpoch,
}

/// Where the client's log parts from ours (KIP-595).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Diverging {
    pub epoch: LeaderEpoch,
    pub end_offset: Offset,
}

/// What may be read. Without transactions a read_committed reader sees the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchPlan {
    /// Empty (position = limit) if there is nothing to read now.
    pub location: Location,
    pub high_watermark: Offset,
    pub last_stable: Offset,
    pub log_start: Offset,
    /// Answer with this and no records.
    pub diverging: Option<Diverging>,
}

impl Partition {
    /// Plans a read. Errors: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
    pub fn fetch(&self, ask: &FetchAsk) -> Result<FetchPlan, ErrorCode> {
        self.check_readable()?;
        self.check_leader_epoch(ask.current_leader_epoch)?;
        let chain = self.log.chain();
        let mut plan = FetchPlan {
            location: self.log.locate(chain.high_watermark())?,
            high_watermark: chain.high_watermark(),
            last_stable: chain.last_stable(),
            log_start: chain.log_start(),
            diverging: self.diverging(ask)?,
        };
        if plan.diverging.is_none() {
            plan.location = self.log.locate(ask.offset)?;
        }
        Ok(plan)
    }

    /// As `Partition.readRecords` in Kafka: the client's last epoch must be ours, and must not end before its offset.
    fn diverging(&self, ask: &FetchAsk) -> Result<Option<Diverging>, ErrorCode> {
        if ask.last_fetched_epoch == LeaderEpoch::NONE {
            return Ok(None);
        }
        let (epoch, end_offset) = self
            .log
            .epochs()
            .end_offset_for(ask.last_fetched_epoch, self.log.chain().high_watermark());
        if epoch == LeaderEpoch::NONE {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let parts = epoch < ask.last_fetched_epoch || end_offset < ask.offset;
        Ok(parts.then_some(Diverging { epoch, end_offset }))
    }
}
