//! `ringlog serve`: from what the command line says to a running broker.
//! Runs on the first thread, which waits for the end.
//! Always: what depends on the machine (cores, memory, names of hosts) is decided here, before anything starts.
//! What the broker does is `server`'s.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use super::{HostPort, ServeOptions, UsageError};
use crate::io::executor;
use crate::server;

/// Runs the broker until it is told to stop.
pub(super) fn serve(options: ServeOptions) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RINGLOG_LOG");
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter(filter.unwrap_or_else(|_| "info".into()))
        .init();
    let told = match told(options) {
        Ok(told) => told,
        Err(UsageError(text)) => {
            eprintln!("error: {text}");
            return ExitCode::from(super::USAGE_EXIT);
        }
    };
    match server::serve(told) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn told(options: ServeOptions) -> Result<server::ServeOptions, UsageError> {
    let cores = cores(&options, &executor::available_cores())?;
    let nodes = nodes(&options, cores.len())?;
    let memory = memory(&options, cores.len(), memory_of_machine())?;
    let node_statics = (0..nodes).map(|index| options.node_statics(index));
    let listen = resolve("listeners", &options.listen)?;
    Ok(server::ServeOptions {
        listen,
        metrics: metrics(&options, listen, nodes)?,
        node_statics: node_statics.collect(),
        data: options.data,
        advertise: (options.advertise.host, options.advertise.port),
        rack: options.rack,
        memory,
        cores,
        nodes,
        node_id: options.node_id,
        buffered: options.buffered,
    })
}

/// The cores asked for, if this process may use them; else all it may use.
fn cores(options: &ServeOptions, allowed: &[usize]) -> Result<Vec<usize>, UsageError> {
    let cores = options.cores.as_deref().unwrap_or(allowed);
    match cores.iter().find(|core| !allowed.contains(core)) {
        Some(core) => Err(UsageError(format!(
            "`cores`: this process may not run on core {core}; name some of {}, or none to use all",
            ranges(allowed)
        ))),
        None => Ok(cores.to_vec()),
    }
}

/// The number of nodes; each has a shard, a port and an id of its own.
fn nodes(options: &ServeOptions, shards: usize) -> Result<u16, UsageError> {
    let shards = u16::try_from(shards)
        .map_err(|_| UsageError(format!("`cores`: {shards} shards are too many")))?;
    let nodes = options.nodes.unwrap_or(shards);
    if nodes > shards {
        return Err(UsageError(format!(
            "`nodes` = {nodes}: there are {shards} shards (one per core), and a node has at least one; lower it or add cores"
        )));
    }
    for (key, address) in [
        ("listeners", &options.listen),
        ("advertised.listeners", &options.advertise),
    ] {
        if address.port.checked_add(nodes - 1).is_none() {
            return Err(UsageError(format!(
                "`{key}` = {address}: {nodes} nodes need as many ports from there on; choose one up to {}",
                u16::MAX - (nodes - 1)
            )));
        }
    }
    if options.node_id.checked_add(i32::from(nodes - 1)).is_none() {
        return Err(UsageError(format!(
            "`node.id` = {}: {nodes} nodes need as many ids from there on; choose a lower one",
            options.node_id
        )));
    }
    Ok(nodes)
}

/// Bytes of memory for all shards: as told, else a part of the machine's. `machine`: bytes this process may have, if known.
fn memory(options: &ServeOptions, shards: usize, machine: Option<u64>) -> Result<u64, UsageError> {
    let shards = shards as u64;
    let least = MEMORY_PER_CORE_MIN * shards;
    match options.memory_bytes {
        Some(bytes) if bytes < least => Err(UsageError(format!(
            "`memory` = {bytes} bytes: {shards} shards (one per core) need {} MiB each, {} MiB in all; give that with --memory, or name fewer cores with --cores",
            MEMORY_PER_CORE_MIN >> 20,
            least >> 20
        ))),
        // It would be had page by page, until the kernel ends the process.
        Some(bytes) if machine.is_some_and(|machine| bytes > machine) => Err(UsageError(format!(
            "`memory` = {bytes} bytes: this process may have {} MiB (the memory of the machine, or of its control group); give less with --memory",
            machine.unwrap_or_default() >> 20
        ))),
        Some(bytes) => Ok(bytes),
        None => {
            let part = machine.unwrap_or(MEMORY_UNKNOWN) / 4;
            Ok(part.clamp(least, MEMORY_PER_CORE * shards))
        }
    }
}

/// Where metrics are served, if anywhere: on a port that no node has.
fn metrics(
    options: &ServeOptions,
    listen: SocketAddr,
    nodes: u16,
) -> Result<Option<SocketAddr>, UsageError> {
    let Some(told) = &options.metrics else {
        return Ok(None);
    };
    let address = resolve("metrics", told)?;
    let meets = |a: SocketAddr, b: SocketAddr| a.ip() == b.ip() || a.ip().is_unspecified();
    let node = address.port().checked_sub(listen.port());
    match node.filter(|node| *node < nodes) {
        Some(node) if meets(address, listen) || meets(listen, address) => Err(UsageError(format!(
            "`metrics` = {told}: node {} listens on that port; choose another with --metrics",
            options.node_id + i32::from(node)
        ))),
        _ => Ok(Some(address)),
    }
}

/// Core numbers as `--cores` takes them.
fn ranges(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let text = parts.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}

