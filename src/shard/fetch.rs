//! What a consumer gets of one partition now, and waiting for more (G22 to G28).
//! On the partition's shard.
//! Always: a range begins with the batch that holds the offset asked for and ends at or before the high watermark; the first
//! batch of an answer is whole.
//! Which partitions are asked for, and the answer, are the handler's.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use futures_lite::FutureExt;

use super::{LogRange, PartitionCell, Shard};
use crate::base::{ErrorCode, LeaderEpoch, MonoNs, Offset, ShardId, TopicPartition};
use crate::io::arena::Pinned;
use crate::io::executor;
use crate::io::sync::Notify;
use crate::log::Location;
use crate::partition::FetchAsk as PlanAsk;
use crate::record::{BatchHeader, HEADER_BYTES, MAGIC};

/// What is asked of one partition.
#[derive(Clone, Copy, Debug)]
pub struct FetchAsk {
    pub partition: TopicPartition,
    pub offset: Offset,
    pub bytes_max: usize,
    pub current_leader_epoch: LeaderEpoch,
    pub last_fetched_epoch: LeaderEpoch,
}

/// What one partition answers.
#[derive(Clone, Copy, Debug)]
pub struct FetchAnswer {
    pub error: ErrorCode,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// The largest epoch the log has up to the one last fetched, and its end.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    pub range: Option<LogRange>,
}

impl FetchAnswer {
    pub fn failed(error: ErrorCode) -> FetchAnswer {
        FetchAnswer {
            error,
            high_watermark: Offset::NONE,
            last_stable_offset: Offset::NONE,
            log_start_offset: Offset::NONE,
            diverging: None,
            range: None,
        }
    }

    /// Bytes of records.
    pub fn bytes(&self) -> usize {
        self.range.map_or(0, |range| range.bytes)
    }

    /// True if the whole request must not wait (`DelayedFetch`).
    pub fn answers_at_once(&self) -> bool {
        !self.error.is_none() || self.diverging.is_some()
    }
}

impl Shard {
    /// What there is for a consumer now; `whole`: at least one batch, however large.
    pub(super) async fn fetch_from(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        ask: FetchAsk,
        whole: bool,
    ) -> Result<FetchAnswer, ErrorCode> {
        let (mut answer, location) = {
            let partition = cell.partition.borrow();
            let plan = partition.fetch(&PlanAsk {
                offset: ask.offset,
                current_leader_epoch: ask.current_leader_epoch,
                last_fetched_epoch: ask.last_fetched_epoch,
            });
            let chain = partition.chain();
            let mut answer = FetchAnswer {
                error: ErrorCode::None,
                high_watermark: chain.high_watermark(),
                last_stable_offset: chain.last_stable(),
                log_start_offset: chain.log_start(),
                diverging: None,
                range: None,
            };
            match plan {
                Ok(plan) => {
                    answer.diverging = plan.diverging.map(|from| (from.epoch, from.end_offset));
                    if answer.diverging.is_some() {
                        return Ok(answer);
                    }
                    (answer, plan.location)
                }
                Err(error) => return Err(error),
            }
        };
        if location.position >= location.limit || (ask.bytes_max == 0 && !whole) {
            return Ok(answer);
        }
        answer.range = self.range_from(cell, location, ask, whole).await?;
        Ok(answer)
    }

    /// The range that begins with the batch that holds the offset.
    async fn range_from(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        location: Location,
        ask: FetchAsk,
        whole: bool,
    ) -> Result<Option<LogRange>, ErrorCode> {
        let Some((position, header)) = self.seek(cell, location, ask.offset).await? else {
            return Ok(None);
        };
        let there = location.limit - position;
        let first = header.size_in_bytes() as u64;
        let mut bytes = there.min(ask.bytes_max as u64);
        if bytes < first {
            // A part of a batch is of no use to anybody.
            if !whole {
                return Ok(None);
            }
            bytes = first.min(there);
        }
        cell.partition.borrow_mut().note_boundary(
            header.next_offset(),
            location.segment,
            position + first,
        );
        Ok(Some(LogRange {
            shard: self.id,
            partition: cell.id,
            segment: location.segment,
            position,
            bytes: bytes as usize,
        }))
    }

    /// From a batch at or before the one that holds `offset`: where that one is, and its header. `None`: it is not there.
    pub(super) async fn seek(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        location: Location,
        offset: Offset,
    ) -> Result<Option<(u64, BatchHeader)>, ErrorCode> {
        let mut position = self.first_position(cell, &location).await?;
        while position < location.limit {
            let header = self.header_at(cell, &location, position).await?;
            if header.last_offset() >= offset {
                return Ok(Some((position, header)));
            }
            position += header.size_in_bytes() as u64;
            executor::yield_if_needed().await;
        }
        Ok(None)
    }

