//! How each metadata record changes an image (Kafka's `*Delta` and `PartitionRegistration.merge`).
//! Called on a clone that no shard has seen yet.
//! Always: a record that does not fit leaves the image as it was.
//! What an error means (a defect of the controller, or a damaged log) is decided by the caller.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{ConfigResource, Image, Node, PartitionState, Topic};
use crate::base::{LeaderEpoch, NodeId, Offset, PartitionIndex, ShardId, TopicId};
use crate::metadata::records::MetadataRecord;
use crate::metadata::{placement, topic_name};
use crate::wire::Str;
use crate::wire::messages::metadata_records::{
    BrokerRegistrationChangeRecord, ConfigRecord, FeatureLevelRecord, PartitionChangeRecord,
    PartitionRecord, RegisterBrokerRecord, TopicRecord,
};

/// Why a record does not fit the image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplyError {
    /// A topic of this name or id is there already.
    TopicExists {
        name: Str,
        id: TopicId,
    },
    UnknownTopic(TopicId),
    UnknownPartition(TopicId, i32),
    /// Partitions are added in the order of their index.
    PartitionGap {
        topic: TopicId,
        partition: i32,
        expected: usize,
    },
    UnknownNode(NodeId),
    /// Producer ids never go back.
    ProducerIds {
        next: i64,
        given: i64,
    },
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::TopicExists { name, id } => write!(f, "topic {name} ({id}) is there twice"),
            ApplyError::UnknownTopic(id) => write!(f, "there is no topic {id}"),
            ApplyError::UnknownPartition(id, index) => {
                write!(f, "there is no partition {index} of topic {id}")
            }
            ApplyError::PartitionGap {
                topic,
                partition,
                expected,
            } => write!(
                f,
                "partition {partition} of topic {topic} where {expected} was expected"
            ),
            ApplyError::UnknownNode(id) => write!(f, "there is no node {id}"),
            ApplyError::ProducerIds { next, given } => {
                write!(f, "producer ids go back from {next} to {given}")
            }
        }
    }
}

impl std::error::Error for ApplyError {}

impl Image {
    /// Takes the record at `offset`.
    pub fn apply(&mut self, record: &MetadataRecord, offset: Offset) -> Result<(), ApplyError> {
        assert!(
            offset > self.offset,
            "metadata record {offset} after {}",
            self.offset
        );
        match record {
            MetadataRecord::RegisterBroker(record) => self.register(record),
            MetadataRecord::UnregisterBroker(record) => self.unregister(NodeId(record.broker_id)),
            MetadataRecord::BrokerRegistrationChange(record) => self.change_registration(record),
            MetadataRecord::Topic(record) => self.add_topic(record),
            MetadataRecord::RemoveTopic(record) => self.remove_topic(record.topic_id),
            MetadataRecord::Partition(record) => self.add_partition(record),
            MetadataRecord::PartitionChange(record) => self.change_partition(record),
            MetadataRecord::Config(record) => {
                self.set_config(record);
                Ok(())
            }
            MetadataRecord::FeatureLevel(record) => {
                self.set_feature(record);
                Ok(())
            }
            MetadataRecord::ProducerIds(record) => {
                self.advance_producer_ids(record.next_producer_id)
            }
            MetadataRecord::NoOp(_) => Ok(()),
        }?;
        self.offset = offset;
        Ok(())
    }

    fn register(&mut self, record: &RegisterBrokerRecord) -> Result<(), ApplyError> {
        // PLAINTEXT is 0; a node of which we know no such endpoint is named by its first.
        let plain = record.end_points.iter().find(|e| e.security_protocol == 0);
        let endpoint = plain.or(record.end_points.first());
        let mut shards = shards_of(&record.log_dirs);
        shards.sort_unstable();
        let node = Node {
            id: NodeId(record.broker_id),
            epoch: record.broker_epoch,
            host: endpoint.map_or_else(Str::default, |e| e.host.detach()),
            port: endpoint.map_or(0, |e| e.port),
            rack: record.rack.as_ref().map(Str::detach),
            shards,
            fenced: record.fenced,
        };
        let nodes = Arc::make_mut(&mut self.nodes);
        match nodes.binary_search_by_key(&node.id, |node| node.id) {
            Ok(index) => nodes[index] = node,
            Err(index) => nodes.insert(index, node),
        }
        Ok(())
    }

    fn unregister(&mut self, id: NodeId) -> Result<(), ApplyError> {
        match self.nodes.binary_search_by_key(&id, |node| node.id) {
            Ok(index) => {
                Arc::make_mut(&mut self.nodes).remove(index);
                Ok(())
            }
            Err(_) => Err(ApplyError::UnknownNode(id)),
        }
    }

