//! What the benches of single parts share: the machine that estimates are made for, and the line that holds a figure against its
//! estimate.

/// Cycles in a nanosecond, of a server core under load.
const CYCLES_PER_NS: f64 = 3.0;

/// Nanoseconds that so many cycles take.
pub fn cycles(count: f64) -> f64 {
    count / CYCLES_PER_NS
}

/// Prints a median beside its estimate, both in nanoseconds; with `bytes` also the rate.
pub fn report(name: &str, measured_ns: f64, estimate_ns: f64, bytes: Option<usize>) {
    let rate = bytes.map_or(String::new(), |bytes| {
        format!(" ({:.2} GB/s)", bytes as f64 / measured_ns)
    });
    println!(
        "{name}: {}{rate} = {:.2} x the estimate of {}",
        time(measured_ns),
        measured_ns / estimate_ns,
        time(estimate_ns)
    );
}

/// The middle one.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Whether this is `cargo bench`; otherwise everything runs once, to see that it does.
pub fn measures() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}
