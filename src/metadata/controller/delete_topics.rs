//! DeleteTopics, by name or id (Kafka's `ControllerApis.deleteTopics`).
//! Part of the controller.
//! Always: each topic is taken or refused for itself; a topic's configs go with it.
//! Removing the logs is `shard`'s, when it sees the next image.

use super::{CommandError, Controller, Outcome, repeated};
use crate::base::{ErrorCode, TopicId};
use crate::metadata::image::Topic;
use crate::wire::Str;
use crate::wire::messages::metadata_records::RemoveTopicRecord;

/// A topic to delete, by name or, without a name, by id.
#[derive(Clone, Copy, Debug)]
pub struct TopicRef<'a> {
    pub name: Option<&'a str>,
    /// Zero: none.
    pub id: TopicId,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletedTopic {
    /// As far as it is known.
    pub name: Option<Str>,
    /// As far as it is known.
    pub id: TopicId,
    pub result: Result<(), CommandError>,
}

impl Controller {
    /// Deletes topics; results in the order of the request, a repeated name or id once.
    pub fn delete_topics(&self, topics: &[TopicRef<'_>]) -> Outcome<Vec<DeletedTopic>> {
        let names = repeated(topics.iter().filter_map(|topic| topic.name));
        let unnamed = topics.iter().filter(|topic| topic.name.is_none());
        let ids = repeated(unnamed.map(|topic| topic.id).filter(|id| !id.is_zero()));
        let mut deleted = std::collections::BTreeSet::new();
        let mut outcome = Outcome {
            records: Vec::new(),
            response: Vec::<DeletedTopic>::with_capacity(topics.len()),
        };
        for topic in topics {
            let name = topic.name.map(Str::copy_from);
            let double = match topic.name {
                Some(name) => names.binary_search(&name).is_ok(),
                None => ids.binary_search(&topic.id).is_ok(),
            };
            let said = |d: &DeletedTopic| d.name == name && d.id == topic.id;
            if double && outcome.response.iter().any(said) {
                continue;
            }
            let found = if double {
                let kind = if topic.name.is_some() { "name" } else { "id" };
                let text = format!("Duplicate topic {kind}.");
                Err(CommandError::new(ErrorCode::InvalidRequest, text))
            } else {
                self.find(*topic)
            };
            let answer = match found {
                Err(error) => DeletedTopic {
                    name,
                    id: topic.id,
                    result: Err(error),
                },
                Ok(found) if !deleted.insert(found.id) => DeletedTopic {
                    name: Some(found.name.clone()),
                    id: found.id,
                    result: Err(CommandError::new(
                        ErrorCode::InvalidRequest,
                        "The provided topic name maps to an ID that was already supplied.",
                    )),
                },
                Ok(found) => {
                    let record = RemoveTopicRecord { topic_id: found.id };
                    outcome.records.push(record.into());
                    DeletedTopic {
                        name: Some(found.name.clone()),
                        id: found.id,
                        result: Ok(()),
                    }
                }
            };
            outcome.response.push(answer);
        }
        outcome
    }

    fn find(&self, topic: TopicRef<'_>) -> Result<&Topic, CommandError> {
        if !self.config().delete_topics {
            return Err(CommandError::bare(ErrorCode::TopicDeletionDisabled));
        }
        match (topic.name, topic.id.is_zero()) {
            (None, true) => Err(CommandError::new(
                ErrorCode::InvalidRequest,
                "Neither topic name nor id were specified.",
            )),
            (Some(_), false) => Err(CommandError::new(
                ErrorCode::InvalidRequest,
                "You may not specify both topic name and topic id.",
            )),
            (Some(name), true) => self
                .image
                .topic(name)
                .map(|topic| &**topic)
                .ok_or(CommandError::bare(ErrorCode::UnknownTopicOrPartition)),
            (None, false) => self
                .image
                .topic_by_id(topic.id)
                .map(|topic| &**topic)
                .ok_or(CommandError::bare(ErrorCode::UnknownTopicId)),
        }
    }
}
