//! Tests of the coordinator as a whole, through its commands and outputs.
//! `Bench` plays the caller: it keeps the log, reports appends and collects replies.
//! Always: every reply that comes is kept by its token, and a token that gets two makes the test fail.
//! Numbers such as G34 are the gotchas of the protocol that a test is about.

mod members;
mod offsets;
mod random;
mod rebalances;
mod recorded;
mod statics;
mod versions;

use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::base::{ErrorCode, MonoNs, Now, PartitionIndex, Timestamp, Uuid};

/// The wall clock when a bench starts.
const START_MS: i64 = 1_700_000_000_000;

struct Bench {
    coordinator: Coordinator,
    now: Now,
    tokens: u64,
    ids: u8,
    log: Vec<Record>,
    /// Appends the coordinator wants, not reported yet.
    appends: Vec<Append>,
    replies: BTreeMap<Token, Reply>,
    /// Appends wait for `settle`.
    slow_disk: bool,
}

impl Bench {
    fn new(config: Config) -> Bench {
        let mut bench = Bench {
            coordinator: Coordinator::new(config),
            now: Now {
                wall: Timestamp(START_MS),
                mono: MonoNs(1_000_000_000),
            },
            tokens: 0,
            ids: 0,
            log: Vec::new(),
            appends: Vec::new(),
            replies: BTreeMap::new(),
            slow_disk: false,
        };
        bench.coordinator.finish_loading(bench.now);
        bench
    }

