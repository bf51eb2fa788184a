//! Opening partitions: from what was found on the disk to partitions that serve; the controller and its log first.
//! At start for all of a shard's partitions, later for new ones.
//! Always: a partition that can't be trusted stays offline with its bytes untouched; the others serve.
//! What is trusted, verified or cut is decided by `log::Recovery`.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use super::cell::{file_name, partition_config};
use super::disk::{EPOCHS_FILE, METADATA_FILE, TORN};
use super::find::{FoundPartition, directory_name};
use super::{PartitionCell, Shard, controller};
use crate::base::limits::BLOCK_BYTES;
use crate::base::{LeaderEpoch, Offset, PartitionIndex, TopicPartition, Uuid};
use crate::io::file::{self, SegmentFile, StorageError};
use crate::io::{clock, executor};
use crate::log::{Need, PartitionMetadata, Refusal, SegmentFile as FoundSegment};
use crate::metadata::config::TopicConfig;
use crate::metadata::topic_name::CLUSTER_METADATA;
use crate::metadata::{Controller, Image, Machine, MetadataRecord};
use crate::partition::{Partition, PartitionConfig, PartitionFiles, PartitionRecovery};
use crate::record::BatchCrc;
use crate::record::Record;
use crate::record::scan::Batches;

/// What a shard found at its start.
#[derive(Clone, Copy, Default, Debug)]
pub struct Recovered {
    pub partitions: usize,
    pub log_bytes: u64,
    /// Read to verify what was not certain.
    pub bytes_read: u64,
    pub offline: usize,
}

/// Why a partition was not opened.
enum NotOpened {
    Refused(String),
    Disk(StorageError),
}

impl From<Refusal> for NotOpened {
    fn from(Refusal(reason): Refusal) -> NotOpened {
        NotOpened::Refused(reason)
    }
}

impl From<StorageError> for NotOpened {
    fn from(error: StorageError) -> NotOpened {
        NotOpened::Disk(error)
    }
}

impl Shard {
    /// What was found at start.
    pub fn recovered(&self) -> Recovered {
        self.recovered.get()
    }

    /// Opens a partition of this shard, from the disk if it is there, and lists it.
    pub(super) async fn open_partition(
        self: &Rc<Self>,
        id: TopicPartition,
        topic: &str,
        epoch: LeaderEpoch,
        config: TopicConfig,
    ) -> Rc<PartitionCell> {
        let directory = directory_name(topic, id.partition);
        let directory = self.settings.data.join(directory);
        let (found, misnamed) = self.found.candidates(id, topic);
        let checkpoint = self.found.checkpoints.get(&id);
        let lived = partition_config(config, self.broker_config());
        let opened = match found {
            Some(found) => self.recover(id, found, epoch, lived).await,
            None if self.found.is_missed(id) => {
                let known = self.found.known_records(id);
                Err(match missed(&directory, id, known, &misnamed).await {
                    Ok(reason) => NotOpened::Refused(reason),
                    Err(error) => NotOpened::Disk(error),
                })
            }
            None => Ok(Partition::new(id, lived, clock::now())),
        };
        let mut recovered = self.recovered.get();
        recovered.partitions += 1;
        let mut partition = match opened {
            Ok(partition) => partition,
            Err(error) => {
                let reason = match error {
                    NotOpened::Refused(reason) => reason,
                    NotOpened::Disk(error) => error.to_string(),
                };
                tracing::error!(
                    partition = %format_args!("{topic}-{}", id.partition),
                    "partition is offline: {reason}; its files are left as they are"
                );
                recovered.offline += 1;
                self.settings.refused.add(id);
                let entry = checkpoint.map(|merged| merged.entry.clone());
                Partition::refused(id, lived, reason, entry, clock::now())
            }
        };
        partition.lead(epoch);
        recovered.log_bytes += partition.log().size_bytes();
        self.recovered.set(recovered);
        let cell = PartitionCell::new(id, topic.into(), directory, partition, config);
        cell.directory_made.set(found.is_some());
        let cell = Rc::new(cell);
        self.cells.borrow_mut().insert(id, cell.clone());
        self.schedule(&cell);
        cell
    }

