//! The classic group protocol and committed offsets (G34 to G39): JoinGroup to DeleteGroups, FindCoordinator.
//! Answered by the shard that coordinates the group, reached over the mesh where shards share a node.
//! Always: a group of another node is refused with NOT_COORDINATOR.
//! What a group does is `group::Coordinator`'s; topics are known here.

use std::collections::HashSet;
use std::rc::Rc;

use super::topics;
use crate::base::{ErrorCode, PartitionIndex, ShardId};
use crate::group::{
    CommitPartition, CommitTopic, CommittedTopic, Coordinator, DescribedMember, FetchTopic,
    FetchedPartition, FetchedTopic, HeartbeatRequest, JoinReply, JoinRequest, LeaveReply,
    LeaveRequest, OffsetCommit, OffsetCommitReply, OffsetDelete, OffsetDeleteReply, OffsetFetch,
    OffsetFetchReply, Reply, RequestContext, SyncReply, SyncRequest, Token, deleted_groups,
};
use crate::io::{clock, executor};
use crate::metadata::{Image, Node, topic_name};
use crate::server::connection::Peer;
use crate::server::outcome::{Outcome, Room};
use crate::shard::{Shard, member_uuid};
use crate::wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use crate::wire::messages::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use crate::wire::messages::find_coordinator::{
    Coordinator as FoundCoordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use crate::wire::messages::heartbeat as hb;
use crate::wire::messages::join_group::JoinGroupRequest;
use crate::wire::messages::leave_group::LeaveGroupRequest;
use crate::wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse};
use crate::wire::messages::offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
use crate::wire::messages::offset_delete::OffsetDeleteRequest;
use crate::wire::messages::offset_fetch::OffsetFetchRequest;
use crate::wire::messages::sync_group::SyncGroupRequest;
use crate::wire::{RequestHeader, Str};

/// Gives a request to the coordinator of a group, here or on another shard of the node, and waits for its answer.
async fn ask(
    shard: &Rc<Shard>,
    group_id: &str,
    request: impl FnOnce(&mut Coordinator, Token) + Send + 'static,
) -> Result<Reply, ErrorCode> {
    let owner = coordinator_of(shard, group_id)?;
    if owner == shard.id {
        let pending = shard.ask_coordinator(group_id, request)?;
        return pending.answer().await.ok_or(ErrorCode::NotCoordinator);
    }
    shard.counters.cross_shard_groups.one();
    let group_id = group_id.to_owned();
    let answer = shard.at(owner, move |shard| async move {
        let pending = shard.ask_coordinator(&group_id, request)?;
        pending.answer().await.ok_or(ErrorCode::NotCoordinator)
    });
    answer.await.unwrap_or(Err(ErrorCode::NotCoordinator))
}

/// Asks something that is answered at once.
async fn ask_now<R: Send + 'static>(
    shard: &Rc<Shard>,
    group_id: &str,
    request: impl FnOnce(&mut Coordinator) -> R + Send + 'static,
) -> Result<R, ErrorCode> {
    let owner = coordinator_of(shard, group_id)?;
    if owner == shard.id {
        return shard.with_coordinator(group_id, request);
    }
    shard.counters.cross_shard_groups.one();
    let group_id = group_id.to_owned();
    let answer = shard.at(owner, move |shard| async move {
        shard.with_coordinator(&group_id, request)
    });
    answer.await.unwrap_or(Err(ErrorCode::NotCoordinator))
}

/// The shard of this node that coordinates the group.
fn coordinator_of(shard: &Shard, group_id: &str) -> Result<ShardId, ErrorCode> {
    let owner = shard
        .coordinator_shard(group_id)
        .ok_or(ErrorCode::NotCoordinator)?;
    match shard.same_node(owner) {
        true => Ok(owner),
        false => Err(ErrorCode::NotCoordinator),
    }
}

fn context(peer: &Peer, header: &RequestHeader) -> RequestContext {
    RequestContext {
        client_id: header.client_id.as_deref().unwrap_or_default().to_owned(),
        client_host: format!("/{}", peer.address.ip()),
        api_version: header.request_api_version,
    }
}

