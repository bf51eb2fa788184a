//! The broker under test: given by its address, or one of our own; what is known of it; the topic of a run.
//! On the first thread; questions are asked from a reactor of its own on a load core.
//! Always: a topic the run has made is deleted after it, unless it is to be kept.
//! What is measured is the mode's.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::environment::{Broker, Disk, Environment, UNKNOWN, list};
use super::load::Load;
use super::own_broker::{OwnBroker, OwnOptions};
use super::process::{self, Watched};
use crate::client::connection::resolve;
use crate::client::metadata::{self, End, Topic};
use crate::client::{ClientError, Connection};
use crate::io::{executor, random};

/// A broker to measure.
#[derive(Debug)]
pub struct Target {
    pub address: String,
    own: Option<OwnBroker>,
    pub watched: Option<Watched>,
    pub load_cores: Vec<usize>,
    pub broker_cores: Option<Vec<usize>>,
    /// It was named, and is not the one behind the address.
    foreign_pid: bool,
}

/// Where to find a broker, and on which cores both sides run.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions {
    /// `None`: one of our own.
    pub bootstrap: Option<String>,
    pub pid: Option<u32>,
    pub load_cores: Option<Vec<usize>>,
    pub broker_cores: Option<Vec<usize>>,
    pub own: OwnOptions,
}

/// A topic ready to be used.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub topic: Topic,
    /// Made by this run.
    pub made: bool,
    /// First offset and the one behind the last, by partition.
    pub bounds: Vec<(i64, i64)>,
    pub configs: BTreeMap<String, String>,
    /// Where the broker says its data is.
    log_dirs: Option<String>,
}

/// Largest batch that brokers take without being told to.
const BATCH_BYTES_USUAL: usize = 1_000_000;
const TOPIC_CONFIGS: [&str; 5] = [
    "flush.messages",
    "flush.ms",
    "min.insync.replicas",
    "compression.type",
    "segment.bytes",
];

impl Target {
    pub fn open(options: &TargetOptions) -> Result<Target, String> {
        let allowed = executor::available_cores();
        let (broker, load) = split_cores(&allowed, options)?;
        let Some(address) = &options.bootstrap else {
            let own = OwnOptions {
                cores: broker.clone(),
                ..options.own.clone()
            };
            let own = OwnBroker::start(&own)?;
            return Ok(Target {
                address: own.address.clone(),
                watched: Some(Watched::process(own.pid())),
                own: Some(own),
                load_cores: load,
                broker_cores: Some(broker),
                foreign_pid: false,
            });
        };
        let listens = || resolve(address).ok().and_then(Watched::listening_at);
        let foreign_pid = options.pid.is_some_and(|pid| {
            let listener = listens();
            listener.is_some_and(|listener| listener.pid != pid)
        });
        let found = match options.pid {
            Some(pid) if !PathBuf::from(format!("/proc/{pid}")).exists() => {
                return Err(format!("--pid {pid}: there is no such process"));
            }
            Some(pid) => Some(Watched::process(pid)),
            None => listens(),
        };
        Ok(Target {
            address: address.clone(),
            own: None,
            watched: found,
            load_cores: load,
            broker_cores: options.broker_cores.clone(),
            foreign_pid,
        })
    }

