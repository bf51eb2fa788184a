use bytes::BytesMut;
use futures_lite::future::{or, poll_once};

use super::*;
use crate::io::arena::Arena;
use crate::io::executor::{self, run_shard, spawn};
use crate::io::listener::Listener;
use crate::io::testing::{connection, on_shard, pattern};

#[test]
fn bytes_go_both_ways_and_the_end_is_seen() {
    on_shard(|| async {
        let (client, server) = connection().await;
        assert_eq!(server.try_recv(&mut [0]).expect("reads"), None);
        client.send(b"hello", false).await.expect("sends");
        let mut buffer = BytesMut::new();
        while buffer.len() < 5 {
            assert!(server.recv_buf(&mut buffer, 3).await.expect("reads") <= 3);
        }
        assert_eq!(&buffer[..], b"hello");
        let pieces = [IoSlice::new(b"wor"), IoSlice::new(b"ld")];
        assert_eq!(
            server.try_send_vectored(&pieces, false).expect("sends"),
            Some(5)
        );
        let mut answer = [0; 5];
        let mut filled = 0;
        while filled < 5 {
            filled += client.recv(&mut answer[filled..]).await.expect("reads");
        }
        assert_eq!(&answer, b"world");
        drop(client);
        assert_eq!(server.recv(&mut [0]).await.expect("reads"), 0);
    });
}

#[test]
fn many_bytes_are_waited_for_as_a_whole_for_a_while() {
    on_shard(|| async {
        let (client, server) = connection().await;
        client.send(&[1; 1000], false).await.expect("sends");
        let short = Duration::from_millis(2);
        assert!(!server.readable_bytes(20_000, short).await.expect("waits"));
        // The mark is gone with the wait: what is there can be waited for and read.
        server.readable().await.expect("waits");
        assert_eq!(server.try_recv(&mut [0; 2000]).expect("reads"), Some(1000));
        let sender = spawn(async move {
            client.send(&[1; 12_000], false).await.expect("sends");
            executor::sleep(Duration::from_millis(5)).await;
            client.send(&[1; 8_000], false).await.expect("sends");
            client
        });
        let long = Duration::from_secs(20);
        assert!(server.readable_bytes(20_000, long).await.expect("waits"));
        let mut all = vec![0; 40_000];
        assert_eq!(server.try_recv(&mut all).expect("reads"), Some(20_000));
        drop(sender.await);
        // An end is seen at once, however much is waited for.
        assert!(server.readable_bytes(20_000, long).await.expect("waits"));
        assert_eq!(server.try_recv(&mut all).expect("reads"), Some(0));
    });
}

#[test]
fn full_socket_waits_and_loses_nothing() {
    on_shard(|| async {
        let (client, server) = connection().await;
        let bytes = pattern(1, 8 << 20);
        let sent = bytes.clone();
        let task = spawn(async move { server.send(&sent, false).await });
        executor::sleep(Duration::from_millis(5)).await;
        let mut received = BytesMut::new();
        while received.len() < bytes.len() {
            let count = client
                .recv_buf(&mut received, 1 << 20)
                .await
                .expect("reads");
            assert!(count > 0);
        }
        task.await.expect("sends");
        assert!(received == bytes);
    });
}

#[test]
fn sendfile_sends_arena_bytes_with_a_header_in_front() {
    on_shard(|| async {
        let (client, server) = connection().await;
        let arena = Arena::new(4 << 20).expect("arena");
        let bytes = pattern(2, 4 << 20);
        let extent = arena.allocate(4 << 20).expect("room");
        extent.copy_in(0, &bytes);
        let pinned = extent.pin(1000, (4 << 20) - 1000);
        let task = spawn(async move {
            server.send(b"head", true).await.expect("sends");
            let slice = pinned.for_send();
            let mut sent = 0;
            while sent < slice.len {
                match server.try_sendfile(slice.part(sent, slice.len - sent)) {
                    Ok(Some(count)) => sent += count,
                    Ok(None) => server.writable().await.expect("waits"),
                    Err(error) => panic!("sendfile: {error}"),
                }
            }
        });
        let mut received = BytesMut::new();
        while received.len() < 4 + bytes.len() - 1000 {
            assert!(
                client
                    .recv_buf(&mut received, 1 << 20)
                    .await
                    .expect("reads")
                    > 0
            );
        }
        task.await;
        assert_eq!(&received[..4], b"head");
        assert!(received[4..] == bytes[1000..]);
    });
}