    async fn recover(
        self: &Rc<Self>,
        id: TopicPartition,
        found: &FoundPartition,
        epoch: LeaderEpoch,
        config: PartitionConfig,
    ) -> Result<Partition, NotOpened> {
        let now = clock::now();
        let checkpoint = self.found.checkpoints.get(&id);
        if let Some(error) = &found.unsynced {
            return Err(NotOpened::Disk(error.clone()));
        }
        let files = PartitionFiles {
            segments: self.segments(found).await?,
            snapshots: self.snapshots(found).await?,
            epochs_text: match file::read_file(&found.directory.join(EPOCHS_FILE)).await? {
                Some(bytes) => String::from_utf8(bytes).ok(),
                None => None,
            },
            checkpoint: checkpoint.map(|merged| merged.entry.clone()),
            clean: checkpoint.is_some_and(|merged| merged.clean),
        };
        let mut recovery = PartitionRecovery::start(id, config, files, epoch, false, now)?;
        let mut open: Option<(Offset, SegmentFile)> = None;
        while let Some(need) = recovery.need()? {
            let file = match &open {
                Some((segment, file)) if *segment == need.segment => file.clone(),
                _ => {
                    let path = found.directory.join(file_name(need.segment, "log"));
                    let file = SegmentFile::open(&path, self.settings.mode).await?;
                    open = Some((need.segment, file.clone()));
                    file
                }
            };
            let bytes = self.read_need(&file, need).await?;
            recovery.on_bytes(&bytes, now)?;
            executor::yield_if_needed().await;
        }
        let report = recovery.report();
        if let Some((segment, position, why)) = report.torn {
            tracing::warn!(
                directory = %found.directory.display(),
                "segment {segment} ends at byte {position}: {why}; what follows is an unfinished write, or was damaged just before the stop: the next write cuts it off and keeps it in {}",
                file_name(segment, TORN)
            );
        }
        Ok(recovery.finish(now)?)
    }

    /// The bytes that a recovery asks for.
    async fn read_need(
        self: &Rc<Self>,
        file: &SegmentFile,
        need: Need,
    ) -> Result<Vec<u8>, StorageError> {
        let mut bytes = Vec::with_capacity((need.to - need.from) as usize);
        let mut at = need.from;
        while at < need.to {
            let block = at / BLOCK_BYTES * BLOCK_BYTES;
            let blocks = (need.to - block)
                .next_multiple_of(BLOCK_BYTES)
                .min(READ_BYTES);
            let extent = self.extent(blocks as usize).await;
            let target = extent.pin(0, blocks as usize);
            let count = file.read_blocks(block, target.clone()).await? as u64;
            let end = (block + count).min(need.to);
            if end <= at {
                return Err(file.too_short(need.to));
            }
            bytes.extend_from_slice(&target.bytes()[(at - block) as usize..(end - block) as usize]);
            at = end;
        }
        let mut recovered = self.recovered.get();
        recovered.bytes_read += need.to - need.from;
        self.recovered.set(recovered);
        Ok(bytes)
    }

    /// The segments with their indexes.
    async fn segments(&self, found: &FoundPartition) -> Result<Vec<FoundSegment>, StorageError> {
        let mut segments = Vec::with_capacity(found.segments.len());
        for (base, length) in &found.segments {
            let path = |extension| found.directory.join(file_name(*base, extension));
            segments.push(FoundSegment {
                base: *base,
                length: *length,
                offset_index: file::read_file(&path("index")).await?,
                time_index: file::read_file(&path("timeindex")).await?,
            });
        }
        Ok(segments)
    }

