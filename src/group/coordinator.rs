//! The group coordinator of one partition of `__consumer_offsets`: its groups, their offsets and what is under way.
//! Owned by the shard that owns the partition; never touches a file: it hands out appends and is told when they are durable.
//! Always: commands are refused while loading and after resigning; every request handed in is answered once.
//! Each request has its flow in a file of its own; routing groups to coordinators is the caller's, by `partition_for`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::api::{JoinReply, Outputs, Reply, SyncReply, Token};
use super::classic::{Group, Member, State};
use super::config::Config;
use super::effects::Effects;
use super::offset_fetch::WaitingFetch;
use super::offsets::Offsets;
use super::records::{self, Loaded};
use super::timers::Event;
use crate::base::{ErrorCode, MonoNs, Now, Timestamp};
use crate::wire::messages::coordinator_records::GroupMetadataValue;
use crate::wire::{DecodeError, Str};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Records are replayed; then Active.
    Loading,
    /// Serving; until resigned.
    Active,
    /// Another coordinator, or none, has the partition.
    Resigned,
}

/// See the module documentation. Commands take the time, may leave [`Outputs`] to take, and may move
/// [`next_deadline`](Coordinator::next_deadline).
#[derive(Debug)]
pub struct Coordinator {
    phase: Phase,
    pub(super) fx: Effects,
    pub(super) groups: BTreeMap<Rc<str>, Group>,
    pub(super) offsets: Offsets,
    /// Offset fetches that want to see commits in flight, in the order of the appends they wait for.
    pub(super) waiting_fetches: std::collections::VecDeque<WaitingFetch>,
    groups_made: u64,
}

impl Coordinator {
    /// A coordinator that loads: replay all records, then say [`finish_loading`](Coordinator::finish_loading).
    pub fn new(config: Config) -> Coordinator {
        Coordinator {
            phase: Phase::Loading,
            fx: Effects::new(config),
            groups: BTreeMap::new(),
            offsets: Offsets::default(),
            waiting_fetches: Default::default(),
            groups_made: 0,
        }
    }

    /// Takes other settings; timers that run keep their times.
    pub fn set_config(&mut self, config: Config) {
        self.fx.config = config;
    }

    /// Takes over one durable record, in the order of the log. An error means the record is damaged or from the future;
    /// nothing changed then.
    pub fn replay(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), DecodeError> {
        assert_eq!(self.phase, Phase::Loading, "replay is for loading");
        match records::read(key, value)? {
            Loaded::Offset {
                group,
                topic,
                partition,
                value,
            } => {
                let id: Rc<str> = match (self.groups.get_key_value(group.as_str()), &value) {
                    (Some((id, _)), _) => id.clone(),
                    (None, None) => group.as_str().into(),
                    // Committed by a consumer that is no member: its group has no record.
                    (None, Some(_)) => self.make_group(&group, None).id.clone(),
                };
                let topic: Rc<str> = topic.as_str().into();
                self.offsets.load(&id, &topic, partition, value);
            }
            Loaded::Group { group, value: None } => {
                self.groups.remove(group.as_str());
            }
            Loaded::Group {
                group,
                value: Some(value),
            } => self.load_group(&group, &value),
            Loaded::Other { key_version } => {
                tracing::warn!(key_version, "record is of no classic group, left out");
            }
        }
        Ok(())
    }

    /// All records were replayed: sessions start to run and requests are served.
    pub fn finish_loading(&mut self, now: Now) {
        assert_eq!(self.phase, Phase::Loading, "loading ends once");
        self.phase = Phase::Active;
        self.fx.now = now;
        // Offsets whose group was deleted after them in the log still belong to a group as long as they are there.
        let orphans = self.offsets.groups();
        let orphans: Vec<_> = orphans
            .filter(|id| !self.groups.contains_key(*id))
            .cloned()
            .collect();
        for id in orphans {
            self.make_group(&id, None);
        }
        for group in self.groups.values_mut() {
            let member_ids: Vec<_> = group.members.keys().cloned().collect();
            for member_id in &member_ids {
                group.restart_session(member_id, None, &mut self.fx);
            }
            let max = usize::try_from(self.fx.config.group_size_max).unwrap_or(0);
            if member_ids.len() > max {
                // Rejoining sorts out who stays, after everybody could commit.
                group.prepare_rebalance("the group is larger than group.max.size", &mut self.fx);
            }
        }
        self.schedule_retention();
    }

    /// The partition is no longer ours, or can't be written any more: everybody waiting gets NOT_COORDINATOR, and so do
    /// requests from now on. Appends in flight need not be reported, and none come any more.
    pub fn resign(&mut self) {
        self.phase = Phase::Resigned;
        let error = ErrorCode::NotCoordinator;
        for group in self.groups.values_mut() {
            let member_ids: Vec<_> = group.members.keys().cloned().collect();
            for id in member_ids {
                group.complete_join(&id, JoinReply::failed(error, &id), &mut self.fx);
                group.complete_sync(&id, SyncReply::failed(error), &mut self.fx);
            }
        }
        while let Some(append) = self.fx.in_flight.pop_front() {
            if let Some((token, reply)) = append.reply {
                self.fx.reply(token, super::appended::failed(reply, error));
            }
        }
        for waiting in std::mem::take(&mut self.waiting_fetches) {
            let reply = super::offset_fetch::refused(&waiting.request, error);
            self.fx.reply(waiting.token, Reply::OffsetFetch(reply));
        }
        self.fx.forget_appends();
        self.fx.timers.clear();
        self.groups.clear();
        self.offsets.clear();
        assert!(
            self.fx.open_tokens().is_empty(),
            "requests left without an answer: {:?}",
            self.fx.open_tokens()
        );
    }

