//! Committed offsets: who may commit, what is seen when, and how long it is kept.

use super::*;

const DAY_MS: u64 = 86_400_000;

fn commit_by(member_id: &str, generation: i32, offset: i64) -> OffsetCommit {
    OffsetCommit {
        generation,
        member_id: member_id.into(),
        ..simple_commit(offset)
    }
}

#[test]
fn g38_a_simple_consumer_commits_while_the_group_is_empty() {
    let mut bench = Bench::eager();
    assert_eq!(bench.offset(), -1);
    assert_eq!(bench.commit_one(simple_commit(5)), ErrorCode::None);
    assert_eq!(bench.offset(), 5);
    assert_eq!(bench.state(), "Empty");
    let (leader, _) = bench.two_members();
    assert_eq!(
        bench.commit_one(simple_commit(6)),
        ErrorCode::UnknownMemberId
    );
    let with_id = commit_by(&leader, -1, 6);
    assert_eq!(bench.commit_one(with_id), ErrorCode::IllegalGeneration);
    assert_eq!(bench.offset(), 5);
}

#[test]
fn g38_members_commit_in_their_generation() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    assert_eq!(bench.commit_one(commit_by(&leader, 2, 7)), ErrorCode::None);
    let stale = bench.commit_one(commit_by(&leader, 1, 8));
    assert_eq!(stale, ErrorCode::IllegalGeneration);
    let unknown = bench.commit_one(commit_by("m", 2, 8));
    assert_eq!(unknown, ErrorCode::UnknownMemberId);
    // While members rejoin, the old generation may still commit: that is what cooperative consumers do.
    let tokens = [bench.join(member(&leader))];
    assert_eq!(
        bench.commit_one(commit_by(&follower, 2, 9)),
        ErrorCode::None
    );
    let tokens = [tokens[0], bench.join(member(&follower))];
    bench.form(3, &tokens);
    let early = bench.commit_one(commit_by(&leader, 3, 10));
    assert_eq!(early, ErrorCode::RebalanceInProgress);
    assert_eq!(bench.offset(), 9);
}

#[test]
fn g38_a_missing_group_is_named_so_from_version_9() {
    let mut bench = Bench::eager();
    for (version, error) in [
        (2, ErrorCode::IllegalGeneration),
        (8, ErrorCode::IllegalGeneration),
        (9, ErrorCode::GroupIdNotFound),
        (10, ErrorCode::GroupIdNotFound),
    ] {
        let token = bench.token();
        let request = commit_by("m", 1, 1);
        bench
            .coordinator
            .commit_offsets(bench.now, &context(version), request, token);
        bench.run();
        assert_eq!(bench.committed(token), error);
    }
}

#[test]
fn g38_metadata_is_limited_per_partition_as_java_counts_it() {
    let mut bench = Bench::eager();
    let mut request = simple_commit(1);
    let partition = |index: i32, metadata: String| CommitPartition {
        partition: PartitionIndex(index),
        offset: 1,
        leader_epoch: -1,
        metadata: Some(metadata),
    };
    request.topics[0].partitions = vec![
        partition(0, "x".repeat(4096)),
        partition(1, "x".repeat(4097)),
        // 4096 UTF-16 units in three times as many bytes.
        partition(2, "日".repeat(4096)),
        partition(3, "😀".repeat(2049)),
    ];
    let token = bench.commit(request);
    let Some(Reply::OffsetCommit(reply)) = bench.replies.remove(&token) else {
        panic!("no answer");
    };
    let errors: Vec<_> = reply.topics[0].partitions.iter().map(|p| p.1).collect();
    let too_large = ErrorCode::OffsetMetadataTooLarge;
    let none = ErrorCode::None;
    assert_eq!(errors, [none, too_large, none, too_large]);
    assert_eq!(bench.log.len(), 2, "the others are not written");
}

