//! TCP: connections that are read and written by plain system calls and waited for on the companion ring.
//! A `Socket` is owned by the tasks of one connection; it may be handed to another shard as a descriptor.
//! Always: no call blocks the shard; the kernel holds none of our memory while a task waits; a peer that is gone is an error, never
//! a signal.
//! Frames, limits and deadlines are the connection's.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, TcpKeepalive, Type};

use super::arena::SliceRef;
use super::image::Receiving;
use super::ring::Ring;
use super::{clock, executor, sys};

/// Below this size bytes in the arena are always copied on their way out: page references cost more than the copy, and small places
/// that were sent from by reference keep their neighbours waiting for new pages.
pub const SENDFILE_BYTES_MIN: usize = 64 << 10;

/// A peer that doesn't answer for about this long is gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// A connected, non-blocking socket; all calls take `&self`, so a reader and a writer may share it in an `Rc`.
pub struct Socket {
    fd: Rc<OwnedFd>,
}

impl Socket {
    /// Takes over a connected descriptor: non-blocking, no Nagle delay, keepalive.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Socket> {
        sys::set_nonblocking(&fd, true)?;
        let socket = SockRef::from(&fd);
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(
            &TcpKeepalive::new()
                .with_time(KEEPALIVE_IDLE)
                .with_interval(KEEPALIVE_INTERVAL)
                .with_retries(KEEPALIVE_PROBES),
        )?;
        Ok(Socket { fd: Rc::new(fd) })
    }

    /// Connects to `address`.
    pub async fn connect(address: SocketAddr) -> io::Result<Socket> {
        let socket = socket2::Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking(),
            Some(Protocol::TCP),
        )?;
        let started = socket.connect(&SockAddr::from(address));
        let connected = Socket::from_fd(socket.into())?;
        match started {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                connected.writable().await?;
                if let Some(error) = SockRef::from(&*connected.fd).take_error()? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(connected)
    }

    /// Gives the descriptor away, for another shard. Fails (and gives the socket back) while a task waits on it.
    pub fn into_fd(self) -> Result<OwnedFd, Socket> {
        Rc::try_unwrap(self.fd).map_err(|fd| Socket { fd })
    }

    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        tcp_address(SockRef::from(&*self.fd).peer_addr()?)
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        tcp_address(SockRef::from(&*self.fd).local_addr()?)
    }

    /// What came, at most `into.len()` bytes; 0: the peer has closed; `None`: nothing yet.
    pub fn try_recv(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        would_block(|| {
            // SAFETY: the kernel writes at most `into.len()` bytes to memory that is borrowed for the call.
            // Run by `socket::tests`.
            sys::check_len(unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    into.as_mut_ptr().cast(),
                    into.len(),
                    libc::MSG_DONTWAIT,
                )
            })
        })
    }

    /// Waits for bytes; 0: the peer has closed.
    pub async fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(count) = self.try_recv(into)? {
                return Ok(count);
            }
            self.readable().await?;
        }
    }

    /// Waits for bytes and appends them to `buffer`, at most `max` (and no more than came at once); 0: the peer has closed.
    /// The buffer grows with what arrives, not with what is announced.
    pub async fn recv_buf(&self, buffer: &mut bytes::BytesMut, max: usize) -> io::Result<usize> {
        loop {
            if let Some(count) = self.try_recv_buf(buffer, max)? {
                return Ok(count);
            }
            self.readable().await?;
        }
    }

    /// As `recv_buf`, without waiting.
    pub fn try_recv_buf(
        &self,
        buffer: &mut bytes::BytesMut,
        max: usize,
    ) -> io::Result<Option<usize>> {
        let filled = buffer.len();
        if buffer.capacity() == filled {
            buffer.reserve(filled.clamp(RECV_BYTES_MIN, RECV_BYTES_MAX));
        }
        let room = (buffer.capacity() - filled).min(max);
        let spare = &mut buffer.spare_capacity_mut()[..room];
        let count = would_block(|| {
            // SAFETY: the kernel writes at most `room` bytes to spare memory of the buffer. Run by `socket::tests`.
            sys::check_len(unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    spare.as_mut_ptr().cast(),
                    room,
                    libc::MSG_DONTWAIT,
                )
            })
        })?;
        if let Some(count) = count {
            // SAFETY: the kernel has just written `count` bytes behind the first `filled`. Run by `socket::tests`.
            unsafe { buffer.set_len(filled + count) };
        }
        Ok(count)
    }

    /// Waits for bytes and puts them where they stay; 0: the peer has closed.
    pub async fn recv_into(&self, receiving: &mut Receiving) -> io::Result<usize> {
        loop {
            if let Some(count) = self.try_recv_into(receiving)? {
                return Ok(count);
            }
            self.readable().await?;
        }
    }

    /// As `recv_into`, without waiting.
    pub fn try_recv_into(&self, receiving: &mut Receiving) -> io::Result<Option<usize>> {
        would_block(|| {
            receiving.fill_with(|spare| match self.try_recv(spare)? {
                Some(count) => Ok(count),
                None => Err(io::ErrorKind::WouldBlock.into()),
            })
        })
    }

    /// Sends what the socket takes now; `None`: nothing. `more` follows at once (no packet is sent for this alone).
    pub fn try_send(&self, bytes: &[u8], more: bool) -> io::Result<Option<usize>> {
        let flags = send_flags(more);
        would_block(|| {
            // SAFETY: the kernel reads `bytes` during the call only. Run by `socket::tests`.
            sys::check_len(unsafe {
                libc::send(
                    self.fd.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    flags,
                )
            })
        })
    }

    /// Sends all of `bytes`.
    pub async fn send(&self, mut bytes: &[u8], more: bool) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_send(bytes, more)? {
                Some(count) => bytes = &bytes[count..],
                None => self.writable().await?,
            }
        }
        Ok(())
    }

    /// Sends what the socket takes now of several pieces (at most 1,024); `None`: nothing.
    pub fn try_send_vectored(
        &self,
        pieces: &[IoSlice<'_>],
        more: bool,
    ) -> io::Result<Option<usize>> {
        // SAFETY: an all-zero msghdr is a value of the type: no name, no control data. Run by `socket::tests`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // An IoSlice has the layout of an iovec, as std promises; the kernel only reads it.
        message.msg_iov = pieces.as_ptr().cast_mut().cast();
        message.msg_iovlen = pieces.len().min(libc::UIO_MAXIOV as usize);
        would_block(|| {
            // SAFETY: the pieces are borrowed for the call, which reads them. Run by `socket::tests`.
            sys::check_len(unsafe {
                libc::sendmsg(self.fd.as_raw_fd(), &message, send_flags(more))
            })
        })
    }

    /// Sends bytes of an arena without copying, as many as the socket takes now; `None`: nothing. The owner of the `Pinned`
    /// behind `slice` keeps it until the call returns.
    pub fn try_sendfile(&self, slice: SliceRef) -> io::Result<Option<usize>> {
        let mut offset = slice.offset as libc::off_t;
        let sent = would_block(|| {
            // SAFETY: no memory but the offset is involved. Run by `socket::tests` and `arena::tests`.
            sys::check_len(unsafe {
                libc::sendfile(self.fd.as_raw_fd(), slice.fd, &mut offset, slice.len)
            })
        })?;
        assert!(
            sent != Some(0) || slice.len == 0,
            "{slice:?} is beyond the end of its memory"
        );
        Ok(sent)
    }

    /// Waits until there is something to read, or an end or error to see.
    pub async fn readable(&self) -> io::Result<()> {
        self.wait(libc::POLLIN | libc::POLLRDHUP).await
    }

    /// As `readable`, but for `bytes` bytes (at most `WAKE_BYTES_MAX`), for as long as `patience`: who reads much is not woken
    /// for every few packets. False if the time was up first.
    pub async fn readable_bytes(&self, bytes: usize, patience: Duration) -> io::Result<bool> {
        let _mark = LowMark::set(&self.fd, bytes.min(WAKE_BYTES_MAX))?;
        let deadline = clock::mono().plus_ms(patience.as_millis() as i64);
        match executor::until(deadline, self.readable()).await {
            Some(result) => result.map(|()| true),
            None => Ok(false),
        }
    }

    /// Waits until some bytes can be sent, or an error to see.
    pub async fn writable(&self) -> io::Result<()> {
        self.wait(libc::POLLOUT).await
    }

    /// Waits until the peer has closed or the connection is broken, whatever lies unread.
    pub async fn hangup(&self) -> io::Result<()> {
        self.wait(libc::POLLRDHUP).await
    }

    /// Closes both directions: tasks that wait on the socket wake up.
    pub fn shutdown(&self) {
        // Not connected any more is what was wanted.
        let _ = SockRef::from(&*self.fd).shutdown(std::net::Shutdown::Both);
    }

    async fn wait(&self, events: i16) -> io::Result<()> {
        Ring::current()
            .poll(&self.fd, i32::from(events))
            .await
            .map(drop)
    }
}

