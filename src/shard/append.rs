//! A record batch comes in: checked, placed at the end of its partition, stamped, and on its way to the disk.
//! On the partition's shard; appends to one partition take turns.
//! Always: all that can refuse a batch comes before the log takes it in; what follows cannot fail; the answer waits for the disk
//! unless the topic or acks=0 says otherwise.
//! What makes a batch good is `record::check`'s, its sequence and offset `partition`'s.

use std::rc::Rc;

use bytes::Bytes;

use super::cell::SegmentCell;
use super::in_place::InPlace;
use super::{PartitionCell, Shard};
use crate::base::limits::BLOCK_BYTES;
use crate::base::{ErrorCode, Now, Offset, Timestamp};
use crate::io::clock;
use crate::io::image::{FileImage, NoRoom};
use crate::io::sync::{Receiver, oneshot};
use crate::metadata::config::{TimestampType, TopicCompression, TopicConfig};
use crate::partition::ProduceCheck;
use crate::record::{
    self, BatchCrc, BatchError, BatchFacts, BatchHeader, Compression, HEADER_BYTES, Levels, Origin,
    Rules,
};

/// The records field of a request.
pub enum BatchBytes {
    /// In a frame.
    Frame(Bytes),
    /// Already where it will stay.
    InPlace(InPlace),
}

/// How a batch is appended.
#[derive(Clone, Copy, Debug)]
pub struct AppendRequest {
    pub acks: i16,
    /// Produce 7 and above.
    pub zstd_allowed: bool,
}

impl AppendRequest {
    /// A batch of our own: a coordinator's or the controller's.
    pub const INTERNAL: AppendRequest = AppendRequest {
        acks: INTERNAL_ACKS,
        zstd_allowed: true,
    };

    fn origin(self) -> Origin {
        match self.acks {
            INTERNAL_ACKS => Origin::Coordinator,
            _ => Origin::Client,
        }
    }

    /// Whether the answer waits for the disk. A coordinator's always does, however relaxed the topic is: its state must not go
    /// back once it was seen.
    fn waits_for_disk(self, config: &TopicConfig) -> bool {
        match self.acks {
            INTERNAL_ACKS => true,
            0 => false,
            _ => config.flush_before_ack,
        }
    }
}

/// No client can ask for it.
const INTERNAL_ACKS: i16 = i16::MIN;

/// Where a batch went.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    pub base_offset: Offset,
    /// `Timestamp::NONE` unless the topic stamps records with the time of their append.
    pub log_append_time: Timestamp,
    pub log_start: Offset,
}

/// Why a batch was not appended.
#[derive(Clone, Debug)]
pub struct Refused {
    pub error: ErrorCode,
    /// For the client.
    pub message: Option<String>,
    /// Index of a record and what is wrong with it.
    pub record_errors: Vec<(i32, String)>,
    /// Of the partition, with the errors that Kafka tells it with.
    pub log_start: Offset,
    /// For the log.
    detail: Option<String>,
}

impl Refused {
    pub fn code(error: ErrorCode) -> Refused {
        Refused {
            error,
            message: None,
            record_errors: Vec::new(),
            log_start: Offset::NONE,
            detail: None,
        }
    }

    /// Refused by a partition whose log begins at `log_start` (`ReplicaManager.appendRecordsToLocalLog`).
    fn at(mut self, log_start: Offset) -> Refused {
        let untold = [
            ErrorCode::MessageTooLarge,
            ErrorCode::RecordListTooLarge,
            ErrorCode::CorruptMessage,
            ErrorCode::KafkaStorageError,
        ];
        if !untold.contains(&self.error) {
            self.log_start = log_start;
        }
        self
    }

    /// What is wrong, for a person.
    pub fn text(&self) -> &str {
        let own = self.message.as_deref().or(self.detail.as_deref());
        own.unwrap_or_else(|| self.error.message())
    }
}

impl From<BatchError> for Refused {
    fn from(error: BatchError) -> Refused {
        let record_errors = error.record_errors().iter();
        Refused {
            error: error.code(),
            message: error.wire_message(),
            record_errors: record_errors
                .map(|record| (record.batch_index, record.message.clone()))
                .collect(),
            log_start: Offset::NONE,
            detail: Some(error.to_string()),
        }
    }
}

/// Told when a batch is on the disk.
pub type Durable = Receiver<Result<(), ErrorCode>>;

/// A batch that was checked and may be placed.
struct Checked {
    header: BatchHeader,
    facts: BatchFacts,
    body: Body,
}