#[test]
fn g33_an_offset_is_answered_and_seen_once_it_is_durable() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(1));
    bench.slow_disk = true;
    let commit = bench.commit(simple_commit(2));
    assert!(bench.is_held(commit));
    assert_eq!(bench.offset(), 1);
    let stable = bench.fetch(OffsetFetch {
        require_stable: true,
        ..fetch_one()
    });
    assert!(bench.is_held(stable), "it waits for what is in flight");
    bench.settle(Ok(()));
    assert_eq!(bench.committed(commit), ErrorCode::None);
    let fetched = bench.fetched(stable);
    assert_eq!(fetched.topics[0].partitions[0].offset, 2);
}

#[test]
fn an_offset_that_is_not_written_leaves_the_one_before() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(1));
    bench.slow_disk = true;
    let tokens = [
        bench.commit(simple_commit(2)),
        bench.commit(simple_commit(3)),
    ];
    bench.settle(Err(ErrorCode::NotEnoughReplicas));
    let refused = bench.committed(tokens[0]);
    assert_eq!(refused, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(bench.offset(), 1);
    bench.settle(Ok(()));
    assert_eq!(bench.offset(), 3);
}

#[test]
fn a_group_made_by_a_commit_that_is_not_written_goes_again() {
    let mut bench = Bench::eager();
    bench.slow_disk = true;
    let token = bench.commit(simple_commit(2));
    bench.settle(Err(ErrorCode::KafkaStorageError));
    assert_eq!(bench.committed(token), ErrorCode::NotCoordinator);
    assert_eq!(bench.state(), "Dead");
}

#[test]
fn g38_fetching_all_gives_what_is_there_and_unknown_partitions_have_offset_minus_1() {
    let mut bench = Bench::eager();
    let all = OffsetFetch {
        topics: None,
        ..fetch_one()
    };
    let token = bench.fetch(all.clone());
    let fetched = bench.fetched(token);
    assert_eq!((fetched.error, fetched.topics.len()), (ErrorCode::None, 0));
    bench.commit_one(simple_commit(4));
    let token = bench.fetch(all);
    let fetched = bench.fetched(token);
    assert_eq!(fetched.topics.len(), 1);
    assert_eq!(fetched.topics[0].topic_id, Uuid::ZERO);
    let partition = &fetched.topics[0].partitions[0];
    assert_eq!((partition.offset, partition.leader_epoch), (4, 3));
    assert_eq!(partition.metadata, "note");
    let token = bench.fetch(OffsetFetch {
        topics: Some(vec![FetchTopic {
            name: "t".into(),
            topic_id: Uuid::ZERO,
            partitions: vec![PartitionIndex(9)],
        }]),
        ..fetch_one()
    });
    let partition = &bench.fetched(token).topics[0].partitions[0];
    assert_eq!((partition.offset, partition.leader_epoch), (-1, -1));
    assert_eq!(
        (partition.metadata.as_str(), partition.error),
        ("", ErrorCode::None)
    );
}

#[test]
fn an_offset_of_an_earlier_topic_of_the_same_name_is_not_given() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(4));
    for (topic_id, offset) in [(Uuid::ZERO, 4), (Uuid([7; 16]), 4), (Uuid([8; 16]), -1)] {
        let mut request = fetch_one();
        let topics = request.topics.as_mut().expect("there is one");
        topics[0].topic_id = topic_id;
        let token = bench.fetch(request);
        assert_eq!(bench.fetched(token).topics[0].partitions[0].offset, offset);
    }
}

#[test]
fn g38_offsets_of_a_simple_consumer_expire_from_their_commit() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(1));
    bench.advance(6 * DAY_MS);
    assert_eq!(bench.offset(), 1);
    bench.commit_one(simple_commit(2));
    bench.advance(6 * DAY_MS);
    assert_eq!(bench.offset(), 2);
    bench.advance(DAY_MS + 600_000);
    assert_eq!(bench.offset(), -1);
    assert_eq!(bench.state(), "Dead", "nothing is left of the group");
    bench.restart();
    assert_eq!((bench.offset(), bench.state()), (-1, "Dead"));
}

