//! The flags, as clap reads them.
//! Made once from the command line.
//! Always: texts only; what they mean is `serve`'s, with the same words for flags and file.
//! What each key does is documented in `metadata::config`.

use clap::{Parser, Subcommand};

use super::bench::BenchCommand;

/// A log broker that speaks the Kafka protocol: every core a node, every ack on the disk.
#[derive(Parser, Debug)]
#[command(name = "ringlog", version)]
pub(super) struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Run the broker.
    Serve(Box<ServeFlags>),
    /// Measure a broker: this one or any other that speaks the Kafka protocol.
    #[command(subcommand)]
    Bench(Box<BenchCommand>),
}

/// A flag wins over the same key in the file.
#[derive(clap::Args, Clone, Default, Debug)]
pub(super) struct ServeFlags {
    /// Data directory; in the file: log.dirs [default: ./ringlog-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Address to listen on, shard i on PORT+i; in the file: listeners [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Host that clients are told to connect to; in the file: advertised.listeners [default: the host of --listen, the
    /// host name if that is a wildcard]
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<String>,
    /// Cores to run shards on, such as 0-3,5; in the file: cores [default: all this process may use]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub cores: Option<String>,
    /// Memory for the arenas of all shards, such as 4GiB; in the file: memory [default: 1GiB for each core, at most a quarter of the machine]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub memory: Option<String>,
    /// Kafka nodes this machine is, 1 puts it on one port; in the file: nodes [default: one per shard]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub nodes: Option<String>,
    /// Id of the first node, the next has the next id; in the file: node.id [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub node_id: Option<String>,
    /// Ordinary writes and fdatasync, for file systems without O_DIRECT; in the file: buffered=true
    #[arg(long)]
    pub buffered: bool,
    /// Serve Prometheus metrics here; in the file: metrics [default: not served]
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,
    /// Properties file with Kafka's keys (num.partitions=6) and those above
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// Set one key of the file, over the file; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}
