//! Parts that only compute, sampled by criterion.

use std::time::{Duration, Instant};

use criterion::Criterion;

use crate::common::{measures, median, report};

/// What is timed at once: long beside the clock, short beside a turn of somebody else on this core, which few stretches then have
/// in them. So the median here stands still on a busy machine; criterion's own figures don't.
const STRETCH: Duration = Duration::from_micros(100);

/// Short: there are many parts, and their medians are steady.
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .configure_from_args()
}

/// Runs `part` again and again, prints its median beside the estimate and returns it; all in nanoseconds. `None` when it was not
/// measured. `bytes`: how many it goes through.
pub fn sampled(
    criterion: &mut Criterion,
    name: &str,
    estimate_ns: f64,
    bytes: Option<usize>,
    mut part: impl FnMut(),
) -> Option<f64> {
    let mut samples = Vec::new();
    let mut at_once = 1;
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|count| {
            let mut took = Duration::ZERO;
            let mut left = count;
            while left > 0 {
                let now = left.min(at_once);
                let started = Instant::now();
                for _ in 0..now {
                    part();
                }
                let elapsed = started.elapsed();
                samples.push(elapsed.as_nanos() as f64 / now as f64);
                if elapsed < STRETCH && now == at_once {
                    at_once *= 2;
                }
                left -= now;
                took += elapsed;
            }
            took
        });
    });
    if samples.is_empty() || !measures() {
        return None;
    }
    let measured = median(&mut samples);
    report(name, measured, estimate_ns, bytes);
    Some(measured)
}
