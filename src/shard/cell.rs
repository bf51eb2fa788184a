//! A partition on its shard: the state machine, the files and images of its segments, and who waits for it.
//! Owned by the shard's table, shared by tasks as `Rc<PartitionCell>`; the state machine is reached in synchronous closures.
//! Always: no borrow of a `RefCell` here lives across an await; a segment's image is written by the holder of the append turn.
//! Placing bytes is `append`'s, driving the disk `driver`'s, reading `read`'s.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;

use super::files::KeptFile;
use crate::base::{ErrorCode, MonoNs, Offset, TopicPartition, Uuid};
use crate::io::image::FileImage;
use crate::io::sync::{Notify, Semaphore, Sender};
use crate::log::LogConfig;
use crate::metadata::config::{BrokerConfig, TopicConfig};
use crate::metadata::topic_name::CONSUMER_OFFSETS;
use crate::partition::{Partition, PartitionConfig};

/// See the module.
pub struct PartitionCell {
    pub id: TopicPartition,
    pub topic: Rc<str>,
    /// `DATA/<topic>-<partition>`.
    pub directory: PathBuf,
    pub partition: RefCell<Partition>,
    /// Open segments by base offset.
    pub segments: RefCell<BTreeMap<Offset, Rc<SegmentCell>>>,
    /// Appends take turns, in the order they came.
    pub turn: Semaphore,
    /// Record batches being received in place or aside for this partition: more is coming.
    pub arriving: Cell<u32>,
    /// Told when the durable offset, the log start or the state moved.
    pub moved: Notify,
    /// Appended batches whose callers wait for the disk, by end offset.
    waiting: RefCell<VecDeque<Waiting>>,
    /// The driver has it on its list.
    pub scheduled: Cell<bool>,
    /// The partition was deleted; what still holds the cell must not write.
    pub deleted: Cell<bool>,
    /// When it was last appended to.
    pub appended_at: Cell<MonoNs>,
    /// Disk operations under way.
    pub operations: Cell<u32>,
    /// Told when one of them has ended.
    pub settled: Notify,
    /// Its directory is on the disk, with its metadata.
    pub directory_made: Cell<bool>,
    /// The configuration in force.
    pub config: Cell<TopicConfig>,
}

struct Waiting {
    end: Offset,
    done: Sender<Result<(), ErrorCode>>,
}

/// One segment: its file once it is open, and the part of it that is in memory.
pub struct SegmentCell {
    pub base: Offset,
    pub(super) file: RefCell<Option<KeptFile>>,
    /// Its growing end, for the segment that is appended to; what was read back, for all.
    pub image: RefCell<FileImage>,
    /// Ranges of the file being read now (first block), so that two readers share one read.
    pub reading: RefCell<BTreeMap<u64, Rc<WindowRead>>>,
    /// Where the last reader stopped: a read that starts there is sequential.
    pub read_end: Cell<u64>,
}

/// A read of a part of a file that is under way, for all who wait for it.
#[derive(Default)]
pub struct WindowRead {
    pub done: Notify,
    /// How it ended.
    pub result: Cell<Option<Result<(), ErrorCode>>>,
}

impl PartitionCell {
    /// A cell around a recovered or new partition.
    pub fn new(
        id: TopicPartition,
        topic: Rc<str>,
        directory: PathBuf,
        partition: Partition,
        config: TopicConfig,
    ) -> PartitionCell {
        PartitionCell {
            id,
            topic,
            directory,
            partition: RefCell::new(partition),
            segments: RefCell::default(),
            turn: Semaphore::new(1),
            arriving: Cell::new(0),
            moved: Notify::new(),
            waiting: RefCell::default(),
            scheduled: Cell::new(false),
            deleted: Cell::new(false),
            appended_at: Cell::new(MonoNs(0)),
            operations: Cell::new(0),
            settled: Notify::new(),
            directory_made: Cell::new(false),
            config: Cell::new(config),
        }
    }

    /// `topic-partition`, as its directory is called.
    pub fn name(&self) -> String {
        format!("{}-{}", self.topic, self.id.partition)
    }

    /// True for the log of the metadata, which is no topic.
    pub fn is_metadata(&self) -> bool {
        self.id.topic_id == Uuid::METADATA_TOPIC
    }

    /// True for what the broker itself keeps in a log.
    pub fn is_internal(&self) -> bool {
        self.is_metadata() || &*self.topic == CONSUMER_OFFSETS
    }

    /// Registers who is told when everything before `end` is durable.
    pub fn wait_durable(&self, end: Offset, done: Sender<Result<(), ErrorCode>>) {
        let mut waiting = self.waiting.borrow_mut();
        // The answer to a duplicate waits for a batch that came before others.
        let at = waiting.partition_point(|other| other.end <= end);
        waiting.insert(at, Waiting { end, done });
    }

    /// Tells those whose batches are durable now.
    pub fn durable_to(&self, durable: Offset) {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.front().is_some_and(|first| first.end <= durable) {
            if let Some(first) = waiting.pop_front() {
                first.done.send(Ok(()));
            }
        }
        drop(waiting);
        self.moved.notify();
    }

    /// Nothing that waits will become durable.
    pub fn fail_waiting(&self, error: ErrorCode) {
        for waiting in self.waiting.take() {
            waiting.done.send(Err(error));
        }
        self.moved.notify();
    }

    /// The open segment with this base offset.
    pub fn segment(&self, base: Offset) -> Option<Rc<SegmentCell>> {
        self.segments.borrow().get(&base).cloned()
    }
}

impl SegmentCell {
    pub fn new(base: Offset, image: FileImage) -> SegmentCell {
        SegmentCell {
            base,
            file: RefCell::new(None),
            image: RefCell::new(image),
            reading: RefCell::default(),
            read_end: Cell::new(0),
        }
    }
}

/// What a partition lives by, of the configuration of its topic and the broker.
pub fn partition_config(topic: TopicConfig, broker: BrokerConfig) -> PartitionConfig {
    PartitionConfig {
        log: LogConfig {
            segment_bytes: u64::from(topic.segment_bytes),
            segment_ms: topic.segment_ms,
            index_interval_bytes: topic.index_interval_bytes,
            retention_ms: topic.retention_ms.unwrap_or(-1),
            retention_bytes: topic.retention_bytes.map_or(-1, |bytes| bytes as i64),
            ..LogConfig::default()
        },
        cleanup_delete: topic.cleanup_delete,
        producer_expiration_ms: broker.producer_id_expiration_ms,
    }
}

/// Such as `00000000000000000000.log`, as Kafka names the files of a segment.
pub fn file_name(base: Offset, extension: &str) -> String {
    format!("{:020}.{extension}", base.0)
}
