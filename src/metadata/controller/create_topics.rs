//! CreateTopics and creation on demand (Kafka's `ReplicationControlManager.createTopics`).
//! Part of the controller.
//! Always: each topic is taken or refused for itself, except that too many partitions refuse the whole request.
//! Who may create what is decided before it comes here.

use super::{CommandError, Controller, Outcome, repeated};
use crate::base::{ErrorCode, NodeId, PartitionIndex, ShardId, TopicId, limits};
use crate::metadata::config::{self, ConfigEntry, ConfigMap};
use crate::metadata::image::{ConfigResource, Node};
use crate::metadata::records::MetadataRecord;
use crate::metadata::{placement, topic_name};
use crate::wire::Str;
use crate::wire::messages::metadata_records::{ConfigRecord, PartitionRecord, TopicRecord};

/// A topic to make.
#[derive(Clone, Debug)]
pub struct NewTopic<'a> {
    pub name: &'a str,
    /// -1: the default.
    pub partitions: i32,
    /// -1: the default.
    pub replication_factor: i16,
    /// Empty: wherever placement says.
    pub assignments: Vec<Assignment>,
    pub configs: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> NewTopic<'a> {
    /// With default partitions, replication factor and configs.
    pub fn named(name: &'a str) -> NewTopic<'a> {
        NewTopic {
            name,
            partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// Where the client wants a partition.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub partition: i32,
    pub nodes: Vec<NodeId>,
}

/// A topic that was made, or would have been.
#[derive(Clone, PartialEq, Debug)]
pub struct CreatedTopic {
    pub id: TopicId,
    pub partitions: i32,
    pub replication_factor: i16,
    /// The configuration it has, by name.
    pub configs: Vec<ConfigEntry>,
}

/// By name: in the order of the request, then the names that were given twice.
type Created = Vec<(Str, Result<CreatedTopic, CommandError>)>;

impl Controller {
    /// Makes topics; `id` gives a new random topic id with every call. `validate_only` answers as if, and changes nothing.
    pub fn create_topics(
        &self,
        topics: &[NewTopic<'_>],
        validate_only: bool,
        mut id: impl FnMut() -> TopicId,
    ) -> Outcome<Created> {
        let doubles = repeated(topics.iter().map(|topic| topic.name));
        let single = |topic: &&NewTopic<'_>| doubles.binary_search(&topic.name).is_err();
        let mut records = Vec::new();
        let mut response: Created = Vec::with_capacity(topics.len());
        let too_many = self.too_many_partitions(topics.iter().filter(single));
        for topic in topics.iter().filter(single) {
            let result = match &too_many {
                Some(error) => Err(error.clone()),
                None => self.create_topic(topic, &mut id, &mut records),
            };
            response.push((Str::copy_from(topic.name), result));
        }
        for name in doubles {
            let error = CommandError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
            response.push((Str::copy_from(name), Err(error)));
        }
        if validate_only {
            records.clear();
        }
        Outcome { records, response }
    }

    /// A topic of this name as the broker makes it when it is needed: internal topics have partitions and configs of
    /// their own. `segment_bytes` is what they want, as text.
    pub fn topic_on_demand<'a>(&self, name: &'a str, segment_bytes: &'a str) -> NewTopic<'a> {
        let mut topic = NewTopic::named(name);
        if name == topic_name::CONSUMER_OFFSETS {
            topic.partitions = self.config().offsets_topic_partitions;
        }
        if topic_name::is_internal(name) {
            topic.replication_factor = 1;
            topic.configs = vec![
                ("cleanup.policy", Some("compact")),
                ("compression.type", Some("producer")),
                ("segment.bytes", Some(segment_bytes)),
            ];
        }
        topic
    }

    fn too_many_partitions<'a>(
        &self,
        topics: impl Iterator<Item = &'a NewTopic<'a>>,
    ) -> Option<CommandError> {
        let default = self.config().partitions_default;
        let count = |topic: &NewTopic<'_>| match (topic.assignments.len(), topic.partitions) {
            (0, -1) => default as usize,
            (0, partitions) => usize::try_from(partitions).unwrap_or(0),
            (assigned, _) => assigned,
        };
        let total: usize = topics.map(count).sum();
        (total > limits::PARTITIONS_PER_REQUEST_MAX).then(|| {
            CommandError::new(
                ErrorCode::PolicyViolation,
                "Excessively large number of partitions per request.",
            )
        })
    }

    fn create_topic(
        &self,
        topic: &NewTopic<'_>,
        id: &mut impl FnMut() -> TopicId,
        records: &mut Vec<MetadataRecord>,
    ) -> Result<CreatedTopic, CommandError> {
        self.check_new_name(topic.name)?;
        let configs = topic_overrides(topic)?;
        let placed = self.place(topic)?;
        // From here nothing fails.
        let topic_id = id();
        records.push(
            TopicRecord {
                name: Str::copy_from(topic.name),
                topic_id,
            }
            .into(),
        );
        records.extend(configs.iter().map(|(name, value)| {
            MetadataRecord::from(ConfigRecord {
                resource_type: ConfigResource::Topic.code(),
                resource_name: Str::copy_from(topic.name),
                name: name.clone(),
                value: Some(value.clone()),
            })
        }));
        for (index, node) in (0..).zip(&placed) {
            records.push(self.new_partition(topic_id, PartitionIndex(index), *node));
        }
        Ok(CreatedTopic {
            id: topic_id,
            partitions: i32::try_from(placed.len()).expect("bounded per request"),
            replication_factor: 1,
            configs: self.layers().describe_topic(&configs),
        })
    }

    fn check_new_name(&self, name: &str) -> Result<(), CommandError> {
        if name == topic_name::CLUSTER_METADATA {
            return Err(CommandError::new(
                ErrorCode::InvalidRequest,
                format!("Creation of internal topic {name} is prohibited."),
            ));
        }
        topic_name::check(name)
            .map_err(|text| CommandError::new(ErrorCode::InvalidTopicException, text))?;
        if self.image.topic(name).is_some() {
            return Err(CommandError::new(
                ErrorCode::TopicAlreadyExists,
                format!("Topic '{name}' already exists."),
            ));
        }
        if let Some(other) = self.image.colliding_topic(name) {
            return Err(CommandError::new(
                ErrorCode::InvalidTopicException,
                format!("Topic '{name}' collides with existing topic: {other}"),
            ));
        }
        Ok(())
    }

    /// The node of each partition by index, `None` where placement decides.
    fn place(&self, topic: &NewTopic<'_>) -> Result<Vec<Option<NodeId>>, CommandError> {
        if !topic.assignments.is_empty() {
            return self.place_assigned(topic);
        }
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            return Err(CommandError::new(
                ErrorCode::InvalidReplicationFactor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ));
        }
        if topic.partitions < -1 || topic.partitions == 0 {
            return Err(CommandError::new(
                ErrorCode::InvalidPartitions,
                "Number of partitions was set to an invalid non-positive value.",
            ));
        }
        let config = self.config();
        let factor = match topic.replication_factor {
            -1 => config.replication_factor_default,
            factor => factor,
        };
        check_replication_factor(factor)?;
        let partitions = match topic.partitions {
            -1 => config.partitions_default,
            partitions => partitions,
        };
        Ok(vec![None; partitions as usize])
    }

    fn place_assigned(&self, topic: &NewTopic<'_>) -> Result<Vec<Option<NodeId>>, CommandError> {
        for (given, what) in [
            (i32::from(topic.replication_factor), "replication factor"),
            (topic.partitions, "numPartitions"),
        ] {
            if given != -1 {
                return Err(CommandError::new(
                    ErrorCode::InvalidRequest,
                    format!(
                        "A manual partition assignment was specified, but {what} was not set to -1."
                    ),
                ));
            }
        }
        let mut placed = vec![None; topic.assignments.len()];
        let mut first_size = None;
        let mut seen = std::collections::BTreeSet::new();
        for assignment in &topic.assignments {
            if !seen.insert(assignment.partition) {
                return Err(CommandError::new(
                    ErrorCode::InvalidReplicaAssignment,
                    format!(
                        "Found multiple manual partition assignments for partition {}",
                        assignment.partition
                    ),
                ));
            }
            let node = self.check_assignment(&assignment.nodes, first_size)?;
            first_size = Some(assignment.nodes.len());
            if let Ok(index) = usize::try_from(assignment.partition)
                && let Some(slot) = placed.get_mut(index)
            {
                *slot = Some(node);
            }
        }
        if placed.iter().any(Option::is_none) {
            return Err(CommandError::new(
                ErrorCode::InvalidReplicaAssignment,
                "partitions should be a consecutive 0-based integer sequence",
            ));
        }
        Ok(placed)
    }

    /// One node that is there; `size` is how many the partitions before have.
    pub(super) fn check_assignment(
        &self,
        nodes: &[NodeId],
        size: Option<usize>,
    ) -> Result<NodeId, CommandError> {
        let refuse = |text: String| {
            Err(CommandError::new(
                ErrorCode::InvalidReplicaAssignment,
                format!("The manual partition assignment includes {text}"),
            ))
        };
        let mut sorted = nodes.to_vec();
        sorted.sort_unstable();
        let Some(first) = nodes.first() else {
            return refuse("an empty replica list.".to_string());
        };
        for (at, id) in sorted.iter().enumerate() {
            if self.image.node(*id).is_none() {
                return refuse(format!("broker {id}, but no such broker is registered."));
            }
            if at > 0 && sorted[at - 1] == *id {
                return refuse(format!("the broker {id} more than once."));
            }
        }
        if let Some(size) = size.filter(|size| *size != nodes.len()) {
            return refuse(format!(
                "a partition with {} replica(s), but this is not consistent with previous partitions, which have {size} replica(s).",
                nodes.len()
            ));
        }
        if nodes.len() > 1 {
            return refuse(format!(
                "{} replicas, but all nodes are one machine, which holds one copy of a partition.",
                nodes.len()
            ));
        }
        Ok(*first)
    }

    /// The record of a new partition, on `node` or on its default owner.
    pub(super) fn new_partition(
        &self,
        topic_id: TopicId,
        partition: PartitionIndex,
        node: Option<NodeId>,
    ) -> MetadataRecord {
        let (node, shard) = self.home(topic_id, partition, node);
        PartitionRecord {
            partition_id: partition.0,
            topic_id,
            replicas: vec![node.id.0],
            isr: vec![node.id.0],
            leader: node.id.0,
            leader_epoch: 0,
            partition_epoch: 0,
            directories: vec![placement::directory(shard)],
            ..PartitionRecord::default()
        }
        .into()
    }

    fn home(
        &self,
        topic_id: TopicId,
        partition: PartitionIndex,
        assigned: Option<NodeId>,
    ) -> (&Node, ShardId) {
        let owner = placement::owner(topic_id, partition, self.image.shards());
        let default = self
            .image
            .node_of_shard(owner)
            .unwrap_or_else(|| panic!("shard {owner} belongs to no node"));
        match assigned.and_then(|id| self.image.node(id)) {
            Some(node) if node.id != default.id => {
                (node, placement::within(topic_id, partition, &node.shards))
            }
            _ => (default, owner),
        }
    }
}

