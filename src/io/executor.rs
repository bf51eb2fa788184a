//! The executor of a shard: a pinned thread with its glommio executor, companion ring and doorbell; tasks and sleeping.
//! One per core, started by `run_shard`; everything inside is `!Send`.
//! Always: a shard with nothing to do sleeps in the kernel and uses no CPU; whatever completes or rings wakes it at once. Wakers
//! are used on their shard only: from another thread, ring a `doorbell::Bell`.
//! What runs on it is decided above.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use glommio::{LocalExecutorBuilder, Placement};

use super::ring::{RING_DEPTH, Ring};
use super::{clock, doorbell, sys, timer};
use crate::base::MonoNs;

/// A task of this shard; dropping it cancels it.
pub struct Task<T>(glommio::Task<T>);

/// A shard's thread.
pub struct ShardHandle<T>(JoinHandle<io::Result<T>>);

/// How long a task with much to do runs before it lets others go first.
const TURN: Duration = Duration::from_micros(500);

/// glommio's preempt timer, practically never: a round of the tasks ends with `Ring::drive`, and nothing waits for glommio's rings.
const PREEMPT: Duration = Duration::from_secs(24 * 3600);

/// glommio's own rings carry nothing of ours.
const GLOMMIO_RING_DEPTH: usize = 16;

/// Cores this process may run on.
pub fn available_cores() -> Vec<usize> {
    let mut set = empty_cpu_set();
    // SAFETY: the kernel fills a set of the size that is given. Run by `executor::tests`.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    if result != 0 {
        return vec![0];
    }
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: `core` is below CPU_SETSIZE. Run by `executor::tests`.
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect()
}

/// Binds this thread to one core.
fn pin(core: usize) -> io::Result<()> {
    let mut set = empty_cpu_set();
    if core < libc::CPU_SETSIZE as usize {
        // SAFETY: `core` is below CPU_SETSIZE. Run by `executor::tests`.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: the kernel reads a set of the size that is given. Run by `executor::tests`.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    sys::check(result).map(drop).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!(
                "no thread can be bound to core {core}: {error}; give cores this process may run on"
            ),
        )
    })
}

/// Takes back the pinning that a thread inherits from the shard that started it.
pub(super) fn allow_all_cores() {
    let mut set = empty_cpu_set();
    for core in 0..libc::CPU_SETSIZE as usize {
        // SAFETY: `core` is below CPU_SETSIZE. Run by `blocking::tests`.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: the kernel reads a set of the size that is given. Cores that are not ours are left out by the kernel;
    // if it refuses, the thread stays where it is. Run by `blocking::tests`.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
}

fn empty_cpu_set() -> libc::cpu_set_t {
    // SAFETY: a cpu_set_t is an array of integers, all zero is the empty set. Run by `executor::tests`.
    unsafe { std::mem::zeroed() }
}

/// Starts a thread named `name`, pinned to `core` (`None`: not pinned, for tests), that runs `main` to its end.
/// Other tasks of the shard are dropped when `main` returns.
pub fn run_shard<F, Fut, T>(core: Option<usize>, name: &str, main: F) -> io::Result<ShardHandle<T>>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run_here(core, main))
        .map(ShardHandle)
}

fn run_here<F, Fut, T>(core: Option<usize>, main: F) -> io::Result<T>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    // Before anything is allocated: memory comes from the node of the core.
    if let Some(core) = core {
        pin(core)?;
    }
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .preempt_timer(PREEMPT)
        .ring_depth(GLOMMIO_RING_DEPTH)
        .io_memory(0)
        .make()
        .map_err(|error| io::Error::other(error.to_string()))?;
    let ring = Ring::new(RING_DEPTH)?;
    doorbell::install()?;
    ring.install();
    timer::install();
    STOPPED.set(false);
    let result = executor.run(run_main(ring.clone(), main));
    ring.close();
    timer::uninstall();
    doorbell::uninstall();
    Ok(result)
}

async fn run_main<F, Fut, T>(ring: Ring, main: F) -> T
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = T>,
{
    let own = (
        spawn(doorbell::listen()),
        spawn(timer::run()),
        // Not counted: it is what looks at the count.
        spawn_uncounted(ring.drive(|| POLLS.get())),
    );
    // They have what they need before `main` can use it up.
    futures_lite::future::yield_now().await;
    let result = counted(async { main().await }, CountsDrop).await;
    // From here no task runs any more, so that the executor comes to its end.
    STOPPED.set(true);
    drop(own);
    result
}

thread_local! {
    /// Polls and drops of tasks on this shard.
    static POLLS: Cell<u64> = const { Cell::new(0) };
    static STOPPED: Cell<bool> = const { Cell::new(false) };
}

/// Counts the polls of `future`, and its drop, which may make others ready. Once the shard has stopped it is not polled any more.
async fn counted<T>(future: impl Future<Output = T>, _drop: CountsDrop) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        count_poll();
        if STOPPED.get() {
            return Poll::Pending;
        }
        future.as_mut().poll(cx)
    })
    .await
}

struct CountsDrop;

impl Drop for CountsDrop {
    fn drop(&mut self) {
        count_poll();
    }
}

fn count_poll() {
    POLLS.set(POLLS.get() + 1);
}

impl<T> ShardHandle<T> {
    /// Whether the shard has come to its end.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the end of the shard.
    pub fn join(self) -> io::Result<T> {
        self.0
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Puts a task behind those that are ready; it does not run before the caller awaits.
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    spawn_uncounted(counted(future, CountsDrop))
}

fn spawn_uncounted<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    let queue = glommio::executor().current_task_queue();
    let task = glommio::spawn_local_into(future, queue).expect("the current queue exists");
    Task(task)
}

/// A task that nobody waits for.
pub fn spawn_detached(future: impl Future<Output = ()> + 'static) {
    spawn(future).detach();
}

impl<T: 'static> Task<T> {
    /// Lets it run to its end unseen.
    pub fn detach(self) {
        self.0.detach();
    }

    /// Stops it at its next await and drops what it holds; gives the result if it was done already.
    pub async fn cancel(self) -> Option<T> {
        self.0.cancel().await
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(cx)
    }
}

/// Waits until the monotonic clock has reached `deadline`.
pub async fn sleep_until(deadline: MonoNs) {
    timer::Sleep::new(deadline).await;
}

/// Waits for `duration`.
pub async fn sleep(duration: Duration) {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    sleep_until(MonoNs(clock::mono().0.saturating_add(nanos))).await;
}

thread_local! {
    /// When a task last began or went on after a yield.
    static TURN_BEGAN: Cell<MonoNs> = const { Cell::new(MonoNs(0)) };
}

/// Lets the tasks that are ready, and those whose operations have completed, go first.
pub async fn yield_now() {
    futures_lite::future::yield_now().await;
    TURN_BEGAN.set(clock::mono());
}

/// For long loops without another await: yields when the shard's turn is used up.
pub async fn yield_if_needed() {
    let used = clock::mono().0.saturating_sub(TURN_BEGAN.get().0);
    if used > TURN.as_nanos() as u64 {
        yield_now().await;
    }
}

/// `future`, or `None` when `deadline` comes first (and the future is dropped).
pub async fn until<T>(deadline: MonoNs, future: impl Future<Output = T>) -> Option<T> {
    futures_lite::future::or(async { Some(future.await) }, async {
        sleep_until(deadline).await;
        None
    })
    .await
}

#[cfg(test)]
mod tests;
