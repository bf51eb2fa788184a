//! From flags and file to the options of `ringlog serve`.
//! Runs once; reads the file and the host name.
//! Always: a flag wins over `--set`'s file key, never silently over the same key given by another flag; every value is checked
//! here, so that serving starts with nothing left to refuse but what the machine says.
//! Binding addresses, pinning cores and opening the directory is the caller's.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::UsageError;
use super::args::ServeFlags;
use super::properties;
use super::values::{HostPort, parse_advertised, parse_cores, parse_listener, parse_size};
use crate::metadata::config::{BrokerConfig, StaticConfig, StaticError, Taken, split_list};

/// How to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ServeOptions {
    pub data: PathBuf,
    /// Shard `i` listens on its port plus `i`.
    pub listen: HostPort,
    /// What clients are told of the first node; the node with index `i` adds `i` to the port.
    pub advertise: HostPort,
    /// Ascending; `None`: every core this process may use.
    pub cores: Option<Vec<usize>>,
    /// Bytes for the arenas of all shards; `None`: as the machine has.
    pub memory_bytes: Option<u64>,
    /// At least 1; `None`: one per shard.
    pub nodes: Option<u16>,
    /// Of the first node.
    pub node_id: i32,
    pub rack: String,
    /// Ordinary writes and fdatasync.
    pub buffered: bool,
    /// Where Prometheus metrics are served.
    pub metrics: Option<HostPort>,
    /// What was set, for resolving and describing configs.
    pub statics: StaticConfig,
    /// One line each, for a person.
    pub warnings: Vec<String>,
}

impl ServeOptions {
    /// What DescribeConfigs shows as static of the node with this index. Panics if its port is above 65535.
    pub fn node_statics(&self, index: u16) -> StaticConfig {
        let address = |first: &HostPort| {
            let port = first.port.checked_add(index);
            let host = first.host.clone();
            let port = port.unwrap_or_else(|| panic!("node {index} has no port after {first}"));
            format!("PLAINTEXT://{}", HostPort { host, port })
        };
        let id = (self.node_id + i32::from(index)).to_string();
        self.statics.with(&[
            ("node.id", &id),
            ("broker.id", &id),
            ("listeners", &address(&self.listen)),
            ("advertised.listeners", &address(&self.advertise)),
            ("broker.rack", &self.rack),
            ("log.dirs", &self.data.to_string_lossy()),
        ])
    }
}

const DATA_DEFAULT: &str = "./ringlog-data";
const LISTEN_DEFAULT: &str = "127.0.0.1:9092";

/// Options from the command line and the file it names.
pub(super) fn options(flags: &ServeFlags) -> Result<ServeOptions, UsageError> {
    let mut settings = Settings::default();
    if let Some(path) = &flags.config {
        let text = std::fs::read_to_string(path).map_err(|error| {
            UsageError(format!(
                "`--config {path}`: the file can't be read: {error}"
            ))
        })?;
        settings.add_file(path, &text)?;
    }
    settings.add_sets(&flags.set)?;
    settings.add_flags(flags)?;
    settings.options(&host_name())
}

/// The name of this machine: `rack`, and the advertised host behind a wildcard.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_string(),
        name => name.to_string(),
    }
}

/// Where a value was given.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    File { path: String, line: usize },
    Set,
    Flag { flag: &'static str, given: String },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{path} line {line}"),
            Origin::Set => f.write_str("--set"),
            Origin::Flag { flag, given } if given.is_empty() => f.write_str(flag),
            Origin::Flag { flag, given } => write!(f, "{flag} {given}"),
        }
    }
}

#[derive(Clone, Debug)]
struct Setting {
    value: String,
    origin: Origin,
}

/// The values by key, later ones over earlier ones.
#[derive(Default, Debug)]
struct Settings {
    values: BTreeMap<String, Setting>,
    warnings: Vec<String>,
}

/// Keys that name the same thing: a flag for one takes the place of the other in the file.
const ALIASES: &[(&str, &str)] = &[("node.id", "broker.id"), ("log.dirs", "log.dir")];

impl Settings {
    fn add_file(&mut self, path: &str, text: &str) -> Result<(), UsageError> {
        let properties = properties::parse(text)
            .map_err(|(line, error)| UsageError(format!("{path} line {line}: {error}")))?;
        for property in properties {
            let origin = Origin::File {
                path: path.to_string(),
                line: property.line,
            };
            let setting = Setting {
                value: property.value,
                origin,
            };
            if let Some(old) = self.values.insert(property.key.clone(), setting) {
                self.warnings.push(format!(
                    "`{}` is given twice, last in {path} line {}; the value in {} is not used",
                    property.key, property.line, old.origin
                ));
            }
        }
        Ok(())
    }

