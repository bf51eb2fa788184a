//! ringlog: a log broker for bare-metal Linux that speaks the Kafka protocol.
//!
//! One CPU core = one shard = one Kafka node: a client that follows ordinary Kafka metadata connects to the core that
//! owns its partition. Every acknowledged record is on the disk; reads leave the machine without being copied.
//!
//! # Floors
//! A file imports only its own floor and lower ones; `tests/floors.rs` checks it.
//!
//! | floor | modules | never |
//! |---|---|---|
//! | 0 | [`base`] | async, libc |
//! | 1 | [`record`], [`wire`] | async, files |
//! | 2 | [`group`], [`log`], [`metadata`], [`producer`] | async, files, clocks, randomness, each other |
//! | 3 | [`partition`] | as floor 2 |
//! | 4 | [`io`]: the only user of glommio, io-uring, libc and `unsafe` | anything Kafka |
//! | 5 | [`shard`]: owns, drives, routes | bytes parsed by hand, offset arithmetic |
//! | 6 | [`server`]: connections and handlers; [`admin`]: metrics | locating bytes |
//! | 7 | [`client`], [`bench`], [`cli`] | logic that the broker needs |
//!
//! # Where is what
//! | Kafka's word | here |
//! |---|---|
//! | Produce: a batch comes in, is checked, placed, written, answered | `server/receive.rs`, `server/handlers/produce.rs`, `shard/append.rs`, `record/check.rs`, `partition/produce.rs`, `shard/driver.rs`, `log/writer.rs`, `shard/disk.rs` |
//! | Fetch, long poll, sendfile | `server/handlers/fetch.rs`, `shard/fetch.rs`, `log/read.rs`, `shard/read.rs`, `shard/hold.rs`, `server/pipeline.rs` |
//! | segments, indexes, retention, recovery | `log/` (plan), `shard/disk.rs` (done), `shard/recover.rs`, `shard/upkeep.rs` |
//! | idempotent producers, producer ids | `producer/`, `shard/controller.rs` |
//! | consumer groups, committed offsets | `group/` (state), `shard/groups.rs`, `shard/compact.rs` (records), `server/handlers/groups.rs` |
//! | topics, configs, nodes, the metadata log | `metadata/`, `shard/controller.rs`, `shard/topics.rs`, `server/handlers/topics.rs`, `configs.rs`, `metadata.rs` |
//! | ListOffsets, OffsetForLeaderEpoch, DeleteRecords | `shard/lookup.rs`, `server/handlers/offsets.rs` |
//! | the wire protocol | `wire/messages/` (declarations), `wire/` (codec) |
//! | connections, order of answers, idle and slow peers | `server/connection.rs`, `server/pipeline.rs`, `server/sweep.rs` |
//! | start, stop, preflight | `server/serve.rs`, `io/preflight.rs`, `cli/` |
//! | arena, images of files, rings, sockets, mesh | `io/` |
//! | metrics | `shard/counters.rs`, `admin/` |
//! | `ringlog bench` | `bench/` (load, checks, results), `client/` (its side of the protocol) |

pub mod admin;
pub mod base;
pub mod bench;
pub mod cli;
pub mod client;
pub mod group;
pub mod io;
pub mod log;
pub mod metadata;
pub mod partition;
pub mod producer;
pub mod record;
pub mod server;
pub mod shard;
pub mod wire;