#[test]
fn g38_offsets_of_a_group_expire_from_when_it_became_empty() {
    let mut bench = Bench::eager();
    let (leader, join) = bench.enter(consumer());
    bench.joined(join);
    let sync = bench.sync(&leader, 1, &[]);
    bench.synced(sync);
    bench.commit_one(commit_by(&leader, 1, 1));
    // A consumer group whose subscription can't be read may still read the topic: nothing expires while it lives.
    for _ in 0..8 * 24 * 450 {
        bench.advance(8_000);
        bench.heartbeat(&leader, 1);
    }
    assert_eq!(bench.offset(), 1);
    bench.leave(&leader);
    bench.advance(6 * DAY_MS);
    assert_eq!(bench.offset(), 1);
    bench.restart();
    bench.advance(DAY_MS - 1_200_000);
    assert_eq!(bench.offset(), 1, "the time of becoming empty is on disk");
    bench.advance(1_800_000);
    assert_eq!(bench.offset(), -1);
    assert_eq!(bench.state(), "Dead");
}

/// A `ConsumerProtocolSubscription` of version 1.
fn subscription(topic: &str) -> String {
    let length = char::from(topic.len() as u8);
    format!("\0\u{1}\0\0\0\u{1}\0{length}{topic}\0\0\0\0\0\0\0\0")
}

#[test]
fn offsets_of_topics_that_a_stable_group_no_longer_reads_expire() {
    let mut bench = Bench::eager();
    let (leader, join) = bench.enter(JoinRequest {
        protocols: vec![protocol("range", &subscription("other"))],
        ..consumer()
    });
    bench.joined(join);
    let sync = bench.sync(&leader, 1, &[]);
    bench.synced(sync);
    bench.commit_one(commit_by(&leader, 1, 1));
    let mut other = commit_by(&leader, 1, 2);
    other.topics[0].name = "other".into();
    bench.commit_one(other);
    for _ in 0..8 * 24 * 450 {
        bench.advance(8_000);
        bench.heartbeat(&leader, 1);
    }
    assert_eq!(bench.offset(), -1);
    let token = bench.fetch(OffsetFetch {
        topics: None,
        ..fetch_one()
    });
    let left = bench.fetched(token);
    assert_eq!(left.topics.len(), 1);
    assert_eq!(left.topics[0].name, "other", "it is read, so it is kept");
}

#[test]
fn g38_a_commit_may_bring_its_own_retention_time() {
    let mut bench = Bench::eager();
    bench.commit_one(OffsetCommit {
        retention_time_ms: 3_600_000,
        ..simple_commit(1)
    });
    bench.restart();
    bench.advance(3_000_000);
    assert_eq!(bench.offset(), 1);
    bench.advance(1_200_000);
    assert_eq!(bench.offset(), -1);
}

#[test]
fn expiry_respects_a_commit_in_flight() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(1));
    bench.advance(7 * DAY_MS - 300_000);
    bench.slow_disk = true;
    let commit = bench.commit(simple_commit(2));
    bench.advance(1_200_000);
    assert_eq!(bench.appends.len(), 1, "no tombstone");
    bench.slow_disk = false;
    bench.run();
    assert_eq!(bench.committed(commit), ErrorCode::None);
    bench.restart();
    assert_eq!(bench.offset(), 2);
}

#[test]
fn many_expired_offsets_are_written_in_parts() {
    let mut bench = Bench::eager();
    let mut request = simple_commit(1);
    let first = request.topics[0].partitions[0].clone();
    let partitions = (0..1_200).map(|index| CommitPartition {
        partition: PartitionIndex(index),
        ..first.clone()
    });
    request.topics[0].partitions = partitions.collect();
    bench.commit_one(request);
    bench.slow_disk = true;
    bench.advance(7 * DAY_MS + 600_000);
    let sizes: Vec<_> = bench.appends.iter().map(|a| a.records.len()).collect();
    assert_eq!(sizes, [500, 500, 201]);
    bench.settle(Ok(()));
    bench.settle(Err(ErrorCode::NotEnoughReplicas));
    assert_eq!(bench.state(), "Empty", "what is left belongs to a group");
    bench.settle(Ok(()));
    assert_eq!(bench.coordinator.offsets.all_committed("g").count(), 500);
    // The next time gets the rest.
    bench.slow_disk = false;
    bench.advance(600_000);
    assert_eq!((bench.offset(), bench.state()), (-1, "Dead"));
}