    /// Notes that belong into every result.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.foreign_pid {
            notes.push(format!(
                "the process of --pid is not the one that listens at {}: its CPU time may have nothing to do with this",
                self.address
            ));
        }
        let shared: Vec<usize> = match (&self.own, self.watched.and_then(Watched::cores)) {
            (None, Some(cores)) => {
                let loads = self.load_cores.iter().copied();
                loads.filter(|core| process::is_in(&cores, *core)).collect()
            }
            _ => Vec::new(),
        };
        if !shared.is_empty() && self.broker_cores.is_none() {
            notes.push(format!(
                "the broker may run on core {} of the load, too: each may slow the other; start it on other cores",
                list(&shared)
            ));
        }
        if let Some(own) = &self.own {
            let cores = self.broker_cores.as_deref().unwrap_or_default();
            if cores.iter().any(|core| self.load_cores.contains(core)) {
                notes.push(format!(
                    "broker and load share core {}: each slows the other",
                    list(cores)
                ));
            }
            if own.buffered {
                notes.push(
                    "the file system has no direct I/O: the broker writes with --buffered"
                        .to_owned(),
                );
            }
        }
        notes
    }

    /// What a broker of our own complained of last.
    pub fn complaint(&self) -> Option<String> {
        self.own.as_ref()?.last_complaint()
    }

    /// Asks the broker something, from a reactor on a load core.
    pub fn ask<T, F>(&self, question: F) -> Result<T, String>
    where
        T: Send + 'static,
        F: AsyncFnOnce(&mut Connection) -> Result<T, ClientError> + Send + 'static,
    {
        ask(&self.address, self.load_cores[0], question)
    }

    /// That there is a broker.
    pub fn answers(&self) -> Result<(), String> {
        self.ask(async |_| Ok(()))
    }

    /// Finds the topic, or makes it.
    pub fn prepare(
        &self,
        load: &Load,
        batch_bytes_max: usize,
        must_exist: bool,
    ) -> Result<Prepared, String> {
        let name = load.topic.clone().unwrap_or_else(own_topic_name);
        let (partitions, mut configs) = (load.partitions, load.configs.clone());
        let sized = configs.iter().any(|(key, _)| key == "max.message.bytes");
        if batch_bytes_max > BATCH_BYTES_USUAL && !sized {
            configs.push((
                "max.message.bytes".to_owned(),
                (batch_bytes_max + 1024).to_string(),
            ));
        }
        self.ask(async move |connection| {
            let found = metadata::find(connection, &name).await?;
            let made = found.is_none();
            let topic = match found {
                Some(topic) => topic,
                None if must_exist => {
                    return Err(ClientError::refused(
                        format!("topic {name} can't be read"),
                        crate::base::ErrorCode::UnknownTopicOrPartition.code(),
                        Some(
                            "there is no such topic; leave --topic out to have one made and filled",
                        ),
                    ));
                }
                None => {
                    metadata::create(connection, &name, partitions, &configs).await?;
                    metadata::find_made(connection, &name).await?
                }
            };
            let told = metadata::topic_configs(connection, &name, &TOPIC_CONFIGS).await;
            let node = metadata::brokers(connection).await?;
            let log_dirs = match node.first() {
                Some((node, _)) => {
                    let told = metadata::broker_configs(connection, *node, &["log.dirs"]).await;
                    told.ok().and_then(|mut found| found.remove("log.dirs"))
                }
                None => None,
            };
            let bounds = match bounds(&topic).await {
                Ok(bounds) => bounds,
                Err(error) => {
                    if made {
                        metadata::delete(connection, &topic).await?;
                    }
                    return Err(error);
                }
            };
            Ok(Prepared {
                topic,
                made,
                bounds,
                configs: told.unwrap_or_default(),
                log_dirs,
            })
        })
    }

    /// The offsets as they are now.
    pub fn bounds(&self, topic: &Topic) -> Result<Vec<(i64, i64)>, String> {
        let topic = topic.clone();
        self.ask(async move |_| bounds(&topic).await)
    }

    /// Deletes what the run has made; the name of a topic that stays.
    pub fn clean_up(&self, prepared: &Prepared, keep: bool) -> Option<String> {
        if keep || !prepared.made {
            return None;
        }
        let topic = prepared.topic.clone();
        let deleted = self.ask(async move |connection| metadata::delete(connection, &topic).await);
        // A broker of our own takes it along in any case; until then it must not hold what the next step needs.
        deleted.err().filter(|_| self.own.is_none())
    }

    /// What is known around the numbers of a load on the first so many load cores.
    pub fn environment(&self, prepared: &Prepared, load: &Load, cores: usize) -> Environment {
        let used = &self.load_cores[..cores.min(self.load_cores.len())];
        let mut environment = Environment::gather(used);
        let data = match &self.own {
            Some(own) => Some(own.data()),
            None => {
                let first = prepared
                    .log_dirs
                    .as_deref()
                    .and_then(|d| d.split(',').next());
                let local = self.watched.and_then(|watched| {
                    // A relative one is relative to where the broker runs.
                    let home = fs::read_link(format!("/proc/{}/cwd", watched.pid)).ok()?;
                    Some(home.join(first?))
                });
                local.filter(|path| path.is_dir())
            }
        };
        environment.disk = data.map(|directory| Disk::of(&directory));
        let cores = self.watched.and_then(Watched::cores);
        environment.broker = Broker {
            address: self.address.clone(),
            software: match (&self.own, self.watched) {
                (Some(_), _) => format!("ringlog {} (own)", env!("CARGO_PKG_VERSION")),
                (None, Some(watched)) => software(watched),
                (None, None) => UNKNOWN.to_owned(),
            },
            pid: self.watched.map(|watched| watched.pid),
            cores: match &self.broker_cores {
                Some(cores) => list(cores),
                None => cores.unwrap_or_else(|| UNKNOWN.to_owned()),
            },
            durability: durability(&prepared.configs, load),
            configs: prepared.configs.clone(),
        };
        environment
    }
}

