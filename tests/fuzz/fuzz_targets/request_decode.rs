//! Arbitrary bytes as a request frame behind its size, and as any message in any version. Nothing panics; what is decoded
//! encodes to bytes that decode to the same; a Produce request reads the same in one piece and in two.

#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ringlog::wire::messages::produce::ProduceRequest;
use ringlog::wire::produce_head::{Event, ProduceStream};
use ringlog::wire::schema::MessageKind;
use ringlog::wire::{ApiKey, Message, Reader, read_request_header};

#[allow(dead_code, reason = "shared with tests/wire")]
#[path = "../../wire/messages.rs"]
mod messages;

static MESSAGES: LazyLock<Vec<messages::Entry>> = LazyLock::new(messages::all);

// The first byte says which message the rest is, or that it is a frame; the second says the version.
fuzz_target!(|data: &[u8]| {
    let [selector, version, body @ ..] = data else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    match MESSAGES.get(usize::from(*selector)) {
        Some(entry) => {
            let versions: Vec<i16> = entry.versions().collect();
            recode(
                entry,
                body,
                versions[usize::from(*version) % versions.len()],
            );
        }
        None => frame(body),
    }
});

fn frame(body: Bytes) {
    let mut reader = Reader::new(body.clone());
    let Ok((api, header)) = read_request_header(&mut reader) else {
        return;
    };
    let version = header.request_api_version;
    let entry = MESSAGES
        .iter()
        .find(|entry| {
            entry.message.kind == MessageKind::Request && entry.message.key == Some(api.key())
        })
        .expect("every served request is declared");
    let rest = body.slice(reader.position()..);
    if api == ApiKey::Produce {
        produce(&rest, version);
    }
    recode(entry, rest, version);
}

fn recode(entry: &messages::Entry, body: Bytes, version: i16) {
    let Ok(text) = (entry.print)(body.clone(), version) else {
        return;
    };
    let again = (entry.recode)(body, version).expect("it was decoded just now");
    assert_eq!((entry.print)(again, version).as_deref(), Ok(text.as_str()));
}

fn produce(body: &Bytes, version: i16) {
    let whole = ProduceRequest::decode_bytes(body.clone(), version)
        .ok()
        .map(|request| {
            let partitions = request
                .topic_data
                .iter()
                .flat_map(|topic| &topic.partition_data);
            partitions
                .map(|partition| (partition.index, partition.records.bytes().map(Bytes::len)))
                .collect::<Vec<_>>()
        });
    let mut stream = ProduceStream::new(version, body.len()).expect("a served version");
    let mut partitions = Vec::new();
    let (mut at, mut arrived) = (0, body.len() / 2);
    let pieces = loop {
        let (used, event) = stream.next(&body[at..arrived]);
        at += used;
        match event {
            Event::NeedMore => {
                assert!(arrived < body.len(), "more is wanted than there is");
                arrived = body.len();
            }
            Event::Records(records) => {
                at += records.bytes.unwrap_or(0);
                arrived = arrived.max(at);
                partitions.push((records.partition, records.bytes));
            }
            Event::End => break Some(partitions),
            Event::Malformed(_) => break None,
        }
    };
    assert_eq!(pieces, whole);
}