#[test]
fn offsets_of_a_deleted_topic_go_and_those_of_its_successor_stay() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(1));
    let mut other = simple_commit(2);
    other.topics[0].name = "u".into();
    bench.commit_one(other);
    bench
        .coordinator
        .forget_topics(bench.now, |name, id| name == "u" && id == Uuid([9; 16]));
    bench.run();
    assert_eq!(bench.coordinator.offsets.all_committed("g").count(), 2);
    bench
        .coordinator
        .forget_topics(bench.now, |name, id| name != "u" && id == Uuid([7; 16]));
    bench.run();
    assert_eq!(bench.coordinator.offsets.all_committed("g").count(), 1);
    assert_eq!(bench.offset(), -1);
    bench.restart();
    assert_eq!(bench.coordinator.offsets.all_committed("g").count(), 1);
}

fn delete_one() -> OffsetDelete {
    OffsetDelete {
        group_id: "g".into(),
        topics: vec![("t".into(), vec![PartitionIndex(0), PartitionIndex(5)])],
    }
}

impl Bench {
    fn delete_offsets(&mut self) -> OffsetDeleteReply {
        let token = self.token();
        self.coordinator
            .delete_offsets(self.now, delete_one(), token);
        self.run();
        match self.replies.remove(&token) {
            Some(Reply::OffsetDelete(reply)) => reply,
            other => panic!("no answer to the delete but {other:?}"),
        }
    }

    fn delete_groups(&mut self, group_ids: &[&str]) -> Token {
        let token = self.token();
        self.coordinator.delete_groups(self.now, group_ids, token);
        self.run();
        token
    }

    fn deleted(&mut self, token: Token) -> Vec<ErrorCode> {
        match self.replies.remove(&token) {
            Some(Reply::DeleteGroups(outcomes)) => outcomes.into_iter().map(|o| o.1).collect(),
            other => panic!("no answer to the delete but {other:?}"),
        }
    }
}

#[test]
fn offsets_can_be_deleted_unless_the_group_reads_the_topic() {
    let mut bench = Bench::eager();
    assert_eq!(bench.delete_offsets().error, ErrorCode::GroupIdNotFound);
    bench.commit_one(simple_commit(1));
    let reply = bench.delete_offsets();
    let outcomes: Vec<_> = reply.topics[0].1.iter().map(|p| p.1).collect();
    assert_eq!(outcomes, [ErrorCode::None, ErrorCode::None]);
    assert_eq!(bench.offset(), -1);

    // A stable consumer group that reads `t`.
    let reads = |topic: &str, member_id: &str| JoinRequest {
        protocols: vec![protocol("range", &subscription(topic))],
        ..member(member_id)
    };
    let (leader, join) = bench.enter(reads("t", ""));
    bench.joined(join);
    let sync = bench.sync(&leader, 1, &[]);
    bench.synced(sync);
    bench.commit_one(commit_by(&leader, 1, 4));
    let reply = bench.delete_offsets();
    assert_eq!(reply.topics[0].1[0].1, ErrorCode::GroupSubscribedToTopic);
    assert_eq!(bench.offset(), 4);
    // It turns to another topic.
    let rejoin = bench.join(reads("u", &leader));
    bench.joined(rejoin);
    let reply = bench.delete_offsets();
    assert_eq!(reply.topics[0].1[0].1, ErrorCode::None);
    assert_eq!(bench.offset(), -1);
}

#[test]
fn offsets_of_a_group_at_work_that_are_no_consumers_can_not_be_deleted() {
    let mut bench = Bench::eager();
    let (_, join) = bench.enter(JoinRequest {
        protocol_type: "connect".into(),
        ..consumer()
    });
    bench.joined(join);
    assert_eq!(bench.delete_offsets().error, ErrorCode::NonEmptyGroup);
}

