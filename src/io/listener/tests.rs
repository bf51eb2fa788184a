use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::process::Command;

use super::*;
use crate::io::executor::spawn;
use crate::io::testing::{on_shard, thread_cpu};

#[test]
fn port_in_use_is_said_and_clones_of_a_listener_share_its_connections() {
    on_shard(|| async {
        let first = Listener::bind_std(([127, 0, 0, 1], 0).into()).expect("binds");
        let address = first.local_addr().expect("bound");
        let error = Listener::bind_std(address).expect_err("in use");
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
        let mut other = Listener::from_std(first.try_clone().expect("clones"));
        let mut first = Listener::from_std(first);
        // Both wait, and each connection is taken once.
        let waiting = spawn(async move { other.accept().await.map(|(_, peer)| (other, peer)) });
        let one = Socket::connect(address).await.expect("connects");
        let two = Socket::connect(address).await.expect("connects");
        let (_, peer) = first.accept().await.expect("accepts");
        let (other, other_peer) = waiting.await.expect("accepts");
        let mut peers = [peer, other_peer];
        let mut wanted = [one, two].map(|socket| socket.local_address().expect("bound"));
        peers.sort();
        wanted.sort();
        assert_eq!(peers, wanted);
        drop(first);
        // The port is had until the last clone is gone.
        Listener::bind_std(address).expect_err("in use");
        drop(other);
    });
}

#[test]
fn both_ip_versions_are_accepted() {
    on_shard(|| async {
        let mut listener =
            Listener::bind((std::net::Ipv6Addr::UNSPECIFIED, 0).into()).expect("binds");
        let port = listener.local_address().expect("bound").port();
        for address in [
            SocketAddr::from(([127, 0, 0, 1], port)),
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)),
        ] {
            let client = Socket::connect(address).await.expect("connects");
            let (_server, peer) = listener.accept().await.expect("accepts");
            assert_eq!(peer.port(), client.local_address().expect("bound").port());
        }
    });
}

/// In a process of its own: the limit holds for all of it.
#[test]
fn no_descriptors_left_turns_callers_away_without_spinning() {
    const INNER: &str = "io::listener::tests::inner_no_descriptors_left";
    let output = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", INNER, "--ignored", "--nocapture"])
        .output()
        .expect("runs itself");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by no_descriptors_left_turns_callers_away_without_spinning"]
fn inner_no_descriptors_left() {
    on_shard(|| async {
        let turned_away = Rc::new(Cell::new(0));
        let count = {
            let turned_away = turned_away.clone();
            move || turned_away.set(turned_away.get() + 1)
        };
        let mut listener = Listener::bind(([127, 0, 0, 1], 0).into())
            .expect("binds")
            .counting_turned_away(count);
        let address = listener.local_address().expect("bound");
        // Callers first: each of them needs a descriptor too.
        let callers: Vec<_> = (0..4)
            .map(|_| std::net::TcpStream::connect(address).expect("connects"))
            .collect();
        let mut hoard = Vec::new();
        let limit = libc::rlimit {
            rlim_cur: 64,
            rlim_max: 64,
        };
        // SAFETY: the kernel reads the structure.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        while let Ok(file) = File::open("/dev/null") {
            hoard.push(file);
        }
        let before = thread_cpu();
        let accepting = spawn(async move {
            let (socket, _) = listener.accept().await.expect("accepts");
            socket
        });
        // All four are turned away: each sees its end.
        for caller in &callers {
            while !has_ended(caller) {
                executor::sleep(Duration::from_millis(5)).await;
            }
        }
        executor::sleep(Duration::from_millis(200)).await;
        let used = thread_cpu() - before;
        assert!(
            used < Duration::from_millis(50),
            "spins: {used:?} in more than 200 ms"
        );
        // With room again the next caller is served.
        drop(hoard);
        let _caller = std::net::TcpStream::connect(address).expect("connects");
        let _socket = accepting.await;
        assert_eq!(turned_away.get(), 4);
    });
}

fn has_ended(caller: &std::net::TcpStream) -> bool {
    let mut byte = [0u8];
    // SAFETY: the kernel writes one byte of ours.
    let read = unsafe {
        libc::recv(
            caller.as_raw_fd(),
            byte.as_mut_ptr().cast(),
            1,
            libc::MSG_DONTWAIT,
        )
    };
    read == 0
}
