//! InitProducerId: an id and epoch for an idempotent or transactional producer (KIP-98).
//! v2: flexible. v3: bumps the epoch of an id (KIP-360). v4: PRODUCER_FENCED. v5: TRANSACTION_ABORTABLE (KIP-890). v6: two-phase
//! commit (KIP-939), not yet stable in Kafka 4.4 and not served.

use crate::wire::{Str, wire_message};

wire_message! {
    request InitProducerIdRequest, key 22, versions "0-6", flexible "2+" {
        transactional_id: Option<Str>, "0+", nullable "0+";
        /// Only with a transactional id.
        transaction_timeout_ms: i32, "0+";
        /// -1: a new one; else its epoch is bumped (KIP-360).
        producer_id: i64 = -1, "3+";
        producer_epoch: i16 = -1, "3+";
        enable2_pc: bool, "6+";
        keep_prepared_txn: bool, "6+";
    }

    response InitProducerIdResponse, key 22, versions "0-6", flexible "2+" {
        throttle_time_ms: i32, "0+", ignorable;
        error_code: i16, "0+";
        producer_id: i64 = -1, "0+";
        producer_epoch: i16, "0+";
        ongoing_txn_producer_id: i64 = -1, "6+";
        ongoing_txn_producer_epoch: i16 = -1, "6+";
    }
}