    fn change_registration(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), ApplyError> {
        let id = NodeId(record.broker_id);
        let Ok(index) = self.nodes.binary_search_by_key(&id, |node| node.id) else {
            return Err(ApplyError::UnknownNode(id));
        };
        let node = &mut Arc::make_mut(&mut self.nodes)[index];
        match record.fenced {
            0 => {}
            change => node.fenced = change > 0,
        }
        if !record.log_dirs.is_empty() {
            node.shards = shards_of(&record.log_dirs);
            node.shards.sort_unstable();
        }
        Ok(())
    }

    fn add_topic(&mut self, record: &TopicRecord) -> Result<(), ApplyError> {
        let (name, id) = (record.name.detach(), record.topic_id);
        if self.topic_ids.get(&name).is_some() || self.topics.get(&id).is_some() {
            return Err(ApplyError::TopicExists { name, id });
        }
        if let Some(form) = topic_name::collision_form(&name) {
            let mut names = self
                .collisions
                .get(form.as_str())
                .cloned()
                .unwrap_or_default();
            Arc::make_mut(&mut names).insert(name.clone());
            self.collisions.insert(Str::from(form), names);
        }
        self.topic_ids.insert(name.clone(), id);
        let topic = Topic {
            name,
            id,
            partitions: Vec::new(),
        };
        self.topics.insert(id, Arc::new(topic));
        Ok(())
    }

    fn remove_topic(&mut self, id: TopicId) -> Result<(), ApplyError> {
        let topic = self
            .topics
            .remove(&id)
            .ok_or(ApplyError::UnknownTopic(id))?;
        self.partitions -= topic.partitions.len();
        self.topic_ids.remove(&topic.name);
        self.topic_configs.remove(&topic.name);
        if let Some(form) = topic_name::collision_form(&topic.name)
            && let Some(mut names) = self.collisions.remove(form.as_str())
        {
            Arc::make_mut(&mut names).remove(&topic.name);
            if !names.is_empty() {
                self.collisions.insert(Str::from(form), names);
            }
        }
        Ok(())
    }

    fn add_partition(&mut self, record: &PartitionRecord) -> Result<(), ApplyError> {
        let id = record.topic_id;
        let index = record.partition_id;
        let leader = known(record.leader);
        let replicas = node_ids(&record.replicas);
        let shard = self.shard_of(id, index, leader, &replicas, &record.directories);
        let topic = self
            .topics
            .get_mut(&id)
            .ok_or(ApplyError::UnknownTopic(id))?;
        let state = PartitionState {
            leader,
            shard,
            leader_epoch: LeaderEpoch(record.leader_epoch),
            partition_epoch: record.partition_epoch,
            replicas,
            isr: node_ids(&record.isr),
        };
        let expected = topic.partitions.len();
        match usize::try_from(index) {
            // Kafka writes a whole partition again when it moves a log (`Replayed PartitionRecord for existing partition`).
            Ok(at) if at < expected => Arc::make_mut(topic).partitions[at] = state,
            Ok(at) if at == expected => {
                Arc::make_mut(topic).partitions.push(state);
                self.partitions += 1;
            }
            _ => {
                return Err(ApplyError::PartitionGap {
                    topic: id,
                    partition: index,
                    expected,
                });
            }
        }
        Ok(())
    }

    fn change_partition(&mut self, record: &PartitionChangeRecord) -> Result<(), ApplyError> {
        let id = record.topic_id;
        let index = record.partition_id;
        let old = self
            .partition(id, PartitionIndex(index))
            .ok_or(ApplyError::UnknownPartition(id, index))?;
        let mut next = old.clone();
        if let Some(replicas) = &record.replicas {
            next.replicas = node_ids(replicas);
        }
        if let Some(isr) = &record.isr {
            next.isr = node_ids(isr);
        }
        // Any leader that is named, even the same one, begins a new epoch.
        if record.leader != LEADER_UNCHANGED {
            next.leader = known(record.leader);
            next.leader_epoch = LeaderEpoch(next.leader_epoch.0.saturating_add(1));
        }
        let directories = record.directories.as_deref().unwrap_or(&[]);
        if record.directories.is_some() || next.leader != old.leader {
            next.shard = self.shard_of(id, index, next.leader, &next.replicas, directories);
        }
        next.partition_epoch = next.partition_epoch.saturating_add(1);
        let topic = self.topics.get_mut(&id).expect("looked up above");
        Arc::make_mut(topic).partitions[index as usize] = next;
        Ok(())
    }