    /// Kafka's settings, but the initial rebalance does not wait.
    fn eager() -> Bench {
        Bench::new(Config {
            initial_rebalance_delay_ms: 0,
            ..Config::default()
        })
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    fn collect(&mut self) {
        let outputs = self.coordinator.take_outputs();
        for (token, reply) in outputs.replies {
            let before = self.replies.insert(token, reply);
            assert_eq!(before, None, "{token:?} is answered once");
        }
        self.appends.extend(outputs.appends);
    }

    /// Runs the due timers and, unless the disk is slow, makes everything durable.
    fn run(&mut self) {
        self.collect();
        while let Some(at) = self.coordinator.next_deadline() {
            if at > self.now.mono {
                break;
            }
            self.coordinator.on_timer(self.now);
            self.collect();
        }
        while !self.slow_disk && !self.appends.is_empty() {
            self.settle(Ok(()));
        }
    }

    /// Reports the oldest append.
    fn settle(&mut self, result: Result<(), ErrorCode>) {
        let append = self.appends.remove(0);
        if result.is_ok() {
            self.log.extend(append.records);
        }
        self.coordinator.on_appended(append.id, result, self.now);
        self.collect();
    }

    /// Lets time pass in steps, so that timers run when they are due.
    fn advance(&mut self, ms: u64) {
        let end = MonoNs(self.now.mono.0 + ms * 1_000_000);
        self.run();
        loop {
            let next = self.coordinator.next_deadline();
            let next = next.filter(|at| *at <= end).unwrap_or(end);
            let passed_ns = next.0.saturating_sub(self.now.mono.0);
            self.now.mono = MonoNs(self.now.mono.0 + passed_ns);
            self.now.wall = Timestamp(START_MS + (self.now.mono.0 / 1_000_000) as i64 - 1_000);
            self.run();
            if self.now.mono >= end {
                return;
            }
        }
    }

    /// A coordinator that starts from the log.
    fn restart(&mut self) {
        let config = self.coordinator_config();
        self.coordinator = Coordinator::new(config);
        for record in &self.log {
            let replayed = self
                .coordinator
                .replay(&record.key, record.value.as_deref());
            replayed.expect("our own records are good");
        }
        self.appends.clear();
        self.coordinator.finish_loading(self.now);
    }

    fn coordinator_config(&self) -> Config {
        self.coordinator.fx.config.clone()
    }

    fn random(&mut self) -> Uuid {
        self.ids += 1;
        Uuid([self.ids; 16])
    }

    fn join_as(&mut self, version: i16, request: JoinRequest) -> Token {
        let token = self.token();
        let random = self.random();
        let context = context(version);
        self.coordinator
            .join(self.now, random, &context, request, token);
        self.run();
        token
    }

    fn join(&mut self, request: JoinRequest) -> Token {
        self.join_as(9, request)
    }

    /// A join that is answered at once.
    fn join_now(&mut self, request: JoinRequest) -> JoinReply {
        let token = self.join(request);
        self.joined(token)
    }

    /// Takes the answer to a join.
    fn joined(&mut self, token: Token) -> JoinReply {
        match self.replies.remove(&token) {
            Some(Reply::Join(reply)) => reply,
            other => panic!("no answer to the join but {other:?}"),
        }
    }

    /// These joins are answered with that generation.
    fn form(&mut self, generation: i32, joins: &[Token]) {
        for &token in joins {
            assert_eq!(self.joined(token).generation, generation);
        }
    }

    fn is_held(&self, token: Token) -> bool {
        !self.replies.contains_key(&token)
    }

    /// A new dynamic member in both its steps; the second is held perhaps.
    fn enter(&mut self, request: JoinRequest) -> (String, Token) {
        let asked = self.join_now(request.clone());
        assert_eq!(asked.error, ErrorCode::MemberIdRequired);
        let token = self.join(JoinRequest {
            member_id: asked.member_id.clone(),
            ..request
        });
        (asked.member_id, token)
    }

    fn sync(&mut self, member_id: &str, generation: i32, assignments: &[(&str, &str)]) -> Token {
        let assignments = assignments
            .iter()
            .map(|(id, blob)| (id.to_string(), bytes(blob)));
        let token = self.token();
        let request = SyncRequest {
            group_id: "g".into(),
            generation,
            member_id: member_id.into(),
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            assignments: assignments.collect(),
            ..SyncRequest::default()
        };
        self.coordinator.sync(self.now, &context(5), request, token);
        self.run();
        token
    }

    fn synced(&mut self, token: Token) -> SyncReply {
        match self.replies.remove(&token) {
            Some(Reply::Sync(reply)) => reply,
            other => panic!("no answer to the sync but {other:?}"),
        }
    }

    fn heartbeat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: "g".into(),
            generation,
            member_id: member_id.into(),
            group_instance_id: None,
        };
        self.coordinator.heartbeat(self.now, &request)
    }

    fn leave(&mut self, member_id: &str) -> LeaveReply {
        self.leave_all(vec![LeaveMember {
            member_id: member_id.into(),
            ..LeaveMember::default()
        }])
    }

    fn leave_all(&mut self, members: Vec<LeaveMember>) -> LeaveReply {
        let token = self.token();
        let group_id = "g".into();
        let request = LeaveRequest { group_id, members };
        self.coordinator.leave(self.now, request, token);
        self.run();
        match self.replies.remove(&token) {
            Some(Reply::Leave(reply)) => reply,
            other => panic!("no answer to the leave but {other:?}"),
        }
    }

    fn state(&self) -> &'static str {
        self.coordinator.describe(&context(5), "g").state
    }

    fn commit(&mut self, request: OffsetCommit) -> Token {
        let token = self.token();
        self.coordinator
            .commit_offsets(self.now, &context(8), request, token);
        self.run();
        token
    }

    /// The outcome of a commit of one partition.
    fn commit_one(&mut self, request: OffsetCommit) -> ErrorCode {
        let token = self.commit(request);
        self.committed(token)
    }

    fn committed(&mut self, token: Token) -> ErrorCode {
        match self.replies.remove(&token) {
            Some(Reply::OffsetCommit(reply)) => reply.topics[0].partitions[0].1,
            other => panic!("no answer to the commit but {other:?}"),
        }
    }

    fn fetch(&mut self, request: OffsetFetch) -> Token {
        let token = self.token();
        self.coordinator.fetch_offsets(self.now, request, token);
        self.run();
        token
    }

    fn fetched(&mut self, token: Token) -> OffsetFetchReply {
        match self.replies.remove(&token) {
            Some(Reply::OffsetFetch(reply)) => reply,
            other => panic!("no answer to the fetch but {other:?}"),
        }
    }

    /// The offset that group `g` has committed for partition 0 of topic `t`.
    fn offset(&mut self) -> i64 {
        let token = self.fetch(fetch_one());
        self.fetched(token).topics[0].partitions[0].offset
    }

    /// A stable group `g` with a leader and a follower, in generation 1.
    fn two_members(&mut self) -> (String, String) {
        let (leader, first) = self.enter(consumer());
        let before = self.joined(first);
        assert_eq!(before.generation, 1);
        let sync = self.sync(&leader, 1, &[(&leader, "all")]);
        assert_eq!(self.synced(sync).assignment, "all");
        let (follower, second) = self.enter(consumer());
        let first = self.join(member(&leader));
        assert_eq!(self.joined(first).generation, 2);
        assert_eq!(self.joined(second).generation, 2);
        let theirs = self.sync(&follower, 2, &[]);
        let own = self.sync(&leader, 2, &[(&leader, "a"), (&follower, "b")]);
        assert_eq!(self.synced(own).assignment, "a");
        assert_eq!(self.synced(theirs).assignment, "b");
        assert_eq!(self.state(), "Stable");
        (leader, follower)
    }
}

