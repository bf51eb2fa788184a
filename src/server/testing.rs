//! What the tests of handlers share: the image of a machine with a topic.

use std::sync::Arc;

use crate::base::{NodeId, Offset, ShardId, TopicId, Uuid};
use crate::metadata::config::StaticConfig;
use crate::metadata::{Controller, Image, Machine, MachineNode, NewTopic};
use crate::wire::{Message, Reader, Request, Str, read_response};

/// An image of so many nodes, each one shard, at 127.0.0.1:9092 and up, and of one topic with this many partitions; its id.
pub fn image_with_topic(nodes: u16, topic: &str, partitions: i32) -> (Arc<Image>, TopicId) {
    let image = Image::empty(Str::from("cluster"));
    let mut controller = Controller::new(image, Arc::new(StaticConfig::default()));
    let machine = Machine {
        nodes: (0..nodes)
            .map(|index| MachineNode {
                id: NodeId(i32::from(index)),
                host: Str::from("127.0.0.1"),
                port: 9092 + index,
                shards: vec![ShardId(index)],
            })
            .collect(),
        rack: Some(Str::from("here")),
        incarnation: Uuid([9; 16]),
    };
    let registered = controller.register(&machine).records;
    controller.publish(&registered, Offset(0));
    let new = NewTopic {
        partitions,
        ..NewTopic::named(topic)
    };
    let id = Uuid([7; 16]);
    let created = controller.create_topics(&[new], false, || id).records;
    let image = controller.publish(&created, Offset(registered.len() as i64));
    (image, id)
}

/// The response in a frame, behind its size.
pub fn response_in<R: Request>(frame: &[u8], version: i16) -> R::Response
where
    R::Response: Message,
{
    let mut reader = Reader::new(bytes::Bytes::copy_from_slice(&frame[4..]));
    let (_, response) = read_response::<R>(&mut reader, version).expect("our own frame");
    response
}
