//! Messages between the shards of this process.
//! Built once, one `Endpoint` per shard; messages are owned values.
//! Always: messages from one shard to another arrive once and in order; an inbox is bounded, who sends too much waits.
//! What a message means is the shard's.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use super::doorbell::{Bell, BellHandle};
use crate::base::ShardId;

/// The way of messages of type `T` between `n` shards.
pub struct Mesh<T> {
    inboxes: Arc<[Inbox<T>]>,
}

struct Inbox<T> {
    state: Mutex<InboxState<T>>,
}

struct InboxState<T> {
    messages: VecDeque<T>,
    /// Rung when a message comes to an empty inbox; there once the shard has attached.
    bell: Option<BellHandle>,
    /// Who waits for room.
    senders: Vec<BellHandle>,
    closed: bool,
}

/// A shard's place in the mesh before the shard runs.
pub struct Seat<T> {
    shard: ShardId,
    inboxes: Arc<[Inbox<T>]>,
}

/// A shard's place in the mesh, on its thread.
pub struct Endpoint<T> {
    shard: ShardId,
    inboxes: Arc<[Inbox<T>]>,
    bell: Bell,
    /// Taken from the inbox, not yet received.
    taken: RefCell<VecDeque<T>>,
}

/// Messages an inbox holds.
const INBOX_MESSAGES_MAX: usize = 4096;

/// The other shard is gone (or has dropped the request).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

impl<T: Send> Mesh<T> {
    /// One seat for each of `shards`.
    pub fn build(shards: usize) -> Vec<Seat<T>> {
        let inboxes: Arc<[Inbox<T>]> = (0..shards)
            .map(|_| Inbox {
                state: Mutex::new(InboxState {
                    messages: VecDeque::new(),
                    bell: None,
                    senders: Vec::new(),
                    closed: false,
                }),
            })
            .collect();
        let mesh = Mesh { inboxes };
        (0..shards)
            .map(|shard| Seat {
                shard: ShardId(shard as u16),
                inboxes: mesh.inboxes.clone(),
            })
            .collect()
    }
}

impl<T: Send> Seat<T> {
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Takes the seat, on the thread of the shard. What was sent before is there.
    pub fn attach(self) -> Endpoint<T> {
        let bell = Bell::new();
        self.inboxes[self.shard.0 as usize].lock().bell = Some(bell.handle());
        Endpoint {
            shard: self.shard,
            inboxes: self.inboxes,
            bell,
            taken: RefCell::new(VecDeque::new()),
        }
    }
}

impl<T: Send> Endpoint<T> {
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Shards of the mesh, this one included.
    pub fn shards(&self) -> usize {
        self.inboxes.len()
    }

    /// Sends without waiting; gives the message back if the inbox is full or its shard is gone.
    pub fn try_send(&self, to: ShardId, message: T) -> Result<(), T> {
        self.inboxes[to.0 as usize].push(message, None)
    }

