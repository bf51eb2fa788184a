//! A broker of our own for a run: this very program on a temporary directory and other cores.
//! Made by `target`; owned by the run.
//! Always: it ends with the run and its directory goes with it, however the run ends (the directory stays after a kill -9 of the run).
//! What is measured against it is the mode's.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::environment::list;
use crate::io::child;

/// A broker that runs.
#[derive(Debug)]
pub struct OwnBroker {
    child: Child,
    home: PathBuf,
    pub address: String,
    /// Ordinary writes, because the file system has no direct I/O.
    pub buffered: bool,
}

/// What it is started with.
#[derive(Clone, Debug, Default)]
pub struct OwnOptions {
    /// Where its directory is made; `None`: where temporary files go.
    pub dir: Option<PathBuf>,
    pub cores: Vec<usize>,
    /// `KEY=VALUE` for `--set`.
    pub settings: Vec<String>,
}

const START: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Lines of its log that are shown when it does not start.
const LOG_LINES: usize = 8;

impl OwnBroker {
    pub fn start(options: &OwnOptions) -> Result<OwnBroker, String> {
        let base = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        let home = base.join(format!("ringlog-bench-{}", std::process::id()));
        fs::create_dir(&home).map_err(|error| {
            format!(
                "{}: {error}; name a directory that can be written with --dir",
                home.display()
            )
        })?;
        match OwnBroker::start_in(&home, options, false) {
            Err(log) if log.contains("--buffered") => OwnBroker::start_in(&home, options, true),
            started => started,
        }
        .inspect_err(|_| {
            let _ = fs::remove_dir_all(&home);
        })
    }

    fn start_in(home: &Path, options: &OwnOptions, buffered: bool) -> Result<OwnBroker, String> {
        let port = free_ports(options.cores.len())?;
        let address = format!("127.0.0.1:{port}");
        let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
        let log_path = home.join("broker.log");
        let log = File::create(&log_path).map_err(|e| format!("{}: {e}", log_path.display()))?;
        let errors = log
            .try_clone()
            .map_err(|e| format!("{}: {e}", log_path.display()))?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", &address, "--data"])
            .arg(home.join("data"))
            .args(["--cores", &list(&options.cores)])
            .args(options.settings.iter().flat_map(|s| ["--set", s.as_str()]))
            .args(buffered.then_some("--buffered"))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        child::bind_to_this_thread(&mut command);
        let child = command
            .spawn()
            .map_err(|e| format!("the broker of this run: {e}"))?;
        let mut broker = OwnBroker {
            child,
            home: home.to_path_buf(),
            address,
            buffered,
        };
        match broker.wait_until_it_listens() {
            Ok(()) => Ok(broker),
            Err(why) => {
                let text = fs::read_to_string(&log_path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
                broker.keep_home();
                Err(format!("the broker of this run {why}:\n  {tail}"))
            }
        }
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while std::net::TcpStream::connect(&self.address).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("did not start ({status})"));
            }
            if began.elapsed() > START {
                return Err(format!("did not listen within {} s", START.as_secs()));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The last line of its log that is a warning or an error.
    pub fn last_complaint(&self) -> Option<String> {
        let log = fs::read_to_string(self.home.join("broker.log")).ok()?;
        let complaint = log.lines().rev().find(|line| {
            let mut words = line.split_whitespace();
            words.any(|word| word == "ERROR" || word == "WARN" || word == "error:")
        });
        complaint.map(str::to_owned)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// For a second try in the same place.
    fn keep_home(&mut self) {
        self.end();
        self.home = PathBuf::new();
    }

    fn end(&mut self) {
        // Its data goes with it: nothing is lost by a kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        self.end();
        if !self.home.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.home);
        }
    }
}

/// The first of `count` ports behind each other that nobody listens on.
fn free_ports(count: usize) -> Result<u16, String> {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let first = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
            let port = listener.local_addr()?.port();
            Ok((listener, port))
        });
        let (_held, port) = first.map_err(|error| format!("no free port: {error}"))?;
        let others = (1..count as u16).map(|n| {
            let next = port
                .checked_add(n)
                .ok_or(std::io::ErrorKind::InvalidInput)?;
            TcpListener::bind(("127.0.0.1", next))
        });
        if others.collect::<Result<Vec<_>, _>>().is_ok() {
            return Ok(port);
        }
    }
    Err(format!("no {count} free ports behind each other"))
}
