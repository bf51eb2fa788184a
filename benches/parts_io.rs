//! What the parts that meet the machine cost: a message to another shard and back, a durable write, bytes sent.
//!
//! Estimate:
//! - a call of a shard that sleeps: what two threads on the same cores take to pass a word there and back through a channel (two
//!   wake-ups of a core, measured beside it), and 4 system calls of 0.3 us: an eventfd is written and a ring entered on each side;
//! - a call among many: on each side 2 locks of 60 cycles, 4 cache lines from the other core at 200, and a task polled at 300;
//! - a durable write: what a plain `pwrite` of the same bytes takes (O_DIRECT and O_DSYNC, measured in turn), and 2 us for the ring
//!   and the way back to the task;
//! - `send` over loopback: 0.3 us a call, 1 us each 64 KiB for a packet's way through the stack, and the bytes copied at 10 GB/s.
//!   `sendfile` from the arena: the same, with 450 cycles a page of 4 KiB in place of the copy, for it is taken into a pipe, into a
//!   packet, and given back. Timed is the call alone, which on loopback has the way up to the receiver's queue in it, but
//!   not the receiver's copy; what `send` copies is in the cache.
//!
//! `cargo bench --bench parts_io -- --dir DIR` with DIR on the disk that is meant; by default that of the build.

mod common;
#[path = "common/pace.rs"]
mod pace;

use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{cycles, measures, median, report};
use pace::{directory, times, two_cores};
use ringlog::base::ShardId;
use ringlog::io::arena::Arena;
use ringlog::io::executor::{ShardHandle, run_shard, spawn};
use ringlog::io::file::{SegmentFile, WriteMode, Zeroes, delete};
use ringlog::io::mesh::{Endpoint, Mesh, Reply, Seat};
use ringlog::io::socket::Socket;
use smallvec::smallvec;

const SYSTEM_CALL_NS: f64 = 300.0;
const RING_NS: f64 = 2_000.0;
const PACKET_NS: f64 = 1_000.0;
const PACKET_BYTES: usize = 64 << 10;
const COPY_RATE: f64 = 10.0;
const PAGE_CYCLES: f64 = 450.0;
const BLOCK: usize = 4 << 10;
const FILE_BYTES: u64 = 64 << 20;
/// Calls under way at once where the shards are busy.
const IN_FLIGHT: usize = 256;

fn main() {
    let [near, far] = two_cores();
    if near == far {
        println!("one core: both sides of everything share it");
    }
    mesh(near, far);
    let dir = directory();
    on_core(near, move || disk(dir)).join().expect("runs");
    sending(near, far);
}

fn on_core<T: Send + 'static, Fut: Future<Output = T> + 'static>(
    core: usize,
    main: impl FnOnce() -> Fut + Send + 'static,
) -> ShardHandle<T> {
    run_shard(Some(core), "bench", main).expect("a shard starts")
}

