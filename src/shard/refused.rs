//! The partitions whose files were refused: nothing of them can be read, so no node leads them.
//! One for the process, written by the shards that own them, read by every shard that is asked for metadata.
//! Always: a partition is here from its refusal until its topic is deleted; while none is, a look costs one load.
//! Why files are refused is `recover`'s; what clients are told is `server`'s.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::TopicPartition;

/// See the module.
#[derive(Default, Debug)]
pub struct RefusedPartitions {
    count: AtomicUsize,
    partitions: Mutex<HashSet<TopicPartition>>,
}

impl RefusedPartitions {
    pub fn add(&self, partition: TopicPartition) {
        let mut partitions = self.lock();
        partitions.insert(partition);
        self.count.store(partitions.len(), Ordering::Relaxed);
    }

    /// Its topic was deleted.
    pub fn remove(&self, partition: TopicPartition) {
        if self.is_empty() {
            return;
        }
        let mut partitions = self.lock();
        partitions.remove(&partition);
        self.count.store(partitions.len(), Ordering::Relaxed);
    }

    pub fn contains(&self, partition: TopicPartition) -> bool {
        !self.is_empty() && self.lock().contains(&partition)
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// No change is half done when a thread ends, so a poisoned set is as good as any.
    fn lock(&self) -> MutexGuard<'_, HashSet<TopicPartition>> {
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{PartitionIndex, Uuid};

    #[test]
    fn a_partition_is_refused_until_it_is_removed() {
        let id = |index| TopicPartition {
            topic_id: Uuid([7; 16]),
            partition: PartitionIndex(index),
        };
        let refused = RefusedPartitions::default();
        refused.remove(id(0));
        assert!(!refused.contains(id(0)));
        refused.add(id(0));
        refused.add(id(1));
        refused.add(id(1));
        assert!(refused.contains(id(0)) && refused.contains(id(1)) && !refused.contains(id(2)));
        refused.remove(id(1));
        assert!(refused.contains(id(0)) && !refused.contains(id(1)));
        refused.remove(id(0));
        assert!(refused.is_empty());
    }
}
