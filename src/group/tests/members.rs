//! Who gets into a group, stays in it and leaves it.

use super::*;

#[test]
fn g34_the_first_generation_of_a_group_waits_for_more_members() {
    let mut bench = Bench::new(Config::default());
    let (_, first) = bench.enter(consumer());
    bench.advance(2_999);
    assert!(bench.is_held(first));
    let (_, second) = bench.enter(consumer());
    // The delay of 3 s starts anew for a member that came while it ran.
    bench.advance(2_999);
    assert!(bench.is_held(first) && bench.is_held(second));
    bench.advance(2);
    let (first, second) = (bench.joined(first), bench.joined(second));
    assert_eq!((first.generation, second.generation), (1, 1));
    assert_eq!(
        first.members.len() + second.members.len(),
        2,
        "the leader sees both"
    );
    assert_eq!(bench.state(), "CompletingRebalance");
}

#[test]
fn g34_the_initial_delay_ends_with_the_rebalance_timeout_however_many_come() {
    let mut bench = Bench::new(Config::default());
    let request = JoinRequest {
        rebalance_timeout_ms: 7_000,
        ..consumer()
    };
    let (_, first) = bench.enter(request.clone());
    for _ in 0..6 {
        bench.advance(1_000);
        assert!(bench.is_held(first));
        bench.enter(request.clone());
    }
    bench.advance(1_000);
    assert_eq!(bench.joined(first).generation, 1);
}

#[test]
fn g34_session_timeouts_out_of_range_are_refused() {
    let mut bench = Bench::eager();
    for session_timeout_ms in [i32::MIN, -1, 0, 5_999, 1_800_001, i32::MAX] {
        let request = JoinRequest {
            session_timeout_ms,
            ..consumer()
        };
        let reply = bench.join_now(request);
        assert_eq!(reply.error, ErrorCode::InvalidSessionTimeout);
    }
    for session_timeout_ms in [6_000, 1_800_000] {
        let request = JoinRequest {
            session_timeout_ms,
            ..consumer()
        };
        assert_eq!(bench.join_now(request).error, ErrorCode::MemberIdRequired);
    }
}

#[test]
fn a_group_without_a_name_is_refused() {
    let mut bench = Bench::eager();
    let nameless = JoinRequest {
        group_id: String::new(),
        ..consumer()
    };
    assert_eq!(bench.join_now(nameless).error, ErrorCode::InvalidGroupId);
    let request = HeartbeatRequest::default();
    let answer = bench.coordinator.heartbeat(bench.now, &request);
    assert_eq!(answer, ErrorCode::InvalidGroupId);
    let token = bench.token();
    bench
        .coordinator
        .leave(bench.now, LeaveRequest::default(), token);
    bench.run();
    let Some(Reply::Leave(reply)) = bench.replies.remove(&token) else {
        panic!("no answer");
    };
    assert_eq!(reply.error, ErrorCode::InvalidGroupId);
}

#[test]
fn g35_a_new_member_is_told_its_id_first_from_version_4() {
    let mut bench = Bench::eager();
    let reply = bench.join_now(consumer());
    assert_eq!(reply.error, ErrorCode::MemberIdRequired);
    assert_eq!(
        reply.member_id,
        "client-01010101-0101-0101-0101-010101010101"
    );
    assert_eq!(reply.generation, -1);
    assert_eq!(bench.state(), "Empty");
    let token = bench.join(member(&reply.member_id));
    assert_eq!(bench.joined(token).member_id, reply.member_id);
}

#[test]
fn g35_versions_before_4_are_admitted_directly() {
    for version in 0..4 {
        let mut bench = Bench::eager();
        let token = bench.join_as(version, consumer());
        let reply = bench.joined(token);
        assert_eq!(reply.error, ErrorCode::None);
        assert_eq!(reply.generation, 1);
        assert_eq!(reply.leader, reply.member_id);
        assert!(reply.member_id.starts_with("client-"));
    }
}