pub async fn find_coordinator(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: FindCoordinatorRequest,
) -> Outcome {
    let version = header.request_api_version;
    let keys = if version >= 4 {
        request.coordinator_keys
    } else {
        vec![request.key]
    };
    let wants_groups = request.key_type == KEY_GROUP && keys.iter().any(|key| !key.is_empty());
    if wants_groups && shard.image().topic(topic_name::CONSUMER_OFFSETS).is_none() {
        // Kafka answers COORDINATOR_NOT_AVAILABLE until the topic is made; here it is made in a moment.
        topics::create_now(shard, Str::from_static(topic_name::CONSUMER_OFFSETS)).await;
    }
    let image = shard.image();
    let found: Vec<FoundCoordinator> = keys
        .into_iter()
        .map(
            |key| match find(shard, &image, version, request.key_type, &key) {
                Ok(node) => FoundCoordinator {
                    key,
                    node_id: node.id.0,
                    host: node.host.clone(),
                    port: i32::from(node.port),
                    ..Default::default()
                },
                Err(error) => FoundCoordinator {
                    key,
                    node_id: -1,
                    port: -1,
                    error_code: error.code(),
                    error_message: told(request.key_type, error).or(Some(Str::default())),
                    ..Default::default()
                },
            },
        )
        .collect();
    let mut response = FindCoordinatorResponse::default();
    if version >= 4 {
        response.coordinators = found;
    } else if let Some(one) = found.into_iter().next() {
        let error = ErrorCode::from_code(one.error_code).unwrap_or_default();
        response.error_code = one.error_code;
        let message = told(request.key_type, error);
        response.error_message = message.or(Some(Str::from_static(error.message())));
        response.node_id = one.node_id;
        response.host = one.host;
        response.port = one.port;
    }
    Outcome::of::<FindCoordinatorRequest>(header.correlation_id, &response, version)
}

fn find<'a>(
    shard: &Shard,
    image: &'a Image,
    version: i16,
    key_type: i8,
    key: &str,
) -> Result<&'a Node, ErrorCode> {
    match key_type {
        KEY_GROUP => {
            let owner = shard
                .coordinator_shard(key)
                .ok_or(ErrorCode::CoordinatorNotAvailable)?;
            image
                .node_of_shard(owner)
                .ok_or(ErrorCode::CoordinatorNotAvailable)
        }
        // There are no transactions to coordinate, and a client must not go on asking. librdkafka, which asks in version 2, takes
        // no error but this one as final; the Java client, which asks in version 6, would show its own text for it, and ours for
        // one that it does not expect.
        KEY_TRANSACTION if version < 4 => Err(ErrorCode::TransactionalIdAuthorizationFailed),
        KEY_TRANSACTION => Err(ErrorCode::UnsupportedVersion),
        _ => Err(ErrorCode::InvalidRequest),
    }
}

/// What a person is told of a coordinator that is not found, where the code says too little.
fn told(key_type: i8, error: ErrorCode) -> Option<Str> {
    let transactions = key_type == KEY_TRANSACTION && !error.is_none();
    transactions.then(|| Str::from_static(NO_TRANSACTIONS))
}

const NO_TRANSACTIONS: &str = "ringlog does not serve transactions yet: take transactional.id out of the producer's configuration; an idempotent producer (enable.idempotence) is served";

pub async fn join(
    shard: &Rc<Shard>,
    peer: &Peer,
    header: RequestHeader,
    request: JoinGroupRequest,
) -> Outcome {
    let version = header.request_api_version;
    let context = context(peer, &header);
    let asked = JoinRequest::from_message(&request, version);
    let member_id = asked.member_id.clone();
    let random = member_uuid();
    let answer = ask(shard, &request.group_id, move |coordinator, token| {
        coordinator.join(clock::now(), random, &context, asked, token);
    })
    .await;
    let reply = match answer {
        Ok(Reply::Join(reply)) => reply,
        Ok(other) => unreachable!("a join was answered with {other:?}"),
        Err(error) => JoinReply::failed(error, &member_id),
    };
    let response = reply.into_message(version);
    Outcome::of::<JoinGroupRequest>(header.correlation_id, &response, version)
}

pub async fn sync(
    shard: &Rc<Shard>,
    peer: &Peer,
    header: RequestHeader,
    request: SyncGroupRequest,
) -> Outcome {
    let version = header.request_api_version;
    let context = context(peer, &header);
    let asked = SyncRequest::from_message(&request);
    let answer = ask(shard, &request.group_id, move |coordinator, token| {
        coordinator.sync(clock::now(), &context, asked, token);
    })
    .await;
    let reply = match answer {
        Ok(Reply::Sync(reply)) => reply,
        Ok(other) => unreachable!("a sync was answered with {other:?}"),
        Err(error) => SyncReply::failed(error),
    };
    let response = reply.into_message();
    Outcome::of::<SyncGroupRequest>(header.correlation_id, &response, version)
}

