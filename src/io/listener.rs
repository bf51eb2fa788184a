//! Accepting TCP connections.
//! One or more listeners per shard, each driven by one task.
//! Always: the loop neither spins nor stops when descriptors run out: the caller of that moment is turned away and the loop waits.
//! How many connections there may be, from where, is decided above.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Type};

use super::executor;
use super::ring::Ring;
use super::socket::{Socket, tcp_address};

/// A listening socket.
pub struct Listener {
    fd: Rc<OwnedFd>,
    /// Closed to make room for the one that is turned away when descriptors run out.
    spare: Option<File>,
    on_turned_away: Option<Box<dyn Fn()>>,
}

/// Connections the kernel keeps until they are accepted (bounded by `net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// How long to wait when the system has no descriptors or memory for a connection.
const EXHAUSTED_WAIT: Duration = Duration::from_millis(20);

impl Listener {
    /// Listens at `address`.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener::from_std(Self::bind_std(address)?))
    }

    /// A bound socket on the thread of its shard. Shards that share an address have clones of one socket, and whoever is first takes
    /// a connection: with a socket each (SO_REUSEPORT) a second broker could listen there as well, unnoticed.
    pub fn from_std(listener: std::net::TcpListener) -> Listener {
        Listener {
            fd: Rc::new(listener.into()),
            spare: open_spare(),
            on_turned_away: None,
        }
    }

    /// `count` is called for each connection that is closed at once because no descriptors are left.
    #[must_use]
    pub fn counting_turned_away(self, count: impl Fn() + 'static) -> Listener {
        Listener {
            on_turned_away: Some(Box::new(count)),
            ..self
        }
    }

    /// As `bind`, before there is a shard to listen on: a port in use is found before anything else is done.
    pub fn bind_std(address: SocketAddr) -> io::Result<std::net::TcpListener> {
        let socket = socket2::Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking(),
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&SockAddr::from(address))?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }

    /// Where it listens, with the port the kernel has chosen if it was 0.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        tcp_address(SockRef::from(&*self.fd).local_addr()?)
    }

    /// The next connection. An error is the listener's own, and final.
    pub async fn accept(&mut self) -> io::Result<(Socket, SocketAddr)> {
        loop {
            match self.accept_now() {
                Ok((socket, address)) => {
                    let socket: OwnedFd = socket.into();
                    // A peer that is gone already (EINVAL, ENOTCONN) is no concern of the listener.
                    if let (Ok(socket), Ok(address)) =
                        (Socket::from_fd(socket), tcp_address(address))
                    {
                        return Ok((socket, address));
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        Ring::current()
                            .poll(&self.fd, i32::from(libc::POLLIN))
                            .await?;
                    }
                    Some(libc::EMFILE | libc::ENFILE) => {
                        self.turn_away();
                        executor::sleep(EXHAUSTED_WAIT).await;
                    }
                    Some(libc::ENOBUFS | libc::ENOMEM) => executor::sleep(EXHAUSTED_WAIT).await,
                    // The listening socket itself is wrong.
                    Some(libc::EBADF | libc::EFAULT | libc::EINVAL | libc::ENOTSOCK) => {
                        return Err(error);
                    }
                    // All else (ECONNABORTED, EINTR, EPERM, network errors) belongs to the connection that did not come about.
                    _ => {}
                },
            }
        }
    }

    fn accept_now(&self) -> io::Result<(socket2::Socket, SockAddr)> {
        // Close-on-exec and non-blocking from the start.
        SockRef::from(&*self.fd).accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
    }

    /// Accepts one connection with the spare descriptor and closes it, so that it isn't left hanging.
    fn turn_away(&mut self) {
        self.spare = None;
        if self.accept_now().is_ok()
            && let Some(count) = &self.on_turned_away
        {
            count();
        }
        self.spare = open_spare();
    }
}

fn open_spare() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
mod tests;
