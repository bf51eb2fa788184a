//! Topics are made, grown, deleted and placed as Apache Kafka 4.4.0 does it; texts are the ones it answered.

use super::*;
use crate::base::{ErrorCode, LeaderEpoch, PartitionIndex, limits};
use crate::metadata::config::Source;
use crate::metadata::placement;

fn assigned(name: &str, nodes: &[&[i32]]) -> NewTopic<'static> {
    let assignment = |(partition, nodes): (i32, &&[i32])| Assignment {
        partition,
        nodes: nodes.iter().map(|id| NodeId(*id)).collect(),
    };
    NewTopic {
        assignments: (0..).zip(nodes).map(assignment).collect(),
        ..NewTopic::named(Box::leak(name.to_string().into_boxed_str()))
    }
}

#[test]
fn g45_create_topics_refusals_have_kafkas_words() {
    let mut cluster = Cluster::new(2, 2);
    cluster.create_plain("a.b", 1);
    cluster.create_plain("taken", 1);
    let plain = |name, partitions, replication_factor| NewTopic {
        partitions,
        replication_factor,
        ..NewTopic::named(name)
    };
    let mut sized = assigned("x", &[&[0]]);
    sized.partitions = 1;
    let mut replicated = assigned("x", &[&[0]]);
    replicated.replication_factor = 1;
    let mut gap = assigned("x", &[&[0], &[0]]);
    gap.assignments[1].partition = 2;
    let mut double = assigned("x", &[&[0], &[0]]);
    double.assignments[1].partition = 0;
    for (topic, text) in [
        (
            plain("", 1, 1),
            "INVALID_TOPIC_EXCEPTION: Topic name is invalid: the empty string is not allowed",
        ),
        (
            plain("taken", 1, 1),
            "TOPIC_ALREADY_EXISTS: Topic 'taken' already exists.",
        ),
        (
            plain("a_b", 1, 1),
            "INVALID_TOPIC_EXCEPTION: Topic 'a_b' collides with existing topic: a.b",
        ),
        (
            plain("__cluster_metadata", 1, 1),
            "INVALID_REQUEST: Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            plain("x", 0, 1),
            "INVALID_PARTITIONS: Number of partitions was set to an invalid non-positive value.",
        ),
        (
            plain("x", -2, 1),
            "INVALID_PARTITIONS: Number of partitions was set to an invalid non-positive value.",
        ),
        (
            plain("x", 1, 0),
            "INVALID_REPLICATION_FACTOR: Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            plain("x", 1, -2),
            "INVALID_REPLICATION_FACTOR: Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            assigned("x", &[&[9]]),
            "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            assigned("x", &[&[0, 0]]),
            "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes the broker 0 more than once.",
        ),
        (
            assigned("x", &[&[]]),
            "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list.",
        ),
        (
            assigned("x", &[&[0], &[0, 1]]),
            "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with previous partitions, which have 1 replica(s).",
        ),
        (
            gap,
            "INVALID_REPLICA_ASSIGNMENT: partitions should be a consecutive 0-based integer sequence",
        ),
        (
            double,
            "INVALID_REPLICA_ASSIGNMENT: Found multiple manual partition assignments for partition 0",
        ),
        (
            sized,
            "INVALID_REQUEST: A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            replicated,
            "INVALID_REQUEST: A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
    ] {
        let before = cluster.log.len();
        let results = cluster.create(std::slice::from_ref(&topic));
        assert_eq!(refusal(&results[0]), text, "{topic:?}");
        assert_eq!(
            cluster.log.len(),
            before,
            "a refused topic leaves no record"
        );
    }
}

#[test]
fn replication_above_one_is_refused_though_there_are_two_nodes() {
    let mut cluster = Cluster::new(2, 2);
    let topic = NewTopic {
        partitions: 3,
        replication_factor: 2,
        ..NewTopic::named("x")
    };
    let text = refusal(&cluster.create(&[topic])[0]);
    assert!(text.starts_with("INVALID_REPLICATION_FACTOR: Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 broker(s) are registered"), "{text}");
    let text = refusal(&cluster.create(&[assigned("x", &[&[0, 1]])])[0]);
    assert!(text.starts_with("INVALID_REPLICA_ASSIGNMENT"), "{text}");
}

#[test]
fn defaults_are_the_brokers_and_the_answer_says_what_was_made() {
    let mut statics = StaticConfig::default();
    statics.set("num.partitions", "5").unwrap();
    let mut cluster = Cluster::with_statics(2, 2, statics);
    let topic = NewTopic {
        configs: vec![("retention.ms", Some("1000"))],
        ..NewTopic::named("x")
    };
    let created = cluster.create(&[topic]).remove(0).unwrap();
    assert_eq!((created.partitions, created.replication_factor), (5, 1));
    let entry = |name| created.configs.iter().find(|e| e.name == name).unwrap();
    assert_eq!(entry("retention.ms").value.as_deref(), Some("1000"));
    assert_eq!(entry("retention.ms").source, Source::DynamicTopic);
    assert_eq!(entry("segment.bytes").source, Source::Default);
    assert_eq!(cluster.image().partition_count(), 5);
    assert_eq!(
        cluster.image().topic("x").map(|topic| topic.id),
        Some(created.id)
    );
}

#[test]
fn a_name_given_twice_is_refused_and_the_others_are_made() {
    let mut cluster = Cluster::new(1, 1);
    let topics = ["x", "y", "x"].map(NewTopic::named);
    let ids = cluster.ids();
    let outcome = cluster.controller.create_topics(&topics, false, ids);
    let response = cluster.commit(outcome);
    let names: Vec<&str> = response.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["y", "x"]);
    assert!(response[0].1.is_ok());
    assert_eq!(
        refusal(&response[1].1),
        "INVALID_REQUEST: Duplicate topic name."
    );
    assert!(cluster.image().topic("x").is_none());
}