fn context(api_version: i16) -> RequestContext {
    RequestContext {
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        api_version,
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn protocol(name: &str, metadata: &str) -> Protocol {
    Protocol {
        name: name.into(),
        metadata: bytes(metadata),
    }
}

/// A join of a new consumer.
fn consumer() -> JoinRequest {
    JoinRequest {
        group_id: "g".into(),
        member_id: String::new(),
        group_instance_id: None,
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range", "about me")],
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        reason: None,
    }
}

/// A join of a member.
fn member(member_id: &str) -> JoinRequest {
    JoinRequest {
        member_id: member_id.into(),
        ..consumer()
    }
}

/// A commit of `offset` for partition 0 of topic `t` by nobody in particular.
fn simple_commit(offset: i64) -> OffsetCommit {
    OffsetCommit {
        group_id: "g".into(),
        generation: -1,
        member_id: String::new(),
        group_instance_id: None,
        retention_time_ms: -1,
        topics: vec![CommitTopic {
            name: "t".into(),
            topic_id: Uuid([7; 16]),
            partitions: vec![CommitPartition {
                partition: PartitionIndex(0),
                offset,
                leader_epoch: 3,
                metadata: Some("note".into()),
            }],
        }],
    }
}

fn fetch_one() -> OffsetFetch {
    OffsetFetch {
        group_id: "g".into(),
        topics: Some(vec![FetchTopic {
            name: "t".into(),
            topic_id: Uuid::ZERO,
            partitions: vec![PartitionIndex(0)],
        }]),
        require_stable: false,
    }
}

#[test]
fn g39_groups_are_mapped_to_partitions_as_kafka_maps_them() {
    // From org.apache.kafka.common.utils.Utils.abs(id.hashCode()) % 50 in a real JVM.
    for (group_id, partition) in [
        ("", 0),
        ("my-group", 12),
        ("console-consumer-1", 24),
        ("gruppe-ä-日本-😀", 28),
        ("polygenelubricants", 0),
    ] {
        assert_eq!(partition_for(group_id, 50), partition, "{group_id}");
    }
}

#[test]
fn a_coordinator_that_loads_or_has_resigned_refuses_and_says_why() {
    let mut bench = Bench::eager();
    bench.coordinator = Coordinator::new(Config::default());
    let loading = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!(bench.join_now(consumer()).error, loading);
    assert_eq!(bench.commit_one(simple_commit(1)), loading);
    let token = bench.fetch(fetch_one());
    assert_eq!(bench.fetched(token).error, loading);
    assert_eq!(bench.leave("m").error, loading);
    assert_eq!(bench.coordinator.describe(&context(5), "g").error, loading);
    assert_eq!(bench.coordinator.list(&[""; 0], &[""; 0]), Err(loading));
    // A member that is only saying it lives is left in peace.
    assert_eq!(bench.heartbeat("m", 1), ErrorCode::None);

    bench.coordinator.finish_loading(bench.now);
    bench.slow_disk = true;
    let commit = bench.commit(simple_commit(1));
    let (_, join) = bench.enter(consumer());
    let late = bench.token();
    let elsewhere = OffsetCommit {
        group_id: "h".into(),
        ..simple_commit(2)
    };
    bench
        .coordinator
        .commit_offsets(bench.now, &context(8), elsewhere, late);
    let taken = bench.appends.len();
    bench.coordinator.resign();
    bench.collect();
    assert_eq!(bench.appends.len(), taken, "nothing more is to be written");
    let gone = ErrorCode::NotCoordinator;
    assert_eq!(bench.committed(late), gone);
    assert_eq!(bench.committed(commit), gone);
    assert_eq!(bench.joined(join).error, gone);
    assert_eq!(bench.join_now(consumer()).error, gone);
    assert_eq!(bench.heartbeat("m", 1), gone);
    assert_eq!(bench.coordinator.next_deadline(), None);
}

#[test]
fn the_reply_of_a_closed_connection_is_dropped_and_its_member_stays() {
    let mut bench = Bench::eager();
    let (leader, _) = bench.two_members();
    let (newcomer, join) = bench.enter(consumer());
    bench.coordinator.disconnect(join);
    let rejoin = bench.join(member(&leader));
    assert!(bench.is_held(rejoin), "the follower is still missing");
    bench.advance(60_000);
    let reply = bench.joined(rejoin);
    assert!(reply.members.iter().any(|m| m.member_id == newcomer));
    assert!(bench.is_held(join), "nobody hears the answer");
}
