//! JoinGroup: who is let into a group, under which id, and whether that starts a rebalance.
//! Owned by the coordinator, which makes the group, and then by the group.
//! Always: a refused join changes nothing but perhaps the existence of an empty group (as in Kafka).
//! Forming the generation is left to `rebalance`.

use std::rc::Rc;

use super::api::{AppendId, JoinReply, JoinRequest, Reply, RequestContext, Token};
use super::classic::{Group, Member, State};
use super::coordinator::Coordinator;
use super::effects::{Completion, Effects, StaticReplacement};
use super::records::{self, TEXT_BYTES_MAX};
use super::timers::Event;
use crate::base::{ErrorCode, Now, Uuid};

/// From this version a dynamic member is told its id first and joins with it (KIP-394).
const VERSION_MEMBER_ID_REQUIRED: i16 = 4;
/// From this version a leader can be told not to assign (KIP-814).
const VERSION_SKIP_ASSIGNMENT: i16 = 9;

impl Coordinator {
    /// `random` becomes part of a new member's id. The reply is held until the rebalance ends.
    pub fn join(
        &mut self,
        now: Now,
        random: Uuid,
        context: &RequestContext,
        request: JoinRequest,
        token: Token,
    ) {
        self.begin(now, token);
        let allowed = self.fx.config.session_timeout_ms_min..=self.fx.config.session_timeout_ms_max;
        let refused = if request.group_id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else if !allowed.contains(&request.session_timeout_ms) {
            Some(ErrorCode::InvalidSessionTimeout)
        } else {
            None
        };
        if let Some(error) = refused {
            let reply = JoinReply::failed(error, &request.member_id);
            return self.fx.reply(token, Reply::Join(reply));
        }
        let is_too_long = |text: &str| text.len() > TEXT_BYTES_MAX;
        let unfit = is_too_long(&context.client_id)
            || is_too_long(&request.group_id)
            || is_too_long(&request.protocol_type)
            || request
                .group_instance_id
                .as_deref()
                .is_some_and(is_too_long)
            || request.protocols.iter().any(|p| is_too_long(&p.name));
        let error = unfit.then_some(ErrorCode::UnknownServerError);
        if let Some(error) = self.unavailable().or(error) {
            let reply = JoinReply::failed(error, "");
            return self.fx.reply(token, Reply::Join(reply));
        }
        let is_new_group = !self.groups.contains_key(request.group_id.as_str());
        if is_new_group && !request.member_id.is_empty() {
            let reply = JoinReply::failed(ErrorCode::UnknownMemberId, &request.member_id);
            return self.fx.reply(token, Reply::Join(reply));
        }
        let (group, fx) = self.group_or_new(&request.group_id);
        let append = group.join(random, context, request, token, fx);
        if is_new_group && append.is_none() {
            group.has_record = true;
            let record = records::empty_group_record(group);
            let completion = Completion::NewGroup {
                group: group.id.clone(),
                incarnation: group.incarnation,
            };
            fx.append(vec![record], completion);
        }
    }
}

impl Group {
    fn join(
        &mut self,
        random: Uuid,
        context: &RequestContext,
        request: JoinRequest,
        token: Token,
        fx: &mut Effects,
    ) -> Option<AppendId> {
        let refused = |error, member_id: &str| Reply::Join(JoinReply::failed(error, member_id));
        if !self.has_room(&request.member_id, fx) {
            self.remove(&request.member_id, fx);
            fx.reply(token, refused(ErrorCode::GroupMaxSizeReached, ""));
            return None;
        }
        if !self.supports(&request) {
            let reply = refused(ErrorCode::InconsistentGroupProtocol, &request.member_id);
            fx.reply(token, reply);
            return None;
        }
        if !request.member_id.is_empty() {
            return self.rejoin(context, request, token, fx);
        }
        let prefix = match &request.group_instance_id {
            Some(instance) => instance,
            None => &context.client_id,
        };
        let member_id: Rc<str> = format!("{prefix}-{}", hyphenated(random)).into();
        let known = request.group_instance_id.as_ref();
        let known = known.and_then(|instance| self.static_members.get(instance).cloned());
        if let Some(old_id) = known {
            self.join_replacing(&old_id, member_id, context, request, token, fx)
        } else if request.group_instance_id.is_none()
            && context.api_version >= VERSION_MEMBER_ID_REQUIRED
        {
            let event = Event::Session {
                group: self.id.clone(),
                member: member_id.clone(),
            };
            let timer = fx.schedule(request.session_timeout_ms, event);
            self.pending_join.insert(member_id.clone(), Some(timer));
            fx.reply(token, refused(ErrorCode::MemberIdRequired, &member_id));
            None
        } else {
            self.join_new(member_id, context, request, token, fx)
        }
    }

    /// Whether `group.max.size` lets this member in. While a rebalance gathers joins, those count that are held: so the
    /// last to rejoin an oversized group are the ones to go.
    fn has_room(&self, member_id: &str, fx: &Effects) -> bool {
        let max = usize::try_from(fx.config.group_size_max).unwrap_or(0);
        let member = self.members.get(member_id);
        match self.state {
            State::Empty => true,
            State::PreparingRebalance => {
                member.is_some_and(|m| m.join.is_some()) || self.joins_held < max
            }
            State::CompletingRebalance | State::Stable => {
                member.is_some() || self.members.len() < max
            }
        }
    }

