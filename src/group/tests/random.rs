//! Random histories: clients that join, sync, commit, fall silent and come back, on a disk that is slow, fails and is
//! cut off, with invariants checked after every step. `GROUP_SEED=n` runs the history of one seed, `GROUP_HISTORIES=n`
//! so many of them.

use std::collections::{BTreeSet, HashMap};

use super::super::classic::{Group, State};
use super::*;
use crate::base::Offset;

const HISTORIES: u64 = 200;
const STEPS: usize = 250;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[derive(Default)]
struct Client {
    instance: Option<&'static str>,
    member_id: String,
    generation: i32,
    /// What to tell the members, if it leads.
    members: Vec<String>,
    protocol_name: Option<String>,
    joining: Option<Token>,
    syncing: Option<Token>,
    wants_sync: bool,
    /// It has an assignment and no reason to join.
    is_settled: bool,
}

struct History {
    bench: Bench,
    random: Random,
    clients: Vec<Client>,
    has_failures: bool,
    has_statics: bool,
    /// Tokens of this coordinator, answered or not.
    asked: BTreeSet<Token>,
    /// Incarnation to generation.
    generations: HashMap<u64, i32>,
    /// (incarnation, generation) to who was told the members.
    leaders: HashMap<(u64, i32), String>,
    formed: u64,
    assigned: u64,
}

