//! Producer ids, handed out in blocks (Kafka's `ProducerIdControlManager`).
//! Part of the controller; a shard uses up a block and asks for the next.
//! Always: no id is ever in two blocks, in the life of the cluster.
//! Which producer gets which id is decided by the shard that holds the block.

use super::{Controller, Outcome};
use crate::base::{NodeId, ProducerId};
use crate::wire::messages::metadata_records::ProducerIdsRecord;

/// `count` ids from `first`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerIdBlock {
    pub first: ProducerId,
    pub count: i64,
}

impl ProducerIdBlock {
    /// Ids in a block, as in Kafka.
    pub const IDS: i64 = 1000;
}

impl Controller {
    /// The next block, for a shard of `node`.
    pub fn allocate_producer_ids(&self, node: NodeId) -> Outcome<ProducerIdBlock> {
        let first = self.image.next_producer_id();
        let next = first
            .checked_add(ProducerIdBlock::IDS)
            .unwrap_or_else(|| panic!("producer ids are used up at {first}"));
        let epoch = self.image.node(node).map_or(-1, |node| node.epoch);
        let record = ProducerIdsRecord {
            broker_id: node.0,
            broker_epoch: epoch,
            next_producer_id: next,
        };
        Outcome {
            records: vec![record.into()],
            response: ProducerIdBlock {
                first: ProducerId(first),
                count: ProducerIdBlock::IDS,
            },
        }
    }
}
