//! The metadata of the cluster at one offset of its log: immutable, the same on every shard.
//! The controller makes the next one from records and sends it to every shard as `Arc<Image>`.
//! Always: an image follows from its records alone, wherever they come from; a clone shares what does not change.
//! Answering requests from it is the handlers'; deciding what to change is `controller`'s.

mod apply;
mod cow_map;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use apply::ApplyError;
pub use cow_map::CowMap;
pub use state::{ConfigResource, Node, PartitionState, Topic};

use super::config::{BrokerLayers, ConfigMap, StaticConfig};
use super::topic_name;
use crate::base::{NodeId, Offset, PartitionIndex, ShardId, TopicId};
use crate::wire::Str;

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct Image {
    cluster_id: Str,
    /// The last record that is in here; `Offset::NONE` before the first.
    offset: Offset,
    /// Sorted by id.
    nodes: Arc<Vec<Node>>,
    topics: CowMap<TopicId, Arc<Topic>>,
    topic_ids: CowMap<Str, TopicId>,
    /// Names that contain `.` or `_`, by their collision form.
    collisions: CowMap<Str, Arc<BTreeSet<Str>>>,
    partitions: usize,
    topic_configs: CowMap<Str, Arc<ConfigMap>>,
    /// By resource name: a node id in decimal, or empty for all.
    broker_configs: Arc<BTreeMap<Str, ConfigMap>>,
    features: Arc<BTreeMap<Str, i16>>,
    next_producer_id: i64,
}

impl Image {
    /// The image before the first record.
    pub fn empty(cluster_id: Str) -> Image {
        Image {
            cluster_id,
            offset: Offset::NONE,
            nodes: Arc::default(),
            topics: CowMap::default(),
            topic_ids: CowMap::default(),
            collisions: CowMap::default(),
            partitions: 0,
            topic_configs: CowMap::default(),
            broker_configs: Arc::default(),
            features: Arc::default(),
            next_producer_id: 0,
        }
    }

    pub fn cluster_id(&self) -> &Str {
        &self.cluster_id
    }

    /// The offset of the last record that is in here; `Offset::NONE` before the first.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// Every node, by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node(&self, id: NodeId) -> Option<&Node> {
        let index = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        Some(&self.nodes[index])
    }

    /// The node of shard 0, which is the controller's; `None` before nodes are registered.
    pub fn controller(&self) -> Option<&Node> {
        self.node_of_shard(ShardId(0))
    }

    pub fn node_of_shard(&self, shard: ShardId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.shards.contains(&shard))
    }

    /// Shards of all nodes.
    pub fn shards(&self) -> u16 {
        let count: usize = self.nodes.iter().map(|node| node.shards.len()).sum();
        u16::try_from(count).unwrap_or_else(|_| panic!("{count} shards"))
    }

    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(self.topic_ids.get(name)?)
    }

    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(&id)
    }

    /// Every topic, in an order that depends on the ids alone.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.iter().map(|(_, topic)| topic)
    }

    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// Partitions of all topics.
    pub fn partition_count(&self) -> usize {
        self.partitions
    }

    pub fn partition(&self, topic_id: TopicId, index: PartitionIndex) -> Option<&PartitionState> {
        self.topics.get(&topic_id)?.partition(index)
    }

    /// The first other topic whose name collides with `name`.
    pub fn colliding_topic(&self, name: &str) -> Option<&Str> {
        let form = topic_name::collision_form(name)?;
        let names = self.collisions.get(form.as_str())?;
        names.iter().find(|other| other.as_str() != name)
    }

    /// What was set on a topic; empty if nothing was.
    pub fn topic_config(&self, name: &str) -> &ConfigMap {
        self.topic_configs
            .get(name)
            .map_or(&NO_CONFIGS, |configs| &**configs)
    }

    /// What was set on a broker by this resource name: a node id, or empty for all.
    pub fn broker_config(&self, resource: &str) -> &ConfigMap {
        self.broker_configs.get(resource).unwrap_or(&NO_CONFIGS)
    }

    /// Where the configuration of a node comes from; `statics` are the values of its start.
    pub fn broker_layers<'a>(
        &'a self,
        node: NodeId,
        statics: &'a StaticConfig,
    ) -> BrokerLayers<'a> {
        BrokerLayers {
            node: self.broker_config(&node.to_string()),
            default: self.broker_config(""),
            statics,
        }
    }

    /// Finalized features and their levels; their epoch is [`offset`](Self::offset).
    pub fn features(&self) -> &BTreeMap<Str, i16> {
        &self.features
    }

    /// The first producer id that no block holds yet.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }
}

static NO_CONFIGS: ConfigMap = ConfigMap::new();
