//! One classic group: its state, its members and who among them waits for an answer (Kafka's `ClassicGroup`).
//! Owned by the coordinator's map; taken out of it when the group is deleted, which is Kafka's state Dead.
//! Always: at most one leader, and it is a member; all members support at least one common protocol; `joins_held`
//! counts the members whose join is held.
//! When to rebalance is decided in `join`, `rebalance`, `sync` and `leave`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;

use super::api::{JoinMember, JoinReply, JoinRequest, Protocol, Reply, SyncReply, Token};
use super::effects::Effects;
use super::timers::{Event, TimerHandle};
use crate::base::{ErrorCode, Timestamp};
use crate::wire::messages::consumer_protocol::ConsumerProtocolSubscription;
use crate::wire::{Message, Reader};

/// The protocol type of consumers, the only one whose metadata is looked into.
pub(super) const CONSUMER_PROTOCOL: &str = "consumer";

/// Kafka's states but Dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// No members, perhaps offsets. Joins lead to PreparingRebalance; offsets expire.
    Empty,
    /// Joins are held until everybody rejoined or the time is up; then CompletingRebalance, or Empty without members.
    PreparingRebalance,
    /// The generation is formed, syncs are held for the leader's assignment; then Stable, or PreparingRebalance.
    CompletingRebalance,
    /// Everybody has an assignment. Changes of members or their metadata lead to PreparingRebalance.
    Stable,
}

impl State {
    /// As the admin requests print it.
    pub fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }
}

#[derive(Debug)]
pub(super) struct Group {
    pub id: Rc<str>,
    /// Tells this group from an earlier one of the same name.
    pub incarnation: u64,
    pub state: State,
    /// The state before the last transition, `None` if there was none.
    pub previous_state: Option<State>,
    /// When `state` was entered, if that is known.
    pub state_since: Option<Timestamp>,
    pub generation: i32,
    /// `None` for a group that only ever held offsets.
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub leader: Option<Rc<str>>,
    pub members: BTreeMap<Rc<str>, Member>,
    /// Instance id to member id.
    pub static_members: BTreeMap<String, Rc<str>>,
    /// Ids that were handed out and have not joined yet (KIP-394), with the timer that forgets them.
    pub pending_join: BTreeMap<Rc<str>, Option<TimerHandle>>,
    /// Members of this generation that have not synced yet.
    pub pending_sync: BTreeSet<Rc<str>>,
    pub joins_held: usize,
    /// Protocol name to the number of members that support it.
    supporters: BTreeMap<String, usize>,
    /// What the members of the current generation subscribe to; `None` if that can't be known.
    pub subscribed_topics: Option<BTreeSet<String>>,
    /// A member came while the initial rebalance waited.
    pub member_added: bool,
    /// The leader's assignment of this generation is being written.
    pub assignment_in_flight: bool,
    /// A record of this group was written or is being written.
    pub has_record: bool,
    pub join_timer: Option<TimerHandle>,
    pub sync_timer: Option<TimerHandle>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub group_instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub protocols: Vec<Protocol>,
    pub assignment: Bytes,
    /// Its held join.
    pub join: Option<Token>,
    /// Its held sync.
    pub sync: Option<Token>,
    /// It has not been told its id yet, so it can't heartbeat.
    pub is_new: bool,
    pub session: Option<TimerHandle>,
}

impl Member {
    pub fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|p| p.name == protocol);
        found
            .expect("the chosen protocol is supported by every member")
            .metadata
            .clone()
    }

    /// A held request counts as a sign of life, but not from a client that may have gone without ever learning its id.
    pub fn has_satisfied_heartbeat(&self) -> bool {
        !self.is_new && (self.join.is_some() || self.sync.is_some())
    }
}

impl Group {
    pub fn new(id: Rc<str>, incarnation: u64, since: Option<Timestamp>) -> Group {
        Group {
            id,
            incarnation,
            state: State::Empty,
            previous_state: None,
            state_since: since,
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_join: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            joins_held: 0,
            supporters: BTreeMap::new(),
            subscribed_topics: None,
            member_added: false,
            assignment_in_flight: false,
            has_record: false,
            join_timer: None,
            sync_timer: None,
        }
    }

    pub fn transition(&mut self, to: State, now: Timestamp) {
        let listed = match (self.state, to) {
            (State::Empty, State::PreparingRebalance)
            | (State::CompletingRebalance, State::PreparingRebalance)
            | (State::Stable, State::PreparingRebalance)
            | (State::PreparingRebalance, State::CompletingRebalance)
            | (State::PreparingRebalance, State::Empty)
            | (State::CompletingRebalance, State::Stable) => true,
            (
                State::Empty
                | State::PreparingRebalance
                | State::CompletingRebalance
                | State::Stable,
                _,
            ) => false,
        };
        assert!(
            listed,
            "group {} can't go from {:?} to {to:?}",
            self.id, self.state
        );
        self.previous_state = Some(self.state);
        self.state = to;
        self.state_since = Some(now);
    }

