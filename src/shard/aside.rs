//! Directories of partitions that are moved out of the way: on their way out (`-delete`), or of no topic that there is (`-stray`).
//! Done by the shard whose partition it is; what a start finds too many, by the controller's.
//! Always: the name `<topic>-<partition>` is free afterwards; a stray is never deleted, nor read again: a person decides.
//! Which partitions there are is the image's.

use std::path::{Path, PathBuf};

use super::disk::METADATA_FILE;
use super::{PartitionCell, Shard};
use crate::base::Uuid;
use crate::io::file::{self, StorageError};
use crate::io::random;
use crate::log::PartitionMetadata;
use crate::metadata::Image;

impl Shard {
    /// At start: what is left of topics whose deletion a crash cut short would be in the way of new ones of the same name.
    pub(super) async fn set_strays_aside(&self, image: &Image) {
        for (id, found) in &self.found.partitions {
            let known = image.partition(id.topic_id, id.partition).is_some();
            if known || id.topic_id == Uuid::METADATA_TOPIC {
                continue;
            }
            // If it can't be moved it is, when its name is wanted.
            if let Err(error) = set_stray_aside(&found.directory, id.topic_id).await {
                tracing::warn!("a directory of no topic stays where it is: {error}");
            }
        }
    }

    /// Before a new partition gets its directory: one that belongs to another topic is moved.
    pub(super) async fn clear_directory(&self, cell: &PartitionCell) -> Result<(), StorageError> {
        match stranger(&cell.directory, cell.id.topic_id).await? {
            Some(id) => set_stray_aside(&cell.directory, id).await,
            None => Ok(()),
        }
    }
}

async fn set_stray_aside(directory: &Path, id: Uuid) -> Result<(), StorageError> {
    let aside = set_aside(directory, id, STRAY_SUFFIX).await?;
    tracing::warn!(
        "{} is of no topic that there is: moved to {}; delete it if its records are not needed",
        directory.display(),
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
/// Directories with this ending belong to no topic.
const STRAY_SUFFIX: &str = "-stray";
/// Longest name of a file on Linux.
const NAME_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::io::testing::on_shard;

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
