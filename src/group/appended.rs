//! What follows when an append is durable or has failed.
//! Owned by the coordinator.
//! Always: appends are settled in the order they were begun; after a failure memory says again what the log says.
//! Why an append failed is for the caller to know, it hands in Kafka's error for it.

use super::api::{
    AppendId, JoinReply, LeaveReply, OffsetDeleteReply, OffsetFetchReply, Reply, SyncReply,
};
use super::classic::{Group, State};
use super::coordinator::Coordinator;
use super::effects::{Completion, StaticReplacement};
use crate::base::{ErrorCode, Now};

impl Coordinator {
    /// Reports the outcome of an append from [`take_outputs`](Coordinator::take_outputs). In the order of the ids, each once.
    pub fn on_appended(&mut self, id: AppendId, result: Result<(), ErrorCode>, now: Now) {
        if !self.is_active() {
            // Resigning has settled everything.
            return;
        }
        self.fx.now = now;
        let append = self.fx.in_flight.pop_front();
        let append = append.unwrap_or_else(|| panic!("append {id:?} is not in flight"));
        assert_eq!(append.id, id, "appends are reported in order");
        let result = result.map_err(response_error);
        if let Err(error) = result {
            tracing::warn!(%error, append = id.0, "group records were not written");
        }
        self.complete(id, append.completion, result);
        if let Some((token, reply)) = append.reply {
            let reply = match result {
                Ok(()) => reply,
                Err(error) => failed(reply, error),
            };
            self.fx.reply(token, reply);
        }
        self.answer_waiting_fetches(id);
    }

    fn complete(&mut self, id: AppendId, completion: Completion, result: Result<(), ErrorCode>) {
        match (completion, result) {
            (Completion::NewGroup { .. }, Ok(())) => {}
            (Completion::NewGroup { group, incarnation }, Err(error)) => {
                self.undo_new_group(&group, incarnation, error);
            }
            // If it is lost, the generation before comes back after a restart, and times out like this one did.
            (Completion::EmptyGeneration, _) => {}
            (
                Completion::Assignment {
                    group,
                    incarnation,
                    generation,
                    assignments,
                },
                result,
            ) => {
                let fx = &mut self.fx;
                let group = self.groups.get_mut(&group);
                // The group may have begun another rebalance meanwhile: then these syncs were refused.
                let group = group.filter(|group| {
                    group.incarnation == incarnation
                        && group.generation == generation
                        && group.state == State::CompletingRebalance
                });
                if let Some(group) = group {
                    group.assignment_in_flight = false;
                    match result {
                        Ok(()) => group.assign(assignments, fx),
                        Err(error) => {
                            group.refuse_syncs(error, fx);
                            group.prepare_rebalance("the assignment was not written", fx);
                        }
                    }
                }
            }
            (Completion::StaticReplacement(replacement), result) => {
                let fx = &mut self.fx;
                let group = self.groups.get_mut(&replacement.group);
                let group = group.filter(|group| group.incarnation == replacement.incarnation);
                if let Some(group) = group {
                    group.static_replaced(*replacement, result, fx);
                }
            }
            (
                Completion::Offsets {
                    group,
                    incarnation,
                    partitions,
                },
                result,
            ) => {
                for (topic, partition) in partitions {
                    let durable = result.is_ok();
                    self.offsets.settle(&group, &topic, partition, id, durable);
                }
                if result.is_err() {
                    self.undo_simple_group(&group, incarnation);
                }
                self.keep_group_of_offsets(&group);
            }
            (Completion::Tombstones { offsets, groups }, result) => {
                for (group, topic, partition) in &offsets {
                    let durable = result.is_ok();
                    self.offsets.settle(group, topic, *partition, id, durable);
                }
                if result.is_err() {
                    for group in groups {
                        self.undo_deletion(group);
                    }
                    for (group, _, _) in &offsets {
                        self.keep_group_of_offsets(group);
                    }
                }
            }
        }
    }

    /// The first record of a group was not written: the group goes, unless offsets hold it.
    fn undo_new_group(&mut self, id: &str, incarnation: u64, error: ErrorCode) {
        let Some(group) = self.group_of(id, incarnation) else {
            return;
        };
        let member_ids: Vec<_> = group.members.keys().cloned().collect();
        let Some(mut group) = self.take_group(id) else {
            return;
        };
        for id in member_ids {
            group.complete_join(&id, JoinReply::failed(error, ""), &mut self.fx);
            group.complete_sync(&id, SyncReply::failed(error), &mut self.fx);
        }
        if self.offsets.has_any(id) {
            self.group_or_new(id);
        }
    }

