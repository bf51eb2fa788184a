//! Reads a Produce request while it arrives: everything but the record batches, blob by blob.
//! Owned by the connection that receives the frame, for as long as that takes.
//! Always: yields what the decoder of `ProduceRequest` would yield from the whole frame, and refuses what it would refuse.
//! Where the blobs are received to is the connection's.

use bytes::Bytes;

use super::error::{DecodeError, DecodeReason};
use super::field::{Field, Form};
use super::message::Message;
use super::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use super::reader::length_or_null;
use super::text::{STRING_BYTES_MAX, Str};
use crate::base::{Uuid, limits};

/// What stands before the topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProduceHead {
    pub transactional_id: Option<Str>,
    pub acks: i16,
    pub timeout_ms: i32,
}

/// The records of one partition come next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordsHead {
    /// Counts the topics of the request from 0: partitions of one topic share it.
    pub topic_index: usize,
    /// Empty from v13 on.
    pub topic: Str,
    /// Zero before v13.
    pub topic_id: Uuid,
    pub partition: i32,
    /// Bytes of the records, which follow at once; `None` is null.
    pub bytes: Option<usize>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The caller takes the records out of the stream, then goes on with the bytes after them.
    Records(RecordsHead),
    /// Give it again what was not used, with more behind it. Never needs more than [`PIECE_BYTES_MAX`].
    NeedMore,
    /// The request is complete.
    End,
    /// No Produce request.
    Malformed(DecodeError),
}

/// The most bytes that have to be there together for the next step.
pub const PIECE_BYTES_MAX: usize = STRING_BYTES_MAX + 64;

/// The state of a Produce request that is arriving. Begins behind the request header.
#[derive(Clone, Debug)]
pub struct ProduceStream {
    form: Form,
    /// Bytes of the body that were not used yet, arrived or not.
    left: usize,
    elements_left: usize,
    topics_left: usize,
    partitions_left: usize,
    state: State,
    head: Option<ProduceHead>,
    topic_index: usize,
    topic: Str,
    topic_id: Uuid,
}

/// What is read next. Head -> Topic -> Partition -> tags of the partition -> the next Partition, or tags of the topic -> the
/// next Topic, or tags of the request -> End. Without topics or partitions the tags follow at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Head,
    Topic,
    Partition,
    TagCount(Level),
    Tag {
        level: Level,
        left: u32,
        next: u64,
    },
    TagValue {
        level: Level,
        left: u32,
        next: u64,
        bytes: usize,
    },
    End,
}

/// Whose end it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    Request,
    Topic,
    Partition,
}

impl ProduceStream {
    /// A request of this version whose body (what follows the request header) is `body_bytes` long in all; `None` if there is
    /// no such version.
    pub fn new(version: i16, body_bytes: usize) -> Option<ProduceStream> {
        Some(ProduceStream {
            form: ProduceRequest::form(version)?,
            left: body_bytes,
            elements_left: limits::REQUEST_ELEMENTS_MAX,
            topics_left: 0,
            partitions_left: 0,
            state: State::Head,
            head: None,
            topic_index: 0,
            topic: Str::default(),
            topic_id: Uuid::ZERO,
        })
    }

    /// What stands before the topics; known from the first `Records` on.
    pub fn head(&self) -> Option<&ProduceHead> {
        self.head.as_ref()
    }

