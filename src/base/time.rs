//! Time as an argument: floors 0 to 3 are told `Now` and never read a clock.
//! Owned by nobody, plain values.
//! Always: `mono_ns` never goes back within a process; `wall` may.
//! Reading the clocks is `io`'s.

/// Milliseconds since the Unix epoch, as records carry it; -1 means "none".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub const NONE: Timestamp = Timestamp(-1);
}

/// Nanoseconds of the monotonic clock; deadlines and timers are in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct MonoNs(pub u64);

impl MonoNs {
    /// The instant `ms` milliseconds later; saturates, a negative `ms` counts as 0.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> MonoNs {
        MonoNs(
            self.0
                .saturating_add((ms.max(0) as u64).saturating_mul(1_000_000)),
        )
    }

    /// Whole milliseconds from `earlier` to here, 0 if `earlier` is later.
    pub fn ms_since(self, earlier: MonoNs) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    pub wall: Timestamp,
    pub mono: MonoNs,
}
