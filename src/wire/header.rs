//! Headers in front of requests and responses, and whole frames made of header and body.
//! Owned by nobody.
//! Always: a response to ApiVersions has header v0 (KIP-511), a flexible request still has a plain client id.
//! Which versions exist is said by `apis`.

use std::fmt;

use super::apis::{ApiKey, Request};
use super::error::{DecodeError, EncodeError};
use super::macros::wire_message;
use super::message::Message;
use super::reader::Reader;
use super::text::Str;
use super::writer::{Frame, Writer};

wire_message! {
    header RequestHeader, versions "1-2", flexible "2+" {
        request_api_key: i16, "0+";
        request_api_version: i16, "0+";
        correlation_id: i32, "0+";
        /// Never compact: a broker must read it before it knows the version (KIP-511).
        client_id: Option<Str>, "1+", nullable "1+", inflexible;
    }

    header ResponseHeader, versions "0-1", flexible "1+" {
        correlation_id: i32, "0+";
    }
}

/// Why a request can't be read or served at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeaderError {
    Decode(DecodeError),
    /// Not served: the connection is closed, as Kafka does.
    UnknownApi {
        key: i16,
        version: i16,
    },
    /// The API is served, this version of it not: the connection is closed.
    UnsupportedVersion {
        api: ApiKey,
        version: i16,
    },
    /// ApiVersions in a version not served: it is answered all the same, in v0 with UNSUPPORTED_VERSION and the versions of
    /// ApiVersions alone (KIP-511). The body was not looked at.
    UnsupportedApiVersions {
        correlation_id: i32,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::Decode(error) => fmt::Display::fmt(error, f),
            HeaderError::UnknownApi { key, version } => {
                write!(f, "api key {key} (version {version}) is not served")
            }
            HeaderError::UnsupportedVersion { api, version } => {
                write!(f, "{api:?} version {version} is not served")
            }
            HeaderError::UnsupportedApiVersions { .. } => {
                f.write_str("this version of ApiVersions is not served")
            }
        }
    }
}

impl std::error::Error for HeaderError {}

impl From<DecodeError> for HeaderError {
    fn from(error: DecodeError) -> HeaderError {
        HeaderError::Decode(error)
    }
}

/// Reads the header of a request and leaves its body in `reader`.
pub fn read_request_header(reader: &mut Reader) -> Result<(ApiKey, RequestHeader), HeaderError> {
    let mut ahead = reader.clone();
    let key = ahead.i16()?;
    let version = ahead.i16()?;
    let correlation_id = ahead.i32()?;
    let Some(api) = ApiKey::from_key(key) else {
        return Err(HeaderError::UnknownApi { key, version });
    };
    if !api.served().contains(version) {
        return Err(match api {
            ApiKey::ApiVersions => HeaderError::UnsupportedApiVersions { correlation_id },
            _ => HeaderError::UnsupportedVersion { api, version },
        });
    }
    let header = RequestHeader::decode_prefix(reader, api.request_header_version(version))?;
    Ok((api, header))
}

/// The frame of a response in the version of its request, without what that version has no fields for.
pub fn response_frame<R: Request>(
    correlation_id: i32,
    response: &R::Response,
    version: i16,
) -> Result<Frame, EncodeError> {
    let mut writer = Writer::new_frame().leaving_out();
    ResponseHeader { correlation_id }
        .encode(&mut writer, R::API.response_header_version(version))?;
    response.encode(&mut writer, version)?;
    writer.finish_frame()
}

/// The frame of a request.
pub fn request_frame<R: Request>(
    correlation_id: i32,
    client_id: Option<Str>,
    request: &R,
    version: i16,
) -> Result<Frame, EncodeError> {
    let mut writer = Writer::new_frame();
    let header = RequestHeader {
        request_api_key: R::API.key(),
        request_api_version: version,
        correlation_id,
        client_id,
    };
    header.encode(&mut writer, R::API.request_header_version(version))?;
    request.encode(&mut writer, version)?;
    writer.finish_frame()
}

