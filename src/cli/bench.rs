//! `ringlog bench`: its flags, and from them to what is run.
//! Runs once, on the first thread.
//! Always: a wrong value is named with its flag and the fix before a broker is touched.
//! Measuring is `bench`'s.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::UsageError;
use super::values::{HostPort, parse_cores, parse_size};
use crate::bench::load::{self, Acks, Codec, Keys, Load, Payload, Rate};
use crate::bench::{self, Ending, Extras, Mode, Output, OwnOptions, Show, TargetOptions};

/// Exit code of a result that is partial or has found faults.
const TROUBLED_EXIT: u8 = 3;

#[derive(Subcommand, Debug)]
pub(super) enum BenchCommand {
    /// Send records on a schedule; latency from the intended time and from the real send.
    Produce(RunFlags),
    /// Read a topic again and again (made and filled first, unless --topic names one).
    Consume(RunFlags),
    /// Send and read at the same time, with one clock: latency from the intended send to the read.
    E2e(RunFlags),
    /// Draw one result, or two laid over each other, as a page that needs nothing else.
    Report(ReportFlags),
}

#[derive(Args, Clone, Debug)]
pub(super) struct ReportFlags {
    /// Results that --json has written
    #[arg(value_name = "JSON", required = true, num_args = 1..=2)]
    results: Vec<PathBuf>,
    /// Where the page is written
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub(super) struct RunFlags {
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// Which broker, and which cores.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Broker")]
struct TargetFlags {
    /// Any Kafka broker [default: a ringlog of its own on a temporary directory and other cores]
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
    /// Process of the broker, for its CPU time [default: the one that listens on the port of --bootstrap here]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Cores of the load side, one reactor each [default: the second half of those this process may use]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Cores of a broker of its own [default: the first half]
    #[arg(long, value_name = "LIST")]
    broker_cores: Option<String>,
    /// Where a broker of its own keeps its data [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// One key of the configuration of a broker of its own; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    broker_set: Vec<String>,
}

/// What is sent and read.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Load")]
struct LoadFlags {
    /// Topic to use; made if it is not there [default: one of its own, deleted afterwards]
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// Keep a topic that was made
    #[arg(long)]
    keep_topic: bool,
    /// Partitions of a topic that is made [default: 1]
    #[arg(long, value_name = "N")]
    partitions: Option<String>,
    /// Configuration of a topic that is made; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    topic_set: Vec<String>,
    /// Producers; each has a connection to every node that leads one of its partitions [default: 1]
    #[arg(long, value_name = "N", visible_alias = "connections")]
    producers: Option<String>,
    /// Consumers [default: 1]
    #[arg(long, value_name = "N")]
    consumers: Option<String>,
    /// Records per second in all (20000, 50k, 1.5M), `max`: the highest rate that keeps up, searched first; `flood`: closed loop [default: max]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Seconds that are measured [default: 10]
    #[arg(long, value_name = "SECONDS", conflicts_with = "records")]
    duration: Option<String>,
    /// Records that are measured, instead of --duration
    #[arg(long, value_name = "N")]
    records: Option<String>,
    /// Seconds before that, which are not measured [default: 2]
    #[arg(long, value_name = "SECONDS")]
    warmup: Option<String>,
    /// Bytes of a record's value, such as 100 or 4KiB [default: 1KiB]
    #[arg(long, value_name = "SIZE")]
    record_size: Option<String>,
    /// Records of a batch (100), or its size (1MiB) [default: 16KiB]
    #[arg(long, value_name = "N|SIZE")]
    batch: Option<String>,
    /// 0, 1 or all [default: all]
    #[arg(long, value_name = "ACKS")]
    acks: Option<String>,
    /// none, gzip, snappy, lz4 or zstd [default: none]
    #[arg(long, value_name = "CODEC")]
    codec: Option<String>,
    /// Requests in flight on a connection [default: 5]
    #[arg(long, value_name = "N")]
    in_flight: Option<String>,
    /// random, repeated, FILE (a record a line) or prefixed:FILE (each behind its length in 4 bytes, big-endian) [default: random]
    #[arg(long, value_name = "WHAT")]
    payload: Option<String>,
    /// none, uniform or zipf; a key decides the partition as in Kafka's clients [default: none: partitions in turn]
    #[arg(long, value_name = "KEYS")]
    keys: Option<String>,
    /// Different keys [default: 100000]
    #[arg(long, value_name = "N")]
    key_count: Option<String>,
    /// Most that a fetch brings of a partition [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    fetch_size: Option<String>,
    /// Do not check what is read
    #[arg(long)]
    no_verify: bool,
}

/// What becomes of the result.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
struct OutputFlags {
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result as a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write PREFIX-produce.hgrm (percentiles) and .hlog (a histogram a second), and the same of -consume
    #[arg(long, value_name = "PREFIX")]
    histograms: Option<PathBuf>,
    /// No progress
    #[arg(long)]
    quiet: bool,
    /// Do not measure first what the load side reaches against a server that drops everything
    #[arg(long)]
    no_limit: bool,
    /// Count the broker's system calls with perf (as root, for a broker on this machine); that costs the broker a little
    #[arg(long)]
    syscalls: bool,
}

pub(super) fn run(command: BenchCommand) -> ExitCode {
    match dispatch(command) {
        Ok(Ok(Ending::Good)) => ExitCode::SUCCESS,
        Ok(Ok(Ending::Troubled)) => ExitCode::from(TROUBLED_EXIT),
        Ok(Err(text)) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
        Err(UsageError(text)) => {
            eprintln!("error: {text}");
            ExitCode::from(super::USAGE_EXIT)
        }
    }
}

fn dispatch(command: BenchCommand) -> Result<Result<Ending, String>, UsageError> {
    let (mode, flags) = match command {
        BenchCommand::Produce(flags) => (Mode::Produce, flags),
        BenchCommand::Consume(flags) => (Mode::Consume, flags),
        BenchCommand::E2e(flags) => (Mode::EndToEnd, flags),
        BenchCommand::Report(flags) => {
            return Ok(bench::report(&flags.results, &flags.out).map(|()| Ending::Good));
        }
    };
    let (target, load) = (target(&flags.target)?, load_of(&flags.load)?);
    let output = output(&flags.output);
    Ok(bench::simple(
        mode,
        &target,
        &load,
        extras(&flags.output),
        &output,
    ))
}

fn extras(flags: &OutputFlags) -> Extras {
    Extras {
        show: match flags.quiet {
            true => Show::Nothing,
            false => Show::Progress,
        },
        limit: !flags.no_limit,
        syscalls: flags.syscalls,
    }
}

fn output(flags: &OutputFlags) -> Output {
    Output {
        json: flags.json.clone(),
        html: flags.html.clone(),
        histograms: flags.histograms.clone(),
    }
}

fn target(flags: &TargetFlags) -> Result<TargetOptions, UsageError> {
    if let Some(address) = &flags.bootstrap {
        HostPort::parse(address).map_err(|error| wrong("--bootstrap", address, &error))?;
    }
    let cores = |flag: &str, list: &Option<String>| {
        let parsed = list
            .as_deref()
            .map(|text| parse_cores(text).map_err(|error| wrong(flag, text, &error)));
        parsed.transpose()
    };
    Ok(TargetOptions {
        bootstrap: flags.bootstrap.clone(),
        pid: flags.pid,
        load_cores: cores("--cores", &flags.cores)?,
        broker_cores: cores("--broker-cores", &flags.broker_cores)?,
        own: OwnOptions {
            dir: flags.dir.clone(),
            cores: Vec::new(),
            settings: flags.broker_set.clone(),
        },
    })
}

fn load_of(flags: &LoadFlags) -> Result<Load, UsageError> {
    let usual = Load::default();
    let record_bytes = match &flags.record_size {
        Some(text) => size("--record-size", text)?,
        None => usual.record_bytes,
    };
    let duration = seconds("--duration", &flags.duration, 10.0)?;
    let records = optional(&flags.records, |text| whole("--records", text))?;
    let configs = flags.topic_set.iter().map(|pair| {
        let split = pair
            .split_once('=')
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
        split.ok_or_else(|| {
            wrong(
                "--topic-set",
                pair,
                "write KEY=VALUE, such as retention.ms=60000",
            )
        })
    });
    Ok(Load {
        topic: flags.topic.clone(),
        partitions: number("--partitions", &flags.partitions, 1)? as i32,
        configs: configs.collect::<Result<_, _>>()?,
        producers: number("--producers", &flags.producers, 1)?,
        consumers: number("--consumers", &flags.consumers, 1)?,
        rate: word("--rate", &flags.rate, Rate::Max)?,
        warmup_seconds: seconds("--warmup", &flags.warmup, usual.warmup_seconds)?,
        duration_seconds: records.is_none().then_some(duration),
        records,
        record_bytes,
        batch_records: batch(&flags.batch, record_bytes)?,
        acks: word("--acks", &flags.acks, Acks::All)?,
        codec: word("--codec", &flags.codec, Codec::None)?,
        in_flight: number("--in-flight", &flags.in_flight, usual.in_flight)?,
        payload: word("--payload", &flags.payload, Payload::Random)?,
        keys: word("--keys", &flags.keys, Keys::None)?,
        key_count: number("--key-count", &flags.key_count, usual.key_count)?,
        fetch_bytes: match &flags.fetch_size {
            Some(text) => size("--fetch-size", text)?,
            None => usual.fetch_bytes,
        },
        verify: !flags.no_verify,
        keep_topic: flags.keep_topic,
        drain_seconds: usual.drain_seconds,
    })
}

fn wrong(flag: &str, value: &str, problem: &str) -> UsageError {
    UsageError(format!("`{flag} {value}`: {problem}"))
}

fn optional<T>(
    text: &Option<String>,
    read: impl Fn(&str) -> Result<T, UsageError>,
) -> Result<Option<T>, UsageError> {
    text.as_deref().map(read).transpose()
}

/// A whole number of at least 1, with k, M or G.
fn whole(flag: &str, text: &str) -> Result<u64, UsageError> {
    match load::parse_count(text) {
        Some(value) if value >= 1.0 && value.fract() == 0.0 && value < 1e15 => Ok(value as u64),
        _ => Err(wrong(
            flag,
            text,
            "write a whole number of at least 1, such as 100 or 5M",
        )),
    }
}

/// The most of anything that is counted: connections, partitions, keys.
const NUMBER_MAX: u64 = 10_000_000;

fn number(flag: &str, text: &Option<String>, usual: usize) -> Result<usize, UsageError> {
    let given = optional(text, |text| match whole(flag, text)? {
        value if value > NUMBER_MAX => {
            Err(wrong(flag, text, "more than anyone needs; at most 10M"))
        }
        value => Ok(value as usize),
    })?;
    Ok(given.unwrap_or(usual))
}

fn seconds(flag: &str, text: &Option<String>, usual: f64) -> Result<f64, UsageError> {
    let given = optional(text, |text| {
        let plain = text.strip_suffix('s').unwrap_or(text);
        match plain.parse::<f64>() {
            Ok(value) if (0.0..=1e6).contains(&value) => Ok(value),
            _ => Err(wrong(flag, text, "write seconds, such as 10 or 0.5")),
        }
    })?;
    Ok(given.unwrap_or(usual))
}

/// The largest record or batch: what a request may hold.
const SIZE_MAX: u64 = 64 << 20;

fn size(flag: &str, text: &str) -> Result<usize, UsageError> {
    match parse_size(text) {
        Ok(bytes) if bytes <= SIZE_MAX => Ok(bytes as usize),
        Ok(_) => Err(wrong(flag, text, "at most 64MiB fit into a request")),
        Err(error) => Err(wrong(flag, text, &error)),
    }
}

/// A number of records, or a size that is divided by theirs.
fn batch(text: &Option<String>, record_bytes: usize) -> Result<usize, UsageError> {
    const BATCH_BYTES_USUAL: usize = 16 << 10;
    let records = match text.as_deref() {
        None => BATCH_BYTES_USUAL / record_bytes,
        Some(text) if text.ends_with(['B', 'b']) => size("--batch", text)? / record_bytes,
        Some(text) => match whole("--batch", text)? {
            records if records * record_bytes as u64 > SIZE_MAX => {
                return Err(wrong("--batch", text, "at most 64MiB fit into a request"));
            }
            records => records as usize,
        },
    };
    Ok(records.max(1))
}

fn word<T: std::str::FromStr<Err = String>>(
    flag: &str,
    text: &Option<String>,
    usual: T,
) -> Result<T, UsageError> {
    let given = optional(text, |text| {
        text.parse::<T>()
            .map_err(|error| UsageError(format!("`{flag}`: {error}")))
    })?;
    Ok(given.unwrap_or(usual))
}
