//! LeaveGroup, and members that leave by silence.
//! Owned by the group.
//! Always: a member that left is answered whatever it waited for, and the others rebalance.
//! The rebalance itself is in `rebalance`.

use super::api::{AppendId, LeaveMember, LeaveReply, LeaveRequest, LeftMember, Reply, Token};
use super::classic::{Group, State};
use super::coordinator::Coordinator;
use super::effects::Effects;
use crate::base::{ErrorCode, Now};

impl Coordinator {
    /// The reply waits for the record of a group that became empty.
    pub fn leave(&mut self, now: Now, request: LeaveRequest, token: Token) {
        self.begin(now, token);
        let error = if request.group_id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else {
            self.unavailable()
        };
        if let Some(error) = error {
            let members = Vec::new();
            return self
                .fx
                .reply(token, Reply::Leave(LeaveReply { error, members }));
        }
        let (append, members) = match self.groups.get_mut(request.group_id.as_str()) {
            Some(group) => group.leave(request.members, &mut self.fx),
            None => {
                let unknown = |member| left(member, ErrorCode::UnknownMemberId);
                (None, request.members.into_iter().map(unknown).collect())
            }
        };
        let error = ErrorCode::None;
        self.fx
            .reply_after(append, token, Reply::Leave(LeaveReply { error, members }));
    }
}

impl Group {
    fn leave(
        &mut self,
        leaving: Vec<LeaveMember>,
        fx: &mut Effects,
    ) -> (Option<AppendId>, Vec<LeftMember>) {
        let mut any = false;
        let mut outcomes = Vec::with_capacity(leaving.len());
        for member in leaving {
            let outcome = match self.find_leaving(&member) {
                Ok(member_id) => {
                    let reason = member.reason.as_deref().unwrap_or("not provided");
                    tracing::info!(group = %self.id, member = %member_id, reason, "member leaves");
                    self.remove(&member_id, fx);
                    any = true;
                    ErrorCode::None
                }
                Err(error) => error,
            };
            outcomes.push(left(member, outcome));
        }
        let append = match self.state {
            _ if !any => None,
            State::Empty => None,
            State::PreparingRebalance => self.complete_join_if_all(fx),
            State::CompletingRebalance | State::Stable => {
                self.prepare_rebalance("members left", fx)
            }
        };
        (append, outcomes)
    }

    /// The id of the member that is to go. An administrator names a static member by its instance id alone.
    fn find_leaving(&self, member: &LeaveMember) -> Result<String, ErrorCode> {
        let instance_id = member.group_instance_id.as_deref();
        if member.member_id.is_empty() {
            let known = instance_id.and_then(|instance| self.static_members.get(instance));
            known
                .map(|id| id.to_string())
                .ok_or(ErrorCode::UnknownMemberId)
        } else if self.pending_join.contains_key(member.member_id.as_str()) {
            Ok(member.member_id.clone())
        } else {
            self.check_member(&member.member_id, instance_id)?;
            Ok(member.member_id.clone())
        }
    }

    /// The session timeout of a member or a pending member is over.
    pub fn session_over(&mut self, member_id: &str, fx: &mut Effects) -> Option<AppendId> {
        let member = self.members.get_mut(member_id);
        let was_member = member.is_some();
        if let Some(member) = member {
            member.session = None;
            if member.has_satisfied_heartbeat() {
                return None;
            }
        }
        tracing::info!(group = %self.id, member = member_id, "session timed out");
        self.remove(member_id, fx);
        match self.state {
            State::Empty => None,
            State::PreparingRebalance if self.has_all_joined() => self.complete_join_phase(fx),
            State::PreparingRebalance => None,
            State::CompletingRebalance | State::Stable if was_member => {
                self.prepare_rebalance("a session timed out", fx)
            }
            State::CompletingRebalance | State::Stable => None,
        }
    }
}

fn left(member: LeaveMember, error: ErrorCode) -> LeftMember {
    LeftMember {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
        error,
    }
}
