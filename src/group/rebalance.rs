//! The rebalance: from held joins to a new generation, and the end of the time to sync.
//! Owned by the group that rebalances; a generation is formed at most once per PreparingRebalance.
//! Always: the generation only grows; members that did not rejoin in time are out, unless they are static.
//! Handing out assignments is left to `sync`.

use super::api::{AppendId, JoinReply, SyncReply};
use super::classic::{Group, State};
use super::effects::{Completion, Effects};
use super::records;
use super::timers::Event;
use crate::base::ErrorCode;

/// How often at most a rebalance in which nobody takes part is looked at. Members choose the rebalance timeout, and with
/// one of 0 the timer would run for ever without time going on.
const ABSENT_RETRY_MS: i32 = 1_000;

impl Group {
    /// A rebalance if none is running, else a look whether the running one can end.
    pub fn rebalance_or_complete(&mut self, reason: &str, fx: &mut Effects) -> Option<AppendId> {
        match self.state {
            State::Empty | State::CompletingRebalance | State::Stable => {
                self.prepare_rebalance(reason, fx)
            }
            State::PreparingRebalance => self.complete_join_if_all(fx),
        }
    }

    pub fn prepare_rebalance(&mut self, reason: &str, fx: &mut Effects) -> Option<AppendId> {
        if self.state == State::CompletingRebalance {
            self.refuse_syncs(ErrorCode::RebalanceInProgress, fx);
        }
        self.pending_sync.clear();
        fx.timers.cancel(&mut self.sync_timer);
        fx.timers.cancel(&mut self.join_timer);
        self.assignment_in_flight = false;
        let is_initial = self.state == State::Empty;
        self.transition(State::PreparingRebalance, fx.now.wall);
        tracing::info!(
            group = %self.id, generation = self.generation, members = self.members.len(), reason,
            "rebalance begins"
        );
        if is_initial {
            // More members are likely to come: forming a generation for the first one would be work for nothing.
            let delay_ms = fx.config.initial_rebalance_delay_ms;
            let remaining_ms = self.rebalance_timeout_ms().saturating_sub(delay_ms).max(0);
            self.schedule_initial(delay_ms, remaining_ms, fx);
            None
        } else if self.has_all_joined() {
            self.complete_join_phase(fx)
        } else {
            self.schedule_join(0, fx);
            None
        }
    }

    /// The running rebalance ends early if nobody is missing. The initial one ends by its timer alone.
    pub fn complete_join_if_all(&mut self, fx: &mut Effects) -> Option<AppendId> {
        let may = self.state == State::PreparingRebalance
            && self.previous_state != Some(State::Empty)
            && self.has_all_joined();
        may.then(|| self.complete_join_phase(fx)).flatten()
    }

    /// The initial rebalance has waited: again if somebody came meanwhile and there is time left.
    pub fn initial_delay_over(
        &mut self,
        delay_ms: i32,
        remaining_ms: i32,
        fx: &mut Effects,
    ) -> Option<AppendId> {
        self.join_timer = None;
        if self.member_added && remaining_ms != 0 {
            self.member_added = false;
            let next_ms = fx.config.initial_rebalance_delay_ms.min(remaining_ms);
            self.schedule_initial(next_ms, (remaining_ms - delay_ms).max(0), fx);
            None
        } else {
            self.complete_join_phase(fx)
        }
    }

