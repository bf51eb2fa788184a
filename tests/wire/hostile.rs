//! Bytes that are no message end in an error: never a panic, never a hang.

use bytes::Bytes;
use ringlog::wire::{DecodeReason, Message};
use ringlog::wire::{HeaderError, Reader, messages as declared, read_request_header};

use crate::messages;
use crate::random::{self, Random};

#[test]
fn damaged_messages_are_read_or_refused_and_never_panic() {
    let mut random = Random::new(random::seed());
    let (mut read, mut refused) = (0, 0);
    for entry in messages::all() {
        for version in entry.versions() {
            for _ in 0..100 {
                let mut bytes =
                    random::message(&mut random, &entry.message, entry.structure, version, true)
                        .bytes;
                if bytes.is_empty() {
                    continue;
                }
                for _ in 0..1 + random.below(4) {
                    let at = random.below(bytes.len());
                    bytes[at] = match random.below(4) {
                        0 => 0xff,
                        1 => 0x7f,
                        2 => 0,
                        _ => random.next() as u8,
                    };
                }
                match (entry.recode)(Bytes::from(bytes), version) {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(
        read > 1_000 && refused > 1_000,
        "{read} read, {refused} refused"
    );
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    let mut random = Random::new(random::seed());
    for entry in messages::all() {
        for version in entry.versions() {
            let whole =
                random::message(&mut random, &entry.message, entry.structure, version, true).bytes;
            let whole = Bytes::from(whole);
            for length in 0..whole.len() {
                let cut = (entry.recode)(whole.slice(..length), version);
                assert!(
                    cut.is_err(),
                    "{} v{version} cut at {length}",
                    entry.message.name
                );
            }
        }
    }
}

#[test]
fn bytes_after_the_last_field_are_refused() {
    let mut random = Random::new(random::seed());
    for entry in messages::all() {
        for version in entry.versions() {
            let mut bytes =
                random::message(&mut random, &entry.message, entry.structure, version, true).bytes;
            bytes.push(0);
            let error = (entry.recode)(Bytes::from(bytes), version).expect_err("one byte too many");
            assert_eq!(error.reason, DecodeReason::TrailingBytes { count: 1 });
        }
    }
}

/// Tagged fields that nobody knows change nothing (KIP-482).
#[test]
fn unknown_tags_are_skipped() {
    // Heartbeat v4: empty strings, generation 1, null instance id, then two tags of 1 and 2 bytes.
    let tagged = [1, 0, 0, 0, 1, 1, 0, 2, 5, 1, 0xaa, 9, 2, 0xbb, 0xcc];
    let plain = [1, 0, 0, 0, 1, 1, 0, 0];
    let read = |bytes: &[u8]| {
        declared::heartbeat::HeartbeatRequest::decode_bytes(Bytes::copy_from_slice(bytes), 4)
            .expect("well formed")
    };
    assert_eq!(read(&tagged), read(&plain));
}

/// Other protocols on our port: their first bytes are no request header.
#[test]
fn other_protocols_are_refused_by_the_header() {
    let http = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let tls = [
        0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
    ];
    let ssh = b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n";
    for bytes in [&http[4..], &tls[4..], &ssh[4..]] {
        let result = read_request_header(&mut Reader::new(Bytes::copy_from_slice(bytes)));
        assert!(
            matches!(
                result,
                Err(HeaderError::UnknownApi { .. } | HeaderError::UnsupportedVersion { .. })
            ),
            "{result:?}"
        );
    }
}