    /// Producer snapshots, by offset.
    async fn snapshots(
        &self,
        found: &FoundPartition,
    ) -> Result<Vec<(Offset, Vec<u8>)>, StorageError> {
        let mut snapshots = Vec::with_capacity(found.snapshots.len());
        for offset in &found.snapshots {
            let path = found.directory.join(file_name(*offset, "snapshot"));
            if let Some(bytes) = file::read_file(&path).await? {
                snapshots.push((*offset, bytes));
            }
        }
        Ok(snapshots)
    }

    /// Calls `each` with every durable record of a partition from an offset on (or from its start); the offset after the last.
    /// Errors: a batch that can't be read, or has a wrong checksum.
    pub(super) async fn replay_records(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        from: Offset,
        mut each: impl FnMut(&Record<'_>),
    ) -> Result<Offset, String> {
        let mut at = cell.partition.borrow().chain().log_start().max(from);
        loop {
            let location = cell.partition.borrow().log().locate(at);
            let location = location.map_err(|error| error.to_string())?;
            let mut position = location.position;
            if position >= location.limit {
                return Ok(at);
            }
            while position < location.limit {
                let header = self
                    .header_at(cell, &location, position)
                    .await
                    .map_err(|error| error.to_string())?;
                let size = header.size_in_bytes();
                let bytes = self.bytes_at(cell, location.segment, position, size).await;
                let bytes = bytes.map_err(|error| error.to_string())?;
                let batch = Batches::new(bytes.bytes()).next();
                let place = format_args!("byte {position} of segment {}", location.segment);
                let batch = batch.ok_or_else(|| format!("no batch at {place}"))?;
                // Recovery trusts what a checkpoint vouches for; state is never made of bytes that rotted since.
                if BatchCrc::of(&bytes.bytes()[..size]) != header.crc {
                    return Err(format!("the batch at {place} has a wrong checksum"));
                }
                let mut scratch = Vec::new();
                let records = batch.records(&mut scratch);
                for record in records.map_err(|error| format!("{place}: {error}"))? {
                    let record = record.map_err(|error| format!("{place}: {error}"))?;
                    if record.offset >= at {
                        each(&record);
                    }
                }
                at = at.max(header.next_offset());
                position += size as u64;
                executor::yield_if_needed().await;
            }
        }
    }

    /// Recovers the metadata log, registers this start's nodes, and gives every shard the image.
    pub async fn start_controller(self: &Rc<Self>, machine: &Machine) -> Result<(), String> {
        let id = TopicPartition {
            topic_id: Uuid::METADATA_TOPIC,
            partition: PartitionIndex(0),
        };
        let image = Image::clone(&self.image());
        let config = TopicConfig::metadata_log();
        let cell = self
            .open_partition(id, CLUSTER_METADATA, LeaderEpoch(0), config)
            .await;
        if let Some(reason) = cell.partition.borrow().offline() {
            return Err(format!(
                "the metadata log {} can't be used: {reason}",
                cell.directory.display()
            ));
        }
        let mut controller = Controller::new(image, self.statics().clone());
        let mut bad = None;
        self.replay_records(&cell, Offset::ZERO, |record| {
            let (offset, Some(value)) = (record.offset, record.value) else {
                return;
            };
            let value = bytes::Bytes::copy_from_slice(value);
            let applied = match MetadataRecord::decode(value) {
                Ok(record) => controller
                    .replay(&record, offset)
                    .map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = applied {
                bad.get_or_insert(format!("metadata record {offset}: {error}"));
            }
        })
        .await
        .map_err(|damage| damaged(&cell, &damage))?;
        if let Some(bad) = bad {
            return Err(damaged(&cell, &bad));
        }
        self.set_strays_aside(controller.image()).await;
        self.host_controller(controller::Host::new(controller, cell));
        let machine = machine.clone();
        self.change(move |controller| controller.register(&machine))
            .await
            .map_err(|error| format!("the nodes of this start can't be registered: {error}"))?;
        let image: Arc<Image> = self.controller_image();
        self.spread(image).await;
        Ok(())
    }
}

fn damaged(cell: &PartitionCell, what: &str) -> String {
    format!(
        "the metadata log {} is damaged: {what}; put a copy of this directory back, or start with another data directory (nothing was changed)",
        cell.directory.display()
    )
}

/// Why a partition that has records can't be used, if no directory of its name and its topic's id was found, and what to do.
async fn missed(
    directory: &Path,
    id: TopicPartition,
    known: Option<Offset>,
    misnamed: &[&FoundPartition],
) -> Result<String, StorageError> {
    let mut reason = match known {
        Some(offset) => format!("it has records up to offset {offset}, but "),
        None => String::new(),
    };
    let name = directory.display();
    let topic_id = id.topic_id;
    let there = match file::read_dir(directory).await {
        Ok(_) => true,
        Err(error) if error.is_not_found() => false,
        Err(error) => return Err(error),
    };
    let metadata = match there {
        true => file::read_file(&directory.join(METADATA_FILE)).await?,
        false => None,
    };
    reason += &match (there, metadata) {
        (false, _) => format!("the directory is gone: {name}"),
        (true, None) => format!(
            "{name} is there and its {METADATA_FILE} is missing: put that file back (the lines `version: 0` and `topic_id: {topic_id}`) if the directory is this partition's"
        ),
        (true, Some(text)) => {
            let other = PartitionMetadata::parse(&String::from_utf8_lossy(&text));
            let other = other.map_or("none".to_owned(), |other| other.topic_id.to_string());
            format!(
                "{name} is there and its {METADATA_FILE} names another topic: topic_id is {other}, not {topic_id}; move that directory away and put this partition's there, or put its {METADATA_FILE} back if only that was replaced"
            )
        }
    };
    match (misnamed, there) {
        ([], false) if topic_id == Uuid::METADATA_TOPIC => {
            reason += "; put it back and start again";
        }
        ([], false) => reason += "; put it back and start again, or delete the topic",
        ([], true) => {}
        (found, _) => {
            let found: Vec<_> = found
                .iter()
                .map(|found| found.directory.display().to_string())
                .collect();
            reason += &format!(
                "; its topic id is in {}, which should be called {name} if it is this partition's: rename it while the broker is stopped",
                found.join(" and in ")
            );
        }
    }
    Ok(reason)
}

/// A recovery reads at most this much at once.
const READ_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::io::testing::on_shard;

    #[test]
    fn a_partition_without_its_directory_says_what_is_there_instead() {
        on_shard(|| async {
            let id = TopicPartition {
                topic_id: Uuid([1; 16]),
                partition: PartitionIndex(0),
            };
            let data = tempfile::tempdir().unwrap();
            let directory = data.path().join("orders-0");
            let copy = FoundPartition {
                directory: data.path().join("backup-0"),
                ..FoundPartition::default()
            };
            let known = Some(Offset(9));
            let reason = missed(&directory, id, known, &[]).await.unwrap();
            assert!(reason.contains("the directory is gone"), "{reason}");
            assert!(reason.contains("up to offset 9"), "{reason}");
            let reason = missed(&directory, id, known, &[&copy]).await.unwrap();
            let both = format!("{}, which should be called", copy.directory.display());
            assert!(reason.contains(&both), "{reason}");
            assert!(reason.contains("orders-0 if it is"), "{reason}");
            fs::create_dir(&directory).unwrap();
            let reason = missed(&directory, id, known, &[]).await.unwrap();
            assert!(reason.contains("partition.metadata is missing"), "{reason}");
            assert!(!reason.contains("gone"), "{reason}");
            let topic_id = Uuid([2; 16]);
            let text = PartitionMetadata { topic_id }.to_text();
            fs::write(directory.join(METADATA_FILE), text).unwrap();
            let reason = missed(&directory, id, known, &[]).await.unwrap();
            let other = format!("topic_id is {topic_id}, not {}", id.topic_id);
            assert!(reason.contains(&other), "{reason}");
        });
    }
}
