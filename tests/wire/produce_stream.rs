//! A Produce request read in pieces is the one that the decoder reads from the whole frame, and both refuse the same.

use bytes::Bytes;
use ringlog::wire::messages::produce::ProduceRequest;
use ringlog::wire::produce_head::{Event, PIECE_BYTES_MAX, ProduceHead, ProduceStream};
use ringlog::wire::schema::StructSchema;
use ringlog::wire::{Message, Records};

use crate::messages;
use crate::random::{self, Random};

/// A request as both ways can tell it.
#[derive(PartialEq, Debug)]
struct Told {
    head: ProduceHead,
    partitions: Vec<ToldPartition>,
}

/// Topic index, name, id, partition, records.
type ToldPartition = (usize, String, [u8; 16], i32, Option<Vec<u8>>);

#[test]
fn a_stream_tells_what_the_decoder_tells() {
    let mut random = Random::new(random::seed());
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..20_000 {
        let version = 3 + random.below(11) as i16;
        let mut body = request(&mut random, version);
        // Three in four are damaged.
        match round % 4 {
            0 => {}
            1 => body.truncate(random.below(body.len() + 1)),
            2 => body.extend((0..1 + random.below(4)).map(|i| i as u8)),
            _ => {
                for _ in 0..1 + random.below(3) {
                    let at = random.below(body.len());
                    body[at] = random.next() as u8;
                }
            }
        }
        let whole = decoded(&body, version);
        let pieces = streamed(&mut random, &body, version);
        assert_eq!(pieces, whole, "v{version} {body:02x?}");
        match whole {
            Some(_) => accepted += 1,
            None => refused += 1,
        }
    }
    assert!(accepted > 5_000 && refused > 5_000, "{accepted} {refused}");
}

#[test]
fn a_version_that_does_not_exist_has_no_stream() {
    assert!(ProduceStream::new(2, 100).is_none());
    assert!(ProduceStream::new(14, 100).is_none());
}

/// The connection can size its buffer: a step never needs more than it says.
#[test]
fn the_longest_names_fit_the_largest_piece() {
    let longest = "n".repeat(i16::MAX as usize);
    for version in [12, 8] {
        let request = ProduceRequest {
            transactional_id: Some(longest.clone().into()),
            topic_data: vec![ringlog::wire::messages::produce::TopicProduceData {
                name: longest.clone().into(),
                partition_data: vec![Default::default()],
                ..Default::default()
            }],
            ..Default::default()
        };
        let body = request.encode_bytes(version).expect("the version exists");
        let mut stream = ProduceStream::new(version, body.len()).expect("the version exists");
        let mut at = 0;
        loop {
            let end = body.len().min(at + PIECE_BYTES_MAX);
            let (used, event) = stream.next(&body[at..end]);
            at += used;
            match event {
                Event::Records(records) => assert_eq!(records.topic, longest.as_str()),
                Event::NeedMore => assert!(used > 0, "stuck at {at}"),
                Event::End => break,
                Event::Malformed(error) => panic!("{error}"),
            }
        }
    }
}

fn request(random: &mut Random, version: i16) -> Vec<u8> {
    let entry = messages::all()
        .into_iter()
        .find(|entry| entry.message.name == ProduceRequest::SCHEMA.name)
        .expect("declared");
    let structure: &StructSchema = entry.structure;
    random::message(random, &entry.message, structure, version, true).bytes
}

fn decoded(body: &[u8], version: i16) -> Option<Told> {
    let request = ProduceRequest::decode_bytes(Bytes::copy_from_slice(body), version).ok()?;
    let mut partitions = Vec::new();
    for (index, topic) in request.topic_data.iter().enumerate() {
        for partition in &topic.partition_data {
            let records = match &partition.records {
                Records::Null => None,
                Records::Bytes(bytes) => Some(bytes.to_vec()),
                Records::Elsewhere { .. } => panic!("decoded records are here"),
            };
            partitions.push((
                index,
                topic.name.to_string(),
                topic.topic_id.0,
                partition.index,
                records,
            ));
        }
    }
    Some(Told {
        head: ProduceHead {
            transactional_id: request.transactional_id,
            acks: request.acks,
            timeout_ms: request.timeout_ms,
        },
        partitions,
    })
}

/// Gives the body to a stream in random pieces, takes the records out of it. `None`: refused.
fn streamed(random: &mut Random, body: &[u8], version: i16) -> Option<Told> {
    let mut stream = ProduceStream::new(version, body.len()).expect("the version exists");
    let mut partitions = Vec::new();
    let (mut at, mut arrived) = (0, 0);
    loop {
        let (used, event) = stream.next(&body[at..arrived]);
        at += used;
        match event {
            Event::NeedMore => {
                assert!(arrived < body.len(), "more is wanted than there is");
                let most = if random.one_in(2) { 3 } else { 100 };
                arrived = body.len().min(arrived + 1 + random.below(most));
            }
            Event::Records(records) => {
                let taken = records.bytes.map(|bytes| body[at..at + bytes].to_vec());
                at += records.bytes.unwrap_or(0);
                arrived = arrived.max(at);
                assert_eq!(stream.left(), body.len() - at);
                partitions.push((
                    records.topic_index,
                    records.topic.to_string(),
                    records.topic_id.0,
                    records.partition,
                    taken,
                ));
            }
            Event::End => {
                assert_eq!(at, body.len());
                let head = stream.head().expect("the head was read").clone();
                return Some(Told { head, partitions });
            }
            Event::Malformed(_) => return None,
        }
    }
}
