//! Directories of partitions that are moved out of the way: on their way out (`-delete`), or of no topic that there is or not
//! called as their partition is (`-stray`).
//! Done by the shard whose partition it is; what a start finds too many, by the controller's.
//! Always: the name `<topic>-<partition>` is free afterwards; a stray is never deleted, nor read again: a person decides.
//! Which partitions there are is the image's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::disk::METADATA_FILE;
use super::find::{Found, directory_name};
use super::{PartitionCell, Shard};
use crate::base::{PartitionIndex, TopicPartition, Uuid};
use crate::io::file::{self, StorageError};
use crate::io::random;
use crate::log::PartitionMetadata;
use crate::metadata::Image;
use crate::metadata::topic_name::CLUSTER_METADATA;

impl Shard {
    /// At start: what is left of topics whose deletion a crash cut short would be in the way of new ones of the same name; a copy
    /// of a partition under another name is nobody's.
    pub(super) async fn set_strays_aside(&self, image: &Image) {
        for stray in strays(&self.found, image) {
            // If it can't be moved it is, when its name is wanted.
            if let Err(error) = set_stray_aside(stray).await {
                tracing::warn!("a directory of no topic stays where it is: {error}");
            }
        }
    }

    /// Before a new partition gets its directory: one that belongs to another topic is moved.
    pub(super) async fn clear_directory(&self, cell: &PartitionCell) -> Result<(), StorageError> {
        match stranger(&cell.directory, cell.id.topic_id).await? {
            Some(topic_id) => {
                let directory = &cell.directory;
                set_stray_aside(Stray {
                    directory,
                    topic_id,
                    misnamed: None,
                })
                .await
            }
            None => Ok(()),
        }
    }
}

/// A directory that is no partition's.
#[derive(Debug)]
struct Stray<'a> {
    directory: &'a Path,
    topic_id: Uuid,
    /// What the partition's directory is called whose id this one has.
    misnamed: Option<String>,
}

/// The directories that are no partition's and may be moved. Not one where a partition with records is to be, nor those with the id
/// of one whose own directory is missing: that partition says so, and a person decides.
fn strays<'a>(found: &'a Found, image: &Image) -> Vec<Stray<'a>> {
    let records = |id: &&TopicPartition| found.known_records(**id).is_some();
    let wanted: BTreeSet<String> = found
        .checkpoints
        .keys()
        .filter(records)
        .filter_map(|id| Some(directory_name(topic_name(image, *id)?, id.partition)))
        .collect();
    let mut strays = Vec::new();
    for (id, partitions) in &found.partitions {
        let topic = topic_name(image, *id);
        let (left, misnamed) = match topic {
            Some(topic) => match found.candidates(*id, topic) {
                (None, _) if found.is_missed(*id) => continue,
                (_, misnamed) => (misnamed, Some(directory_name(topic, id.partition))),
            },
            None => (partitions.iter().collect(), None),
        };
        for partition in left {
            let name = partition.directory.file_name().unwrap_or_default();
            if wanted.contains(&*name.to_string_lossy()) {
                continue;
            }
            strays.push(Stray {
                directory: &partition.directory,
                topic_id: id.topic_id,
                misnamed: misnamed.clone(),
            });
        }
    }
    strays
}

/// The topic of a partition that there is.
fn topic_name(image: &Image, id: TopicPartition) -> Option<&str> {
    if id.topic_id == Uuid::METADATA_TOPIC {
        return (id.partition == PartitionIndex(0)).then_some(CLUSTER_METADATA);
    }
    let topic = image.topic_by_id(id.topic_id)?;
    topic.partition(id.partition)?;
    Some(topic.name.as_str())
}

async fn set_stray_aside(stray: Stray<'_>) -> Result<(), StorageError> {
    let aside = set_aside(stray.directory, stray.topic_id, STRAY_SUFFIX).await?;
    let why = match stray.misnamed {
        Some(name) => {
            let named = stray.directory.with_file_name(name);
            format!(
                "has the topic id of {} and another name, so it is not read",
                named.display()
            )
        }
        None => "is of no topic that there is".to_owned(),
    };
    tracing::warn!(
        "{} {why}: moved to {}; delete it if its records are not needed",
        stray.directory.display(),
        aside.display()
    );
    Ok(())
}

