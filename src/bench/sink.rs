//! A server that answers produce and throws everything away, and serves fetches from memory: what the load side reaches against it is its
//! own limit. Told to, it answers late and stalls, which the harness must then report.
//! One reactor of its own; used for the limit and by the tests.
//! Always: answers in order, each at least `delay` after its request; nothing is answered during a stall.
//! It is no broker: topics and offsets are not known to it.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;

use super::process::{self, Watched};
use crate::base::MonoNs;
use crate::client::{ClientError, Receiver};
use crate::io::arena::{Arena, GRANULE_BYTES, Pinned};
use crate::io::executor::{self, ShardHandle};
use crate::io::listener::Listener;
use crate::io::socket::Socket;
use crate::io::{clock, sync};
use crate::wire::apis::advertised_apis;
use crate::wire::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::wire::messages::fetch::{
    FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use crate::wire::messages::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use crate::wire::{ApiKey, Frame, Message, Reader, Records, read_request_header, response_frame};

/// How the server behaves.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// Between a request and its answer.
    pub delay: Duration,
    /// Period and length of stalls, from the first connection on.
    pub stall: Option<(Duration, Duration)>,
    /// Record batches with offsets from 0 on, which every fetch brings.
    pub records: Bytes,
    /// The offset behind them.
    pub end_offset: i64,
    /// So many bytes of memory hold them, copy behind copy, and are sent from in turn: what lies in the cache costs less.
    pub spread_bytes: usize,
}

/// A running server; dropping it ends it.
pub struct Sink {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    /// Its thread, where the system tells.
    watched: Option<Watched>,
    shard: Option<ShardHandle<()>>,
}

/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

impl Sink {
    pub fn start(core: Option<usize>, behaviour: Behaviour) -> Result<Sink, String> {
        let none =
            |error: std::io::Error| format!("no server for the limit of the load side: {error}");
        let listener = Listener::bind_std(([127, 0, 0, 1], 0).into()).map_err(none)?;
        let address = listener.local_addr().map_err(none)?;
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let (tell, told) = mpsc::channel();
        let shard = executor::run_shard(core, "sink", move || async move {
            // Nobody may be there to hear it.
            let _ = tell.send(process::this_thread());
            serve(Listener::from_std(listener), behaviour, &seen).await;
        });
        Ok(Sink {
            address,
            ends,
            shard: Some(shard.map_err(none)?),
            watched: told.recv().ok().flatten(),
        })
    }

    pub fn watched(&self) -> Option<Watched> {
        self.watched
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(shard) = self.shard.take() {
            // Its end is all that matters.
            let _ = shard.join();
        }
    }
}

async fn serve(mut listener: Listener, behaviour: Behaviour, ends: &AtomicBool) {
    let records = Rc::new(Copies::new(&behaviour));
    let behaviour = Rc::new(behaviour);
    let mut first = None;
    while !ends.load(Ordering::SeqCst) {
        let soon = clock::mono().plus_ms(LOOK.as_millis() as i64);
        match executor::until(soon, listener.accept()).await {
            Some(Ok((socket, _))) => {
                let began = *first.get_or_insert_with(clock::mono);
                let connection = Connection {
                    socket: Rc::new(socket),
                    behaviour: behaviour.clone(),
                    records: records.clone(),
                    began,
                    answers: Rc::default(),
                };
                executor::spawn_detached(connection.run());
            }
            Some(Err(_)) => return,
            None => {}
        }
    }
}

/// The records where `sendfile` takes them from, as a broker has them.
#[derive(Default)]
struct Copies {
    held: Vec<Pinned>,
    next: Cell<usize>,
}

impl Copies {
    fn new(behaviour: &Behaviour) -> Copies {
        let records = &behaviour.records;
        if records.is_empty() {
            return Copies::default();
        }
        let count = (behaviour.spread_bytes / records.len()).max(1);
        let each = records.len().next_power_of_two().max(GRANULE_BYTES);
        let arena = Arena::new((count * each) as u64);
        let held = arena.map(|arena| (0..count).map_while(|_| arena.hold(records)).collect());
        Copies {
            held: held.unwrap_or_default(),
            next: Cell::new(0),
        }
    }

    fn next(&self) -> Option<&Pinned> {
        let next = self.next.get();
        self.next.set(next + 1);
        self.held.get(next % self.held.len().max(1))
    }
}

struct Connection {
    socket: Rc<Socket>,
    behaviour: Rc<Behaviour>,
    records: Rc<Copies>,
    began: MonoNs,
    answers: Rc<Answers>,
}

#[derive(Default)]
struct Answers {
    queue: RefCell<std::collections::VecDeque<(MonoNs, Frame)>>,
    more: sync::Notify,
}

impl Connection {
    async fn run(self) {
        let sending = executor::spawn(send(
            self.socket.clone(),
            self.behaviour.clone(),
            self.records.clone(),
            self.began,
            self.answers.clone(),
        ));
        let mut receiver = Receiver::over(self.socket.clone(), "client");
        while let Ok(frame) = receiver.frame().await {
            let due = MonoNs(clock::mono().0 + self.behaviour.delay.as_nanos() as u64);
            match answer(frame, &self.behaviour) {
                Ok(Some(frame)) => {
                    self.answers.queue.borrow_mut().push_back((due, frame));
                    self.answers.more.notify();
                }
                Ok(None) => {}
                Err(_) => break,
            }
            executor::yield_if_needed().await;
        }
        drop(sending);
    }
}

