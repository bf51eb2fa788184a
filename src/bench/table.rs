//! A result as people read it on a terminal.
//! Pure: from a result to text.
//! Always: what limits the trust in a number stands with it; nothing is shown that the result does not hold.
//! Drawing is `report`'s.

use std::fmt::Write;

use super::environment::UNKNOWN;
use super::result::{Flow, Latency, RunResult};
use super::text::{count, duration};

/// The whole result.
pub fn of(result: &RunResult) -> String {
    let mut out = String::new();
    line(&mut out, &result.title);
    for trouble in result.troubles() {
        line(&mut out, &format!("!! {trouble}"));
    }
    for note in &result.notes {
        line(&mut out, &format!("note: {note}"));
    }
    line(&mut out, "");
    for flow in [&result.produce, &result.consume].into_iter().flatten() {
        add_flow(&mut out, flow);
    }
    add_latencies(&mut out, result);
    add_around(&mut out, result);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn add_flow(out: &mut String, flow: &Flow) {
    line(
        out,
        &format!(
            "{:<9} {} records/s, {:.1} MB/s ({} records in {:.2} s, {:.1} bytes each on the wire)",
            flow.meaning.split(':').next().unwrap_or(""),
            count(flow.records_per_s),
            flow.mb_per_s,
            count(flow.records as f64),
            flow.seconds,
            flow.wire_bytes as f64 / flow.records.max(1) as f64
        ),
    );
}

fn add_latencies(out: &mut String, result: &RunResult) {
    line(out, "");
    line(
        out,
        &format!(
            "{:<34}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "latency", "p50", "p90", "p99", "p99.9", "p99.99", "max"
        ),
    );
    for flow in [&result.produce, &result.consume].into_iter().flatten() {
        let name = flow.meaning.split_once(": ").map_or("", |(_, what)| what);
        add_latency(out, name, &flow.latency);
        if let Some(sent) = &flow.latency_from_send {
            add_latency(out, "  from the real send", sent);
        }
    }
}

fn add_latency(out: &mut String, name: &str, latency: &Latency) {
    if latency.count == 0 {
        return;
    }
    let values = [
        latency.p50,
        latency.p90,
        latency.p99,
        latency.p999,
        latency.p9999,
        latency.max,
    ];
    let _ = write!(out, "{name:<34}");
    for value in values {
        let _ = write!(out, "{:>10}", duration(value));
    }
    out.push('\n');
}

fn add_around(out: &mut String, result: &RunResult) {
    line(out, "");
    let v = &result.verification;
    if v.on {
        let mut text = match v.checks.records {
            0 => "verified  nothing: no record was read".to_owned(),
            records => format!(
                "verified  {} records: {} faults; cost {:.2} CPU-s of the load side",
                count(records as f64),
                v.checks.faults(),
                v.cost_seconds
            ),
        };
        if v.read_back_seconds >= 0.01 {
            let _ = write!(
                text,
                ", read back in {:.1} s after the clock stopped",
                v.read_back_seconds
            );
        }
        if v.checks.foreign > 0 {
            let _ = write!(text, "; {} batches of others", v.checks.foreign);
        }
        if v.unchecked_batches > 0 {
            let _ = write!(
                text,
                "; {} batches not checked (retention took them, too many to remember, or the run was over)",
                v.unchecked_batches
            );
        }
        line(out, &text);
    }
    if let Some(cpu) = &result.broker_cpu {
        let mut text = format!(
            "broker    pid {}: {:.2} CPU-s in {:.2} s, {:.2} CPU-s per GB, {:.2} per million records",
            cpu.pid, cpu.cpu_seconds, cpu.wall_seconds, cpu.per_gb, cpu.per_million_records
        );
        if cpu.cpu_seconds < CPU_SECONDS_SURE {
            text.push_str(" (so little that ticks of 10 ms hardly tell: measure longer)");
        }
        if let Some(calls) = cpu.syscalls_per_record {
            let _ = write!(text, ", {calls:.3} system calls per record");
        }
        line(out, &text);
    }
    if let Some(bare) = result.bare_cpu_per_gb {
        let what = match result.mode.as_str() {
            "consume" => "sends the same records by sendfile",
            _ => "receives the same batches and drops them",
        };
        line(
            out,
            &format!("bare      a server that {what}: {bare:.2} CPU-s per GB"),
        );
    }
    if let Some(busy) = result.load_busy {
        let mut text = format!("load      cores {:.0} % busy", busy * 100.0);
        if let Some(max) = result.load_max_records_s {
            let _ = write!(
                text,
                "; against a server that drops everything: {} records/s, {:.0} % busy",
                count(max),
                result.load_max_busy.unwrap_or(0.0) * 100.0
            );
        }
        line(out, &text);
    }
    out.push_str(&around(result));
}

/// Less CPU time is too few ticks for a figure.
const CPU_SECONDS_SURE: f64 = 0.2;

/// Both sides, the disk, the machine and the command.
pub fn around(result: &RunResult) -> String {
    let mut text = String::new();
    let out = &mut text;
    let e = &result.environment;
    line(
        out,
        &format!(
            "sides     load on core {}, broker on core {}, {} connections",
            e.load_cores, e.broker.cores, result.connections
        ),
    );
    line(
        out,
        &format!(
            "broker    {} at {}: {}",
            e.broker.software, e.broker.address, e.broker.durability
        ),
    );
    line(
        out,
        &match &e.disk {
            Some(disk) => format!(
                "disk      {} on {} ({}), scheduler {}, {}",
                disk.file_system, disk.device, disk.mount, disk.scheduler, disk.write_cache
            ),
            None => format!("disk      {UNKNOWN}"),
        },
    );
    line(
        out,
        &format!(
            "machine   {}, governor {}, Linux {}, ringlog {}, {}",
            e.cpu_model, e.cpu_governor, e.kernel, e.ringlog, e.date
        ),
    );
    line(out, &format!("command   {}", e.command));
    text
}
