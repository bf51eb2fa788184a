//! What the tests of this floor share.

use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::executor::run_shard;
use super::listener::Listener;
use super::socket::Socket;

/// Runs `main` on a shard of its own, to its end.
pub fn on_shard<Fut: Future<Output = ()> + 'static>(main: impl FnOnce() -> Fut + Send + 'static) {
    run_shard(None, "test", main)
        .expect("starts")
        .join()
        .expect("runs");
}

/// Two ends of a connection over loopback.
pub async fn connection() -> (Rc<Socket>, Rc<Socket>) {
    let mut listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("binds");
    let address = listener.local_address().expect("bound");
    let client = Socket::connect(address).await.expect("connects");
    let (server, _) = listener.accept().await.expect("accepts");
    (Rc::new(client), Rc::new(server))
}

/// Bytes that differ by place and by `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// CPU time of this thread.
pub fn thread_cpu() -> Duration {
    // SAFETY: an all-zero rusage is a value of the type, which the kernel fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The quickest tenth ends here: what the code takes when the machine is not busy with other things.
pub fn quick(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 10]
}

/// How long `future` takes.
pub async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let value = future.await;
    (value, started.elapsed())
}
