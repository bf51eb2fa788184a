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
//! | 7 | [`cli`] | logic that the broker needs |

pub mod admin;
pub mod base;
pub mod cli;
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
