//! Durable produce against what the disk and the network can do, in one run on two cores: the broker on core 0, the
//! load on core 1.
//!
//! Estimate: a 1 MiB batch costs one pass of `recv` (3.3 GB/s on loopback, both ends), one of CRC-32C (20 GB/s) and one
//! direct write (the disk's 1M x 8 rate); so the lower of disk and bare receive is the bound, and the ratio to it is
//! what is printed. Where disk and network share their cores they can't both have that: what fio still writes beside a
//! bare loop that receives at the broker's rate is printed too ("beside").
//!
//! Run as root: `cargo bench --bench durable_produce -- --dir DIR` with DIR on XFS or ext4 with a journal, or without
//! `--dir` to have it make and mount a loop XFS of its own. Needs `fio`, `taskset` and, without `--dir`, `mkfs.xfs`.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringlog::base::limits::PARTITION_WRITES_MAX as WRITES;

const BROKER_CORE: &str = "0";
const LOAD_CORE: &str = "1";
const BATCH_BYTES: usize = 1 << 20;
const RECORD_BYTES: usize = 1024;
/// As many as the broker has at the disk of one partition, and two on their way there and back.
const IN_FLIGHT: usize = WRITES + 2;
/// More than the memory of the broker, whose pages the kernel clears once, and more than the topic keeps: then it goes on in the files it has,
/// as the file that fio writes was written before.
const WARM_UP_BYTES: usize = 5 << 28;
const SEGMENT_BYTES: &str = "268435456";
const RETENTION_BYTES: &str = "536870912";
const FIO_SECONDS: f64 = 3.0;
const PORT: u16 = 19_392;
/// Of the broker, to look at while it runs.
const METRICS: &str = "127.0.0.1:19393";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| {
        arguments
            .iter()
            .position(|a| a == flag)
            .and_then(|at| arguments.get(at + 1).cloned())
    };
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!(
            "durable_produce runs with `cargo bench` only: it needs root and fio, and takes minutes"
        );
        return;
    }
    let rounds: usize = value("--rounds").map_or(3, |v| v.parse().expect("--rounds N"));
    let gib: f64 = value("--gib").map_or(2.0, |v| v.parse().expect("--gib N"));
    let mount = match value("--dir") {
        Some(dir) => Mount {
            dir: dir.into(),
            loop_device: None,
        },
        None => Mount::loop_xfs(),
    };
    pin_self(LOAD_CORE);
    let bytes = (gib * (1u64 << 30) as f64) as usize;
    let mut rates = Vec::new();
    let mut besides = Vec::new();
    let mut singles = Vec::new();
    for round in 0..rounds {
        let fio = fio_write(&mount.dir, "1M", WRITES);
        let bare = bare_receive(bytes, None);
        let (produced, cpu_per_gb) = broker_produce(&mount.dir, bytes);
        let beside = fio_beside(&mount.dir, produced);
        let bound = fio.0.min(bare);
        println!(
            "round {round}: fio 1Mx4 {:.2} GB/s, bare {:.2} GB/s, ringlog durable {:.2} GB/s = {:.2} of the lower, {:.2} broker CPU-s/GB; fio beside a bare receive of that rate {:.2} GB/s = {:.2}",
            fio.0,
            bare,
            produced,
            produced / bound,
            cpu_per_gb,
            beside,
            produced / beside
        );
        rates.push(produced / bound);
        besides.push(produced / beside);
        let small = fio_write(&mount.dir, "4k", 1);
        let p50 = broker_single(&mount.dir);
        println!(
            "round {round}: fio 4k p50 {:.0} us, ringlog 1-record p50 {:.0} us = {:.2}",
            small.1,
            p50,
            p50 / small.1
        );
        singles.push(p50 / small.1);
    }
    println!(
        "median of {rounds}: durable 1 MiB batches {:.2} of the lower of fio and bare (aim >= 0.60), {:.2} of fio beside a bare receive; single record p50 {:.2} x fio (aim <= 2)",
        median(&mut rates),
        median(&mut besides),
        median(&mut singles)
    );
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The directory measured on; unmounted when it is a loop device of ours.
struct Mount {
    dir: PathBuf,
    loop_device: Option<(String, PathBuf)>,
}

