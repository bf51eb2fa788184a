//! `ringlog bench`: its flags, and from them to what is run.
//! Runs once, on the first thread.
//! Always: a wrong value is named with its flag and the fix before a broker is touched.
//! Measuring is `bench`'s.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::UsageError;
use super::values::{HostPort, parse_cores, parse_size};
use crate::bench::load::{self, Load, Rate};
use crate::bench::{self, Ending, Extras, Mode, Output, OwnOptions, Plan, Show, TargetOptions};

/// Exit code of a result that is partial or has found faults.
const TROUBLED_EXIT: u8 = 3;

#[derive(Subcommand, Debug)]
pub(super) enum BenchCommand {
    /// Send records on a schedule; latency from the intended time and from the real send.
    Produce(RunFlags),
    /// Read a topic again and again (made and filled with 1 GiB, or with --records if that is less, unless --topic names one).
    Consume(RunFlags),
    /// Send and read at the same time, with one clock: latency from the intended send to the read.
    E2e(RunFlags),
    /// Send, and read everything 1, 2, 4 ... times at once, up to --consumers [default: 16].
    Fanout(RunFlags),
    /// Let a backlog grow, then read it while sending goes on; whether it is ever drained is a result.
    Backlog(BacklogFlags),
    /// Read old data at full speed beside a paced tail: what happens to the tail.
    Coldread(ColdReadFlags),
    /// Single records of 100 bytes from 1, 10, 100 ... connections, up to --connections [default: 10000], to as many partitions, at most 16, one in flight each.
    Connections(RunFlags),
    /// Send to topics of 1, 10, 100 ... partitions, up to --partitions [default: 10000].
    Partitions(RunFlags),
    /// Send with every combination of some values.
    Sweep(SweepFlags),
    /// The same load on two brokers in turn, A B A B: medians and ratios.
    Compare(CompareFlags),
    /// Draw one result, or two laid over each other, as a page that needs nothing else.
    Report(ReportFlags),
}

#[derive(Args, Clone, Debug)]
pub(super) struct BacklogFlags {
    /// How long it grows
    #[arg(long, value_name = "SECONDS", default_value = "5")]
    build: String,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Args, Clone, Debug)]
pub(super) struct ColdReadFlags {
    /// How much old data there is
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    old: String,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Args, Clone, Debug)]
pub(super) struct SweepFlags {
    /// A flag of the load and its values, such as batch=1KiB,64KiB; may be repeated. Known: record-size, batch, partitions, producers, acks,
    /// codec, in-flight, rate
    #[arg(long, value_name = "FLAG=V1,V2", required = true)]
    vary: Vec<String>,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Args, Clone, Debug)]