#[test]
fn an_empty_group_can_be_deleted_with_its_offsets() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    bench.commit_one(commit_by(&leader, 2, 7));
    let token = bench.delete_groups(&["g", "nobody"]);
    let errors = bench.deleted(token);
    assert_eq!(
        errors,
        [ErrorCode::NonEmptyGroup, ErrorCode::GroupIdNotFound]
    );
    bench.leave(&leader);
    bench.leave(&follower);
    let token = bench.delete_groups(&["g"]);
    assert_eq!(bench.deleted(token), [ErrorCode::None]);
    assert_eq!((bench.offset(), bench.state()), (-1, "Dead"));
    bench.restart();
    assert_eq!((bench.offset(), bench.state()), (-1, "Dead"));
    assert_eq!(bench.coordinator.group_count(), 0);
}

#[test]
fn a_deletion_that_is_not_written_undoes_itself() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(7));
    bench.slow_disk = true;
    let token = bench.delete_groups(&["g", "nobody"]);
    assert!(bench.is_held(token));
    bench.settle(Err(ErrorCode::KafkaStorageError));
    let errors = bench.deleted(token);
    assert_eq!(
        errors,
        [ErrorCode::NotCoordinator, ErrorCode::GroupIdNotFound]
    );
    assert_eq!((bench.offset(), bench.state()), (7, "Empty"));
}

#[test]
fn offsets_that_outlive_their_group_by_a_failed_write_have_a_group() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(7));
    bench.slow_disk = true;
    let offsets = bench.token();
    bench
        .coordinator
        .delete_offsets(bench.now, delete_one(), offsets);
    bench.run();
    let group = bench.delete_groups(&["g"]);
    bench.settle(Err(ErrorCode::NotEnoughReplicas));
    bench.settle(Ok(()));
    assert_eq!(bench.deleted(group), [ErrorCode::None]);
    assert_eq!((bench.offset(), bench.state()), (7, "Empty"));
    bench.restart();
    assert_eq!((bench.offset(), bench.state()), (7, "Empty"));
}

#[test]
fn a_commit_in_flight_is_deleted_with_its_group() {
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(7));
    bench.slow_disk = true;
    let mut other = simple_commit(8);
    other.topics[0].name = "u".into();
    let commit = bench.commit(other);
    let delete = bench.delete_groups(&["g"]);
    bench.settle(Ok(()));
    bench.settle(Ok(()));
    assert_eq!(bench.committed(commit), ErrorCode::None);
    assert_eq!(bench.deleted(delete), [ErrorCode::None]);
    assert_eq!(bench.coordinator.offsets.all_committed("g").count(), 0);
    bench.restart();
    assert_eq!(bench.coordinator.group_count(), 0);
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let mut bench = Bench::eager();
    bench.two_members();
    bench.commit_one(OffsetCommit {
        group_id: "simple".into(),
        ..simple_commit(1)
    });
    let listed = |states: &[&str], types: &[&str]| {
        let groups = bench.coordinator.list(states, types).expect("it is active");
        groups.into_iter().map(|g| g.group_id).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[], &[]), ["g", "simple"]);
    assert_eq!(listed(&["stable"], &[]), ["g"]);
    assert_eq!(listed(&["EMPTY", "Dead"], &["classic"]), ["simple"]);
    assert_eq!(listed(&["PreparingRebalance"], &[]), [""; 0]);
    assert_eq!(listed(&[], &["consumer"]), [""; 0]);
    let groups = bench.coordinator.list(&[""; 0], &[""; 0]).expect("active");
    assert_eq!(groups[0].protocol_type, "consumer");
    assert_eq!(
        (groups[0].state, groups[0].group_type),
        ("Stable", "classic")
    );
    assert_eq!(groups[1].protocol_type, "");
}

#[test]
fn a_missing_group_is_described_as_dead_and_from_version_6_as_missing() {
    let bench = Bench::eager();
    let older = bench.coordinator.describe(&context(5), "g");
    assert_eq!((older.error, older.state), (ErrorCode::None, "Dead"));
    let newer = bench.coordinator.describe(&context(6), "g");
    assert_eq!(newer.error, ErrorCode::GroupIdNotFound);
    assert_eq!(newer.error_message.as_deref(), Some("Group g not found."));
    assert_eq!(newer.state, "Dead");
}
