//! One connection: reads frames in order, dispatches them, and gives the answers to its pipeline.
//! Owned by two tasks of the shard it lives on (this reader, the pipeline's writer); it may be handed to another shard.
//! Always: memory follows the bytes that arrived, never what a length announces; a malformed frame closes this connection alone.
//! What a request means is the handlers'; how answers are sent is `pipeline`'s.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_lite::future;

use super::budget::Charge;
use super::dispatch;
use super::outcome::Outcome;
use super::pipeline::{Pipeline, unless};
use super::receive;
use super::route;
use super::sweep::{Activity, Server};
use crate::base::ShardId;
use crate::base::limits::{REQUEST_BYTES_MAX, REQUEST_BYTES_MIN};
use crate::io::socket::Socket;
use crate::io::{clock, executor};
use crate::shard::{Arrival, Shard};
use crate::wire::ApiKey;

/// Who is at the other end, for handlers and logs.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// The address a client used to get here, for answers to clients that are not told another.
    pub local: SocketAddr,
}

/// Why a connection ends.
pub(super) enum End {
    /// By the peer, or by our stop.
    Closed,
    /// A request that can't be read or served.
    Refused(String),
    Io(io::Error),
    /// Another shard goes on with it, from the request that begins the buffer.
    HandOver(ShardId),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Io(error)
    }
}

/// Serves a connection to its end. `buffer` is what was read before, by the shard that handed it over.
/// It counts as a connection at once, not when it is first polled.
pub fn serve(
    server: Rc<Server>,
    socket: Socket,
    peer: Peer,
    buffer: BytesMut,
) -> impl Future<Output = ()> {
    let shard = server.shard.clone();
    let socket = Rc::new(socket);
    let pipeline = Rc::new(Pipeline::new(shard.clone(), socket.clone()));
    let activity = Rc::new(Activity::new(socket.clone(), pipeline.clone()));
    let registered = server.register(activity.clone());
    async move {
        let writer = executor::spawn({
            let pipeline = pipeline.clone();
            async move { pipeline.write().await }
        });
        let handed_over = !buffer.is_empty();
        let mut connection = Connection {
            shard: shard.clone(),
            socket,
            pipeline,
            activity,
            peer,
            buffer,
            drained: false,
            settled: handed_over,
            charge: Charge::new(server.budget.clone()),
            aside_bytes: 0,
        };
        let end = connection.run().await;
        connection.pipeline.finish();
        writer.await;
        drop(registered);
        match end {
            End::Closed => {}
            End::Io(error) => {
                tracing::debug!(peer = %connection.peer.address, "connection lost: {error}")
            }
            End::Refused(reason) => {
                shard.counters.connections_refused_frames.one();
                // Counted; a line for each would let anybody fill the log.
                tracing::debug!(peer = %connection.peer.address, "connection closed: {reason}");
            }
            End::HandOver(to) => connection.hand_over(to),
        }
    }
}

pub(super) struct Connection {
    pub shard: Rc<Shard>,
    pub socket: Rc<Socket>,
    pipeline: Rc<Pipeline>,
    activity: Rc<Activity>,
    pub peer: Peer,
    pub buffer: BytesMut,
    /// The last receive took all there was: to ask again at once would be a system call for nothing.
    pub drained: bool,
    /// It is on the shard where it stays.
    settled: bool,
    /// For what the frame that arrives takes of memory.
    charge: Charge,
    /// Bytes of that frame which are kept outside of the buffer.
    pub aside_bytes: usize,
}

