//! Finding offsets and timestamps: which segment, from which position on, up to where.
//! Read-only but for the reader counts and a few remembered batch boundaries.
//! Always: a `Location` never reaches past the high watermark; its position is the start of a batch at or before what
//! was asked for, so the caller scans batch headers from there.
//! Scanning, and verifying what an index said, is the caller's (`record::scan`).

use super::Log;
use super::segment::{FileState, Segment};
use crate::base::{ErrorCode, Offset, Timestamp};

/// Where to look, and up to where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// Base offset of the segment.
    pub segment: Offset,
    /// Start of a batch that is not after the one looked for.
    pub position: u64,
    /// The batch at `position` begins exactly with the offset asked for (or it is the end).
    pub exact: bool,
    /// The position is an index's word for where the batch with this last offset starts. Look whether it does: if not,
    /// `distrust_index` and look from 0 on.
    pub indexed: Option<Offset>,
    /// End of what may be read in this segment: a batch boundary.
    pub limit: u64,
}

/// The greatest timestamp of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxTimestampAt {
    pub timestamp: Timestamp,
    /// Look for the first batch from here on whose greatest timestamp is `timestamp`.
    pub location: Location,
}

/// Some batch boundaries that readers are likely to ask for next.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    entries: Vec<Boundary>,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Boundary {
    offset: Offset,
    segment: Offset,
    position: u64,
}

impl Boundaries {
    pub fn note(&mut self, offset: Offset, segment: Offset, position: u64) {
        let known = self
            .entries
            .iter()
            .any(|b| b.offset == offset && b.segment == segment);
        if known {
            return;
        }
        let boundary = Boundary {
            offset,
            segment,
            position,
        };
        if self.entries.len() < BOUNDARIES_MAX {
            self.entries.push(boundary);
        } else {
            self.entries[self.next] = boundary;
            self.next = (self.next + 1) % BOUNDARIES_MAX;
        }
    }

    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Boundary>()
    }

    fn find(&self, offset: Offset, segment: Offset) -> Option<u64> {
        self.entries
            .iter()
            .find(|b| b.offset == offset && b.segment == segment)
            .map(|b| b.position)
    }
}

impl Log {
    /// Where the batch with `offset` is, for a reader who may see up to the high watermark.
    /// At or past the high watermark (but not past the end) the location is empty: position = limit.
    /// Errors: OFFSET_OUT_OF_RANGE below the log start and past the end.
    pub fn locate(&self, offset: Offset) -> Result<Location, ErrorCode> {
        if offset < self.chain.log_start() || offset > self.chain.appended() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        if offset >= self.chain.high_watermark() {
            let segment = self.writer.segment();
            let limit = self.writer.durable_position();
            return Ok(Location {
                segment,
                position: limit,
                exact: true,
                indexed: None,
                limit,
            });
        }
        let at = self.segments.partition_point(|s| s.base <= offset) - 1;
        let segment = &self.segments[at];
        let known = if segment.base == offset {
            Some(0)
        } else {
            self.boundaries.find(offset, segment.base)
        };
        let limit = self.limit(at);
        Ok(match known {
            Some(position) => Location {
                segment: segment.base,
                position,
                exact: true,
                indexed: None,
                limit,
            },
            None => segment.indexed(segment.relative(offset), limit),
        })
    }

    /// The start of the segment after this one, if it holds anything readable.
    pub fn next_segment(&self, segment: Offset) -> Option<Location> {
        let at = self.segments.partition_point(|s| s.base <= segment);
        let limit = self.limit(at);
        let next = self.segments.get(at).filter(|_| limit > 0)?;
        Some(Location {
            segment: next.base,
            position: 0,
            exact: true,
            indexed: None,
            limit,
        })
    }

    /// Remembers that a batch with `offset` begins at `position`: a reader who got the batch before it will ask.
    pub fn note_boundary(&mut self, offset: Offset, segment: Offset, position: u64) {
        self.boundaries.note(offset, segment, position);
    }

    /// Where to look for the first record with a timestamp of at least `timestamp`, in segments from the one that
    /// holds `from` on. If the scan finds none in that segment, go on from the offset where it ended.
    pub fn lookup_timestamp(&self, timestamp: Timestamp, from: Offset) -> Option<Location> {
        let from = from.max(self.chain.log_start());
        // The end of a full segment is one past what a relative offset can say.
        if from >= self.chain.high_watermark() {
            return None;
        }
        let first = self
            .segments
            .partition_point(|s| s.base <= from)
            .checked_sub(1)?;
        let at = (first..self.segments.len())
            .find(|&i| self.segments[i].max.timestamp >= timestamp && self.limit(i) > 0)?;
        let segment = &self.segments[at];
        let before = segment
            .time_index
            .lookup(timestamp.0)
            .map_or(0, |entry| entry.relative);
        let start = if from > segment.base {
            segment.relative(from)
        } else {
            0
        };
        Some(segment.indexed(before.max(start), self.limit(at)))
    }

