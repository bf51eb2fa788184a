//! Static members (G36, KIP-345 and KIP-814).

use super::*;

fn fixed(instance: &str) -> JoinRequest {
    JoinRequest {
        group_instance_id: Some(instance.into()),
        ..consumer()
    }
}

impl Bench {
    /// A stable group `g` of static members `a` (the leader) and `b`, in generation 1.
    fn two_statics(&mut self) -> (String, String) {
        let delay_ms = self.coordinator_config().initial_rebalance_delay_ms;
        let (a, b) = (self.join(fixed("a")), self.join(fixed("b")));
        self.advance(delay_ms as u64 * 2);
        let (a, b) = (self.joined(a), self.joined(b));
        assert_eq!((a.generation, b.generation), (1, 1));
        assert_eq!(a.leader, a.member_id);
        let theirs = self.sync(&b.member_id, 1, &[]);
        let own = self.sync(
            &a.member_id,
            1,
            &[(&a.member_id, "for a"), (&b.member_id, "for b")],
        );
        assert_eq!(self.synced(own).assignment, "for a");
        assert_eq!(self.synced(theirs).assignment, "for b");
        (a.member_id, b.member_id)
    }
}

#[test]
fn g36_a_static_member_is_admitted_directly_under_its_instance_id() {
    let mut bench = Bench::eager();
    let reply = bench.join_now(fixed("a"));
    assert_eq!(reply.error, ErrorCode::None);
    assert_eq!(reply.member_id, "a-01010101-0101-0101-0101-010101010101");
    assert_eq!(reply.members[0].group_instance_id.as_deref(), Some("a"));
}

#[test]
fn g36_a_static_member_that_comes_back_takes_over_without_a_rebalance() {
    let mut bench = Bench::new(Config::default());
    let (a, b) = bench.two_statics();
    let reply = bench.join_now(fixed("b"));
    assert_eq!((reply.error, reply.generation), (ErrorCode::None, 1));
    assert_eq!((reply.leader.as_str(), reply.skip_assignment), (&*a, false));
    assert!(reply.members.is_empty());
    assert_ne!(reply.member_id, b);
    assert_eq!(bench.state(), "Stable");
    let sync = bench.sync(&reply.member_id, 1, &[]);
    assert_eq!(bench.synced(sync).assignment, "for b");
    // The one it replaced is fenced wherever it names itself by both ids.
    let fenced = ErrorCode::FencedInstanceId;
    let request = HeartbeatRequest {
        group_id: "g".into(),
        generation: 1,
        member_id: b.clone(),
        group_instance_id: Some("b".into()),
    };
    assert_eq!(bench.coordinator.heartbeat(bench.now, &request), fenced);
    assert_eq!(bench.heartbeat(&b, 1), ErrorCode::UnknownMemberId);
    let stale = JoinRequest {
        member_id: b.clone(),
        ..fixed("b")
    };
    assert_eq!(bench.join_now(stale).error, fenced);
    let commit = OffsetCommit {
        generation: 1,
        member_id: b.clone(),
        group_instance_id: Some("b".into()),
        ..simple_commit(1)
    };
    assert_eq!(bench.commit_one(commit), fenced);
    let left = bench.leave_all(vec![LeaveMember {
        member_id: b,
        group_instance_id: Some("b".into()),
        reason: None,
    }]);
    assert_eq!(left.members[0].error, fenced);
    // The new id is on disk.
    bench.restart();
    assert_eq!(bench.heartbeat(&reply.member_id, 1), ErrorCode::None);
}

#[test]
fn g36_a_leader_that_comes_back_is_told_to_skip_the_assignment_from_version_9() {
    let mut bench = Bench::new(Config::default());
    let (a, _) = bench.two_statics();
    let reply = bench.join_now(fixed("a"));
    assert!(reply.skip_assignment);
    assert_eq!(reply.leader, reply.member_id);
    assert_eq!(reply.members.len(), 2, "it leads, so it knows the members");
    // Older versions can't say so: the old id as the leader keeps the client from assigning.
    let token = bench.join_as(8, fixed("a"));
    let older = bench.joined(token);
    assert!(!older.skip_assignment && older.members.is_empty());
    assert_eq!(older.leader, reply.member_id);
    assert_ne!(older.member_id, a);
    // And it does lead.
    let rejoin = bench.join(JoinRequest {
        member_id: older.member_id,
        ..fixed("a")
    });
    assert!(bench.is_held(rejoin));
    assert_eq!(bench.state(), "PreparingRebalance");
}

