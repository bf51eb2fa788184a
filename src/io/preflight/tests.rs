use std::net::TcpListener;
use std::process::Command;

use super::*;

fn text(findings: &[Finding]) -> String {
    assert_eq!(findings.len(), 1, "{findings:?}");
    let text = findings[0].to_string();
    assert!(!text.contains('\n'), "more than one line: {text}");
    text
}

#[test]
fn this_machine_is_good_enough() {
    let findings = check_machine();
    assert!(
        findings
            .iter()
            .all(|finding| finding.weight != Weight::Fatal),
        "{findings:?}"
    );
    let limit = limit(libc::RLIMIT_NOFILE).expect("there is a limit");
    assert_eq!(limit.rlim_cur, limit.rlim_max, "raised to the hard limit");
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("scratch directory");
    let new = dir.path().join("a/b");
    assert_eq!(check_data_dir(&new, WriteMode::Direct), []);
    assert_eq!(check_data_dir(&new, WriteMode::Buffered), []);
    let left = std::fs::read_dir(&new).expect("was made").count();
    assert_eq!(left, 0, "the check leaves nothing");
}

#[test]
fn memory_file_system_needs_buffered_writes() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("scratch directory");
    let found = text(&check_data_dir(dir.path(), WriteMode::Direct));
    assert!(
        found.contains("tmpfs") && found.contains("--buffered"),
        "{found}"
    );
    assert_eq!(check_data_dir(dir.path(), WriteMode::Buffered), []);
    let new = dir.path().join("new");
    text(&check_data_dir(&new, WriteMode::Direct));
    assert!(!new.exists(), "what was made for nothing is left");
}

#[test]
fn directory_that_cannot_be_written_is_said() {
    let found = text(&check_data_dir(
        Path::new("/proc/ringlog"),
        WriteMode::Direct,
    ));
    assert!(
        found.contains("/proc/ringlog") && found.contains("--data"),
        "{found}"
    );
    let found = text(&check_data_dir(Path::new("/proc"), WriteMode::Direct));
    assert!(found.contains("writable by this user"), "{found}");
}

#[test]
fn second_process_is_refused_by_the_lock() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("scratch directory");
    assert!(lock_used_data_dir(dir.path()).expect("new").is_none());
    assert_eq!(std::fs::read_dir(dir.path()).expect("reads").count(), 0);
    let first = lock_data_dir(dir.path()).expect("free");
    lock_used_data_dir(dir.path()).expect_err("in use");
    let refused = lock_data_dir(dir.path()).expect_err("in use");
    assert_eq!(refused.weight, Weight::Fatal);
    let pid = std::process::id().to_string();
    assert!(
        refused.text.contains("in use") && refused.text.contains(&pid),
        "{refused}"
    );
    drop(first);
    let used = lock_used_data_dir(dir.path()).expect("free again");
    drop(used.expect("used before"));
    lock_data_dir(dir.path()).expect("free again");
    let nowhere = lock_data_dir(&dir.path().join("none")).expect_err("no directory");
    assert!(nowhere.text.contains("writable"), "{nowhere}");
}

#[test]
fn ports_are_told_apart() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = taken.local_addr().expect("bound");
    let error = TcpListener::bind(address).expect_err("in use");
    let found = describe_bind("--listen", address, &error);
    assert!(found.text.contains(&address.port().to_string()), "{found}");
    assert!(
        found.text.contains("in use") && found.text.ends_with("with --listen"),
        "{found}"
    );
    let foreign = "192.0.2.1:9092".parse().expect("an address");
    let error = TcpListener::bind(foreign).expect_err("not ours");
    let found = describe_bind("--listen", foreign, &error);
    assert!(found.text.contains("no address of this machine"), "{found}");
    let low = describe_bind(
        "--listen",
        address,
        &io::Error::from_raw_os_error(libc::EACCES),
    );
    assert!(low.text.contains("privileges"), "{low}");
}

#[test]
fn causes_of_a_missing_ring_are_told_apart() {
    let say = |errno, disabled| {
        let finding = describe_no_ring(&io::Error::from_raw_os_error(errno), disabled);
        assert_eq!(finding.weight, Weight::Fatal);
        text(&[finding])
    };
    assert!(say(libc::EPERM, Some(2)).contains("sysctl -w kernel.io_uring_disabled=0"));
    assert!(say(libc::EPERM, Some(0)).contains("seccomp"));
    assert!(say(libc::EPERM, None).contains("seccomp"));
    assert!(say(libc::ENOSYS, None).contains("Linux 5.15"));
    assert!(say(libc::ENOMEM, Some(0)).contains("ulimit -l"));
    assert!(say(libc::EMFILE, Some(0)).contains("ulimit -n"));
    assert!(say(libc::EINVAL, Some(0)).contains("can't be set up"));
    assert_eq!(describe_memlock(MEMLOCK_BYTES_MIN), None);
    let memlock = describe_memlock(64 << 10).expect("too low");
    assert!(memlock.text.contains("64 KiB"), "{memlock}");
    assert_eq!(describe_descriptors(DESCRIPTORS_MIN), None);
    let few = describe_descriptors(100).expect("few");
    assert_eq!(few.weight, Weight::Advice);
}

/// A process whose io_uring is forbidden by seccomp, as in a container.
#[test]
fn forbidden_io_uring_is_found() {
    const INNER: &str = "io::preflight::tests::inner_forbidden_io_uring";
    let output = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", INNER, "--ignored", "--nocapture"])
        .output()
        .expect("runs itself");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by forbidden_io_uring_is_found"]
fn inner_forbidden_io_uring() {
    forbid(libc::SYS_io_uring_setup as u32);
    let findings = check_machine();
    assert!(text(&findings).contains("seccomp"), "{findings:?}");
}

/// Makes system call `number` fail with EPERM on this thread and those it starts.
fn forbid(number: u32) {
    let statement = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        statement(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program, which outlives the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }
}