impl Connection {
    async fn run(&mut self) -> End {
        loop {
            match self.next_request().await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    /// Reads one request, starts it, queues its answer.
    async fn next_request(&mut self) -> Result<(), End> {
        // Requests that need nothing to be waited for would keep the shard for this connection.
        executor::yield_if_needed().await;
        let size = self.frame_size().await?;
        if !self.settled {
            self.settle(size).await?;
        }
        let mut pins_frame = false;
        let outcome = if size > receive::STREAMED_BYTES_MIN && self.is_produce().await? {
            receive::produce(self, size).await?
        } else {
            self.fill(4 + size).await?;
            self.buffer.advance(4);
            let frame = self.buffer.split_to(size).freeze();
            self.frame_ended();
            pins_frame = !WAITS_FOR_OTHERS.contains(&i16::from_be_bytes([frame[0], frame[1]]));
            self.start(frame).await?
        };
        self.shard.counters.requests.one();
        self.activity.holds(0, false);
        self.aside_bytes = 0;
        let charge = self.charge.split();
        let open = match outcome {
            Outcome::Reply(reply) => self.pipeline.reply(reply).await,
            Outcome::Later(later) if charge.bytes() > 0 && pins_frame => {
                let held = async move {
                    let reply = later.await;
                    drop(charge);
                    reply
                };
                self.pipeline.later(Box::pin(held)).await
            }
            Outcome::Later(later) => self.pipeline.later(later).await,
            Outcome::Silent => true,
            Outcome::Close(reason) => return Err(End::Refused(reason)),
        };
        if !open {
            return Err(End::Closed);
        }
        Ok(())
    }

    /// Runs a request to its outcome; a peer that leaves meanwhile ends it, unless it brought records: with acks=0 a producer
    /// may leave as soon as it has sent them.
    async fn start(&mut self, frame: Bytes) -> Result<Outcome, End> {
        let produces = frame.starts_with(&ApiKey::Produce.key().to_be_bytes());
        let mut request = std::pin::pin!(dispatch::dispatch(&self.shard, &self.peer, frame));
        if let Some(outcome) = future::poll_once(&mut request).await {
            return Ok(outcome);
        }
        if produces {
            return Ok(request.await);
        }
        let gone = async {
            let _ = self.socket.hangup().await;
        };
        unless(request, gone).await.ok_or(End::Closed)
    }

    /// The size of the next frame, its four bytes left in the buffer.
    async fn frame_size(&mut self) -> Result<usize, End> {
        self.activity.request_ended(clock::mono());
        while self.buffer.len() < 4 {
            self.read(4 - self.buffer.len(), READ_AHEAD_BYTES).await?;
        }
        let size = i32::from_be_bytes(self.buffer[..4].try_into().expect("four bytes"));
        match usize::try_from(size) {
            Ok(size) if (REQUEST_BYTES_MIN..=self.frame_bytes_max()).contains(&size) => Ok(size),
            _ => Err(End::Refused(format!(
                "a frame of {size} bytes; from {REQUEST_BYTES_MIN} to {} are taken (socket.request.max.bytes)",
                self.frame_bytes_max()
            ))),
        }
    }

    fn frame_bytes_max(&self) -> usize {
        self.shard
            .broker_config()
            .request_bytes_max
            .min(REQUEST_BYTES_MAX)
    }

    /// Whether the frame that begins the buffer is a Produce request of a version that is served.
    async fn is_produce(&mut self) -> Result<bool, End> {
        self.fill(4 + REQUEST_BYTES_MIN).await?;
        let key = i16::from_be_bytes([self.buffer[4], self.buffer[5]]);
        let version = i16::from_be_bytes([self.buffer[6], self.buffer[7]]);
        Ok(key == 0 && crate::wire::apis::is_supported(key, version))
    }

    /// Waits until `bytes` of the frame are in the buffer.
    pub async fn fill(&mut self, bytes: usize) -> Result<(), End> {
        while self.buffer.len() < bytes {
            let missing = bytes - self.buffer.len();
            self.read(missing, missing.max(READ_AHEAD_BYTES)).await?;
        }
        Ok(())
    }

    /// Reads at least one byte, at most `max`, into the buffer.
    pub async fn read(&mut self, missing: usize, max: usize) -> Result<(), End> {
        if self.buffer.capacity() - self.buffer.len() < missing.min(READ_AHEAD_BYTES) {
            // Grows with what has arrived, whatever the frame announces.
            let step = self.buffer.len().clamp(READ_AHEAD_BYTES, GROWTH_BYTES_MAX);
            self.buffer.reserve(step.min(missing.max(READ_AHEAD_BYTES)));
        }
        self.hold().await?;
        // What was there when a stop began is still answered.
        if self.drained && !self.shard.is_stopping() {
            self.readable().await?;
        }
        loop {
            let room = (self.buffer.capacity() - self.buffer.len()).min(max);
            let received = self.socket.try_recv_buf(&mut self.buffer, max)?;
            self.drained = received.is_none_or(|count| count < room);
            if let Some(count) = received {
                return self.received(count);
            }
            self.readable().await?;
        }
    }

    /// Takes what the frame holds of memory from the budget of the shard; while there is too little, nothing is read.
    pub async fn hold(&mut self) -> Result<(), End> {
        let bytes = (self.buffer.capacity() + self.aside_bytes).saturating_sub(FREE_BYTES);
        if !self.charge.try_raise(bytes) {
            self.activity.waits();
            let gone = async {
                let _ = self.socket.hangup().await;
            };
            let raised = unless(self.charge.raise(bytes), gone);
            let raised = unless(raised, self.shard.stopped()).await.flatten();
            self.activity.goes_on(clock::mono());
            raised.ok_or(End::Closed)?;
        }
        self.activity
            .holds(self.charge.bytes(), self.charge.is_beyond());
        Ok(())
    }

    /// Waits until the peer has sent something.
    pub async fn readable(&self) -> Result<(), End> {
        self.unless_stopped(self.socket.readable()).await
    }

    /// Waits until the peer has sent `bytes`; false if it takes its time.
    pub async fn readable_bytes(&self, bytes: usize) -> Result<bool, End> {
        self.unless_stopped(self.socket.readable_bytes(bytes, PATIENCE))
            .await
    }

    async fn unless_stopped<T>(&self, wait: impl Future<Output = io::Result<T>>) -> Result<T, End> {
        match unless(wait, self.shard.stopped()).await {
            Some(result) => Ok(result?),
            None => Err(End::Closed),
        }
    }

    /// Bytes came (0: the peer has closed).
    pub fn received(&self, count: usize) -> Result<(), End> {
        if count == 0 {
            return Err(End::Closed);
        }
        self.activity.received(count, clock::mono());
        Ok(())
    }

    /// The frame is here whole.
    pub fn frame_ended(&self) {
        self.activity.frame_ended();
    }

    /// Where shards share a node, the first partition that a connection asks for decides the shard it lives on.
    async fn settle(&mut self, size: usize) -> Result<(), End> {
        if !self.shard.shares_its_node() {
            self.settled = true;
            return Ok(());
        }
        self.fill(4 + size.min(ROUTED_BYTES_MAX)).await?;
        let head = Bytes::copy_from_slice(&self.buffer[4..(4 + size).min(self.buffer.len())]);
        if let Some(partition) = route::first_partition(&self.shard.image(), head) {
            self.settled = true;
            match self.shard.owner(partition) {
                Some(owner) if owner != self.shard.id && self.pipeline.is_empty() => {
                    return Err(End::HandOver(owner));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// Gives the descriptor and the bytes that were read to another shard.
    fn hand_over(self, to: ShardId) {
        let Connection {
            shard,
            socket,
            pipeline,
            activity,
            peer,
            buffer,
            ..
        } = self;
        drop((pipeline, activity));
        let fd = Rc::try_unwrap(socket)
            .ok()
            .and_then(|socket| socket.into_fd().ok());
        let Some(fd) = fd else {
            tracing::warn!(peer = %peer.address, "connection closed: it is still in use and can't go to shard {to}");
            return;
        };
        shard.counters.connections_handed_over.one();
        shard.hand_over(
            to,
            Arrival {
                fd,
                peer: peer.address,
                local: peer.local,
                buffer,
            },
        );
    }
}

/// A sender that needs longer for what is missing of its batch is not fast.
const PATIENCE: Duration = Duration::from_millis(2);
/// A frame takes so much memory without a charge: ordinary requests never wait.
const FREE_BYTES: usize = 128 << 10;
/// JoinGroup and SyncGroup are held until other members have sent theirs, so they must not hold memory that these need; `group` keeps
/// nothing of their frames.
const WAITS_FOR_OTHERS: [i16; 2] = [11, 14];
/// Bytes asked for at once when little is known of what comes.
const READ_AHEAD_BYTES: usize = 16 << 10;
/// The most a buffer grows by at once.
const GROWTH_BYTES_MAX: usize = 1 << 20;
/// Of a request that decides where a connection lives, this much is looked at.
const ROUTED_BYTES_MAX: usize = 64 << 10;
