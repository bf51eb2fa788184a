//! Who waits for what in a partition: produces for durability, fetches for bytes, deletions for the checkpoint.
//! Owned by `Partition`; a waiter is a token of the shard's choosing.
//! Always: each token is woken at most once, then forgotten; an empty list costs no heap.
//! Deadlines are the shard's: it takes the token back by `cancel`.

use std::collections::VecDeque;

use crate::base::{ErrorCode, Offset};

/// Names a waiting request; chosen by the shard, never used twice at a time in one partition.
pub type Token = u64;

/// Who is to go on, filled by the calls that make it so.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// Produces: durable, or why never.
    pub produced: Vec<(Token, Result<(), ErrorCode>)>,
    /// Fetches that should plan again.
    pub fetches: Vec<Token>,
    /// DeleteRecords: the log start that is durable now.
    pub deleted: Vec<(Token, Result<Offset, ErrorCode>)>,
}

impl Wakes {
    pub fn is_empty(&self) -> bool {
        self.produced.is_empty() && self.fetches.is_empty() && self.deleted.is_empty()
    }
}

#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// By the offset that must be durable, lowest first.
    produces: VecDeque<(Offset, Token)>,
    /// By the count of durable bytes that is enough.
    fetches: Vec<(u64, Token)>,
    /// By the log start that must be checkpointed.
    deletes: Vec<(Offset, Token)>,
}

impl Waiters {
    pub fn produce(&mut self, end: Offset, token: Token) {
        // Nearly always the last place; a duplicate may wait for less.
        let at = self.produces.partition_point(|(e, _)| *e <= end);
        self.produces.insert(at, (end, token));
    }

    pub fn fetch(&mut self, durable_bytes: u64, token: Token) {
        self.fetches.push((durable_bytes, token));
    }

    pub fn delete(&mut self, log_start: Offset, token: Token) {
        self.deletes.push((log_start, token));
    }

    pub fn cancel(&mut self, token: Token) {
        self.produces.retain(|(_, t)| *t != token);
        self.fetches.retain(|(_, t)| *t != token);
        self.deletes.retain(|(_, t)| *t != token);
    }

    pub fn durable(&mut self, durable: Offset, durable_bytes: u64, wakes: &mut Wakes) {
        while let Some(&(end, token)) = self.produces.front()
            && end <= durable
        {
            self.produces.pop_front();
            wakes.produced.push((token, Ok(())));
        }
        self.fetches.retain(|&(enough, token)| {
            let woken = enough <= durable_bytes;
            if woken {
                wakes.fetches.push(token);
            }
            !woken
        });
        self.shrink();
    }

    pub fn checkpointed(&mut self, log_start: Offset, wakes: &mut Wakes) {
        self.deletes.retain(|&(wanted, token)| {
            let woken = wanted <= log_start;
            if woken {
                wakes.deleted.push((token, Ok(log_start)));
            }
            !woken
        });
    }

    /// Everybody goes: the partition is offline, deleted or led elsewhere.
    pub fn end_all(&mut self, code: ErrorCode, wakes: &mut Wakes) {
        while let Some((_, token)) = self.produces.pop_front() {
            wakes.produced.push((token, Err(code)));
        }
        wakes.fetches.extend(self.fetches.drain(..).map(|(_, t)| t));
        let deletes = self.deletes.drain(..);
        wakes.deleted.extend(deletes.map(|(_, t)| (t, Err(code))));
        self.shrink();
    }

    /// A burst of waiters must not cost an idle partition memory.
    fn shrink(&mut self) {
        if self.produces.is_empty() && self.produces.capacity() > KEPT_CAPACITY {
            self.produces = VecDeque::new();
        }
        if self.fetches.is_empty() && self.fetches.capacity() > KEPT_CAPACITY {
            self.fetches = Vec::new();
        }
    }
}

const KEPT_CAPACITY: usize = 16;
