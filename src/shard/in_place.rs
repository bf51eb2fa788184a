//! A record batch received straight to the end of its partition.
//! Owned by the connection that receives it; appended with `Shard::append`, or dropped without a trace.
//! Always: the checksum is taken of the bytes as they come, while they are in the cache; the batch header stays apart until the
//! append has stamped it.
//! When a batch may go in place is decided here, where it goes by `io::image`.

use std::io;
use std::rc::Rc;

use bytes::Bytes;

use super::Shard;
use super::cell::PartitionCell;
use crate::base::TopicPartition;
use crate::io::image::Receiving;
use crate::io::socket::Socket;
use crate::record::{BatchCrc, BatchHeader, HEADER_BYTES};

/// See the module.
pub struct InPlace {
    pub(super) header: [u8; HEADER_BYTES],
    pub(super) receiving: Receiving,
    /// Held, so that the partition knows.
    _arriving: Arriving,
    crc: BatchCrc,
}

/// While it lives its partition knows that more is coming.
pub(super) struct Arriving(pub Rc<PartitionCell>);

impl Arriving {
    pub fn new(cell: Rc<PartitionCell>) -> Arriving {
        cell.arriving.set(cell.arriving.get() + 1);
        Arriving(cell)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.0.arriving.set(self.0.arriving.get() - 1);
    }
}

impl Shard {
    /// A place for the batch with this header at the end of its partition, if the partition is here, nobody else is there, and
    /// the batch will be stored as it comes.
    pub fn begin_in_place(
        &self,
        partition: TopicPartition,
        header: &[u8; HEADER_BYTES],
        bytes: usize,
    ) -> Option<InPlace> {
        let cell = self.cell(partition)?;
        let segment = cell.place_of(&BatchHeader::parse(header), bytes)?;
        let receiving = {
            let mut image = segment.image.borrow_mut();
            if image.is_reserved() {
                return None;
            }
            image
                .begin_receive(HEADER_BYTES, bytes - HEADER_BYTES)
                .ok()?
        };
        Some(InPlace {
            header: *header,
            receiving,
            _arriving: Arriving::new(cell),
            crc: BatchCrc::new(header),
        })
    }
}

impl InPlace {
    /// The batch in a frame, the end of the partition given free: it goes elsewhere.
    pub fn into_frame(self) -> Bytes {
        let mut frame = self.header.to_vec();
        frame.extend_from_slice(&self.receiving.move_aside());
        frame.into()
    }

    /// True once every byte is there.
    pub fn is_full(&self) -> bool {
        self.receiving.is_full()
    }

    /// True if others took its place, and it is received into memory of its own.
    pub fn is_aside(&self) -> bool {
        !self.receiving.is_in_place()
    }

    /// Takes as many of `bytes` as belong to it; how many.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let count = self.receiving.fill(bytes);
        self.crc.update(&bytes[..count]);
        count
    }

    /// Bytes that have not come yet.
    pub fn missing(&self) -> usize {
        self.receiving.remaining()
    }

    /// Receives what the socket has; `None`: nothing now, 0: the peer has closed.
    pub fn receive(&mut self, socket: &Socket) -> io::Result<Option<usize>> {
        let before = self.receiving.len() - self.receiving.remaining();
        let count = socket.try_recv_into(&mut self.receiving)?;
        if let Some(count) = count {
            let filled = self.receiving.filled();
            self.crc.update(&filled[before..before + count]);
        }
        Ok(count)
    }

    /// The checksum of the bytes that came.
    pub(super) fn crc(&self) -> u32 {
        self.crc.value()
    }
}
