//! What a request comes to: an answer now, an answer later, none, or the end of its connection.
//! Made by handlers, consumed by the connection.
//! Always: requests of one connection are answered in their order, whenever their answers are ready (G7).
//! How answers are sent is `pipeline`'s.

use std::future::Future;
use std::pin::Pin;

use crate::base::limits::ANSWER_BYTES_MAX;
use crate::shard::Reply;
use crate::wire::{EncodeError, Request, response_frame};

/// An answer that comes later; `None` ends the connection.
pub type LaterReply = Pin<Box<dyn Future<Output = Option<Reply>>>>;

/// See the module.
pub enum Outcome {
    Reply(Reply),
    /// The request is under way (a batch is appended and waits for the disk); the next one may begin.
    Later(LaterReply),
    /// Nothing is sent (acks=0).
    Silent,
    /// The connection is closed, for this reason.
    Close(String),
}

impl Outcome {
    /// The encoded response to a request.
    pub fn of<R: Request>(correlation_id: i32, response: &R::Response, version: i16) -> Outcome {
        match encode::<R>(correlation_id, response, version) {
            Ok(reply) => Outcome::Reply(reply),
            Err(error) => Outcome::Close(format!("an answer could not be encoded: {error}")),
        }
    }
}

/// What an answer may still grow by. For requests that may name a thing as often as they like: nobody honest asks for so much, so
/// the connection is closed before the memory is used.
pub struct Room {
    left: usize,
}

impl Room {
    pub fn new() -> Room {
        Room {
            left: ANSWER_BYTES_MAX,
        }
    }

    /// Takes the room for `bytes` more; where there is none, the end of the request.
    pub fn take(&mut self, bytes: usize) -> Result<(), Outcome> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => {
                return Err(Outcome::Close(format!(
                    "an answer of more than {ANSWER_BYTES_MAX} bytes"
                )));
            }
        }
        Ok(())
    }
}

/// The encoded response without records from elsewhere.
pub fn encode<R: Request>(
    correlation_id: i32,
    response: &R::Response,
    version: i16,
) -> Result<Reply, EncodeError> {
    let frame = response_frame::<R>(correlation_id, response, version)?;
    Ok(Reply::whole(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_grows_too_large_ends_the_connection() {
        let mut room = Room::new();
        assert!(room.take(ANSWER_BYTES_MAX - 1).is_ok());
        assert!(room.take(1).is_ok());
        assert!(matches!(room.take(1), Err(Outcome::Close(_))));
        assert!(room.take(0).is_ok());
    }
}
