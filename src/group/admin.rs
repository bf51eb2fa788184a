//! DescribeGroups, ListGroups, DeleteGroups.
//! Owned by the coordinator.
//! Always: describing and listing change nothing; only an empty group can be deleted.
//! Merging the answers of several coordinators is left to the caller.

use super::api::{DescribedGroup, DescribedMember, ListedGroup, Reply, RequestContext, Token};
use super::classic::{Group, State};
use super::coordinator::Coordinator;
use super::retention::Tombstones;
use crate::base::{ErrorCode, Now};

/// The state of a group that is not there.
const DEAD: &str = "Dead";
/// The type of all groups here, as Kafka prints it.
const CLASSIC: &str = "classic";
/// From this version a missing group is an error.
const VERSION_GROUP_ID_NOT_FOUND: i16 = 6;

impl Coordinator {
    pub fn describe(&self, context: &RequestContext, group_id: &str) -> DescribedGroup {
        let absent = DescribedGroup {
            group_id: group_id.to_owned(),
            error: ErrorCode::None,
            error_message: None,
            state: DEAD,
            protocol_type: String::new(),
            protocol_data: String::new(),
            members: Vec::new(),
        };
        if let Some(error) = self.unavailable() {
            return DescribedGroup {
                error,
                state: "",
                ..absent
            };
        }
        match self.groups.get(group_id) {
            Some(group) => group.describe(),
            None if context.api_version >= VERSION_GROUP_ID_NOT_FOUND => DescribedGroup {
                error: ErrorCode::GroupIdNotFound,
                error_message: Some(format!("Group {group_id} not found.")),
                ..absent
            },
            None => absent,
        }
    }

    /// The groups in one of these states and of one of these types; an empty filter lets all pass. Case does not matter.
    pub fn list(
        &self,
        states: &[impl AsRef<str>],
        types: &[impl AsRef<str>],
    ) -> Result<Vec<ListedGroup>, ErrorCode> {
        if let Some(error) = self.unavailable() {
            return Err(error);
        }
        let same = |a: &str, b: &str| a.trim().eq_ignore_ascii_case(b);
        if !types.is_empty() && !types.iter().any(|t| same(t.as_ref(), CLASSIC)) {
            return Ok(Vec::new());
        }
        let wanted = |group: &&Group| {
            states.is_empty() || states.iter().any(|s| same(s.as_ref(), group.state.name()))
        };
        let groups = self.groups.values().filter(wanted);
        Ok(groups
            .map(|group| ListedGroup {
                group_id: group.id.to_string(),
                protocol_type: group.protocol_type.clone().unwrap_or_default(),
                state: group.state.name(),
                group_type: CLASSIC,
            })
            .collect())
    }

    /// Forgets groups and their offsets. The reply waits for the tombstones.
    pub fn delete_groups(&mut self, now: Now, group_ids: &[impl AsRef<str>], token: Token) {
        self.begin(now, token);
        let mut outcomes: Vec<(String, ErrorCode)> = Vec::with_capacity(group_ids.len());
        let mut tombstones = Tombstones::default();
        for group_id in group_ids.iter().map(AsRef::as_ref) {
            let error = match self.check_delete(group_id) {
                Err(error) => error,
                Ok(()) => {
                    let group = self.take_group(group_id).expect("it was checked");
                    for (topic, partition, _) in self.offsets.all_latest(group_id) {
                        tombstones.offset(&group.id, topic, partition);
                    }
                    tombstones.group(group);
                    ErrorCode::None
                }
            };
            outcomes.push((group_id.to_owned(), error));
        }
        let append = self.write(tombstones);
        self.fx
            .reply_after(append, token, Reply::DeleteGroups(outcomes));
    }

    fn check_delete(&self, group_id: &str) -> Result<(), ErrorCode> {
        if let Some(error) = self.unavailable() {
            return Err(error);
        }
        match self.groups.get(group_id).map(|group| group.state) {
            None => Err(ErrorCode::GroupIdNotFound),
            Some(State::Empty) => Ok(()),
            Some(State::PreparingRebalance | State::CompletingRebalance | State::Stable) => {
                Err(ErrorCode::NonEmptyGroup)
            }
        }
    }
}

impl Group {
    fn describe(&self) -> DescribedGroup {
        let protocol = match self.state {
            State::Stable => self.protocol_name.as_deref(),
            State::Empty | State::PreparingRebalance | State::CompletingRebalance => None,
        };
        let members = self.members.iter().map(|(id, member)| DescribedMember {
            member_id: id.to_string(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: protocol
                .map(|name| member.metadata(name))
                .unwrap_or_default(),
            assignment: member.assignment.clone(),
        });
        DescribedGroup {
            group_id: self.id.to_string(),
            error: ErrorCode::None,
            error_message: None,
            state: self.state.name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_data: protocol.unwrap_or("").to_owned(),
            members: members.collect(),
        }
    }
}
