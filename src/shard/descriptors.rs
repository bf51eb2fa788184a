//! Who may have how many of the process's descriptors: segment files are closed for connections, never the other way round.
//! One for all shards.
//! Always: files have at least a third, so that clients don't keep records from the disk; what connections leave they have too, but for
//! a part that is there for those that come.
//! Which files are closed is `files`'s, who is turned away the server's.

use std::sync::atomic::{AtomicUsize, Ordering};

/// See the module.
#[derive(Debug)]
pub struct Descriptors {
    /// For files and connections together.
    shared: usize,
    shards: usize,
    /// Files that each shard may always have open.
    files_least: usize,
    /// Open ones, of all shards.
    connections: AtomicUsize,
    connections_max: usize,
}

impl Descriptors {
    /// Out of `limit`, for so many shards; the error says what to do about too few.
    pub fn new(limit: usize, shards: usize) -> Result<Descriptors, String> {
        let own = OF_PROCESS + OF_SHARD * shards;
        let least = own + shards * (FILES_MIN + CONNECTIONS_MIN);
        if limit < least {
            return Err(format!(
                "{limit} descriptors are too few for {shards} shards, {least} are the least; run: ulimit -n 65536, or LimitNOFILE=65536 in the service"
            ));
        }
        let shared = limit - own;
        let files_least = (shared / 3 / shards).max(FILES_MIN);
        Ok(Descriptors {
            shared,
            shards,
            files_least,
            connections: AtomicUsize::new(0),
            connections_max: shared - files_least * shards,
        })
    }

    /// Segment files that a shard may keep open now.
    pub fn files_max(&self) -> usize {
        let taken = self.connections.load(Ordering::Relaxed) + self.shared / COMING_PART;
        let left = self.shared.saturating_sub(taken);
        (left / self.shards).max(self.files_least)
    }

    /// A connection begins. True: it is time that every shard looks whether it has too many files open.
    pub fn connection_begins(&self) -> bool {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        let step = (self.shared / COMING_PART / 2).max(1);
        (before + 1).is_multiple_of(step)
    }

    pub fn connection_ends(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if there are as many connections as there may be.
    pub fn connections_are_full(&self) -> bool {
        self.connections.load(Ordering::Relaxed) >= self.connections_max
    }
}

/// The standard ones, the lock, the random source, what the blocking thread opens, what connects to the metrics.
const OF_PROCESS: usize = 24;
/// Rings, event descriptors, the arena, the listener; small files that are written or read at the moment.
const OF_SHARD: usize = 32;
const FILES_MIN: usize = 8;
const CONNECTIONS_MIN: usize = 8;
/// This part is kept free for connections that come while files are being closed.
const COMING_PART: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_what_connections_leave_and_never_less_than_a_third() {
        let descriptors = Descriptors::new(20_000, 2).unwrap();
        assert_eq!(descriptors.shared, 19_912);
        assert_eq!(descriptors.files_max(), (19_912 - 2_489) / 2);
        let mut looks = 0;
        while !descriptors.connections_are_full() {
            looks += usize::from(descriptors.connection_begins());
            let connections = descriptors.connections.load(Ordering::Relaxed);
            let files = 2 * descriptors.files_max();
            assert!(connections + files <= descriptors.shared);
        }
        assert_eq!(descriptors.files_max(), 19_912 / 3 / 2);
        // Before what is kept for them is used up.
        assert!(looks >= 10, "{looks}");
        descriptors.connection_ends();
        assert!(!descriptors.connections_are_full());
    }

    #[test]
    fn too_few_are_refused_with_what_to_do() {
        for limit in [0, 100, 119] {
            let error = Descriptors::new(limit, 2).unwrap_err();
            assert!(
                error.contains("120 are the least") && error.contains("ulimit"),
                "{error}"
            );
        }
        let least = Descriptors::new(120, 2).unwrap();
        assert_eq!((least.files_max(), least.connections_max), (14, 16));
    }
}