/// Reads a response behind its size: correlation id and body.
pub fn read_response<R: Request>(
    reader: &mut Reader,
    version: i16,
) -> Result<(i32, R::Response), DecodeError> {
    let header = ResponseHeader::decode_prefix(reader, R::API.response_header_version(version))?;
    Ok((header.correlation_id, R::Response::decode(reader, version)?))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::apis::unsupported_api_versions;
    use crate::wire::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
    use crate::wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

    fn read(bytes: &[u8]) -> Result<(ApiKey, RequestHeader), HeaderError> {
        read_request_header(&mut Reader::new(Bytes::copy_from_slice(bytes)))
    }

    #[test]
    fn g1_api_versions_above_ours_is_answered_in_v0_without_reading_the_body() {
        // Version 6, correlation id 7, and a body that is no message.
        let error = read(&[0, 18, 0, 6, 0, 0, 0, 7, 0xff, 0xff, 0xff]);
        assert_eq!(
            error,
            Err(HeaderError::UnsupportedApiVersions { correlation_id: 7 })
        );
        let frame = response_frame::<ApiVersionsRequest>(7, &unsupported_api_versions(), 0)
            .expect("v0 exists");
        let expected = [
            0, 0, 0, 16, // size
            0, 0, 0, 7, // correlation id
            0, 35, // UNSUPPORTED_VERSION
            0, 0, 0, 1, // one key
            0, 18, 0, 0, 0, 5, // ApiVersions 0-5
        ];
        assert_eq!(frame.bytes[..], expected);
    }

    #[test]
    fn g3_a_response_to_api_versions_has_no_tags_in_its_header() {
        let response = ApiVersionsResponse::default();
        let frame = response_frame::<ApiVersionsRequest>(1, &response, 3).expect("v3 exists");
        let expected = [
            0, 0, 0, 12, // size
            0, 0, 0, 1, // correlation id, then at once the body:
            0, 0, // no error
            1, // no keys
            0, 0, 0, 0, // throttle time
            0, // tags
        ];
        assert_eq!(frame.bytes[..], expected);
        // Another flexible response has them.
        let frame = response_frame::<HeartbeatRequest>(1, &HeartbeatResponse::default(), 4)
            .expect("v4 exists");
        assert_eq!(frame.bytes[4..9], [0, 0, 0, 1, 0]);
    }

    #[test]
    fn g3_a_flexible_request_has_a_plain_client_id() {
        let request = HeartbeatRequest::default();
        let frame = request_frame(9, Some(Str::from("me")), &request, 4).expect("v4 exists");
        let expected = [
            0, 12, 0, 4, 0, 0, 0, 9, // key, version, correlation id
            0, 2, b'm', b'e', // client id behind two bytes of length
            0,    // tags
        ];
        assert_eq!(frame.bytes[4..4 + expected.len()], expected);
        let mut reader = Reader::new(frame.bytes.slice(4..));
        let (api, header) = read_request_header(&mut reader).expect("our own frame");
        assert_eq!(api, ApiKey::Heartbeat);
        assert_eq!(header.client_id, Some(Str::from("me")));
        assert_eq!(HeartbeatRequest::decode(&mut reader, 4), Ok(request));
    }

    #[test]
    fn g6_unknown_apis_and_versions_are_refused_with_what_was_asked() {
        assert_eq!(
            read(&[0, 4, 0, 1, 0, 0, 0, 0]),
            Err(HeaderError::UnknownApi { key: 4, version: 1 })
        );
        assert_eq!(
            read(&[0, 0, 0, 2, 0, 0, 0, 0]),
            Err(HeaderError::UnsupportedVersion {
                api: ApiKey::Produce,
                version: 2
            })
        );
        assert_eq!(
            read(&[0, 3, 0xff, 0xff, 0, 0, 0, 0]),
            Err(HeaderError::UnsupportedVersion {
                api: ApiKey::Metadata,
                version: -1
            })
        );
    }

    #[test]
    fn a_header_cut_anywhere_is_refused() {
        let whole = [0, 12, 0, 4, 0, 0, 0, 9, 0, 2, b'm', b'e', 0];
        read(&whole).expect("the whole header");
        for length in 0..whole.len() {
            assert!(
                matches!(read(&whole[..length]), Err(HeaderError::Decode(_))),
                "cut at {length}"
            );
        }
    }
}
