//! What a shard counts. Logic returns facts; the shard counts them here.
//! One per shard, plain cells, read by the metrics through the mesh.
//! Always: a counter only grows, a gauge says what is now.
//! Their names in Prometheus are `admin`'s.

use std::cell::Cell;

/// Declares the counters once, with their meaning.
macro_rules! counters {
    ($($kind:ident $name:ident: $text:literal;)*) => {
        /// Counters of one shard since its start.
        #[derive(Default, Debug)]
        pub struct Counters {
            $(#[doc = $text] pub $name: Counter,)*
        }

        impl Counters {
            /// What each says now.
            pub fn all(&self) -> Vec<Metric> {
                vec![$(Metric {
                    name: stringify!($name),
                    meaning: $text,
                    kind: Kind::$kind,
                    value: self.$name.get(),
                },)*]
            }
        }
    };
}

/// How a number moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It says what is now.
    Gauge,
}

/// A number of a shard at a time.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub meaning: &'static str,
    pub kind: Kind,
    pub value: u64,
}

/// One number.
#[derive(Default, Debug)]
pub struct Counter(Cell<u64>);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.set(self.0.get() + count);
    }

    pub fn one(&self) {
        self.add(1);
    }

    /// For gauges.
    pub fn less(&self, count: u64) {
        self.0.set(self.0.get() - count);
    }

    /// For gauges.
    pub fn set(&self, value: u64) {
        self.0.set(value);
    }

    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

counters! {
    Counter connections_accepted: "Connections accepted";
    Gauge connections_open: "Connections open now";
    Counter connections_turned_away: "Connections closed at once because there were too many";
    Counter connections_refused_frames: "Connections closed for a request that could not be read";
    Counter connections_handed_over: "Connections handed to another shard";
    Counter requests: "Requests begun";
    Counter produce_requests: "Produce requests begun";
    Counter produce_batches: "Record batches appended";
    Counter produce_records: "Records appended";
    Counter produce_bytes: "Bytes of record batches appended";
    Counter produce_in_place_batches: "Record batches received straight into their place";
    Counter produce_refused_batches: "Record batches refused";
    Counter produce_duplicate_batches: "Record batches answered as duplicates";
    Counter fetch_requests: "Fetch requests begun";
    Counter fetch_bytes: "Bytes of record batches sent";
    Counter fetch_sendfile_bytes: "Bytes of record batches sent by sendfile: those read so often that copies no longer pay";
    Counter fetch_cold_reads: "Reads of the disk for consumers";
    Counter cross_shard_produce: "Partitions of produce requests passed to another shard";
    Counter cross_shard_fetch: "Partitions of fetch requests asked of another shard";
    Counter cross_shard_groups: "Group requests passed to another shard";
    Counter cross_shard_controller: "Requests passed to the controller's shard";
    Counter cross_shard_other: "Other requests passed to another shard";
    Counter disk_writes: "Writes of the log";
    Counter disk_write_bytes: "Bytes written to the log, whole blocks";
    Gauge partitions: "Partitions this shard owns";
}
