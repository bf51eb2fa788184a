//! Floor 1: the Kafka protocol as bytes: declarations of all messages and the codec that follows from them.
//! Owned by whoever holds the frame; nothing here is shared or remembered.
//! Always: whatever a frame claims, decoding ends in a message or a [`DecodeError`], and allocates only what the bytes that are
//! there justify.
//! What a message means is decided by the handlers.
//!
//! # Reading a frame
//! A frame is a `Bytes` behind its size. [`Reader`] walks it; [`read_request_header`] takes the header off and says which
//! [`ApiKey`] follows; [`Message::decode`] reads the rest. Strings ([`Str`]) and blobs (`Bytes`) share the frame's memory: state
//! that outlives a request copies what it keeps ([`Str::detach`]).
//!
//! # Writing a frame
//! [`response_frame`] and [`request_frame`] make a [`Frame`] of header and body. [`Records::Elsewhere`] leaves a [`Gap`] in it, so
//! record batches are sent from where they lie.
//!
//! # Where is what
//! | module | what |
//! |---|---|
//! | [`messages`] | the declarations, one module per API |
//! | `macros` | `wire_message!`, the form of a declaration |
//! | `field`, `message` | how types of fields and whole messages are encoded |
//! | `reader`, `writer`, `text` | primitives, bounds, strings |
//! | [`produce_head`] | a Produce request while it arrives |
//! | [`apis`], `header` | what is served in which versions, headers and frames |
//! | [`schema`] | declarations as constants, for the codec and its tests |

pub mod apis;
mod error;
mod field;
mod header;
mod macros;
mod message;
pub mod messages;
pub mod produce_head;
mod reader;
pub mod schema;
mod text;
mod writer;

pub use apis::{ApiKey, Request};
pub use error::{DecodeError, DecodeReason, EncodeError, EncodeReason};
pub use field::{Field, Form, Nullable, Records};
pub use header::{
    HeaderError, RequestHeader, ResponseHeader, read_request_header, read_response, request_frame,
    response_frame,
};
pub use message::Message;
pub use reader::Reader;
pub use text::{STRING_BYTES_MAX, Str};
pub use writer::{Frame, Gap, Writer};

use macros::wire_message;
