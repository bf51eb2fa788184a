//! The codec against the crate `kafka-protocol`, for every API and version that both know: each reads what a third encoder
//! wrote, writes it again, and both must have written the same.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey as OracleKey, RequestKind, ResponseKind};
use ringlog::wire::schema::MessageKind;

use crate::messages::{self, Entry};
use crate::random::{self, Random};

/// Random messages of each version.
const ROUNDS: usize = 100;

#[test]
fn both_codecs_read_and_write_the_same() {
    let mut random = Random::new(random::seed());
    let mut versions_compared = 0;
    for entry in messages::all() {
        let (Some(oracle), MessageKind::Request | MessageKind::Response) =
            (oracle_key(&entry), entry.message.kind)
        else {
            continue;
        };
        let known = oracle.valid_versions();
        'versions: for version in entry.versions() {
            if version < known.min || version > known.max {
                continue;
            }
            for _ in 0..ROUNDS {
                if !compare(&mut random, &entry, oracle, version) {
                    continue 'versions;
                }
            }
            versions_compared += 1;
        }
    }
    assert!(
        versions_compared > 200,
        "only {versions_compared} versions were compared"
    );
}

/// False where the oracle names the version and has no codec for it.
fn compare(random: &mut Random, entry: &Entry, oracle: OracleKey, version: i16) -> bool {
    let name = entry.message.name;
    let sent = random::message(random, &entry.message, entry.structure, version, false);
    let sent = Bytes::from(sent.bytes);
    let ours = (entry.recode)(sent.clone(), version)
        .unwrap_or_else(|error| panic!("{name} v{version}: {error}"));
    let theirs = match oracle_recode(entry.message.kind, oracle, sent.clone(), version) {
        Ok(theirs) => theirs,
        Err(error) if error.contains("specified version not supported") => return false,
        Err(error) => panic!("{name} v{version}: the oracle says {error}"),
    };
    assert_eq!(
        (entry.print)(theirs.clone(), version),
        (entry.print)(sent, version),
        "{name} v{version}: we read their bytes otherwise"
    );
    let theirs_of_ours = oracle_recode(entry.message.kind, oracle, ours.clone(), version)
        .unwrap_or_else(|error| panic!("{name} v{version}: the oracle can't read ours: {error}"));
    assert_eq!(
        theirs_of_ours, theirs,
        "{name} v{version}: they read our bytes otherwise"
    );
    true
}

fn oracle_key(entry: &Entry) -> Option<OracleKey> {
    OracleKey::try_from(entry.message.key?).ok()
}

fn oracle_recode(
    kind: MessageKind,
    api: OracleKey,
    mut bytes: Bytes,
    version: i16,
) -> Result<Bytes, String> {
    let mut out = BytesMut::new();
    let result = if kind == MessageKind::Request {
        RequestKind::decode(api, &mut bytes, version)
            .and_then(|request| request.encode(&mut out, version))
    } else {
        ResponseKind::decode(api, &mut bytes, version)
            .and_then(|response| response.encode(&mut out, version))
    };
    result.map_err(|error| format!("{error:#}"))?;
    if !bytes.is_empty() {
        return Err(format!("{} bytes left over", bytes.len()));
    }
    Ok(out.freeze())
}
