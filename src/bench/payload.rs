//! What records hold: random or repeated bytes, or the records of a file; and the batches made of them.
//! Made once, before the run; shared by all load cores.
//! Always: the same load gives the same bytes, so that two brokers get the same.
//! Which partition a key belongs to is `keys`'s.

use std::fs;

use bytes::Bytes;

use super::keys::{KeySpace, partition_of};
use super::load::{Codec, Keys, Load, Payload};
use super::template::{Stamp, Template};
use crate::base::{LeaderEpoch, Offset, Timestamp};
use crate::record::{self, Compression};

/// The batches of a run.
#[derive(Debug)]
pub struct Templates {
    all: Vec<Template>,
    /// With keys: where the batches of a partition begin in `all`, and how many each has.
    per_partition: Option<usize>,
    /// Share of each partition of all records.
    pub shares: Vec<f64>,
}

/// Memory for batches.
const TEMPLATES_BYTES_MAX: usize = 64 << 20;
/// Different batches, where nothing else bounds them.
const TEMPLATES_MAX: usize = 16;
/// Of a payload file.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Any number does; always the same, so that runs can be compared.
const SEED: u64 = 0x7269_6e67_6c6f_6721;

impl Templates {
    pub fn build(load: &Load, partitions: usize) -> Result<Templates, String> {
        let values = Values::open(load)?;
        match load.keys {
            Keys::None => Ok(Templates::without_keys(load, partitions, values)),
            Keys::Uniform | Keys::Zipf => Templates::with_keys(load, partitions, values),
        }
    }

    fn without_keys(load: &Load, partitions: usize, mut values: Values) -> Templates {
        let batch = values.mean_bytes().max(1) * load.batch_records;
        let wanted = match values.count() {
            Some(count) => count.div_ceil(load.batch_records),
            None => TEMPLATES_MAX,
        };
        let count = wanted.clamp(1, (TEMPLATES_BYTES_MAX / batch).max(1));
        let all = (0..count).map(|_| {
            let batch: Vec<Vec<u8>> = (0..load.batch_records).map(|_| values.take()).collect();
            Template::build(batch.iter().map(|v| (None, &v[..])), codec(load.codec))
        });
        Templates {
            all: all.collect(),
            per_partition: None,
            shares: vec![1.0 / partitions as f64; partitions],
        }
    }

    fn with_keys(load: &Load, partitions: usize, mut values: Values) -> Result<Templates, String> {
        let batch = values.mean_bytes().max(1) * load.batch_records;
        let each = (TEMPLATES_BYTES_MAX / batch.max(1) / partitions).min(TEMPLATES_MAX);
        if each == 0 {
            return Err(format!(
                "{partitions} partitions with batches of {batch} bytes of their own keys need more than {} MiB; use a smaller --batch or fewer --partitions with --keys",
                TEMPLATES_BYTES_MAX >> 20
            ));
        }
        let space = KeySpace::new(load.keys, load.key_count);
        let mut random = Random::new(SEED);
        let mut homes: Vec<Vec<usize>> = vec![Vec::new(); partitions];
        let mut shares = vec![0.0; partitions];
        for key in 0..load.key_count {
            let home = partition_of(&KeySpace::key(key), partitions);
            homes[home].push(key);
            shares[home] += space.weight(key);
        }
        let mut all = Vec::with_capacity(each * partitions);
        for home in &homes {
            let sums = space.sums(home);
            for _ in 0..each {
                let records: Vec<(Vec<u8>, Vec<u8>)> = (0..load.batch_records)
                    .map(|_| {
                        let key = KeySpace::pick(home, &sums, random.unit());
                        (KeySpace::key(key), values.take())
                    })
                    .collect();
                let pairs = records.iter().map(|(k, v)| (Some(&k[..]), &v[..]));
                all.push(Template::build(pairs, codec(load.codec)));
            }
        }
        Ok(Templates {
            all,
            per_partition: Some(each),
            shares,
        })
    }

    /// A batch for a partition; `turn` says which of those there are.
    pub fn pick(&self, partition: i32, turn: usize) -> &Template {
        match self.per_partition {
            None => &self.all[turn % self.all.len()],
            Some(each) => &self.all[partition as usize * each + turn % each],
        }
    }

