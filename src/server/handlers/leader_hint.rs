//! Where a partition that was asked for at the wrong node is (KIP-951).
//! Made while one answer is built.
//! Always: every leader that is named has its endpoint in the answer.
//! Which errors carry a hint is the handlers'.

use crate::base::{LeaderEpoch, NodeId, PartitionIndex, Uuid};
use crate::metadata::{Image, Node};

/// Collects the leaders named in one answer.
pub struct LeaderHints<'a> {
    image: &'a Image,
    named: Vec<&'a Node>,
}

impl<'a> LeaderHints<'a> {
    pub fn new(image: &'a Image) -> LeaderHints<'a> {
        LeaderHints {
            image,
            named: Vec::new(),
        }
    }

    /// Leader and epoch of a partition, named by id or else by name.
    pub fn leader(
        &mut self,
        topic: &str,
        topic_id: Uuid,
        partition: i32,
    ) -> Option<(NodeId, LeaderEpoch)> {
        let topic = match topic_id {
            Uuid::ZERO => self.image.topic(topic)?,
            id => self.image.topic_by_id(id)?,
        };
        let state = topic.partition(PartitionIndex(partition))?;
        let node = self.image.node(state.leader?)?;
        if self.named.iter().all(|named| named.id != node.id) {
            self.named.push(node);
        }
        Some((node.id, state.leader_epoch))
    }

    /// The nodes of the leaders that were named.
    pub fn nodes(&self) -> impl Iterator<Item = &'a Node> + use<'_, 'a> {
        self.named.iter().copied()
    }
}
