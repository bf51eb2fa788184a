//! When the batches of one connection are due.
//! One per connection; pure.
//! Always: the times do not depend on how long anything took: what is late stays due (open loop). Only `Flood` has no times of its own.
//! Sending is `lane`'s.

/// The times of a connection, in nanoseconds of the monotonic clock.
#[derive(Clone, Debug)]
pub struct Schedule {
    pace: Pace,
    /// The first due time.
    begin: f64,
    /// What is sent before this is warm-up.
    window: u64,
    /// Nothing is due from here on.
    end: u64,
    /// Measured batches at most.
    quota: u64,
    /// Batches taken, and of these the measured ones.
    taken: u64,
    measured: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// A batch each so many nanoseconds.
    Every(f64),
    /// A batch whenever there is room for one.
    Flood,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Due at this time, which may be past.
    At(u64),
    Over,
}

/// A batch to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub intended: u64,
    pub measured: bool,
}

impl Schedule {
    /// From `begin` on, measured from `window` on, until `end` or `quota` measured batches. `phase` (0 to 1) shifts it within its first
    /// interval, so that connections take turns.
    pub fn new(pace: Pace, phase: f64, times: Times) -> Schedule {
        let shift = match pace {
            Pace::Every(interval) => interval * phase,
            Pace::Flood => 0.0,
        };
        Schedule {
            pace,
            begin: times.begin as f64 + shift,
            window: times.window,
            end: times.end,
            quota: times.quota,
            taken: 0,
            measured: 0,
        }
    }

    /// When the next batch is due.
    pub fn next(&self, now: u64) -> Next {
        let at = match self.pace {
            Pace::Every(interval) => (self.begin + interval * self.taken as f64) as u64,
            Pace::Flood => now.max(self.begin as u64),
        };
        match at >= self.end || now >= self.end || self.measured >= self.quota {
            true => Next::Over,
            false => Next::At(at),
        }
    }

    /// Takes the next batch if it is due.
    pub fn take(&mut self, now: u64) -> Option<Due> {
        match self.next(now) {
            Next::At(intended) if intended <= now => {
                let measured = now >= self.window;
                self.taken += 1;
                self.measured += u64::from(measured);
                Some(Due { intended, measured })
            }
            Next::At(_) | Next::Over => None,
        }
    }

    /// Batches that were due in the window until `now` and were not taken.
    pub fn behind(&self, now: u64) -> u64 {
        let Pace::Every(interval) = self.pace else {
            return 0;
        };
        let now = now.min(self.end) as f64;
        let due_before = |time: f64| ((time - self.begin) / interval).ceil().max(0.0) as u64;
        let of_warmup = due_before(self.window as f64);
        due_before(now)
            .saturating_sub(self.taken.max(of_warmup))
            .min(self.quota.saturating_sub(self.measured))
    }
}

/// Begin of the warm-up, of the measured window, and the end.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub begin: u64,
    pub window: u64,
    pub end: u64,
    pub quota: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        begin: 1_000,
        window: 1_100,
        end: 1_300,
        quota: u64::MAX,
    };

    #[test]
    fn a_late_sender_finds_every_batch_at_its_own_time() {
        let mut schedule = Schedule::new(Pace::Every(50.0), 0.0, TIMES);
        assert_eq!(schedule.next(0), Next::At(1_000));
        assert_eq!(schedule.take(999), None);
        assert_eq!(schedule.behind(1_199), 2, "two were due in the warm-up");
        assert!(schedule.take(1_099).is_some_and(|due| !due.measured));
        let taken: Vec<Due> = std::iter::from_fn(|| schedule.take(1_299)).collect();
        let intended: Vec<u64> = taken.iter().map(|due| due.intended).collect();
        assert_eq!(intended, [1_050, 1_100, 1_150, 1_200, 1_250]);
        // Sent in the window: counted, as late as it is.
        assert!(taken.iter().all(|due| due.measured));
        assert_eq!(schedule.next(1_299), Next::Over);
        assert_eq!(schedule.behind(2_000), 0);
    }

    #[test]
    fn what_was_not_sent_at_the_end_is_counted() {
        let mut schedule = Schedule::new(Pace::Every(50.0), 0.5, TIMES);
        assert!(schedule.take(1_030).is_some());
        assert_eq!(schedule.next(1_300), Next::Over);
        assert_eq!(
            schedule.behind(1_300),
            4,
            "one of five was due in the warm-up"
        );
    }

    #[test]
    fn a_quota_counts_measured_batches() {
        let quota = Times { quota: 3, ..TIMES };
        let mut schedule = Schedule::new(Pace::Flood, 0.0, quota);
        assert!(schedule.take(1_000).is_some_and(|due| !due.measured));
        for now in [1_100, 1_101, 1_102] {
            assert_eq!(
                schedule.take(now),
                Some(Due {
                    intended: now,
                    measured: true
                })
            );
        }
        assert_eq!(schedule.next(1_103), Next::Over);
    }
}