fn print(name: &str, measured_ns: f64, estimate_ns: f64, bytes: Option<usize>) {
    if measures() {
        report(name, measured_ns, estimate_ns, bytes);
    }
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

// Messages between shards.

type Question = (u64, Reply<u64>);

fn mesh(near: usize, far: usize) {
    let two_wakes = bare_channel(near, far);
    let mut seats = Mesh::build(2);
    let (there, here): (Seat<Question>, _) = (seats.pop().expect("two"), seats.remove(0));
    let answering = on_core(far, || async move {
        let endpoint = there.attach();
        loop {
            let (number, reply) = endpoint.recv().await;
            reply.send(number);
            if number == u64::MAX {
                return;
            }
        }
    });
    let asking = on_core(near, || async move {
        let endpoint = Rc::new(here.attach());
        let mut alone = Vec::new();
        for number in 0..times(20_000) {
            let started = Instant::now();
            ask(&endpoint, number as u64).await;
            alone.push(ns(started.elapsed()));
        }
        let mut among_many = Vec::new();
        for _ in 0..times(20) {
            among_many.push(ask_many(&endpoint, times(100)).await);
        }
        ask(&endpoint, u64::MAX).await;
        (median(&mut alone), median(&mut among_many))
    });
    let (alone, among_many) = asking.join().expect("runs");
    answering.join().expect("runs");
    let estimate = two_wakes + 4.0 * SYSTEM_CALL_NS;
    print("call of a shard that sleeps", alone, estimate, None);
    let each_side = 2.0 * 60.0 + 4.0 * 200.0 + 300.0;
    let name = format!("call of a shard, {IN_FLIGHT} at once");
    print(&name, among_many, cycles(2.0 * each_side), None);
}

async fn ask(endpoint: &Endpoint<Question>, number: u64) {
    let answer = endpoint.call(ShardId(1), |reply| (number, reply)).await;
    assert_eq!(answer, Ok(number));
}

/// Nanoseconds of one of many calls.
async fn ask_many(endpoint: &Rc<Endpoint<Question>>, each: usize) -> f64 {
    let started = Instant::now();
    let tasks: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let endpoint = endpoint.clone();
            spawn(async move {
                for number in 0..each {
                    ask(&endpoint, number as u64).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    ns(started.elapsed()) / (IN_FLIGHT * each) as f64
}

/// Two threads that pass a word there and back, asleep in between; the median of a round.
fn bare_channel(near: usize, far: usize) -> f64 {
    let (question, questions) = mpsc::channel::<u64>();
    let (answer, answers) = mpsc::channel();
    let answering = on_core(far, || async move {
        while let Ok(number) = questions.recv() {
            answer.send(number).expect("the asker waits");
        }
    });
    let asking = on_core(near, || async move {
        let mut rounds = Vec::new();
        for number in 0..times(20_000) {
            let started = Instant::now();
            question.send(number as u64).expect("the other waits");
            assert_eq!(answers.recv(), Ok(number as u64));
            rounds.push(ns(started.elapsed()));
        }
        median(&mut rounds)
    });
    let round = asking.join().expect("runs");
    answering.join().expect("runs");
    round
}

// Durable writes.

async fn disk(dir: PathBuf) {
    let path = dir.join(format!("ringlog-parts-{}.log", std::process::id()));
    let (file, mode) = create(&path).await;
    let plain = Plain::open(&path, mode);
    let arena = Arena::new(8 << 20).expect("memory");
    let zeroes = Zeroes::new(&arena).expect("room");
    // As in a segment that is written to: the blocks are there and were written before.
    file.preallocate(0, FILE_BYTES).await.expect("room");
    file.write_zeros(0, FILE_BYTES, &zeroes)
        .await
        .expect("written");
    for (bytes, count) in [(BLOCK, 1_000), (1 << 20, 300)] {
        let source = arena.hold(&vec![0x5a; bytes]).expect("room");
        let (mut plain_times, mut ring_times) = (Vec::new(), Vec::new());
        for number in 0..times(count) {
            let position = (number * bytes) as u64 % FILE_BYTES;
            plain_times.push(plain.write(position, bytes));
            let started = Instant::now();
            file.write_blocks(position, smallvec![source.clone()])
                .await
                .expect("written");
            ring_times.push(ns(started.elapsed()));
        }
        let name = format!("durable write of {} KiB, {mode:?}", bytes >> 10);
        let estimate = median(&mut plain_times) + RING_NS;
        print(&name, median(&mut ring_times), estimate, Some(bytes));
    }
    drop(file);
    delete(&path).await.expect("is there");
}

/// A new file, past the page cache where the file system can do that.
async fn create(path: &Path) -> (SegmentFile, WriteMode) {
    let mut mode = WriteMode::Direct;
    let mut created = SegmentFile::create(path, mode).await;
    if created.is_err() {
        println!("no O_DIRECT here: writes and fdatasync");
        // A file that was made all the same is in the way.
        let _ = delete(path).await;
        mode = WriteMode::Buffered;
        created = SegmentFile::create(path, mode).await;
    }
    (created.expect("a file can be made in the directory"), mode)
}

/// The same file, written by system calls that wait.
struct Plain {
    file: File,
    mode: WriteMode,
    /// With room to begin at a block.
    memory: Vec<u8>,
}

impl Plain {
    fn open(path: &Path, mode: WriteMode) -> Plain {
        let flags = match mode {
            WriteMode::Direct => libc::O_DIRECT | libc::O_DSYNC,
            WriteMode::Buffered => 0,
        };
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(path);
        Plain {
            file: file.expect("just made"),
            mode,
            memory: vec![0x5a; (1 << 20) + BLOCK],
        }
    }

    /// Writes and says how long it took.
    fn write(&self, position: u64, bytes: usize) -> f64 {
        let start = self.memory.as_ptr().align_offset(BLOCK);
        let source = &self.memory[start..start + bytes];
        let started = Instant::now();
        self.file.write_all_at(source, position).expect("written");
        if self.mode == WriteMode::Buffered {
            self.file.sync_data().expect("synced");
        }
        ns(started.elapsed())
    }
}

// Sending.

fn sending(near: usize, far: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let dropping = on_core(far, || async move {
        let (mut stream, _) = listener.accept().expect("a sender");
        let mut buffer = vec![0; 1 << 20];
        while stream.read(&mut buffer).expect("bytes") > 0 {}
    });
    on_core(near, move || send_all_sizes(address))
        .join()
        .expect("runs");
    dropping.join().expect("runs");
}

async fn send_all_sizes(address: SocketAddr) {
    let socket = Socket::connect(address).await.expect("connects");
    let arena = Arena::new(4 << 20).expect("memory");
    let bytes = vec![0x5a; 1 << 20];
    let held = arena.hold(&bytes).expect("room");
    for size in [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let (mut copied, mut by_reference) = (Vec::new(), Vec::new());
        for _ in 0..times((256 << 20) / size).min(5_000) {
            let copy = |at| socket.try_send(&bytes[at..size], false);
            copied.push(time_calls(&socket, size, copy).await);
            let slice = held.for_send();
            let refer = |at| socket.try_sendfile(slice.part(at, size - at));
            by_reference.push(time_calls(&socket, size, refer).await);
        }
        let (copied, by_reference) = (median(&mut copied), median(&mut by_reference));
        let kib = size >> 10;
        let packets = SYSTEM_CALL_NS + size.div_ceil(PACKET_BYTES) as f64 * PACKET_NS;
        let copy = size as f64 / COPY_RATE;
        let pages = cycles((size / BLOCK) as f64 * PAGE_CYCLES);
        print(
            &format!("send of {kib} KiB"),
            copied,
            packets + copy,
            Some(size),
        );
        let name = format!("sendfile of {kib} KiB");
        print(&name, by_reference, packets + pages, Some(size));
        if measures() {
            println!("    sendfile takes {:.2} of send", by_reference / copied);
        }
    }
}

/// Sends `size` bytes by `call`, which is told how many are gone; the time in calls that took some.
async fn time_calls(
    socket: &Socket,
    size: usize,
    call: impl Fn(usize) -> std::io::Result<Option<usize>>,
) -> f64 {
    let (mut gone, mut took) = (0, 0.0);
    while gone < size {
        let started = Instant::now();
        match call(gone).expect("sent") {
            Some(count) => {
                took += ns(started.elapsed());
                gone += count;
            }
            None => socket.writable().await.expect("open"),
        }
    }
    took
}
