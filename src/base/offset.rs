//! Offsets of records and the only arithmetic on them.
//! Owned by nobody, plain values.
//! Always: arithmetic that leaves the range of `i64` panics with both values.
//! The chain log_start <= ... <= appended is kept by `log`.

use std::fmt;

/// The offset of a record in its partition, from 0. Negative values never name a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Offset(pub i64);

impl Offset {
    pub const ZERO: Offset = Offset(0);
    /// "Unknown" on the wire.
    pub const NONE: Offset = Offset(-1);

    /// The offset `count` records further.
    #[must_use]
    pub fn plus(self, count: i64) -> Offset {
        match self.0.checked_add(count) {
            Some(sum) => Offset(sum),
            None => panic!("offset {} + {count} leaves the range", self.0),
        }
    }

    /// The offset after this one.
    #[must_use]
    pub fn next(self) -> Offset {
        self.plus(1)
    }

    /// The offset before this one.
    #[must_use]
    pub fn previous(self) -> Offset {
        self.plus(-1)
    }

    /// How many records lie from `earlier` (included) to `self` (excluded); negative if `earlier` is later.
    pub fn since(self, earlier: Offset) -> i64 {
        match self.0.checked_sub(earlier.0) {
            Some(difference) => difference,
            None => panic!("offset {} - {} leaves the range", self.0, earlier.0),
        }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
