//! The command line of ringlog.

use ringlog::metadata::config::StaticConfig;
use ringlog::server::{ServeOptions, serve};

fn main() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("RINGLOG_LOG").unwrap_or("info".into()),
        )
        .init();
    let args: Vec<String> = std::env::args().collect();
    let get = |f: &str, d: &str| {
        args.iter()
            .position(|a| a == f)
            .map_or(d.to_string(), |i| args[i + 1].clone())
    };
    let cores: Vec<usize> = get("--cores", "0,1")
        .split(',')
        .map(|c| c.parse().unwrap())
        .collect();
    let options = ServeOptions {
        data: get("--data", "./ringlog-data").into(),
        listen: get("--listen", "127.0.0.1:9092").parse().unwrap(),
        advertise: None,
        nodes: get("--nodes", &cores.len().to_string()).parse().unwrap(),
        cores,
        memory: 2 << 30,
        node_id: 0,
        buffered: args.iter().any(|a| a == "--buffered"),
        metrics: args
            .iter()
            .any(|a| a == "--metrics")
            .then(|| get("--metrics", "").parse().unwrap()),
        statics: StaticConfig::default(),
    };
    if let Err(error) = serve(options) {
        eprintln!("ringlog: {error}");
        std::process::exit(1);
    }
}