impl Mount {
    fn loop_xfs() -> Mount {
        let base = std::env::temp_dir().join(format!("ringlog-bench-{}", std::process::id()));
        let dir = base.join("mnt");
        fs::create_dir_all(&dir).expect("temporary directory");
        let image = base.join("disk.img");
        run("truncate", &["-s", "12G", text(&image)]);
        run("mkfs.xfs", &["-q", "-f", text(&image)]);
        let device = output("losetup", &["--direct-io=on", "--show", "-f", text(&image)]);
        run("mount", &[&device, text(&dir)]);
        Mount {
            dir,
            loop_device: Some((device, base)),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some((device, base)) = &self.loop_device {
            run("umount", &[text(&self.dir)]);
            run("losetup", &["-d", device]);
            let _ = fs::remove_dir_all(base);
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

fn run(program: &str, arguments: &[&str]) {
    output(program, arguments);
}

fn output(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}; is it installed?"));
    assert!(
        out.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).trim().to_string()
}

fn pin_self(core: &str) {
    run(
        "taskset",
        &["-a", "-pc", core, &std::process::id().to_string()],
    );
}

/// GB/s and p50 in microseconds of durable writes over a file written before.
fn fio_write(dir: &Path, block: &str, depth: usize) -> (f64, f64) {
    let file = dir.join("fio.dat");
    if !file.exists() {
        run(
            "fio",
            &[
                "--name=prepare",
                "--filename",
                text(&file),
                "--size=1G",
                "--rw=write",
                "--bs=1M",
                "--direct=1",
                "--ioengine=io_uring",
                &format!("--iodepth={WRITES}"),
            ],
        );
    }
    let json = output(
        "fio",
        &[
            "--name=durable",
            "--filename",
            text(&file),
            "--size=1G",
            "--rw=write",
            &format!("--bs={block}"),
            "--direct=1",
            "--sync=dsync",
            "--overwrite=1",
            "--ioengine=io_uring",
            &format!("--iodepth={depth}"),
            "--time_based",
            &format!("--runtime={FIO_SECONDS}"),
            "--output-format=json",
            "--cpus_allowed=0",
        ],
    );
    let json: serde_json::Value =
        serde_json::from_str(&json[json.find('{').expect("fio prints JSON")..]).expect("fio JSON");
    let write = &json["jobs"][0]["write"];
    let rate = write["bw_bytes"].as_f64().expect("bw_bytes") / 1e9;
    let p50 = write["clat_ns"]["percentile"]["50.000000"]
        .as_f64()
        .expect("p50")
        / 1e3;
    (rate, p50)
}

/// What fio writes while as much is received as the broker took, both at once on the same two cores.
fn fio_beside(dir: &Path, rate: f64) -> f64 {
    let bytes = (rate * 1e9 * (FIO_SECONDS + 1.5)) as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| bare_receive(bytes, Some(rate)));
        fio_write(dir, "1M", WRITES).0
    })
}

/// GB/s of a loop that receives the same frames and drops them, answering each with 8 bytes; at most `rate`.
fn bare_receive(bytes: usize, rate: Option<f64>) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut buffer = vec![0u8; 2 << 20];
        loop {
            let mut head = [0u8; 4];
            if stream.read_exact(&mut head).is_err() {
                return;
            }
            let mut left = u32::from_be_bytes(head) as usize;
            while left > 0 {
                let want = left.min(buffer.len());
                let n = stream.read(&mut buffer[..want]).expect("a frame");
                assert!(n > 0, "the client left inside a frame");
                left -= n;
            }
            stream
                .write_all(&[0, 0, 0, 4, 0, 0, 0, 0])
                .expect("an answer");
        }
    });
    pin_thread_of_listener();
    let mut stream = TcpStream::connect(address).expect("connect");
    let rate = drive(&mut stream, "bare", bytes, rate);
    drop(stream);
    server.join().expect("the bare loop");
    rate
}

