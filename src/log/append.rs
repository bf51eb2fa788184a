//! Growing a log: where the next batch goes, and taking it in.
//! `next_position` may be asked at any time; `append` follows it with nothing in between and cannot fail.
//! Always: a batch lies wholly in one segment, at most `segment.bytes` long unless it is alone there.
//! Whether a batch may be appended is `partition`'s; the bytes are the caller's.

use super::Log;
use super::segment::Segment;
use crate::base::{LeaderEpoch, Now, Offset, Timestamp};

/// What the log must know of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchFacts {
    /// Bytes, header included.
    pub size: u32,
    /// Offset of the last record less the first's; not negative.
    pub last_offset_delta: i32,
    pub max_timestamp: Timestamp,
}

/// Where the next batch goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Base offset of the segment.
    pub segment: Offset,
    /// First byte in its file.
    pub position: u64,
    /// The segment is a new one.
    pub roll: bool,
}

/// Where a batch went, and what is to be stamped into its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    pub place: Place,
    pub base_offset: Offset,
    /// `Offset` after the last record: durable once the log's durable offset is here.
    pub end: Offset,
    pub leader_epoch: LeaderEpoch,
}

/// A batch that is not durable yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub segment: Offset,
    pub end_position: u64,
    pub end: Offset,
    pub max_timestamp: Timestamp,
}

impl Log {
    /// Where `append` of such a batch would put it now.
    pub fn next_position(&self, facts: &BatchFacts, now: Now) -> Place {
        let active = self.active();
        let base = self.chain.appended();
        if active.must_roll(&self.config, base, facts, now) {
            Place {
                segment: base,
                position: 0,
                roll: true,
            }
        } else {
            Place {
                segment: active.base,
                position: active.size,
                roll: false,
            }
        }
    }

    /// Takes in a batch. The caller has checked it, and that the log is not offline.
    pub fn append(&mut self, facts: &BatchFacts, now: Now) -> Appended {
        assert!(
            self.offline.is_none() && facts.last_offset_delta >= 0 && facts.size > 0,
            "append of {facts:?} to a log that is offline: {:?}",
            self.offline
        );
        let place = self.next_position(facts, now);
        if place.roll {
            self.roll(now);
        }
        let base_offset = self.chain.appended();
        let end = base_offset.plus(i64::from(facts.last_offset_delta) + 1);
        let config = self.config;
        let active = self.segments.back_mut().expect("there is always a segment");
        active.append(&config, base_offset, facts);
        self.pending.push_back(Pending {
            segment: active.base,
            end_position: active.size,
            end,
            max_timestamp: facts.max_timestamp,
        });
        self.chain.append_to(end);
        Appended {
            place,
            base_offset,
            end,
            leader_epoch: self
                .epochs
                .latest()
                .map_or(LeaderEpoch::NONE, |entry| entry.epoch),
        }
    }

    /// Starts a new segment; an empty one stays. Returns whether there is a new one.
    pub fn roll(&mut self, now: Now) -> bool {
        if self.active().size == 0 {
            return false;
        }
        let base = self.chain.appended();
        let mut segment = Segment::new(base, now);
        segment.rolled_to = true;
        self.segments.push_back(segment);
        self.last_roll = Some(now.mono);
        true
    }
}