    /// Bytes of the body that were not used yet, records that were announced not counted.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Goes on with `bytes`, which begin where the bytes used before ended (behind the records, if some were announced).
    /// Returns how many of them it used, and what comes next. May be given bytes beyond the end of the request.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, Event) {
        let mut used = 0;
        loop {
            if self.state == State::End {
                return (used, self.end());
            }
            let mut piece = Piece {
                bytes: &bytes[used..],
                at: 0,
                left: self.left,
            };
            let step = self.step(&mut piece);
            match step {
                Ok(records) => {
                    used += piece.at;
                    self.left = piece.left - records.as_ref().map_or(0, |r| r.bytes.unwrap_or(0));
                    if let Some(records) = records {
                        return (used, Event::Records(records));
                    }
                }
                Err(Stop::NeedMore) => return (used, Event::NeedMore),
                Err(Stop::Malformed(error)) => return (used, Event::Malformed(error)),
            }
        }
    }

    fn end(&self) -> Event {
        match self.left {
            0 => Event::End,
            count => Event::Malformed(DecodeError {
                field: ProduceRequest::SCHEMA.name,
                reason: DecodeReason::TrailingBytes { count },
            }),
        }
    }

    /// Reads one piece whole, or changes nothing.
    fn step(&mut self, piece: &mut Piece) -> Result<Option<RecordsHead>, Stop> {
        match self.state {
            State::Head => self.read_head(piece)?,
            State::Topic => self.read_topic(piece)?,
            State::Partition => return self.read_partition(piece).map(Some),
            State::TagCount(level) => {
                let left = piece.uvarint()?;
                self.state = State::Tag {
                    level,
                    left,
                    next: 0,
                };
            }
            State::Tag { level, left: 0, .. } => self.state = self.after(level),
            State::Tag { level, left, next } => {
                let tag = piece.uvarint()?;
                if u64::from(tag) < next {
                    return Err(malformed(DecodeReason::TagOrder { tag }));
                }
                let bytes = piece.uvarint()? as usize;
                piece.check_frame(bytes as u64)?;
                self.state = State::TagValue {
                    level,
                    left: left - 1,
                    next: u64::from(tag) + 1,
                    bytes,
                };
            }
            State::TagValue {
                level,
                left,
                next,
                bytes,
            } => {
                // No tag of Produce is known; values are skipped as they come, however large.
                let here = bytes.min(piece.bytes.len());
                if here < bytes && here == 0 {
                    return Err(Stop::NeedMore);
                }
                piece.advance(here);
                self.state = match bytes - here {
                    0 => State::Tag { level, left, next },
                    bytes => State::TagValue {
                        level,
                        left,
                        next,
                        bytes,
                    },
                };
            }
            State::End => unreachable!("the end has no next step"),
        }
        Ok(None)
    }

    fn read_head(&mut self, piece: &mut Piece) -> Result<(), Stop> {
        let transactional_id = piece.string(self.form.flexible)?.map(text).transpose()?;
        let acks = i16::from_be_bytes(piece.take()?);
        let timeout_ms = i32::from_be_bytes(piece.take()?);
        let element_bytes_min = TopicProduceData::bytes_min(self.form);
        self.topics_left = self.array_count(piece, element_bytes_min)?;
        self.head = Some(ProduceHead {
            transactional_id,
            acks,
            timeout_ms,
        });
        self.state = match self.topics_left {
            0 => self.end_of(Level::Request),
            _ => State::Topic,
        };
        Ok(())
    }

    fn read_topic(&mut self, piece: &mut Piece) -> Result<(), Stop> {
        if self.form.version >= TOPIC_ID_VERSION {
            self.topic_id = Uuid(piece.take()?);
        } else {
            let Some(name) = piece.string(self.form.flexible)? else {
                return Err(malformed(DecodeReason::Null));
            };
            self.topic = text(name)?;
        }
        let element_bytes_min = PartitionProduceData::bytes_min(self.form);
        self.partitions_left = self.array_count(piece, element_bytes_min)?;
        self.topics_left -= 1;
        self.state = match self.partitions_left {
            0 => self.end_of(Level::Topic),
            _ => State::Partition,
        };
        Ok(())
    }

    fn read_partition(&mut self, piece: &mut Piece) -> Result<RecordsHead, Stop> {
        let partition = i32::from_be_bytes(piece.take()?);
        let bytes = piece.bytes_length(self.form.flexible)?;
        piece.check_frame(bytes.unwrap_or(0) as u64)?;
        let records = RecordsHead {
            topic_index: self.topic_index,
            topic: self.topic.clone(),
            topic_id: self.topic_id,
            partition,
            bytes,
        };
        self.partitions_left -= 1;
        self.state = self.end_of(Level::Partition);
        Ok(records)
    }

    /// The fields of a structure are read: its tags follow, if it has any.
    fn end_of(&mut self, level: Level) -> State {
        if self.form.flexible {
            State::TagCount(level)
        } else {
            self.after(level)
        }
    }

    /// A structure is read whole.
    fn after(&mut self, level: Level) -> State {
        match level {
            Level::Partition if self.partitions_left > 0 => State::Partition,
            Level::Partition => self.end_of(Level::Topic),
            Level::Topic => {
                self.topic_index += 1;
                if self.topics_left > 0 {
                    State::Topic
                } else {
                    self.end_of(Level::Request)
                }
            }
            Level::Request => State::End,
        }
    }

    /// As `Reader::array_count`, for an array that may not be null.
    fn array_count(&mut self, piece: &mut Piece, element_bytes_min: usize) -> Result<usize, Stop> {
        let Some(count) = piece.bytes_length(self.form.flexible)? else {
            return Err(malformed(DecodeReason::Null));
        };
        piece.check_frame((count as u64).saturating_mul(element_bytes_min as u64))?;
        match self.elements_left.checked_sub(count) {
            Some(left) => {
                self.elements_left = left;
                Ok(count)
            }
            None => Err(malformed(DecodeReason::TooManyElements {
                count: count as u64,
                left: self.elements_left,
            })),
        }
    }
}