    pub fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// A member whose protocols passed [`supports`](Group::supports) joins the others.
    pub fn add(&mut self, member_id: Rc<str>, protocol_type: &str, member: Member) {
        if let Some(instance) = &member.group_instance_id {
            let before = self
                .static_members
                .insert(instance.clone(), member_id.clone());
            assert!(before.is_none(), "instance {instance} is a member already");
        }
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type.to_owned());
        }
        if self.leader.is_none() {
            self.leader = Some(member_id.clone());
        }
        self.pending_join.remove(&member_id);
        self.count_protocols(&member.protocols);
        self.joins_held += usize::from(member.join.is_some());
        let before = self.members.insert(member_id, member);
        assert!(before.is_none(), "a member is added once");
    }

    /// Takes a member or a pending member out; whatever it waits for is answered with UNKNOWN_MEMBER_ID, so a client that
    /// is still there starts anew.
    pub fn remove(&mut self, member_id: &str, fx: &mut Effects) {
        let unknown = ErrorCode::UnknownMemberId;
        self.complete_join(member_id, JoinReply::failed(unknown, ""), fx);
        self.complete_sync(member_id, SyncReply::failed(unknown), fx);
        if let Some(mut member) = self.members.remove(member_id) {
            fx.timers.cancel(&mut member.session);
            self.uncount_protocols(&member.protocols);
            if let Some(instance) = &member.group_instance_id {
                self.static_members.remove(instance);
            }
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        if let Some(mut timer) = self.pending_join.remove(member_id) {
            fx.timers.cancel(&mut timer);
        }
        self.pending_sync.remove(member_id);
    }

    /// The static member `old_id` goes on as `new_id`. Requests held under the old id are fenced.
    pub fn replace_static(
        &mut self,
        instance_id: &str,
        old_id: &str,
        new_id: Rc<str>,
        fx: &mut Effects,
    ) {
        let fenced = ErrorCode::FencedInstanceId;
        self.complete_join(old_id, JoinReply::failed(fenced, old_id), fx);
        self.complete_sync(old_id, SyncReply::failed(fenced), fx);
        let mut member = self
            .members
            .remove(old_id)
            .expect("the member is there to be replaced");
        fx.timers.cancel(&mut member.session);
        member.is_new = false;
        if self.is_leader(old_id) {
            self.leader = Some(new_id.clone());
        }
        if self.pending_sync.remove(old_id) {
            self.pending_sync.insert(new_id.clone());
        }
        self.static_members
            .insert(instance_id.to_owned(), new_id.clone());
        self.members.insert(new_id, member);
    }

    /// New metadata and timeouts for a member, as its join asks.
    pub fn update(
        &mut self,
        member_id: &str,
        protocols: Vec<Protocol>,
        rebalance_timeout_ms: i32,
        session_timeout_ms: i32,
    ) {
        self.count_protocols(&protocols);
        let member = self
            .members
            .get_mut(member_id)
            .expect("a member is updated");
        let before = std::mem::replace(&mut member.protocols, protocols);
        member.rebalance_timeout_ms = rebalance_timeout_ms;
        member.session_timeout_ms = session_timeout_ms;
        self.uncount_protocols(&before);
    }

    /// Holds a member's join. A join held before was given up by the client; if it still listens, it asks again.
    pub fn hold_join(&mut self, member_id: &str, token: Token, fx: &mut Effects) {
        let again = JoinReply::failed(ErrorCode::RebalanceInProgress, member_id);
        self.complete_join(member_id, again, fx);
        let member = self.members.get_mut(member_id).expect("a member joins");
        member.join = Some(token);
        self.joins_held += 1;
    }

    /// Holds a member's sync; as with joins, a later one takes the place of an earlier one.
    pub fn hold_sync(&mut self, member_id: &str, token: Token, fx: &mut Effects) {
        let again = SyncReply::failed(ErrorCode::RebalanceInProgress);
        self.complete_sync(member_id, again, fx);
        let member = self.members.get_mut(member_id).expect("a member syncs");
        member.sync = Some(token);
    }

    /// Answers a member's held join, if there is one.
    pub fn complete_join(&mut self, member_id: &str, reply: JoinReply, fx: &mut Effects) -> bool {
        let held = self.members.get_mut(member_id).and_then(|m| m.join.take());
        if let Some(token) = held {
            self.joins_held -= 1;
            fx.reply(token, Reply::Join(reply));
        }
        held.is_some()
    }

    /// Answers a member's held sync, if there is one.
    pub fn complete_sync(&mut self, member_id: &str, reply: SyncReply, fx: &mut Effects) -> bool {
        let held = self.members.get_mut(member_id).and_then(|m| m.sync.take());
        if let Some(token) = held {
            fx.reply(token, Reply::Sync(reply));
        }
        held.is_some()
    }

    /// Gives a member its session timeout anew, or `timeout_ms`.
    pub fn restart_session(&mut self, member_id: &str, timeout_ms: Option<i32>, fx: &mut Effects) {
        let (id, member) = match self.members.get_key_value(member_id) {
            Some((id, _)) => (id.clone(), self.members.get_mut(member_id)),
            None => return,
        };
        let member = member.expect("it was just found");
        fx.timers.cancel(&mut member.session);
        let timeout_ms = timeout_ms.unwrap_or(member.session_timeout_ms);
        let event = Event::Session {
            group: self.id.clone(),
            member: id,
        };
        member.session = Some(fx.schedule(timeout_ms, event));
    }

    /// UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless the two ids name one current member (KIP-345).
    pub fn check_member(
        &self,
        member_id: &str,
        group_instance_id: Option<&str>,
    ) -> Result<(), ErrorCode> {
        if let Some(instance) = group_instance_id {
            match self.static_members.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(known) if &**known != member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    /// Whether a member of that type with these protocols can be in this group: an empty group takes any that names
    /// both, another wants its own type and a protocol that everybody has.
    pub fn supports(&self, request: &JoinRequest) -> bool {
        if self.state == State::Empty {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        let everybody = self.members.len();
        self.protocol_type.as_deref() == Some(&request.protocol_type)
            && request.protocols.iter().any(|protocol| {
                let supporters = self.supporters.get(&protocol.name);
                supporters.copied().unwrap_or(0) == everybody
            })
    }

    /// The protocol that most members prefer among those that all support; of equals, the first in the leader's order.
    pub fn select_protocol(&self) -> String {
        let everybody = self.members.len();
        let is_common = |name: &str| self.supporters.get(name) == Some(&everybody);
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let vote = member.protocols.iter().find(|p| is_common(&p.name));
            let vote = vote.expect("members have a protocol in common");
            *votes.entry(&vote.name).or_default() += 1;
        }
        let most = votes.values().copied().max();
        let leader = self.leader.as_ref().and_then(|id| self.members.get(id));
        let order = leader.map_or(&[][..], |member| &member.protocols);
        order
            .iter()
            .map(|protocol| protocol.name.as_str())
            .find(|name| votes.get(name).copied() == most)
            .expect("a group with members has a leader, which supports what was voted for")
            .to_owned()
    }

    /// The largest rebalance timeout of the members.
    pub fn rebalance_timeout_ms(&self) -> i32 {
        let timeouts = self.members.values().map(|m| m.rebalance_timeout_ms);
        timeouts.max().unwrap_or(0).max(0)
    }

    pub fn has_all_joined(&self) -> bool {
        self.joins_held == self.members.len() && self.pending_join.is_empty()
    }

    /// What the leader is told of everybody.
    pub fn joined_members(&self) -> Vec<JoinMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or("");
        self.members
            .iter()
            .map(|(id, member)| JoinMember {
                member_id: id.to_string(),
                group_instance_id: member.group_instance_id.clone(),
                metadata: member.metadata(protocol),
            })
            .collect()
    }

    /// A good answer to a join in the current generation.
    pub fn joined(&self, member_id: &str) -> JoinReply {
        JoinReply {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.as_deref().unwrap_or("").to_owned(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members: Vec::new(),
        }
    }

    pub fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL)
    }

    /// Whether the group reads this topic; a consumer group whose subscriptions can't be read may read any.
    pub fn is_subscribed(&self, topic: &str) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_protocol(),
        }
    }

    /// Reads the subscriptions of the members, for the chosen protocol.
    pub fn read_subscriptions(&mut self) {
        self.subscribed_topics = if !self.uses_consumer_protocol() {
            None
        } else if self.members.is_empty() {
            Some(BTreeSet::new())
        } else {
            self.protocol_name.as_deref().and_then(|protocol| {
                let mut topics = BTreeSet::new();
                for member in self.members.values() {
                    topics.append(&mut subscribed_topics(member.metadata(protocol))?);
                }
                Some(topics)
            })
        };
    }

    fn count_protocols(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            *self.supporters.entry(protocol.name.clone()).or_default() += 1;
        }
    }

    fn uncount_protocols(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            let count = self.supporters.get_mut(&protocol.name);
            let count = count.expect("a member's protocols are counted");
            *count -= 1;
            if *count == 0 {
                self.supporters.remove(&protocol.name);
            }
        }
    }
}

/// The topics in a consumer's metadata, or `None` if it is no subscription. Every version begins with what version 0 has.
fn subscribed_topics(metadata: Bytes) -> Option<BTreeSet<String>> {
    let mut reader = Reader::new(metadata);
    let version = reader.i16().ok()?;
    let subscription = ConsumerProtocolSubscription::decode_prefix(&mut reader, 0).ok()?;
    let topics = subscription.topics.iter();
    (version >= 0).then(|| topics.map(|topic| topic.as_str().to_owned()).collect())
}
