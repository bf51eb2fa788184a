//! The life of the broker's process: checks, shards, recovery, listeners, and an orderly stop.
//! Called by the command line; one thread per shard, this one waits.
//! Always: a port is opened when everything behind it can be served; a stop answers what is in flight, flushes, and leaves a
//! checkpoint.
//! What is checked beforehand is `io::preflight`'s, what is found on the disk `shard::recover`'s.

use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{self, Peer};
use super::sweep::Server;
use crate::base::{NodeId, ShardId, Uuid};
use crate::io::arena::Arena;
use crate::io::file::WriteMode;
use crate::io::listener::Listener;
use crate::io::mesh::{Mesh, Seat};
use crate::io::socket::Socket;
use crate::io::{clock, executor, preflight, random, signal};
use crate::metadata::config::StaticConfig;
use crate::metadata::{Image, Machine, MachineNode, placement};
use crate::shard::{
    Arrival, Descriptors, Found, Job, Meeting, RefusedPartitions, Settings, Shard, find,
};
use crate::wire::Str;

/// What `ringlog serve` was told.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The data directory (`log.dirs`).
    pub data: PathBuf,
    /// Where the first node listens; the others on the ports behind.
    pub listen: SocketAddr,
    /// Host and port that clients are told of the first node; the others on the ports behind.
    pub advertise: (String, u16),
    /// What tells this machine from others (`broker.rack`).
    pub rack: String,
    /// Cores, one for each shard.
    pub cores: Vec<usize>,
    /// Bytes of memory for all shards together.
    pub memory: u64,
    /// Nodes that the shards form; at most one per shard.
    pub nodes: u16,
    /// Id of the first node.
    pub node_id: i32,
    /// Ordinary writes and fdatasync, for file systems without direct I/O.
    pub buffered: bool,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// All configuration of the start, by node.
    pub node_statics: Vec<StaticConfig>,
}

/// Why the broker did not start: one line that names the cause and the fix.
#[derive(Debug)]
pub struct ServeError(pub String);

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServeError {}

impl<E: fmt::Display> From<E> for StartFailed {
    fn from(error: E) -> StartFailed {
        StartFailed(error.to_string())
    }
}

/// An error on the way up, as text.
struct StartFailed(String);

/// What every shard needs to start.
struct Plan {
    settings: Arc<Settings>,
    found: Arc<Found>,
    machine: Machine,
    cluster_id: Str,
    /// By shard.
    listen: Vec<SocketAddr>,
    begun: Instant,
}

/// Runs the broker until it is told to stop.
pub fn serve(options: ServeOptions) -> Result<(), ServeError> {
    serve_inner(options).map_err(|StartFailed(text)| ServeError(text))
}

