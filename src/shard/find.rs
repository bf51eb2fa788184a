//! What is in the data directory at start: the cluster's id, the partitions' directories, the checkpoints.
//! Read once, before the shards run, and shared by them.
//! Always: nothing is changed but what is on its way out (`-delete`) and a missing `meta.properties`.
//! What the files mean is `recover`'s and the log's.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::checkpoint::CHECKPOINT_PREFIX;
use super::disk::METADATA_FILE;
use super::topics::DELETED_SUFFIX;
use crate::base::{Offset, PartitionIndex, TopicPartition, Uuid};
use crate::log::PartitionMetadata;
use crate::log::checkpoint::{CheckpointFile, Merged, merge};

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub partitions: BTreeMap<TopicPartition, FoundPartition>,
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
}

/// Reads the data directory. An error is a line for a person.
pub fn scan(data: &Path) -> Result<Found, String> {
    let mut found = Found::default();
    let mut checkpoints = Vec::new();
    for entry in read_dir(data)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if name.starts_with(CHECKPOINT_PREFIX) && !name.ends_with(".tmp") {
            let bytes = fs::read(&path).map_err(|error| said(&path, &error))?;
            match CheckpointFile::decode(&bytes) {
                Ok(file) => checkpoints.push(file),
                Err(error) => {
                    return Err(format!(
                        "{}: {error}; without it damage can't be told from an unfinished write. To verify every byte instead, remove that file and start again",
                        path.display()
                    ));
                }
            }
        } else if name.ends_with(DELETED_SUFFIX) {
            // A deletion that a crash cut short.
            fs::remove_dir_all(&path).map_err(|error| said(&path, &error))?;
        } else if path.is_dir()
            && let Some((id, partition)) = partition(&name, &path)?
        {
            found.partitions.insert(id, partition);
        }
    }
    found.checkpoints = merge(checkpoints);
    Ok(found)
}

/// A directory that holds a partition.
fn partition(name: &str, path: &Path) -> Result<Option<(TopicPartition, FoundPartition)>, String> {
    let metadata = path.join(METADATA_FILE);
    let Ok(text) = fs::read_to_string(&metadata) else {
        return Ok(None);
    };
    let index = name
        .rsplit_once('-')
        .and_then(|(_, index)| index.parse::<i32>().ok());
    let Some(index) = index else {
        return Ok(None);
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

/// The id of the cluster, from `meta.properties` as Kafka writes it; a new directory gets a new one.
pub fn cluster_id(data: &Path, random: impl Fn() -> Uuid) -> Result<String, String> {
    let path = data.join("meta.properties");
    match fs::read_to_string(&path) {
        Ok(text) => {
            let id = text
                .lines()
                .find_map(|line| line.strip_prefix("cluster.id="));
            match id {
                Some(id) => Ok(id.trim().to_owned()),
                None => Err(format!("{}: no line `cluster.id=`", path.display())),
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let id = random().to_string();
            let text = format!("version=1\ncluster.id={id}\ndirectory.id={}\n", random());
            write_new(&path, &text).map_err(|error| said(&path, &error))?;
            Ok(id)
        }
        Err(error) => Err(said(&path, &error)),
    }
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = fs::File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
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

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
