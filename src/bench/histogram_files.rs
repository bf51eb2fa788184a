//! Histograms as the tools of HdrHistogram read them: percentiles as text (`.hgrm`) and one histogram a second (`.hlog`).
//! Written once, at the end of a run.
//! Always: values in milliseconds in `.hgrm`, in nanoseconds in `.hlog`, both from the intended time.
//! The counts are `recorder`'s.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

use super::recorder::Recorder;

/// Writes both files of each direction: `PREFIX-DIRECTION.hgrm` and `.hlog`.
pub fn write(prefix: &Path, recorders: &[(&'static str, Recorder)]) -> Result<(), String> {
    for (direction, recorder) in recorders {
        let path = |ending: &str| {
            let mut name = prefix.as_os_str().to_owned();
            name.push(format!("-{direction}.{ending}"));
            PathBuf::from(name)
        };
        save(&path("hgrm"), percentiles(&recorder.intended).as_bytes())?;
        save(&path("hlog"), &log(recorder)?)?;
    }
    Ok(())
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("--histograms: {}: {error}", path.display()))
}

/// Ticks for each halving of the distance to 100 %, as HdrHistogram's own tools take.
const TICKS: u32 = 5;
const NS_PER_MS: f64 = 1e6;

fn percentiles(histogram: &Histogram<u64>) -> String {
    let mut out = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    for step in histogram.iter_quantiles(TICKS) {
        let quantile = step.quantile_iterated_to();
        let value = step.value_iterated_to() as f64 / NS_PER_MS;
        let count = step.count_since_last_iteration();
        let so_far = (step.quantile() * histogram.len() as f64).round();
        debug_assert!(count as f64 <= so_far + 0.5);
        let _ = match quantile < 1.0 {
            true => writeln!(
                out,
                "{value:12.3} {quantile:14.12} {so_far:10.0} {:14.2}",
                1.0 / (1.0 - quantile)
            ),
            false => writeln!(out, "{value:12.3} {quantile:14.12} {so_far:10.0}"),
        };
    }
    let _ = writeln!(
        out,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n#[Max     = {:12.3}, Total count    = {:12}]\n#[Buckets = {:12}, SubBuckets     = {:12}]",
        histogram.mean() / NS_PER_MS,
        histogram.stdev() / NS_PER_MS,
        histogram.max() as f64 / NS_PER_MS,
        histogram.len(),
        histogram.buckets(),
        1u32 << (64 - (2 * 10u64.pow(histogram.sigfig().into())).leading_zeros())
    );
    out
}

fn log(recorder: &Recorder) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let failed = |error: &dyn std::fmt::Debug| format!("--histograms: {error:?}");
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("ringlog bench: latency from the intended time, nanoseconds")
        .begin_log_with(&mut bytes, &mut serializer)
        .map_err(|error| failed(&error))?;
    for (second, interval) in recorder.seconds.iter().enumerate() {
        writer
            .write_histogram(
                &interval.latency,
                Duration::from_secs(second as u64),
                Duration::from_secs(1),
                None,
            )
            .map_err(|error| failed(&error))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::recorder::Done;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn files_hold_what_was_recorded() {
        let mut recorder = Recorder::new(0);
        for n in 1..=1_000u64 {
            recorder.done(Done {
                intended: n * 2_000_000,
                sent: n * 2_000_000,
                now: n * 2_000_000 + 5_000_000,
                records: 1,
                bytes: 1,
                wire_bytes: 1,
            });
        }
        let text = percentiles(&recorder.intended);
        assert!(
            text.contains("       5.001 1.000000000000       1000\n"),
            "{text}"
        );
        assert!(text.contains("Total count    =         1000]"), "{text}");
        let log = log(&recorder).expect("writes");
        let intervals = IntervalLogIterator::new(&log)
            .filter(|entry| matches!(entry, Ok(LogEntry::Interval(_))))
            .count();
        assert_eq!(intervals, recorder.seconds.len());
    }
}