pub async fn heartbeat(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: hb::HeartbeatRequest,
) -> Outcome {
    let version = header.request_api_version;
    let asked = HeartbeatRequest::from_message(&request);
    let answer = ask_now(shard, &request.group_id, move |coordinator| {
        coordinator.heartbeat(clock::now(), &asked)
    })
    .await;
    let response = hb::HeartbeatResponse {
        throttle_time_ms: 0,
        error_code: answer.unwrap_or_else(|error| error).code(),
    };
    Outcome::of::<hb::HeartbeatRequest>(header.correlation_id, &response, version)
}

pub async fn leave(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: LeaveGroupRequest,
) -> Outcome {
    let version = header.request_api_version;
    let asked = LeaveRequest::from_message(&request, version);
    let answer = ask(shard, &request.group_id, move |coordinator, token| {
        coordinator.leave(clock::now(), asked, token);
    })
    .await;
    let reply = match answer {
        Ok(Reply::Leave(reply)) => reply,
        Ok(other) => unreachable!("a leave was answered with {other:?}"),
        Err(error) => LeaveReply {
            error,
            members: Vec::new(),
        },
    };
    let response = reply.into_message(version);
    Outcome::of::<LeaveGroupRequest>(header.correlation_id, &response, version)
}

pub async fn offset_commit(
    shard: &Rc<Shard>,
    peer: &Peer,
    header: RequestHeader,
    request: OffsetCommitRequest,
) -> Outcome {
    let version = header.request_api_version;
    let context = context(peer, &header);
    let image = shard.image();
    let mut asked = OffsetCommit::without_topics(&request);
    // In the order of the request: what was refused here, or what the coordinator will say.
    let mut refused = Vec::new();
    for topic in &request.topics {
        let found = match version >= 10 {
            true => image
                .topic_by_id(topic.topic_id)
                .ok_or(ErrorCode::UnknownTopicId),
            false => image
                .topic(&topic.name)
                .ok_or(ErrorCode::UnknownTopicOrPartition),
        };
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for partition in &topic.partitions {
            let index = PartitionIndex(partition.partition_index);
            let error = match &found {
                Err(error) => *error,
                Ok(topic) if topic.partition(index).is_none() => ErrorCode::UnknownTopicOrPartition,
                Ok(_) => {
                    known.push(CommitPartition::from_message(partition));
                    continue;
                }
            };
            unknown.push((index, error));
        }
        let name = found
            .as_ref()
            .map_or(topic.name.to_string(), |t| t.name.to_string());
        let topic_id = found.as_ref().map_or(topic.topic_id, |topic| topic.id);
        refused.push(CommittedTopic {
            name: name.clone(),
            topic_id,
            partitions: unknown,
        });
        if !known.is_empty() {
            asked.topics.push(CommitTopic {
                name,
                topic_id,
                partitions: known,
            });
        }
    }
    let failed = |error| committed_with(&asked, error);
    let reply = if asked.topics.is_empty() {
        OffsetCommitReply { topics: Vec::new() }
    } else {
        let sent = asked.clone();
        let answer = ask(shard, &request.group_id, move |coordinator, token| {
            coordinator.commit_offsets(clock::now(), &context, sent, token);
        })
        .await;
        match answer {
            Ok(Reply::OffsetCommit(reply)) => reply,
            Ok(other) => unreachable!("a commit was answered with {other:?}"),
            Err(error) => failed(error),
        }
    };
    let response = OffsetCommitResponse {
        throttle_time_ms: 0,
        topics: OffsetCommitReply {
            topics: merged(refused, reply.topics),
        }
        .into_message(),
    };
    Outcome::of::<OffsetCommitRequest>(header.correlation_id, &response, version)
}

/// Every partition of a commit with the same outcome.
fn committed_with(asked: &OffsetCommit, error: ErrorCode) -> OffsetCommitReply {
    let topics = asked.topics.iter().map(|topic| CommittedTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| (partition.partition, error))
            .collect(),
    });
    OffsetCommitReply {
        topics: topics.collect(),
    }
}