fn serve_inner(options: ServeOptions) -> Result<(), StartFailed> {
    let begun = Instant::now();
    let shards = u16::try_from(options.cores.len())?;
    let mode = match options.buffered {
        true => WriteMode::Buffered,
        false => WriteMode::Direct,
    };
    judge(preflight::check_machine())?;
    let descriptors = Descriptors::new(preflight::descriptors(), usize::from(shards))?;
    // A port in use is told before anything is made or recovered; that the directory is in use says more, so it comes first.
    let used = preflight::lock_used_data_dir(&options.data)?;
    let listen: Vec<_> = (0..shards)
        .map(|shard| address(&options, shards, shard))
        .collect();
    let listeners = bind_all(&listen)?;
    let metrics = options.metrics;
    let mut metrics = metrics
        .map(|address| bind("--metrics", address))
        .transpose()?;
    judge(preflight::check_data_dir(&options.data, mode))?;
    let lock = match used {
        Some(lock) => lock,
        None => preflight::lock_data_dir(&options.data)?,
    };
    signal::install()?;
    let cluster_id = find::cluster_id(&options.data, || Uuid::from_random(random::bytes()))?;
    let found = Arc::new(find::scan(&options.data)?);
    let memory = options.memory / u64::from(shards);
    let settings = Arc::new(Settings {
        descriptors,
        data: options.data.clone(),
        mode,
        nodes: options.nodes,
        node_id: NodeId(options.node_id),
        node_statics: options.node_statics.iter().cloned().map(Arc::new).collect(),
        memory: memory - memory / REQUESTS_PART,
        request_memory: usize::try_from(memory / REQUESTS_PART)?,
        shards,
        meeting: Meeting::default(),
        refused: RefusedPartitions::default(),
    });
    let plan = Arc::new(Plan {
        machine: machine(&options, shards),
        settings,
        found,
        cluster_id: Str::from(cluster_id),
        listen,
        begun,
    });
    if options.buffered {
        tell(format_args!(
            "buffered: ordinary writes and fdatasync, the promises are the same, the speed is not"
        ));
    }
    let seats = Mesh::build(options.cores.len());
    let mut threads = Vec::new();
    for ((seat, core), listener) in seats.into_iter().zip(&options.cores).zip(listeners) {
        let (plan, core) = (plan.clone(), *core);
        let name = format!("shard-{}", seat.shard());
        // The first shard takes it.
        let metrics = metrics.take();
        threads.push(executor::run_shard(
            Some(core),
            &name,
            move || async move {
                let ended = run(plan, seat, core, listener, metrics).await;
                if ended.is_err() {
                    // One shard alone serves nobody: the others stop too.
                    signal::ask_to_end();
                }
                ended
            },
        )?);
    }
    let mut ended = Vec::new();
    for thread in threads {
        ended.push(thread.join()?);
    }
    drop(lock);
    let ended = ended.into_iter().collect::<Result<Vec<_>, _>>();
    tell_stopped(&ended.map_err(StartFailed)?);
    Ok(())
}

/// One line for a person: what the stop of all shards did.
fn tell_stopped(ended: &[Stopped]) {
    let sum = |part: fn(&Stopped) -> u64| ended.iter().map(part).sum::<u64>();
    let begun = ended.iter().map(|one| one.begun).min();
    let left = ended.iter().filter(|one| !one.flushed).count();
    let checkpoints = match left {
        0 => "checkpoint written".to_owned(),
        left => format!("{left} shards not flushed in time, whose logs the next start verifies"),
    };
    tell(format_args!(
        "stopped: {} partitions, {} offline, {} bytes of log still written, {checkpoints}, in {} ms",
        sum(|one| one.partitions),
        sum(|one| one.offline),
        sum(|one| one.bytes_written),
        begun.map_or(0, |begun| begun.elapsed().as_millis())
    ));
}

/// A line on the standard output. The broker does not end when nobody reads it.
fn tell(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A listener for each shard; neighbours of one node share theirs.
fn bind_all(listen: &[SocketAddr]) -> Result<Vec<TcpListener>, StartFailed> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    for (index, &address) in listen.iter().enumerate() {
        listeners.push(match listeners.last() {
            Some(last) if listen[index - 1] == address => last.try_clone()?,
            _ => bind("--listen", address)?,
        });
    }
    Ok(listeners)
}

/// Binds a port. One that a killed broker had is free a moment after its end, when the kernel has taken down its rings: so a port in
/// use is tried again for a while.
fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, preflight::Finding> {
    let begun = Instant::now();
    loop {
        match Listener::bind_std(address) {
            Err(error)
                if error.kind() == std::io::ErrorKind::AddrInUse && begun.elapsed() < PORT_WAIT =>
            {
                std::thread::sleep(PORT_RETRY);
            }
            result => {
                return result.map_err(|error| preflight::describe_bind(flag, address, &error));
            }
        }
    }
}

/// Ends the start at the first finding that forbids it; says the others.
fn judge(findings: Vec<preflight::Finding>) -> Result<(), StartFailed> {
    for finding in findings {
        match finding.weight {
            preflight::Weight::Fatal => return Err(StartFailed(finding.text)),
            preflight::Weight::Advice => tracing::warn!("{}", finding.text),
        }
    }
    Ok(())
}