#[test]
fn random_histories_keep_the_invariants() {
    let number = |name: &str| {
        let value = std::env::var(name).ok()?;
        Some(value.parse::<u64>().expect("it is a number"))
    };
    let seeds = match number("GROUP_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("GROUP_HISTORIES").unwrap_or(HISTORIES),
    };
    let is_whole = seeds.start == 0;
    let (mut formed, mut assigned) = (0, 0);
    for seed in seeds {
        println!("seed {seed}");
        let mut history = History::new(seed);
        for _ in 0..STEPS {
            history.step();
            history.check();
        }
        history.end();
        formed += history.formed;
        assigned += history.assigned;
    }
    println!("{formed} joins answered, {assigned} assignments handed out");
    // Histories in which nothing happens keep any invariant.
    assert!(!is_whole || (formed > HISTORIES && assigned > HISTORIES));
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random(seed);
        let mut bench = Bench::new(Config {
            initial_rebalance_delay_ms: *random.pick(&[0, 3_000]),
            group_size_max: *random.pick(&[i32::MAX, 3]),
            offsets_retention_ms: *random.pick(&[60_000, 7 * 86_400_000]),
            offsets_retention_check_interval_ms: 30_000,
            ..Config::default()
        });
        bench.slow_disk = random.one_in(2);
        let has_statics = random.one_in(2);
        let client = |i: usize| Client {
            instance: (has_statics && i < 2).then_some(["one", "two"][i % 2]),
            ..Client::default()
        };
        History {
            bench,
            clients: (0..5).map(client).collect(),
            has_failures: random.one_in(3),
            has_statics,
            random,
            asked: BTreeSet::new(),
            generations: HashMap::new(),
            leaders: HashMap::new(),
            formed: 0,
            assigned: 0,
        }
    }

    fn step(&mut self) {
        let which = self.random.below(self.clients.len() as u64) as usize;
        match self.random.below(24) {
            0..=6 => self.join(which),
            7..=11 => (0..self.clients.len()).for_each(|which| self.sync(which)),
            12..=13 => {
                let client = &self.clients[which];
                let request = HeartbeatRequest {
                    group_id: "g".into(),
                    generation: client.generation,
                    member_id: client.member_id.clone(),
                    group_instance_id: client.instance.map(Into::into),
                };
                let answer = self.bench.coordinator.heartbeat(self.bench.now, &request);
                self.clients[which].is_settled &= answer.is_none();
            }
            14 => self.leave(which),
            15..=16 => self.commit(which),
            17 => {
                let token = self.bench.fetch(OffsetFetch {
                    require_stable: self.random.one_in(2),
                    ..fetch_one()
                });
                self.asked.insert(token);
            }
            18 => self.administer(),
            19 => {
                // A client that dies and starts again, with its connection.
                let client = &mut self.clients[which];
                let tokens = [client.joining.take(), client.syncing.take()];
                for token in tokens.into_iter().flatten() {
                    self.bench.coordinator.disconnect(token);
                    self.asked.remove(&token);
                }
                *client = Client {
                    instance: client.instance,
                    ..Client::default()
                };
            }
            20..=21 => {
                let most = *self.random.pick(&[100, 3_000, 20_000, 70_000]);
                let ms = self.random.below(most);
                self.bench.advance(ms);
            }
            22 => self.settle_some(),
            23 if self.random.one_in(4) => self.crash(),
            _ => self.bench.slow_disk = self.random.one_in(2),
        }
        self.bench.run();
        self.read_replies();
    }

    fn join(&mut self, which: usize) {
        let client = &mut self.clients[which];
        let is_busy = client.joining.is_some() || client.wants_sync || client.is_settled;
        if is_busy && !self.random.one_in(12) {
            return;
        }
        let names: &[&[&str]] = &[&["range"], &["range", "own"], &["own", "range"]];
        let names = *self.random.pick(names);
        let metadata = *self.random.pick(&["x", "y"]);
        let request = JoinRequest {
            group_instance_id: client.instance.map(Into::into),
            protocols: names.iter().map(|n| protocol(n, metadata)).collect(),
            session_timeout_ms: *self.random.pick(&[6_000, 10_000]),
            rebalance_timeout_ms: *self.random.pick(&[0, 10_000, 60_000]),
            ..member(&client.member_id)
        };
        let version = self.random.below(10) as i16;
        let token = self.bench.join_as(version, request);
        self.asked.insert(token);
        let client = &mut self.clients[which];
        // The answer to an earlier one is not waited for any more, but must come.
        client.joining = Some(token);
        client.wants_sync = false;
        client.is_settled = false;
    }

    fn sync(&mut self, which: usize) {
        let client = &mut self.clients[which];
        if !client.wants_sync || self.random.one_in(4) {
            return;
        }
        client.wants_sync = self.random.one_in(8);
        let generation = client.generation;
        let assign = |id: &String| (id.clone(), bytes(&format!("{generation}:{id}")));
        let request = SyncRequest {
            group_id: "g".into(),
            generation,
            member_id: client.member_id.clone(),
            group_instance_id: client.instance.map(Into::into),
            protocol_type: Some("consumer".into()),
            protocol_name: client.protocol_name.clone(),
            assignments: client.members.iter().map(assign).collect(),
        };
        let token = self.bench.token();
        self.bench
            .coordinator
            .sync(self.bench.now, &context(5), request, token);
        self.asked.insert(token);
        client.syncing = Some(token);
    }

    fn leave(&mut self, which: usize) {
        let client = &self.clients[which];
        let by_admin = self.random.one_in(2) && client.instance.is_some();
        let member = LeaveMember {
            member_id: match by_admin {
                true => String::new(),
                false => client.member_id.clone(),
            },
            group_instance_id: client.instance.map(Into::into),
            reason: None,
        };
        let request = LeaveRequest {
            group_id: "g".into(),
            members: vec![member],
        };
        let token = self.bench.token();
        self.asked.insert(token);
        self.bench.coordinator.leave(self.bench.now, request, token);
    }

    fn commit(&mut self, which: usize) {
        let client = &self.clients[which];
        let offset = self.random.below(1_000) as i64;
        let mut request = simple_commit(offset);
        request.topics[0].name = self.random.pick(&["t", "u"]).to_string();
        if !self.random.one_in(3) {
            request.generation = client.generation;
            request.member_id = client.member_id.clone();
            request.group_instance_id = client.instance.map(Into::into);
        }
        let token = self.bench.commit(request);
        self.asked.insert(token);
    }

    fn administer(&mut self) {
        let (now, token) = (self.bench.now, self.bench.token());
        let coordinator = &mut self.bench.coordinator;
        match self.random.below(3) {
            0 => coordinator.delete_groups(now, &["g", "h"], token),
            1 => {
                let topics = vec![("t".to_owned(), vec![PartitionIndex(0)])];
                let group_id = "g".into();
                coordinator.delete_offsets(now, OffsetDelete { group_id, topics }, token);
            }
            _ => {
                coordinator.forget_topics(now, |name, _| name == "u");
                return;
            }
        }
        self.asked.insert(token);
    }

    fn settle_some(&mut self) {
        while !self.bench.appends.is_empty() && !self.random.one_in(3) {
            let result = match self.has_failures && self.random.one_in(2) {
                true => Err(ErrorCode::NotEnoughReplicas),
                false => Ok(()),
            };
            self.bench.settle(result);
        }
    }

    /// Power is gone: of what was being written, a first part is on disk. Nobody is answered.
    fn crash(&mut self) {
        let written = self.random.below(self.bench.appends.len() as u64 + 1) as usize;
        for append in self.bench.appends.drain(..written) {
            self.bench.log.extend(append.records);
        }
        self.bench.restart();
        self.bench.replies.clear();
        self.asked.clear();
        self.generations.clear();
        self.leaders.clear();
        for client in &mut self.clients {
            (client.joining, client.syncing) = (None, None);
        }
    }

    fn read_replies(&mut self) {
        let replies = std::mem::take(&mut self.bench.replies);
        for (token, reply) in replies {
            assert!(
                self.asked.remove(&token),
                "{token:?} was not asked: {reply:?}"
            );
            match reply {
                Reply::Join(reply) => self.read_join(token, reply),
                Reply::Sync(reply) => self.read_sync(token, reply),
                Reply::Leave(_)
                | Reply::OffsetCommit(_)
                | Reply::OffsetFetch(_)
                | Reply::OffsetDelete(_)
                | Reply::DeleteGroups(_) => {}
            }
        }
    }

    fn read_join(&mut self, token: Token, reply: JoinReply) {
        if reply.error.is_none() {
            self.formed += 1;
            let told = !reply.members.is_empty();
            let incarnation = self
                .bench
                .coordinator
                .groups
                .get("g")
                .map(|g| g.incarnation);
            if let (true, false, Some(incarnation)) = (told, self.has_statics, incarnation) {
                let of = (incarnation, reply.generation);
                let leader = self.leaders.entry(of).or_insert(reply.leader.clone());
                assert_eq!(*leader, reply.member_id, "one leader in generation {of:?}");
            }
            assert!(!reply.member_id.is_empty() && reply.generation > 0);
        }
        let client = self.clients.iter_mut().find(|c| c.joining == Some(token));
        let Some(client) = client else {
            return;
        };
        client.joining = None;
        match reply.error {
            ErrorCode::None => {
                client.wants_sync = true;
                client.generation = reply.generation;
                client.members = reply.members.into_iter().map(|m| m.member_id).collect();
                client.protocol_name = reply.protocol_name;
                client.member_id = reply.member_id;
            }
            ErrorCode::MemberIdRequired => client.member_id = reply.member_id,
            // After a restart a member is known to support the chosen protocol alone.
            ErrorCode::InconsistentGroupProtocol
            | ErrorCode::RebalanceInProgress
            | ErrorCode::CoordinatorNotAvailable => {}
            ErrorCode::UnknownMemberId
            | ErrorCode::FencedInstanceId
            | ErrorCode::GroupMaxSizeReached => client.member_id = String::new(),
            other => panic!("a join is answered {other}"),
        }
    }

    fn read_sync(&mut self, token: Token, reply: SyncReply) {
        let client = self.clients.iter_mut().find(|c| c.syncing == Some(token));
        let Some(client) = client else {
            return;
        };
        client.syncing = None;
        match reply.error {
            ErrorCode::None => {
                client.is_settled = true;
                self.assigned += u64::from(!reply.assignment.is_empty());
                let assignment = String::from_utf8_lossy(&reply.assignment);
                let own = format!("{}:", client.generation);
                // A leader that lost the list of members, by a join answered again, assigns nothing.
                assert!(
                    assignment.is_empty() || assignment.starts_with(&own),
                    "assignment {assignment} in generation {own}"
                );
                if !self.has_statics && !assignment.is_empty() {
                    assert_eq!(assignment, format!("{own}{}", client.member_id));
                }
            }
            ErrorCode::RebalanceInProgress
            | ErrorCode::IllegalGeneration
            | ErrorCode::InconsistentGroupProtocol
            | ErrorCode::CoordinatorNotAvailable => {}
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => {
                client.member_id = String::new();
            }
            other => panic!("a sync is answered {other}"),
        }
    }

    fn check(&mut self) {
        let coordinator = &self.bench.coordinator;
        // The retention timer, and those that somebody holds.
        let mut timers = 1;
        for group in coordinator.groups.values() {
            check_group(group);
            let last = self.generations.entry(group.incarnation).or_default();
            assert!(*last <= group.generation, "generations only grow");
            *last = group.generation;
            timers += usize::from(group.join_timer.is_some());
            timers += usize::from(group.sync_timer.is_some());
            timers += group.pending_join.values().flatten().count();
            let sessions = group.members.values().filter_map(|m| m.session);
            timers += sessions.count();
        }
        assert_eq!(coordinator.fx.timers.len(), timers, "no timer is lost");
        for id in coordinator.offsets.groups() {
            let writes = coordinator.offsets.all_latest(id).count();
            let known = coordinator.groups.contains_key(id);
            assert!(known || writes == 0, "offsets belong to a group");
        }
        let open = coordinator.fx.open_tokens();
        let unanswered = self.asked.iter().filter(|token| !open.contains(token));
        assert_eq!(unanswered.count(), 0, "every request is open or answered");
        if self.bench.appends.is_empty() {
            self.check_log();
        }
    }

    /// What the log holds is what memory holds, as far as nothing is under way.
    fn check_log(&self) {
        // Static members that missed a rebalance may make a group larger than it may be: loading would begin another.
        let mut copy = Coordinator::new(Config::default());
        for record in &self.bench.log {
            let replayed = copy.replay(&record.key, record.value.as_deref());
            replayed.expect("our own records are good");
        }
        copy.finish_loading(self.bench.now);
        self.check_compacted(&copy);
        let offsets = |coordinator: &Coordinator| {
            let of_group = coordinator.offsets.all_committed("g");
            let owned =
                of_group.map(|(topic, partition, value)| (topic.clone(), partition, value.clone()));
            owned.collect::<Vec<_>>()
        };
        assert_eq!(offsets(&copy), offsets(&self.bench.coordinator));
        let group = self.bench.coordinator.groups.get("g");
        let settled = |g: &&Group| matches!(g.state, State::Empty | State::Stable);
        let (Some(group), false) = (group.filter(settled), self.has_failures) else {
            return;
        };
        let copied = copy.groups.get("g");
        if !group.has_record {
            // It only holds offsets, or held them.
            let has_offsets = copy.offsets.has_any("g");
            assert!(copied.is_some() || !has_offsets);
            assert!(copied.is_none_or(|copied| copied.state == State::Empty));
            return;
        }
        let copied = copied.expect("the group has a record");
        assert_eq!(durable_part(copied), durable_part(group));
    }

    /// The live records behind any part of the log, whole or cut off by a crash, or alone, say what the log says.
    fn check_compacted(&self, replayed: &Coordinator) {
        let mut live = LiveRecords::default();
        for (record, at) in self.bench.log.iter().zip(0..) {
            let (key, value) = (Some(&record.key[..]), record.value.as_deref());
            live.take(Offset(at), Timestamp(at), key, value);
        }
        let bytes = live.bytes();
        let live = live.into_records();
        assert_eq!(bytes, live.iter().map(LiveRecord::bytes).sum::<u64>());
        assert!(live.is_sorted_by_key(|record| record.offset));
        let cut = (self.bench.log.len() * 7 + 3) % (live.len() + 1);
        let expected = whole_state(replayed);
        for (with_log, written) in [(true, cut), (true, live.len()), (false, live.len())] {
            let mut compacted = Coordinator::new(Config::default());
            for record in self.bench.log.iter().filter(|_| with_log) {
                let replayed = compacted.replay(&record.key, record.value.as_deref());
                replayed.expect("our own records are good");
            }
            for record in &live[..written] {
                let replayed = compacted.replay(&record.key, Some(&record.value));
                replayed.expect("our own records are good");
            }
            compacted.finish_loading(self.bench.now);
            let found = whole_state(&compacted);
            assert_eq!(found, expected, "with the log before it: {with_log}");
        }
    }

    /// Clients fall silent, the disk works: everything that was asked is answered, and the group empties.
    fn end(&mut self) {
        self.bench.slow_disk = false;
        for _ in 0..40 {
            self.bench.advance(30_000);
            self.read_replies();
            self.check();
        }
        assert!(
            self.asked.is_empty(),
            "left without an answer: {:?}",
            self.asked
        );
        assert!(self.bench.coordinator.fx.open_tokens().is_empty());
        let state = self.bench.state();
        assert!(matches!(state, "Empty" | "Dead"), "{state}");
    }
}

