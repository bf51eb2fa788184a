//! What a load core counts while it runs: totals, histograms, one entry a second.
//! One per core and direction, merged at the end.
//! Always: latencies are nanoseconds in hdrhistograms and are only ever added up, never averaged; warm-up is not in them.
//! What is printed of it is `result`'s.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Longest latency that is told apart: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Significant digits of the whole, and of a single second.
const DIGITS: u8 = 3;
const DIGITS_OF_SECOND: u8 = 2;
const SECOND_NS: u64 = 1_000_000_000;

/// One direction of a load core.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Begin of the window, in nanoseconds of the monotonic clock.
    window: u64,
    pub records: u64,
    /// Of values (and keys), uncompressed.
    pub bytes: u64,
    /// Of batches, as they travel.
    pub wire_bytes: u64,
    pub batches: u64,
    /// When the last counted batch came.
    pub last: u64,
    /// From the intended time.
    pub intended: Histogram<u64>,
    /// From the real send.
    pub sent: Histogram<u64>,
    pub seconds: Vec<Second>,
    /// By error code, of the window and before.
    pub errors: BTreeMap<i16, u64>,
}

/// What happened within one second of the window.
#[derive(Clone, Debug)]
pub struct Second {
    pub records: u64,
    pub bytes: u64,
    /// From the intended time.
    pub latency: Histogram<u64>,
    /// How late batches were sent: sum and number.
    pub lag_ns: u64,
    pub batches: u64,
}

impl Default for Second {
    fn default() -> Second {
        Second {
            records: 0,
            bytes: 0,
            latency: histogram(DIGITS_OF_SECOND),
            lag_ns: 0,
            batches: 0,
        }
    }
}

impl Second {
    pub fn merge(&mut self, other: &Second) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.lag_ns += other.lag_ns;
        self.batches += other.batches;
        add(&mut self.latency, &other.latency);
    }
}

/// A batch that came to its end.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub intended: u64,
    pub sent: u64,
    pub now: u64,
    pub records: u64,
    pub bytes: u64,
    pub wire_bytes: u64,
}

fn histogram(digits: u8) -> Histogram<u64> {
    let mut new = Histogram::new_with_max(LATENCY_NS_MAX, digits).expect("valid bounds");
    new.auto(false);
    new
}

impl Recorder {
    pub fn new(window: u64) -> Recorder {
        Recorder {
            window,
            records: 0,
            bytes: 0,
            wire_bytes: 0,
            batches: 0,
            last: window,
            intended: histogram(DIGITS),
            sent: histogram(DIGITS),
            seconds: Vec::new(),
            errors: BTreeMap::new(),
        }
    }

    /// Counts a measured batch.
    pub fn done(&mut self, done: Done) {
        self.records += done.records;
        self.bytes += done.bytes;
        self.wire_bytes += done.wire_bytes;
        self.batches += 1;
        self.last = self.last.max(done.now);
        let latency = done.now.saturating_sub(done.intended).max(1);
        self.intended.saturating_record(latency);
        self.sent
            .saturating_record(done.now.saturating_sub(done.sent).max(1));
        let second = self.second(done.now);
        second.records += done.records;
        second.bytes += done.bytes;
        second.latency.saturating_record(latency);
        second.lag_ns += done.sent.saturating_sub(done.intended);
        second.batches += 1;
    }

    fn second(&mut self, now: u64) -> &mut Second {
        let index = (now.saturating_sub(self.window) / SECOND_NS) as usize;
        if self.seconds.len() <= index {
            self.seconds.resize_with(index + 1, Second::default);
        }
        &mut self.seconds[index]
    }

    pub fn error(&mut self, code: i16) {
        *self.errors.entry(code).or_default() += 1;
    }

    /// Adds what another core has counted of the same window.
    pub fn merge(&mut self, other: &Recorder) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.wire_bytes += other.wire_bytes;
        self.batches += other.batches;
        self.last = self.last.max(other.last);
        add(&mut self.intended, &other.intended);
        add(&mut self.sent, &other.sent);
        if self.seconds.len() < other.seconds.len() {
            self.seconds
                .resize_with(other.seconds.len(), Second::default);
        }
        for (ours, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            ours.merge(theirs);
        }
        for (&code, count) in &other.errors {
            *self.errors.entry(code).or_default() += count;
        }
    }

    /// From the begin of the window to the last batch.
    pub fn elapsed_seconds(&self) -> f64 {
        self.last.saturating_sub(self.window) as f64 / SECOND_NS as f64
    }

    pub fn window(&self) -> u64 {
        self.window
    }
}

fn add(to: &mut Histogram<u64>, from: &Histogram<u64>) {
    to.add(from).expect("same bounds and digits");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(intended: u64, sent: u64, now: u64) -> Done {
        Done {
            intended,
            sent,
            now,
            records: 10,
            bytes: 100,
            wire_bytes: 161,
        }
    }

    #[test]
    fn merging_adds_counts_and_never_averages_percentiles() {
        let (mut fast, mut slow) = (Recorder::new(0), Recorder::new(0));
        for n in 0..99 {
            fast.done(done(n, n, n + 1_000_000));
        }
        slow.done(done(0, 1_900_000_000, 2_000_000_000));
        slow.error(6);
        fast.merge(&slow);
        assert_eq!(
            (fast.records, fast.batches, fast.last),
            (1_000, 100, 2_000_000_000)
        );
        let max = fast.intended.max();
        assert!((1_999_000_000..2_002_000_000).contains(&max), "{max}");
        let p50 = fast.intended.value_at_quantile(0.5);
        assert!((999_000..1_001_000).contains(&p50), "{p50}");
        // From the real send, the stall before it is not seen.
        assert!(fast.sent.max() < 101_000_000);
        assert_eq!(fast.seconds.len(), 3);
        assert_eq!(fast.seconds[2].lag_ns, 1_900_000_000);
        assert_eq!(fast.errors.get(&6), Some(&1));
    }
}
