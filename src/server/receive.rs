//! A large Produce request taken in while it arrives: its record batches go straight to where they will stay.
//! Part of the connection's reader.
//! Always: a batch that is refused leaves nothing behind; a batch whose sender stalls gives way to others; what can't go in place
//! is kept aside in memory that grows with what has arrived.
//! Appending what came is `handlers::produce`'s, the place is `shard`'s.

use bytes::{Buf, Bytes, BytesMut};

use super::connection::{Connection, End};
use super::handlers::produce::{self, Item, ProduceInput};
use super::outcome::Outcome;
use crate::base::{PartitionIndex, TopicPartition, Uuid};
use crate::io::executor;
use crate::record::{BatchHeader, HEADER_BYTES};
use crate::shard::{BatchBytes, InPlace};
use crate::wire::produce_head::{Event, ProduceStream, RecordsHead};
use crate::wire::{Reader, RequestHeader, read_request_header};

/// Frames above this size are taken in piece by piece.
pub const STREAMED_BYTES_MIN: usize = 32 << 10;
/// Record batches from this size on go in place.
const IN_PLACE_BYTES_MIN: usize = 16 << 10;
/// From this size on the rest of a batch is waited for as a whole, if its sender is fast.
const WAKE_BYTES_MIN: usize = 64 << 10;
/// How much is read at once between record batches: the less, the less of the next batch must be copied to its place.
const HEAD_BYTES: usize = 512;

/// Reads the Produce request that begins the buffer and starts it. `size` is the frame's, without its size field.
pub(super) async fn produce(connection: &mut Connection, size: usize) -> Result<Outcome, End> {
    connection.buffer.advance(4);
    let (header, header_bytes) = read_header(connection, size).await?;
    let version = header.request_api_version;
    let body_bytes = size - header_bytes;
    let mut stream = ProduceStream::new(version, body_bytes)
        .ok_or_else(|| End::Refused(format!("Produce version {version} is not served")))?;
    let mut items = Vec::new();
    let mut left = body_bytes;
    loop {
        let here = connection.buffer.len().min(left);
        let (used, event) = stream.next(&connection.buffer[..here]);
        connection.buffer.advance(used);
        left -= used;
        match event {
            Event::Records(head) => {
                let bytes = head.bytes.unwrap_or(0);
                let records = match head.bytes {
                    Some(bytes) => Some(receive_records(connection, &head, bytes).await?),
                    None => None,
                };
                left -= bytes;
                items.push(Item {
                    topic_index: head.topic_index,
                    topic: head.topic,
                    topic_id: head.topic_id,
                    partition: head.partition,
                    records,
                });
            }
            Event::NeedMore => {
                let wanted = (left - connection.buffer.len().min(left)).min(HEAD_BYTES);
                if wanted == 0 {
                    return Err(End::Refused("a Produce request that ends too early".into()));
                }
                connection.read(1, wanted).await?;
            }
            Event::Malformed(error) => return Err(End::Refused(error.to_string())),
            Event::End => break,
        }
    }
    connection.frame_ended();
    let head = stream.head().cloned();
    let head = head.ok_or_else(|| End::Refused("a Produce request without a head".into()))?;
    let input = ProduceInput {
        transactional_id: head.transactional_id,
        acks: head.acks,
        items,
    };
    Ok(produce::begin(&connection.shard, &connection.peer, header, input).await)
}

/// Reads the request header; how many bytes it took.
async fn read_header(
    connection: &mut Connection,
    size: usize,
) -> Result<(RequestHeader, usize), End> {
    loop {
        let here = connection.buffer.len().min(size);
        let mut reader = Reader::new(Bytes::copy_from_slice(
            &connection.buffer[..here.min(HEADER_READ_MAX)],
        ));
        match read_request_header(&mut reader) {
            Ok((_, header)) => {
                let used = reader.position();
                connection.buffer.advance(used);
                return Ok((header, used));
            }
            Err(error) if here >= size.min(HEADER_READ_MAX) => {
                return Err(End::Refused(error.to_string()));
            }
            Err(_) => {
                let wanted = (size - here).min(HEAD_BYTES);
                connection.read(1, wanted).await?;
            }
        }
    }
}

/// A header is not larger: client id and tags.
const HEADER_READ_MAX: usize = 64 << 10;

/// Takes in one record batch of `bytes` bytes.
async fn receive_records(
    connection: &mut Connection,
    head: &RecordsHead,
    bytes: usize,
) -> Result<BatchBytes, End> {
    if bytes >= IN_PLACE_BYTES_MIN {
        while connection.buffer.len() < HEADER_BYTES {
            let missing = HEADER_BYTES - connection.buffer.len();
            connection.read(missing, missing).await?;
        }
        let header: [u8; HEADER_BYTES] = connection.buffer[..HEADER_BYTES]
            .try_into()
            .expect("the length was just looked at");
        if let Some(mut place) = begin_in_place(connection, head, &header, bytes) {
            connection.buffer.advance(HEADER_BYTES);
            let used = place.fill(&connection.buffer);
            connection.buffer.advance(used);
            let kept = connection.aside_bytes;
            let mut fast = true;
            while !place.is_full() {
                // A fast sender's socket is never empty: what came before goes to the disk meanwhile.
                executor::yield_now().await;
                match place.receive(&connection.socket)? {
                    Some(count) => {
                        connection.drained = false;
                        connection.received(count)?;
                    }
                    None if fast && place.missing() >= WAKE_BYTES_MIN => {
                        fast = connection.readable_bytes(place.missing()).await?;
                    }
                    None => connection.readable().await?,
                }
                if place.is_aside() {
                    connection.aside_bytes = kept + bytes;
                    connection.hold().await?;
                }
            }
            return Ok(BatchBytes::InPlace(place));
        }
    }
    let mut aside = BytesMut::new();
    let kept = connection.aside_bytes;
    while aside.len() < bytes {
        let here = connection.buffer.len().min(bytes - aside.len());
        if aside.is_empty() && here == bytes {
            aside = connection.buffer.split_to(here);
            break;
        }
        aside.extend_from_slice(&connection.buffer[..here]);
        connection.aside_bytes = kept + aside.capacity();
        connection.buffer.advance(here);
        if aside.len() < bytes {
            let wanted = bytes - aside.len();
            connection.read(wanted, wanted).await?;
        }
    }
    Ok(BatchBytes::Frame(aside.freeze()))
}

/// The place of a batch at the end of its partition, if it is here and free.
fn begin_in_place(
    connection: &Connection,
    head: &RecordsHead,
    header: &[u8; HEADER_BYTES],
    bytes: usize,
) -> Option<InPlace> {
    let parsed = BatchHeader::parse(header);
    if parsed.size_in_bytes() != bytes {
        return None;
    }
    let image = connection.shard.image();
    let topic_id = match head.topic_id {
        Uuid::ZERO => image.topic(&head.topic)?.id,
        id => id,
    };
    let partition = TopicPartition {
        topic_id,
        partition: PartitionIndex(head.partition),
    };
    connection.shard.begin_in_place(partition, header, bytes)
}
