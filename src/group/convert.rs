//! Between the messages of the protocol and the plain values of a coordinator.
//! Owned by nobody, pure functions.
//! Always: what differs between versions is settled here; values get memory of their own, so no frame stays pinned.
//! Topic names and ids are resolved by the caller, which knows the topics.

use bytes::Bytes;

use super::api::*;
use crate::base::{ErrorCode, PartitionIndex};
use crate::wire::Str;
use crate::wire::messages::{
    delete_groups as dg, describe_groups as desc, heartbeat, join_group as jg, leave_group as lg,
    list_groups, offset_commit as oc, offset_delete as od, offset_fetch as of, sync_group as sg,
};

impl JoinRequest {
    pub fn from_message(message: &jg::JoinGroupRequest, version: i16) -> JoinRequest {
        let mut protocols: Vec<Protocol> = Vec::with_capacity(message.protocols.len());
        let mut names = std::collections::BTreeSet::new();
        for protocol in &message.protocols {
            // A name given twice would count as two supporters.
            if names.insert(protocol.name.as_str()) {
                protocols.push(Protocol {
                    name: text(&protocol.name),
                    metadata: blob(&protocol.metadata),
                });
            }
        }
        JoinRequest {
            group_id: text(&message.group_id),
            member_id: text(&message.member_id),
            group_instance_id: optional(&message.group_instance_id),
            protocol_type: text(&message.protocol_type),
            protocols,
            session_timeout_ms: message.session_timeout_ms,
            rebalance_timeout_ms: match version {
                0 => message.session_timeout_ms,
                _ => message.rebalance_timeout_ms,
            },
            reason: optional(&message.reason),
        }
    }
}

impl JoinReply {
    pub fn into_message(self, version: i16) -> jg::JoinGroupResponse {
        let protocol_name = match self.protocol_name {
            // Before version 7 the name can't be null.
            None if version < 7 => Some(Str::default()),
            name => name.map(Str::from),
        };
        let member = |member: JoinMember| jg::JoinGroupResponseMember {
            member_id: member.member_id.into(),
            group_instance_id: member.group_instance_id.map(Str::from),
            metadata: member.metadata,
        };
        jg::JoinGroupResponse {
            throttle_time_ms: 0,
            error_code: self.error.code(),
            generation_id: self.generation,
            protocol_type: self.protocol_type.map(Str::from),
            protocol_name,
            leader: self.leader.into(),
            skip_assignment: self.skip_assignment,
            member_id: self.member_id.into(),
            members: self.members.into_iter().map(member).collect(),
        }
    }
}

impl SyncRequest {
    pub fn from_message(message: &sg::SyncGroupRequest) -> SyncRequest {
        let assignments = message.assignments.iter();
        SyncRequest {
            group_id: text(&message.group_id),
            generation: message.generation_id,
            member_id: text(&message.member_id),
            group_instance_id: optional(&message.group_instance_id),
            protocol_type: optional(&message.protocol_type),
            protocol_name: optional(&message.protocol_name),
            assignments: assignments
                .map(|given| (text(&given.member_id), blob(&given.assignment)))
                .collect(),
        }
    }
}

impl SyncReply {
    pub fn into_message(self) -> sg::SyncGroupResponse {
        sg::SyncGroupResponse {
            throttle_time_ms: 0,
            error_code: self.error.code(),
            protocol_type: self.protocol_type.map(Str::from),
            protocol_name: self.protocol_name.map(Str::from),
            assignment: self.assignment,
        }
    }
}

impl HeartbeatRequest {
    pub fn from_message(message: &heartbeat::HeartbeatRequest) -> HeartbeatRequest {
        HeartbeatRequest {
            group_id: text(&message.group_id),
            generation: message.generation_id,
            member_id: text(&message.member_id),
            group_instance_id: optional(&message.group_instance_id),
        }
    }
}

impl LeaveRequest {
    pub fn from_message(message: &lg::LeaveGroupRequest, version: i16) -> LeaveRequest {
        let members = if version < 3 {
            vec![LeaveMember {
                member_id: text(&message.member_id),
                ..LeaveMember::default()
            }]
        } else {
            let members = message.members.iter().map(|member| LeaveMember {
                member_id: text(&member.member_id),
                group_instance_id: optional(&member.group_instance_id),
                reason: optional(&member.reason),
            });
            members.collect()
        };
        LeaveRequest {
            group_id: text(&message.group_id),
            members,
        }
    }
}

