//! How generations are formed and assignments handed out.

use super::*;

#[test]
fn g34_joins_are_held_until_everybody_rejoined() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let (_, third) = bench.enter(consumer());
    let first = bench.join(member(&leader));
    assert!(bench.is_held(first) && bench.is_held(third));
    let second = bench.join(member(&follower));
    for token in [first, second, third] {
        let reply = bench.joined(token);
        assert_eq!(reply.generation, 3);
        assert_eq!(reply.leader, leader, "the leader stays");
    }
}

#[test]
fn g34_who_does_not_rejoin_within_the_rebalance_timeout_is_out() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let join = bench.join(JoinRequest {
        protocols: vec![protocol("range", "I read more now")],
        ..member(&follower)
    });
    for _ in 0..7 {
        bench.advance(8_000);
        // Heartbeats keep the session but do not replace a rejoin.
        assert_eq!(bench.heartbeat(&leader, 2), ErrorCode::RebalanceInProgress);
    }
    bench.advance(3_999);
    assert!(bench.is_held(join));
    bench.advance(1);
    let reply = bench.joined(join);
    assert_eq!((reply.generation, reply.leader.as_str()), (3, &*follower));
    assert_eq!(reply.members.len(), 1);
    assert_eq!(bench.heartbeat(&leader, 2), ErrorCode::UnknownMemberId);
}

#[test]
fn g34_syncs_are_held_until_the_assignment_is_durable() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let first = bench.join(member(&leader));
    let second = bench.join(member(&follower));
    assert_eq!(
        (
            bench.joined(first).generation,
            bench.joined(second).generation
        ),
        (3, 3)
    );
    bench.slow_disk = true;
    let theirs = bench.sync(&follower, 3, &[]);
    let own = bench.sync(&leader, 3, &[(&leader, "a3")]);
    assert!(bench.is_held(theirs) && bench.is_held(own));
    assert_eq!(bench.state(), "CompletingRebalance");
    bench.settle(Ok(()));
    let (own, theirs) = (bench.synced(own), bench.synced(theirs));
    assert_eq!(own.assignment, "a3");
    assert_eq!(theirs.assignment, "", "forgotten by the leader, so empty");
    assert_eq!(theirs.protocol_name.as_deref(), Some("range"));
    assert_eq!(theirs.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(bench.state(), "Stable");
    // Once stable, a sync is answered at once with the same.
    let again = bench.sync(&leader, 3, &[]);
    assert_eq!(bench.synced(again).assignment, "a3");
}

#[test]
fn an_assignment_that_is_not_written_is_not_handed_out() {
    for (log_error, answer) in [
        (ErrorCode::KafkaStorageError, ErrorCode::NotCoordinator),
        (ErrorCode::NotLeaderOrFollower, ErrorCode::NotCoordinator),
        (
            ErrorCode::NotEnoughReplicas,
            ErrorCode::CoordinatorNotAvailable,
        ),
        (
            ErrorCode::RequestTimedOut,
            ErrorCode::CoordinatorNotAvailable,
        ),
        (
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::CoordinatorNotAvailable,
        ),
        (ErrorCode::RecordListTooLarge, ErrorCode::UnknownServerError),
        (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
    ] {
        let mut bench = Bench::eager();
        let (leader, follower) = bench.two_members();
        let first = bench.join(member(&leader));
        let second = bench.join(member(&follower));
        bench.joined(first);
        bench.joined(second);
        bench.slow_disk = true;
        let theirs = bench.sync(&follower, 3, &[]);
        let own = bench.sync(&leader, 3, &[(&leader, "x")]);
        bench.settle(Err(log_error));
        for token in [own, theirs] {
            let reply = bench.synced(token);
            assert_eq!((reply.error, reply.assignment.len()), (answer, 0));
        }
        assert_eq!(bench.state(), "PreparingRebalance");
    }
}

#[test]
fn an_assignment_of_a_generation_that_is_over_is_dropped() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let tokens = [bench.join(member(&leader)), bench.join(member(&follower))];
    bench.form(3, &tokens);
    bench.slow_disk = true;
    let own = bench.sync(&leader, 3, &[(&leader, "old")]);
    // A newcomer begins the next rebalance while the assignment is being written.
    let (_, newcomer) = bench.enter(consumer());
    assert_eq!(bench.synced(own).error, ErrorCode::RebalanceInProgress);
    let tokens = [
        bench.join(member(&leader)),
        bench.join(member(&follower)),
        newcomer,
    ];
    bench.form(4, &tokens);
    let own = bench.sync(&leader, 4, &[(&leader, "new")]);
    bench.settle(Ok(()));
    assert!(bench.is_held(own), "the old assignment answers nobody");
    bench.settle(Ok(()));
    assert_eq!(bench.synced(own).assignment, "new");
}

#[test]
fn a_leader_that_syncs_twice_writes_once() {
    let mut bench = Bench::eager();
    let (leader, join) = bench.enter(consumer());
    bench.joined(join);
    bench.slow_disk = true;
    while !bench.appends.is_empty() {
        bench.settle(Ok(()));
    }
    let first = bench.sync(&leader, 1, &[(&leader, "one")]);
    let second = bench.sync(&leader, 1, &[(&leader, "two")]);
    assert_eq!(bench.synced(first).error, ErrorCode::RebalanceInProgress);
    assert_eq!(bench.appends.len(), 1);
    bench.settle(Ok(()));
    assert_eq!(bench.synced(second).assignment, "one");
}