/// What was refused here and what the coordinator said, per topic of the request.
fn merged(refused: Vec<CommittedTopic>, answered: Vec<CommittedTopic>) -> Vec<CommittedTopic> {
    let mut answered = answered.into_iter().peekable();
    let mut topics = Vec::with_capacity(refused.len());
    for mut topic in refused {
        let is_next = answered
            .peek()
            .is_some_and(|next| next.topic_id == topic.topic_id && next.name == topic.name);
        if is_next && let Some(next) = answered.next() {
            topic.partitions.extend(next.partitions);
        }
        topics.push(topic);
    }
    topics
}

pub async fn offset_fetch(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: OffsetFetchRequest,
) -> Outcome {
    let version = header.request_api_version;
    let image = shard.image();
    let mut room = Room::new();
    let mut replies = Vec::new();
    for asked in OffsetFetch::from_message(&request, version) {
        executor::yield_if_needed().await;
        let reply = fetch_of_group(shard, &image, asked, version).await;
        let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
        let bytes = partitions.map(|one| size_of::<FetchedPartition>() + one.metadata.len());
        if let Err(end) = room.take(bytes.sum()) {
            return end;
        }
        replies.push(reply);
    }
    let response = OffsetFetchReply::into_message(replies, version);
    Outcome::of::<OffsetFetchRequest>(header.correlation_id, &response, version)
}

/// Leaves out partitions that were named before: a name is short, the metadata of its offset may be long.
fn without_repeats(topics: &mut [FetchTopic]) {
    let mut seen = HashSet::new();
    for FetchTopic {
        name, partitions, ..
    } in topics
    {
        partitions.retain(|partition| seen.insert((&*name, *partition)));
    }
}

async fn fetch_of_group(
    shard: &Rc<Shard>,
    image: &Image,
    mut asked: OffsetFetch,
    version: i16,
) -> OffsetFetchReply {
    let group_id = asked.group_id.clone();
    let mut unknown = Vec::new();
    if version >= 10
        && let Some(topics) = &mut asked.topics
    {
        topics.retain_mut(|topic| match image.topic_by_id(topic.topic_id) {
            Some(known) => {
                topic.name = known.name.to_string();
                true
            }
            None => {
                unknown.push(topic.clone());
                false
            }
        });
    }
    if let Some(topics) = &mut asked.topics {
        without_repeats(topics);
    }
    let answer = ask(shard, &group_id, move |coordinator, token| {
        coordinator.fetch_offsets(clock::now(), asked, token);
    })
    .await;
    let mut reply = match answer {
        Ok(Reply::OffsetFetch(reply)) => reply,
        Ok(other) => unreachable!("an offset fetch was answered with {other:?}"),
        Err(error) => OffsetFetchReply {
            group_id,
            error,
            topics: Vec::new(),
        },
    };
    if version >= 10 {
        for topic in &mut reply.topics {
            if let Some(known) = image.topic(&topic.name) {
                topic.topic_id = known.id;
            }
        }
        // Of topics that are gone nothing can be said by id.
        reply.topics.retain(|topic| !topic.topic_id.is_zero());
        reply.topics.extend(unknown.into_iter().map(unknown_topic));
    }
    reply
}

/// The answer about a topic id that is not known.
fn unknown_topic(topic: FetchTopic) -> FetchedTopic {
    let partitions = topic
        .partitions
        .into_iter()
        .map(|partition| FetchedPartition {
            partition,
            offset: -1,
            leader_epoch: -1,
            metadata: String::new(),
            error: ErrorCode::UnknownTopicId,
        });
    FetchedTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
    }
}