/// The records of a checked batch.
enum Body {
    /// Behind the header in these bytes.
    Frame(Bytes),
    /// Made anew in another codec; the header is in front.
    Recompressed(Vec<u8>),
    InPlace(InPlace),
}

impl Shard {
    /// Appends the batch of a records field. The second part of the result is `None` if nobody waits for the disk.
    pub async fn append(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        bytes: BatchBytes,
        request: AppendRequest,
    ) -> Result<(Appended, Option<Durable>), Refused> {
        let result = self.append_checked(cell, bytes, request).await;
        result.map_err(|refused| {
            self.counters.produce_refused_batches.one();
            refused.at(cell.partition.borrow().chain().log_start())
        })
    }

    async fn append_checked(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        bytes: BatchBytes,
        request: AppendRequest,
    ) -> Result<(Appended, Option<Durable>), Refused> {
        let config = cell.config.get();
        let checked = check(cell, &config, bytes, request)?;
        let size = match &checked.body {
            Body::Frame(_) | Body::InPlace(_) => checked.header.size_in_bytes(),
            Body::Recompressed(batch) => batch.len(),
        };
        let size_max = FileImage::record_bytes_max(&self.arena, HEADER_BYTES);
        if size > size_max {
            return Err(Refused {
                message: Some(format!(
                    "batch of {size} bytes; the memory of this broker (--memory) takes up to {size_max} in one piece"
                )),
                ..Refused::code(ErrorCode::MessageTooLarge)
            });
        }
        let turn = match cell.turn.try_acquire(1) {
            Some(turn) => turn,
            None => cell.turn.acquire(1).await,
        };
        let now = loop {
            let acks = match request.origin() {
                Origin::Client => request.acks,
                Origin::Coordinator => 1,
            };
            let admission = cell
                .partition
                .borrow()
                .check_produce(&checked.header, acks)
                .map_err(Refused::code)?;
            match admission {
                ProduceCheck::Duplicate {
                    base_offset,
                    end,
                    timestamp,
                } => {
                    self.counters.produce_duplicate_batches.one();
                    let appended = Appended {
                        base_offset,
                        // Whatever the timestamp type, as Kafka answers.
                        log_append_time: timestamp,
                        log_start: cell.partition.borrow().chain().log_start(),
                    };
                    let durable = self.wait_durable(cell, end, &config, request);
                    return Ok((appended, durable));
                }
                ProduceCheck::Busy if cell.deleted.get() => {
                    // Nothing of it goes to the disk any more.
                    return Err(Refused::code(ErrorCode::UnknownTopicOrPartition));
                }
                ProduceCheck::Busy => {
                    // Too much of this partition is on its way to the disk.
                    let moved = cell.moved.wait();
                    self.schedule(cell);
                    moved.await;
                }
                ProduceCheck::Append => {
                    let (segment, now) = self.tail(cell, &checked.header).await?;
                    if cell.partition.borrow().offline().is_some() || cell.deleted.get() {
                        // While its last block was read: it is refused in the next round.
                        return Err(Refused::code(ErrorCode::KafkaStorageError));
                    }
                    if self.closed.get() {
                        // Behind the checkpoint of a clean stop nothing is looked for.
                        return Err(Refused::code(ErrorCode::NotLeaderOrFollower));
                    }
                    match place(&segment, &checked, size) {
                        Ok(()) => break now,
                        Err(NoRoom { wanted }) => {
                            if self.evict(wanted) == 0 {
                                self.arena.wait_for_room(wanted).await;
                            }
                        }
                    }
                }
            }
        };
        // From here nothing fails.
        let (appended, end) = self.commit(cell, checked, size, now);
        drop(turn);
        self.schedule(cell);
        let durable = self.wait_durable(cell, end, &config, request);
        Ok((appended, durable))
    }