#[test]
fn validate_only_answers_and_changes_nothing() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("there", 1);
    let ids = cluster.ids();
    let topics = [NewTopic::named("x"), NewTopic::named("there")];
    let outcome = cluster.controller.create_topics(&topics, true, ids);
    assert_eq!(outcome.records, []);
    assert!(outcome.response[0].1.is_ok());
    assert!(outcome.response[1].1.is_err());
    let grown = [NewPartitions {
        name: "there",
        count: 4,
        assignments: None,
    }];
    let outcome = cluster.controller.create_partitions(&grown, true);
    assert_eq!(
        (outcome.records.len(), outcome.response[0].1.is_ok()),
        (0, true)
    );
}

#[test]
fn too_many_partitions_refuse_the_whole_request() {
    let mut cluster = Cluster::new(1, 1);
    cluster.create_plain("there", 1);
    let max = limits::PARTITIONS_PER_REQUEST_MAX as i32;
    let topic = |name, partitions| NewTopic {
        partitions,
        ..NewTopic::named(name)
    };
    let text = "POLICY_VIOLATION: Excessively large number of partitions per request.";
    for result in cluster.create(&[topic("x", max), topic("y", 1)]) {
        assert_eq!(refusal(&result), text);
    }
    for result in cluster.create(&[topic("x", i32::MAX), topic("y", i32::MAX)]) {
        assert_eq!(refusal(&result), text);
    }
    assert!(cluster.create(&[topic("x", max)])[0].is_ok());
    let grow = |count| NewPartitions {
        name: "there",
        count,
        assignments: None,
    };
    let outcome = cluster
        .controller
        .create_partitions(&[grow(max + 2)], false);
    assert_eq!(
        refusal(&outcome.response[0].1),
        "POLICY_VIOLATION: Excessively large number of additional partitions per request."
    );
    let outcome = cluster
        .controller
        .create_partitions(&[grow(max + 1)], false);
    assert_eq!(outcome.records.len(), max as usize);
}

