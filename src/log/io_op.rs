//! What a log asks of the disk, and what the disk answers.
//! Made by `Log`, carried out by whoever drives it; a segment is named by its base offset.
//! Always: an op is handed out once; its end is told once, by its tag, with `Log::on_io`.
//! How an op is carried out (rings, files, names) is not known here.

use crate::base::Offset;

/// Names a write within its log; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WriteId(pub u64);

/// One request to the disk. Positions are bytes in the segment's file; `from` and `to` are multiples of `BLOCK_BYTES`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoOp {
    /// Make the segment's file, `prealloc` bytes long, and make it last in its directory (fdatasync, then fsync of
    /// the directory). With `recycle`, rename that dropped segment's file to the new name (its `.index`, `.timeindex`
    /// and `.snapshot` are removed first) and lengthen it; its bytes stay, they count as written blocks.
    Create {
        segment: Offset,
        prealloc: u64,
        recycle: Option<Offset>,
    },
    /// After recovery, before the first write: make everything from `position` on read as zeros, for good (truncate to
    /// `position`, fallocate to `prealloc`, fsync). Bytes before `position` stay. Nothing else is in flight for the file.
    /// `torn`: the bytes there are a batch that is not whole, and are copied to a file of their own first.
    Cut {
        segment: Offset,
        position: u64,
        prealloc: u64,
        torn: bool,
    },
    /// Lengthen the file from `from` to `to` bytes; what is added reads as zeros.
    Preallocate { segment: Offset, from: u64, to: u64 },
    /// Write zeros to `from..to`, so that later small writes change no file-system metadata.
    ZeroAhead { segment: Offset, from: u64, to: u64 },
    /// Write `from..to` durably (O_DIRECT|O_DSYNC, all of it). Data ends at `covers`; if `covers < to` the rest is zeros.
    Write {
        id: WriteId,
        segment: Offset,
        from: u64,
        to: u64,
        covers: u64,
    },
    /// The segment is complete and durable: truncate to `size`, fsync, then replace its index files and the snapshot.
    Seal {
        segment: Offset,
        size: u64,
        offset_index: Vec<u8>,
        time_index: Vec<u8>,
        snapshot: Option<Snapshot>,
    },
    /// Replace the index files of the segment still written to (and the snapshot): shortens the next recovery.
    Save {
        segment: Offset,
        offset_index: Vec<u8>,
        time_index: Vec<u8>,
        snapshot: Option<Snapshot>,
    },
    /// Replace `leader-epoch-checkpoint`: for Kafka's tools, and for a start without a checkpoint file. Since the
    /// checkpoint has the epochs too, it need not be synced.
    SaveEpochs { text: String },
    /// Remove the segment's file and its index and snapshot files, then fsync the directory.
    Delete { segment: Offset },
}

/// Producer state at `offset`, in Kafka's `.snapshot` format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// State of the records before this offset; names the file.
    pub offset: Offset,
    pub bytes: Vec<u8>,
    /// Older snapshot files, if they are there, that are of no use once this one is on the disk.
    pub replaces: Vec<Offset>,
}

/// Names an op when its end is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IoTag {
    Create(Offset),
    Cut(Offset),
    Preallocate(Offset),
    ZeroAhead(Offset),
    Write(WriteId),
    Seal(Offset),
    Save(Offset),
    SaveEpochs,
    Delete(Offset),
}

impl IoOp {
    /// The name under which the end of this op is told.
    pub fn tag(&self) -> IoTag {
        match self {
            IoOp::Create { segment, .. } => IoTag::Create(*segment),
            IoOp::Cut { segment, .. } => IoTag::Cut(*segment),
            IoOp::Preallocate { segment, .. } => IoTag::Preallocate(*segment),
            IoOp::ZeroAhead { segment, .. } => IoTag::ZeroAhead(*segment),
            IoOp::Write { id, .. } => IoTag::Write(*id),
            IoOp::Seal { segment, .. } => IoTag::Seal(*segment),
            IoOp::Save { segment, .. } => IoTag::Save(*segment),
            IoOp::SaveEpochs { .. } => IoTag::SaveEpochs,
            IoOp::Delete { segment } => IoTag::Delete(*segment),
        }
    }
}

/// Why an op failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IoFailure {
    /// ENOSPC or EDQUOT, but not from a sync. But for a `Write` nothing was promised yet: the log asks again later.
    NoSpace(String),
    /// Anything else, with path, operation and errno: final, its outcome on the disk unknown.
    Fault(String),
}

impl std::fmt::Display for IoFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IoFailure::NoSpace(text) | IoFailure::Fault(text) => f.write_str(text),
        }
    }
}

/// What the end of an op changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The durable offset moved to here: acks and readers up to it may go.
    pub durable: Option<Offset>,
    /// The log went offline: every waiter gets KAFKA_STORAGE_ERROR.
    pub offline: bool,
}