/// Asks a broker something, from a reactor on this core.
fn ask<T, F>(address: &str, core: usize, question: F) -> Result<T, String>
where
    T: Send + 'static,
    F: AsyncFnOnce(&mut Connection) -> Result<T, ClientError> + Send + 'static,
{
    let address = address.to_owned();
    let shard = executor::run_shard(Some(core), "question", move || async move {
        let mut connection = Connection::open(&address).await?;
        question(&mut connection).await
    });
    let answer = shard.and_then(executor::ShardHandle::join);
    answer
        .map_err(|error| format!("no thread for core {core}: {error}"))?
        .map_err(|error| error.to_string())
}

async fn bounds(topic: &Topic) -> Result<Vec<(i64, i64)>, ClientError> {
    let mut by_leader: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (partition, leader) in topic.leaders.iter().enumerate() {
        by_leader.entry(leader).or_default().push(partition as i32);
    }
    let mut bounds = vec![(0, 0); topic.partitions()];
    for (leader, partitions) in by_leader {
        let mut connection = Connection::open(leader).await?;
        let first = metadata::offsets(&mut connection, topic, &partitions, End::Earliest).await?;
        let last = metadata::offsets(&mut connection, topic, &partitions, End::Latest).await?;
        for (partition, offset) in first {
            bounds[partition as usize].0 = offset;
        }
        for (partition, offset) in last {
            bounds[partition as usize].1 = offset;
        }
    }
    Ok(bounds)
}

fn own_topic_name() -> String {
    let [a, b, c, d] = random::bytes::<4>();
    format!("ringlog-bench-{a:02x}{b:02x}{c:02x}{d:02x}")
}

/// Cores of the broker and of the load: as told, else one half each.
fn split_cores(
    allowed: &[usize],
    options: &TargetOptions,
) -> Result<(Vec<usize>, Vec<usize>), String> {
    let told = [&options.load_cores, &options.broker_cores];
    for core in told.into_iter().flatten().flatten() {
        if !allowed.contains(core) {
            return Err(format!(
                "this process may not run on core {core}; name some of {}",
                list(allowed)
            ));
        }
    }
    let half = (allowed.len() / 2).max(1);
    let rest = |taken: &[usize]| -> Vec<usize> {
        let left: Vec<usize> = allowed
            .iter()
            .copied()
            .filter(|c| !taken.contains(c))
            .collect();
        match left.is_empty() {
            true => allowed.to_vec(),
            false => left,
        }
    };
    Ok(match (&options.broker_cores, &options.load_cores) {
        (Some(broker), Some(load)) => (broker.clone(), load.clone()),
        (Some(broker), None) => (broker.clone(), rest(broker)),
        (None, Some(load)) => (rest(load), load.clone()),
        (None, None) => {
            let broker = allowed[..half].to_vec();
            let load = rest(&broker);
            (broker, load)
        }
    })
}

/// Whether an acknowledged record is on the disk, in a word.
pub fn durable(configs: &BTreeMap<String, String>) -> &'static str {
    match configs.get("flush.messages").map(String::as_str) {
        None => "durability unknown",
        Some("1") if flush_ms(configs).is_some() => "durability unknown",
        Some("1") => "durable",
        Some(_) => "not durable",
    }
}

/// `flush.ms`, if something is synced by it.
fn flush_ms(configs: &BTreeMap<String, String>) -> Option<&str> {
    let ms = configs.get("flush.ms")?;
    (ms.parse() != Ok(i64::MAX)).then_some(ms)
}