    /// Where the record with the greatest timestamp is (ListOffsets -3); `None` if no record has a timestamp.
    pub fn max_timestamp(&self) -> Option<MaxTimestampAt> {
        let first = self.holding_log_start();
        let (at, max) = self
            .segments
            .iter()
            .enumerate()
            .skip(first)
            .map(|(at, s)| (at, s.max))
            // The earliest of equals, as Kafka takes it.
            .reduce(|a, b| if b.1.timestamp > a.1.timestamp { b } else { a })?;
        if max.timestamp.0 < 0 || self.limit(at) == 0 {
            return None;
        }
        let segment = &self.segments[at];
        Some(MaxTimestampAt {
            timestamp: max.timestamp,
            location: segment.indexed(segment.relative(max.offset), self.limit(at)),
        })
    }

    /// A read of the segment's file begins; false if the file is gone or about to go. Until `end_read` it stays.
    pub fn begin_read(&mut self, segment: Offset) -> bool {
        match self.index_of(segment) {
            Some(at) if self.segments[at].file != FileState::Absent => {
                self.segments[at].readers += 1;
                true
            }
            Some(_) => false,
            None => match self.readable_dropped(segment) {
                Some(dropped) => {
                    dropped.readers += 1;
                    true
                }
                None => false,
            },
        }
    }

    /// A read that `begin_read` allowed has ended. Poll again: the file may go now.
    pub fn end_read(&mut self, segment: Offset) {
        match self.index_of(segment) {
            Some(at) => {
                let readers = &mut self.segments[at].readers;
                *readers = readers
                    .checked_sub(1)
                    .unwrap_or_else(|| panic!("end of a read of {segment} that never began"));
            }
            None => self.end_read_dropped(segment),
        }
    }

    /// An answer will be sent from the segment: until `release` it can be read, also when it leaves the log, for a minute then
    /// and unless its space is needed. False: it is gone.
    pub fn hold(&mut self, segment: Offset) -> bool {
        let holds = match self.index_of(segment) {
            Some(at) => Some(&mut self.segments[at].holds),
            None => self.readable_dropped(segment).map(|d| &mut d.holds),
        };
        match holds {
            Some(holds) => {
                *holds += 1;
                true
            }
            None => false,
        }
    }

    /// An answer that `hold` allowed was sent, or never will be. True: poll again, the file may go now.
    pub fn release(&mut self, segment: Offset) -> bool {
        match self.index_of(segment) {
            Some(at) => {
                let holds = &mut self.segments[at].holds;
                *holds = holds
                    .checked_sub(1)
                    .unwrap_or_else(|| panic!("release of {segment}, which is not held"));
                false
            }
            None => self.release_dropped(segment),
        }
    }

    /// An index entry of this segment named a place where no such batch starts: forget its indexes (a reader then
    /// scans from the segment's start).
    pub fn distrust_index(&mut self, segment: Offset) {
        if let Some(at) = self.index_of(segment) {
            self.segments[at].offset_index.truncate_at(0);
        }
    }

    /// End of what may be read of a segment; `None` if it is gone, or about to go.
    pub fn readable_end(&self, segment: Offset) -> Option<u64> {
        match self.index_of(segment) {
            Some(at) => Some(self.limit(at)),
            None => self.dropped_length(segment),
        }
    }

    /// End of what may be read in the segment at this index.
    fn limit(&self, at: usize) -> u64 {
        let Some(segment) = self.segments.get(at) else {
            return 0;
        };
        match segment.base.cmp(&self.writer.segment()) {
            std::cmp::Ordering::Less => segment.size,
            std::cmp::Ordering::Equal => self.writer.durable_position(),
            std::cmp::Ordering::Greater => 0,
        }
    }
}

impl Segment {
    /// Where the index says to look for the batch that holds the record at `relative`.
    fn indexed(&self, relative: u32, limit: u64) -> Location {
        let entry = self
            .offset_index
            .lookup(relative)
            .filter(|entry| u64::from(entry.position) < limit);
        Location {
            segment: self.base,
            position: entry.map_or(0, |entry| u64::from(entry.position)),
            exact: false,
            indexed: entry.map(|entry| self.base.plus(i64::from(entry.relative))),
            limit,
        }
    }
}

const BOUNDARIES_MAX: usize = 16;
