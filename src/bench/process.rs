//! The broker's process on this machine: found by the port it listens on, and watched.
//! Used on the first thread.
//! Always: a process that can't be looked at is no process, never an error of the run.
//! What its CPU time means is `result`'s.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A process, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    pub pid: u32,
    /// One thread of it alone.
    pub thread: Option<u32>,
}

/// Ticks of `/proc/PID/stat`: USER_HZ, which is 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// A thread with less than this of the CPU time of the busiest only looks after something.
const WORKING: f64 = 0.1;
/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

impl Watched {
    pub fn process(pid: u32) -> Watched {
        Watched { pid, thread: None }
    }

    /// The process that listens on the port of `address`, if that is an address of this machine.
    pub fn listening_at(address: SocketAddr) -> Option<Watched> {
        if !is_local(address) {
            return None;
        }
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let inodes: HashSet<u64> = tables
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok())
            .flat_map(|table| listening_inodes(&table, address.port()))
            .collect();
        if inodes.is_empty() {
            return None;
        }
        let names: HashSet<PathBuf> = inodes
            .iter()
            .map(|inode| PathBuf::from(format!("socket:[{inode}]")))
            .collect();
        let processes = fs::read_dir("/proc").ok()?;
        let mut pids =
            processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.find(|pid| holds_one_of(*pid, &names))
            .map(Watched::process)
    }

    /// CPU time so far, of the thread or of all threads, in seconds.
    pub fn cpu_seconds(self) -> Option<f64> {
        if let Some(thread) = self.thread {
            let path = format!("/proc/{}/task/{thread}/schedstat", self.pid);
            let nanos = fs::read_to_string(path).ok()?;
            return Some(nanos.split(' ').next()?.parse::<f64>().ok()? / 1e9);
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        cpu_of_stat(&stat)
    }

    /// Cores that its threads may run on, lists as the kernel writes them; of those threads that do the work.
    pub fn cores(self) -> Option<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let threads = threads.filter_map(|entry| {
            let path = entry.ok()?.path();
            let used = cpu_of_stat(&fs::read_to_string(path.join("stat")).ok()?)?;
            let status = fs::read_to_string(path.join("status")).ok()?;
            let mut lines = status.lines();
            let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some((used, list.trim().to_owned()))
        });
        let threads: Vec<(f64, String)> = threads.collect();
        let most = threads.iter().map(|(used, _)| *used).fold(0.0, f64::max);
        let working = threads
            .into_iter()
            .filter(|(used, _)| *used >= most * WORKING);
        let lists: BTreeSet<String> = working.map(|(_, list)| list).collect();
        (!lists.is_empty()).then(|| widest(&lists).join(","))
    }
}

/// Without those that lie within another.
fn widest(lists: &BTreeSet<String>) -> Vec<&str> {
    let within = |inner: &str, outer: &str| {
        ranges(inner).all(|part| ranges(outer).any(|of| of.0 <= part.0 && part.1 <= of.1))
    };
    let widest = lists.iter().filter(|list| {
        let mut others = lists.iter().filter(|other| other != list);
        !others.any(|other| within(list, other))
    });
    widest.map(String::as_str).collect()
}

/// Whether a list as the kernel writes it (`0-3,5`) has a core.
pub fn is_in(list: &str, core: usize) -> bool {
    ranges(list).any(|(first, last)| (first..=last).contains(&core))
}

fn ranges(list: &str) -> impl Iterator<Item = (usize, usize)> {
    list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().ok().zip(last.parse().ok())
    })
}

/// The thread that asks.
pub fn this_thread() -> Option<Watched> {
    let link = fs::read_link("/proc/thread-self").ok()?;
    let mut parts = link.to_str()?.split('/');
    let pid = parts.next()?.parse().ok()?;
    let thread = parts.nth(1)?.parse().ok()?;
    Some(Watched {
        pid,
        thread: Some(thread),
    })
}

/// CPU time of this process so far, in seconds.
pub fn own_cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    cpu_of_stat(&stat).unwrap_or(0.0)
}

fn is_local(address: SocketAddr) -> bool {
    // Only an address of this machine can be bound.
    address.ip().is_loopback() || std::net::UdpSocket::bind((address.ip(), 0)).is_ok()
}

fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    let lines = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let same = u16::from_str_radix(local_port, 16).ok()? == port;
        (same && *fields.get(3)? == LISTEN).then_some(fields.get(9)?.parse().ok()?)
    });
    lines.collect()
}

fn holds_one_of(pid: u32, names: &HashSet<PathBuf>) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .any(|target| names.contains(&target))
}

/// User and system time; the name in front of them may hold anything, also blanks and brackets.
fn cpu_of_stat(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_behind_a_listening_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let found = Watched::listening_at(address).unwrap();
        assert_eq!(found.pid, std::process::id());
        assert!(found.cpu_seconds().is_some());
        drop(listener);
        assert_eq!(Watched::listening_at(address), None);
        let elsewhere = "192.0.2.1:9092".parse().unwrap();
        assert_eq!(Watched::listening_at(elsewhere), None);
    }

    #[test]
    fn a_list_of_cores_within_another_says_nothing_more() {
        let found = |lists: &[&str]| {
            let lists = lists.iter().map(|list| (*list).to_owned()).collect();
            widest(&lists).join(",")
        };
        assert_eq!(found(&["0-1", "1"]), "0-1");
        assert_eq!(found(&["0", "0-1", "1"]), "0-1");
        assert_eq!(found(&["0", "1"]), "0,1");
        assert_eq!(found(&["0,2-3", "2", "0-1"]), "0,2-3,0-1");
    }

    #[test]
    fn a_thread_finds_itself() {
        let this = this_thread().expect("threads are files");
        assert_eq!(this.pid, std::process::id());
        assert!(this.cpu_seconds().is_some());
    }

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_of_stat(stat), Some(2.0));
        assert_eq!(cpu_of_stat("nonsense"), None);
    }
}