#[test]
fn g35_a_pending_id_is_forgotten_after_the_session_timeout() {
    let mut bench = Bench::eager();
    let reply = bench.join_now(consumer());
    bench.advance(9_999);
    let again = bench.join_now(consumer());
    bench.advance(1);
    let late = bench.join_now(member(&reply.member_id));
    assert_eq!(late.error, ErrorCode::UnknownMemberId);
    let in_time = bench.join_now(member(&again.member_id));
    assert_eq!(in_time.error, ErrorCode::None);
}

#[test]
fn g35_a_rebalance_waits_for_pending_members() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let pending = bench.join_now(consumer());
    let first = bench.join(member(&leader));
    let second = bench.join(member(&follower));
    assert!(bench.is_held(first) && bench.is_held(second));
    let third = bench.join(member(&pending.member_id));
    for token in [first, second, third] {
        assert_eq!(bench.joined(token).generation, 3);
    }
}

#[test]
fn an_unknown_member_or_group_is_told_so() {
    let mut bench = Bench::eager();
    let unknown = ErrorCode::UnknownMemberId;
    assert_eq!(bench.join_now(member("m")).error, unknown);
    assert_eq!(bench.heartbeat("m", 1), unknown);
    let sync = bench.sync("m", 1, &[]);
    assert_eq!(bench.synced(sync).error, unknown);
    assert_eq!(bench.leave("m").members[0].error, unknown);
    assert_eq!(bench.state(), "Dead");
    bench.two_members();
    let reply = bench.join_now(member("m"));
    assert_eq!((reply.error, reply.member_id.as_str()), (unknown, "m"));
    assert_eq!(bench.heartbeat("m", 2), unknown);
    let sync = bench.sync("m", 2, &[]);
    assert_eq!(bench.synced(sync).error, unknown);
    let left = bench.leave("m");
    assert_eq!(
        (left.error, left.members[0].error),
        (ErrorCode::None, unknown)
    );
}

#[test]
fn g34_heartbeats_tell_a_member_where_it_stands() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    assert_eq!(bench.heartbeat(&leader, 2), ErrorCode::None);
    assert_eq!(bench.heartbeat(&leader, 1), ErrorCode::IllegalGeneration);
    let join = bench.join(member(&leader));
    assert_eq!(
        bench.heartbeat(&follower, 2),
        ErrorCode::RebalanceInProgress
    );
    let other = bench.join(member(&follower));
    assert_eq!(bench.joined(join).generation, 3);
    assert_eq!(bench.joined(other).generation, 3);
    assert_eq!(bench.heartbeat(&follower, 3), ErrorCode::None);
    assert_eq!(bench.heartbeat(&follower, 2), ErrorCode::IllegalGeneration);
}

#[test]
fn g34_a_silent_member_is_out_after_its_session_timeout() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    bench.advance(6_000);
    assert_eq!(bench.heartbeat(&leader, 2), ErrorCode::None);
    bench.advance(3_999);
    assert_eq!(bench.state(), "Stable");
    bench.advance(1);
    assert_eq!(bench.state(), "PreparingRebalance");
    assert_eq!(bench.heartbeat(&follower, 2), ErrorCode::UnknownMemberId);
    assert_eq!(bench.heartbeat(&leader, 2), ErrorCode::RebalanceInProgress);
    let rejoin = bench.join(member(&leader));
    let reply = bench.joined(rejoin);
    assert_eq!((reply.generation, reply.members.len()), (3, 1));
}

#[test]
fn a_commit_keeps_a_member_alive_like_a_heartbeat() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    for _ in 0..5 {
        bench.advance(6_000);
        for member_id in [&leader, &follower] {
            let commit = OffsetCommit {
                generation: 2,
                member_id: member_id.clone(),
                ..simple_commit(1)
            };
            assert_eq!(bench.commit_one(commit), ErrorCode::None);
        }
    }
    assert_eq!(bench.state(), "Stable");
}

#[test]
fn a_new_member_whose_client_is_gone_is_out_after_five_minutes() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let long = JoinRequest {
        rebalance_timeout_ms: 600_000,
        ..member(&leader)
    };
    let rejoin = bench.join(long);
    let (newcomer, join) = bench.enter(consumer());
    // The follower keeps its session but does not rejoin; the newcomer can't heartbeat, it does not know its generation.
    for _ in 0..37 {
        bench.advance(8_000);
        bench.heartbeat(&follower, 2);
    }
    assert!(bench.is_held(join));
    bench.advance(4_000);
    let reply = bench.joined(join);
    assert_eq!(reply.error, ErrorCode::UnknownMemberId);
    assert!(bench.is_held(rejoin));
    assert_eq!(bench.heartbeat(&newcomer, 2), ErrorCode::UnknownMemberId);
}

