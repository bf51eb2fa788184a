//! Why a batch is refused, and what a client is told: code, message and record errors as Kafka answers them.
//! Owned by nobody, a plain value.
//! Always: only `Records` has a message and record errors on the wire, as in Kafka (`RecordValidationException`).
//! The finding is `check`'s.

use std::borrow::Cow;
use std::fmt;

use super::walk::Fault;
use crate::base::{ErrorCode, limits};

/// A refused batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// Length, magic, checksum or compressed bytes are damaged.
    Corrupt(Cow<'static, str>),
    /// The header or the structure of the records breaks a rule.
    Invalid(Cow<'static, str>),
    /// The batch (or what it unfolds to) is larger than allowed.
    TooLarge(Cow<'static, str>),
    /// No such codec, or one that this version of Produce must not use.
    UnsupportedCompression(Cow<'static, str>),
    /// Single records break a rule of the topic.
    Records(RecordErrors),
}

/// The records that were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordErrors {
    /// One of them for its timestamp, which decides the code.
    pub invalid_timestamp: bool,
    pub total: usize,
    /// The first of them, at most `RECORD_ERRORS_MAX`.
    pub shown: Vec<RecordError>,
}

/// One refused record: its place in the batch, from 0, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    pub batch_index: i32,
    pub message: String,
}

impl RecordErrors {
    pub(super) fn new() -> RecordErrors {
        RecordErrors {
            invalid_timestamp: false,
            total: 0,
            shown: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, record: u32, message: String) {
        self.total += 1;
        if self.shown.len() < limits::RECORD_ERRORS_MAX {
            self.shown.push(RecordError {
                batch_index: record as i32,
                message,
            });
        }
    }
}

impl BatchError {
    /// The code in the answer.
    pub fn code(&self) -> ErrorCode {
        match self {
            BatchError::Corrupt(_) => ErrorCode::CorruptMessage,
            BatchError::Invalid(_) => ErrorCode::InvalidRecord,
            BatchError::TooLarge(_) => ErrorCode::MessageTooLarge,
            BatchError::UnsupportedCompression(_) => ErrorCode::UnsupportedCompressionType,
            BatchError::Records(errors) if errors.invalid_timestamp => ErrorCode::InvalidTimestamp,
            BatchError::Records(_) => ErrorCode::InvalidRecord,
        }
    }

    /// The `error_message` of the answer (Produce v8+); `None` is null.
    pub fn wire_message(&self) -> Option<String> {
        match self {
            BatchError::Records(errors) => Some(errors.to_string()),
            BatchError::Corrupt(_)
            | BatchError::Invalid(_)
            | BatchError::TooLarge(_)
            | BatchError::UnsupportedCompression(_) => None,
        }
    }

    /// The `record_errors` of the answer (Produce v8+).
    pub fn record_errors(&self) -> &[RecordError] {
        match self {
            BatchError::Records(errors) => &errors.shown,
            BatchError::Corrupt(_)
            | BatchError::Invalid(_)
            | BatchError::TooLarge(_)
            | BatchError::UnsupportedCompression(_) => &[],
        }
    }
}

impl From<Fault> for BatchError {
    fn from(fault: Fault) -> BatchError {
        let text = Cow::Owned(fault.to_string());
        match fault {
            Fault::Structure { .. } => BatchError::Invalid(text),
            Fault::Undecodable(_) => BatchError::Corrupt(text),
            Fault::TooLarge => BatchError::TooLarge(text),
        }
    }
}

/// For a log line.
impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::Corrupt(text)
            | BatchError::Invalid(text)
            | BatchError::TooLarge(text)
            | BatchError::UnsupportedCompression(text) => f.write_str(text),
            BatchError::Records(errors) => errors.fmt(f),
        }
    }
}

/// `LogValidator.processRecordErrors`.
impl fmt::Display for RecordErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.invalid_timestamp {
            return f.write_str("One or more records have been rejected due to invalid timestamp");
        }
        write!(
            f,
            "One or more records have been rejected due to {} record errors in total, and only showing the first three errors at most: [",
            self.total
        )?;
        for (index, error) in self.shown.iter().take(3).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(
                f,
                "{comma}RecordError(batchIndex={}, message='{}')",
                error.batch_index, error.message
            )?;
        }
        f.write_str("]")
    }
}