impl LeaveReply {
    pub fn into_message(self, version: i16) -> lg::LeaveGroupResponse {
        if version < 3 {
            // One member, whose outcome is that of the request.
            let of_member = self.members.first().map_or(ErrorCode::None, |m| m.error);
            let error = match self.error {
                ErrorCode::None => of_member,
                error => error,
            };
            return lg::LeaveGroupResponse {
                error_code: error.code(),
                ..lg::LeaveGroupResponse::default()
            };
        }
        let member = |member: LeftMember| lg::MemberResponse {
            member_id: member.member_id.into(),
            group_instance_id: member.group_instance_id.map(Str::from),
            error_code: member.error.code(),
        };
        lg::LeaveGroupResponse {
            throttle_time_ms: 0,
            error_code: self.error.code(),
            members: self.members.into_iter().map(member).collect(),
        }
    }
}

impl OffsetCommit {
    /// The request without its topics: the caller adds those that exist, with [`CommitPartition::from_message`].
    pub fn without_topics(message: &oc::OffsetCommitRequest) -> OffsetCommit {
        OffsetCommit {
            group_id: text(&message.group_id),
            generation: message.generation_id_or_member_epoch,
            member_id: text(&message.member_id),
            group_instance_id: optional(&message.group_instance_id),
            retention_time_ms: message.retention_time_ms,
            topics: Vec::new(),
        }
    }
}

impl CommitPartition {
    pub fn from_message(message: &oc::OffsetCommitRequestPartition) -> CommitPartition {
        CommitPartition {
            partition: PartitionIndex(message.partition_index),
            offset: message.committed_offset,
            leader_epoch: message.committed_leader_epoch,
            metadata: optional(&message.committed_metadata),
        }
    }
}

impl OffsetCommitReply {
    /// The topics of the response; the caller adds those it refused itself.
    pub fn into_message(self) -> Vec<oc::OffsetCommitResponseTopic> {
        let partition =
            |(index, error): (PartitionIndex, ErrorCode)| oc::OffsetCommitResponsePartition {
                partition_index: index.0,
                error_code: error.code(),
            };
        let topics = self.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.into_iter().map(partition);
            oc::OffsetCommitResponseTopic {
                name: topic.name.into(),
                topic_id: topic.topic_id,
                partitions: partitions.collect(),
            }
        });
        topics.collect()
    }
}

impl OffsetFetch {
    /// One fetch per group of the request. From version 10 topics come with their id and an empty name, which the caller
    /// fills in; topics it does not know it answers itself.
    pub fn from_message(message: &of::OffsetFetchRequest, version: i16) -> Vec<OffsetFetch> {
        let indexes = |indexes: &[i32]| indexes.iter().copied().map(PartitionIndex).collect();
        if version < 8 {
            let topic = |topic: &of::OffsetFetchRequestTopic| FetchTopic {
                name: text(&topic.name),
                topic_id: Default::default(),
                partitions: indexes(&topic.partition_indexes),
            };
            let topics = message.topics.as_ref();
            return vec![OffsetFetch {
                group_id: text(&message.group_id),
                topics: topics.map(|topics| topics.iter().map(topic).collect()),
                require_stable: message.require_stable,
            }];
        }
        let topic = |topic: &of::OffsetFetchRequestTopics| FetchTopic {
            name: text(&topic.name),
            topic_id: topic.topic_id,
            partitions: indexes(&topic.partition_indexes),
        };
        let groups = message.groups.iter().map(|group| OffsetFetch {
            group_id: text(&group.group_id),
            topics: group
                .topics
                .as_ref()
                .map(|topics| topics.iter().map(topic).collect()),
            require_stable: message.require_stable,
        });
        groups.collect()
    }
}

