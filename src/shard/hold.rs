//! Answers on their way keep the segments they are sent from: who is in the middle of one gets the rest of it, although retention or
//! DeleteRecords has taken its records out of the log meanwhile, as from Kafka, which leaves a dropped file for
//! `file.delete.delay.ms`.
//! Held on the partition's shard; another shard of the node asks for it with the records.
//! Always: a hold is let go when its answer was sent or never will be; a deleted topic is held by nobody.
//! How long a dropped file waits is the log's.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use super::{FetchAnswer, FetchAsk, PartitionCell, Shard};
use crate::base::{ErrorCode, Offset, ShardId};

/// Keeps a segment until it is dropped.
pub enum Hold {
    Here {
        shard: Rc<Shard>,
        cell: Weak<PartitionCell>,
        segment: Offset,
    },
    /// On another shard of the node.
    There(HoldThere),
}

/// Has another shard let go of what it holds under a number, unless that is nothing.
pub struct HoldThere {
    shard: Rc<Shard>,
    owner: ShardId,
    number: u64,
    nothing: bool,
}

/// What this shard holds for others, and the numbers of what they hold for this one.
#[derive(Default)]
pub(super) struct Holds {
    /// By who asked for it; nothing while that is looked for.
    of_others: RefCell<HashMap<(ShardId, u64), Option<Hold>>>,
    next: Cell<u64>,
}

impl Shard {
    /// What there is for a consumer now, as `fetch_from`, in a partition of any shard of the node; where that is records they stay
    /// readable until the hold is dropped.
    pub async fn fetch_held(
        self: &Rc<Self>,
        owner: ShardId,
        ask: FetchAsk,
        whole: bool,
    ) -> (FetchAnswer, Option<Hold>) {
        if owner == self.id {
            return self.fetch_here(ask, whole).await;
        }
        self.counters.cross_shard_fetch.one();
        let number = self.holds.next.get();
        self.holds.next.set(number + 1);
        let key = (self.id, number);
        let asked = self.at(owner, move |shard| {
            // At once: to let go of it may be the very next thing that comes.
            shard.holds.of_others.borrow_mut().insert(key, None);
            async move {
                let (answer, hold) = shard.fetch_here(ask, whole).await;
                shard.keep_for_other(key, hold);
                answer
            }
        });
        let mut there = HoldThere {
            shard: self.clone(),
            owner,
            number,
            nothing: false,
        };
        let answer = asked.await;
        there.nothing = !matches!(&answer, Ok(answer) if answer.range.is_some());
        match answer {
            Ok(answer) => (answer, Some(Hold::There(there))),
            Err(_gone) => (FetchAnswer::failed(ErrorCode::NotLeaderOrFollower), None),
        }
    }

    async fn fetch_here(
        self: &Rc<Self>,
        ask: FetchAsk,
        whole: bool,
    ) -> (FetchAnswer, Option<Hold>) {
        match self.fetch_and_hold(ask, whole).await {
            Ok(found) => found,
            Err(error) => (FetchAnswer::failed(error), None),
        }
    }

    async fn fetch_and_hold(
        self: &Rc<Self>,
        ask: FetchAsk,
        whole: bool,
    ) -> Result<(FetchAnswer, Option<Hold>), ErrorCode> {
        let cell = self.cell(ask.partition);
        let cell = cell.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let answer = self.fetch_from(&cell, ask, whole).await?;
        let Some(range) = answer.range else {
            return Ok((answer, None));
        };
        // It may have gone while we looked.
        if cell.deleted.get() {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        if !cell.partition.borrow_mut().hold(range.segment) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let hold = Hold::Here {
            shard: self.clone(),
            cell: Rc::downgrade(&cell),
            segment: range.segment,
        };
        Ok((answer, Some(hold)))
    }

    fn keep_for_other(&self, key: (ShardId, u64), hold: Option<Hold>) {
        let mut of_others = self.holds.of_others.borrow_mut();
        match of_others.get_mut(&key) {
            Some(place) if hold.is_some() => *place = hold,
            // Nothing to hold, or it was given up.
            _ => {
                of_others.remove(&key);
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Hold::Here {
            shard,
            cell,
            segment,
        } = self
            && let Some(cell) = cell.upgrade()
            && cell.partition.borrow_mut().release(*segment)
        {
            shard.schedule(&cell);
        }
    }
}

impl Drop for HoldThere {
    fn drop(&mut self) {
        if self.nothing {
            return;
        }
        let key = (self.shard.id, self.number);
        let let_go = self.shard.at(self.owner, move |shard| async move {
            let hold = shard.holds.of_others.borrow_mut().remove(&key);
            drop(hold);
        });
        drop(let_go);
    }
}
