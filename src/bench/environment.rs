//! Where and how a run was made: kernel, CPU, disk, versions, durability, the exact command.
//! Gathered once per run, on the first thread.
//! Always: what can't be found out is "unknown", never left out or guessed.
//! Asking the broker is `durability`'s, watching its process `process`'s.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Everything around the numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// RFC 3339, UTC.
    pub date: String,
    pub command: String,
    pub ringlog: String,
    pub kernel: String,
    pub host: String,
    pub cpu_model: String,
    pub cpu_governor: String,
    pub load_cores: String,
    pub broker: Broker,
    /// Of the broker's data, where it is known.
    pub disk: Option<Disk>,
}

/// The side that is measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Broker {
    pub address: String,
    /// What it is and in which version, as far as its process tells.
    pub software: String,
    pub pid: Option<u32>,
    pub cores: String,
    /// What an acknowledged record can survive, as the broker's configuration says.
    pub durability: String,
    /// The configuration that was asked for.
    pub configs: BTreeMap<String, String>,
}

/// Where a directory lies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    pub directory: String,
    pub file_system: String,
    pub mount: String,
    pub device: String,
    pub scheduler: String,
    pub write_cache: String,
}

pub const UNKNOWN: &str = "unknown";

impl Environment {
    pub fn gather(load_cores: &[usize]) -> Environment {
        let read = |path: &str| trimmed(fs::read_to_string(path).ok());
        Environment {
            date: utc(std::time::SystemTime::now()),
            command: std::env::args()
                .map(|word| quoted(&word))
                .collect::<Vec<_>>()
                .join(" "),
            ringlog: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: read("/proc/sys/kernel/osrelease"),
            host: read("/proc/sys/kernel/hostname"),
            cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cpu_governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_cores: list(load_cores),
            broker: Broker::default(),
            disk: None,
        }
    }
}

fn trimmed(text: Option<String>) -> String {
    match text.as_deref().map(str::trim) {
        None | Some("") => UNKNOWN.to_owned(),
        Some(text) => text.to_owned(),
    }
}

/// Core numbers, comma between.
pub fn list(cores: &[usize]) -> String {
    let names: Vec<String> = cores.iter().map(usize::to_string).collect();
    names.join(",")
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|rest| rest.split_once(':'));
    trimmed(name.map(|(_, name)| name.to_owned()))
}

/// As a shell would have to be given it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Date and time, to the second.
fn utc(time: std::time::SystemTime) -> String {
    let since = time
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 0000-03-01, in eras of 400 years (Howard Hinnant's civil_from_days).
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

impl Disk {
    /// The disk under a directory.
    pub fn of(directory: &Path) -> Disk {
        let real = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let Some(mount) = mount_of(&mounts, &real) else {
            return Disk {
                directory: real.display().to_string(),
                file_system: UNKNOWN.to_owned(),
                mount: UNKNOWN.to_owned(),
                device: UNKNOWN.to_owned(),
                scheduler: UNKNOWN.to_owned(),
                write_cache: UNKNOWN.to_owned(),
            };
        };
        Disk {
            directory: real.display().to_string(),
            file_system: mount.file_system,
            mount: mount.options,
            device: mount.device,
            scheduler: chosen(&queue_of(&mount.number, "scheduler")),
            write_cache: queue_of(&mount.number, "write_cache"),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Mount {
    /// MAJOR:MINOR.
    number: String,
    options: String,
    file_system: String,
    device: String,
}

/// The mount that a path lies under: the longest mount point, the latest of equals.
fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let lines = mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        let point = before.get(4)?.replace(r"\040", " ");
        path.starts_with(&point).then_some((
            point.len(),
            Mount {
                number: before.get(2)?.to_string(),
                options: format!("{},{}", before.get(5)?, after.get(2).unwrap_or(&"")),
                file_system: after.first()?.to_string(),
                device: after.get(1)?.to_string(),
            },
        ))
    });
    lines
        .max_by_key(|(length, _)| *length)
        .map(|(_, mount)| mount)
}

/// A file of the request queue of a block device, that of the whole disk for a partition.
fn queue_of(number: &str, file: &str) -> String {
    let device = format!("/sys/dev/block/{number}");
    let own = fs::read_to_string(format!("{device}/queue/{file}"));
    let text = own.or_else(|_| fs::read_to_string(format!("{device}/../queue/{file}")));
    trimmed(text.ok())
}

/// The scheduler in brackets.
fn chosen(text: &str) -> String {
    let inner = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_796_081_415, "2026-11-30T23:30:15Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_nearest_mount_counts() {
        let info = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
                    35 21 7:0 / /mnt/a\\040b rw - xfs /dev/loop0 rw,noquota\n";
        let mount = mount_of(info, Path::new("/mnt/a b/data")).unwrap();
        assert_eq!(
            (mount.file_system.as_str(), mount.number.as_str()),
            ("xfs", "7:0")
        );
        let root = mount_of(info, Path::new("/mnt/other")).unwrap();
        assert_eq!(root.device, "/dev/vda");
        assert_eq!(root.options, "rw,relatime,rw,discard");
        assert_eq!(chosen("mq-deadline kyber [none]"), "none");
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--rate=5k"), "--rate=5k");
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
    }
}
