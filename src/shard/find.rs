//! What is in the data directory at start: the cluster's id, the partitions' directories, the checkpoints.
//! Read once, before the shards run, and shared by them.
//! Always: nothing is changed but what is on its way out (`-delete`), a missing `meta.properties`, and the mark of a clean stop,
//! which is gone from the disk before anybody writes; what can't be read ends the start; what is found is on the disk.
//! What the files mean is `recover`'s and the log's; which of two directories is the partition's is known when its topic's name is.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::aside::DELETED_SUFFIX;
use super::cell::file_name;
use super::checkpoint::shard_of;
use super::disk::METADATA_FILE;
use super::space::with_ballast;
use crate::base::{Offset, PartitionIndex, TopicPartition, Uuid};
use crate::io::file::StorageError;
use crate::io::found::{self as io_found, Left};
use crate::log::checkpoint::{CheckpointFile, Merged, merge};
use crate::log::{PartitionMetadata, Proof};
use crate::metadata::topic_name::CLUSTER_METADATA;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Every directory that has the topic's id and the partition's index, whatever it is called.
    pub partitions: BTreeMap<TopicPartition, Vec<FoundPartition>>,
    pub checkpoints: BTreeMap<TopicPartition, Merged>,
}

/// A partition's directory.
#[derive(Clone, Debug, Default)]
pub struct FoundPartition {
    pub directory: PathBuf,
    /// Base offset and bytes of each `.log`.
    pub segments: Vec<(Offset, u64)>,
    /// Offsets of the `.snapshot` files.
    pub snapshots: Vec<Offset>,
    /// Its files can't be put on the disk: nothing in them is to be believed.
    pub unsynced: Option<StorageError>,
}

impl Found {
    /// The directory of a partition of a topic called `topic`, and those that have its id under another name: copies, or it is
    /// misnamed.
    pub fn candidates(
        &self,
        id: TopicPartition,
        topic: &str,
    ) -> (Option<&FoundPartition>, Vec<&FoundPartition>) {
        let name = directory_name(topic, id.partition);
        let found = self.partitions.get(&id).into_iter().flatten();
        let (named, misnamed): (Vec<_>, Vec<_>) =
            found.partition(|found| found.directory.file_name() == Some(name.as_ref()));
        (named.first().copied(), misnamed)
    }

    /// Up to where the checkpoints know of records of a partition; `None` if of none.
    pub fn known_records(&self, id: TopicPartition) -> Option<Offset> {
        let proof = self.checkpoints.get(&id)?.entry.proof;
        (proof.offset > Offset::ZERO).then_some(proof.offset)
    }

    /// True for a partition that must not begin empty when there is no directory of its name: it had records. The metadata log has
    /// whenever something has its id: without it every topic would be a stray.
    pub fn is_missed(&self, id: TopicPartition) -> bool {
        let metadata = id.topic_id == Uuid::METADATA_TOPIC;
        self.known_records(id).is_some() || (metadata && self.partitions.contains_key(&id))
    }

    /// What is behind the proof of a partition will be given out as durable, so first it is made so; the names that were given too.
    /// After a clean stop there is nothing to do.
    fn sync(&mut self, data: &Path) -> Result<(), String> {
        io_found::sync_directory(data).map_err(|error| error.to_string())?;
        let mut partitions: Vec<_> = self
            .partitions
            .iter_mut()
            .filter(|(id, _)| self.checkpoints.get(id).is_none_or(|merged| !merged.clean))
            .flat_map(|(id, partitions)| {
                let proof = self.checkpoints.get(id).map(|merged| merged.entry.proof);
                partitions
                    .iter_mut()
                    .map(move |partition| (partition.left_behind(proof), partition))
            })
            .collect();
        let left: Vec<_> = partitions.iter().map(|(left, _)| left.clone()).collect();
        for (at, error) in io_found::sync(&left) {
            partitions[at].1.unsynced = Some(error);
        }
        Ok(())
    }
}

