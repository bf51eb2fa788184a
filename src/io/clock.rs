//! Reads the clocks for the floors that may not.
//! Any thread of the process; `MonoNs` counts from the first reading of the process.
//! Always: `mono` never goes back; `wall` is whatever the machine believes.
//! Waiting for a time is `executor::sleep_until`.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::base::{MonoNs, Now, Timestamp};

/// Both clocks, read now.
pub fn now() -> Now {
    Now {
        wall: wall(),
        mono: mono(),
    }
}

/// The monotonic clock, read now.
pub fn mono() -> MonoNs {
    MonoNs(epoch().elapsed().as_nanos() as u64)
}

/// The wall clock, read now; a machine that believes it is before 1970 reads 0.
pub fn wall() -> Timestamp {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Timestamp(since_epoch.as_millis() as i64)
}

/// How long from `now` until `deadline`; zero if it has passed.
pub(super) fn until(deadline: MonoNs) -> Duration {
    Duration::from_nanos(deadline.0.saturating_sub(mono().0))
}

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mono_moves_forward_and_wall_is_this_century() {
        let first = now();
        let second = now();
        assert!(second.mono >= first.mono);
        assert!(
            first.wall.0 > 1_577_836_800_000,
            "before 2020: {:?}",
            first.wall
        );
        assert_eq!(until(MonoNs(0)), Duration::ZERO);
        assert!(until(mono().plus_ms(1_000)) <= Duration::from_secs(1));
    }
}