/// One machine holds one copy; said as Kafka says it of a cluster that is too small.
pub(super) fn check_replication_factor(factor: i16) -> Result<(), CommandError> {
    if factor == 1 {
        return Ok(());
    }
    Err(CommandError::new(
        ErrorCode::InvalidReplicationFactor,
        format!(
            "Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be reached because only 1 broker(s) are registered: all nodes are one machine, which holds one copy of a partition."
        ),
    ))
}

/// The configs of a new topic, checked. A key given twice has its last value, as in Kafka's map.
fn topic_overrides(topic: &NewTopic<'_>) -> Result<ConfigMap, CommandError> {
    let mut nulls: Vec<&str> = Vec::new();
    let mut configs = ConfigMap::new();
    for (name, value) in &topic.configs {
        match value {
            Some(value) => {
                configs.insert(Str::copy_from(name), Str::copy_from(value));
            }
            None => nulls.push(name),
        }
    }
    if !nulls.is_empty() {
        return Err(CommandError::new(
            ErrorCode::InvalidConfig,
            format!(
                "Null value not supported for topic configs: {}",
                nulls.join(",")
            ),
        ));
    }
    super::alter_configs::check_value_sizes(configs.values().map(|value| value.as_str()))?;
    config::check_topic_values(&configs, topic_name::is_internal(topic.name))?;
    Ok(configs)
}