/// Renames a directory so that it is known to be `what`; the new path.
pub(super) async fn set_aside(
    directory: &Path,
    id: Uuid,
    what: &str,
) -> Result<PathBuf, StorageError> {
    let aside = aside_path(directory, id, what);
    match file::rename(directory, &aside).await {
        // It was moved before, and came back.
        Err(error) if error.exists() => {
            let aside = aside_path(directory, Uuid::from_random(random::bytes()), what);
            file::rename(directory, &aside).await?;
            Ok(aside)
        }
        result => result.map(|()| aside),
    }
}

/// The topic that has `directory`, if that is not `own`; a random one if that can't be told.
pub(super) async fn stranger(directory: &Path, own: Uuid) -> Result<Option<Uuid>, StorageError> {
    let unknown = || Uuid::from_random(random::bytes());
    if let Some(bytes) = file::read_file(&directory.join(METADATA_FILE)).await? {
        let text = String::from_utf8_lossy(&bytes);
        let id = PartitionMetadata::parse(&text).map_or_else(unknown, |found| found.topic_id);
        return Ok((id != own).then_some(id));
    }
    let found = match file::read_dir(directory).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    // The metadata is written before the first segment: this is somebody else's.
    let used = found.iter().any(|entry| entry.name.ends_with(".log"));
    Ok(used.then(unknown))
}

/// `<topic>-<partition>.<id>-stray`, as Kafka names it; a long topic is cut so that it is still a file name.
fn aside_path(directory: &Path, id: Uuid, what: &str) -> PathBuf {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let end = format!(".{id}{what}");
    let mut kept = name.len().min(NAME_BYTES_MAX - end.len());
    while !name.is_char_boundary(kept) {
        kept -= 1;
    }
    directory.with_file_name(format!("{}{end}", &name[..kept]))
}