/// What must hold of a group at any time.
fn check_group(group: &Group) {
    let leader = group.leader.as_ref();
    match group.members.is_empty() {
        true => assert_eq!(leader, None),
        false => assert!(
            group
                .members
                .contains_key(leader.expect("members have a leader"))
        ),
    }
    let held = group.members.values().filter(|m| m.join.is_some()).count();
    assert_eq!(held, group.joins_held);
    let statics = group.members.iter().filter_map(|(id, member)| {
        let instance = member.group_instance_id.clone()?;
        Some((instance, id.clone()))
    });
    assert_eq!(statics.collect::<BTreeMap<_, _>>(), group.static_members);
    for id in &group.pending_sync {
        assert!(group.members.contains_key(id));
    }
    for id in group.pending_join.keys() {
        assert!(!group.members.contains_key(id));
    }
    for (id, member) in &group.members {
        let is_waited_for = member.session.is_some();
        let waits = member.join.is_some() || member.sync.is_some();
        assert!(is_waited_for || waits, "{id} would stay for ever");
        assert!(member.sync.is_none() || group.state == State::CompletingRebalance);
    }
    match group.state {
        State::Empty => assert!(group.members.is_empty()),
        State::PreparingRebalance => assert!(group.join_timer.is_some(), "it ends"),
        State::CompletingRebalance | State::Stable => {
            assert!(!group.members.is_empty() && group.generation > 0);
            let name = group.protocol_name.as_deref().expect("it was chosen");
            for member in group.members.values() {
                assert!(member.protocols.iter().any(|p| p.name == name));
            }
            assert_eq!(group.join_timer, None);
        }
    }
}

