//! Random histories of commands: what they left in the log makes the same image again.

use proptest::prelude::*;

use super::*;
use crate::base::PartitionIndex;
use crate::metadata::config::BrokerConfig;

/// A command with small random parts; names and values repeat often, good and bad ones.
#[derive(Clone, Debug)]
enum Command {
    Create {
        name: usize,
        partitions: i32,
        node: Option<i32>,
        config: Option<(usize, usize)>,
    },
    Grow {
        name: usize,
        count: i32,
    },
    Delete {
        name: usize,
        by_id: bool,
    },
    Alter {
        kind: i8,
        name: usize,
        op: i8,
        key: usize,
        value: usize,
        replace: bool,
    },
    ProducerIds {
        node: i32,
    },
    Restart {
        nodes: u16,
        shards: u16,
    },
}

const NAMES: &[&str] = &[
    "a",
    "b.c",
    "b_c",
    "d",
    "__consumer_offsets",
    "0",
    "",
    "no such",
];
const KEYS: &[&str] = &[
    "retention.ms",
    "cleanup.policy",
    "log.retention.ms",
    "flush.messages",
    "message.max.bytes",
];
const VALUES: &[&str] = &["1", "delete", "-1", "2097152", "x"];

fn command() -> impl Strategy<Value = Command> {
    let name = 0..NAMES.len();
    let key = 0..KEYS.len();
    let value = 0..VALUES.len();
    prop_oneof![
        3 => (name.clone(), -1..9i32, proptest::option::of(0..4i32), proptest::option::of((key.clone(), value.clone())))
            .prop_map(|(name, partitions, node, config)| Command::Create { name, partitions, node, config }),
        2 => (name.clone(), 0..12i32).prop_map(|(name, count)| Command::Grow { name, count }),
        1 => (name.clone(), any::<bool>()).prop_map(|(name, by_id)| Command::Delete { name, by_id }),
        3 => (prop_oneof![Just(2i8), Just(4i8)], name, 0..4i8, key, value, any::<bool>())
            .prop_map(|(kind, name, op, key, value, replace)| Command::Alter { kind, name, op, key, value, replace }),
        1 => (0..4i32).prop_map(|node| Command::ProducerIds { node }),
        1 => (1..7u16, 1..7u16).prop_map(|(a, b)| Command::Restart { nodes: a.min(b), shards: a.max(b) }),
    ]
}

impl Cluster {
    fn run(&mut self, command: &Command) {
        match command {
            Command::Create {
                name,
                partitions,
                node,
                config,
            } => {
                let mut topic = NewTopic::named(NAMES[*name]);
                match node {
                    Some(node) => {
                        let assignment = |partition| Assignment {
                            partition,
                            nodes: vec![NodeId(*node)],
                        };
                        topic.assignments = (0..*partitions).map(assignment).collect();
                    }
                    None => topic.partitions = *partitions,
                }
                topic.configs = config
                    .iter()
                    .map(|(key, value)| (KEYS[*key], Some(VALUES[*value])))
                    .collect();
                self.create(&[topic]);
            }
            Command::Grow { name, count } => {
                let request = NewPartitions {
                    name: NAMES[*name],
                    count: *count,
                    assignments: None,
                };
                let outcome = self.controller.create_partitions(&[request], false);
                self.commit(outcome);
            }
            Command::Delete { name, by_id } => {
                let id = self
                    .image()
                    .topic(NAMES[*name])
                    .map_or(Uuid([1; 16]), |topic| topic.id);
                let topic = match by_id {
                    true => TopicRef { name: None, id },
                    false => TopicRef {
                        name: Some(NAMES[*name]),
                        id: Uuid::ZERO,
                    },
                };
                let outcome = self.controller.delete_topics(&[topic]);
                self.commit(outcome);
            }
            Command::Alter {
                kind,
                name,
                op,
                key,
                value,
                replace,
            } => {
                let op = AlterOp {
                    name: KEYS[*key],
                    op: *op,
                    value: Some(VALUES[*value]),
                };
                let resource = AlterResource {
                    kind: *kind,
                    name: NAMES[*name],
                    ops: vec![op],
                };
                let outcome = match replace {
                    true => self.controller.alter_configs(&[resource], false),
                    false => self
                        .controller
                        .incremental_alter_configs(&[resource], false),
                };
                self.commit(outcome);
            }
            Command::ProducerIds { node } => {
                let outcome = self.controller.allocate_producer_ids(NodeId(*node));
                self.commit(outcome);
            }
            Command::Restart { nodes, shards } => {
                let outcome = self.controller.register(&machine(*nodes, *shards));
                self.commit(outcome);
            }
        }
    }

    /// What must hold in every image.
    fn check(&self) {
        let image = self.image();
        let mut partitions = 0;
        for topic in image.topics() {
            assert!(!topic.partitions.is_empty(), "{topic:?}");
            partitions += topic.partitions.len();
            assert!(Arc::ptr_eq(image.topic(&topic.name).unwrap(), topic));
            for (index, state) in (0..).map(PartitionIndex).zip(&topic.partitions) {
                assert_eq!(image.partition(topic.id, index), Some(state));
                let leader = state.leader.expect("a leader");
                let node = image.node(leader).expect("a registered leader");
                assert!(node.shards.contains(&state.shard), "{state:?} on {node:?}");
                assert_eq!(state.replicas.as_slice(), [leader]);
                assert_eq!(state.isr.as_slice(), [leader]);
            }
        }
        assert_eq!(image.partition_count(), partitions);
        // Whatever was let in can be resolved.
        let layers = self.controller.layers();
        BrokerConfig::resolve(layers);
        for topic in image.topics() {
            crate::metadata::config::TopicConfig::resolve(layers, image.topic_config(&topic.name));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn replayed_records_give_the_same_image(commands in proptest::collection::vec(command(), 1..60)) {
        let mut cluster = Cluster::new(2, 3);
        for command in &commands {
            let before = cluster.image().clone();
            let epochs: Vec<_> = before.topics().cloned().collect();
            cluster.run(command);
            cluster.check();
            for old in epochs {
                let Some(new) = cluster.image().topic_by_id(old.id) else { continue };
                for (a, b) in old.partitions.iter().zip(&new.partitions) {
                    let moved = a.leader != b.leader || a.shard != b.shard;
                    prop_assert_eq!(b.leader_epoch.0, a.leader_epoch.0 + i32::from(moved));
                }
            }
        }
        let mut fresh = Controller::new(Image::empty(Str::from("cluster")), Arc::default());
        for (record, offset) in cluster.log.iter().zip(0..) {
            let decoded = MetadataRecord::decode(record.encode());
            prop_assert_eq!(decoded.as_ref(), Ok(record));
            fresh.replay(&decoded.unwrap(), Offset(offset)).unwrap();
        }
        prop_assert_eq!(&**fresh.image(), cluster.image());
    }
}