/// Sends answers when their time has come.
async fn send(
    socket: Rc<Socket>,
    behaviour: Rc<Behaviour>,
    records: Rc<Copies>,
    began: MonoNs,
    answers: Rc<Answers>,
) {
    loop {
        let more = answers.more.wait();
        let next = answers.queue.borrow_mut().pop_front();
        let Some((due, frame)) = next else {
            more.await;
            continue;
        };
        let due = after_stall(due, began, behaviour.stall);
        if due > clock::mono() {
            executor::sleep_until(due).await;
        }
        let sent = match frame.gaps.is_empty() {
            true => send_small(&socket, &behaviour, frame, &answers).await,
            false => send_with_records(&socket, &frame, &records).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn send_small(
    socket: &Socket,
    behaviour: &Behaviour,
    frame: Frame,
    answers: &Answers,
) -> io::Result<()> {
    let mut burst = bytes::BytesMut::from(frame.bytes);
    if behaviour.delay.is_zero() && behaviour.stall.is_none() {
        // All that is there goes out at once: this side must not be the slower one.
        let mut queue = answers.queue.borrow_mut();
        let small = queue.iter().take_while(|(_, next)| next.gaps.is_empty());
        let small = small.count();
        for (_, next) in queue.drain(..small) {
            burst.extend_from_slice(&next.bytes);
        }
    }
    socket.send(&burst, false).await
}

/// Heads by `send`, records by `sendfile`, as a broker does.
async fn send_with_records(socket: &Socket, frame: &Frame, records: &Copies) -> io::Result<()> {
    let mut at = 0;
    for gap in &frame.gaps {
        socket.send(&frame.bytes[at..gap.at], true).await?;
        at = gap.at;
        let pinned = records.next().ok_or(io::ErrorKind::NotFound)?;
        let slice = pinned.for_send();
        let mut sent = 0;
        while sent < gap.bytes {
            match socket.try_sendfile(slice.part(sent, gap.bytes - sent))? {
                Some(count) => sent += count,
                None => socket.writable().await?,
            }
        }
    }
    socket.send(&frame.bytes[at..], false).await
}

/// The time itself, or the end of the stall it falls into: the last `length` of every `period`.
fn after_stall(at: MonoNs, began: MonoNs, stall: Option<(Duration, Duration)>) -> MonoNs {
    let Some((period, length)) = stall else {
        return at;
    };
    let (period, length) = (period.as_nanos() as u64, length.as_nanos() as u64);
    let within = at.0.saturating_sub(began.0) % period;
    match within >= period - length {
        true => MonoNs(at.0 + period - within),
        false => at,
    }
}

fn answer(frame: Bytes, behaviour: &Behaviour) -> Result<Option<Frame>, ClientError> {
    let mut reader = Reader::new(frame);
    let undecodable = |what: String| ClientError::Answer {
        address: "client".to_owned(),
        what,
    };
    let (api, header) =
        read_request_header(&mut reader).map_err(|error| undecodable(error.to_string()))?;
    let (version, id) = (header.request_api_version, header.correlation_id);
    let frame = match api {
        ApiKey::ApiVersions => {
            let response = ApiVersionsResponse {
                api_keys: advertised_apis(),
                ..ApiVersionsResponse::default()
            };
            response_frame::<ApiVersionsRequest>(id, &response, version)?
        }
        ApiKey::Produce => {
            let request = ProduceRequest::decode(&mut reader, version)
                .map_err(|error| undecodable(error.to_string()))?;
            if request.acks == 0 {
                return Ok(None);
            }
            response_frame::<ProduceRequest>(id, &accepted(&request), version)?
        }
        ApiKey::Fetch => {
            let request = FetchRequest::decode(&mut reader, version)
                .map_err(|error| undecodable(error.to_string()))?;
            response_frame::<FetchRequest>(id, &canned(&request, behaviour), version)?
        }
        other => return Err(undecodable(format!("{other:?} is not served here"))),
    };
    Ok(Some(frame))
}

fn accepted(request: &ProduceRequest) -> ProduceResponse {
    let topics = request.topic_data.iter().map(|topic| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic
            .partition_data
            .iter()
            .map(|partition| PartitionProduceResponse {
                index: partition.index,
                ..PartitionProduceResponse::default()
            })
            .collect(),
    });
    ProduceResponse {
        responses: topics.collect(),
        ..ProduceResponse::default()
    }
}

fn canned(request: &FetchRequest, behaviour: &Behaviour) -> FetchResponse {
    let topics = request.topics.iter().map(|topic| FetchableTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| PartitionData {
                partition_index: partition.partition,
                high_watermark: behaviour.end_offset,
                records: Records::Elsewhere {
                    bytes: behaviour.records.len(),
                },
                ..PartitionData::default()
            })
            .collect(),
    });
    FetchResponse {
        responses: topics.collect(),
        ..FetchResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_the_end_of_every_period() {
        let ms = |ms: u64| MonoNs(1_000 + ms * 1_000_000);
        let stall = Some((Duration::from_millis(100), Duration::from_millis(30)));
        for (at, due) in [
            (0, 0),
            (69, 69),
            (70, 100),
            (99, 100),
            (100, 100),
            (175, 200),
        ] {
            assert_eq!(after_stall(ms(at), ms(0), stall), ms(due), "{at}");
        }
        assert_eq!(after_stall(ms(99), ms(0), None), ms(99));
    }
}
