//! The records of `__consumer_offsets` as Kafka 4.4 writes them: a committed offset, a classic group, their tombstones.
//! Owned by nobody: between groups, offsets and bytes.
//! Always: what is written here is read here; what a later Kafka may have written is recognised and left out.
//! Which records are written when is decided by the flows.

use std::rc::Rc;

use bytes::Bytes;

use super::api::Record;
use super::classic::{Group, Member};
use super::offsets::Committed;
use crate::base::{PartitionIndex, Timestamp};
use crate::wire::messages::coordinator_records::{
    GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue,
};
use crate::wire::{DecodeError, Message, Reader, Str, Writer};

/// The version in front of a key says which record it is. 0 is an old form of 1.
const KEY_OFFSET_OLD: i16 = 0;
const KEY_OFFSET: i16 = 1;
const KEY_GROUP: i16 = 2;
/// Version 4 of the value, flexible with the topic id; version 1 is the only one with an expire time.
const VALUE_OFFSET: i16 = 4;
const VALUE_OFFSET_EXPIRING: i16 = 1;
const VALUE_GROUP: i16 = 3;

/// Ids, names and metadata that go into a record are at most this long: their length is an int16, and a member id is a
/// prefix from the client, a hyphen and 36 characters.
pub(super) const TEXT_BYTES_MAX: usize = i16::MAX as usize - 37;

/// What a record says.
#[derive(Debug)]
pub(super) enum Loaded {
    Offset {
        group: Str,
        topic: Str,
        partition: PartitionIndex,
        value: Option<Committed>,
    },
    Group {
        group: Str,
        value: Option<GroupMetadataValue>,
    },
    /// A kind of record that the classic protocol does not have.
    Other { key_version: i16 },
}

pub(super) fn offset_record(
    group: &str,
    topic: &str,
    partition: PartitionIndex,
    value: &Committed,
) -> Record {
    let version = match value.expire_time {
        Some(_) => VALUE_OFFSET_EXPIRING,
        None => VALUE_OFFSET,
    };
    let message = OffsetCommitValue {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: Str::copy_from(&value.metadata),
        commit_timestamp: value.commit_time.0,
        expire_timestamp: value.expire_time.unwrap_or(Timestamp::NONE).0,
        topic_id: value.topic_id,
    };
    Record {
        key: offset_key(group, topic, partition),
        value: Some(versioned(version, &message, version)),
    }
}

pub(super) fn offset_tombstone(group: &str, topic: &str, partition: PartitionIndex) -> Record {
    Record {
        key: offset_key(group, topic, partition),
        value: None,
    }
}

/// The group as it is, with the assignment that `assignment` says for each member.
pub(super) fn group_record(group: &Group, assignment: impl Fn(&str, &Member) -> Bytes) -> Record {
    let protocol = group.protocol_name.as_deref();
    let members = group.members.iter().map(|(id, member)| MemberMetadata {
        member_id: Str::copy_from(id),
        group_instance_id: member.group_instance_id.as_deref().map(Str::copy_from),
        client_id: Str::copy_from(&member.client_id),
        client_host: Str::copy_from(&member.client_host),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member
            .metadata(protocol.expect("a group with members has chosen a protocol")),
        assignment: assignment(id, member),
    });
    let value = GroupMetadataValue {
        protocol_type: Str::copy_from(group.protocol_type.as_deref().unwrap_or("")),
        generation: group.generation,
        protocol: protocol.map(Str::copy_from),
        leader: group.leader.as_deref().map(Str::copy_from),
        current_state_timestamp: group.state_since.unwrap_or(Timestamp::NONE).0,
        members: members.collect(),
    };
    Record {
        key: group_key(&group.id),
        value: Some(versioned(VALUE_GROUP, &value, VALUE_GROUP)),
    }
}

/// A group that nobody is in yet.
pub(super) fn empty_group_record(group: &Group) -> Record {
    let value = GroupMetadataValue {
        protocol_type: Str::default(),
        generation: 0,
        protocol: None,
        leader: None,
        current_state_timestamp: group.state_since.unwrap_or(Timestamp::NONE).0,
        members: Vec::new(),
    };
    Record {
        key: group_key(&group.id),
        value: Some(versioned(VALUE_GROUP, &value, VALUE_GROUP)),
    }
}

pub(super) fn group_tombstone(group: &Rc<str>) -> Record {
    Record {
        key: group_key(group),
        value: None,
    }
}

/// Reads a record back.
pub(super) fn read(key: &[u8], value: Option<&[u8]>) -> Result<Loaded, DecodeError> {
    let mut key = Reader::new(Bytes::copy_from_slice(key));
    match key.i16()? {
        KEY_OFFSET_OLD | KEY_OFFSET => {
            let key = OffsetCommitKey::decode(&mut key, 0)?;
            let value = value.map(read_offset).transpose()?;
            Ok(Loaded::Offset {
                group: key.group,
                topic: key.topic,
                partition: PartitionIndex(key.partition),
                value,
            })
        }
        KEY_GROUP => {
            let key = GroupMetadataKey::decode(&mut key, 0)?;
            let value = value.map(read_value).transpose()?;
            Ok(Loaded::Group {
                group: key.group,
                value,
            })
        }
        key_version => Ok(Loaded::Other { key_version }),
    }
}

fn read_offset(bytes: &[u8]) -> Result<Committed, DecodeError> {
    let value: OffsetCommitValue = read_value(bytes)?;
    let expire_time = Timestamp(value.expire_timestamp);
    Ok(Committed {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: value.metadata.as_str().to_owned(),
        commit_time: Timestamp(value.commit_timestamp),
        expire_time: (expire_time != Timestamp::NONE).then_some(expire_time),
        topic_id: value.topic_id,
    })
}

fn read_value<M: Message>(bytes: &[u8]) -> Result<M, DecodeError> {
    let mut reader = Reader::new(Bytes::copy_from_slice(bytes));
    let version = reader.i16()?;
    M::decode(&mut reader, version)
}

fn offset_key(group: &str, topic: &str, partition: PartitionIndex) -> Bytes {
    let key = OffsetCommitKey {
        group: Str::copy_from(group),
        topic: Str::copy_from(topic),
        partition: partition.0,
    };
    versioned(KEY_OFFSET, &key, 0)
}

fn group_key(group: &str) -> Bytes {
    let key = GroupMetadataKey {
        group: Str::copy_from(group),
    };
    versioned(KEY_GROUP, &key, 0)
}

/// The prefix and the message behind it.
fn versioned(prefix: i16, message: &impl Message, version: i16) -> Bytes {
    let mut writer = Writer::new();
    writer.i16(prefix);
    if let Err(error) = message.encode(&mut writer, version) {
        // Texts were bounded on their way in, and the versions are constants.
        panic!("a record of ours can't be written: {error}");
    }
    writer.into_bytes()
}
