use std::rc::Rc;
use std::time::{Duration, Instant};

use super::*;
use crate::io::sync::Notify;
use crate::io::testing::{on_shard, quick, thread_cpu};

#[test]
fn shard_is_pinned_to_its_core() {
    let cores = available_cores();
    assert!(!cores.is_empty());
    let core = *cores.last().expect("one core at least");
    let inside = run_shard(Some(core), "pinned", || async { available_cores() })
        .expect("starts")
        .join()
        .expect("runs");
    assert_eq!(inside, [core]);
    for missing in [1023, 5000] {
        let shard = run_shard(Some(missing), "nowhere", || async {}).expect("a thread");
        let error = shard.join().expect_err("no such core");
        assert!(error.to_string().contains(&missing.to_string()), "{error}");
    }
}

#[test]
fn tasks_run_after_the_caller_awaits_and_give_their_result() {
    on_shard(|| async {
        let notify = Rc::new(Notify::new());
        let heard = notify.clone();
        let task = spawn(async move {
            heard.wait().await;
            7
        });
        yield_now().await;
        notify.notify();
        assert_eq!(task.await, 7);
        let stopped = spawn(async {
            std::future::pending::<()>().await;
        });
        assert!(stopped.cancel().await.is_none());
    });
}

#[test]
fn sleeping_is_on_time_and_deadlines_cut() {
    on_shard(|| async {
        sleep(Duration::from_millis(1)).await;
        let mut late = Vec::new();
        for _ in 0..100 {
            let wanted = clock::mono().plus_ms(1);
            sleep_until(wanted).await;
            late.push(Duration::from_nanos(clock::mono().0 - wanted.0));
        }
        let quick = quick(late);
        assert!(quick < Duration::from_millis(5), "late by {quick:?}");
        let soon = clock::mono().plus_ms(5);
        assert_eq!(until(soon, std::future::pending::<u8>()).await, None);
        assert_eq!(until(soon, std::future::ready(3)).await, Some(3));
    });
}

#[test]
fn idle_shard_uses_no_cpu() {
    on_shard(|| async {
        sleep(Duration::from_millis(20)).await;
        let before = thread_cpu();
        let started = Instant::now();
        sleep(Duration::from_millis(300)).await;
        let used = thread_cpu() - before;
        assert!(started.elapsed() >= Duration::from_millis(300));
        assert!(used < Duration::from_millis(5), "used {used:?} in 300 ms");
    });
}
