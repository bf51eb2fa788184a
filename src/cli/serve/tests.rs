//! What flags and files become, and what is said of wrong ones.

use clap::Parser;

use super::*;
use crate::cli::args::{Args, Command};

/// Options of a command line, with the text of the file that `--config f` names.
fn options(line: &str, file: &str) -> Result<ServeOptions, String> {
    let words = ["ringlog", "serve"]
        .into_iter()
        .chain(line.split_whitespace());
    let Command::Serve(flags) = Args::try_parse_from(words)
        .map_err(|error| error.to_string())?
        .command
    else {
        panic!("`serve` is another command");
    };
    read(&flags, file).map_err(|UsageError(text)| text)
}

fn read(flags: &ServeFlags, file: &str) -> Result<ServeOptions, UsageError> {
    let mut settings = Settings::default();
    if let Some(path) = &flags.config {
        settings.add_file(path, file)?;
    }
    settings.add_sets(&flags.set)?;
    settings.add_flags(flags)?;
    settings.options("here")
}

#[test]
fn no_argument_is_needed() {
    let options = options("", "").unwrap();
    assert_eq!(options.data, PathBuf::from("./ringlog-data"));
    assert_eq!(options.listen.to_string(), "127.0.0.1:9092");
    assert_eq!(options.advertise, options.listen);
    assert_eq!(
        (options.cores, options.memory_bytes, options.nodes),
        (None, None, None)
    );
    assert_eq!(
        (options.node_id, options.rack.as_str(), options.buffered),
        (0, "here", false)
    );
    assert_eq!(options.warnings, Vec::<String>::new());
}

#[test]
fn flags_and_file_mean_the_same() {
    let flags = "--data /d --listen 0.0.0.0:1000 --advertise host --cores 0-1 --memory 1GiB --nodes 2 --node-id 7 --buffered --metrics :9";
    let file = "log.dirs=/d\nlisteners=PLAINTEXT://0.0.0.0:1000\nadvertised.listeners=PLAINTEXT://host:1000\ncores=0-1\nmemory=1GiB\nnodes=2\nnode.id=7\nbuffered=true\nmetrics=:9\n";
    let from_flags = options(flags, "").unwrap();
    assert_eq!(from_flags, options("--config f", file).unwrap());
    assert_eq!(from_flags.advertise.to_string(), "host:1000");
    assert_eq!(from_flags.cores, Some(vec![0, 1]));
    assert_eq!(from_flags.memory_bytes, Some(1 << 30));
    assert_eq!((from_flags.nodes, from_flags.node_id), (Some(2), 7));
    assert!(from_flags.buffered);
    let statics = &from_flags.statics;
    assert_eq!(statics.get("listeners"), Some("PLAINTEXT://0.0.0.0:1000"));
    assert_eq!(
        statics.get("advertised.listeners"),
        Some("PLAINTEXT://host:1000")
    );
}

#[test]
fn a_flag_wins_over_the_file() {
    let file = "log.dir=/file\nbroker.id=3\nnum.partitions=2\nlisteners=:7000\n";
    let options = options(
        "--config f --data /flag --node-id 4 --set num.partitions=5",
        file,
    )
    .unwrap();
    assert_eq!(options.data, PathBuf::from("/flag"));
    assert_eq!(options.node_id, 4);
    assert_eq!(options.statics.get("num.partitions"), Some("5"));
    assert_eq!(options.listen.port, 7000);
    assert_eq!(options.advertise.to_string(), "here:7000");
}