#[test]
fn g45_create_partitions_refusals_have_kafkas_words() {
    let mut cluster = Cluster::new(2, 2);
    cluster.create_plain("one", 1);
    cluster.create_plain("two", 2);
    let grow = |name, count, nodes: Option<&[&[i32]]>| NewPartitions {
        name,
        count,
        assignments: nodes.map(|lists| {
            let ids = |list: &&[i32]| list.iter().map(|id| NodeId(*id)).collect();
            lists.iter().map(ids).collect()
        }),
    };
    for (request, text) in [
        (
            grow("one", 1, None),
            "INVALID_PARTITIONS: Topic already has 1 partition(s).",
        ),
        (
            grow("two", 1, None),
            "INVALID_PARTITIONS: The topic two currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            grow("one", -1, None),
            "INVALID_PARTITIONS: The topic one currently has 1 partition(s); -1 would not be an increase.",
        ),
        (grow("none", 3, None), "UNKNOWN_TOPIC_OR_PARTITION"),
        (
            grow("one", 3, Some(&[&[0]])),
            "INVALID_REPLICA_ASSIGNMENT: Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            grow("one", 2, Some(&[&[7]])),
            "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            grow("one", 2, Some(&[&[]])),
            "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list.",
        ),
    ] {
        let outcome = cluster.controller.create_partitions(&[request], false);
        assert_eq!(refusal(&outcome.response[0].1), text);
        assert_eq!(outcome.records, []);
    }
    let outcome = cluster
        .controller
        .create_partitions(&[grow("one", 3, Some(&[&[1], &[1]]))], false);
    cluster.commit(outcome)[0].1.clone().unwrap();
    let topic = cluster.image().topic("one").unwrap();
    let leaders: Vec<_> = topic.partitions.iter().map(|p| p.leader).collect();
    assert_eq!(leaders[1..], [Some(NodeId(1)), Some(NodeId(1))]);
}

#[test]
fn g27_a_topic_made_anew_has_another_id() {
    let mut cluster = Cluster::new(1, 1);
    let first = cluster.create_plain("x", 2);
    let by_name = TopicRef {
        name: Some("x"),
        id: Uuid::ZERO,
    };
    let outcome = cluster.controller.delete_topics(&[by_name]);
    let deleted = cluster.commit(outcome);
    assert_eq!(deleted[0].id, first);
    assert_eq!(cluster.image().partition_count(), 0);
    let second = cluster.create_plain("x", 1);
    assert_ne!(first, second);
    assert!(cluster.image().topic_by_id(first).is_none());
    assert_eq!(cluster.image().topic_by_id(second).unwrap().name, "x");
}

#[test]
fn topics_are_deleted_by_name_or_id_each_for_itself() {
    let mut cluster = Cluster::new(1, 1);
    let x = cluster.create_plain("x", 1);
    cluster.create_plain("y", 1);
    let unknown = Uuid([3; 16]);
    let name = |name| TopicRef {
        name: Some(name),
        id: Uuid::ZERO,
    };
    let id = |id| TopicRef { name: None, id };
    let both = TopicRef {
        name: Some("q"),
        id: x,
    };
    let outcome = cluster.controller.delete_topics(&[
        id(x),
        name("x"),
        name("none"),
        id(unknown),
        id(Uuid::ZERO),
        both,
        name("y"),
        name("y"),
    ]);
    let texts: Vec<String> = outcome
        .response
        .iter()
        .map(|d| match &d.result {
            Ok(()) => "ok".to_string(),
            refused => refusal(refused),
        })
        .collect();
    assert_eq!(
        texts,
        [
            "ok",
            "INVALID_REQUEST: The provided topic name maps to an ID that was already supplied.",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNKNOWN_TOPIC_ID",
            "INVALID_REQUEST: Neither topic name nor id were specified.",
            "INVALID_REQUEST: You may not specify both topic name and topic id.",
            "INVALID_REQUEST: Duplicate topic name.",
        ]
    );
    cluster.commit(outcome);
    assert!(cluster.image().topic("x").is_none());
    assert!(cluster.image().topic("y").is_some());
}

#[test]
fn deletion_can_be_switched_off() {
    let mut statics = StaticConfig::default();
    statics.set("delete.topic.enable", "false").unwrap();
    let mut cluster = Cluster::with_statics(1, 1, statics);
    cluster.create_plain("x", 1);
    let name = TopicRef {
        name: Some("x"),
        id: Uuid::ZERO,
    };
    let outcome = cluster.controller.delete_topics(&[name]);
    assert_eq!(
        outcome.response[0].result.as_ref().unwrap_err().code,
        ErrorCode::TopicDeletionDisabled
    );
}

