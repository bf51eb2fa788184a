//! Which partition a request asks for first: where shards share a node, its connection goes to that partition's shard.
//! Functions over the bytes of a request that has not been decoded.
//! Always: what can't be read decides nothing; the request is refused, or answered, where it is.
//! Handing the connection over is `connection`'s.

use bytes::Bytes;

use crate::base::{PartitionIndex, TopicPartition, Uuid};
use crate::metadata::Image;
use crate::wire::messages::fetch::FetchRequest;
use crate::wire::produce_head::{Event, ProduceStream};
use crate::wire::{ApiKey, Message, Reader, read_request_header};

/// The first partition of a Produce or Fetch request that begins with `head`.
pub fn first_partition(image: &Image, head: Bytes) -> Option<TopicPartition> {
    let mut reader = Reader::new(head.clone());
    let (api, header) = read_request_header(&mut reader).ok()?;
    let version = header.request_api_version;
    let (name, id, partition) = match api {
        ApiKey::Produce => {
            let body = &head[reader.position()..];
            // The size of the body only bounds what is read; the frame's own bound holds.
            let mut stream = ProduceStream::new(version, usize::MAX / 2)?;
            match stream.next(body).1 {
                Event::Records(records) => (records.topic, records.topic_id, records.partition),
                Event::NeedMore | Event::End | Event::Malformed(_) => return None,
            }
        }
        ApiKey::Fetch => {
            let request = FetchRequest::decode(&mut reader, version).ok()?;
            let topic = request.topics.into_iter().next()?;
            let partition = topic.partitions.first()?.partition;
            (topic.topic, topic.topic_id, partition)
        }
        _ => return None,
    };
    let topic_id = match id {
        Uuid::ZERO => image.topic(&name)?.id,
        id => id,
    };
    Some(TopicPartition {
        topic_id,
        partition: PartitionIndex(partition),
    })
}