/// The first address of a host; no host is every IPv4 address, as in Kafka's `PLAINTEXT://:9092`.
fn resolve(key: &str, address: &HostPort) -> Result<SocketAddr, UsageError> {
    let host = match address.host.as_str() {
        "" | "*" => "0.0.0.0",
        host => host,
    };
    let resolved = (host, address.port).to_socket_addrs();
    let first = resolved.map(|mut addresses| addresses.next());
    match first {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(UsageError(format!(
            "`{key}` = {address}: the name has no address; give an IP address"
        ))),
        Err(error) => Err(UsageError(format!(
            "`{key}` = {address}: {error}; give an IP address or a name this machine can resolve"
        ))),
    }
}

/// Bytes of memory this process may have: the machine's, or its control group's if that is less; `None` if the system does not say.
fn memory_of_machine() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let total = read("/proc/meminfo")
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let group = read("/sys/fs/cgroup/memory.max").trim().parse::<u64>();
    let machine = total.map(|kib| kib << 10);
    machine.into_iter().chain(group).min()
}

/// More would keep more of the past in memory, but memory that is used again soon costs less than memory that the kernel must
/// find and clear.
const MEMORY_PER_CORE: u64 = 1 << 30;
/// The largest batch that `max.message.bytes` lets in by default takes 2 MiB where it is appended, and reading it back a few pieces
/// more: with half of this that still works, at the speed of one batch after the other.
const MEMORY_PER_CORE_MIN: u64 = 16 << 20;
/// Where the system does not say how much there is.
const MEMORY_UNKNOWN: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::ServeFlags;
    use crate::cli::serve;

    fn options(cores: &str, nodes: Option<&str>, listen: &str) -> ServeOptions {
        let flags = ServeFlags {
            cores: Some(cores.to_string()),
            nodes: nodes.map(str::to_string),
            listen: Some(listen.to_string()),
            ..ServeFlags::default()
        };
        serve::options(&flags).expect("valid flags")
    }

    #[test]
    fn what_the_machine_lacks_is_named_with_the_fix() {
        let (local, high) = ("127.0.0.1:9092", "127.0.0.1:65535");
        let UsageError(text) = cores(&options("3", None, local), &[0, 1, 2, 5]).unwrap_err();
        assert_eq!(
            text,
            "`cores`: this process may not run on core 3; name some of 0-2,5, or none to use all"
        );
        let UsageError(text) = nodes(&options("0", Some("2"), local), 1).unwrap_err();
        assert!(
            text.starts_with("`nodes` = 2: there are 1 shards"),
            "{text}"
        );
        let UsageError(text) = nodes(&options("0-2", None, high), 3).unwrap_err();
        assert_eq!(
            text,
            "`listeners` = 127.0.0.1:65535: 3 nodes need as many ports from there on; choose one up to 65533"
        );
        assert_eq!(nodes(&options("0-2", Some("1"), high), 3), Ok(1));
        assert_eq!(
            cores(&options("0-2", None, local), &[0, 1, 2]),
            Ok(vec![0, 1, 2])
        );
    }

    #[test]
    fn memory_that_is_too_little_or_not_there_is_refused() {
        let with = |memory: Option<&str>| {
            let flags = ServeFlags {
                memory: memory.map(str::to_string),
                ..ServeFlags::default()
            };
            let options = serve::options(&flags).expect("valid flags");
            super::memory(&options, 2, Some(1 << 30))
        };
        assert_eq!(with(Some("32MiB")), Ok(32 << 20));
        let UsageError(text) = with(Some("31MiB")).unwrap_err();
        assert_eq!(
            text,
            "`memory` = 32505856 bytes: 2 shards (one per core) need 16 MiB each, 32 MiB in all; give that with --memory, or name fewer cores with --cores"
        );
        assert_eq!(with(Some("1GiB")), Ok(1 << 30));
        let UsageError(text) = with(Some("1025MiB")).unwrap_err();
        assert_eq!(
            text,
            "`memory` = 1074790400 bytes: this process may have 1024 MiB (the memory of the machine, or of its control group); give less with --memory"
        );
        assert_eq!(with(None), Ok(256 << 20));
    }

    #[test]
    fn metrics_have_a_port_of_their_own() {
        let with = |metrics: &str, nodes| {
            let flags = ServeFlags {
                metrics: Some(metrics.to_string()),
                ..ServeFlags::default()
            };
            let options = serve::options(&flags).expect("valid flags");
            super::metrics(&options, "127.0.0.1:9092".parse().unwrap(), nodes)
        };
        let UsageError(text) = with(":9093", 2).unwrap_err();
        assert_eq!(
            text,
            "`metrics` = :9093: node 1 listens on that port; choose another with --metrics"
        );
        for (metrics, nodes) in [(":9093", 1), (":9091", 2), ("127.0.0.2:9092", 2)] {
            assert!(with(metrics, nodes).is_ok(), "{metrics} {nodes}");
        }
    }

    #[test]
    fn hosts_become_addresses() {
        let resolved = |text: &str| resolve("listeners", &HostPort::parse(text).unwrap());
        assert_eq!(resolved(":9").unwrap().to_string(), "0.0.0.0:9");
        assert_eq!(resolved("[::1]:9").unwrap().to_string(), "[::1]:9");
        let UsageError(text) = resolved("no.such.host.invalid:9").unwrap_err();
        assert!(
            text.starts_with("`listeners` = no.such.host.invalid:9: "),
            "{text}"
        );
    }
}
