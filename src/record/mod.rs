//! Floor 1: record batches (magic 2): bytes in, bytes out.
//! Owned by nobody, values and functions; nothing here is kept between calls.
//! Always: hostile bytes end in an error, never in a panic or in memory beyond `base::limits`.
//! Where batches lie and who may write them is decided on the floors above.
//!
//! A batch comes in as [`BatchHeader`] and the bytes behind it, with a [`BatchCrc`] computed while they arrived; [`check()`] says
//! whether it may be appended and [`BatchFacts::apply`] brings the header in shape; [`stamp`] gives it its offset.
//! [`scan`] reads it back, [`Records`] takes it apart, [`BatchBuilder`] makes one.

mod build;
pub mod check;
pub mod codec;
mod crc;
mod error;
mod header;
mod lz4;
mod records;
mod rewrite;
pub mod scan;
mod snappy;
#[cfg(test)]
pub(crate) mod testing;
mod varint;
mod walk;
mod zstd;

pub use build::{BatchBuilder, HeaderRef};
pub use check::{BatchFacts, Origin, Rules, check};
pub use codec::Levels;
pub use crc::{BatchCrc, restamp};
pub use error::{BatchError, RecordError, RecordErrors};
pub use header::{
    BatchHeader, Compression, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, NO_SEQUENCE, TimestampType,
    sequence_minus, sequence_plus, stamp,
};
pub use records::{Headers, Record, Records};
pub use rewrite::recompress;
pub use walk::Fault;
