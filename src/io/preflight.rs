//! What the machine must have, looked at before anything starts: each finding is one line with the cause and what to do.
//! Called once by the start of the process, on its first thread; no shard runs yet.
//! Always: nothing is changed but the soft limit of descriptors, the lock file and the signals; a check that can't be made is no finding.
//! Which findings end the start is decided by the caller: `Fatal` ones should.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use io_uring::{IoUring, Probe, opcode};

use super::file::{self, WriteMode};
use super::sys;

/// One thing that is not as it must be, or could be better.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub weight: Weight,
    /// One line: what is wrong, with its value, and what to do.
    pub text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// It would not run.
    Fatal,
    /// It runs, worse than it could.
    Advice,
}

/// Holds the lock on a data directory as long as it lives.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

/// Bytes of locked memory that glommio asks for.
const MEMLOCK_BYTES_MIN: u64 = 512 << 10;
/// Descriptors below which a broker of any size will run out.
const DESCRIPTORS_MIN: u64 = 1024;
/// Largest unit of direct I/O that segments are laid out for.
const DIRECT_BYTES_MAX: u32 = crate::base::limits::BLOCK_BYTES as u32;

const LOCK_FILE: &str = ".lock";

/// Checks that concern the machine: io_uring, its operations, limits. Raises the soft limit of descriptors to the hard one.
pub fn check_machine() -> Vec<Finding> {
    let mut findings = Vec::new();
    // First: a ring needs descriptors.
    findings.extend(raise_descriptors());
    findings.extend(check_io_uring());
    findings.extend(check_memlock());
    findings
}

/// Checks that a data directory can be written, and how. Makes it if it is not there, and takes it away again if it is of no use.
pub fn check_data_dir(dir: &Path, mode: WriteMode) -> Vec<Finding> {
    let was_there = dir.exists();
    if let Err(error) = file::create_dir_now(dir) {
        return vec![fatal(format!(
            "the data directory {} can't be made: {error}; make it, or give another with --data",
            dir.display()
        ))];
    }
    let findings: Vec<Finding> = match mode {
        WriteMode::Direct => check_direct(dir),
        WriteMode::Buffered => check_writable(dir, 0).err().into_iter().collect(),
    };
    let fatal = |finding: &Finding| finding.weight == Weight::Fatal;
    if !was_there && findings.iter().any(fatal) {
        // It is empty, or it is somebody else's by now and stays.
        let _ = std::fs::remove_dir(dir);
    }
    findings
}

/// The lock on a data directory that was used before, if it can be had. Makes nothing: a directory that is not there, or not as it
/// must be, is no finding yet.
pub fn lock_used_data_dir(dir: &Path) -> Result<Option<DirLock>, Finding> {
    match dir.join(LOCK_FILE).exists() {
        true => lock_data_dir(dir).map(Some),
        false => Ok(None),
    }
}

/// Locks a data directory for this process; another one may not write there.
pub fn lock_data_dir(dir: &Path) -> Result<DirLock, Finding> {
    let path = dir.join(LOCK_FILE);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| {
            fatal(format!(
                "{} can't be opened: {error}; the data directory must be writable by this user",
                path.display()
            ))
        })?;
    // SAFETY: no memory is involved, the descriptor is open. Run by `preflight::tests`.
    match sys::check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(DirLock { _file: file }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(fatal(format!(
            "the data directory {} is in use by another process{}; stop it, or give another directory with --data",
            dir.display(),
            holder(&path)
        ))),
        Err(error) => Err(fatal(format!(
            "{} can't be locked: {error}; the file system must support flock",
            path.display()
        ))),
    }
}

/// What to tell when listening at `address`, which `flag` gives, failed.
pub fn describe_bind(flag: &str, address: SocketAddr, error: &io::Error) -> Finding {
    fatal(match error.raw_os_error() {
        Some(libc::EADDRINUSE) => format!(
            "{address}: port {} is in use by another process (ss -ltnp 'sport = :{0}' shows which); stop it, or choose another port with {flag}",
            address.port()
        ),
        Some(libc::EACCES) => format!(
            "{address}: port {} needs privileges; choose one from 1024 up with {flag}, or: setcap cap_net_bind_service+ep on the program",
            address.port()
        ),
        Some(libc::EADDRNOTAVAIL) => format!(
            "{address}: {} is no address of this machine (ip addr shows them); choose one of them with {flag}, or 0.0.0.0",
            address.ip()
        ),
        _ => format!("listening on {address} fails: {error}; choose another address with {flag}"),
    })
}