pub async fn offset_delete(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: OffsetDeleteRequest,
) -> Outcome {
    let version = header.request_api_version;
    let image = shard.image();
    let mut asked = OffsetDelete::without_topics(&request);
    let mut refused = Vec::new();
    for topic in &request.topics {
        let found = image.topic(&topic.name);
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for partition in &topic.partitions {
            let index = PartitionIndex(partition.partition_index);
            match found.and_then(|topic| topic.partition(index)) {
                Some(_) => known.push(index),
                None => unknown.push((index, ErrorCode::UnknownTopicOrPartition)),
            }
        }
        refused.push((topic.name.to_string(), unknown));
        if !known.is_empty() {
            asked.topics.push((topic.name.to_string(), known));
        }
    }
    let answer = ask(shard, &request.group_id, move |coordinator, token| {
        coordinator.delete_offsets(clock::now(), asked, token);
    })
    .await;
    let mut reply = match answer {
        Ok(Reply::OffsetDelete(reply)) => reply,
        Ok(other) => unreachable!("an offset delete was answered with {other:?}"),
        Err(error) => OffsetDeleteReply {
            error,
            topics: Vec::new(),
        },
    };
    if reply.error.is_none() {
        let mut answered = reply.topics.into_iter().peekable();
        let mut topics = Vec::new();
        for (name, mut partitions) in refused {
            if answered.peek().is_some_and(|(next, _)| *next == name)
                && let Some((_, more)) = answered.next()
            {
                partitions.extend(more);
            }
            topics.push((name, partitions));
        }
        reply.topics = topics;
    }
    let response = reply.into_message();
    Outcome::of::<OffsetDeleteRequest>(header.correlation_id, &response, version)
}

pub async fn describe(
    shard: &Rc<Shard>,
    peer: &Peer,
    header: RequestHeader,
    request: DescribeGroupsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let mut groups = Vec::with_capacity(request.groups.len());
    let mut room = Room::new();
    for group_id in &request.groups {
        executor::yield_if_needed().await;
        let context = context(peer, &header);
        let wanted = group_id.to_string();
        let answer = ask_now(shard, group_id, move |coordinator| {
            coordinator.describe(&context, &wanted)
        })
        .await;
        let bytes = answer.as_ref().map_or(0, |group| {
            let members = group.members.iter().map(|member| {
                size_of::<DescribedMember>() + member.metadata.len() + member.assignment.len()
            });
            members.sum()
        });
        if let Err(end) = room.take(bytes) {
            return end;
        }
        groups.push(match answer {
            Ok(group) => {
                let good = group.error.is_none();
                let mut group = group.into_message();
                if good && request.include_authorized_operations {
                    group.authorized_operations = GROUP_OPERATIONS;
                }
                group
            }
            Err(error) => crate::wire::messages::describe_groups::DescribedGroup {
                error_code: error.code(),
                group_id: group_id.clone(),
                ..Default::default()
            },
        });
    }
    let response = DescribeGroupsResponse {
        throttle_time_ms: 0,
        groups,
    };
    Outcome::of::<DescribeGroupsRequest>(header.correlation_id, &response, version)
}

pub async fn list(shard: &Rc<Shard>, header: RequestHeader, request: ListGroupsRequest) -> Outcome {
    let version = header.request_api_version;
    let mut response = ListGroupsResponse::default();
    for owner in shard.shards_of_node().collect::<Vec<_>>() {
        let states = request.states_filter.clone();
        let types = request.types_filter.clone();
        let answer = shard.at(owner, move |shard| async move {
            shard.each_coordinator(|coordinator| coordinator.list(&states, &types))
        });
        for listed in answer.await.unwrap_or_default() {
            match listed {
                Ok(groups) => response
                    .groups
                    .extend(groups.into_iter().map(|group| group.into_message())),
                Err(error) => response.error_code = error.code(),
            }
        }
    }
    Outcome::of::<ListGroupsRequest>(header.correlation_id, &response, version)
}

pub async fn delete(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: DeleteGroupsRequest,
) -> Outcome {
    let version = header.request_api_version;
    let mut outcomes = Vec::with_capacity(request.groups_names.len());
    for group_id in &request.groups_names {
        let wanted = vec![group_id.to_string()];
        let answer = ask(shard, group_id, move |coordinator, token| {
            coordinator.delete_groups(clock::now(), &wanted, token);
        })
        .await;
        match answer {
            Ok(Reply::DeleteGroups(results)) => outcomes.extend(results),
            Ok(other) => unreachable!("a deletion was answered with {other:?}"),
            Err(error) => outcomes.push((group_id.to_string(), error)),
        }
    }
    let response = DeleteGroupsResponse {
        throttle_time_ms: 0,
        results: deleted_groups(outcomes),
    };
    Outcome::of::<DeleteGroupsRequest>(header.correlation_id, &response, version)
}

const KEY_GROUP: i8 = 0;
const KEY_TRANSACTION: i8 = 1;
/// The bits of `AclOperation` that a group knows: read, delete, describe, describe and alter configs.
const GROUP_OPERATIONS: i32 = 0b0000_1101_0100_1000;