/// The address of a shard: each node has a port of its own.
fn address(options: &ServeOptions, shards: u16, shard: u16) -> SocketAddr {
    let node = (0..options.nodes)
        .find(|&node| placement::shards_of_node(node, options.nodes, shards).contains(&shard))
        .unwrap_or_else(|| panic!("shard {shard} belongs to no node"));
    SocketAddr::new(options.listen.ip(), options.listen.port() + node)
}

fn machine(options: &ServeOptions, shards: u16) -> Machine {
    let (host, port) = &options.advertise;
    let nodes = (0..options.nodes).map(|node| MachineNode {
        id: NodeId(options.node_id + i32::from(node)),
        host: Str::from(host.clone()),
        port: port + node,
        shards: placement::shards_of_node(node, options.nodes, shards)
            .map(ShardId)
            .collect(),
    });
    Machine {
        nodes: nodes.collect(),
        rack: Some(Str::from(options.rack.clone())),
        incarnation: Uuid::from_random(random::bytes()),
    }
}

/// What the stop of a shard did.
struct Stopped {
    begun: Instant,
    partitions: u64,
    offline: u64,
    /// Of the log, since the stop began.
    bytes_written: u64,
    /// Everything is on the disk, and its checkpoint says so.
    flushed: bool,
}

/// One shard from its start to its end.
async fn run(
    plan: Arc<Plan>,
    seat: Seat<Job>,
    core: usize,
    listener: TcpListener,
    metrics: Option<TcpListener>,
) -> Result<Stopped, String> {
    let arena = match Arena::new(plan.settings.memory) {
        Ok(arena) => arena,
        Err(error) => {
            return Err(format!(
                "{} bytes of memory for a shard can't be had: {error}; give less with --memory",
                plan.settings.memory
            ));
        }
    };
    let image = Arc::new(Image::empty(plan.cluster_id.clone()));
    let shard = Shard::new(
        plan.settings.clone(),
        seat.attach(),
        arena,
        image,
        plan.found.clone(),
    );
    let server = Server::new(shard.clone());
    executor::spawn_detached(shard.clone().receive_jobs());
    executor::spawn_detached(shard.clone().drive());
    executor::spawn_detached(shard.clone().keep_room());
    if shard.id == ShardId(0) {
        let started = shard.start_controller(&plan.machine).await;
        shard.tell_started(started.is_ok());
        started?;
    }
    let ready = shard.ready().await;
    if !ready {
        return Err(format!("shard {} was not started", shard.id));
    }
    shard.keep_ballast().await;
    shard
        .checkpoint_now()
        .await
        .map_err(|error| error.to_string())?;
    announce(&plan, &shard, core);
    let tasks = RefCell::new(Vec::new());
    tasks
        .borrow_mut()
        .push(executor::spawn(shard.clone().upkeep()));
    tasks
        .borrow_mut()
        .push(executor::spawn(server.clone().sweep()));
    take_arrivals(&server);
    let turned_away = {
        let shard = shard.clone();
        move || shard.counters.connections_turned_away.one()
    };
    let listener = Listener::from_std(listener).counting_turned_away(turned_away);
    let accepting = executor::spawn(accept(server.clone(), listener));
    if shard.id == ShardId(0) {
        shard
            .remove_old_checkpoints()
            .await
            .map_err(|error| error.to_string())?;
        if let Some(listener) = metrics {
            let listener = Listener::from_std(listener);
            tasks.borrow_mut().push(executor::spawn(crate::admin::serve(
                shard.clone(),
                listener,
            )));
        }
    }
    let signal = signal::asked_to_end().await;
    if shard.id == ShardId(0) {
        tell(format_args!(
            "stopping on {}: what is in flight is answered, what is in memory is written",
            signal::name(signal)
        ));
    }
    accepting.cancel().await;
    wind_down(&shard, &server).await
}

