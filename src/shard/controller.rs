//! The controller's host on shard 0: metadata changes become durable records, then an image that every shard has.
//! Owned by shard 0; other shards reach it through `Shard::change`.
//! Always: one change at a time; it is answered when its records are durable and every shard has its image; once begun it is
//! made whole, whether or not anybody still waits for it.
//! What a change is, and what it is answered, is `metadata::Controller`'s.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::{AppendRequest, BatchBytes, CONTROLLER, PartitionCell, Shard};
use crate::base::{ErrorCode, LeaderEpoch, Offset, ProducerId};
use crate::io::clock;
use crate::io::sync::Semaphore;
use crate::metadata::{Controller, Image, MetadataRecord, Outcome, ProducerIdBlock};
use crate::record::BatchBuilder;

/// See the module.
pub struct Host {
    controller: RefCell<Controller>,
    /// `__cluster_metadata-0`.
    log: Rc<PartitionCell>,
    turn: Semaphore,
}

/// Producer ids that this shard may give out.
#[derive(Default)]
pub struct ProducerIds {
    block: Cell<Option<ProducerIdBlock>>,
    turn: RefCell<Option<Rc<Semaphore>>>,
}

impl Host {
    pub fn new(controller: Controller, log: Rc<PartitionCell>) -> Host {
        Host {
            controller: RefCell::new(controller),
            log,
            turn: Semaphore::new(1),
        }
    }
}

impl Shard {
    /// Makes this shard the controller's.
    pub(super) fn host_controller(&self, host: Host) {
        if self.controller.set(host).is_err() {
            panic!("shard {} has a controller already", self.id);
        }
    }

    /// Lets the controller decide on a change, wherever it is, and makes the change. Errors: the log of the metadata can't be
    /// written, or the process is stopping.
    pub async fn change<R: Send + 'static>(
        self: &Rc<Self>,
        decide: impl FnOnce(&Controller) -> Outcome<R> + Send + 'static,
    ) -> Result<R, ErrorCode> {
        if self.id != CONTROLLER {
            self.counters.cross_shard_controller.one();
        }
        // A task of its own there, here too: the asker may be dropped at any time, and records without their image would let
        // the next change contradict them. No start gets over that.
        let answer = self.at(CONTROLLER, move |shard| async move {
            shard.change_here(decide).await
        });
        answer.await.unwrap_or(Err(ErrorCode::NotController))
    }

    async fn change_here<R>(
        self: &Rc<Self>,
        decide: impl FnOnce(&Controller) -> Outcome<R>,
    ) -> Result<R, ErrorCode> {
        let host = self.controller.get().ok_or(ErrorCode::NotController)?;
        let _turn = host.turn.acquire(1).await;
        let outcome = decide(&host.controller.borrow());
        if outcome.records.is_empty() {
            return Ok(outcome.response);
        }
        // One batch: after a crash the change is there whole or not at all.
        let offset = self.append_metadata(host, &outcome.records).await?;
        let image = host
            .controller
            .borrow_mut()
            .publish(&outcome.records, offset);
        self.spread(image).await;
        Ok(outcome.response)
    }

    /// Appends records to the metadata log; the offset of the first.
    async fn append_metadata(
        self: &Rc<Self>,
        host: &Host,
        records: &[MetadataRecord],
    ) -> Result<Offset, ErrorCode> {
        let mut builder = BatchBuilder::new();
        let now = clock::wall();
        for record in records {
            builder.append(now, None, Some(&record.encode()), &[]);
        }
        let batch = builder.finish(Offset::ZERO, LeaderEpoch::NONE);
        let bytes = BatchBytes::Frame(batch.into());
        let appended = self.append(&host.log, bytes, AppendRequest::INTERNAL).await;
        let (appended, durable) = appended.map_err(|refused| refused.error)?;
        if let Some(durable) = durable {
            durable.await.unwrap_or(Err(ErrorCode::KafkaStorageError))?;
        }
        Ok(appended.base_offset)
    }

    /// The controller's newest image. Panics where there is no controller.
    pub(super) fn controller_image(&self) -> Arc<Image> {
        let host = self
            .controller
            .get()
            .expect("this shard hosts the controller");
        host.controller.borrow().image().clone()
    }

    /// Gives every shard the image and waits until all have it.
    pub(super) async fn spread(self: &Rc<Self>, image: Arc<Image>) {
        let answers: Vec<_> = self
            .all_shards()
            .map(|to| {
                let image = image.clone();
                self.at(
                    to,
                    move |shard| async move { shard.apply_image(image).await },
                )
            })
            .collect();
        for answer in answers {
            // Gone: that shard is stopping and needs no image.
            let _ = answer.await;
        }
    }

    /// A producer id that was never given out.
    pub async fn new_producer_id(self: &Rc<Self>) -> Result<ProducerId, ErrorCode> {
        // A task of its own: dropped after the change, it would lose a whole block.
        let id = self.at(
            self.id,
            |shard| async move { shard.take_producer_id().await },
        );
        id.await.unwrap_or(Err(ErrorCode::NotController))
    }

    async fn take_producer_id(self: &Rc<Self>) -> Result<ProducerId, ErrorCode> {
        let turn = self
            .producer_ids
            .turn
            .borrow_mut()
            .get_or_insert_with(|| Rc::new(Semaphore::new(1)))
            .clone();
        let _turn = turn.acquire(1).await;
        let block = match self.producer_ids.block.get() {
            Some(block) if block.count > 0 => block,
            _ => {
                let node = self.node;
                self.change(move |controller| controller.allocate_producer_ids(node))
                    .await?
            }
        };
        self.producer_ids.block.set(Some(ProducerIdBlock {
            first: ProducerId(block.first.0 + 1),
            count: block.count - 1,
        }));
        Ok(block.first)
    }
}