    fn add_sets(&mut self, sets: &[String]) -> Result<(), UsageError> {
        for text in sets {
            let Some((key, value)) = text.split_once('=') else {
                return Err(UsageError(format!(
                    "`--set {text}`: there is no value; write KEY=VALUE, such as num.partitions=6"
                )));
            };
            self.add(key.trim(), value.trim(), Origin::Set)?;
        }
        Ok(())
    }

    fn add_flags(&mut self, flags: &ServeFlags) -> Result<(), UsageError> {
        let given = [
            ("--data", "log.dirs", &flags.data),
            ("--listen", "listeners", &flags.listen),
            ("--advertise", "advertised.listeners", &flags.advertise),
            ("--cores", "cores", &flags.cores),
            ("--memory", "memory", &flags.memory),
            ("--nodes", "nodes", &flags.nodes),
            ("--node-id", "node.id", &flags.node_id),
            ("--metrics", "metrics", &flags.metrics),
        ];
        for (flag, key, value) in given {
            if let Some(value) = value {
                let origin = Origin::Flag {
                    flag,
                    given: value.clone(),
                };
                self.add(key, value, origin)?;
            }
        }
        if flags.buffered {
            let origin = Origin::Flag {
                flag: "--buffered",
                given: String::new(),
            };
            self.add("buffered", "true", origin)?;
        }
        Ok(())
    }