#[test]
fn leaving_starts_a_rebalance_and_the_last_one_leaves_an_empty_group() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let left = bench.leave(&leader);
    assert_eq!(left.members[0].error, ErrorCode::None);
    assert_eq!(bench.state(), "PreparingRebalance");
    let rejoin = bench.join(member(&follower));
    let reply = bench.joined(rejoin);
    assert_eq!((reply.generation, reply.leader.as_str()), (3, &*follower));
    bench.leave(&follower);
    assert_eq!(bench.state(), "Empty");
    assert_eq!(bench.heartbeat(&follower, 4), ErrorCode::UnknownMemberId);
    bench.restart();
    let (_, join) = bench.enter(consumer());
    assert_eq!(bench.joined(join).generation, 5, "generations go on");
}

#[test]
fn the_reply_to_the_last_leave_waits_until_the_empty_group_is_durable() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    bench.leave(&follower);
    bench.slow_disk = true;
    let token = bench.token();
    let request = LeaveRequest {
        group_id: "g".into(),
        members: vec![LeaveMember {
            member_id: leader,
            ..LeaveMember::default()
        }],
    };
    bench.coordinator.leave(bench.now, request, token);
    bench.run();
    assert!(bench.is_held(token));
    bench.settle(Err(ErrorCode::KafkaStorageError));
    let Some(Reply::Leave(reply)) = bench.replies.remove(&token) else {
        panic!("no answer");
    };
    assert_eq!(reply.error, ErrorCode::NotCoordinator);
}

#[test]
fn a_pending_member_can_leave() {
    let mut bench = Bench::eager();
    let pending = bench.join_now(consumer());
    let left = bench.leave(&pending.member_id);
    assert_eq!(left.members[0].error, ErrorCode::None);
    let late = bench.join_now(member(&pending.member_id));
    assert_eq!(late.error, ErrorCode::UnknownMemberId);
}

#[test]
fn a_batched_leave_answers_for_each_member() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    let named = |member_id: &str, instance: Option<&str>| LeaveMember {
        member_id: member_id.into(),
        group_instance_id: instance.map(Into::into),
        reason: Some("scaled in".into()),
    };
    let left = bench.leave_all(vec![
        named(&leader, None),
        named("m", None),
        named("", Some("i")),
        named(&follower, Some("i")),
        named(&follower, None),
        named(&follower, None),
    ]);
    let errors: Vec<_> = left.members.iter().map(|m| m.error).collect();
    let unknown = ErrorCode::UnknownMemberId;
    assert_eq!(
        errors,
        [
            ErrorCode::None,
            unknown,
            unknown,
            unknown,
            ErrorCode::None,
            unknown
        ]
    );
    assert_eq!(left.members[2].group_instance_id.as_deref(), Some("i"));
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn a_full_group_admits_nobody_but_its_members() {
    let mut bench = Bench::new(Config {
        group_size_max: 2,
        initial_rebalance_delay_ms: 0,
        ..Config::default()
    });
    let (leader, follower) = bench.two_members();
    let reply = bench.join_now(consumer());
    assert_eq!(reply.error, ErrorCode::GroupMaxSizeReached);
    assert_eq!(reply.member_id, "");
    assert_eq!(bench.state(), "Stable");
    // Pending ids are not counted; the third to join in a rebalance is the one that is too much.
    bench.leave(&follower);
    let asked: Vec<_> = (0..2).map(|_| bench.join_now(consumer())).collect();
    let rejoin = bench.join(member(&leader));
    let second = bench.join(member(&asked[0].member_id));
    let third = bench.join(member(&asked[1].member_id));
    assert_eq!(bench.joined(third).error, ErrorCode::GroupMaxSizeReached);
    bench.advance(60_000);
    assert_eq!(bench.joined(rejoin).generation, 3);
    assert_eq!(bench.joined(second).generation, 3);
}

