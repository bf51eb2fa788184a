//! Runs what has no asynchronous call (reading directories, old kernels' missing opcodes) on a thread of its own.
//! One thread per process, started at first use, not pinned; any shard may ask.
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

/// Runs `work` on the blocking thread and waits for its result.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let bell = Bell::new();
    let handle = bell.handle();
    let answer = Arc::new(Mutex::new(None));
    let slot = answer.clone();
    submit(Box::new(move || {
        let value = work();
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        handle.ring();
    }));
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
pub(super) fn submit(job: Job) {
    static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| {
        let queue = Arc::new(Queue::default());
        let theirs = queue.clone();
        std::thread::Builder::new()
            .name("blocking".into())
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
}