    /// Batches one behind the other as a broker has stored them, about `bytes` of them, and the offset behind them.
    pub fn canned(&self, bytes: usize) -> (Bytes, i64) {
        let mut canned = Vec::new();
        let mut offset = 0;
        for sequence in 0.. {
            let template = self.pick(0, sequence as usize);
            if !canned.is_empty() && canned.len() + template.wire_bytes() > bytes {
                break;
            }
            let stamp = Stamp { lane: 0, sequence };
            let (mut header, _) = template.stamp(stamp, Timestamp(0));
            record::stamp(&mut header, Offset(offset), LeaderEpoch(0));
            canned.extend_from_slice(&header);
            canned.extend_from_slice(&template.body);
            offset += i64::from(template.records);
        }
        (Bytes::from(canned), offset)
    }

    /// The largest batch, as it travels.
    pub fn batch_bytes_max(&self) -> usize {
        self.all.iter().map(Template::wire_bytes).max().unwrap_or(0)
    }

    /// Bytes of values and keys, and bytes as they travel.
    pub fn totals(&self) -> (u64, u64) {
        self.all.iter().fold((0, 0), |(payload, wire), template| {
            (
                payload + template.payload_bytes,
                wire + template.wire_bytes() as u64,
            )
        })
    }

    /// Mean records of a batch, and mean bytes of values and keys of a record.
    pub fn means(&self) -> (f64, f64) {
        let records: u64 = self.all.iter().map(|t| u64::from(t.records)).sum();
        let (payload, _) = self.totals();
        (
            records as f64 / self.all.len().max(1) as f64,
            payload as f64 / records.max(1) as f64,
        )
    }
}

fn codec(codec: Codec) -> Compression {
    match codec {
        Codec::None => Compression::None,
        Codec::Gzip => Compression::Gzip,
        Codec::Snappy => Compression::Snappy,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd,
    }
}

/// Bytes of a record of a payload file, on average; `None`: the payload is none.
pub fn mean_record_bytes(payload: &Payload) -> Result<Option<usize>, String> {
    match payload {
        Payload::Random | Payload::Repeated => Ok(None),
        Payload::Lines(_) | Payload::Prefixed(_) => {
            let load = Load {
                payload: payload.clone(),
                ..Load::default()
            };
            Ok(Some(Values::open(&load)?.mean_bytes().max(1)))
        }
    }
}

/// An endless row of values.
enum Values {
    Random { bytes: usize, random: Random },
    Repeated { bytes: usize },
    File { records: Vec<Vec<u8>>, next: usize },
}

impl Values {
    fn open(load: &Load) -> Result<Values, String> {
        let bytes = load.record_bytes;
        match &load.payload {
            Payload::Random => Ok(Values::Random {
                bytes,
                random: Random::new(SEED),
            }),
            Payload::Repeated => Ok(Values::Repeated { bytes }),
            Payload::Lines(path) => {
                let text = read(path)?;
                let text = text.strip_suffix(b"\n").unwrap_or(&text);
                let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
                Values::of_file(path, lines.collect())
            }
            Payload::Prefixed(path) => Values::of_file(path, split_prefixed(path, &read(path)?)?),
        }
    }

    fn of_file(path: &str, records: Vec<Vec<u8>>) -> Result<Values, String> {
        if records.iter().all(Vec::is_empty) {
            return Err(format!(
                "`--payload {path}`: there is no record in it; give a file with lines, or prefixed:FILE"
            ));
        }
        Ok(Values::File { records, next: 0 })
    }

    fn count(&self) -> Option<usize> {
        match self {
            Values::File { records, .. } => Some(records.len()),
            Values::Random { .. } | Values::Repeated { .. } => None,
        }
    }

    fn mean_bytes(&self) -> usize {
        match self {
            Values::Random { bytes, .. } | Values::Repeated { bytes } => *bytes,
            Values::File { records, .. } => {
                records.iter().map(Vec::len).sum::<usize>() / records.len()
            }
        }
    }

