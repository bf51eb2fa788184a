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
    let allowed = executor::available_cores();
    let cores = options.cores.clone().unwrap_or_else(|| allowed.clone());
    if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
        return Err(UsageError(format!(
            "`--cores`: core {core} is not one this process may use ({allowed:?}); name others or leave the flag out"
        )));
    }
    let nodes = options.nodes.unwrap_or(cores.len() as u16);
    if usize::from(nodes) > cores.len() {
        return Err(UsageError(format!(
            "`--nodes {nodes}`: there are {} shards (one per core), and a node has at least one; lower it or add cores",
            cores.len()
        )));
    }
    if u32::from(options.listen.port) + u32::from(nodes) > 65_536 {
        return Err(UsageError(format!(
            "`--listen {}`: {nodes} nodes need as many ports from there on; choose a lower one",
            options.listen
        )));
    }
    let node_statics = (0..nodes).map(|index| options.node_statics(index));
    Ok(server::ServeOptions {
        listen: resolve("--listen", &options.listen)?,
        metrics: match &options.metrics {
            Some(address) => Some(resolve("--metrics", address)?),
            None => None,
        },
        node_statics: node_statics.collect(),
        data: options.data,
        advertise: (options.advertise.host, options.advertise.port),
        rack: options.rack,
        memory: options.memory_bytes.unwrap_or_else(memory_default),
        cores,
        nodes,
        node_id: options.node_id,
        buffered: options.buffered,
    })
}

fn resolve(flag: &str, address: &HostPort) -> Result<SocketAddr, UsageError> {
    let resolved = (address.host.as_str(), address.port).to_socket_addrs();
    let first = resolved.map(|mut addresses| addresses.next());
    match first {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(UsageError(format!(
            "`{flag} {address}`: the name has no address; give an IP address"
        ))),
        Err(error) => Err(UsageError(format!(
            "`{flag} {address}`: {error}; give an IP address or a name this machine can resolve"
        ))),
    }
}

/// A quarter of the machine's memory.
fn memory_default() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    total.map_or(MEMORY_FALLBACK, |kib| kib * 1024 / 4)
}

/// Where the system does not say how much there is.
const MEMORY_FALLBACK: u64 = 1 << 30;
