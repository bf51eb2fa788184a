//! The leader-epoch cache of one log: at which offset each leader epoch began (KIP-101).
//! Owned by `Log`; its text is Kafka's `leader-epoch-checkpoint`.
//! Always: epochs and start offsets both rise strictly.
//! Who leads with which epoch is decided by `metadata`; checking a client's epoch by `partition`.

use crate::base::{LeaderEpoch, Offset};

/// An epoch and the first offset written in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEntry {
    pub epoch: LeaderEpoch,
    pub start: Offset,
}

/// Epochs, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Epochs {
    entries: Vec<EpochEntry>,
}

impl Epochs {
    /// `None` unless epochs and offsets rise strictly and none is negative.
    pub fn from_entries(entries: Vec<EpochEntry>) -> Option<Epochs> {
        let valid = entries
            .iter()
            .all(|e| e.epoch.0 >= 0 && e.start >= Offset::ZERO)
            && entries
                .windows(2)
                .all(|w| w[0].epoch < w[1].epoch && w[0].start < w[1].start);
        valid.then_some(Epochs { entries })
    }

    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// The epoch that holds at `offset`.
    pub fn at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|e| e.start <= offset);
        after.checked_sub(1).map(|at| self.entries[at].epoch)
    }

    /// `epoch` begins at `start`. Returns whether the cache changed; an epoch already begun changes nothing.
    /// Entries that would not be below the new one (an epoch in which nothing was written) go.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        assert!(epoch.0 >= 0, "epoch {epoch} assigned at {start}");
        if self.latest().is_some_and(|last| last.epoch >= epoch) {
            return false;
        }
        while self.latest().is_some_and(|last| last.start >= start) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry { epoch, start });
        true
    }

    /// The greatest epoch at or below `epoch` and where it ends, the newest at `end`
    /// (`LeaderEpochFileCache.endOffsetFor`); (NONE, NONE) if unknown.
    pub fn end_offset_for(&self, epoch: LeaderEpoch, end: Offset) -> (LeaderEpoch, Offset) {
        let unknown = (LeaderEpoch::NONE, Offset::NONE);
        let Some(latest) = self.latest() else {
            return unknown;
        };
        if epoch == LeaderEpoch::NONE || epoch > latest.epoch {
            return unknown;
        }
        if epoch == latest.epoch {
            return (epoch, end);
        }
        let higher = self.entries.partition_point(|e| e.epoch <= epoch);
        let start = self.entries[higher].start;
        match higher.checked_sub(1) {
            // Older than all we know: it ended where the oldest begins.
            None => (epoch, start),
            Some(floor) => (self.entries[floor].epoch, start),
        }
    }

    /// Forgets what lies below `log_start`; the epoch that holds there begins at it. Returns whether anything changed.
    pub fn truncate_from_start(&mut self, log_start: Offset) -> bool {
        let after = self.entries.partition_point(|e| e.start <= log_start);
        let Some(holds) = after.checked_sub(1) else {
            return false;
        };
        if holds == 0 && self.entries[0].start == log_start {
            return false;
        }
        self.entries.drain(..holds);
        self.entries[0].start = log_start;
        true
    }

    /// Forgets epochs that begin after `end`.
    pub fn truncate_from_end(&mut self, end: Offset) {
        let keep = self.entries.partition_point(|e| e.start <= end);
        self.entries.truncate(keep);
    }

    /// Kafka's `leader-epoch-checkpoint`: version 0, the count, then a line per entry.
    pub fn to_text(&self) -> String {
        let mut text = format!("0\n{}\n", self.entries.len());
        for entry in &self.entries {
            text.push_str(&format!("{} {}\n", entry.epoch, entry.start));
        }
        text
    }

    /// Reads `to_text`; `None` if anything in it is out of place.
    pub fn parse(text: &str) -> Option<Epochs> {
        let mut lines = text.lines();
        if lines.next()? != "0" {
            return None;
        }
        let count: usize = lines.next()?.parse().ok()?;
        let mut entries = Vec::new();
        for line in lines {
            let (epoch, start) = line.split_once(' ')?;
            entries.push(EpochEntry {
                epoch: LeaderEpoch(epoch.parse().ok()?),
                start: Offset(start.parse().ok()?),
            });
        }
        if entries.len() != count {
            return None;
        }
        Epochs::from_entries(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(list: &[(i32, i64)]) -> Epochs {
        let mut epochs = Epochs::default();
        for &(epoch, start) in list {
            assert!(epochs.assign(LeaderEpoch(epoch), Offset(start)));
        }
        epochs
    }

    #[test]
    fn end_offset_is_that_of_the_greatest_epoch_at_or_below() {
        let cache = epochs(&[(2, 10), (5, 30), (7, 50)]);
        let ask = |epoch| {
            let (e, o) = cache.end_offset_for(LeaderEpoch(epoch), Offset(80));
            (e.0, o.0)
        };
        assert_eq!(ask(7), (7, 80));
        assert_eq!(ask(8), (-1, -1));
        assert_eq!(ask(6), (5, 50));
        assert_eq!(ask(5), (5, 50));
        assert_eq!(ask(2), (2, 30));
        assert_eq!(ask(1), (1, 10));
        assert_eq!(ask(-1), (-1, -1));
        assert_eq!(
            Epochs::default().end_offset_for(LeaderEpoch(0), Offset(0)),
            (LeaderEpoch::NONE, Offset::NONE)
        );
    }

    #[test]
    fn an_epoch_without_records_gives_way() {
        let mut cache = epochs(&[(1, 0), (2, 10)]);
        assert!(cache.assign(LeaderEpoch(3), Offset(10)));
        assert_eq!(cache, epochs(&[(1, 0), (3, 10)]));
        assert!(!cache.assign(LeaderEpoch(3), Offset(20)));
        assert!(!cache.assign(LeaderEpoch(2), Offset(20)));
    }

    #[test]
    fn truncation_from_start_keeps_the_epoch_that_holds() {
        let mut cache = epochs(&[(1, 0), (2, 10), (3, 20)]);
        assert!(cache.truncate_from_start(Offset(15)));
        assert_eq!(cache, epochs(&[(2, 15), (3, 20)]));
        assert!(!cache.truncate_from_start(Offset(15)));
        cache.truncate_from_end(Offset(19));
        assert_eq!(cache, epochs(&[(2, 15)]));
        assert_eq!(cache.at(Offset(14)), None);
        assert_eq!(cache.at(Offset(16)), Some(LeaderEpoch(2)));
    }

    #[test]
    fn text_is_kafkas() {
        // Golden: CheckpointFile writes the version, the number of entries and "epoch startOffset" lines.
        let cache = epochs(&[(0, 0), (4, 1234)]);
        assert_eq!(cache.to_text(), "0\n2\n0 0\n4 1234\n");
        assert_eq!(Epochs::parse("0\n2\n0 0\n4 1234\n"), Some(cache));
        assert_eq!(Epochs::parse("0\n0\n"), Some(Epochs::default()));
        for bad in [
            "",
            "1\n0\n",
            "0\n1\n",
            "0\n1\n1\n",
            "0\n2\n1 5\n1 6\n",
            "0\n1\n-1 0\n",
            "0\n2\n1 5\n2 5\n",
        ] {
            assert_eq!(Epochs::parse(bad), None, "{bad:?}");
        }
    }
}