    /// When [`on_timer`](Coordinator::on_timer) wants to be called; may be in the past.
    pub fn next_deadline(&self) -> Option<MonoNs> {
        self.fx.timers.next_deadline()
    }

    /// Carries out what is due at `now`.
    pub fn on_timer(&mut self, now: Now) {
        self.fx.now = now;
        while let Some((_, event)) = self.fx.timers.pop_due(now.mono) {
            self.on_event(event);
        }
    }

    /// The connection of a held request is gone: nobody will hear the answer. The member stays until its session ends.
    pub fn disconnect(&mut self, token: Token) {
        self.fx.disconnect(token);
    }

    /// What is to be appended and answered since this was last called.
    pub fn take_outputs(&mut self) -> Outputs {
        self.fx.take_outputs()
    }

    /// Groups, for the metrics.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// A command with a held reply begins.
    pub(super) fn begin(&mut self, now: Now, token: Token) {
        self.fx.now = now;
        self.fx.open(token);
    }

    /// Why requests can't be served, if they can't.
    pub(super) fn unavailable(&self) -> Option<ErrorCode> {
        match self.phase {
            Phase::Loading => Some(ErrorCode::CoordinatorLoadInProgress),
            Phase::Active => None,
            Phase::Resigned => Some(ErrorCode::NotCoordinator),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The group of that name, made empty if there is none.
    pub(super) fn group_or_new(&mut self, id: &str) -> (&mut Group, &mut Effects) {
        if !self.groups.contains_key(id) {
            let since = Some(self.fx.now.wall);
            self.make_group(id, since);
        }
        let group = self.groups.get_mut(id).expect("it was just made sure");
        (group, &mut self.fx)
    }

    /// The group that was named so when it had this incarnation.
    pub(super) fn group_of(&mut self, id: &str, incarnation: u64) -> Option<&mut Group> {
        let group = self.groups.get_mut(id);
        group.filter(|group| group.incarnation == incarnation)
    }

    fn make_group(&mut self, id: &str, since: Option<Timestamp>) -> &mut Group {
        self.groups_made += 1;
        let id: Rc<str> = id.into();
        let group = Group::new(id.clone(), self.groups_made, since);
        self.groups.insert(id.clone(), group);
        self.groups.get_mut(&id).expect("it was just inserted")
    }

    fn on_event(&mut self, event: Event) {
        let (Event::Session { group, .. }
        | Event::InitialRebalance { group, .. }
        | Event::Join { group }
        | Event::Sync { group, .. }) = &event
        else {
            return self.expire();
        };
        let group = self.groups.get_mut(group);
        let group = group.expect("the timers of a deleted group are cancelled");
        let fx = &mut self.fx;
        match event {
            Event::Session { member, .. } => group.session_over(&member, fx),
            Event::InitialRebalance {
                delay_ms,
                remaining_ms,
                ..
            } => group.initial_delay_over(delay_ms, remaining_ms, fx),
            Event::Join { .. } => group.complete_join_phase(fx),
            Event::Sync { generation, .. } => group.sync_time_over(generation, fx),
            Event::Retention => unreachable!("it was sorted out above"),
        };
    }

    fn load_group(&mut self, id: &Str, value: &GroupMetadataValue) {
        let text = |text: &Str| text.as_str().to_owned();
        let group = self.make_group(id, None);
        group.has_record = true;
        group.generation = value.generation;
        group.protocol_name = value.protocol.as_ref().map(text);
        group.protocol_type = Some(text(&value.protocol_type)).filter(|name| !name.is_empty());
        group.leader = value.leader.as_deref().map(Into::into);
        let since = Timestamp(value.current_state_timestamp);
        group.state_since = (since != Timestamp::NONE).then_some(since);
        for member in &value.members {
            let instance = member.group_instance_id.as_deref();
            if group.members.contains_key(member.member_id.as_str())
                || instance.is_some_and(|id| group.static_members.contains_key(id))
            {
                tracing::warn!(group = %group.id, member = %member.member_id, "is listed twice, left out");
                continue;
            }
            let timeout_ms = match member.rebalance_timeout {
                -1 => member.session_timeout,
                timeout_ms => timeout_ms,
            };
            let protocol = super::api::Protocol {
                name: group.protocol_name.clone().unwrap_or_default(),
                metadata: member.subscription.clone(),
            };
            let loaded = Member {
                group_instance_id: member.group_instance_id.as_ref().map(text),
                client_id: text(&member.client_id),
                client_host: text(&member.client_host),
                rebalance_timeout_ms: timeout_ms,
                session_timeout_ms: member.session_timeout,
                protocols: vec![protocol],
                assignment: member.assignment.clone(),
                join: None,
                sync: None,
                is_new: false,
                session: None,
            };
            group.add(
                member.member_id.as_str().into(),
                &value.protocol_type,
                loaded,
            );
            group.state = State::Stable;
        }
        if !group.members.is_empty() {
            // A record that names neither is not ours; whoever wrote it, a group with members has both.
            group.protocol_name.get_or_insert_default();
            let leader = group.leader.take();
            let leader = leader.filter(|id| group.members.contains_key(id));
            group.leader = leader.or_else(|| group.members.keys().next().cloned());
        }
        group.read_subscriptions();
    }
}
