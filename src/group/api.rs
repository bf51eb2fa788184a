//! What goes into a coordinator and what comes out, as plain values without versions.
//! Owned by the caller; every string and blob here has memory of its own and pins no request frame.
//! Always: nothing here decides anything.
//! The translation from and to messages is `convert`.

use bytes::Bytes;

use crate::base::{ErrorCode, PartitionIndex, TopicId};

/// Names a request whose reply comes later through [`Outputs`]; chosen by the caller, never two alike at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Names records to append; later appends have greater ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendId(pub u64);

/// A record of `__consumer_offsets`; a value of `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// Records that belong into one batch. The caller appends these in the order of their ids and, in the same order, reports
/// each with `Coordinator::on_appended` once it is durable or has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub id: AppendId,
    pub records: Vec<Record>,
}

/// What a coordinator wants done since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    pub appends: Vec<Append>,
    pub replies: Vec<(Token, Reply)>,
}

/// The answer to the request with that token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Join(JoinReply),
    Sync(SyncReply),
    Leave(LeaveReply),
    OffsetCommit(OffsetCommitReply),
    OffsetFetch(OffsetFetchReply),
    OffsetDelete(OffsetDeleteReply),
    DeleteGroups(Vec<(String, ErrorCode)>),
}

/// Who asks, and in which version of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// Empty if the client gave none.
    pub client_id: String,
    /// As Kafka prints an address: `/127.0.0.1`.
    pub client_host: String,
    pub api_version: i16,
}

/// An assignor (or another protocol of the group's type) that a member supports, with opaque metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    pub name: String,
    pub metadata: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinRequest {
    pub group_id: String,
    /// Empty for a member that has none yet.
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub protocol_type: String,
    /// Best first, names without repetition.
    pub protocols: Vec<Protocol>,
    pub session_timeout_ms: i32,
    /// The session timeout in version 0, which has no such field.
    pub rebalance_timeout_ms: i32,
    /// Why the client joins (KIP-800), for the log.
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinReply {
    pub error: ErrorCode,
    /// -1 with an error.
    pub generation: i32,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    /// Empty with an error.
    pub leader: String,
    /// The leader must not assign again (KIP-814).
    pub skip_assignment: bool,
    pub member_id: String,
    /// Everybody's metadata for the leader, nobody's for the others.
    pub members: Vec<JoinMember>,
}

impl JoinReply {
    /// The answer to a join that is refused.
    pub fn failed(error: ErrorCode, member_id: &str) -> JoinReply {
        JoinReply {
            error,
            generation: -1,
            protocol_type: None,
            protocol_name: None,
            leader: String::new(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinMember {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub metadata: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncRequest {
    pub group_id: String,
    pub generation: i32,
    pub member_id: String,
    pub group_instance_id: Option<String>,
    /// From version 5; must be there then.
    pub protocol_type: Option<String>,
    /// From version 5; must be there then.
    pub protocol_name: Option<String>,
    /// Member id and assignment, from the leader.
    pub assignments: Vec<(String, Bytes)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReply {
    pub error: ErrorCode,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub assignment: Bytes,
}

impl SyncReply {
    /// The answer to a sync that is refused.
    pub fn failed(error: ErrorCode) -> SyncReply {
        SyncReply {
            error,
            protocol_type: None,
            protocol_name: None,
            assignment: Bytes::new(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatRequest {
    pub group_id: String,
    pub generation: i32,
    pub member_id: String,
    pub group_instance_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaveRequest {
    pub group_id: String,
    /// One in versions 0 to 2.
    pub members: Vec<LeaveMember>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaveMember {
    /// Empty when an administrator removes a static member by its instance id.
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveReply {
    pub error: ErrorCode,
    /// As they were named in the request, with the outcome for each; empty with an error above.
    pub members: Vec<LeftMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftMember {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub error: ErrorCode,
}

/// Offsets to commit; the caller has refused unknown topics and partitions and knows both names of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommit {
    pub group_id: String,
    /// -1 from a consumer that is no member of a group.
    pub generation: i32,
    pub member_id: String,
    pub group_instance_id: Option<String>,
    /// Versions 2 to 4; -1 for the broker's retention.
    pub retention_time_ms: i64,
    pub topics: Vec<CommitTopic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTopic {
    pub name: String,
    pub topic_id: TopicId,
    pub partitions: Vec<CommitPartition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPartition {
    pub partition: PartitionIndex,
    pub offset: i64,
    /// -1 for none.
    pub leader_epoch: i32,
    pub metadata: Option<String>,
}

/// The outcome per partition, topics and partitions in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommitReply {
    pub topics: Vec<CommittedTopic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedTopic {
    pub name: String,
    pub topic_id: TopicId,
    pub partitions: Vec<(PartitionIndex, ErrorCode)>,
}

/// The offsets wanted of one group; a request for several groups becomes one of these for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetFetch {
    pub group_id: String,
    /// `None`: all there are.
    pub topics: Option<Vec<FetchTopic>>,
    /// Wait for commits that are being written.
    pub require_stable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    pub name: String,
    /// Zero if the request named the topic.
    pub topic_id: TopicId,
    pub partitions: Vec<PartitionIndex>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetFetchReply {
    pub group_id: String,
    pub error: ErrorCode,
    pub topics: Vec<FetchedTopic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedTopic {
    pub name: String,
    /// As in the request; zero when all offsets were asked for.
    pub topic_id: TopicId,
    pub partitions: Vec<FetchedPartition>,
}

/// Offset -1 and empty metadata where nothing is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    pub partition: PartitionIndex,
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: String,
    pub error: ErrorCode,
}

/// Offsets to forget; the caller has refused unknown topics and partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetDelete {
    pub group_id: String,
    pub topics: Vec<(String, Vec<PartitionIndex>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetDeleteReply {
    /// If not `None`, there are no topics.
    pub error: ErrorCode,
    pub topics: Vec<(String, Vec<(PartitionIndex, ErrorCode)>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedGroup {
    pub group_id: String,
    pub error: ErrorCode,
    /// From version 6.
    pub error_message: Option<String>,
    pub state: &'static str,
    pub protocol_type: String,
    /// The chosen protocol, empty unless stable.
    pub protocol_data: String,
    pub members: Vec<DescribedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    /// Empty unless the group is stable.
    pub metadata: Bytes,
    pub assignment: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    pub group_id: String,
    pub protocol_type: String,
    pub state: &'static str,
    pub group_type: &'static str,
}
