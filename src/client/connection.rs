//! One connection to a broker: the handshake, single calls, and two halves for pipelining.
//! Owned by one task, or its halves by two of the same shard.
//! Always: answers come in the order of the requests, and a call checks that.
//! What is asked is said in the files beside this one.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::error::ClientError;
use crate::base::ErrorCode;
use crate::io::socket::Socket;
use crate::io::{clock, executor};
use crate::wire::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::wire::{ApiKey, Message, Reader, Request, Str, read_response, request_frame};

/// How long a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest answer that is believed.
const FRAME_BYTES_MAX: usize = 1 << 30;
/// First buffer of a connection, and what it has free before it asks the kernel.
const BUFFER_BYTES: usize = 8 << 10;
/// The version of ApiVersions that is asked first: every broker since 2.4 has it.
const API_VERSIONS_FIRST: i16 = 3;

const SOFTWARE: Str = Str::from_static("ringlog-bench");

/// What a broker speaks and we do.
#[derive(Clone, Debug, Default)]
pub struct Versions(HashMap<i16, i16>);

impl Versions {
    fn common(offered: &ApiVersionsResponse) -> Versions {
        let newest = offered.api_keys.iter().filter_map(|offer| {
            let ours = ApiKey::from_key(offer.api_key)?.served();
            let version = ours.max.min(offer.max_version);
            (version >= ours.min && version >= offer.min_version)
                .then_some((offer.api_key, version))
        });
        Versions(newest.collect())
    }

    /// The newest version that both sides have.
    pub fn of(&self, api: ApiKey) -> Option<i16> {
        self.0.get(&api.key()).copied()
    }
}

/// A connection past its handshake.
pub struct Connection {
    sender: Sender,
    receiver: Receiver,
    versions: Rc<Versions>,
}

/// The half that sends.
pub struct Sender {
    socket: Rc<Socket>,
    address: Rc<str>,
    next_correlation: Cell<i32>,
}

/// The half that receives.
pub struct Receiver {
    socket: Rc<Socket>,
    address: Rc<str>,
    buffer: BytesMut,
}

impl Connection {
    /// Connects to `HOST:PORT` and asks for its versions.
    pub async fn open(address: &str) -> Result<Connection, ClientError> {
        let refused = |error| ClientError::Connect {
            address: address.to_owned(),
            error,
        };
        let resolved = resolve(address).map_err(refused)?;
        let deadline = clock::mono().plus_ms(PATIENCE.as_millis() as i64);
        let socket = match executor::until(deadline, Socket::connect(resolved)).await {
            Some(result) => result.map_err(refused)?,
            None => return Err(refused(io::ErrorKind::TimedOut.into())),
        };
        let socket = Rc::new(socket);
        let address: Rc<str> = address.into();
        let mut connection = Connection {
            sender: Sender {
                socket: socket.clone(),
                address: address.clone(),
                next_correlation: Cell::new(0),
            },
            receiver: Receiver::over(socket, &address),
            versions: Rc::default(),
        };
        connection.versions = Rc::new(connection.handshake().await?);
        Ok(connection)
    }

    async fn handshake(&mut self) -> Result<Versions, ClientError> {
        let request = ApiVersionsRequest {
            client_software_name: SOFTWARE,
            client_software_version: Str::from_static(env!("CARGO_PKG_VERSION")),
            ..ApiVersionsRequest::default()
        };
        let mut version = API_VERSIONS_FIRST;
        loop {
            let frame = self.exchange(&request, version).await?;
            // Size of the header: a correlation id. A broker that lacks the version answers in version 0 (KIP-511).
            let code = frame.get(4..6).map(|c| i16::from_be_bytes([c[0], c[1]]));
            if code == Some(ErrorCode::UnsupportedVersion.code()) && version > 0 {
                version = 0;
                continue;
            }
            let (_, offered) = self.read::<ApiVersionsRequest>(frame, version)?;
            if offered.error_code != 0 {
                let what = format!("ApiVersions at {}", self.sender.address);
                return Err(ClientError::refused(what, offered.error_code, None));
            }
            return Ok(Versions::common(&offered));
        }
    }

    pub fn address(&self) -> &str {
        &self.sender.address
    }

    /// The version that is spoken with this broker.
    pub fn version(&self, api: ApiKey) -> Result<i16, ClientError> {
        self.versions.of(api).ok_or_else(|| ClientError::Version {
            address: self.sender.address.to_string(),
            api,
        })
    }