#[test]
fn wrong_input_names_itself_its_value_and_the_fix() {
    for (line, file, text) in [
        (
            "--config f",
            "a.b=1\n\nnum.partition=3\n",
            "unknown key `a.b` in f line 1; remove it",
        ),
        (
            "--config f",
            "\n\nnum.partition=3\n",
            "unknown key `num.partition` in f line 3; did you mean `num.partitions`?",
        ),
        (
            "--set num.partition=3",
            "",
            "unknown key `num.partition` in --set; did you mean `num.partitions`?",
        ),
        (
            "--set num.partitions",
            "",
            "`--set num.partitions`: there is no value; write KEY=VALUE, such as num.partitions=6",
        ),
        (
            "--set num.partitions=0",
            "",
            "`num.partitions` = 0 in --set: Value must be at least 1",
        ),
        (
            "--config f",
            "num.partitions=x",
            "`num.partitions` = x in f line 1: Not a number of type INT",
        ),
        (
            "--listen 127.0.0.1",
            "",
            "`--listen 127.0.0.1`: there is no port; write HOST:PORT, such as 127.0.0.1:9092",
        ),
        (
            "--cores 3-1",
            "",
            "`--cores 3-1`: `3-1` runs backwards; write the lower core first",
        ),
        (
            "--memory lots",
            "",
            "`--memory lots`: `lots` is no size; write a number and a unit, such as 4GiB or 512MiB",
        ),
        (
            "--nodes 0",
            "",
            "`--nodes 0`: `0` is no number of nodes; write 1 up to the number of cores",
        ),
        (
            "--node-id -1",
            "",
            "`--node-id -1`: `-1` is no node id; write a number from 0 to 2147483647",
        ),
        (
            "--node-id x",
            "",
            "`--node-id x`: `x` is no node id; write a number from 0 to 2147483647",
        ),
        (
            "--config f",
            "broker.id=-1",
            "`broker.id` = -1 in f line 1: `-1` is no node id; write a number from 0",
        ),
        (
            "--memory -1",
            "",
            "`--memory -1`: `-1` is no size; write a number and a unit",
        ),
        (
            "--data /a --set log.dirs=/b",
            "",
            "`log.dirs` is given twice, by --set and by --data /a: keep one",
        ),
        (
            "--data=",
            "",
            "`--data`: no directory is named; write one, such as ./ringlog-data",
        ),
        (
            "--data /a,/b",
            "",
            "`log.dirs` = /a,/b: there is one data directory; name one",
        ),
        (
            "--advertise 0.0.0.0",
            "",
            "`--advertise 0.0.0.0`: clients can't connect to every address; name one they can reach",
        ),
        (
            "--advertise=",
            "",
            "`--advertise`: no host is named; write HOST or HOST:PORT, such as broker.example or 192.0.2.1:9092",
        ),
        (
            "--advertise 9093",
            "",
            "`--advertise 9093`: `9093` is no host; write HOST or HOST:PORT",
        ),
        (
            "--advertise a$b:1",
            "",
            "`--advertise a$b:1`: `a$b` is no host; write HOST:PORT",
        ),
        (
            "--config f",
            "advertised.listeners=",
            "`advertised.listeners` =  in f line 1: no host is named; write HOST or HOST:PORT",
        ),
        (
            "--config f",
            "advertised.listeners=PLAINTEXT://:1",
            "`advertised.listeners` = PLAINTEXT://:1 in f line 1: no host is named; name one that clients can reach",
        ),
        (
            "--config f",
            "advertised.listeners=PLAINTEXT://a,b:1",
            "`advertised.listeners` = PLAINTEXT://a,b:1 in f line 1: there is no port; write HOST:PORT",
        ),
        (
            "--listen=",
            "",
            "`--listen`: no listener for clients is named; write HOST:PORT, such as 127.0.0.1:9092",
        ),
        (
            "--config f",
            "listeners=SSL://:9093",
            "`listeners` = SSL://:9093 in f line 1: SSL is not served; only PLAINTEXT is",
        ),
        (
            "--config f",
            "listeners=A://:1\nlistener.security.protocol.map=A:SASL_SSL",
            "`listeners` = A://:1 in f line 1: SASL_SSL is not served",
        ),
        (
            "--config f",
            "listeners=PLAINTEXT://:1,PLAINTEXT://:2",
            "`listeners` = PLAINTEXT://:1,PLAINTEXT://:2 in f line 1: there is one listener; name one",
        ),
        (
            "--config f",
            "default.replication.factor=3",
            "`default.replication.factor` = 3: one machine holds one copy of a partition; set it to 1 or remove it",
        ),
        (
            "--config f",
            "authorizer.class.name=X",
            "`authorizer.class.name` = X in f line 1: authorization is not served",
        ),
        (
            "--config f",
            "broker.id=1\nnode.id=2",
            "`broker.id` = 1 and `node.id` = 2 name the same thing: remove one",
        ),
        (
            "--config f",
            "log.cleanup.policy=compact",
            "`log.cleanup.policy` = compact: compaction is not served",
        ),
    ] {
        let error = options(line, file).expect_err(line);
        assert!(error.starts_with(text), "{line} {file}\n{error}");
    }
}

#[test]
fn a_file_of_kafkas_own_is_taken_with_warnings() {
    let file = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\nadvertised.listeners=PLAINTEXT://localhost:9092\ncontroller.listener.names=CONTROLLER\nlistener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nnum.io.threads=8\nlog.dirs=/tmp/kraft\nnum.partitions=1\noffsets.topic.replication.factor=1\nlog.retention.hours=168\nlog.segment.bytes=1073741824\nlog.preallocate=true\n";
    let options = options("--config f", file).unwrap();
    assert_eq!(options.listen.to_string(), ":9092");
    assert_eq!(options.advertise.to_string(), "localhost:9092");
    assert_eq!(options.node_id, 1);
    let warned = |text: &str| options.warnings.iter().any(|w| w.contains(text));
    assert!(warned(
        "`num.io.threads` in f line 9 is a key of Kafka that ringlog does not act on"
    ));
    assert!(warned("`log.preallocate` in f line 15 has no effect"));
    assert!(!warned("`num.partitions`"));
}

#[test]
fn an_ipv6_host_can_be_advertised() {
    let of = |line: &str| options(line, "").unwrap().advertise.to_string();
    assert_eq!(of("--advertise ::1"), "[::1]:9092");
    assert_eq!(of("--advertise [::1]"), "[::1]:9092");
    assert_eq!(of("--advertise [::1]:5"), "[::1]:5");
    assert_eq!(of("--advertise name:5"), "name:5");
    assert_eq!(of("--listen [::1]:5"), "[::1]:5");
    assert_eq!(of("--listen [::]:5"), "here:5");
}

#[test]
fn a_key_twice_in_the_file_is_warned_of() {
    let options = options("--config f", "num.partitions=1\nnum.partitions=2\n").unwrap();
    assert_eq!(options.statics.get("num.partitions"), Some("2"));
    assert_eq!(options.warnings.len(), 1);
    assert!(
        options.warnings[0].contains("f line 1"),
        "{:?}",
        options.warnings
    );
}

#[test]
fn each_node_shows_its_own_id_and_address() {
    let options = options("--listen 0.0.0.0:9000 --advertise host --node-id 5", "").unwrap();
    let statics = options.node_statics(2);
    for (key, value) in [
        ("node.id", "7"),
        ("broker.id", "7"),
        ("listeners", "PLAINTEXT://0.0.0.0:9002"),
        ("advertised.listeners", "PLAINTEXT://host:9002"),
        ("broker.rack", "here"),
        ("log.dirs", "./ringlog-data"),
    ] {
        assert_eq!(statics.get(key), Some(value), "{key}");
    }
}