/// While it lives the socket is readable only with so many bytes (or an end to see).
struct LowMark<'a>(&'a OwnedFd);

impl LowMark<'_> {
    fn set(fd: &OwnedFd, bytes: usize) -> io::Result<LowMark<'_>> {
        set_receive_low_mark(fd, bytes)?;
        Ok(LowMark(fd))
    }
}

impl Drop for LowMark<'_> {
    fn drop(&mut self) {
        // It was set before, so it can be set.
        let _ = set_receive_low_mark(self.0, 1);
    }
}

/// Sets SO_RCVLOWAT: with how many bytes a socket becomes readable.
fn set_receive_low_mark(fd: &OwnedFd, bytes: usize) -> io::Result<()> {
    let value = bytes as libc::c_int;
    // SAFETY: the kernel reads one int of ours. Run by `socket::tests`.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    sys::check(result).map(drop)
}

/// More is not waited for at once: the kernel has to keep it.
const WAKE_BYTES_MAX: usize = 1 << 20;

/// The first buffer of a connection, and the most it grows by at once.
const RECV_BYTES_MIN: usize = 16 << 10;
const RECV_BYTES_MAX: usize = 1 << 20;

fn send_flags(more: bool) -> libc::c_int {
    let more = if more { libc::MSG_MORE } else { 0 };
    libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | more
}

/// `None` for "not now", with interrupted calls made again.
fn would_block(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        return match call() {
            Ok(count) => Ok(Some(count)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Ok(None),
                io::ErrorKind::Interrupted => continue,
                _ => Err(error),
            },
        };
    }
}

pub(super) fn tcp_address(address: SockAddr) -> io::Result<SocketAddr> {
    address
        .as_socket()
        .ok_or_else(|| io::Error::other("the address is no IP address"))
}

#[cfg(test)]
mod tests;