#[test]
fn a_group_loaded_above_its_maximum_rebalances() {
    let mut bench = Bench::eager();
    let (leader, follower) = bench.two_members();
    bench.coordinator.set_config(Config {
        group_size_max: 1,
        ..bench.coordinator_config()
    });
    bench.restart();
    assert_eq!(bench.state(), "PreparingRebalance");
    let first = bench.join(member(&follower));
    let second = bench.join(member(&leader));
    assert_eq!(bench.joined(second).error, ErrorCode::GroupMaxSizeReached);
    bench.advance(60_000);
    assert_eq!(bench.joined(first).generation, 3);
}

#[test]
fn g37_members_without_a_common_protocol_are_refused() {
    let mut bench = Bench::eager();
    let inconsistent = ErrorCode::InconsistentGroupProtocol;
    for request in [
        JoinRequest {
            protocol_type: String::new(),
            ..consumer()
        },
        JoinRequest {
            protocols: Vec::new(),
            ..consumer()
        },
    ] {
        assert_eq!(bench.join_now(request).error, inconsistent);
    }
    bench.two_members();
    for request in [
        JoinRequest {
            protocol_type: "connect".into(),
            ..consumer()
        },
        JoinRequest {
            protocols: vec![protocol("sticky", "")],
            ..consumer()
        },
        JoinRequest {
            protocols: Vec::new(),
            ..consumer()
        },
    ] {
        assert_eq!(bench.join_now(request).error, inconsistent);
    }
    assert_eq!(bench.state(), "Stable");
}

#[test]
fn g37_the_protocol_with_most_votes_among_the_common_ones_is_chosen() {
    let mut bench = Bench::new(Config::default());
    let asked = |names: &[&str]| JoinRequest {
        protocols: names.iter().map(|name| protocol(name, name)).collect(),
        ..consumer()
    };
    let (_, a) = bench.enter(asked(&["range", "sticky", "own"]));
    let (_, b) = bench.enter(asked(&["sticky", "range"]));
    let (_, c) = bench.enter(asked(&["other", "sticky", "range"]));
    bench.advance(10_000);
    let replies = [bench.joined(a), bench.joined(b), bench.joined(c)];
    for reply in &replies {
        assert_eq!(reply.protocol_name.as_deref(), Some("sticky"));
        assert_eq!(reply.protocol_type.as_deref(), Some("consumer"));
    }
    // G37: the leader, and nobody else, sees everybody's metadata, for the chosen protocol.
    let told: Vec<_> = replies.iter().filter(|r| !r.members.is_empty()).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].member_id, told[0].leader);
    assert_eq!(told[0].members.len(), 3);
    assert!(told[0].members.iter().all(|m| m.metadata == "sticky"));
}

#[test]
fn g37_metadata_of_other_protocol_types_is_opaque() {
    let mut bench = Bench::eager();
    let request = JoinRequest {
        protocol_type: "connect".into(),
        protocols: vec![protocol("sessioned", "\u{0}\u{1}\u{2}")],
        ..consumer()
    };
    let (_, join) = bench.enter(request);
    let reply = bench.joined(join);
    assert_eq!(reply.protocol_type.as_deref(), Some("connect"));
    assert_eq!(reply.members[0].metadata, &[0u8, 1, 2][..]);
}

#[test]
fn texts_that_no_record_can_hold_are_refused() {
    let mut bench = Bench::eager();
    let long = "x".repeat(40_000);
    for request in [
        JoinRequest {
            group_id: long.clone(),
            ..consumer()
        },
        JoinRequest {
            group_instance_id: Some(long.clone()),
            ..consumer()
        },
        JoinRequest {
            protocols: vec![protocol(&long, "")],
            ..consumer()
        },
        JoinRequest {
            protocol_type: long.clone(),
            ..consumer()
        },
    ] {
        assert_eq!(bench.join_now(request).error, ErrorCode::UnknownServerError);
    }
    let commit = OffsetCommit {
        group_id: long,
        ..simple_commit(1)
    };
    assert_eq!(bench.commit_one(commit), ErrorCode::UnknownServerError);
    assert_eq!(bench.coordinator.group_count(), 0);
}
