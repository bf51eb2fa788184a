//! What the protocol costs: a Produce request read as it arrives, a Fetch response written.
//!
//! Estimate, on a core of 3 GHz: 5 cycles a field (a load, a swap, a bound), 60 a string (its length, UTF-8, a reference to its
//! memory) or an allocation, 20 a reference counted. Record batches are not touched: a request's are stepped over, a response has
//! gaps for them. So the cost does not depend on their size, and per partition it is
//! - Produce v12: 4 fields and 2 references (the topic's name, which was copied out of the stream once), 60 cycles;
//! - Fetch v17: 13 fields, and the room for them, 80 cycles.
//!
//! `cargo bench --bench codec`.

mod common;
#[path = "common/sampled.rs"]
mod sampled;

use std::hint::black_box;

use bytes::Bytes;
use common::cycles;
use criterion::Criterion;
use ringlog::base::Uuid;
use ringlog::wire::messages::fetch::{
    FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use ringlog::wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use ringlog::wire::produce_head::{Event, ProduceStream};
use ringlog::wire::{Reader, Records, Str, read_request_header, request_frame, response_frame};
use sampled::sampled;

const FIELD_CYCLES: f64 = 5.0;
const STRING_CYCLES: f64 = 60.0;
const ALLOCATION_CYCLES: f64 = 60.0;
const PRODUCE_PARTITION_CYCLES: f64 = 4.0 * FIELD_CYCLES + 2.0 * 20.0;
const FETCH_PARTITION_CYCLES: f64 = 13.0 * FIELD_CYCLES + 15.0;
/// The last that names topics.
const PRODUCE_VERSION: i16 = 12;
/// As Java clients send it.
const FETCH_VERSION: i16 = 17;
const BATCH_BYTES: usize = 1024;

fn main() {
    let mut criterion = sampled::criterion();
    for partitions in [1, 100] {
        produce_decode(&mut criterion, partitions);
    }
    for partitions in [1, 100] {
        fetch_encode(&mut criterion, partitions);
    }
    criterion.final_summary();
}

/// Header and everything but the batches, as the connection reads it.
fn produce_decode(criterion: &mut Criterion, partitions: usize) {
    let frame = produce_frame(partitions);
    // 4 fields and a string in the header, 4 before the topics, a topic with its name, 3 ends with tags. The name is copied, and
    // becomes shared.
    let request = 13.0 * FIELD_CYCLES + 2.0 * STRING_CYCLES + 2.0 * ALLOCATION_CYCLES;
    let estimate = cycles(request + partitions as f64 * PRODUCE_PARTITION_CYCLES);
    let name = format!("Produce request decoded, partitions: {partitions}");
    sampled(criterion, &name, estimate, None, || {
        let mut reader = Reader::new(black_box(&frame).clone());
        let (_, header) = read_request_header(&mut reader).expect("a header");
        let mut at = reader.position();
        let mut stream = ProduceStream::new(header.request_api_version, frame.len() - at)
            .expect("a version there is");
        let mut seen = 0;
        loop {
            let (used, event) = stream.next(&frame[at..]);
            at += used;
            match event {
                Event::Records(head) => {
                    at += head.bytes.expect("records");
                    seen += 1;
                }
                Event::End => break,
                Event::NeedMore | Event::Malformed(_) => panic!("{event:?} at {at}"),
            }
        }
        assert_eq!(seen, partitions);
    });
}

/// A request behind its size.
fn produce_frame(partitions: usize) -> Bytes {
    let partition_data = (0..partitions as i32).map(|index| PartitionProduceData {
        index,
        records: Records::Bytes(vec![0; BATCH_BYTES].into()),
    });
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: Str::copy_from("a-topic-of-the-bench"),
            partition_data: partition_data.collect(),
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    let client_id = Some(Str::copy_from("producer-1"));
    let frame = request_frame(7, client_id, &request, PRODUCE_VERSION).expect("fits");
    frame.bytes.slice(4..)
}

fn fetch_encode(criterion: &mut Criterion, partitions: usize) {
    let partition_data = (0..partitions as i32).map(|partition_index| PartitionData {
        partition_index,
        high_watermark: 1 << 40,
        last_stable_offset: 1 << 40,
        log_start_offset: 1 << 20,
        records: Records::Elsewhere { bytes: BATCH_BYTES },
        ..PartitionData::default()
    });
    let response = FetchResponse {
        responses: vec![FetchableTopicResponse {
            topic_id: Uuid([7; 16]),
            partitions: partition_data.collect(),
            ..FetchableTopicResponse::default()
        }],
        ..FetchResponse::default()
    };
    // 2 fields in the header, 4 in front, a topic with 3, 2 ends with tags; a buffer and a list of gaps.
    let estimate = cycles(
        11.0 * FIELD_CYCLES + 2.0 * ALLOCATION_CYCLES + partitions as f64 * FETCH_PARTITION_CYCLES,
    );
    let name = format!("Fetch response encoded, partitions: {partitions}");
    sampled(criterion, &name, estimate, None, || {
        let frame = response_frame::<FetchRequest>(7, black_box(&response), FETCH_VERSION);
        assert_eq!(frame.expect("fits").gaps.len(), partitions);
    });
}