fn check_io_uring() -> Option<Finding> {
    let ring = match IoUring::new(8) {
        Ok(ring) => ring,
        Err(error) => return Some(describe_no_ring(&error, disabled_by_sysctl())),
    };
    let mut probe = Probe::new();
    if ring.submitter().register_probe(&mut probe).is_err() {
        return Some(fatal(
            "this kernel's io_uring can't be asked what it supports; Linux 5.15 or newer is needed"
                .into(),
        ));
    }
    let missing: Vec<&str> = OPERATIONS
        .iter()
        .filter(|(code, _)| !probe.is_supported(*code))
        .map(|(_, name)| *name)
        .collect();
    (!missing.is_empty()).then(|| {
        fatal(format!(
            "this kernel's io_uring has no {}; Linux 5.15 or newer is needed",
            missing.join(", ")
        ))
    })
}

/// What `ring` asks of the kernel.
const OPERATIONS: &[(u8, &str)] = &[
    (opcode::PollAdd::CODE, "poll"),
    (opcode::Read::CODE, "read"),
    (opcode::Write::CODE, "write"),
    (opcode::Writev::CODE, "writev"),
    (opcode::Fsync::CODE, "fsync"),
    (opcode::Fallocate::CODE, "fallocate"),
    (opcode::OpenAt::CODE, "openat"),
    (opcode::RenameAt::CODE, "renameat"),
    (opcode::UnlinkAt::CODE, "unlinkat"),
    (opcode::Timeout::CODE, "timeout"),
    (opcode::AsyncCancel::CODE, "cancel"),
];

fn describe_no_ring(error: &io::Error, disabled: Option<u8>) -> Finding {
    fatal(match (error.raw_os_error(), disabled) {
        (Some(libc::EPERM), Some(level @ 1..)) => format!(
            "io_uring is switched off on this machine (kernel.io_uring_disabled = {level}); run: sysctl -w kernel.io_uring_disabled=0"
        ),
        (Some(libc::EPERM | libc::EACCES), _) => {
            "io_uring is forbidden to this process (seccomp, as container engines do); run the container with \
             --security-opt seccomp=unconfined or a profile that allows io_uring_setup, io_uring_enter, io_uring_register"
                .into()
        }
        (Some(libc::ENOSYS), _) => {
            "this kernel has no io_uring; Linux 5.15 or newer, with CONFIG_IO_URING, is needed".into()
        }
        (Some(libc::ENOMEM), _) => format!(
            "no memory may be locked for io_uring (limit now {}); run: ulimit -l unlimited, or LimitMEMLOCK=infinity in the service",
            show_limit(limit(libc::RLIMIT_MEMLOCK).map(|limit| limit.rlim_cur))
        ),
        (Some(libc::EMFILE | libc::ENFILE), _) => format!(
            "no descriptors are left for io_uring (limit now {}); run: ulimit -n 65536",
            show_limit(limit(libc::RLIMIT_NOFILE).map(|limit| limit.rlim_cur))
        ),
        _ => format!("io_uring can't be set up: {error}"),
    })
}

fn disabled_by_sysctl() -> Option<u8> {
    let text = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    text.trim().parse().ok()
}

fn check_memlock() -> Option<Finding> {
    let soft = limit(libc::RLIMIT_MEMLOCK)?;
    describe_memlock(soft.rlim_cur)
}

fn describe_memlock(soft: u64) -> Option<Finding> {
    (soft < MEMLOCK_BYTES_MIN).then(|| {
        fatal(format!(
            "only {} KiB of memory may be locked, {} KiB are needed for the rings; run: ulimit -l unlimited, or LimitMEMLOCK=infinity in the service",
            soft >> 10,
            MEMLOCK_BYTES_MIN >> 10
        ))
    })
}

fn raise_descriptors() -> Option<Finding> {
    let mut now = limit(libc::RLIMIT_NOFILE)?;
    if now.rlim_cur < now.rlim_max {
        now.rlim_cur = now.rlim_max;
        // SAFETY: the kernel reads the structure. Run by `preflight::tests`.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &now) };
        now = limit(libc::RLIMIT_NOFILE)?;
    }
    describe_descriptors(now.rlim_cur)
}

/// How many descriptors this process may have.
pub fn descriptors() -> usize {
    let soft = limit(libc::RLIMIT_NOFILE).map_or(DESCRIPTORS_MIN, |limit| limit.rlim_cur);
    usize::try_from(soft).unwrap_or(usize::MAX)
}