    /// Gives the batch its offset and puts it in its place, which is there: `now` is when it was looked for, since a segment that
    /// gets too old a moment later would have it go elsewhere.
    fn commit(
        &self,
        cell: &Rc<PartitionCell>,
        mut checked: Checked,
        size: usize,
        now: Now,
    ) -> (Appended, Offset) {
        let mut partition = cell.partition.borrow_mut();
        let log_append_time = match checked.facts.timestamp_type {
            record::TimestampType::LogAppendTime => checked.facts.max_timestamp,
            record::TimestampType::CreateTime => Timestamp::NONE,
        };
        let placed = partition.append(&checked.header, now);
        checked.header.base_offset = placed.base_offset;
        checked.header.leader_epoch = placed.leader_epoch;
        let segment = self.segment_cell(cell, placed.place.segment);
        let mut image = segment.image.borrow_mut();
        let start = image.end();
        assert_eq!(
            start,
            placed.place.position,
            "the image of {} ends elsewhere than its log",
            cell.name()
        );
        let header = checked.header;
        let records = header.record_count;
        let written = match checked.body {
            Body::Frame(bytes) => image
                .append(&[&header.to_bytes(), &bytes[HEADER_BYTES..size]])
                .map_err(drop),
            Body::Recompressed(mut batch) => {
                header.write(&mut batch);
                image.append(&[&batch]).map_err(drop)
            }
            Body::InPlace(place) => {
                self.counters.produce_in_place_batches.one();
                image
                    .commit(place.receiving, &header.to_bytes())
                    .map_err(drop)
            }
        };
        match written {
            Ok(range) => assert_eq!(range.end - range.start, size as u64, "size of a batch"),
            Err(()) => panic!("room for {size} bytes in {} is gone", cell.name()),
        }
        cell.appended_at.set(now.mono);
        self.counters.produce_batches.one();
        self.counters.produce_records.add(records as u64);
        self.counters.produce_bytes.add(size as u64);
        let appended = Appended {
            base_offset: placed.base_offset,
            log_append_time,
            log_start: partition.chain().log_start(),
        };
        (appended, placed.end)
    }

    /// Who waits for the disk, if anybody does.
    fn wait_durable(
        &self,
        cell: &PartitionCell,
        end: Offset,
        config: &TopicConfig,
        request: AppendRequest,
    ) -> Option<Durable> {
        let waits = request.waits_for_disk(config);
        let partition = cell.partition.borrow();
        if !waits || partition.chain().durable() >= end {
            return None;
        }
        if partition.offline().is_some() || cell.deleted.get() {
            let (sender, receiver) = oneshot();
            sender.send(Err(ErrorCode::KafkaStorageError));
            return Some(receiver);
        }
        let (sender, receiver) = oneshot();
        cell.wait_durable(end, sender);
        Some(receiver)
    }

    /// The segment that a batch goes to by the clock of `Now`, its image ready to be appended to.
    async fn tail(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        header: &BatchHeader,
    ) -> Result<(Rc<SegmentCell>, Now), Refused> {
        loop {
            let now = clock::now();
            let place = cell.partition.borrow().next_position(header, now);
            let segment = self.segment_cell(cell, place.segment);
            if segment.image.borrow().end() == place.position {
                return Ok((segment, now));
            }
            // The segment was found at start: its last block is read before it is written again.
            let block = place.position / BLOCK_BYTES * BLOCK_BYTES;
            let partial = if block < place.position {
                let wanted = (place.position - block) as usize;
                let read = self.bytes_at(cell, place.segment, block, wanted).await;
                read.map_err(Refused::code)?.bytes().to_vec()
            } else {
                Vec::new()
            };
            let mut image = segment.image.borrow_mut();
            if image.end() == 0 {
                *image = FileImage::new(self.arena.clone(), HEADER_BYTES, place.position, &partial);
            }
        }
    }
}

impl PartitionCell {
    /// The segment at whose end a batch with this header may be received; `None` if it must be taken in elsewhere: nothing is
    /// ready, it will be stored otherwise than it comes, or it will be refused.
    pub(super) fn place_of(&self, header: &BatchHeader, bytes: usize) -> Option<Rc<SegmentCell>> {
        let config = self.config.get();
        let partition = self.partition.borrow();
        let stays = matches!(config.compression, TopicCompression::Producer)
            || header.compression() == target(&config);
        if !stays
            || bytes > config.batch_bytes_max as usize
            || header.last_offset_delta < 0
            || partition.offline().is_some()
            || self.turn.free() == 0
            || self.deleted.get()
        {
            return None;
        }
        let place = partition.next_position(header, clock::now());
        let segment = self.segment(place.segment)?;
        let ready = !place.roll && segment.image.borrow().end() == place.position;
        ready.then_some(segment)
    }
}