/// The newest thread of this process goes to the broker's core.
fn pin_thread_of_listener() {
    let newest = fs::read_dir("/proc/self/task")
        .expect("proc")
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .max()
        .expect("a thread");
    run("taskset", &["-pc", BROKER_CORE, &newest.to_string()]);
}

struct Broker {
    child: Child,
    dir: PathBuf,
}

impl Broker {
    fn start(dir: &Path) -> Broker {
        let dir = dir.join("ringlog");
        let _ = fs::remove_dir_all(&dir);
        // `taskset` becomes the broker: it may use every core, whatever this process is pinned to.
        let child = Command::new("taskset")
            .args(["-c", &format!("{BROKER_CORE},{LOAD_CORE}")])
            .arg(env!("CARGO_BIN_EXE_ringlog"))
            .args(["serve", "--cores", BROKER_CORE, "--nodes", "1"])
            .args(["--data", text(&dir), "--metrics", METRICS])
            .args(["--listen", &format!("127.0.0.1:{PORT}")])
            .stdout(Stdio::null())
            .spawn()
            .expect("ringlog starts");
        let broker = Broker { child, dir };
        let mut stream = broker.connect();
        create_topic(&mut stream, "bench");
        broker
    }

    fn connect(&self) -> TcpStream {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match TcpStream::connect(("127.0.0.1", PORT)) {
                Ok(stream) => {
                    stream.set_nodelay(true).expect("nodelay");
                    return stream;
                }
                Err(e) => assert!(Instant::now() < deadline, "no broker: {e}"),
            }
            std::thread::yield_now();
        }
    }

    fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("stat");
        let fields: Vec<&str> = stat[stat.rfind(')').expect("stat") + 2..]
            .split(' ')
            .collect();
        let ticks: f64 =
            fields[11].parse::<f64>().expect("utime") + fields[12].parse::<f64>().expect("stime");
        ticks / 100.0
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn broker_produce(dir: &Path, bytes: usize) -> (f64, f64) {
    let broker = Broker::start(dir);
    let mut stream = broker.connect();
    drive(&mut stream, "bench", WARM_UP_BYTES, None);
    let before = broker.cpu_seconds();
    let rate = drive(&mut stream, "bench", bytes, None);
    (rate, (broker.cpu_seconds() - before) / (bytes as f64 / 1e9))
}