/// One line for a person: what this shard is and has.
fn announce(plan: &Plan, shard: &Shard, core: usize) {
    let recovered = shard.recovered();
    tell(format_args!(
        "shard {} core {core} node {} at {}: {} partitions, {} bytes of log, {} bytes read to verify, {} offline, in {} ms",
        shard.id,
        shard.node,
        plan.listen[usize::from(shard.id.0)],
        recovered.partitions,
        recovered.log_bytes,
        recovered.bytes_read,
        recovered.offline,
        plan.begun.elapsed().as_millis()
    ));
}

fn take_arrivals(server: &Rc<Server>) {
    let taker = server.clone();
    server.shard.on_arrival(Box::new(move |arrival: Arrival| {
        let peer = Peer {
            address: arrival.peer,
            local: arrival.local,
        };
        match Socket::from_fd(arrival.fd) {
            Ok(socket) => executor::spawn_detached(connection::serve(
                taker.clone(),
                socket,
                peer,
                arrival.buffer,
            )),
            Err(error) => tracing::warn!(peer = %peer.address, "connection lost: {error}"),
        }
    }));
}

/// Accepts connections until it is cancelled.
async fn accept(server: Rc<Server>, mut listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((socket, address)) => {
                if server.is_full() {
                    server.shard.counters.connections_turned_away.one();
                    continue;
                }
                server.shard.counters.connections_accepted.one();
                let local = socket
                    .local_address()
                    .unwrap_or(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 0));
                let peer = Peer { address, local };
                executor::spawn_detached(connection::serve(
                    server.clone(),
                    socket,
                    peer,
                    Default::default(),
                ));
            }
            Err(error) => {
                tracing::error!("no more connections are accepted: {error}");
                return;
            }
        }
    }
}

/// Answers what is in flight, makes everything durable, and writes the last checkpoint.
async fn wind_down(shard: &Rc<Shard>, server: &Rc<Server>) -> Result<Stopped, String> {
    tracing::debug!("shard {} stops", shard.id);
    let (begun_at, written) = (Instant::now(), shard.counters.disk_write_bytes.get());
    // Every wait ends at a time of one clock for all shards, so that slow ones do not add up.
    let begun = shard.begin_stop();
    let by = |ms| begun.plus_ms(ms);
    while !server.is_empty() && clock::mono() < by(ANSWERED_BY_MS) {
        executor::sleep(Duration::from_millis(5)).await;
    }
    tracing::debug!("shard {} has answered", shard.id);
    server.close_all();
    // Other shards may still need this one's partitions while they answer.
    shard.meet(by(MET_BY_MS)).await;
    let flushed = shard
        .finish(by(FLUSHED_BY_MS))
        .await
        .map_err(|error| error.to_string())?;
    tracing::debug!("shard {} is on the disk", shard.id);
    shard.meet(by(ENDED_BY_MS)).await;
    Ok(Stopped {
        begun: begun_at,
        partitions: shard.counters.partitions.get(),
        offline: shard.offline_count() as u64,
        bytes_written: shard.counters.disk_write_bytes.get() - written,
        flushed,
    })
}

/// So much of a shard's memory is for large requests on their way in; the rest is the arena.
const REQUESTS_PART: u64 = 8;
/// How long a port in use is waited for.
const PORT_WAIT: Duration = Duration::from_secs(2);
const PORT_RETRY: Duration = Duration::from_millis(20);
/// When the broker stops, requests in flight may take until then, in milliseconds since the first shard heard of it; what waits for
/// others (a join for its group, an answer for a reader that does not read) is cut off.
const ANSWERED_BY_MS: i64 = 600;
/// Then the other shards are waited for.
const MET_BY_MS: i64 = 800;
/// Then what is in memory goes to the disk; a checkpoint follows.
const FLUSHED_BY_MS: i64 = 1_300;
/// Then the other shards are waited for again; 2 s are promised.
const ENDED_BY_MS: i64 = 1_600;
