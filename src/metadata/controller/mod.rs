//! The controller: commands in, records and answers out (Kafka's `QuorumController`).
//! Owned by shard 0; holds the newest image and what was set at start.
//! Always: a command changes nothing; the records it returns do, once they are durable and published. Records that a command
//! returned apply to the image it was decided on.
//! Appending records and sending images around is `shard`'s.

mod alter_configs;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod producer_ids;
mod register;

use std::sync::Arc;

pub use alter_configs::{AlterOp, AlterResource};
pub use create_partitions::NewPartitions;
pub use create_topics::{Assignment, CreatedTopic, NewTopic};
pub use delete_topics::{DeletedTopic, TopicRef};
pub use producer_ids::ProducerIdBlock;
pub use register::{Machine, MachineNode};

use super::config::{AlterError, BrokerConfig, BrokerLayers, StaticConfig};
use super::image::{ApplyError, Image, Node};
use super::records::MetadataRecord;
use crate::base::{ErrorCode, NodeId, Offset};

/// See the module.
#[derive(Debug)]
pub struct Controller {
    image: Arc<Image>,
    statics: Arc<StaticConfig>,
}

/// What a command decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<R> {
    /// To be appended together; empty if nothing changes.
    pub records: Vec<MetadataRecord>,
    /// The answer, true once the records are durable.
    pub response: R,
}

/// Why one item of a request was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandError {
    pub code: ErrorCode,
    /// `None`: the code says it all.
    pub message: Option<String>,
}

impl CommandError {
    fn new(code: ErrorCode, message: impl Into<String>) -> CommandError {
        CommandError {
            code,
            message: Some(message.into()),
        }
    }

    fn bare(code: ErrorCode) -> CommandError {
        CommandError {
            code,
            message: None,
        }
    }
}

impl From<AlterError> for CommandError {
    fn from(error: AlterError) -> CommandError {
        CommandError::new(error.code, error.message)
    }
}

impl Controller {
    /// A controller over the log of a cluster, before its first record.
    pub fn new(image: Image, statics: Arc<StaticConfig>) -> Controller {
        Controller {
            image: Arc::new(image),
            statics,
        }
    }

    /// The newest image.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Takes a record of the log at start.
    pub fn replay(&mut self, record: &MetadataRecord, offset: Offset) -> Result<(), ApplyError> {
        Arc::make_mut(&mut self.image).apply(record, offset)
    }

    /// Takes records that are durable now, the first at `offset`; the next image.
    /// Panics if they are not the ones that the last command returned.
    pub fn publish(&mut self, records: &[MetadataRecord], offset: Offset) -> Arc<Image> {
        let mut next = Image::clone(&self.image);
        for (record, at) in records.iter().zip(offset.0..) {
            if let Err(error) = next.apply(record, Offset(at)) {
                panic!("own metadata record {at} does not fit: {error}: {record:?}");
            }
        }
        self.image = Arc::new(next);
        Arc::clone(&self.image)
    }

    /// The configuration of the node that the controller is on.
    pub fn config(&self) -> BrokerConfig {
        BrokerConfig::resolve(self.layers())
    }

    fn layers(&self) -> BrokerLayers<'_> {
        let node = self.image.controller().map_or(NodeId(0), |node| node.id);
        self.image.broker_layers(node, &self.statics)
    }

    /// The node of shard 0. Panics before nodes are registered: commands come from clients.
    fn own_node(&self) -> &Node {
        self.image
            .controller()
            .expect("nodes are registered before clients are served")
    }
}

/// The items that are named more than once, each once.
fn repeated<'a, T: Ord + Copy + 'a>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = items.collect();
    all.sort_unstable();
    let mut repeated: Vec<T> = all
        .windows(2)
        .filter(|w| w[0] == w[1])
        .map(|w| w[0])
        .collect();
    repeated.dedup();
    repeated
}

#[cfg(test)]
mod tests;