    /// Asks and waits for the answer.
    pub async fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        self.call_at_most(request, i16::MAX).await
    }

    /// As `call`, in a version no newer than `newest`.
    pub async fn call_at_most<R: Request>(
        &mut self,
        request: &R,
        newest: i16,
    ) -> Result<R::Response, ClientError> {
        let version = self.version(R::API)?.min(newest);
        let frame = self.exchange(request, version).await?;
        Ok(self.read::<R>(frame, version)?.1)
    }

    async fn exchange<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<Bytes, ClientError> {
        let correlation = self.sender.next_correlation();
        let frame = request_frame(correlation, Some(SOFTWARE), request, version)?;
        let deadline = clock::mono().plus_ms(PATIENCE.as_millis() as i64);
        let both = async {
            self.sender.send(&[&frame.bytes]).await?;
            self.receiver.frame().await
        };
        let answer = match executor::until(deadline, both).await {
            Some(answer) => answer?,
            None => {
                return Err(ClientError::Silent {
                    address: self.sender.address.to_string(),
                    seconds: PATIENCE.as_secs(),
                });
            }
        };
        let found = answer
            .get(..4)
            .map(|c| i32::from_be_bytes([c[0], c[1], c[2], c[3]]));
        if found != Some(correlation) {
            return Err(ClientError::Answer {
                address: self.sender.address.to_string(),
                what: format!("correlation id {found:?} instead of {correlation}"),
            });
        }
        Ok(answer)
    }

    fn read<R: Request>(
        &self,
        frame: Bytes,
        version: i16,
    ) -> Result<(i32, R::Response), ClientError> {
        read_response::<R>(&mut Reader::new(frame), version)
            .map_err(|error| ClientError::undecodable(&self.sender.address, &error))
    }

    /// The two halves, for requests in flight behind each other.
    pub fn into_halves(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

impl Sender {
    pub fn next_correlation(&self) -> i32 {
        let next = self.next_correlation.get().wrapping_add(1) & i32::MAX;
        self.next_correlation.set(next);
        next
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends the pieces one behind the other.
    pub async fn send(&self, pieces: &[&[u8]]) -> Result<(), ClientError> {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            let sent = self.socket.try_send_vectored(left, false);
            match sent.map_err(|error| self.broken(error))? {
                Some(count) => IoSlice::advance_slices(&mut left, count),
                None => {
                    let writable = self.socket.writable().await;
                    writable.map_err(|error| self.broken(error))?;
                }
            }
        }
        Ok(())
    }

    /// Wakes the other half with an end.
    pub fn shutdown(&self) {
        self.socket.shutdown();
    }

    fn broken(&self, error: io::Error) -> ClientError {
        broken(&self.address, error)
    }
}

impl Receiver {
    /// Over a connection that has no other reader.
    pub fn over(socket: Rc<Socket>, address: &str) -> Receiver {
        Receiver {
            socket,
            address: address.into(),
            buffer: BytesMut::with_capacity(BUFFER_BYTES),
        }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next answer, without its size.
    pub async fn frame(&mut self) -> Result<Bytes, ClientError> {
        loop {
            let wanted = match self.buffer.first_chunk::<4>() {
                Some(size) => {
                    let size = i32::from_be_bytes(*size);
                    let size = usize::try_from(size).ok().filter(|s| *s <= FRAME_BYTES_MAX);
                    let size = size.ok_or_else(|| ClientError::Answer {
                        address: self.address.to_string(),
                        what: "a frame with an impossible size".to_owned(),
                    })?;
                    if self.buffer.len() >= 4 + size {
                        self.buffer.advance(4);
                        return Ok(self.buffer.split_to(size).freeze());
                    }
                    4 + size - self.buffer.len()
                }
                None => 4,
            };
            self.buffer.reserve(wanted.max(BUFFER_BYTES));
            let received = self.socket.recv_buf(&mut self.buffer, usize::MAX).await;
            match received.map_err(|error| broken(&self.address, error))? {
                0 => {
                    return Err(ClientError::Closed {
                        address: self.address.to_string(),
                    });
                }
                _ => continue,
            }
        }
    }

    /// Reads a frame as the answer to a request of this kind.
    pub fn read<R: Request>(
        &self,
        frame: Bytes,
        version: i16,
    ) -> Result<(i32, R::Response), ClientError>
    where
        R::Response: Message,
    {
        read_response::<R>(&mut Reader::new(frame), version)
            .map_err(|error| ClientError::undecodable(&self.address, &error))
    }
}

fn broken(address: &str, error: io::Error) -> ClientError {
    ClientError::Broken {
        address: address.to_owned(),
        error,
    }
}

/// The first address of a host, an IPv4 one if there is one.
pub fn resolve(address: &str) -> io::Result<SocketAddr> {
    let found: Vec<SocketAddr> = std::net::ToSocketAddrs::to_socket_addrs(address)?.collect();
    let ipv4 = found.iter().find(|address| address.is_ipv4());
    ipv4.or(found.first())
        .copied()
        .ok_or_else(|| io::Error::other("the name has no address"))
}