    /// Sends, waiting for room in the inbox.
    pub async fn send(&self, to: ShardId, message: T) -> Result<(), Gone> {
        let inbox = &self.inboxes[to.0 as usize];
        let mut message = match inbox.push(message, None) {
            Ok(()) => return Ok(()),
            Err(message) => Some(message),
        };
        let bell = Bell::new();
        std::future::poll_fn(|cx| {
            loop {
                // Armed first: room that is made after the refusal rings.
                let rung = bell.poll_rung(cx);
                let again = message.take().expect("polled after it was ready");
                match inbox.push(again, Some(&bell)) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err(_) if inbox.lock().closed => return Poll::Ready(Err(Gone)),
                    Err(again) => message = Some(again),
                }
                if rung.is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The next message. One task receives.
    pub async fn recv(&self) -> T {
        std::future::poll_fn(|cx| {
            loop {
                if let Some(message) = self.taken.borrow_mut().pop_front() {
                    return Poll::Ready(message);
                }
                let rung = self.bell.poll_rung(cx);
                if !self.take() && rung.is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The next message, if one is there.
    pub fn try_recv(&self) -> Option<T> {
        if self.taken.borrow().is_empty() {
            self.take();
        }
        self.taken.borrow_mut().pop_front()
    }

    /// Sends a request that `message` makes from a place for its answer, and waits for the answer.
    pub async fn call<R: Send>(
        &self,
        to: ShardId,
        message: impl FnOnce(Reply<R>) -> T,
    ) -> Result<R, Gone> {
        let (reply, answer) = reply();
        self.send(to, message(reply)).await?;
        answer.wait().await
    }

    /// Takes all that is in the inbox; false if nothing is.
    fn take(&self) -> bool {
        let mut state = self.inboxes[self.shard.0 as usize].lock();
        if state.messages.is_empty() {
            return false;
        }
        std::mem::swap(&mut state.messages, &mut self.taken.borrow_mut());
        let senders = std::mem::take(&mut state.senders);
        drop(state);
        for sender in senders {
            sender.ring();
        }
        true
    }
}

impl<T> Drop for Endpoint<T> {
    fn drop(&mut self) {
        let mut state = self.inboxes[self.shard.0 as usize].lock();
        state.closed = true;
        state.bell = None;
        // Dropped outside of the lock: a message may carry a `Reply`, whose drop rings a bell.
        let messages = std::mem::take(&mut state.messages);
        let senders = std::mem::take(&mut state.senders);
        drop(state);
        drop(messages);
        for sender in senders {
            sender.ring();
        }
    }
}

impl<T> Inbox<T> {
    fn lock(&self) -> MutexGuard<'_, InboxState<T>> {
        // Nothing in here can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, message: T, wait: Option<&Bell>) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(message);
        }
        if state.messages.len() >= INBOX_MESSAGES_MAX {
            state.senders.extend(wait.map(Bell::handle));
            return Err(message);
        }
        state.messages.push_back(message);
        // Only the first of many: the shard takes all that is there.
        let bell = if state.messages.len() == 1 {
            state.bell.clone()
        } else {
            None
        };
        drop(state);
        if let Some(bell) = bell {
            bell.ring();
        }
        Ok(())
    }
}

/// Where an answer goes, from any shard; dropped without one, the asker is told [`Gone`].
pub struct Reply<R> {
    slot: Arc<Mutex<Answered<R>>>,
    bell: BellHandle,
}

/// Where an answer comes to, on the shard that asked.
pub struct Answer<R> {
    slot: Arc<Mutex<Answered<R>>>,
    bell: Bell,
}

enum Answered<R> {
    Open,
    Value(R),
    Dropped,
}

/// A place for one answer from another shard.
pub fn reply<R: Send>() -> (Reply<R>, Answer<R>) {
    let slot = Arc::new(Mutex::new(Answered::Open));
    let bell = Bell::new();
    let reply = Reply {
        slot: slot.clone(),
        bell: bell.handle(),
    };
    (reply, Answer { slot, bell })
}

impl<R> Reply<R> {
    pub fn send(self, value: R) {
        self.set(Answered::Value(value));
    }

    fn set(&self, answer: Answered<R>) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*slot, Answered::Open) {
            *slot = answer;
            drop(slot);
            self.bell.ring();
        }
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        self.set(Answered::Dropped);
    }
}

impl<R> Answer<R> {
    pub async fn wait(self) -> Result<R, Gone> {
        std::future::poll_fn(|cx| {
            loop {
                let rung = self.bell.poll_rung(cx);
                let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
                if matches!(*slot, Answered::Open) {
                    if rung.is_pending() {
                        return Poll::Pending;
                    }
                    continue;
                }
                // Left as dropped: the `Reply` that is just going has nothing to say any more.
                match std::mem::replace(&mut *slot, Answered::Dropped) {
                    Answered::Value(value) => return Poll::Ready(Ok(value)),
                    Answered::Dropped | Answered::Open => return Poll::Ready(Err(Gone)),
                }
            }
        })
        .await
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other shard is gone")
    }
}

impl std::error::Error for Gone {}

#[cfg(test)]
mod tests;
