//! The promises of the controller, and the tools its tests share.

mod configs;
mod replay;
mod topics;

use std::sync::Arc;

use super::*;
use crate::base::{ShardId, TopicId, Uuid};
use crate::wire::Str;

/// A machine of `nodes` nodes over `shards` shards.
fn machine(nodes: u16, shards: u16) -> Machine {
    let node = |index: u16| MachineNode {
        id: NodeId(i32::from(index)),
        host: Str::from("127.0.0.1"),
        port: 9092 + index,
        shards: crate::metadata::placement::shards_of_node(index, nodes, shards)
            .map(ShardId)
            .collect(),
    };
    Machine {
        nodes: (0..nodes).map(node).collect(),
        rack: Some(Str::from("here")),
        incarnation: Uuid([9; 16]),
    }
}

/// A controller with its log.
struct Cluster {
    controller: Controller,
    log: Vec<MetadataRecord>,
    ids: u64,
}

impl Cluster {
    fn new(nodes: u16, shards: u16) -> Cluster {
        Cluster::with_statics(nodes, shards, StaticConfig::default())
    }

    fn with_statics(nodes: u16, shards: u16, statics: StaticConfig) -> Cluster {
        let image = Image::empty(Str::from("cluster"));
        let mut cluster = Cluster {
            controller: Controller::new(image, Arc::new(statics)),
            log: Vec::new(),
            ids: 0,
        };
        let outcome = cluster.controller.register(&machine(nodes, shards));
        cluster.commit(outcome);
        cluster
    }

    /// Makes an outcome's records durable.
    fn commit<R>(&mut self, outcome: Outcome<R>) -> R {
        let offset = Offset(self.log.len() as i64);
        self.controller.publish(&outcome.records, offset);
        self.log.extend(outcome.records);
        outcome.response
    }

    fn image(&self) -> &Image {
        self.controller.image()
    }

    /// Topic ids that look random and are the same in every run.
    fn ids(&mut self) -> impl FnMut() -> TopicId + use<> {
        self.ids += 1;
        let mut next = self.ids << 32;
        move || {
            next += 1;
            let mixed = u128::from(next).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            Uuid::from_random(mixed.to_le_bytes())
        }
    }

    fn create(&mut self, topics: &[NewTopic<'_>]) -> Vec<Result<CreatedTopic, CommandError>> {
        let ids = self.ids();
        let outcome = self.controller.create_topics(topics, false, ids);
        let response = self.commit(outcome);
        response.into_iter().map(|(_, result)| result).collect()
    }

    /// Makes one topic with this many partitions.
    fn create_plain(&mut self, name: &str, partitions: i32) -> TopicId {
        let topic = NewTopic {
            partitions,
            ..NewTopic::named(name)
        };
        let created = self.create(&[topic]).remove(0);
        created.expect("a valid topic").id
    }
}

/// The text of a refusal, after its code.
fn refusal<T: std::fmt::Debug>(result: &Result<T, CommandError>) -> String {
    match result {
        Err(CommandError { code, message }) => match message {
            Some(message) => format!("{code}: {message}"),
            None => code.to_string(),
        },
        Ok(value) => panic!("not refused: {value:?}"),
    }
}