/// What the broker's own configuration says about acknowledged records.
fn durability(configs: &BTreeMap<String, String>, load: &Load) -> String {
    use super::load::Acks;
    let synced = match configs.get("flush.messages").map(String::as_str) {
        None => {
            "unknown whether synced to disk (the broker does not tell flush.messages)".to_owned()
        }
        Some("1") => match flush_ms(configs) {
            None => "synced to disk before the ack (flush.messages=1)".to_owned(),
            // A ringlog that was given this alone acknowledges from memory.
            Some(ms) => format!(
                "synced to disk before the ack only if flush.messages=1 was asked for, too (flush.ms={ms})"
            ),
        },
        Some(messages) if messages.parse() == Ok(i64::MAX) => {
            "in memory of the broker's machine, not synced to disk (no flush.messages)".to_owned()
        }
        Some(messages) => format!("synced to disk only now and then (flush.messages={messages})"),
    };
    match load.acks {
        Acks::None => "not acknowledged (acks=0)".to_owned(),
        acks => format!("acks={acks}: {synced}"),
    }
}

/// Name and version of a local process, as far as it tells.
fn software(watched: Watched) -> String {
    let exe = fs::read_link(format!("/proc/{}/exe", watched.pid)).unwrap_or_default();
    let name = exe
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    if let Some("ringlog") = name.as_deref() {
        // The file of the process itself, whatever has its name now.
        let told = Command::new(format!("/proc/{}/exe", watched.pid))
            .arg("--version")
            .output();
        let version = told
            .ok()
            .and_then(|told| String::from_utf8(told.stdout).ok());
        let version = version.map(|text| text.trim().to_owned());
        return version
            .filter(|text| !text.is_empty())
            .unwrap_or("ringlog".to_owned());
    }
    let open = fs::read_dir(format!("/proc/{}/fd", watched.pid));
    let jars = open.into_iter().flatten().filter_map(|entry| {
        let target = fs::read_link(entry.ok()?.path()).ok()?;
        let file = target.file_name()?.to_str()?.to_owned();
        let version = file.strip_prefix("kafka-clients-")?.strip_suffix(".jar")?;
        Some(format!("Apache Kafka {version}"))
    });
    let kafka = jars.into_iter().next();
    kafka.or(name).unwrap_or_else(|| UNKNOWN.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(
        allowed: &[usize],
        broker: Option<&[usize]>,
        load: Option<&[usize]>,
    ) -> (Vec<usize>, Vec<usize>) {
        let options = TargetOptions {
            broker_cores: broker.map(<[usize]>::to_vec),
            load_cores: load.map(<[usize]>::to_vec),
            ..TargetOptions::default()
        };
        split_cores(allowed, &options).unwrap()
    }

    #[test]
    fn both_sides_get_cores_of_their_own_where_there_are_two() {
        assert_eq!(split(&[0, 1], None, None), (vec![0], vec![1]));
        assert_eq!(split(&[0, 1, 2, 3], None, None), (vec![0, 1], vec![2, 3]));
        assert_eq!(split(&[3], None, None), (vec![3], vec![3]));
        assert_eq!(split(&[0, 1, 2], Some(&[2]), None), (vec![2], vec![0, 1]));
        assert_eq!(split(&[0, 1, 2], None, Some(&[0])), (vec![1, 2], vec![0]));
    }

    #[test]
    fn cores_are_found_in_the_kernels_list() {
        for (list, core, there) in [
            ("0-3,5", 2, true),
            ("0-3,5", 4, false),
            ("5", 5, true),
            ("", 0, false),
        ] {
            assert_eq!(process::is_in(list, core), there, "{core} in {list}");
        }
    }

    #[test]
    fn durability_is_what_the_broker_says() {
        let load = Load::default();
        let of = |value: &str| {
            let configs = BTreeMap::from([("flush.messages".to_owned(), value.to_owned())]);
            durability(&configs, &load)
        };
        assert!(of("1").contains("synced to disk before"));
        assert!(of("9223372036854775807").contains("not synced"));
        let mut configs = BTreeMap::from([
            ("flush.messages".to_owned(), "1".to_owned()),
            ("flush.ms".to_owned(), i64::MAX.to_string()),
        ]);
        assert_eq!(durable(&configs), "durable");
        configs.insert("flush.ms".to_owned(), "1000".to_owned());
        assert_eq!(durable(&configs), "durability unknown");
        assert!(durability(&configs, &load).contains("flush.ms=1000"));
        assert!(of("1000").contains("now and then"));
        assert!(durability(&BTreeMap::new(), &load).contains("unknown"));
    }
}
