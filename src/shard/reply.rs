//! An answer on its way out: the encoded frame and where the records for its gaps are.
//! The connection sends it.
//! Always: as many ranges as gaps, in the same order, of the same lengths.
//! Resolving a range to memory just before it is sent is `read`'s.

use super::Hold;
use crate::base::{Offset, ShardId, TopicPartition};
use crate::wire::Frame;

/// Record batches of one segment, named by where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRange {
    pub shard: ShardId,
    pub partition: TopicPartition,
    /// Base offset of the segment.
    pub segment: Offset,
    /// First byte in its file.
    pub position: u64,
    pub bytes: usize,
}

/// A response frame; gap `i` of the frame is filled with range `i`.
pub struct Reply {
    pub frame: Frame,
    pub ranges: Vec<LogRange>,
    /// What keeps the ranges readable.
    pub holds: Vec<Hold>,
}

impl Reply {
    /// A response without gaps.
    pub fn whole(frame: Frame) -> Reply {
        Reply::new(frame, Vec::new(), Vec::new())
    }

    /// A response whose gaps are filled from `ranges`, which `holds` keep.
    pub fn new(frame: Frame, ranges: Vec<LogRange>, holds: Vec<Hold>) -> Reply {
        let wanted = frame.gaps.iter().map(|gap| gap.bytes);
        let given = ranges.iter().map(|range| range.bytes);
        assert!(
            wanted.eq(given),
            "gaps {:?} and ranges {ranges:?} differ",
            frame.gaps
        );
        Reply {
            frame,
            ranges,
            holds,
        }
    }

    /// Bytes on the wire, the size field included.
    pub fn bytes(&self) -> usize {
        self.frame.bytes.len() + self.ranges.iter().map(|range| range.bytes).sum::<usize>()
    }
}
