//! A new image on this shard: partitions come, go, and change their settings.
//! Called for every change of the metadata, and at start with everything there is.
//! Always: when it returns, every partition that the image gives this shard can be used, and no other.
//! What changed and why is the controller's; finding a partition on the disk is `recover`'s.

use std::rc::Rc;
use std::sync::Arc;

use super::aside::{DELETED_SUFFIX, set_aside, stranger};
use super::cell::partition_config;
use super::{PartitionCell, Shard};
use crate::base::{ErrorCode, LeaderEpoch, PartitionIndex, TopicPartition};
use crate::io::sync::Semaphore;
use crate::io::{executor, file};
use crate::metadata::config::BrokerConfig;
use crate::metadata::topic_name::CONSUMER_OFFSETS;
use crate::metadata::{Image, Topic};

impl Shard {
    /// Takes over an image.
    pub(super) async fn apply_image(self: &Rc<Self>, image: Arc<Image>) {
        let old = self.image();
        self.remove_gone(&image).await;
        self.open_new(&image).await;
        *self.image.borrow_mut() = image.clone();
        self.refresh_configs(&image);
        if old
            .topics()
            .any(|topic| image.topic_by_id(topic.id).is_none())
        {
            self.forget_topics(&image);
        }
        self.counters
            .partitions
            .set(self.cells.borrow().len() as u64);
    }

    /// Opens the partitions that the image gives this shard and that are not open.
    async fn open_new(self: &Rc<Self>, image: &Arc<Image>) {
        // Each has a file or two open meanwhile.
        let at_once = OPENED_AT_ONCE
            .min(self.settings.descriptors.files_max() as u64 / 2)
            .max(1);
        let at_once = Rc::new(Semaphore::new(at_once));
        let mut opening = Vec::new();
        for topic in image.topics() {
            for (state, index) in topic.partitions.iter().zip(0..) {
                let id = partition_of(topic, index);
                if state.shard != self.id || self.cells.borrow().contains_key(&id) {
                    continue;
                }
                let (shard, name, epoch) = (self.clone(), topic.name.clone(), state.leader_epoch);
                let (at_once, image) = (at_once.clone(), image.clone());
                let config = self.topic_config_in(&image, &topic.name);
                opening.push(executor::spawn(async move {
                    let _one = at_once.acquire(1).await;
                    let cell = shard.open_partition(id, &name, epoch, config).await;
                    if name.as_str() == CONSUMER_OFFSETS
                        && cell.partition.borrow().offline().is_none()
                    {
                        shard.start_coordinator(cell, &image).await;
                    }
                }));
            }
        }
        for task in opening {
            task.await;
        }
    }

    /// Closes the partitions that are gone, or are another shard's now.
    async fn remove_gone(self: &Rc<Self>, image: &Image) {
        for cell in self.all_cells() {
            let state = image.partition(cell.id.topic_id, cell.id.partition);
            if cell.is_metadata() || state.is_some_and(|state| state.shard == self.id) {
                continue;
            }
            if &*cell.topic == CONSUMER_OFFSETS {
                self.stop_coordinator(cell.id.partition);
            }
            cell.deleted.set(true);
            self.cells.borrow_mut().remove(&cell.id);
            cell.fail_waiting(ErrorCode::UnknownTopicOrPartition);
            self.wait_operations(&cell).await;
            // Reads that wait for memory may hold its images, where nobody would look for memory any more.
            for segment in cell.segments.borrow().values() {
                segment.image.borrow_mut().forget();
                // Whoever still knows the cell must not keep the space of deleted files.
                *segment.file.borrow_mut() = None;
            }
            if state.is_none() {
                self.settings.refused.remove(cell.id);
                self.delete_directory(&cell).await;
            }
        }
    }

    /// Takes the directory of a deleted partition out of the way at once; its bytes go in the background.
    async fn delete_directory(self: &Rc<Self>, cell: &PartitionCell) {
        // A directory of another topic may have the name, if this one never had a record. None comes meanwhile: the controller
        // spreads no other image before this one is applied.
        if !matches!(stranger(&cell.directory, cell.id.topic_id).await, Ok(None)) {
            return;
        }
        match set_aside(&cell.directory, cell.id.topic_id, DELETED_SUFFIX).await {
            Ok(aside) => {
                let shard = self.clone();
                executor::spawn_detached(async move {
                    match file::delete_dir(&aside).await {
                        Ok(()) => shard.space_freed(),
                        Err(error) => {
                            tracing::warn!("a deleted partition is left on the disk: {error}");
                        }
                    }
                });
            }
            // Nothing was ever written to it.
            Err(error) if error.is_not_found() => {}
            Err(error) => tracing::warn!("a deleted partition is left on the disk: {error}"),
        }
    }

    async fn wait_operations(&self, cell: &PartitionCell) {
        loop {
            let settled = cell.settled.wait();
            if cell.operations.get() == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Settings of the broker and of topics as the image has them.
    fn refresh_configs(self: &Rc<Self>, image: &Image) {
        let layers = image.broker_layers(self.node, self.statics());
        self.broker_config.set(BrokerConfig::resolve(layers));
        self.refresh_group_config();
        for cell in self.all_cells() {
            if cell.is_metadata() {
                continue;
            }
            let config = self.topic_config_in(image, &cell.topic);
            let broker = self.broker_config();
            cell.config.set(config);
            cell.partition
                .borrow_mut()
                .set_config(partition_config(config, broker));
            let state = image.partition(cell.id.topic_id, cell.id.partition);
            let epoch = state.map_or(LeaderEpoch(0), |state| state.leader_epoch);
            cell.partition.borrow_mut().lead(epoch);
        }
    }

    fn topic_config_in(&self, image: &Image, topic: &str) -> crate::metadata::config::TopicConfig {
        let layers = image.broker_layers(self.node, self.statics());
        crate::metadata::config::TopicConfig::resolve(layers, image.topic_config(topic))
    }
}

fn partition_of(topic: &Topic, index: i32) -> TopicPartition {
    TopicPartition {
        topic_id: topic.id,
        partition: PartitionIndex(index),
    }
}

/// Partitions that are opened at the same time.
const OPENED_AT_ONCE: u64 = 64;