pub(super) struct CompareFlags {
    /// HOST:PORT, or `own`: a ringlog of its own, started anew for each round
    #[arg(value_name = "A")]
    a: String,
    #[arg(value_name = "B")]
    b: String,
    /// produce, consume or e2e
    #[arg(long, default_value = "produce")]
    mode: String,
    /// Rounds of each
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: String,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Args, Clone, Debug)]
pub(super) struct ReportFlags {
    /// Results that --json has written: one or two single runs, or one series or comparison
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
    /// Cores of the load side, one reactor each: as many as there are producers and partitions for [default: the second half of those this process may use]
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
    /// Partitions of a topic that is made [default: 1; of connections: 16]
    #[arg(long, value_name = "N")]
    partitions: Option<String>,
    /// Configuration of a topic that is made; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    topic_set: Vec<String>,
    /// Producers; each has a connection to every node that leads one of its partitions [default: 1]
    #[arg(long, value_name = "N", visible_alias = "connections")]
    producers: Option<String>,
    /// Consumers; partitions are shared among them [default: 1]
    #[arg(long, value_name = "N")]
    consumers: Option<String>,
    /// How often everything is read at the same time, each time by --consumers; fanout goes through several [default: 1]
    #[arg(long, value_name = "N")]
    copies: Option<String>,
    /// Records per second in all (20000, 50k, 1.5M), `max`: the highest rate that keeps up, searched first; `flood`: closed loop [default: max; of connections, partitions and sweep: flood]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Seconds that are measured [default: 10; of connections, partitions and sweep: 5]
    #[arg(long, value_name = "SECONDS", conflicts_with = "records")]
    duration: Option<String>,
    /// Records that are measured, instead of --duration: rounded to whole batches of each connection
    #[arg(long, value_name = "N")]
    records: Option<String>,
    /// Seconds before that, which are not measured [default: 2; of connections, partitions and sweep: 1]
    #[arg(long, value_name = "SECONDS")]
    warmup: Option<String>,
    /// Bytes of a record's value, such as 100 or 4KiB; those of a payload file have their own [default: 1KiB]
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
    /// random, repeated, FILE (a record a line) or prefixed:FILE (each behind its length in 4 bytes, big-endian; of a file the first
    /// 64 MiB are sent, again and again) [default: random: 16 batches, in turn]
    #[arg(long, value_name = "WHAT")]
    payload: Option<String>,
    /// none, uniform or zipf; a key decides the partition as in Kafka's clients [default: none: partitions in turn]
    #[arg(long, value_name = "KEYS")]
    keys: Option<String>,
    /// Keys to choose from [default: 100000]; a partition gets 16 batches of them in turn, so no more than those hold
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
    /// Write the result as a page with charts: of a series its first and its last step, of compare the middle run of each
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

type Outcome = Result<Result<Ending, String>, UsageError>;

fn dispatch(command: BenchCommand) -> Outcome {
    let usual = Load::default();
    match command {
        BenchCommand::Produce(flags) => single(Mode::Produce, &flags),
        BenchCommand::Consume(flags) => single(Mode::Consume, &flags),
        BenchCommand::E2e(flags) => single(Mode::EndToEnd, &flags),
        BenchCommand::Fanout(flags) => {
            let most = number("--consumers", &flags.load.consumers, 16)?;
            let load = Load {
                consumers: 1,
                ..load_of(&flags.load, &usual)?
            };
            start(&Plan::Fanout(most), &flags, &load)
        }
        BenchCommand::Connections(flags) => {
            let usual = Load {
                partitions: 16,
                record_bytes: 100,
                batch_records: 1,
                in_flight: 1,
                ..many_steps()
            };
            let most = number("--connections", &flags.load.producers, 10_000)?;
            start(
                &Plan::Connections(most),
                &flags,
                &load_of(&flags.load, &usual)?,
            )
        }
        BenchCommand::Partitions(flags) => {
            let most = number("--partitions", &flags.load.partitions, 10_000)?;
            start(
                &Plan::Partitions(most),
                &flags,
                &load_of(&flags.load, &many_steps())?,
            )
        }
        BenchCommand::Sweep(flags) => {
            let loads = sweep(&flags)?;
            start(&Plan::Sweep(loads), &flags.run, &usual)
        }
        BenchCommand::Backlog(flags) => {
            let build = seconds("--build", &Some(flags.build.clone()), 0.0)?;
            if build == 0.0 {
                return Err(wrong("--build", &flags.build, "there would be no backlog"));
            }
            let plan = Plan::Backlog(Duration::from_secs_f64(build));
            start(&plan, &flags.run, &load_of(&flags.run.load, &usual)?)
        }
        BenchCommand::Coldread(flags) => {
            let old = parse_size(&flags.old).map_err(|error| wrong("--old", &flags.old, &error))?;
            start(
                &Plan::ColdRead(old),
                &flags.run,
                &load_of(&flags.run.load, &usual)?,
            )
        }
        BenchCommand::Compare(flags) => compare(&flags),
        BenchCommand::Report(flags) => {
            Ok(bench::report(&flags.results, &flags.out).map(|()| Ending::Good))
        }
    }
}

/// What a step of many is, unless told otherwise.
fn many_steps() -> Load {
    Load {
        rate: Rate::Flood,
        warmup_seconds: 1.0,
        duration_seconds: Some(5.0),
        ..Load::default()
    }
}

fn single(mode: Mode, flags: &RunFlags) -> Outcome {
    refuse_rate(mode, &flags.load)?;
    let of_readers = [
        ("--consumers", &flags.load.consumers),
        ("--copies", &flags.load.copies),
    ];
    for (flag, given) in of_readers {
        if let (Mode::Produce, Some(value)) = (mode, given) {
            let why = "produce has no consumers: what it has sent is read back once; use e2e";
            return Err(wrong(flag, value, why));
        }
    }
    start(
        &Plan::Single(mode),
        flags,
        &load_of(&flags.load, &Load::default())?,
    )
}

/// Reading has no rate: it says so instead of leaving it out.
fn refuse_rate(mode: Mode, flags: &LoadFlags) -> Result<(), UsageError> {
    match &flags.rate {
        Some(rate) if mode == Mode::Consume => Err(wrong(
            "--rate",
            rate,
            "consume reads as fast as it goes (one fetch behind the other); leave it out",
        )),
        _ => Ok(()),
    }
}

fn start(plan: &Plan, flags: &RunFlags, load: &Load) -> Outcome {
    let target = target(&flags.target)?;
    let output = output(&flags.output);
    if output.histograms.is_some() && !matches!(plan, Plan::Single(_)) {
        return Err(UsageError(
            "`--histograms`: only produce, consume and e2e write them; --json has those of every step".to_owned(),
        ));
    }
    Ok(bench::run(
        plan,
        &target,
        load,
        extras(&flags.output),
        &output,
    ))
}

/// Every combination of the values, the first flag slowest.
fn sweep(flags: &SweepFlags) -> Result<Vec<(String, Load)>, UsageError> {
    let mut combinations: Vec<(String, LoadFlags)> = vec![(String::new(), flags.run.load.clone())];
    for vary in &flags.vary {
        let Some((flag, values)) = vary.split_once('=') else {
            return Err(wrong(
                "--vary",
                vary,
                "write FLAG=V1,V2, such as batch=1KiB,64KiB",
            ));
        };
        let mut next = Vec::new();
        for (name, base) in &combinations {
            for value in values.split(',') {
                let mut load = base.clone();
                let given = Some(value.to_owned());
                match flag {
                    "record-size" => load.record_size = given,
                    "batch" => load.batch = given,
                    "partitions" => load.partitions = given,
                    "producers" => load.producers = given,
                    "acks" => load.acks = given,
                    "codec" => load.codec = given,
                    "in-flight" => load.in_flight = given,
                    "rate" => load.rate = given,
                    _ => {
                        return Err(wrong(
                            "--vary",
                            vary,
                            "known are record-size, batch, partitions, producers, acks, codec, in-flight and rate",
                        ));
                    }
                }
                let blank = if name.is_empty() { "" } else { " " };
                next.push((format!("{name}{blank}{flag}={value}"), load));
            }
        }
        combinations = next;
        if combinations.len() > SWEEP_MAX {
            return Err(wrong("--vary", vary, "more than 10,000 combinations"));
        }
    }
    let usual = many_steps();
    let loads = combinations.into_iter();
    loads
        .map(|(name, flags)| Ok((name, load_of(&flags, &usual)?)))
        .collect()
}

const SWEEP_MAX: usize = 10_000;

fn compare(flags: &CompareFlags) -> Outcome {
    if flags.run.target.bootstrap.is_some() {
        return Err(UsageError(
            "`--bootstrap`: compare takes its two brokers as A and B".to_owned(),
        ));
    }
    let given = [&flags.a, &flags.b].map(|side| side != "own");
    if given == [true, true] && flags.run.target.pid.is_some() {
        return Err(UsageError(
            "`--pid`: it names one process and there are two brokers; leave it out, they are found by their ports".to_owned(),
        ));
    }
    if flags.run.output.histograms.is_some() {
        return Err(UsageError(
            "`--histograms`: compare writes none; --json has those of every run".to_owned(),
        ));
    }
    let mode = match flags.mode.as_str() {
        "produce" => Mode::Produce,
        "consume" => Mode::Consume,
        "e2e" => Mode::EndToEnd,
        other => return Err(wrong("--mode", other, "write produce, consume or e2e")),
    };
    refuse_rate(mode, &flags.run.load)?;
    let rounds = number("--rounds", &Some(flags.rounds.clone()), 3)?;
    let of = |address: &String| {
        let own = address == "own";
        let flags = flags.run.target.clone();
        // What is said of a broker of our own is not of one that is given, if there is one of each.
        let of_own = own || given == [true, true];
        target(&TargetFlags {
            bootstrap: (!own).then(|| address.clone()),
            dir: flags.dir.filter(|_| of_own),
            broker_set: flags.broker_set.into_iter().filter(|_| of_own).collect(),
            pid: flags.pid.filter(|_| !own),
            ..flags
        })
    };
    let both = [of(&flags.a)?, of(&flags.b)?];
    let load = load_of(&flags.run.load, &Load::default())?;
    let output = output(&flags.run.output);
    Ok(bench::compare(
        &both,
        mode,
        &load,
        rounds,
        extras(&flags.run.output),
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
        let own_only = [
            ("--dir", flags.dir.is_some()),
            ("--broker-set", !flags.broker_set.is_empty()),
        ];
        if let Some((flag, _)) = own_only.into_iter().find(|(_, given)| *given) {
            return Err(UsageError(format!(
                "`{flag}`: it is for a broker of its own, and {address} is another; leave it or the address out"
            )));
        }
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

fn load_of(flags: &LoadFlags, usual: &Load) -> Result<Load, UsageError> {
    let record_bytes = match &flags.record_size {
        Some(text) => size("--record-size", text)?,
        None => usual.record_bytes,
    };
    let usual_seconds = usual.duration_seconds.unwrap_or(10.0);
    let duration = seconds("--duration", &flags.duration, usual_seconds)?;
    if duration == 0.0 {
        return Err(wrong("--duration", "0", "nothing would be measured"));
    }
    let records = optional(&flags.records, |text| whole("--records", text))?;
    let payload = word("--payload", &flags.payload, usual.payload.clone())?;
    // A batch of so many bytes of a file's records.
    let sized = flags
        .batch
        .as_deref()
        .is_none_or(|text| text.ends_with(['B', 'b']));
    let of_file = match sized {
        true => bench::mean_record_bytes(&payload).map_err(UsageError)?,
        false => None,
    };
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
        partitions: number("--partitions", &flags.partitions, usual.partitions as usize)? as i32,
        configs: configs.collect::<Result<_, _>>()?,
        producers: number("--producers", &flags.producers, usual.producers)?,
        consumers: number("--consumers", &flags.consumers, usual.consumers)?,
        copies: number("--copies", &flags.copies, usual.copies)?,
        rate: word("--rate", &flags.rate, usual.rate)?,
        warmup_seconds: seconds("--warmup", &flags.warmup, usual.warmup_seconds)?,
        duration_seconds: records.is_none().then_some(duration),
        records,
        record_bytes,
        batch_records: batch(&flags.batch, of_file.unwrap_or(record_bytes), usual)?,
        acks: word("--acks", &flags.acks, usual.acks)?,
        codec: word("--codec", &flags.codec, usual.codec)?,
        in_flight: number("--in-flight", &flags.in_flight, usual.in_flight)?,
        payload,
        keys: word("--keys", &flags.keys, usual.keys)?,
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
fn batch(text: &Option<String>, record_bytes: usize, usual: &Load) -> Result<usize, UsageError> {
    let records = match text.as_deref() {
        // Single records stay single, others fill as many bytes.
        None if usual.batch_records == 1 => 1,
        None => usual.batch_records * usual.record_bytes / record_bytes,
        Some(text) if text.ends_with(['B', 'b']) => size("--batch", text)? / record_bytes,
        Some(text) => match whole("--batch", text)? {
            records if records.saturating_mul(record_bytes as u64) > SIZE_MAX => {
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
