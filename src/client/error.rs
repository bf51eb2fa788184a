//! Why a request did not do what it should; one line for a person.
//! Owned by whoever asked.
//! Always: names the broker or topic, what it said, and the fix where there is one.
//! Whether it ends a run is the caller's.

use std::fmt;
use std::io;

use crate::base::ErrorCode;
use crate::wire::{ApiKey, DecodeError, EncodeError};

#[derive(Debug)]
pub enum ClientError {
    /// No connection came about.
    Connect {
        address: String,
        error: io::Error,
    },
    /// A connection broke.
    Broken {
        address: String,
        error: io::Error,
    },
    Closed {
        address: String,
    },
    /// No answer in time.
    Silent {
        address: String,
        seconds: u64,
    },
    /// What came is no answer to what was asked.
    Answer {
        address: String,
        what: String,
    },
    /// The broker has no version of this API that we have.
    Version {
        address: String,
        api: ApiKey,
    },
    /// Asked for something that this version can't say.
    Request(EncodeError),
    /// The broker refused; `what` is what was asked for.
    Refused {
        what: String,
        code: i16,
        message: String,
    },
}

impl ClientError {
    /// A refusal with the text of its code, and the broker's own where it sent one.
    pub fn refused(what: impl Into<String>, code: i16, message: Option<&str>) -> ClientError {
        ClientError::Refused {
            what: what.into(),
            code,
            message: message.unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn undecodable(address: &str, error: &DecodeError) -> ClientError {
        ClientError::Answer {
            address: address.to_owned(),
            what: error.to_string(),
        }
    }
}

/// "Too many open files", on Linux.
const EMFILE: i32 = 24;

/// Kafka's name of a code, or its number.
pub fn code_name(code: i16) -> String {
    match ErrorCode::from_code(code) {
        Some(known) => known.name().to_owned(),
        None => format!("error code {code}"),
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Connect { address, error } if error.raw_os_error() == Some(EMFILE) => {
                write!(
                    f,
                    "no more connections to {address}: this process may not have more open files; raise `ulimit -n` or use fewer connections"
                )
            }
            ClientError::Connect { address, error } => write!(
                f,
                "no broker answers at {address}: {error}; start one or give another --bootstrap HOST:PORT"
            ),
            ClientError::Broken { address, error } => {
                write!(f, "the connection to {address} broke: {error}")
            }
            ClientError::Closed { address } => write!(
                f,
                "the broker at {address} closed the connection; its log says why"
            ),
            ClientError::Silent { address, seconds } => write!(
                f,
                "the broker at {address} did not answer within {seconds} s"
            ),
            ClientError::Answer { address, what } => write!(
                f,
                "what {address} sent is no answer of the Kafka protocol: {what}"
            ),
            ClientError::Version { address, api } => write!(
                f,
                "the broker at {address} has no version of {api:?} in common with this client ({}-{})",
                api.served().min,
                api.served().max
            ),
            ClientError::Request(error) => write!(f, "the request can't be written: {error}"),
            ClientError::Refused {
                what,
                code,
                message,
            } => {
                write!(f, "{what}: {}", code_name(*code))?;
                let known = ErrorCode::from_code(*code).map_or("", ErrorCode::message);
                match (message.is_empty(), known.is_empty()) {
                    (false, _) => write!(f, ": {message}")?,
                    (true, false) => write!(f, ": {known}")?,
                    (true, true) => {}
                }
                match *code == ErrorCode::KafkaStorageError.code() {
                    true => f.write_str(" Is it full? The broker's log says why."),
                    false => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ClientError {}

impl From<EncodeError> for ClientError {
    fn from(error: EncodeError) -> ClientError {
        ClientError::Request(error)
    }
}