/// Directories with this ending are being deleted.
pub const DELETED_SUFFIX: &str = "-delete";
/// Directories with this ending are no partition's.
const STRAY_SUFFIX: &str = "-stray";
/// Longest name of a file on Linux.
const NAME_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::find::FoundPartition;
    use super::*;
    use crate::base::Offset;
    use crate::io::testing::on_shard;
    use crate::log::checkpoint::{CheckpointFile, merge};
    use crate::log::{Epochs, PartitionCheckpoint, Proof};
    use crate::metadata::MetadataRecord;
    use crate::wire::Str;
    use crate::wire::messages::metadata_records::{PartitionRecord, TopicRecord};

    const OWN: Uuid = Uuid([1; 16]);
    const OTHER: Uuid = Uuid([2; 16]);

    fn directory(data: &Path, name: &str, id: Uuid) -> PathBuf {
        let path = data.join(name);
        fs::create_dir(&path).unwrap();
        let text = PartitionMetadata { topic_id: id }.to_text();
        fs::write(path.join(METADATA_FILE), text).unwrap();
        path
    }

    #[test]
    fn a_directory_is_moved_if_it_is_of_another_topic() {
        on_shard(|| async {
            let data = tempfile::tempdir().unwrap();
            let none = data.path().join("none-0");
            assert_eq!(stranger(&none, OWN).await, Ok(None));
            fs::create_dir(&none).unwrap();
            assert_eq!(stranger(&none, OWN).await, Ok(None));
            fs::write(none.join("00000000000000000000.log"), b"1").unwrap();
            assert!(stranger(&none, OWN).await.unwrap().is_some());
            let path = directory(data.path(), "topic-0", OTHER);
            assert_eq!(stranger(&path, OTHER).await, Ok(None));
            assert_eq!(stranger(&path, OWN).await, Ok(Some(OTHER)));
            fs::write(path.join(METADATA_FILE), b"version: 7").unwrap();
            assert!(stranger(&path, OWN).await.unwrap().is_some());
        });
    }

    #[test]
    fn a_stray_is_what_no_partition_may_be_in() {
        let (own, other, gone) = (OWN, OTHER, Uuid([3; 16]));
        let mut image = Image::empty(Str::from("cluster"));
        let topics = [("orders", own), ("orders-x", other)];
        let records = topics.iter().flat_map(|(name, topic_id)| {
            let topic = TopicRecord {
                name: Str::from(*name),
                topic_id: *topic_id,
            };
            let partition = PartitionRecord {
                topic_id: *topic_id,
                partition_id: 0,
                replicas: vec![0],
                leader: 0,
                ..PartitionRecord::default()
            };
            [MetadataRecord::from(topic), partition.into()]
        });
        for (record, offset) in records.zip(0..) {
            image.apply(&record, Offset(offset)).unwrap();
        }
        let strays = |directories: &[(&str, Uuid)], known: &[Uuid]| {
            let mut found = Found::default();
            let partition = PartitionIndex(0);
            let id = |topic_id| TopicPartition {
                topic_id,
                partition,
            };
            for (name, topic_id) in directories {
                let directory = Path::new("/data").join(name);
                let partition = FoundPartition {
                    directory,
                    ..FoundPartition::default()
                };
                let partitions = found.partitions.entry(id(*topic_id)).or_default();
                partitions.push(partition);
            }
            let entries = known.iter().map(|topic_id| PartitionCheckpoint {
                partition: id(*topic_id),
                log_start: Offset(0),
                proof: Proof {
                    segment: Offset(0),
                    position: 700,
                    offset: Offset(9),
                },
                sealed_segments: 0,
                sealed_bytes: 0,
                settled: true,
                epochs: Epochs::default(),
            });
            found.checkpoints = merge(vec![CheckpointFile {
                clean: false,
                sequence: 1,
                entries: entries.collect(),
            }]);
            let strays = super::strays(&found, &image);
            let said = |stray: &Stray| {
                let name = stray.directory.file_name().unwrap().to_str().unwrap();
                (name.to_owned(), stray.misnamed.clone())
            };
            strays.iter().map(said).collect::<Vec<_>>()
        };
        let copy = |name: &str, of: &str| (name.to_owned(), Some(of.to_owned()));
        let named = [("orders-0", own), ("orders-x-0", other)];
        assert_eq!(strays(&named, &[own, other]), []);
        for known in [&[][..], &[own]] {
            let copied = [("backup-0", own), ("orders-0", own), ("x-0", own)];
            let wanted = [copy("backup-0", "orders-0"), copy("x-0", "orders-0")];
            assert_eq!(strays(&copied, known), wanted);
        }
        // The only one: a copy of what never had records, or all that is left.
        let only = [("orders-x-0", own)];
        assert_eq!(strays(&only, &[]), [copy("orders-x-0", "orders-0")]);
        assert_eq!(strays(&only, &[own]), []);
        // Of no topic, and where one with records is to be.
        let taken = [("orders-0", gone)];
        assert_eq!(strays(&taken, &[]), [("orders-0".to_owned(), None)]);
        assert_eq!(strays(&taken, &[own]), []);
        let copied = [("orders-0", own), ("orders-x-0", own)];
        assert_eq!(strays(&copied, &[own, other]), []);
        // The metadata log is never begun anew beside one that has another name.
        let metadata = ("backup-0", Uuid::METADATA_TOPIC);
        assert_eq!(strays(&[metadata], &[]), []);
        let both = [metadata, ("__cluster_metadata-0", Uuid::METADATA_TOPIC)];
        assert_eq!(
            strays(&both, &[]),
            [copy("backup-0", "__cluster_metadata-0")]
        );
    }

    #[test]
    fn what_is_moved_twice_has_two_names() {
        on_shard(|| async {
            let data = tempfile::tempdir().unwrap();
            let long = "t".repeat(249);
            for name in ["topic-0", &format!("{long}-12345")] {
                for _ in 0..2 {
                    let path = directory(data.path(), name, OTHER);
                    let aside = set_aside(&path, OTHER, STRAY_SUFFIX).await.unwrap();
                    assert!(!path.exists() && aside.join(METADATA_FILE).exists());
                    assert!(aside.to_str().unwrap().ends_with("-stray"));
                }
            }
            assert_eq!(fs::read_dir(data.path()).unwrap().count(), 4);
            let first = data.path().join(format!("topic-0.{OTHER}-stray"));
            assert!(first.exists());
        });
    }
}