/// A string with memory of its own: the bytes are not kept.
fn text(bytes: &[u8]) -> Result<Str, Stop> {
    Str::read(Bytes::copy_from_slice(bytes))
        .map_err(|length| malformed(DecodeReason::StringTooLong { length }))
}

/// The first version that names topics by id.
const TOPIC_ID_VERSION: i16 = 13;

enum Stop {
    NeedMore,
    Malformed(DecodeError),
}

fn malformed(reason: DecodeReason) -> Stop {
    Stop::Malformed(DecodeError {
        field: ProduceRequest::SCHEMA.name,
        reason,
    })
}

/// The bytes that are there, and how many more the frame will have.
struct Piece<'a> {
    bytes: &'a [u8],
    /// Bytes used.
    at: usize,
    /// Bytes of the frame from `at` on, arrived or not.
    left: usize,
}

impl<'a> Piece<'a> {
    /// Refuses what the frame has no room for.
    fn check_frame(&self, needed: u64) -> Result<(), Stop> {
        if needed > self.left as u64 {
            return Err(malformed(DecodeReason::Truncated {
                needed,
                left: self.left,
            }));
        }
        Ok(())
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        self.check_frame(length as u64)?;
        match self.bytes.get(self.at..self.at + length) {
            Some(slice) => {
                self.advance(length);
                Ok(slice)
            }
            None => Err(Stop::NeedMore),
        }
    }

    fn advance(&mut self, length: usize) {
        self.at += length;
        self.left -= length;
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.slice(N)?);
        Ok(bytes)
    }

    fn uvarint(&mut self) -> Result<u32, Stop> {
        let mut value: u64 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| malformed(DecodeReason::Varint));
            }
        }
        Err(malformed(DecodeReason::Varint))
    }

    fn bytes_length(&mut self, flexible: bool) -> Result<Option<usize>, Stop> {
        if flexible {
            return Ok((self.uvarint()? as usize).checked_sub(1));
        }
        let length = i32::from_be_bytes(self.take()?);
        self.checked_length(length)
    }

    fn checked_length(&self, length: i32) -> Result<Option<usize>, Stop> {
        length_or_null(length).map_err(|error| malformed(error.reason))
    }

    fn string(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, Stop> {
        let length = if flexible {
            (self.uvarint()? as usize).checked_sub(1)
        } else {
            let length = i16::from_be_bytes(self.take()?);
            self.checked_length(i32::from(length))?
        };
        match length {
            None => Ok(None),
            Some(length) if length > STRING_BYTES_MAX => {
                Err(malformed(DecodeReason::StringTooLong { length }))
            }
            Some(length) => Ok(Some(self.slice(length)?)),
        }
    }
}
