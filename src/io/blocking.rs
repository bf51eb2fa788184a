//! Runs what has no asynchronous call (reading directories, old kernels' missing opcodes) on a thread of its own.
//! Three threads per process, started at first use, not pinned; any shard may ask: one for what writes wait for, one for what frees
//! blocks of the disk, which takes as long as it takes, one for huge pages.
//! Always: a shard never waits in a blocking call; a caller that is dropped loses the answer, the work is still done.
//! Disk reads and writes of the data path go through `ring`.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::task::Poll;

use super::doorbell::Bell;

pub(super) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    filled: Condvar,
}

/// Which thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lane {
    /// Each job is short.
    Short,
    /// Deletes: one may take seconds, and nobody's write waits for it.
    Deletes,
    /// Asks the system for memory.
    Memory,
}

/// Runs `work` on the blocking thread and waits for its result.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    run_in(Lane::Short, work).await
}

/// As `run`, on the thread of that lane.
pub(super) async fn run_in<T: Send + 'static>(
    lane: Lane,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let bell = Bell::new();
    let handle = bell.handle();
    let answer = Arc::new(Mutex::new(None));
    let slot = answer.clone();
    let job = move || {
        let value = work();
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        handle.ring();
    };
    submit(lane, Box::new(job));
    std::future::poll_fn(|cx| {
        // Armed before the look, so a ring in between is seen. A bell may ring for nothing: only the value counts.
        let rung = bell.poll_rung(cx);
        match answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(value) => Poll::Ready(value),
            None => {
                if rung.is_ready() {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    })
    .await
}

/// Has `job` done some time, with nobody waiting for it.
pub(super) fn submit(lane: Lane, job: Job) {
    static SHORT: OnceLock<Arc<Queue>> = OnceLock::new();
    static DELETES: OnceLock<Arc<Queue>> = OnceLock::new();
    static MEMORY: OnceLock<Arc<Queue>> = OnceLock::new();
    let (queue, name) = match lane {
        Lane::Short => (&SHORT, "blocking"),
        Lane::Deletes => (&DELETES, "deletes"),
        Lane::Memory => (&MEMORY, "memory"),
    };
    let queue = queue.get_or_init(|| {
        let queue = Arc::new(Queue::default());
        let theirs = queue.clone();
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || work_loop(&theirs))
            .expect("the system refuses one more thread");
        queue
    });
    queue
        .jobs
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push_back(job);
    queue.filled.notify_one();
}

fn work_loop(queue: &Queue) {
    super::executor::allow_all_cores();
    loop {
        let mut jobs = queue.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job = loop {
            match jobs.pop_front() {
                Some(job) => break job,
                None => {
                    jobs = queue
                        .filled
                        .wait(jobs)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(jobs);
        // A panic of the work would leave its caller waiting for ever and end the thread for all others.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::executor::{run_shard, spawn};

    #[test]
    fn work_runs_elsewhere_and_its_result_comes_back() {
        let shard = run_shard(None, "blocking-test", || async {
            let here = std::thread::current().id();
            let there = run(|| std::thread::current().id()).await;
            assert_ne!(here, there);
            let tasks: Vec<_> = (0..50).map(|n| spawn(run(move || n * 2))).collect();
            for (n, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await, n * 2);
            }
        });
        shard.expect("starts").join().expect("runs");
    }

    #[test]
    fn nobody_waits_for_a_delete() {
        let shard = run_shard(None, "blocking-test", || async {
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let delete = spawn(run_in(Lane::Deletes, move || wait.recv()));
            // Behind it in the same queue this would wait for ever.
            run(|| ()).await;
            go.send(()).expect("it waits");
            delete.await.expect("told to go on");
        });
        shard.expect("starts").join().expect("runs");
    }
}