/// Everything that a coordinator has loaded, printed; but for groups that hold nothing, which only a log that still has what they
/// held brings back.
fn whole_state(coordinator: &Coordinator) -> Vec<String> {
    let groups = coordinator.groups.values();
    let groups = groups.filter(|group| group.has_record || coordinator.offsets.has_any(&group.id));
    let states = groups.map(|group| {
        let offsets = coordinator.offsets.all_committed(&group.id);
        let offsets: Vec<_> = offsets.collect();
        format!("{}: {} {offsets:?}", group.id, durable_part(group))
    });
    states.collect()
}

/// What of a group survives a restart, printed.
fn durable_part(group: &Group) -> String {
    let members = group.members.iter().map(|(id, member)| {
        let metadata = member.metadata(group.protocol_name.as_deref().unwrap_or(""));
        format!(
            "{id} {:?} {} {} {} {metadata:?} {:?}",
            member.group_instance_id,
            member.client_id,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.assignment,
        )
    });
    // Retention asks since when a group is empty. A stable one becomes so after its record is written.
    let since = group.state_since.filter(|_| group.state == State::Empty);
    format!(
        "{:?} since {since:?} generation {} {:?} {:?} leader {:?} reads {:?}\n{:#?}",
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader,
        group.subscribed_topics,
        members.collect::<Vec<_>>(),
    )
}
