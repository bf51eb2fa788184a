//! A start of the machine: its nodes and shards are registered, and partitions move to where they live now.
//! Part of the controller; called once, after the log is replayed.
//! Always: a partition that was where placement put it goes where placement puts it now; one that was put elsewhere on request stays
//! on its node while that node is there. A leader epoch grows only when its partition moves.
//! Logs do not move: every shard reads the same data directory.

use super::{Controller, Outcome};
use crate::base::{NodeId, PartitionIndex, ShardId, Uuid};
use crate::metadata::image::{Image, PartitionState, Topic};
use crate::metadata::placement;
use crate::metadata::records::MetadataRecord;
use crate::wire::Str;
use crate::wire::messages::metadata_records::{
    BrokerEndpoint, BrokerFeature, FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord,
    UnregisterBrokerRecord,
};

/// What this start of the process is.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Ids ascending; their shards are `0..n` without a gap.
    pub nodes: Vec<MachineNode>,
    pub rack: Option<Str>,
    /// Random, new at every start.
    pub incarnation: Uuid,
}

/// One node of the machine.
#[derive(Clone, Debug)]
pub struct MachineNode {
    pub id: NodeId,
    /// The address clients are told.
    pub host: Str,
    pub port: u16,
    pub shards: Vec<ShardId>,
}

/// `metadata.version` of Kafka 4.4 (4.4-IV2): the record versions that are written.
const METADATA_VERSION: i16 = 33;
/// The oldest one whose records could be read (3.3-IV3).
const METADATA_VERSION_MIN: i16 = 7;
const METADATA_VERSION_FEATURE: &str = "metadata.version";

impl Controller {
    /// Registers the nodes of this start; how many partitions move.
    pub fn register(&self, machine: &Machine) -> Outcome<usize> {
        let mut records: Vec<MetadataRecord> = Vec::new();
        if !self.image.features().contains_key(METADATA_VERSION_FEATURE) {
            // Readers of a metadata log look for it first.
            let record = FeatureLevelRecord {
                name: Str::from_static(METADATA_VERSION_FEATURE),
                feature_level: METADATA_VERSION,
            };
            records.push(record.into());
        }
        for node in &machine.nodes {
            let epoch = self.image.offset().next().plus(records.len() as i64).0;
            records.push(registration(machine, node, epoch).into());
        }
        let before = records.len();
        let shards: Vec<(ShardId, NodeId)> = shards_of(machine);
        for topic in self.image.topics() {
            for (index, state) in (0..).zip(&topic.partitions) {
                let partition = PartitionIndex(index);
                let (node, shard) =
                    new_home(&self.image, topic, partition, state, machine, &shards);
                if state.leader != Some(node) || state.shard != shard {
                    records.push(moved(topic, partition, node, shard).into());
                }
            }
        }
        let moves = records.len() - before;
        for node in self.image.nodes() {
            if !machine.nodes.iter().any(|new| new.id == node.id) {
                let record = UnregisterBrokerRecord {
                    broker_id: node.id.0,
                    broker_epoch: node.epoch,
                };
                records.push(record.into());
            }
        }
        Outcome {
            records,
            response: moves,
        }
    }
}

/// Each shard with its node, by shard.
fn shards_of(machine: &Machine) -> Vec<(ShardId, NodeId)> {
    let of_node = |node: &MachineNode| {
        let id = node.id;
        node.shards
            .clone()
            .into_iter()
            .map(move |shard| (shard, id))
    };
    let mut shards: Vec<_> = machine.nodes.iter().flat_map(of_node).collect();
    shards.sort_unstable();
    for (expected, (shard, node)) in (0..).zip(&shards) {
        assert!(
            shard.0 == expected,
            "shard {shard} of node {node} where {expected} was expected"
        );
    }
    shards
}

fn registration(machine: &Machine, node: &MachineNode, epoch: i64) -> RegisterBrokerRecord {
    assert!(!node.shards.is_empty(), "node {} has no shard", node.id);
    RegisterBrokerRecord {
        broker_id: node.id.0,
        incarnation_id: machine.incarnation,
        broker_epoch: epoch,
        end_points: vec![BrokerEndpoint {
            name: Str::from_static("PLAINTEXT"),
            host: node.host.clone(),
            port: node.port,
            security_protocol: 0,
        }],
        features: vec![BrokerFeature {
            name: Str::from_static(METADATA_VERSION_FEATURE),
            min_supported_version: METADATA_VERSION_MIN,
            max_supported_version: METADATA_VERSION,
        }],
        rack: machine.rack.clone(),
        fenced: false,
        log_dirs: node
            .shards
            .iter()
            .map(|shard| placement::directory(*shard))
            .collect(),
        ..RegisterBrokerRecord::default()
    }
}

/// Where a partition lives on this start. `old` is the image of the last one.
fn new_home(
    old: &Image,
    topic: &Topic,
    partition: PartitionIndex,
    state: &PartitionState,
    machine: &Machine,
    shards: &[(ShardId, NodeId)],
) -> (NodeId, ShardId) {
    let old_shards = old.shards();
    let was_default = old_shards > 0 && {
        let owner = placement::owner(topic.id, partition, old_shards);
        let node = old.node_of_shard(owner).map(|node| node.id);
        state.shard == owner && state.leader == node
    };
    let assigned = machine
        .nodes
        .iter()
        .find(|node| !was_default && state.leader == Some(node.id));
    if let Some(node) = assigned {
        let shard = if node.shards.contains(&state.shard) {
            state.shard
        } else {
            placement::within(topic.id, partition, &node.shards)
        };
        return (node.id, shard);
    }
    let count = u16::try_from(shards.len()).unwrap_or_else(|_| panic!("{} shards", shards.len()));
    let owner = placement::owner(topic.id, partition, count);
    let (shard, node) = shards[usize::from(owner.0)];
    (node, shard)
}

/// The leader is named even if only its shard changes: the epoch grows with every move.
fn moved(
    topic: &Topic,
    partition: PartitionIndex,
    node: NodeId,
    shard: ShardId,
) -> PartitionChangeRecord {
    PartitionChangeRecord {
        partition_id: partition.0,
        topic_id: topic.id,
        isr: Some(vec![node.0]),
        leader: node.0,
        replicas: Some(vec![node.0]),
        directories: Some(vec![placement::directory(shard)]),
        ..PartitionChangeRecord::default()
    }
}