    /// The tombstone of a group was not written: it is back, unless it was made anew, or deleted again and that is still
    /// being written.
    fn undo_deletion(&mut self, group: Group) {
        let is_deleted_again = self.fx.in_flight.iter().any(|append| {
            matches!(&append.completion, Completion::Tombstones { groups, .. }
                if groups.iter().any(|other| other.id == group.id))
        });
        if !is_deleted_again {
            self.groups.entry(group.id.clone()).or_insert(group);
        }
    }

    /// Offsets that came back, or came, after their group was deleted have a group again, as they will after a restart.
    fn keep_group_of_offsets(&mut self, id: &str) {
        if !self.groups.contains_key(id) && self.offsets.all_latest(id).next().is_some() {
            self.group_or_new(id);
        }
    }

    /// The first commit of a consumer that is no member was not written: the group it made for it goes.
    fn undo_simple_group(&mut self, id: &str, incarnation: u64) {
        let has_offsets = self.offsets.has_any(id);
        let Some(group) = self.group_of(id, incarnation) else {
            return;
        };
        let holds_nothing = group.state == State::Empty
            && group.protocol_type.is_none()
            && group.pending_join.is_empty()
            && !group.has_record
            && !has_offsets;
        if holds_nothing {
            self.take_group(id);
        }
    }
}

impl Group {
    fn static_replaced(
        &mut self,
        replacement: StaticReplacement,
        result: Result<(), ErrorCode>,
        fx: &mut super::effects::Effects,
    ) {
        let instance = self.static_members.get(&replacement.instance_id);
        let is_current = self.state == State::Stable
            && self.generation == replacement.generation
            && instance == Some(&replacement.new_member_id);
        if !is_current {
            // A rebalance began meanwhile: it answers the join and writes the group anew.
            return;
        }
        let new_id = replacement.new_member_id;
        let leader_before = replacement.leader_before.as_deref().unwrap_or("");
        match result {
            Ok(()) => {
                let mut reply = self.joined(&new_id);
                if replacement.can_skip_assignment {
                    // A leader is told so, and told not to assign: the group has its assignment (KIP-814).
                    reply.skip_assignment = self.is_leader(&new_id);
                    if reply.skip_assignment {
                        reply.members = self.joined_members();
                    }
                } else {
                    // Told its old id as the leader, it will not assign.
                    reply.leader = leader_before.to_owned();
                }
                self.complete_join(&new_id, reply, fx);
                // Its session may have run out while the record was being written.
                self.restart_session(&new_id, None, fx);
            }
            Err(error) => {
                let reply = JoinReply {
                    error,
                    leader: leader_before.to_owned(),
                    ..self.joined("")
                };
                self.complete_join(&new_id, reply, fx);
                self.update(
                    &new_id,
                    replacement.old_protocols,
                    replacement.old_rebalance_timeout_ms,
                    replacement.old_session_timeout_ms,
                );
                let old_id = replacement.old_member_id;
                self.replace_static(&replacement.instance_id, &new_id, old_id.clone(), fx);
                self.restart_session(&old_id, None, fx);
            }
        }
    }
}

/// The reply that was meant for success, turned into this error.
pub(super) fn failed(reply: Reply, error: ErrorCode) -> Reply {
    match reply {
        Reply::Join(reply) => Reply::Join(JoinReply::failed(error, &reply.member_id)),
        Reply::Sync(_) => Reply::Sync(SyncReply::failed(error)),
        Reply::Leave(_) => Reply::Leave(LeaveReply {
            error,
            members: Vec::new(),
        }),
        Reply::OffsetCommit(mut reply) => {
            for topic in &mut reply.topics {
                for (_, outcome) in &mut topic.partitions {
                    *outcome = error;
                }
            }
            Reply::OffsetCommit(reply)
        }
        Reply::OffsetFetch(reply) => Reply::OffsetFetch(OffsetFetchReply {
            error,
            topics: Vec::new(),
            ..reply
        }),
        Reply::OffsetDelete(_) => Reply::OffsetDelete(OffsetDeleteReply {
            error,
            topics: Vec::new(),
        }),
        Reply::DeleteGroups(mut outcomes) => {
            for (_, outcome) in &mut outcomes {
                if outcome.is_none() {
                    *outcome = error;
                }
            }
            Reply::DeleteGroups(outcomes)
        }
    }
}

/// What clients are told for an error of the log: they know how to look for the coordinator anew, not what a replica is.
fn response_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge
        | ErrorCode::RecordListTooLarge
        | ErrorCode::InvalidFetchSize => ErrorCode::UnknownServerError,
        other => other,
    }
}