impl OffsetFetchReply {
    /// The answers for all groups of a request as its response. Before version 8 there is one.
    pub fn into_message(replies: Vec<OffsetFetchReply>, version: i16) -> of::OffsetFetchResponse {
        if version >= 8 {
            return of::OffsetFetchResponse {
                groups: replies
                    .into_iter()
                    .map(OffsetFetchReply::into_group)
                    .collect(),
                ..of::OffsetFetchResponse::default()
            };
        }
        let reply = replies.into_iter().next();
        let reply = reply.expect("a request before version 8 asks for one group");
        let partition = |partition: FetchedPartition| of::OffsetFetchResponsePartition {
            partition_index: partition.partition.0,
            committed_offset: partition.offset,
            committed_leader_epoch: partition.leader_epoch,
            metadata: Some(partition.metadata.into()),
            error_code: partition.error.code(),
        };
        let topic = |topic: FetchedTopic| of::OffsetFetchResponseTopic {
            name: topic.name.into(),
            partitions: topic.partitions.into_iter().map(partition).collect(),
        };
        // Version 1 has no error but those of partitions; later ones have no partitions beside an error.
        let with_topics = version < 2 || reply.error.is_none();
        let topics = reply.topics.into_iter().filter(|_| with_topics);
        of::OffsetFetchResponse {
            topics: topics.map(topic).collect(),
            error_code: reply.error.code(),
            ..of::OffsetFetchResponse::default()
        }
    }

    fn into_group(self) -> of::OffsetFetchResponseGroup {
        let partition = |partition: FetchedPartition| of::OffsetFetchResponsePartitions {
            partition_index: partition.partition.0,
            committed_offset: partition.offset,
            committed_leader_epoch: partition.leader_epoch,
            metadata: Some(partition.metadata.into()),
            error_code: partition.error.code(),
        };
        let topic = |topic: FetchedTopic| of::OffsetFetchResponseTopics {
            name: topic.name.into(),
            topic_id: topic.topic_id,
            partitions: topic.partitions.into_iter().map(partition).collect(),
        };
        let is_good = self.error.is_none();
        let topics = self.topics.into_iter().filter(|_| is_good);
        of::OffsetFetchResponseGroup {
            group_id: self.group_id.into(),
            topics: topics.map(topic).collect(),
            error_code: self.error.code(),
        }
    }
}

impl OffsetDelete {
    /// The request without its topics: the caller adds those that exist.
    pub fn without_topics(message: &od::OffsetDeleteRequest) -> OffsetDelete {
        OffsetDelete {
            group_id: text(&message.group_id),
            topics: Vec::new(),
        }
    }
}

impl OffsetDeleteReply {
    /// The response; the caller adds the topics it refused itself.
    pub fn into_message(self) -> od::OffsetDeleteResponse {
        let partition =
            |(index, error): (PartitionIndex, ErrorCode)| od::OffsetDeleteResponsePartition {
                partition_index: index.0,
                error_code: error.code(),
            };
        let topic = |(name, partitions): (String, Vec<_>)| od::OffsetDeleteResponseTopic {
            name: name.into(),
            partitions: partitions.into_iter().map(partition).collect(),
        };
        od::OffsetDeleteResponse {
            error_code: self.error.code(),
            throttle_time_ms: 0,
            topics: self.topics.into_iter().map(topic).collect(),
        }
    }
}

impl DescribedGroup {
    pub fn into_message(self) -> desc::DescribedGroup {
        let member = |member: DescribedMember| desc::DescribedGroupMember {
            member_id: member.member_id.into(),
            group_instance_id: member.group_instance_id.map(Str::from),
            client_id: member.client_id.into(),
            client_host: member.client_host.into(),
            member_metadata: member.metadata,
            member_assignment: member.assignment,
        };
        desc::DescribedGroup {
            error_code: self.error.code(),
            error_message: self.error_message.map(Str::from),
            group_id: self.group_id.into(),
            group_state: self.state.into(),
            protocol_type: self.protocol_type.into(),
            protocol_data: self.protocol_data.into(),
            members: self.members.into_iter().map(member).collect(),
            ..desc::DescribedGroup::default()
        }
    }
}

impl ListedGroup {
    pub fn into_message(self) -> list_groups::ListedGroup {
        list_groups::ListedGroup {
            group_id: self.group_id.into(),
            protocol_type: self.protocol_type.into(),
            group_state: self.state.into(),
            group_type: self.group_type.into(),
        }
    }
}

/// The results of a [`Reply::DeleteGroups`].
pub fn deleted_groups(outcomes: Vec<(String, ErrorCode)>) -> Vec<dg::DeletableGroupResult> {
    let result = |(group_id, error): (String, ErrorCode)| dg::DeletableGroupResult {
        group_id: group_id.into(),
        error_code: error.code(),
        error_message: None,
    };
    outcomes.into_iter().map(result).collect()
}

fn text(text: &Str) -> String {
    text.as_str().to_owned()
}

fn optional(value: &Option<Str>) -> Option<String> {
    value.as_ref().map(text)
}

fn blob(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
