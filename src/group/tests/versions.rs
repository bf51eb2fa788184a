//! What differs between the versions of a request, settled in `convert`.

use super::*;
use crate::wire::Str;
use crate::wire::messages::{join_group as jg, leave_group as lg, offset_fetch as of};

#[test]
fn g34_version_0_of_join_has_the_session_timeout_as_rebalance_timeout() {
    let message = jg::JoinGroupRequest {
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: -1,
        ..Default::default()
    };
    let request = JoinRequest::from_message(&message, 0);
    assert_eq!(request.rebalance_timeout_ms, 10_000);
    let request = JoinRequest::from_message(&message, 1);
    assert_eq!(request.rebalance_timeout_ms, -1);
}

#[test]
fn a_protocol_named_twice_counts_once() {
    let named = |name: &'static str| jg::JoinGroupRequestProtocol {
        name: name.into(),
        metadata: Bytes::new(),
    };
    let message = jg::JoinGroupRequest {
        protocols: vec![named("a"), named("b"), named("a")],
        ..Default::default()
    };
    let request = JoinRequest::from_message(&message, 5);
    let names: Vec<_> = request.protocols.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_refused_join_has_an_empty_protocol_name_before_version_7_and_none_from_it() {
    let mut bench = Bench::eager();
    for (version, name) in [(0, Some("")), (6, Some("")), (7, None), (9, None)] {
        let token = bench.join_as(version, member("m"));
        let message = bench.joined(token).into_message(version);
        assert_eq!(message.protocol_name.as_deref(), name);
        assert_eq!(message.error_code, ErrorCode::UnknownMemberId.code());
    }
}

#[test]
fn a_leave_before_version_3_names_one_member_and_gets_its_error() {
    let message = lg::LeaveGroupRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        ..Default::default()
    };
    let mut bench = Bench::eager();
    for version in 0..3 {
        let request = LeaveRequest::from_message(&message, version);
        let reply = bench.leave_all(request.members).into_message(version);
        assert_eq!(reply.error_code, ErrorCode::UnknownMemberId.code());
        assert!(reply.members.is_empty());
    }
    let message = lg::LeaveGroupRequest {
        group_id: "g".into(),
        members: vec![lg::MemberIdentity {
            member_id: "m".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let request = LeaveRequest::from_message(&message, 3);
    let reply = bench.leave_all(request.members).into_message(3);
    assert_eq!(reply.error_code, 0);
    assert_eq!(
        reply.members[0].error_code,
        ErrorCode::UnknownMemberId.code()
    );
}

#[test]
fn g38_a_fetch_is_for_one_group_before_version_8_and_for_many_from_it() {
    let message = of::OffsetFetchRequest {
        group_id: "g".into(),
        topics: None,
        ..Default::default()
    };
    let fetches = OffsetFetch::from_message(&message, 7);
    assert_eq!(fetches.len(), 1);
    assert_eq!(
        (fetches[0].group_id.as_str(), &fetches[0].topics),
        ("g", &None)
    );

    let group = |group_id: &'static str, topics| of::OffsetFetchRequestGroup {
        group_id: group_id.into(),
        topics,
        ..Default::default()
    };
    let topic = of::OffsetFetchRequestTopics {
        name: "t".into(),
        partition_indexes: vec![0, 1],
        ..Default::default()
    };
    let message = of::OffsetFetchRequest {
        groups: vec![group("g", Some(vec![topic])), group("h", None)],
        require_stable: true,
        ..Default::default()
    };
    let fetches = OffsetFetch::from_message(&message, 8);
    assert!(fetches.iter().all(|fetch| fetch.require_stable));
    let mut bench = Bench::eager();
    bench.commit_one(simple_commit(3));
    let tokens: Vec<_> = fetches.into_iter().map(|f| bench.fetch(f)).collect();
    let replies: Vec<_> = tokens.into_iter().map(|t| bench.fetched(t)).collect();
    let response = OffsetFetchReply::into_message(replies, 8);
    let names: Vec<_> = response
        .groups
        .iter()
        .map(|g| g.group_id.as_str())
        .collect();
    assert_eq!(names, ["g", "h"]);
    let partitions = &response.groups[0].topics[0].partitions;
    assert_eq!(partitions[0].committed_offset, 3);
    assert_eq!(partitions[1].committed_offset, -1);
    assert_eq!(partitions[1].metadata, Some(Str::default()));
    assert!(response.groups[1].topics.is_empty());
}

#[test]
fn an_error_of_a_fetch_is_told_where_its_version_has_room_for_it() {
    let mut bench = Bench::eager();
    bench.coordinator = Coordinator::new(Config::default());
    let token = bench.fetch(fetch_one());
    let reply = bench.fetched(token);
    let loading = ErrorCode::CoordinatorLoadInProgress.code();
    let oldest = OffsetFetchReply::into_message(vec![reply.clone()], 1);
    assert_eq!(oldest.topics[0].partitions[0].error_code, loading);
    let older = OffsetFetchReply::into_message(vec![reply.clone()], 7);
    assert_eq!((older.error_code, older.topics.len()), (loading, 0));
    let newest = OffsetFetchReply::into_message(vec![reply], 10);
    assert_eq!(newest.groups[0].error_code, loading);
    assert!(newest.groups[0].topics.is_empty());
}
