use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::*;
use crate::io::executor::{self, run_shard, spawn};
use crate::io::testing::{on_shard, quick};

/// Runs one shard for each seat.
fn on_shards<T: Send + 'static, Fut: Future<Output = ()> + 'static>(
    shards: usize,
    main: impl FnOnce(Endpoint<T>) -> Fut + Send + Clone + 'static,
) {
    let running: Vec<_> = Mesh::build(shards)
        .into_iter()
        .map(|seat: Seat<T>| {
            let main = main.clone();
            run_shard(
                None,
                "mesh",
                move || async move { main(seat.attach()).await },
            )
            .expect("starts")
        })
        .collect();
    for shard in running {
        shard.join().expect("runs");
    }
}

#[test]
fn messages_arrive_once_and_in_order() {
    const COUNT: u64 = 50_000; // Many times what an inbox holds.
    on_shards(2, |endpoint: Endpoint<u64>| async move {
        if endpoint.shard() == ShardId(0) {
            for n in 0..COUNT {
                endpoint.send(ShardId(1), n).await.expect("is there");
            }
            assert_eq!(endpoint.recv().await, COUNT);
        } else {
            for n in 0..COUNT {
                assert_eq!(endpoint.recv().await, n);
            }
            endpoint.send(ShardId(0), COUNT).await.expect("is there");
        }
    });
}

#[test]
fn everybody_sends_to_everybody_at_once() {
    const EACH: usize = 20_000;
    on_shards(3, |endpoint: Endpoint<(u16, usize)>| async move {
        let endpoint = Rc::new(endpoint);
        let senders: Vec<_> = (0..3)
            .map(|to| {
                let endpoint = endpoint.clone();
                spawn(async move {
                    for n in 0..EACH {
                        let message = (endpoint.shard().0, n);
                        endpoint.send(ShardId(to), message).await.expect("is there");
                    }
                })
            })
            .collect();
        let mut next = [0; 3];
        for _ in 0..3 * EACH {
            let (from, n) = endpoint.recv().await;
            assert_eq!(n, next[from as usize]);
            next[from as usize] += 1;
        }
        for sender in senders {
            sender.await;
        }
        assert!(endpoint.try_recv().is_none());
    });
}

enum Request {
    Double(u64, Reply<u64>),
    Drop(Reply<u64>),
    Stop,
}

#[test]
fn calls_are_answered_promptly_also_by_a_shard_that_sleeps() {
    on_shards(2, |endpoint: Endpoint<Request>| async move {
        if endpoint.shard() == ShardId(1) {
            loop {
                match endpoint.recv().await {
                    Request::Double(n, reply) => reply.send(n * 2),
                    Request::Drop(reply) => drop(reply),
                    Request::Stop => break,
                }
            }
            return;
        }
        let to = ShardId(1);
        let mut times = Vec::new();
        for n in 0..300 {
            let started = Instant::now();
            let answer = endpoint.call(to, |reply| Request::Double(n, reply)).await;
            assert_eq!(answer, Ok(n * 2));
            times.push(started.elapsed());
            if n % 10 == 0 {
                executor::sleep(Duration::from_millis(1)).await; // Both are asleep then.
            }
        }
        let quick = quick(times);
        assert!(quick < Duration::from_millis(1), "a call takes {quick:?}");
        assert_eq!(endpoint.call(to, Request::Drop).await, Err(Gone));
        endpoint.send(to, Request::Stop).await.expect("is there");
        // The shard ends; who asks afterwards is told.
        while endpoint.try_send(to, Request::Stop).is_ok() {
            executor::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(endpoint.call(to, Request::Drop).await, Err(Gone));
    });
}

#[test]
fn full_inbox_refuses_and_its_end_frees_who_waits() {
    on_shard(|| async {
        let mut seats = Mesh::build(2);
        let (second, first) = (seats.pop().expect("two"), seats.pop().expect("two"));
        let first = Rc::new(first.attach());
        for n in 0..INBOX_MESSAGES_MAX {
            first.try_send(ShardId(1), n).expect("room");
        }
        assert_eq!(first.try_send(ShardId(1), 7), Err(7));
        let (sent, flag) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let waiter = spawn({
            let (first, sent) = (first.clone(), sent.clone());
            async move {
                first.send(ShardId(1), 8).await.expect("room comes");
                sent.set(true);
                let result = first.send(ShardId(1), 9).await;
                for n in 0.. {
                    if first.send(ShardId(1), n).await.is_err() {
                        break;
                    }
                }
                result
            }
        });
        executor::sleep(Duration::from_millis(2)).await;
        assert!(!sent.get());
        // Sent before anybody took the seat, and all there.
        let second = second.attach();
        for n in 0..INBOX_MESSAGES_MAX {
            assert_eq!(second.recv().await, n);
        }
        assert_eq!(second.recv().await, 8);
        flag.set(sent.get());
        drop(second);
        assert_eq!(waiter.await, Ok(()));
        assert!(flag.get());
    });
}