    fn take(&mut self) -> Vec<u8> {
        match self {
            Values::Random { bytes, random } => random.bytes(*bytes),
            Values::Repeated { bytes } => vec![b'x'; *bytes],
            Values::File { records, next } => {
                let record = records[*next].clone();
                *next = (*next + 1) % records.len();
                record
            }
        }
    }
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    let size = fs::metadata(path).map(|meta| meta.len());
    match size {
        Ok(size) if size > FILE_BYTES_MAX => Err(format!(
            "`--payload {path}`: {size} bytes are more than the {FILE_BYTES_MAX} that are kept in memory; give a part of it"
        )),
        Ok(_) => fs::read(path)
            .map_err(|error| format!("`--payload {path}`: {error}; give a file that can be read")),
        Err(error) => Err(format!(
            "`--payload {path}`: {error}; write random, repeated, FILE (lines) or prefixed:FILE"
        )),
    }
}

fn split_prefixed(path: &str, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut records = Vec::new();
    let mut at = 0;
    while !bytes.is_empty() {
        let record = bytes.split_first_chunk::<4>().and_then(|(size, rest)| {
            let size = u32::from_be_bytes(*size) as usize;
            rest.split_at_checked(size)
        });
        let Some((record, rest)) = record else {
            return Err(format!(
                "`--payload prefixed:{path}`: byte {at} begins no record: a length (4 bytes, big-endian) and as many bytes are expected"
            ));
        };
        records.push(record.to_vec());
        at += 4 + record.len();
        bytes = rest;
    }
    Ok(records)
}

/// Numbers that look random and are the same every time (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// At least 0, below 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..count.div_ceil(8))
            .flat_map(|_| self.word().to_le_bytes())
            .collect();
        bytes.truncate(count);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_out_the_same_every_time_and_as_large_as_asked() {
        let load = Load {
            record_bytes: 100,
            batch_records: 7,
            ..Load::default()
        };
        let (one, two) = (
            Templates::build(&load, 3).unwrap(),
            Templates::build(&load, 3).unwrap(),
        );
        assert_eq!(one.pick(0, 5).body, two.pick(2, 5 + TEMPLATES_MAX).body);
        assert_ne!(one.pick(0, 0).body, one.pick(0, 1).body);
        assert_eq!(one.means(), (7.0, 100.0));
        assert_eq!(one.shares, [1.0 / 3.0; 3]);
    }

    #[test]
    fn zipf_keys_make_partitions_uneven_and_batches_hold_the_keys_of_their_partition() {
        let load = Load {
            keys: Keys::Zipf,
            key_count: 1_000,
            record_bytes: 10,
            batch_records: 20,
            ..Load::default()
        };
        let templates = Templates::build(&load, 4).unwrap();
        let sum: f64 = templates.shares.iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let most = templates.shares.iter().copied().fold(0.0, f64::max);
        assert!(most > 0.3, "{:?}", templates.shares);
        for partition in 0..4 {
            let template = templates.pick(partition, 3);
            let (head, _) = template.stamp(
                super::super::template::Stamp {
                    lane: 0,
                    sequence: 0,
                },
                crate::base::Timestamp(0),
            );
            let header = crate::record::BatchHeader::parse(&head);
            let mut scratch = Vec::new();
            let records = crate::record::Records::new(&header, &template.body, &mut scratch);
            for record in records.expect("plain") {
                let key = record.expect("whole").key.expect("keyed");
                assert_eq!(partition_of(key, 4), partition as usize);
            }
        }
    }

    #[test]
    fn files_are_split_into_records_and_a_broken_one_says_where() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines").display().to_string();
        fs::write(&path, "one\n\nthree\n").unwrap();
        let load = Load {
            payload: Payload::Lines(path),
            batch_records: 3,
            ..Load::default()
        };
        let mut values = Values::open(&load).unwrap();
        let taken: Vec<Vec<u8>> = (0..4).map(|_| values.take()).collect();
        assert_eq!(taken, [&b"one"[..], b"", b"three", b"one"]);
        let records = split_prefixed("f", b"\0\0\0\x02ab\0\0\0\0").unwrap();
        assert_eq!(records, [b"ab".to_vec(), vec![]]);
        let error = split_prefixed("f", b"\0\0\0\x02ab\0\0\0\x09c").unwrap_err();
        assert!(error.contains("byte 6"), "{error}");
    }
}