#[test]
fn g34_syncs_of_another_time_or_protocol_are_refused() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let sync = bench.sync(&leader, 1, &[]);
    assert_eq!(bench.synced(sync).error, ErrorCode::IllegalGeneration);
    let request = |protocol_type: Option<&str>, protocol_name: Option<&str>| SyncRequest {
        group_id: "g".into(),
        generation: 2,
        member_id: leader.clone(),
        protocol_type: protocol_type.map(Into::into),
        protocol_name: protocol_name.map(Into::into),
        ..SyncRequest::default()
    };
    let inconsistent = ErrorCode::InconsistentGroupProtocol;
    for (version, request, error) in [
        (5, request(Some("connect"), Some("range")), inconsistent),
        (5, request(Some("consumer"), Some("sticky")), inconsistent),
        (5, request(None, Some("range")), inconsistent),
        (5, request(Some("consumer"), None), inconsistent),
        (4, request(None, None), ErrorCode::None),
    ] {
        let token = bench.token();
        bench
            .coordinator
            .sync(bench.now, &context(version), request, token);
        bench.run();
        assert_eq!(bench.synced(token).error, error);
    }
    let join = bench.join(member(&follower));
    assert_eq!(
        bench.joined(join).generation,
        2,
        "a follower with nothing new"
    );
    let join = bench.join(member(&leader));
    assert!(bench.is_held(join), "a leader that joins wants a rebalance");
    let sync = bench.sync(&follower, 2, &[]);
    assert_eq!(bench.synced(sync).error, ErrorCode::RebalanceInProgress);
}

#[test]
fn members_that_do_not_sync_are_out_after_the_rebalance_timeout() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let tokens = [bench.join(member(&leader)), bench.join(member(&follower))];
    bench.form(3, &tokens);
    let own = bench.sync(&leader, 3, &[(&leader, "a")]);
    assert_eq!(bench.synced(own).error, ErrorCode::None);
    for _ in 0..7 {
        bench.advance(8_000);
        assert_eq!(bench.heartbeat(&leader, 3), ErrorCode::None);
        assert_eq!(bench.heartbeat(&follower, 3), ErrorCode::None);
    }
    bench.advance(4_000);
    assert_eq!(bench.state(), "PreparingRebalance");
    assert_eq!(bench.heartbeat(&follower, 3), ErrorCode::UnknownMemberId);
}

#[test]
fn a_leader_that_never_syncs_makes_room_for_another() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let tokens = [bench.join(member(&leader)), bench.join(member(&follower))];
    bench.form(3, &tokens);
    let theirs = bench.sync(&follower, 3, &[]);
    bench.advance(10_000);
    // The leader's session is over; the follower, whose sync was held, is asked to rejoin.
    assert_eq!(bench.synced(theirs).error, ErrorCode::RebalanceInProgress);
    let join = bench.join(member(&follower));
    let reply = bench.joined(join);
    assert_eq!(reply.leader, follower);
}

#[test]
fn a_join_that_is_sent_again_gets_the_answer_of_its_generation() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let tokens = [bench.join(member(&leader)), bench.join(member(&follower))];
    bench.form(3, &tokens);
    assert_eq!(bench.state(), "CompletingRebalance");
    let again = bench.join_now(member(&leader));
    assert_eq!((again.generation, again.members.len()), (3, 2));
    let again = bench.join_now(member(&follower));
    assert_eq!((again.generation, again.members.len()), (3, 0));
    // With other metadata it is a change, and everybody has to rejoin.
    let changed = bench.join(JoinRequest {
        protocols: vec![protocol("range", "I changed")],
        ..member(&follower)
    });
    assert!(bench.is_held(changed));
    assert_eq!(bench.state(), "PreparingRebalance");
}

#[test]
fn a_join_held_twice_answers_the_first_and_holds_the_second() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let first = bench.join(member(&leader));
    let second = bench.join(member(&leader));
    assert_eq!(bench.joined(first).error, ErrorCode::RebalanceInProgress);
    assert!(bench.is_held(second));
    let other = bench.join(member(&follower));
    assert_eq!(bench.joined(second).generation, 3);
    assert_eq!(bench.joined(other).generation, 3);
}

#[test]
fn changed_metadata_in_a_stable_group_starts_a_rebalance() {
    let mut bench = Bench::eager();
    let (_, follower) = bench.two_members();
    let join = bench.join(JoinRequest {
        protocols: vec![protocol("range", "I read more now")],
        ..member(&follower)
    });
    assert!(bench.is_held(join));
    assert_eq!(bench.state(), "PreparingRebalance");
}

#[test]
fn a_first_record_that_is_not_written_takes_the_new_group_with_it() {
    let mut bench = Bench::new(Config::default());
    bench.slow_disk = true;
    let (_, join) = bench.enter(consumer());
    assert!(bench.is_held(join));
    bench.settle(Err(ErrorCode::NotEnoughReplicas));
    let reply = bench.joined(join);
    assert_eq!(reply.error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(bench.state(), "Dead");
    bench.advance(600_000);
    assert_eq!(bench.coordinator.fx.timers.len(), 1, "only retention");
}

#[test]
fn a_group_keeps_its_members_over_a_restart_and_their_sessions_start_anew() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    bench.advance(9_000);
    bench.restart();
    assert_eq!(bench.state(), "Stable");
    bench.advance(9_000);
    assert_eq!(bench.heartbeat(&leader, 2), ErrorCode::None);
    assert_eq!(bench.heartbeat(&follower, 2), ErrorCode::None);
    let described = bench.coordinator.describe(&context(6), "g");
    assert_eq!(described.protocol_data, "range");
    let of = |id: &str| described.members.iter().find(|m| m.member_id == id);
    let of = |id: &str| of(id).expect("it is a member");
    assert_eq!(of(&leader).assignment, "a");
    assert_eq!(of(&follower).assignment, "b");
    assert_eq!(of(&leader).metadata, "about me");
    assert_eq!(of(&leader).client_host, "/127.0.0.1");
    assert_eq!(of(&leader).client_id, "client");
}