#[test]
fn peer_that_is_gone_is_an_error_and_no_signal() {
    on_shard(|| async {
        let (client, server) = connection().await;
        let arena = Arena::new(1 << 20).expect("arena");
        let slice = arena.allocate(1 << 20).expect("room").pin(0, 1 << 20);
        server.send(b"unread", false).await.expect("sends");
        executor::sleep(Duration::from_millis(2)).await;
        drop(client); // Closed with bytes unread: a reset.
        server.hangup().await.expect("is seen");
        let error = loop {
            match server.try_sendfile(slice.for_send()) {
                Ok(Some(_)) => {}
                Ok(None) => server.writable().await.expect("waits"),
                Err(error) => break error,
            }
        };
        let errno = error.raw_os_error();
        assert!(
            matches!(errno, Some(libc::EPIPE | libc::ECONNRESET)),
            "{error}"
        );
        let error = server.send(b"x", false).await.expect_err("broken");
        assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
    });
}

#[test]
fn hangup_is_heard_while_nobody_reads() {
    on_shard(|| async {
        let (client, server) = connection().await;
        client.send(b"unread", false).await.expect("sends");
        let mut hangup = Box::pin(server.hangup());
        assert!(poll_once(&mut hangup).await.is_none());
        executor::sleep(Duration::from_millis(2)).await;
        assert!(
            poll_once(&mut hangup).await.is_none(),
            "bytes are no hangup"
        );
        drop(client);
        hangup.await.expect("is heard");
    });
}

#[test]
fn shutdown_wakes_who_waits() {
    on_shard(|| async {
        let (_client, server) = connection().await;
        let reader = server.clone();
        let task = spawn(async move { reader.recv(&mut [0]).await });
        executor::yield_now().await;
        server.shutdown();
        assert_eq!(task.await.expect("reads"), 0);
    });
}

#[test]
fn connection_moves_to_another_shard() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let first = run_shard(None, "first", move || async move {
        let mut listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("binds");
        let address = listener.local_address().expect("bound");
        let client = Socket::connect(address).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        client.send(b"one", false).await.expect("sends");
        let mut bytes = [0; 3];
        server.recv(&mut bytes).await.expect("reads");
        // A wait that was given up must not keep the descriptor here for ever.
        assert!(poll_once(server.readable()).await.is_none());
        let mut server = server;
        let fd = loop {
            match server.into_fd() {
                Ok(fd) => break fd,
                Err(back) => {
                    server = back;
                    executor::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        sender.send(fd).expect("is heard");
        client.send(b"two", false).await.expect("sends");
        let mut bytes = [0; 5];
        client.recv(&mut bytes).await.expect("reads");
        assert_eq!(&bytes, b"three");
    })
    .expect("starts");
    let second = run_shard(None, "second", move || async move {
        let fd = crate::io::blocking::run(move || receiver.recv().expect("comes")).await;
        let server = Socket::from_fd(fd).expect("is a socket");
        let mut bytes = [0; 3];
        server.recv(&mut bytes).await.expect("reads");
        assert_eq!(&bytes, b"two");
        server.send(b"three", false).await.expect("sends");
    })
    .expect("starts");
    first.join().expect("runs");
    second.join().expect("runs");
}

#[test]
fn refused_connection_is_an_error() {
    on_shard(|| async {
        let address = {
            let listener = Listener::bind(([127, 0, 0, 1], 0).into()).expect("binds");
            listener.local_address().expect("bound")
        };
        let error = Socket::connect(address)
            .await
            .err()
            .expect("nobody listens");
        assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
    });
}

#[test]
fn options_are_set_on_accepted_connections() {
    on_shard(|| async {
        let (client, server) = connection().await;
        assert_eq!(
            client.local_address().expect("bound"),
            server.peer_address().expect("connected")
        );
        let options = SockRef::from(&*server.fd);
        assert!(options.tcp_nodelay().expect("an option"));
        assert!(options.keepalive().expect("an option"));
        let never = or(async { server.recv(&mut [0]).await.is_ok() }, async {
            executor::sleep(Duration::from_millis(3)).await;
            false
        });
        assert!(!never.await, "nothing was sent");
    });
}