/// p50 in microseconds of one record at a time.
fn broker_single(dir: &Path) -> f64 {
    let broker = Broker::start(dir);
    let mut stream = broker.connect();
    let frame = produce_frame("bench", &batch(1, RECORD_BYTES));
    let mut times = Vec::new();
    for _ in 0..4000 {
        let start = Instant::now();
        stream.write_all(&frame).expect("send");
        read_answer(&mut stream);
        times.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    median(&mut times[1000..])
}

/// Sends batches of 1 MiB, `IN_FLIGHT` at a time and at most `rate` GB/s, until `bytes` are acknowledged; GB/s.
fn drive(stream: &mut TcpStream, topic: &str, bytes: usize, rate: Option<f64>) -> f64 {
    stream.set_nodelay(true).expect("nodelay");
    let frame = produce_frame(
        topic,
        &batch(BATCH_BYTES / RECORD_BYTES - 1, RECORD_BYTES - 8),
    );
    let count = bytes / frame.len();
    let mut reader = stream.try_clone().expect("clone");
    let start = Instant::now();
    let mut sent = 0;
    for acknowledged in 0..count {
        while sent < count && sent < acknowledged + IN_FLIGHT {
            if let Some(rate) = rate {
                let due = (sent * frame.len()) as f64 / (rate * 1e9);
                std::thread::sleep(Duration::from_secs_f64(due).saturating_sub(start.elapsed()));
            }
            stream.write_all(&frame).expect("send");
            sent += 1;
        }
        read_answer(&mut reader);
    }
    (count * frame.len()) as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// Reads one answer; when it is a Produce v7 answer, its error code must be 0.
fn read_answer(stream: &mut TcpStream) {
    let mut head = [0u8; 4];
    stream.read_exact(&mut head).expect("an answer");
    let mut body = vec![0u8; u32::from_be_bytes(head) as usize];
    stream.read_exact(&mut body).expect("an answer");
    if body.len() > 12 {
        let name = u16::from_be_bytes([body[8], body[9]]) as usize;
        let at = 10 + name + 4 + 4;
        let error = i16::from_be_bytes([body[at], body[at + 1]]);
        assert_eq!(error, 0, "produce answered with error {error}");
    }
}

fn create_topic(stream: &mut TcpStream, topic: &str) {
    let mut body = Vec::new();
    header(&mut body, 19, 2);
    body.extend(1i32.to_be_bytes());
    string(&mut body, topic);
    body.extend(1i32.to_be_bytes());
    body.extend(1i16.to_be_bytes());
    body.extend(0i32.to_be_bytes());
    body.extend(3i32.to_be_bytes());
    for (name, value) in [
        ("max.message.bytes", "2000000"),
        ("segment.bytes", SEGMENT_BYTES),
        ("retention.bytes", RETENTION_BYTES),
    ] {
        string(&mut body, name);
        string(&mut body, value);
    }
    body.extend(10_000i32.to_be_bytes());
    body.push(0);
    stream.write_all(&framed(body)).expect("send");
    let mut head = [0u8; 4];
    stream.read_exact(&mut head).expect("an answer");
    let mut answer = vec![0u8; u32::from_be_bytes(head) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    let at = 4 + 4 + 4 + 2 + topic.len();
    assert_eq!(
        i16::from_be_bytes([answer[at], answer[at + 1]]),
        0,
        "create topic {topic}"
    );
}

fn produce_frame(topic: &str, batch: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    header(&mut body, 0, 7);
    body.extend((-1i16).to_be_bytes()); // no transactional id
    body.extend((-1i16).to_be_bytes()); // acks=all
    body.extend(30_000i32.to_be_bytes());
    body.extend(1i32.to_be_bytes());
    string(&mut body, topic);
    body.extend(1i32.to_be_bytes());
    body.extend(0i32.to_be_bytes());
    body.extend((batch.len() as i32).to_be_bytes());
    body.extend(batch);
    framed(body)
}

fn header(body: &mut Vec<u8>, key: i16, version: i16) {
    body.extend(key.to_be_bytes());
    body.extend(version.to_be_bytes());
    body.extend(7i32.to_be_bytes());
    string(body, "bench");
}

fn string(body: &mut Vec<u8>, text: &str) {
    body.extend((text.len() as i16).to_be_bytes());
    body.extend(text.as_bytes());
}

fn framed(body: Vec<u8>) -> Vec<u8> {
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend(body);
    frame
}

/// A record batch of `count` records with values of `value` bytes.
fn batch(count: usize, value: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for delta in 0..count {
        let mut record = vec![0u8]; // attributes
        varint(&mut record, 0);
        varint(&mut record, delta as i64);
        varint(&mut record, -1);
        varint(&mut record, value as i64);
        record.extend((0..value).map(|i| (i * 31 + delta) as u8));
        varint(&mut record, 0);
        varint(&mut records, record.len() as i64);
        records.extend(record);
    }
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_millis() as i64;
    let mut checked = Vec::new(); // from the attributes on: what the CRC covers
    checked.extend(0i16.to_be_bytes());
    checked.extend((count as i32 - 1).to_be_bytes());
    checked.extend(now.to_be_bytes());
    checked.extend(now.to_be_bytes());
    checked.extend((-1i64).to_be_bytes());
    checked.extend((-1i16).to_be_bytes());
    checked.extend((-1i32).to_be_bytes());
    checked.extend((count as i32).to_be_bytes());
    checked.extend(records);
    let mut batch = 0i64.to_be_bytes().to_vec();
    batch.extend((4 + 1 + 4 + checked.len() as i32).to_be_bytes());
    batch.extend((-1i32).to_be_bytes());
    batch.push(2);
    batch.extend(crc32c::crc32c(&checked).to_be_bytes());
    batch.extend(checked);
    batch
}

fn varint(bytes: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        bytes.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    bytes.push(zigzag as u8);
}
