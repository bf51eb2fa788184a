//! The answers of one connection on their way out, in the order of the requests (G7).
//! One per connection, shared by its reader, which queues, and its writer task, which sends.
//! Always: at most `RESPONSES_QUEUED_MAX` answers are queued, then the reader waits; records are looked up just before they are
//! sent and let go when the socket is full, so a slow consumer holds no memory of the log.
//! What is answered is the handlers'.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use futures_lite::future::{self, FutureExt};

use super::outcome::LaterReply;
use crate::base::MonoNs;
use crate::base::limits::RESPONSES_QUEUED_MAX;
use crate::io::socket::Socket;
use crate::io::sync::Notify;
use crate::io::{clock, executor};
use crate::shard::{LogRange, Reply, Rest, Shard};

/// See the module.
pub struct Pipeline {
    shard: Rc<Shard>,
    socket: Rc<Socket>,
    queue: RefCell<VecDeque<Queued>>,
    /// An answer was queued, or no more will be.
    queued: Notify,
    /// An answer was taken.
    taken: Notify,
    finished: Cell<bool>,
    broken: Cell<bool>,
    /// When something was last sent.
    pub progress: Cell<MonoNs>,
}

enum Queued {
    Ready(Reply),
    Later(LaterReply),
}

impl Pipeline {
    pub fn new(shard: Rc<Shard>, socket: Rc<Socket>) -> Pipeline {
        Pipeline {
            shard,
            socket,
            queue: RefCell::default(),
            queued: Notify::new(),
            taken: Notify::new(),
            finished: Cell::new(false),
            broken: Cell::new(false),
            progress: Cell::new(clock::mono()),
        }
    }

    /// Queues an answer, waiting while the queue is full; false once the connection can't be written any more.
    pub async fn reply(&self, reply: Reply) -> bool {
        self.push(Queued::Ready(reply)).await
    }

    /// Queues an answer that comes later.
    pub async fn later(&self, reply: LaterReply) -> bool {
        self.push(Queued::Later(reply)).await
    }

    async fn push(&self, queued: Queued) -> bool {
        while self.queue.borrow().len() >= RESPONSES_QUEUED_MAX && !self.broken.get() {
            self.taken.wait().await;
        }
        if self.broken.get() {
            return false;
        }
        self.queue.borrow_mut().push_back(queued);
        self.queued.notify();
        true
    }

    /// True if no answer waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// No more answers will be queued: the writer ends when the last is sent.
    pub fn finish(&self) {
        self.finished.set(true);
        self.queued.notify();
    }

    /// The writer: sends until the queue is finished, or the connection is.
    pub async fn write(&self) {
        let result = self.write_all().await;
        self.broken.set(true);
        self.taken.notify();
        if result.is_err() {
            // The reader sees the end.
            self.socket.shutdown();
        }
        // Answers that nobody will read: what they wait for goes on without them.
        self.queue.take();
    }

    async fn write_all(&self) -> io::Result<()> {
        let mut small = Vec::new();
        while let Some(queued) = self.next(&mut small).await? {
            let reply = match queued {
                Queued::Ready(reply) => Some(reply),
                Queued::Later(mut later) => match future::poll_once(&mut later).await {
                    Some(reply) => reply,
                    None => {
                        self.flush(&mut small).await?;
                        later.await
                    }
                },
            };
            let Some(reply) = reply else {
                self.flush(&mut small).await?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            };
            if reply.ranges.is_empty() && reply.frame.bytes.len() <= SMALL_BYTES_MAX {
                small.extend_from_slice(&reply.frame.bytes);
                if small.len() >= GATHERED_BYTES_MAX {
                    self.flush(&mut small).await?;
                }
            } else {
                self.flush(&mut small).await?;
                self.send(&reply).await?;
            }
        }
        Ok(())
    }

    /// The next answer; what was gathered is sent before waiting for it.
    async fn next(&self, small: &mut Vec<u8>) -> io::Result<Option<Queued>> {
        loop {
            let next = self.queue.borrow_mut().pop_front();
            if next.is_some() {
                self.taken.notify();
                return Ok(next);
            }
            self.flush(small).await?;
            if !self.queue.borrow().is_empty() {
                continue;
            }
            if self.finished.get() {
                return Ok(None);
            }
            self.queued.wait().await;
        }
    }

    async fn flush(&self, small: &mut Vec<u8>) -> io::Result<()> {
        if !small.is_empty() {
            self.socket.send(small, false).await?;
            self.progress.set(clock::mono());
            small.clear();
        }
        Ok(())
    }

    async fn send(&self, reply: &Reply) -> io::Result<()> {
        let bytes = &reply.frame.bytes;
        let mut at = 0;
        let last = reply.ranges.len();
        for (index, (gap, range)) in reply.frame.gaps.iter().zip(&reply.ranges).enumerate() {
            if gap.at > at {
                self.socket.send(&bytes[at..gap.at], true).await?;
                at = gap.at;
            }
            let more = at < bytes.len() || index + 1 < last;
            self.send_range(*range, more).await?;
        }
        if at < bytes.len() {
            self.socket.send(&bytes[at..], false).await?;
        }
        self.progress.set(clock::mono());
        Ok(())
    }

    /// Sends records from where they are, piece by piece; `more` of the frame follows.
    async fn send_range(&self, range: LogRange, more: bool) -> io::Result<()> {
        let mut sent = 0;
        while sent < range.bytes {
            let Some(piece) = self.shard.resolve(range, sent).await else {
                tracing::warn!(
                    topic_id = %range.partition.topic_id, partition = %range.partition.partition,
                    "a connection was closed: records on their way to it were deleted (with their topic, or a minute ago and it is slow, or for space), or an error line says why they can't be read"
                );
                return Err(io::ErrorKind::ConnectionAborted.into());
            };
            let mut done = 0;
            while done < piece.len() {
                let tried = match piece.rest(done) {
                    Rest::Copy(bytes) => {
                        let more = more || sent + done + bytes.len() < range.bytes;
                        let tried = self.socket.try_send(bytes, more)?;
                        piece.note_copied(tried.unwrap_or(0));
                        tried
                    }
                    Rest::Reference(slice) => {
                        let tried = self.socket.try_sendfile(slice)?;
                        let counters = &self.shard.counters;
                        counters.fetch_sendfile_bytes.add(tried.unwrap_or(0) as u64);
                        tried
                    }
                };
                match tried {
                    Some(count) => {
                        done += count;
                        self.progress.set(clock::mono());
                    }
                    None => break,
                }
            }
            sent += done;
            self.shard.counters.fetch_bytes.add(done as u64);
            if done < piece.len() {
                // Full: let go of the memory while the peer takes its time.
                drop(piece);
                self.socket.writable().await?;
            } else if sent < range.bytes && done >= TURN_BYTES {
                // A fast reader's socket is never full: who waits for a write meanwhile goes first.
                drop(piece);
                executor::yield_now().await;
            }
        }
        Ok(())
    }
}

/// Answers up to this size are gathered into one send.
const SMALL_BYTES_MAX: usize = 16 << 10;
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// After a piece of so many bytes others go first.
const TURN_BYTES: usize = 64 << 10;

/// `future`, unless `other` ends first.
pub async fn unless<T>(
    future: impl Future<Output = T>,
    other: impl Future<Output = ()>,
) -> Option<T> {
    async { Some(future.await) }
        .or(async {
            other.await;
            None
        })
        .await
}