    /// Forms the next generation from those whose join is held.
    pub fn complete_join_phase(&mut self, fx: &mut Effects) -> Option<AppendId> {
        fx.timers.cancel(&mut self.join_timer);
        let absent = |(id, member): (&std::rc::Rc<str>, &super::classic::Member)| {
            let out = member.join.is_none() && member.group_instance_id.is_none();
            out.then(|| id.clone())
        };
        let absent: Vec<_> = self.members.iter().filter_map(absent).collect();
        for member_id in absent {
            tracing::info!(group = %self.id, member = %member_id, "did not rejoin in time");
            self.remove(&member_id, fx);
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            // Only static members, and none of them here: wait for one, or for their sessions to end.
            self.schedule_join(ABSENT_RETRY_MS, fx);
            return None;
        }
        self.begin_generation(fx);
        if self.state == State::Empty {
            self.has_record = true;
            let record = records::group_record(self, |_, _| unreachable!("nobody is there"));
            return Some(fx.append(vec![record], Completion::EmptyGeneration));
        }
        let member_ids: Vec<_> = self.members.keys().cloned().collect();
        for member_id in &member_ids {
            let reply = JoinReply {
                members: if self.is_leader(member_id) {
                    self.joined_members()
                } else {
                    Vec::new()
                },
                ..self.joined(member_id)
            };
            self.complete_join(member_id, reply, fx);
            self.restart_session(member_id, None, fx);
            let member = self.members.get_mut(member_id).expect("it is listed");
            member.is_new = false;
        }
        self.pending_sync.extend(member_ids);
        let event = Event::Sync {
            group: self.id.clone(),
            generation: self.generation,
        };
        self.sync_timer = Some(fx.schedule(self.rebalance_timeout_ms(), event));
        None
    }

    /// Members that have not synced a whole rebalance timeout after the generation was formed are out.
    pub fn sync_time_over(&mut self, generation: i32, fx: &mut Effects) -> Option<AppendId> {
        self.sync_timer = None;
        let formed = matches!(self.state, State::CompletingRebalance | State::Stable);
        if generation != self.generation || !formed || self.pending_sync.is_empty() {
            return None;
        }
        for member_id in std::mem::take(&mut self.pending_sync) {
            tracing::info!(group = %self.id, member = %member_id, "did not sync in time");
            self.remove(&member_id, fx);
        }
        self.prepare_rebalance("members did not sync in time", fx)
    }

    /// Everybody whose sync is held gets this error and no assignment.
    pub fn refuse_syncs(&mut self, error: ErrorCode, fx: &mut Effects) {
        let member_ids: Vec<_> = self.members.keys().cloned().collect();
        for member_id in member_ids {
            let member = self.members.get_mut(&member_id).expect("it is listed");
            member.assignment.clear();
            if self.complete_sync(&member_id, SyncReply::failed(error), fx) {
                self.restart_session(&member_id, None, fx);
            }
        }
    }

    /// Keeps a leader whose join is held, else makes the first such member the leader; false if there is none.
    fn elect_joined_leader(&mut self) -> bool {
        let Some(leader) = self.leader.as_ref().and_then(|id| self.members.get(id)) else {
            return false;
        };
        if leader.join.is_some() {
            return true;
        }
        let joined = self.members.iter().find(|(_, m)| m.join.is_some());
        match joined.map(|(id, _)| id.clone()) {
            Some(member_id) => {
                self.leader = Some(member_id);
                true
            }
            None => false,
        }
    }

    fn begin_generation(&mut self, fx: &Effects) {
        // An i32 of rebalances does not run out; starting over beats a negative generation, which means "no member".
        self.generation = self.generation.checked_add(1).unwrap_or(0);
        self.pending_sync.clear();
        self.member_added = false;
        let next = if self.members.is_empty() {
            self.protocol_name = None;
            State::Empty
        } else {
            self.protocol_name = Some(self.select_protocol());
            State::CompletingRebalance
        };
        self.read_subscriptions();
        self.transition(next, fx.now.wall);
        tracing::info!(
            group = %self.id, generation = self.generation, members = self.members.len(), state = next.name(),
            "generation formed"
        );
    }

    fn schedule_initial(&mut self, delay_ms: i32, remaining_ms: i32, fx: &mut Effects) {
        let event = Event::InitialRebalance {
            group: self.id.clone(),
            delay_ms,
            remaining_ms,
        };
        self.join_timer = Some(fx.schedule(delay_ms, event));
    }

    fn schedule_join(&mut self, at_least_ms: i32, fx: &mut Effects) {
        let event = Event::Join {
            group: self.id.clone(),
        };
        let timeout_ms = self.rebalance_timeout_ms().max(at_least_ms);
        self.join_timer = Some(fx.schedule(timeout_ms, event));
    }
}
