//! What a shard counts. Logic returns facts; the shard counts them here.
//! One per shard, plain cells, read by the metrics through the mesh.
//! Always: a counter only grows, a gauge says what is now.
//! Their names in Prometheus are `admin`'s.

use std::cell::Cell;

/// Declares the counters once, with their meaning.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        /// Counters of one shard since its start.
        #[derive(Default, Debug)]
        pub struct Counters {
            $($(#[$doc])* #[doc = $text] pub $name: Counter,)*
        }

        impl Counters {
            /// Name, meaning and value of each.
            pub fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $text, self.$name.get()),)*]
            }
        }
    };
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
    connections_accepted: "Connections accepted";
    connections_open: "Connections open now";
    connections_turned_away: "Connections closed at once because there were too many";
    connections_refused_frames: "Connections closed for a request that could not be read";
    connections_handed_over: "Connections handed to another shard";
    requests: "Requests begun";
    produce_requests: "Produce requests begun";
    produce_batches: "Record batches appended";
    produce_records: "Records appended";
    produce_bytes: "Bytes of record batches appended";
    produce_in_place_batches: "Record batches received straight into their place";
    produce_refused_batches: "Record batches refused";
    produce_duplicate_batches: "Record batches answered as duplicates";
    fetch_requests: "Fetch requests begun";
    fetch_bytes: "Bytes of record batches sent";
    fetch_cold_reads: "Reads of the disk for consumers";
    cross_shard_produce: "Partitions of produce requests passed to another shard";
    cross_shard_fetch: "Partitions of fetch requests asked of another shard";
    cross_shard_groups: "Group requests passed to another shard";
    cross_shard_controller: "Requests passed to the controller's shard";
    cross_shard_other: "Other requests passed to another shard";
    disk_writes: "Writes of the log";
    disk_write_bytes: "Bytes written to the log, whole blocks";
    partitions_offline: "Partitions that went offline";
    partitions: "Partitions this shard owns";
}