impl FoundPartition {
    /// The files that have something behind what is certain to be on the disk.
    fn left_behind(&self, proof: Option<Proof>) -> Left {
        let behind = |segment: &&(Offset, u64)| {
            proof.is_none_or(|proof| **segment > (proof.segment, proof.position))
        };
        let files = self.segments.iter().filter(behind);
        Left {
            directory: self.directory.clone(),
            files: files
                .map(|(base, _)| self.directory.join(file_name(*base, "log")))
                .collect(),
        }
    }
}

/// What the directory of a partition is called.
pub fn directory_name(topic: &str, partition: PartitionIndex) -> String {
    format!("{topic}-{partition}")
}

/// Reads the data directory. An error is a line for a person.
pub fn scan(data: &Path) -> Result<Found, String> {
    let mut found = Found::default();
    let mut checkpoints = Vec::new();
    for entry in read_dir(data)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| said(&path, &error))?;
        if kind.is_file() && shard_of(&name).is_some() {
            let bytes = fs::read(&path).map_err(|error| said(&path, &error))?;
            match CheckpointFile::decode(&bytes) {
                Ok(file) => {
                    with_ballast(data, || unmark_clean(&path, &file))
                        .map_err(|error| said(&path, &error))?;
                    checkpoints.push(file);
                }
                Err(error) => {
                    return Err(format!(
                        "{}: {error}; without it damage can't be told from an unfinished write. To verify every byte instead, remove that file and start again",
                        path.display()
                    ));
                }
            }
        } else if kind.is_dir() && name.ends_with(DELETED_SUFFIX) {
            // A deletion that a crash cut short.
            fs::remove_dir_all(&path).map_err(|error| said(&path, &error))?;
        } else if let Some((id, partition)) = partition(&name, &path)? {
            found.partitions.entry(id).or_default().push(partition);
        }
    }
    found.checkpoints = merge(checkpoints);
    found.sync(data)?;
    Ok(found)
}

/// The mark says that nothing was written since: a kill before a shard's first checkpoint would let the next start believe it, so it
/// goes before there is a shard.
fn unmark_clean(path: &Path, file: &CheckpointFile) -> io::Result<()> {
    if !file.clean {
        return Ok(());
    }
    let unmarked = CheckpointFile {
        clean: false,
        ..file.clone()
    };
    write_new(path, &unmarked.encode())
}

/// A directory that holds a partition. Only one without `partition.metadata` holds none: any other error may hide one.
fn partition(name: &str, path: &Path) -> Result<Option<(TopicPartition, FoundPartition)>, String> {
    let index = name
        .rsplit_once('-')
        .and_then(|(_, index)| index.parse::<i32>().ok());
    let Some(index) = index else {
        return Ok(None);
    };
    let metadata = path.join(METADATA_FILE);
    let text = match fs::read_to_string(&metadata) {
        Ok(text) => text,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(said(&metadata, &error)),
    };
    let Some(read) = PartitionMetadata::parse(&text) else {
        return Err(format!(
            "{}: not a partition.metadata of version 0: {text:?}",
            metadata.display()
        ));
    };
    let id = TopicPartition {
        topic_id: read.topic_id,
        partition: PartitionIndex(index),
    };
    let mut found = FoundPartition {
        directory: path.to_owned(),
        ..FoundPartition::default()
    };
    for entry in read_dir(path)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((stem, extension)) = name.rsplit_once('.') else {
            continue;
        };
        let Ok(offset) = stem.parse::<i64>() else {
            continue;
        };
        match extension {
            "log" => {
                let bytes = entry
                    .metadata()
                    .map_err(|error| said(&entry.path(), &error))?;
                found.segments.push((Offset(offset), bytes.len()));
            }
            "snapshot" => found.snapshots.push(Offset(offset)),
            _ => {}
        }
    }
    found.segments.sort_unstable();
    found.snapshots.sort_unstable();
    Ok(Some((id, found)))
}

