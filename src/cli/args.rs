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
#[command(after_help = SERVE_AFTER)]
pub(super) struct ServeFlags {
    /// Directory of all data, made if it is not there; on XFS or ext4, elsewhere see --buffered; in the file: log.dirs [default: ./ringlog-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Address to listen on, node i on PORT+i; :PORT is every IPv4 address, [::]:PORT every address; in the file: listeners
    /// [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Where clients are told to connect, node i at PORT+i; in the file: advertised.listeners [default: as --listen; without
    /// PORT its port, and where it is every address the name of this machine]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub advertise: Option<String>,
    /// CPU cores to use, one shard (a thread with its own partitions) on each, such as 0-3,5; in the file: cores [default: all
    /// this process may use]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub cores: Option<String>,
    /// Memory for records and large requests, all shards together, such as 4GiB; at least 16MiB a core; in the file: memory
    /// [default: 1GiB a core, at most a quarter of the machine]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub memory: Option<String>,
    /// Kafka nodes that clients see, each with a port and an id; 1 puts all shards on one port (NAT, containers, load
    /// balancers); in the file: nodes [default: one per shard]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub nodes: Option<String>,
    /// Id of the first node, from 0; the next has the next id; in the file: node.id [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub node_id: Option<String>,
    /// Ordinary writes and fdatasync, for file systems without direct I/O (tmpfs, overlay): as safe, slower; in the file:
    /// buffered=true
    #[arg(long)]
    pub buffered: bool,
    /// Serve Prometheus metrics at http://HOST:PORT/metrics; in the file: metrics [default: not served]
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,
    /// Properties file with Kafka's keys (num.partitions=6) and those named here; flags win over it
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// Set one key as the file would, and win over it; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

const SERVE_AFTER: &str = "\
Nothing has to be given. ^C, SIGTERM or SIGHUP stops it cleanly, within 2 seconds.
A node is what Kafka's clients call a broker: by default each core is one, on the ports from --listen on.
RINGLOG_LOG=debug in the environment makes it say more.";
