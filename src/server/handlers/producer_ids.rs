//! InitProducerId for idempotent producers (G20).
//! Answered on any shard from its block of ids.
//! Always: an id is given out once in the life of a cluster.
//! Transactional ids are refused: there are no transactions.

use std::rc::Rc;

use crate::base::ErrorCode;
use crate::server::outcome::Outcome;
use crate::shard::Shard;
use crate::wire::RequestHeader;
use crate::wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

pub async fn init(
    shard: &Rc<Shard>,
    header: RequestHeader,
    request: InitProducerIdRequest,
) -> Outcome {
    let version = header.request_api_version;
    // `InitProducerIdRequest` of Kafka: both or none.
    let has_id = request.producer_id >= 0;
    let has_epoch = request.producer_epoch >= 0;
    let result = if has_id != has_epoch {
        Err(ErrorCode::InvalidRequest)
    } else if request.transactional_id.is_some() {
        match request.transactional_id.as_deref() {
            Some("") => Err(ErrorCode::InvalidRequest),
            // Final for every client, which can't be told more here; it looks for the coordinator first, and is told there.
            _ => Err(ErrorCode::TransactionalIdAuthorizationFailed),
        }
    } else {
        // Without a transactional id there is nothing to continue: a new id, whatever was there before.
        shard.new_producer_id().await
    };
    let mut response = InitProducerIdResponse::default();
    match result {
        Ok(id) => response.producer_id = id.0,
        Err(error) => {
            response.error_code = error.code();
            response.producer_epoch = -1;
        }
    }
    Outcome::of::<InitProducerIdRequest>(header.correlation_id, &response, version)
}
