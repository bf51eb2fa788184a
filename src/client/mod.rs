//! Floor 7: a small Kafka-protocol client: connections, metadata and topics, produce, fetch.
//! Used by `bench`; every connection belongs to the tasks of one shard.
//! Always: it speaks a version that both sides have (ApiVersions), and an error names the address or topic and what to do.
//! When what is sent is `bench`'s.

pub mod connection;
pub mod error;
pub mod fetch;
pub mod metadata;
pub mod produce;

pub use connection::{Connection, Receiver, Sender};
pub use error::ClientError;