/// The id of the cluster, from `meta.properties` as Kafka writes it; a new directory gets a new one. A directory that has a
/// metadata log is not new: its clients know it by its id.
pub fn cluster_id(data: &Path, random: impl Fn() -> Uuid) -> Result<String, String> {
    let path = data.join("meta.properties");
    match fs::read_to_string(&path) {
        Ok(text) => {
            let id = text
                .lines()
                .find_map(|line| line.strip_prefix("cluster.id="))
                .map(str::trim);
            match id {
                Some(id) if !id.is_empty() => Ok(id.to_owned()),
                _ => Err(format!(
                    "{}: no line `cluster.id=` with the cluster's id behind it: add the id that the cluster had (clients and backups know it), or, if the cluster is new, move everything out of {} and start again",
                    path.display(),
                    data.display()
                )),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let log = data.join(directory_name(CLUSTER_METADATA, PartitionIndex(0)));
            if log.try_exists().map_err(|error| said(&log, &error))? {
                return Err(format!(
                    "{} is missing, but {} is there: this is not a new cluster. Put the file back (the lines `version=1` and `cluster.id=` with the id that the cluster had), or move everything out of {} to start a new one",
                    path.display(),
                    log.display(),
                    data.display()
                ));
            }
            let id = random().to_string();
            let text = format!("version=1\ncluster.id={id}\ndirectory.id={}\n", random());
            write_new(&path, text.as_bytes()).map_err(|error| said(&path, &error))?;
            Ok(id)
        }
        Err(error) => Err(said(&path, &error)),
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let mut file = fs::File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::File::open(parent)?.sync_all()
}

fn read_dir(path: &Path) -> Result<Vec<fs::DirEntry>, String> {
    let entries = fs::read_dir(path).map_err(|error| said(path, &error))?;
    entries
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| said(path, &error))
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Epochs, PartitionCheckpoint};

    const ID: TopicPartition = TopicPartition {
        topic_id: Uuid([7; 16]),
        partition: PartitionIndex(3),
    };

    fn checkpoint(clean: bool) -> CheckpointFile {
        let proof = Proof {
            segment: Offset(0),
            position: 700,
            offset: Offset(9),
        };
        let entry = PartitionCheckpoint {
            partition: ID,
            log_start: Offset(0),
            proof,
            sealed_segments: 0,
            sealed_bytes: 0,
            settled: true,
            epochs: Epochs::default(),
        };
        CheckpointFile {
            clean,
            sequence: 5,
            entries: vec![entry],
        }
    }

    fn directory(data: &Path, name: &str) -> PathBuf {
        let path = data.join(name);
        fs::create_dir(&path).unwrap();
        let metadata = PartitionMetadata {
            topic_id: ID.topic_id,
        };
        fs::write(path.join(METADATA_FILE), metadata.to_text()).unwrap();
        path
    }

    #[test]
    fn a_clean_stop_is_believed_once() {
        let data = tempfile::tempdir().unwrap();
        for shard in 0..2 {
            let path = data.path().join(format!("checkpoint.{shard}"));
            fs::write(path, checkpoint(true).encode()).unwrap();
        }
        let (first, second) = (scan(data.path()).unwrap(), scan(data.path()).unwrap());
        assert!(first.checkpoints[&ID].clean);
        assert!(!second.checkpoints[&ID].clean, "nobody stopped since");
        assert_eq!(
            first.checkpoints[&ID].entry, second.checkpoints[&ID].entry,
            "what is certain stays certain"
        );
        let left = fs::read(data.path().join("checkpoint.1")).unwrap();
        assert_eq!(CheckpointFile::decode(&left), Ok(checkpoint(false)));
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_behind_the_proof_is_synced_unless_the_stop_was_clean() {
        let proof = |segment, position| {
            Some(Proof {
                segment: Offset(segment),
                position,
                offset: Offset(segment + 1),
            })
        };
        let found = FoundPartition {
            segments: vec![(Offset(0), 500), (Offset(9), 800), (Offset(12), 0)],
            ..FoundPartition::default()
        };
        let files = |proof| found.left_behind(proof).files.len();
        assert_eq!(files(None), 3);
        assert_eq!(files(proof(0, 499)), 3);
        assert_eq!(files(proof(9, 700)), 2);
        assert_eq!(files(proof(9, 800)), 1, "the one whose name is new");

        // A file that can't be synced takes its partition offline, no other and not the start.
        let data = tempfile::tempdir().unwrap();
        let path = directory(data.path(), "topic-3");
        std::os::unix::fs::symlink("nowhere", path.join("00000000000000000009.log")).unwrap();
        for clean in [true, false] {
            let file = data.path().join("checkpoint.0");
            fs::write(file, checkpoint(clean).encode()).unwrap();
            let found = scan(data.path()).unwrap();
            assert_eq!(found.partitions[&ID][0].unsynced.is_some(), !clean);
        }
    }

    #[test]
    fn no_topic_is_taken_for_a_file_of_the_broker() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("checkpoint.3"), checkpoint(false).encode()).unwrap();
        for topic in [
            "checkpoint",
            ".checkpoint",
            "checkpoint-events",
            "checkpoint.3",
        ] {
            directory(data.path(), &format!("{topic}-3"));
            let found = scan(data.path()).unwrap();
            assert!(found.checkpoints.contains_key(&ID), "{topic}");
            let directory = data.path().join(format!("{topic}-3"));
            assert_eq!(found.candidates(ID, topic).0.unwrap().directory, directory);
            fs::remove_dir_all(directory).unwrap();
        }
        // Nobody's: neither read nor removed.
        fs::create_dir(data.path().join("checkpoint.4")).unwrap();
        fs::write(data.path().join("checkpoint.old"), b"").unwrap();
        fs::write(data.path().join("to-delete"), b"").unwrap();
        scan(data.path()).unwrap();
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_directory_is_a_partitions_only_under_its_topics_name() {
        let data = tempfile::tempdir().unwrap();
        for name in ["a.b-c-3", "a.b-c-backup-3", "a.b-3", "c-3", "a.b-c-03"] {
            directory(data.path(), name);
        }
        let found = scan(data.path()).unwrap();
        let (named, misnamed) = found.candidates(ID, "a.b-c");
        assert_eq!(named.unwrap().directory, data.path().join("a.b-c-3"));
        assert_eq!(misnamed.len(), 4);
        let (named, misnamed) = found.candidates(ID, "b-c");
        assert!(named.is_none(), "{named:?}");
        assert_eq!(misnamed.len(), 5);
        let other = TopicPartition {
            partition: PartitionIndex(4),
            ..ID
        };
        assert!(found.candidates(other, "a.b-c").1.is_empty());
    }

    #[test]
    fn only_a_new_directory_gets_a_new_cluster_id() {
        let data = tempfile::tempdir().unwrap();
        let id = || cluster_id(data.path(), || Uuid([7; 16]));
        let first = id().unwrap();
        fs::create_dir(data.path().join("__cluster_metadata-0")).unwrap();
        assert_eq!(id(), Ok(first.clone()));
        let file = data.path().join("meta.properties");
        fs::remove_file(&file).unwrap();
        let error = id().unwrap_err();
        assert!(error.contains("meta.properties is missing"), "{error}");
        assert!(!file.exists());
        for without in ["version=1\n", "version=1\ncluster.id=\n"] {
            fs::write(&file, without).unwrap();
            let error = id().unwrap_err();
            assert!(error.contains("add the id"), "{error}");
        }
        fs::write(&file, format!("version=1\ncluster.id={first}\n")).unwrap();
        assert_eq!(id(), Ok(first));
    }

    #[test]
    fn only_a_missing_metadata_file_means_that_there_is_no_partition() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join("other-1")).unwrap();
        fs::create_dir(data.path().join("lost+found")).unwrap();
        fs::write(data.path().join("file-1"), b"").unwrap();
        let kept = directory(data.path(), "topic-3");
        fs::write(kept.join("00000000000000000000.log"), b"123").unwrap();
        directory(data.path(), "topic-3.AAAAAAAAAAAAAAAAAAAAAQ-stray");
        let found = scan(data.path()).unwrap();
        assert_eq!(found.partitions.keys().collect::<Vec<_>>(), [&ID]);
        assert_eq!(found.partitions[&ID].len(), 1);
        assert_eq!(found.partitions[&ID][0].segments, [(Offset(0), 3)]);
        // A name that can't be read as a file, as it is with EIO.
        let broken = data.path().join("broken-0");
        fs::create_dir_all(broken.join(METADATA_FILE)).unwrap();
        let error = scan(data.path()).unwrap_err();
        assert!(error.contains("broken-0/partition.metadata"), "{error}");
    }
}
