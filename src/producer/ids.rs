//! Hands out producer ids from blocks that the controller grants, and decides what an InitProducerId asks for.
//! A `ProducerIds` is owned by one shard; a block is one shard's alone (`ProducerIdsRecord`).
//! Always: an id is handed out once; what is left of a block at a restart is never used.
//! Asking the controller, and transactional ids, are left to the callers.

use crate::base::{ErrorCode, ProducerEpoch, ProducerId};

/// Ids in a block (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`).
pub const BLOCK_IDS: i64 = 1000;
/// With so few left the next block is asked for (`RPCProducerIdManager.PREFETCH_THRESHOLD`, 90 % used).
const ASK_BELOW: i64 = BLOCK_IDS / 10;

/// The ids a shard has left.
#[derive(Debug, Default)]
pub struct ProducerIds {
    current: Block,
    next: Option<Block>,
    asking: bool,
}

/// Ids from `first` up to `end`, without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Block {
    first: i64,
    end: i64,
}

impl ProducerIds {
    /// A new id, its epoch is 0. `None` while no block is here: COORDINATOR_LOAD_IN_PROGRESS, the client comes back.
    pub fn take(&mut self) -> Option<ProducerId> {
        if self.current.first == self.current.end {
            self.current = self.next.take()?;
        }
        let id = self.current.first;
        self.current.first += 1;
        Some(ProducerId(id))
    }

    /// True when a block must be asked for now; then not again until `granted` or `refused`.
    pub fn must_ask(&mut self) -> bool {
        let low = self.current.end - self.current.first <= ASK_BELOW && self.next.is_none();
        let ask = low && !self.asking;
        self.asking |= ask;
        ask
    }

    /// The controller has granted `count` ids from `first`.
    pub fn granted(&mut self, first: ProducerId, count: i64) {
        assert!(
            first.0 >= 0 && count > 0 && first.0.checked_add(count).is_some(),
            "a block of {count} ids from {first}"
        );
        assert!(
            self.next.is_none(),
            "a block that was not asked for: {first}"
        );
        self.asking = false;
        self.next = Some(Block {
            first: first.0,
            end: first.0 + count,
        });
    }

    /// The request failed; the next `must_ask` asks again.
    pub fn refused(&mut self) {
        self.asking = false;
    }
}

/// What an InitProducerId asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Init<'a> {
    /// A new id with epoch 0, whatever id and epoch the producer had: without a transactional id nobody is fenced, and a
    /// producer bumps its epoch by itself (KIP-360).
    Idempotent,
    /// The coordinator of this transactional id decides.
    Transactional(&'a str),
}

/// Judges the fields of the request as Kafka does before anything else; id and epoch are -1 below version 3.
pub fn init_of<'a>(
    transactional_id: Option<&'a str>,
    id: ProducerId,
    epoch: ProducerEpoch,
) -> Result<Init<'a>, ErrorCode> {
    // One without the other makes no sense.
    if (id == ProducerId::NONE) != (epoch == ProducerEpoch::NONE) {
        return Err(ErrorCode::InvalidRequest);
    }
    match transactional_id {
        None => Ok(Init::Idempotent),
        Some("") => Err(ErrorCode::InvalidRequest),
        Some(transactional_id) => Ok(Init::Transactional(transactional_id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_of_every_block_is_handed_out_once() {
        let mut ids = ProducerIds::default();
        assert_eq!(ids.take(), None);
        let mut blocks = 0;
        let mut last = None;
        let mut taken = 0;
        while blocks < 5 {
            if ids.must_ask() {
                ids.granted(ProducerId(blocks * BLOCK_IDS), BLOCK_IDS);
                blocks += 1;
            }
            let id = ids.take().expect("a block is here");
            assert!(last < Some(id), "{id} after {last:?}");
            last = Some(id);
            taken += 1;
        }
        while let Some(id) = ids.take() {
            assert!(last < Some(id));
            last = Some(id);
            taken += 1;
        }
        assert_eq!((taken, last), (5 * BLOCK_IDS, Some(ProducerId(4_999))));
    }

    #[test]
    fn a_block_is_asked_for_once_and_early_enough() {
        let mut ids = ProducerIds::default();
        assert!(ids.must_ask());
        assert!(!ids.must_ask(), "one request at a time");
        ids.refused();
        assert!(ids.must_ask(), "a refused request is made again");
        ids.granted(ProducerId(7000), BLOCK_IDS);
        for _ in 0..BLOCK_IDS - ASK_BELOW - 1 {
            ids.take();
            assert!(!ids.must_ask());
        }
        ids.take();
        assert!(ids.must_ask(), "a tenth is left");
    }

    #[test]
    fn without_a_transactional_id_any_producer_gets_a_new_id() {
        let none = (ProducerId::NONE, ProducerEpoch::NONE);
        assert_eq!(init_of(None, none.0, none.1), Ok(Init::Idempotent));
        assert_eq!(
            init_of(None, ProducerId(5), ProducerEpoch(3)),
            Ok(Init::Idempotent)
        );
        assert_eq!(
            init_of(Some("t"), none.0, none.1),
            Ok(Init::Transactional("t"))
        );
        for (transactional_id, id, epoch) in [
            (Some(""), none.0, none.1),
            (None, ProducerId(5), none.1),
            (None, none.0, ProducerEpoch(5)),
        ] {
            assert_eq!(
                init_of(transactional_id, id, epoch),
                Err(ErrorCode::InvalidRequest)
            );
        }
    }
}