    fn join_new(
        &mut self,
        member_id: Rc<str>,
        context: &RequestContext,
        request: JoinRequest,
        token: Token,
        fx: &mut Effects,
    ) -> Option<AppendId> {
        if self.state == State::PreparingRebalance && self.previous_state == Some(State::Empty) {
            self.member_added = true;
        }
        if let Some(timer) = self.pending_join.get_mut(&member_id) {
            fx.timers.cancel(timer);
        }
        let member = Member {
            group_instance_id: request.group_instance_id,
            client_id: context.client_id.clone(),
            client_host: context.client_host.clone(),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols,
            assignment: bytes::Bytes::new(),
            join: Some(token),
            sync: None,
            is_new: true,
            session: None,
        };
        self.add(member_id.clone(), &request.protocol_type, member);
        // Its client may be gone and come back as yet another member: this bounds how long it stays without a heartbeat.
        let timeout_ms = fx.config.new_member_join_timeout_ms;
        self.restart_session(&member_id, Some(timeout_ms), fx);
        self.rebalance_or_complete(&reason("a member joins", &request.reason), fx)
    }

    /// A join of a member that names itself.
    fn rejoin(
        &mut self,
        context: &RequestContext,
        request: JoinRequest,
        token: Token,
        fx: &mut Effects,
    ) -> Option<AppendId> {
        let member_id: Rc<str> = request.member_id.as_str().into();
        let is_pending = self.pending_join.contains_key(&member_id);
        if is_pending && request.group_instance_id.is_none() {
            return self.join_new(member_id, context, request, token, fx);
        }
        let checked = self.check_member(&member_id, request.group_instance_id.as_deref());
        let error = match (self.state, checked) {
            (_, Err(error)) => Some(error),
            (State::Empty, Ok(())) => Some(ErrorCode::UnknownMemberId),
            (State::PreparingRebalance | State::CompletingRebalance | State::Stable, Ok(())) => {
                None
            }
        };
        if let Some(error) = error {
            fx.reply(token, Reply::Join(JoinReply::failed(error, &member_id)));
            return None;
        }
        let unchanged = self.members[&member_id].protocols == request.protocols;
        let is_leader = self.is_leader(&member_id);
        let answer_now = match self.state {
            State::Empty | State::PreparingRebalance => false,
            // Perhaps the answer to its join was lost: the same again.
            State::CompletingRebalance => unchanged,
            // A leader that joins wants to assign anew, even if nothing changed in what it says.
            State::Stable => unchanged && !is_leader,
        };
        if answer_now {
            let mut reply = self.joined(&member_id);
            if is_leader {
                reply.members = self.joined_members();
            }
            fx.reply(token, Reply::Join(reply));
            return None;
        }
        self.update(
            &member_id,
            request.protocols,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
        );
        self.hold_join(&member_id, token, fx);
        self.rebalance_or_complete(&reason("a member rejoins", &request.reason), fx)
    }

    /// A static member is back without its id (KIP-345): it takes over, in a stable group without a rebalance.
    fn join_replacing(
        &mut self,
        old_id: &Rc<str>,
        new_id: Rc<str>,
        context: &RequestContext,
        request: JoinRequest,
        token: Token,
        fx: &mut Effects,
    ) -> Option<AppendId> {
        let instance_id = request.group_instance_id.clone();
        let instance_id = instance_id.expect("only static members are replaced");
        tracing::info!(group = %self.id, instance = %instance_id, old = %old_id, new = %new_id, "static member replaced");
        let leader_before = self.leader.clone();
        self.replace_static(&instance_id, old_id, new_id.clone(), fx);
        self.restart_session(&new_id, None, fx);
        let member = &self.members[&new_id];
        let replacement = StaticReplacement {
            group: self.id.clone(),
            incarnation: self.incarnation,
            generation: self.generation,
            instance_id,
            new_member_id: new_id.clone(),
            old_member_id: old_id.clone(),
            old_protocols: member.protocols.clone(),
            old_rebalance_timeout_ms: member.rebalance_timeout_ms,
            old_session_timeout_ms: member.session_timeout_ms,
            leader_before,
            can_skip_assignment: context.api_version >= VERSION_SKIP_ASSIGNMENT,
        };
        self.update(
            &new_id,
            request.protocols,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
        );
        self.hold_join(&new_id, token, fx);
        let why = reason("a static member comes back", &request.reason);
        match self.state {
            State::Stable if self.protocol_name.as_ref() == Some(&self.select_protocol()) => {
                let record = records::group_record(self, |_, member| member.assignment.clone());
                let completion = Completion::StaticReplacement(Box::new(replacement));
                Some(fx.append(vec![record], completion))
            }
            // In CompletingRebalance the leader may be assigning to the old id: all over again.
            State::Stable | State::CompletingRebalance => self.rebalance_or_complete(&why, fx),
            State::PreparingRebalance => self.complete_join_if_all(fx),
            State::Empty => unreachable!("an empty group has no members to replace"),
        }
    }
}

fn reason(what: &str, client: &Option<String>) -> String {
    match client.as_deref() {
        None | Some("") => what.to_owned(),
        Some(client) => format!("{what}; client reason: {client}"),
    }
}

/// As Java prints a `java.util.UUID`.
fn hyphenated(id: Uuid) -> String {
    let hex: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}