    /// A value from the command line, over the file.
    fn add(&mut self, key: &str, value: &str, origin: Origin) -> Result<(), UsageError> {
        for (a, b) in ALIASES {
            let other = match key {
                _ if key == *a => b,
                _ if key == *b => a,
                _ => continue,
            };
            if matches!(
                self.values.get(*other),
                Some(Setting {
                    origin: Origin::File { .. },
                    ..
                })
            ) {
                self.values.remove(*other);
            }
        }
        let setting = Setting {
            value: value.to_string(),
            origin: origin.clone(),
        };
        match self.values.insert(key.to_string(), setting) {
            Some(Setting {
                origin: old @ (Origin::Set | Origin::Flag { .. }),
                ..
            }) => Err(UsageError(format!(
                "`{key}` is given twice, by {old} and by {origin}: keep one"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks everything and takes it apart.
    fn options(mut self, host_name: &str) -> Result<ServeOptions, UsageError> {
        let listen = match self.listener("listeners")? {
            Some(address) => address,
            None if self.values.contains_key("listeners") => {
                let problem =
                    "no listener for clients is named; write HOST:PORT, such as 127.0.0.1:9092";
                return Err(self.wrong("listeners", problem));
            }
            None => HostPort::parse(LISTEN_DEFAULT).expect("a valid default"),
        };
        let advertise = self.advertised(&listen, host_name)?;
        self.normalize_addresses(&listen, &advertise);
        for key in ["log.dirs", "log.dir"] {
            if self
                .values
                .get(key)
                .is_some_and(|s| s.value.trim().is_empty())
            {
                let problem = "no directory is named; write one, such as ./ringlog-data";
                return Err(self.wrong(key, problem));
            }
        }
        // Before the definitions see them: these know the range of each number.
        let nodes = self.parsed("nodes", parse_nodes)?;
        let node_id = self.parsed("node.id", parse_node_id)?;
        let node_id = self.parsed("broker.id", parse_node_id)?.or(node_id);
        let statics = self.statics()?;
        let mut options = ServeOptions {
            data: statics
                .get("log.dirs")
                .or(statics.get("log.dir"))
                .unwrap_or(DATA_DEFAULT)
                .into(),
            listen,
            advertise,
            cores: self.parsed("cores", parse_cores)?,
            memory_bytes: self.parsed("memory", parse_size)?,
            nodes,
            node_id: node_id.unwrap_or(0),
            rack: statics
                .get("broker.rack")
                .filter(|rack| !rack.is_empty())
                .unwrap_or(host_name)
                .to_string(),
            buffered: statics
                .get("buffered")
                .is_some_and(|text| text.eq_ignore_ascii_case("true")),
            metrics: self.parsed("metrics", HostPort::parse)?,
            statics,
            warnings: Vec::new(),
        };
        options.warnings = self.warnings;
        Ok(options)
    }

    /// Reads the value of a key by a function that says what is wrong and what is right.
    fn parsed<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, UsageError> {
        let Some(setting) = self.values.get(key) else {
            return Ok(None);
        };
        parse(setting.value.trim())
            .map(Some)
            .map_err(|problem| self.wrong(key, &problem))
    }

    fn wrong(&self, key: &str, problem: &str) -> UsageError {
        match self.values.get(key) {
            Some(Setting {
                origin: origin @ Origin::Flag { .. },
                ..
            }) => UsageError(format!("`{origin}`: {problem}")),
            Some(Setting { value, origin }) => {
                UsageError(format!("`{key}` = {value} in {origin}: {problem}"))
            }
            None => UsageError(format!("`{key}`: {problem}")),
        }
    }

    /// The one address in a list of listeners; those of a KRaft controller are left out.
    fn listener(&self, key: &str) -> Result<Option<HostPort>, UsageError> {
        let Some(setting) = self.values.get(key) else {
            return Ok(None);
        };
        let text = |key: &str| self.values.get(key).map_or("", |s| s.value.as_str());
        let controllers = split_list(text("controller.listener.names"));
        let protocols = split_list(text("listener.security.protocol.map"));
        let protocol_of = |name: &str| {
            let mapped = protocols.iter().filter_map(|pair| pair.split_once(':'));
            mapped
                .into_iter()
                .find(|(mapped, _)| mapped.eq_ignore_ascii_case(name))
                .map_or(name.to_string(), |(_, protocol)| {
                    protocol.to_ascii_uppercase()
                })
        };
        let mut found = None;
        for listener in split_list(&setting.value) {
            let (name, address) =
                parse_listener(&listener).map_err(|problem| self.wrong(key, &problem))?;
            if controllers.iter().any(|c| c.eq_ignore_ascii_case(&name)) {
                continue;
            }
            let protocol = protocol_of(&name);
            if protocol != "PLAINTEXT" {
                let problem = format!(
                    "{protocol} is not served; only PLAINTEXT is: every byte and every client is trusted on this listener"
                );
                return Err(self.wrong(key, &problem));
            }
            if found.replace(address).is_some() {
                return Err(self.wrong(key, "there is one listener; name one"));
            }
        }
        Ok(found)
    }

    /// What clients are told: `--advertise` or `advertised.listeners`, else the listen address.
    fn advertised(&self, listen: &HostPort, host_name: &str) -> Result<HostPort, UsageError> {
        let key = "advertised.listeners";
        let address = match self.values.get(key) {
            Some(setting) if setting.value.contains("://") => self.listener(key)?,
            Some(_) => self.parsed(key, |text| parse_advertised(text, listen.port))?,
            None => None,
        };
        match address {
            Some(address) if address.host.is_empty() => {
                Err(self.wrong(key, "no host is named; name one that clients can reach"))
            }
            Some(address) if address.is_wildcard() => Err(self.wrong(
                key,
                "clients can't connect to every address; name one they can reach",
            )),
            Some(address) => Ok(address),
            None if listen.is_wildcard() => Ok(HostPort {
                host: host_name.to_string(),
                port: listen.port,
            }),
            None => Ok(listen.clone()),
        }
    }

    /// Addresses are kept as Kafka writes them, whichever way they were given.
    fn normalize_addresses(&mut self, listen: &HostPort, advertise: &HostPort) {
        for (key, address) in [("listeners", listen), ("advertised.listeners", advertise)] {
            if let Some(setting) = self.values.get_mut(key) {
                setting.value = format!("PLAINTEXT://{address}");
            }
        }
    }

    /// Every key, checked by its definition.
    fn statics(&mut self) -> Result<StaticConfig, UsageError> {
        let mut statics = StaticConfig::default();
        let mut warnings = Vec::new();
        for (key, Setting { value, origin }) in &self.values {
            match statics.set(key, value) {
                Ok(Taken::Honoured) => {}
                Ok(Taken::Inert(reason)) => {
                    warnings.push(format!("`{key}` in {origin} has no effect: {reason}"));
                }
                Ok(Taken::NotHonoured) => warnings.push(format!(
                    "`{key}` in {origin} is a key of Kafka that ringlog does not act on"
                )),
                Err(StaticError::Unknown { suggestion }) => {
                    let fix = match suggestion {
                        Some(near) => format!("; did you mean `{near}`?"),
                        None => "; remove it".to_string(),
                    };
                    return Err(UsageError(format!("unknown key `{key}` in {origin}{fix}")));
                }
                Err(StaticError::Invalid(error)) => return Err(self.wrong(key, &error.reason)),
                Err(StaticError::Unsafe(reason)) => return Err(self.wrong(key, reason)),
            }
        }
        self.warnings.append(&mut warnings);
        BrokerConfig::check(&statics).map_err(UsageError)?;
        Ok(statics)
    }
}

fn parse_nodes(text: &str) -> Result<u16, String> {
    text.parse::<u16>()
        .ok()
        .filter(|nodes| *nodes > 0)
        .ok_or(format!(
            "`{text}` is no number of nodes; write 1 up to the number of cores"
        ))
}

fn parse_node_id(text: &str) -> Result<i32, String> {
    text.parse::<i32>()
        .ok()
        .filter(|id| *id >= 0)
        .ok_or(format!(
            "`{text}` is no node id; write a number from 0 to 2147483647"
        ))
}

#[cfg(test)]
mod tests;