#[test]
fn internal_topic_on_demand_has_its_own_configs() {
    let mut cluster = Cluster::new(1, 1);
    let topic = cluster
        .controller
        .topic_on_demand("__consumer_offsets", "104857600");
    assert_eq!(cluster.create(&[topic])[0].as_ref().unwrap().partitions, 50);
    assert!(
        cluster
            .image()
            .topic("__consumer_offsets")
            .unwrap()
            .is_internal()
    );
    let configs = cluster.image().topic_config("__consumer_offsets");
    assert_eq!(configs.get("cleanup.policy").unwrap(), "compact");
    let topic = cluster.controller.topic_on_demand("user", "104857600");
    assert_eq!(cluster.create(&[topic])[0].as_ref().unwrap().partitions, 1);
}

#[test]
fn g42_every_leader_is_a_registered_node() {
    let mut cluster = Cluster::new(3, 8);
    cluster.create_plain("x", 40);
    let image = cluster.image();
    assert!(image.controller().is_some());
    for partition in &image.topic("x").unwrap().partitions {
        let node = image.node(partition.leader.unwrap()).expect("registered");
        assert!(node.shards.contains(&partition.shard));
    }
}

#[test]
fn another_core_count_moves_what_placement_moves_with_a_new_epoch() {
    let mut cluster = Cluster::new(2, 2);
    let id = cluster.create_plain("x", 12);
    let other = 1 - cluster
        .image()
        .partition(id, PartitionIndex(0))
        .unwrap()
        .shard
        .0;
    // Put on the other node than placement would.
    let pinned = NewTopic {
        assignments: vec![Assignment {
            partition: 0,
            nodes: vec![NodeId(i32::from(other))],
        }],
        ..NewTopic::named("pinned")
    };
    let pinned_id = cluster.create(&[pinned]).remove(0).unwrap().id;
    let pinned_by_chance = placement::owner(pinned_id, PartitionIndex(0), 2) == ShardId(other);

    let same = cluster.controller.register(&machine(2, 2));
    assert_eq!(same.response, 0, "the same machine moves nothing");
    cluster.commit(same);

    let outcome = cluster.controller.register(&machine(5, 5));
    let moved = cluster.commit(outcome);
    let image = cluster.image();
    let mut changed = 0;
    for (index, partition) in (0..)
        .map(PartitionIndex)
        .zip(&image.topic("x").unwrap().partitions)
    {
        let owner = placement::owner(id, index, 5);
        assert_eq!(partition.shard, owner);
        assert_eq!(
            partition.leader,
            Some(image.node_of_shard(owner).unwrap().id)
        );
        assert_eq!(partition.isr.as_slice(), [partition.leader.unwrap()]);
        let before = placement::owner(id, index, 2);
        let epoch = LeaderEpoch(i32::from(before != owner));
        assert_eq!(partition.leader_epoch, epoch);
        changed += epoch.0 as usize;
    }
    if !pinned_by_chance {
        let pinned = image.partition(pinned_id, PartitionIndex(0)).unwrap();
        assert_eq!(pinned.leader, Some(NodeId(i32::from(other))));
        assert_eq!(pinned.leader_epoch, LeaderEpoch(0));
        assert_eq!(moved, changed);
    }

    let outcome = cluster.controller.register(&machine(1, 1));
    cluster.commit(outcome);
    let image = cluster.image();
    assert_eq!(
        image.nodes().len(),
        1,
        "nodes that are gone are unregistered"
    );
    for topic in image.topics() {
        assert!(topic.partitions.iter().all(|p| p.leader == Some(NodeId(0))));
    }
}

#[test]
fn g20_producer_ids_never_repeat() {
    let mut cluster = Cluster::new(2, 2);
    let mut next = 0;
    for node in [0, 1, 0, 1] {
        let outcome = cluster.controller.allocate_producer_ids(NodeId(node));
        let block = cluster.commit(outcome);
        assert_eq!((block.first.0, block.count), (next, 1000));
        next += block.count;
    }
}
