//! An answer on its way out: the encoded frame and where the records for its gaps are.
//! Plain values that may cross shards; the connection sends them.
//! Always: as many ranges as gaps, in the same order, of the same lengths.
//! Resolving a range to memory just before it is sent is `read`'s.

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
#[derive(Debug)]
pub struct Reply {
    pub frame: Frame,
    pub ranges: Vec<LogRange>,
}

impl Reply {
    /// A response whose gaps are filled from `ranges`.
    pub fn new(frame: Frame, ranges: Vec<LogRange>) -> Reply {
        let wanted = frame.gaps.iter().map(|gap| gap.bytes);
        let given = ranges.iter().map(|range| range.bytes);
        assert!(
            wanted.eq(given),
            "gaps {:?} and ranges {ranges:?} differ",
            frame.gaps
        );
        Reply { frame, ranges }
    }

    /// Bytes on the wire, the size field included.
    pub fn bytes(&self) -> usize {
        self.frame.bytes.len() + self.ranges.iter().map(|range| range.bytes).sum::<usize>()
    }
}