/// Checks a batch and brings it into the form in which it is stored.
fn check(
    cell: &PartitionCell,
    config: &TopicConfig,
    bytes: BatchBytes,
    request: AppendRequest,
) -> Result<Checked, Refused> {
    let rules = Rules {
        topic: &cell.topic,
        partition: cell.id.partition,
        max_message_bytes: match request.origin() {
            Origin::Client => config.batch_bytes_max as usize,
            Origin::Coordinator => usize::MAX,
        },
        timestamp_type: match config.timestamp_type {
            TimestampType::CreateTime => record::TimestampType::CreateTime,
            TimestampType::LogAppendTime => record::TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: config.timestamp_before_max_ms,
        timestamp_after_max_ms: config.timestamp_after_max_ms,
        now: clock::wall(),
        keys_required: config.cleanup_compact,
        origin: request.origin(),
        zstd_allowed: request.zstd_allowed,
    };
    let (mut header, facts, body) = match bytes {
        BatchBytes::Frame(bytes) => {
            let header = record::check::frame(&bytes)?;
            let size = header.size_in_bytes();
            if bytes.len() > size {
                // Kafka lets a few bytes pass that are too short to be a batch; nobody honest sends them.
                let text = format!("{} bytes behind the batch", bytes.len() - size);
                return Err(BatchError::Corrupt(text.into()).into());
            }
            let batch = bytes.slice(..size);
            let crc = BatchCrc::of(&batch);
            let facts = record::check(&header, &batch[HEADER_BYTES..], crc, &rules)?;
            (header, facts, Body::Frame(batch))
        }
        BatchBytes::InPlace(place) => {
            let header = BatchHeader::parse(&place.header);
            let crc = place.crc();
            let facts = record::check(&header, &place.receiving.filled(), crc, &rules)?;
            (header, facts, Body::InPlace(place))
        }
    };
    facts.apply(&mut header);
    let body = match target(config) {
        Some(codec) if Some(codec) != header.compression() => {
            recompress(config, &mut header, body, codec)?
        }
        _ => body,
    };
    Ok(Checked {
        header,
        facts,
        body,
    })
}

fn recompress(
    config: &TopicConfig,
    header: &mut BatchHeader,
    body: Body,
    codec: Compression,
) -> Result<Body, Refused> {
    let mut levels = Levels::default();
    match config.compression {
        TopicCompression::Gzip(Some(level)) => levels.gzip = level as i32,
        TopicCompression::Zstd(level) => levels.zstd = level,
        TopicCompression::Gzip(None)
        | TopicCompression::Producer
        | TopicCompression::Uncompressed
        | TopicCompression::Snappy
        | TopicCompression::Lz4 => {}
    }
    let max = config.batch_bytes_max as usize;
    let batch = match &body {
        Body::Frame(bytes) => {
            record::recompress(header, &bytes[HEADER_BYTES..], codec, levels, max)?
        }
        Body::InPlace(place) => {
            record::recompress(header, &place.receiving.filled(), codec, levels, max)?
        }
        Body::Recompressed(_) => unreachable!("a batch is recompressed once"),
    };
    *header = BatchHeader::read(&batch).expect("a batch has a header");
    Ok(Body::Recompressed(batch))
}

/// The codec that a topic stores in; `None`: as the producer sent it.
fn target(config: &TopicConfig) -> Option<Compression> {
    match config.compression {
        TopicCompression::Producer => None,
        TopicCompression::Uncompressed => Some(Compression::None),
        TopicCompression::Gzip(_) => Some(Compression::Gzip),
        TopicCompression::Snappy => Some(Compression::Snappy),
        TopicCompression::Lz4 => Some(Compression::Lz4),
        TopicCompression::Zstd(_) => Some(Compression::Zstd),
    }
}

/// Makes sure that the batch fits at the end of the segment's image.
fn place(segment: &SegmentCell, checked: &Checked, size: usize) -> Result<(), NoRoom> {
    let mut image = segment.image.borrow_mut();
    match &checked.body {
        Body::InPlace(place) if image.holds(&place.receiving) => return Ok(()),
        // The log has rolled to another segment since it was begun.
        Body::InPlace(place) => place.receiving.set_aside(),
        Body::Frame(_) | Body::Recompressed(_) => {}
    }
    image.room(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinators_wait_for_the_disk_even_on_a_relaxed_topic() {
        let strict = TopicConfig::metadata_log();
        let relaxed = TopicConfig {
            flush_before_ack: false,
            ..strict
        };
        let client = |acks| AppendRequest {
            acks,
            zstd_allowed: true,
        };
        assert!(AppendRequest::INTERNAL.waits_for_disk(&relaxed));
        assert!(client(-1).waits_for_disk(&strict));
        assert!(!client(-1).waits_for_disk(&relaxed));
        assert!(!client(0).waits_for_disk(&strict));
    }
}