fn describe_descriptors(soft: u64) -> Option<Finding> {
    (soft < DESCRIPTORS_MIN).then(|| Finding {
        weight: Weight::Advice,
        text: format!(
            "only {soft} descriptors for segments and connections; run: ulimit -n 65536, or LimitNOFILE=65536 in the service"
        ),
    })
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel fills the structure. Run by `preflight::tests`.
    let result = unsafe { libc::getrlimit(resource, &mut limit) };
    (result == 0).then_some(limit)
}

fn show_limit(limit: Option<u64>) -> String {
    match limit {
        None => "unknown".into(),
        Some(libc::RLIM_INFINITY) => "unlimited".into(),
        Some(value) => value.to_string(),
    }
}

fn check_direct(dir: &Path) -> Vec<Finding> {
    let file_system = file_system(dir);
    let name = file_system.map_or("this kind of", |(name, _)| name);
    let no_direct = |why: &str| {
        fatal(format!(
            "{} is on a {name} file system, {why}; put the data on ext4 or xfs, or start with --buffered",
            dir.display()
        ))
    };
    match check_writable(dir, libc::O_DIRECT) {
        Ok(file) => match direct_bytes(&file) {
            Some(0) => vec![no_direct("which has no direct I/O")],
            Some(bytes) if bytes > DIRECT_BYTES_MAX => vec![no_direct(&format!(
                "whose direct I/O is in units of {bytes} bytes, more than {DIRECT_BYTES_MAX}"
            ))],
            _ if file_system.is_some_and(|(_, direct)| !direct) => {
                vec![no_direct(
                    "which keeps files in memory or copies direct I/O",
                )]
            }
            _ => Vec::new(),
        },
        Err(finding) => {
            // Writable, only not so?
            match check_writable(dir, 0) {
                Ok(_) => vec![no_direct("which has no direct I/O")],
                Err(_) => vec![finding],
            }
        }
    }
}

/// Makes a file with `flags` and takes its name away again.
fn check_writable(dir: &Path, flags: i32) -> Result<File, Finding> {
    let path = dir.join(format!(".preflight-{}", std::process::id()));
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(&path);
    // It may not even be there.
    let _ = std::fs::remove_file(&path);
    let file = match file {
        // On a full disk the broker must start, to delete: a file that is there says the same.
        Err(full) if full.kind() == io::ErrorKind::StorageFull => OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(dir.join(LOCK_FILE))
            .map_err(|_| full),
        result => result,
    };
    file.map_err(|error| {
        fatal(format!(
            "the data directory {} can't be written: {error}; it must be writable by this user",
            dir.display()
        ))
    })
}

/// The unit of direct I/O on a file; 0: none; `None`: the kernel doesn't say (before 6.1).
fn direct_bytes(file: &File) -> Option<u32> {
    // SAFETY: an all-zero statx is a value of the type. Run by `preflight::tests`.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string constant, the kernel fills the structure. Run by `preflight::tests`.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &mut stat,
        )
    };
    (result == 0 && stat.stx_mask & libc::STATX_DIOALIGN != 0)
        .then(|| stat.stx_dio_offset_align.max(stat.stx_dio_mem_align))
}

/// The name of the file system, and whether direct I/O on it reaches a disk; `None` for those we know nothing of.
fn file_system(dir: &Path) -> Option<(&'static str, bool)> {
    let path = sys::c_path(dir).ok()?;
    // SAFETY: an all-zero statfs is a value of the type. Run by `preflight::tests`.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string, the kernel fills the structure. Run by `preflight::tests`.
    if unsafe { libc::statfs(path.as_ptr(), &mut stat) } != 0 {
        return None;
    }
    Some(match stat.f_type {
        libc::EXT4_SUPER_MAGIC => ("ext4", true),
        libc::XFS_SUPER_MAGIC => ("xfs", true),
        libc::BTRFS_SUPER_MAGIC => ("btrfs", true),
        libc::TMPFS_MAGIC => ("tmpfs", false),
        libc::OVERLAYFS_SUPER_MAGIC => ("overlay", true),
        libc::NFS_SUPER_MAGIC => ("nfs", true),
        _ => return None,
    })
}

/// " (process 12)" for the one that holds the lock, if it can be found.
fn holder(lock: &Path) -> String {
    let found = || -> Option<String> {
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::metadata(lock).ok()?.ino();
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        locks.lines().find_map(|line| {
            let mut fields = line.split_whitespace();
            let process = fields.nth(4)?;
            let file = fields.next()?;
            (file.rsplit(':').next()? == inode.to_string()).then(|| format!(" (process {process})"))
        })
    };
    found().unwrap_or_default()
}

fn fatal(text: String) -> Finding {
    Finding {
        weight: Weight::Fatal,
        text,
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Finding {}

#[cfg(test)]
mod tests;
