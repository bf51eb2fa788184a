//! SyncGroup and Heartbeat: assignments handed out, members kept alive.
//! Owned by the group.
//! Always: an assignment is handed out only once it is durable, and only in the generation it was made for.
//! What happens when its record is written is in `appended`.

use std::collections::BTreeMap;

use super::api::{
    AppendId, HeartbeatRequest, Reply, RequestContext, SyncReply, SyncRequest, Token,
};
use super::classic::{Group, State};
use super::coordinator::Coordinator;
use super::effects::{Completion, Effects};
use super::records;
use crate::base::{ErrorCode, Now};

/// From this version a sync must name protocol type and protocol.
const VERSION_PROTOCOL_NAMED: i16 = 5;

impl Coordinator {
    /// The reply is held until the leader's assignment is durable.
    pub fn sync(&mut self, now: Now, context: &RequestContext, request: SyncRequest, token: Token) {
        self.begin(now, token);
        let unnamed = context.api_version >= VERSION_PROTOCOL_NAMED
            && (request.protocol_type.is_none() || request.protocol_name.is_none());
        let error = if unnamed {
            Some(ErrorCode::InconsistentGroupProtocol)
        } else if request.group_id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else {
            self.unavailable()
        };
        if let Some(error) = error {
            return self.fx.reply(token, Reply::Sync(SyncReply::failed(error)));
        }
        match self.groups.get_mut(request.group_id.as_str()) {
            Some(group) if group.state != State::Empty => {
                group.sync(request, token, &mut self.fx);
            }
            Some(_) | None => {
                let reply = SyncReply::failed(ErrorCode::UnknownMemberId);
                self.fx.reply(token, Reply::Sync(reply));
            }
        }
    }

    /// Keeps a member alive and tells it whether to rejoin.
    pub fn heartbeat(&mut self, now: Now, request: &HeartbeatRequest) -> ErrorCode {
        self.fx.now = now;
        if request.group_id.is_empty() {
            return ErrorCode::InvalidGroupId;
        }
        match self.unavailable() {
            // It will find its group again; nothing to worry it with.
            Some(ErrorCode::CoordinatorLoadInProgress) => return ErrorCode::None,
            Some(error) => return error,
            None => {}
        }
        match self.groups.get_mut(request.group_id.as_str()) {
            None => ErrorCode::UnknownMemberId,
            Some(group) => group.heartbeat(request, &mut self.fx),
        }
    }
}

impl Group {
    fn heartbeat(&mut self, request: &HeartbeatRequest, fx: &mut Effects) -> ErrorCode {
        let instance_id = request.group_instance_id.as_deref();
        if let Err(error) = self.check_member(&request.member_id, instance_id) {
            return error;
        }
        if request.generation != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        let answer = match self.state {
            State::Empty => return ErrorCode::UnknownMemberId,
            State::PreparingRebalance => ErrorCode::RebalanceInProgress,
            State::CompletingRebalance | State::Stable => ErrorCode::None,
        };
        self.restart_session(&request.member_id, None, fx);
        answer
    }

    fn sync(&mut self, request: SyncRequest, token: Token, fx: &mut Effects) -> Option<AppendId> {
        let refused = match self.check_sync(&request) {
            Err(error) => Some(error),
            Ok(()) if self.state == State::PreparingRebalance => {
                Some(ErrorCode::RebalanceInProgress)
            }
            Ok(()) => None,
        };
        if let Some(error) = refused {
            fx.reply(token, Reply::Sync(SyncReply::failed(error)));
            return None;
        }
        self.pending_sync.remove(request.member_id.as_str());
        if self.pending_sync.is_empty() {
            fx.timers.cancel(&mut self.sync_timer);
        }
        if self.state == State::Stable {
            let reply = self.synced(&request.member_id);
            fx.reply(token, Reply::Sync(reply));
            return None;
        }
        self.hold_sync(&request.member_id, token, fx);
        if !self.is_leader(&request.member_id) || self.assignment_in_flight {
            return None;
        }
        let given: BTreeMap<_, _> = request.assignments.into_iter().collect();
        let of = |id: &str| given.get(id).cloned().unwrap_or_default();
        let assignments: BTreeMap<_, _> = self
            .members
            .keys()
            .map(|id| (id.to_string(), of(id)))
            .collect();
        let record = records::group_record(self, |id, _| of(id));
        let completion = Completion::Assignment {
            group: self.id.clone(),
            incarnation: self.incarnation,
            generation: self.generation,
            assignments,
        };
        self.assignment_in_flight = true;
        self.has_record = true;
        Some(fx.append(vec![record], completion))
    }

    fn check_sync(&self, request: &SyncRequest) -> Result<(), ErrorCode> {
        self.check_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        // Versions before 5 name neither.
        let differs = |asked: &Option<String>, own: &Option<String>| {
            asked.is_some() && own.is_some() && asked != own
        };
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol_name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// A good answer to a sync in the current generation.
    pub fn synced(&self, member_id: &str) -> SyncReply {
        SyncReply {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment: self.members[member_id].assignment.clone(),
        }
    }

    /// The assignment is durable: everybody gets its own, and the group is stable.
    pub fn assign(&mut self, mut assignments: BTreeMap<String, bytes::Bytes>, fx: &mut Effects) {
        let member_ids: Vec<_> = self.members.keys().cloned().collect();
        for member_id in member_ids {
            let member = self.members.get_mut(&member_id).expect("it is listed");
            member.assignment = assignments.remove(&*member_id).unwrap_or_default();
            let reply = self.synced(&member_id);
            if self.complete_sync(&member_id, reply, fx) {
                // While the sync was held the session could not end and its timer may be gone.
                self.restart_session(&member_id, None, fx);
            }
        }
        self.transition(State::Stable, fx.now.wall);
    }
}