    /// The shard that a record puts the leader's log on: the one its directory names, else the default owner, moved into
    /// the leader's own shards.
    fn shard_of(
        &self,
        topic_id: TopicId,
        index: i32,
        leader: Option<NodeId>,
        replicas: &[NodeId],
        directories: &[crate::base::Uuid],
    ) -> ShardId {
        let place = replicas.iter().position(|id| Some(*id) == leader);
        let directory = place.and_then(|place| directories.get(place));
        if let Some(shard) = directory.and_then(|d| placement::shard_of_directory(*d)) {
            return shard;
        }
        let shards = leader.and_then(|id| self.node(id)).map(|node| &node.shards);
        match shards {
            Some(shards) if !shards.is_empty() && index >= 0 => {
                placement::within(topic_id, PartitionIndex(index), shards)
            }
            _ => ShardId(0),
        }
    }

    fn set_config(&mut self, record: &ConfigRecord) {
        let (name, value) = (record.name.detach(), record.value.as_ref().map(Str::detach));
        match ConfigResource::from_code(record.resource_type) {
            Some(ConfigResource::Topic) => {
                let topic = record.resource_name.detach();
                let mut configs = self.topic_configs.get(&topic).cloned().unwrap_or_default();
                let map = Arc::make_mut(&mut configs);
                match value {
                    Some(value) => map.insert(name, value),
                    None => map.remove(&name),
                };
                if configs.is_empty() {
                    self.topic_configs.remove(&topic);
                } else {
                    self.topic_configs.insert(topic, configs);
                }
            }
            Some(ConfigResource::Broker) => {
                let resource = record.resource_name.detach();
                let brokers = Arc::make_mut(&mut self.broker_configs);
                let map = brokers.entry(resource.clone()).or_default();
                match value {
                    Some(value) => map.insert(name, value),
                    None => map.remove(&name),
                };
                if map.is_empty() {
                    brokers.remove(&resource);
                }
            }
            // Configurations of groups and metrics subscriptions, from a stock controller.
            None => {}
        }
    }

    fn set_feature(&mut self, record: &FeatureLevelRecord) {
        let features = Arc::make_mut(&mut self.features);
        match record.feature_level {
            0 => features.remove(&record.name),
            level => features.insert(record.name.detach(), level),
        };
    }

    fn advance_producer_ids(&mut self, given: i64) -> Result<(), ApplyError> {
        if given <= self.next_producer_id {
            let next = self.next_producer_id;
            return Err(ApplyError::ProducerIds { next, given });
        }
        self.next_producer_id = given;
        Ok(())
    }
}

/// `PartitionChangeRecord.leader`: not named.
const LEADER_UNCHANGED: i32 = -2;

/// A leader of a record; -1 is none.
fn known(leader: i32) -> Option<NodeId> {
    (leader >= 0).then_some(NodeId(leader))
}

fn node_ids(ids: &[i32]) -> SmallVec<[NodeId; 1]> {
    ids.iter().map(|id| NodeId(*id)).collect()
}

fn shards_of(directories: &[crate::base::Uuid]) -> Vec<ShardId> {
    directories
        .iter()
        .filter_map(|directory| placement::shard_of_directory(*directory))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::metadata_records::ProducerIdsRecord;

    /// Each misfit, on an image with one topic of one partition: named, and nothing changed.
    #[test]
    fn a_record_that_does_not_fit_leaves_the_image_as_it_was() {
        let id = crate::base::Uuid([1; 16]);
        let other = crate::base::Uuid([2; 16]);
        let topic = |name: &'static str, topic_id| TopicRecord {
            name: Str::from(name),
            topic_id,
        };
        let partition = |topic_id, partition_id| PartitionRecord {
            topic_id,
            partition_id,
            replicas: vec![0],
            leader: 0,
            ..PartitionRecord::default()
        };
        let change = |topic_id, partition_id| PartitionChangeRecord {
            topic_id,
            partition_id,
            leader: 1,
            ..PartitionChangeRecord::default()
        };
        let producer_ids = |next_producer_id| ProducerIdsRecord {
            next_producer_id,
            ..ProducerIdsRecord::default()
        };
        let mut image = Image::empty(Str::from("cluster"));
        let fitting: [MetadataRecord; 3] = [
            topic("x", id).into(),
            partition(id, 0).into(),
            producer_ids(1000).into(),
        ];
        for (record, offset) in fitting.iter().zip(0..) {
            image.apply(record, Offset(offset)).unwrap();
        }
        let before = image.clone();
        let misfits: [(MetadataRecord, &str); 8] = [
            (topic("x", other).into(), "topic x "),
            (topic("y", id).into(), "topic y "),
            (partition(other, 0).into(), "there is no topic "),
            (partition(id, 2).into(), "partition 2 of topic "),
            (partition(id, -1).into(), "partition -1 of topic "),
            (change(id, 1).into(), "there is no partition 1 "),
            (producer_ids(1000).into(), "producer ids go back "),
            (
                BrokerRegistrationChangeRecord::default().into(),
                "there is no node 0",
            ),
        ];
        for (record, text) in misfits {
            let error = image.apply(&record, Offset(3)).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
            assert_eq!(image, before);
        }
    }
}