    /// Where to begin to look: what an index says is believed only if the batch it speaks of is there.
    pub(super) async fn first_position(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        location: &Location,
    ) -> Result<u64, ErrorCode> {
        let Some(last) = location.indexed else {
            return Ok(location.position);
        };
        match self.header_at(cell, location, location.position).await {
            Ok(header) if header.last_offset() == last => Ok(location.position),
            Ok(_) | Err(ErrorCode::CorruptMessage) => {
                tracing::warn!(
                    partition = %cell.name(),
                    "the index of segment {} is damaged; it is not used any more", location.segment
                );
                cell.partition.borrow_mut().distrust_index(location.segment);
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// The batch header at a position where one is.
    pub(super) async fn header_at(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        location: &Location,
        position: u64,
    ) -> Result<BatchHeader, ErrorCode> {
        let whole = self
            .bytes_at(cell, location.segment, position, HEADER_BYTES)
            .await?;
        let header = BatchHeader::read(whole.bytes()).ok_or(ErrorCode::CorruptMessage)?;
        let size = header.size_in_bytes();
        let last = header
            .base_offset
            .0
            .checked_add(header.last_offset_delta.into());
        if size < HEADER_BYTES
            || header.magic != MAGIC
            || header.last_offset_delta < 0
            || header.base_offset < location.segment
            || last.is_none_or(|last| last == i64::MAX)
            || position + size as u64 > location.limit
        {
            tracing::error!(
                partition = %cell.name(),
                "no batch at byte {position} of segment {}: the segment is damaged", location.segment
            );
            return Err(ErrorCode::CorruptMessage);
        }
        Ok(header)
    }

    /// Exactly `bytes` bytes from `position` on, in one piece.
    pub(super) async fn bytes_at(
        self: &Rc<Self>,
        cell: &Rc<PartitionCell>,
        segment: Offset,
        position: u64,
        bytes: usize,
    ) -> Result<Contiguous, ErrorCode> {
        let first = self.read_at(cell, segment, position, bytes).await?;
        if first.len() == bytes {
            return Ok(Contiguous::Pinned(first));
        }
        let mut copy = first.bytes().to_vec();
        while copy.len() < bytes {
            let at = position + copy.len() as u64;
            let next = self.read_at(cell, segment, at, bytes - copy.len()).await?;
            copy.extend_from_slice(next.bytes());
        }
        Ok(Contiguous::Copy(copy))
    }

    /// Ends when something moved in one of the partitions, or at the deadline. It listens from the call on.
    pub fn listen(
        self: &Rc<Self>,
        partitions: BTreeMap<ShardId, Vec<TopicPartition>>,
        deadline: MonoNs,
    ) -> impl Future<Output = ()> + use<> {
        let mut moved: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
        for (owner, partitions) in partitions {
            if owner == self.id {
                for partition in partitions {
                    if let Some(cell) = self.cell(partition) {
                        moved.push(Box::pin(wait_moved(cell)));
                    }
                }
            } else {
                moved.push(Box::pin(self.listen_at(owner, partitions, deadline)));
            }
        }
        let stopped = self.clone().stopped_owned();
        async move {
            let any = std::future::poll_fn(|cx| {
                for future in &mut moved {
                    if future.as_mut().poll(cx).is_ready() {
                        return std::task::Poll::Ready(());
                    }
                }
                std::task::Poll::Pending
            });
            let _ = executor::until(deadline, any.or(stopped)).await;
        }
    }

    /// Listens on another shard of the node, until it heard something or is dropped.
    fn listen_at(
        self: &Rc<Self>,
        owner: ShardId,
        partitions: Vec<TopicPartition>,
        deadline: MonoNs,
    ) -> impl Future<Output = ()> + use<> {
        let number = self.listeners.next.get();
        self.listeners.next.set(number + 1);
        let id = (self.id, number);
        let heard = self.at(owner, move |shard| {
            // At once: to give it up may be the very next thing that comes.
            let given_up = Rc::new(Notify::new());
            let seen = given_up.generation();
            let listeners = &shard.listeners.of_others;
            listeners.borrow_mut().insert(id, given_up.clone());
            async move {
                let here = BTreeMap::from([(shard.id, partitions)]);
                let listening = shard.listen(here, deadline);
                listening.or(given_up.since(seen)).await;
                shard.listeners.of_others.borrow_mut().remove(&id);
            }
        });
        let listening = Listening {
            shard: self.clone(),
            owner,
            id,
            heard: false,
        };
        async move {
            let mut listening = listening;
            // Gone: the process is stopping, and so is this one.
            let _ = heard.await;
            listening.heard = true;
        }
    }

    async fn stopped_owned(self: Rc<Self>) {
        self.stopped().await;
    }
}

/// Who listens on this shard for another, and the numbers of those that listen elsewhere for this one.
#[derive(Default)]
pub(super) struct Listeners {
    /// Told when nobody waits any more.
    of_others: RefCell<HashMap<(ShardId, u64), Rc<Notify>>>,
    next: Cell<u64>,
}

/// Ends a listener on another shard that is not waited for any more.
struct Listening {
    shard: Rc<Shard>,
    owner: ShardId,
    id: (ShardId, u64),
    heard: bool,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.heard {
            return;
        }
        let id = self.id;
        let given_up = self.shard.at(self.owner, move |shard| async move {
            let listener = shard.listeners.of_others.borrow_mut().remove(&id);
            if let Some(listener) = listener {
                listener.notify();
            }
        });
        drop(given_up);
    }
}

/// Ends when something moved in the partition; listens from the call on.
fn wait_moved(cell: Rc<PartitionCell>) -> impl Future<Output = ()> {
    let seen = cell.moved.generation();
    async move { cell.moved.since(seen).await }
}

/// Bytes in one piece, in the arena or copied together.
pub(super) enum Contiguous {
    Pinned(Pinned),
    Copy(Vec<u8>),
}

impl Contiguous {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Contiguous::Pinned(pinned) => pinned.bytes(),
            Contiguous::Copy(bytes) => bytes,
        }
    }
}