#[test]
fn g36_the_reply_waits_for_the_record_and_a_failure_brings_the_old_member_back() {
    let mut bench = Bench::new(Config::default());
    let (a, b) = bench.two_statics();
    bench.slow_disk = true;
    let token = bench.join(fixed("b"));
    assert!(bench.is_held(token));
    bench.settle(Err(ErrorCode::NotEnoughReplicas));
    let reply = bench.joined(token);
    assert_eq!(reply.error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(reply.member_id, "");
    assert_eq!(bench.heartbeat(&b, 1), ErrorCode::None);
    assert_eq!(bench.heartbeat(&a, 1), ErrorCode::None);
    assert_eq!(bench.state(), "Stable");
}

#[test]
fn g36_a_change_of_the_chosen_protocol_needs_a_rebalance_all_the_same() {
    let mut bench = Bench::eager();
    let both = |first: &str, second: &str| JoinRequest {
        protocols: vec![protocol(first, ""), protocol(second, "")],
        ..fixed("a")
    };
    let first = bench.join_now(both("range", "sticky"));
    assert_eq!(first.protocol_name.as_deref(), Some("range"));
    let sync = bench.sync(&first.member_id, 1, &[]);
    assert_eq!(bench.synced(sync).error, ErrorCode::None);
    let second = bench.join_now(both("sticky", "range"));
    assert_eq!(second.generation, 2);
    assert_eq!(second.protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn g36_a_static_member_replaced_in_a_rebalance_is_fenced_in_its_held_request() {
    let mut bench = Bench::new(Config::default());
    let (a, b) = bench.two_statics();
    let leader = bench.join(JoinRequest {
        member_id: a.clone(),
        ..fixed("a")
    });
    let old = JoinRequest {
        member_id: b.clone(),
        protocols: vec![protocol("range", "changed")],
        ..fixed("b")
    };
    let tokens = [leader, bench.join(old)];
    bench.form(2, &tokens);
    let held = bench.sync(&b, 2, &[]);
    // In CompletingRebalance the leader may be assigning to the old id.
    let new = bench.join(fixed("b"));
    assert_eq!(bench.synced(held).error, ErrorCode::FencedInstanceId);
    assert_eq!(bench.state(), "PreparingRebalance");
    let newer = bench.join(fixed("b"));
    assert_eq!(bench.joined(new).error, ErrorCode::FencedInstanceId);
    let leader = bench.join(JoinRequest {
        member_id: a,
        ..fixed("a")
    });
    assert_eq!(bench.joined(leader).generation, 3);
    assert_eq!(bench.joined(newer).generation, 3);
}

#[test]
fn g36_static_members_may_miss_a_rebalance_until_their_session_ends() {
    let mut bench = Bench::new(Config::default());
    let (a, b) = bench.two_statics();
    let short = JoinRequest {
        rebalance_timeout_ms: 5_000,
        session_timeout_ms: 300_000,
        ..fixed("b")
    };
    let back = bench.join_now(short);
    assert_ne!(back.member_id, b);
    let rejoin = bench.join(JoinRequest {
        member_id: a.clone(),
        rebalance_timeout_ms: 5_000,
        ..fixed("a")
    });
    bench.advance(5_000);
    let reply = bench.joined(rejoin);
    assert_eq!((reply.generation, reply.members.len()), (2, 2), "b is kept");
    let sync = bench.sync(&a, 2, &[(&a, "for a"), (&back.member_id, "for b")]);
    assert_eq!(bench.synced(sync).error, ErrorCode::None);
}

#[test]
fn g36_with_no_member_present_the_rebalance_waits_for_one() {
    let mut bench = Bench::new(Config::default());
    let (a, b) = bench.two_statics();
    let left = bench.leave_all(vec![LeaveMember {
        group_instance_id: Some("b".into()),
        ..LeaveMember::default()
    }]);
    assert_eq!(
        left.members[0].error,
        ErrorCode::None,
        "by an administrator"
    );
    assert_eq!(bench.heartbeat(&b, 1), ErrorCode::UnknownMemberId);
    assert_eq!(bench.state(), "PreparingRebalance");
    for _ in 0..20 {
        bench.advance(8_000);
        let request = HeartbeatRequest {
            group_id: "g".into(),
            generation: 1,
            member_id: a.clone(),
            group_instance_id: Some("a".into()),
        };
        let answer = bench.coordinator.heartbeat(bench.now, &request);
        assert_eq!(answer, ErrorCode::RebalanceInProgress);
    }
    let rejoin = bench.join(JoinRequest {
        member_id: a,
        ..fixed("a")
    });
    assert_eq!(bench.joined(rejoin).generation, 2);
}

#[test]
fn g36_a_replacement_overtaken_by_a_rebalance_is_answered_by_it() {
    let mut bench = Bench::new(Config::default());
    let (a, _) = bench.two_statics();
    bench.slow_disk = true;
    let back = bench.join(fixed("b"));
    let leader = bench.join(JoinRequest {
        member_id: a,
        ..fixed("a")
    });
    let reply = bench.joined(back);
    assert_eq!(reply.generation, 2, "with the rebalance, not before");
    assert_eq!(bench.joined(leader).generation, 2);
    bench.settle(Err(ErrorCode::NotEnoughReplicas));
    assert_eq!(bench.heartbeat(&reply.member_id, 2), ErrorCode::None);
}

#[test]
fn a_rebalance_timeout_of_0_with_no_member_present_does_not_spin() {
    let mut bench = Bench::new(Config::default());
    let hasty = JoinRequest {
        rebalance_timeout_ms: 0,
        ..fixed("a")
    };
    let join = bench.join(hasty.clone());
    bench.advance(3_000);
    let reply = bench.joined(join);
    bench.advance(0);
    assert_eq!(
        bench.heartbeat(&reply.member_id, 1),
        ErrorCode::UnknownMemberId
    );
    // Two that stay, one of which begins a rebalance that it does not see the end of.
    let tokens = [bench.join(hasty), bench.join(fixed("b"))];
    bench.advance(6_000);
    let [a, b] = tokens.map(|token| bench.joined(token));
    let syncs = [
        bench.sync(&a.member_id, a.generation, &[]),
        bench.sync(&b.member_id, b.generation, &[]),
    ];
    let _ = syncs.map(|token| bench.synced(token));
    bench.leave_all(vec![LeaveMember {
        group_instance_id: Some("b".into()),
        ..LeaveMember::default()
    }]);
    assert_eq!(bench.state(), "PreparingRebalance");
    bench.advance(9_999);
    assert_eq!(
        bench.state(),
        "PreparingRebalance",
        "until the session of a ends"
    );
    bench.advance(1_001);
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn a_replacement_that_took_longer_to_write_than_a_session_lasts_still_has_one() {
    let mut bench = Bench::new(Config::default());
    let (a, _) = bench.two_statics();
    bench.slow_disk = true;
    let token = bench.join(fixed("b"));
    bench.advance(9_000);
    bench.heartbeat(&a, 1);
    bench.advance(9_000);
    bench.heartbeat(&a, 1);
    bench.settle(Ok(()));
    let back = bench.joined(token);
    assert_eq!(back.error, ErrorCode::None);
    bench.advance(9_999);
    assert_eq!(bench.heartbeat(&back.member_id, 1), ErrorCode::None);
    bench.advance(10_000);
    assert_eq!(
        bench.heartbeat(&back.member_id, 1),
        ErrorCode::UnknownMemberId
    );
}
