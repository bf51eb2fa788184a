//! Floor 4: the machine: executor, ring, memory, files, sockets, other shards. The only floor that uses glommio, io-uring, libc and
//! `unsafe`; it knows nothing of Kafka.
//! Everything but `mesh`, `doorbell::BellHandle` and `arena::SliceRef` is of one shard and `!Send`.
//! Always: no call blocks a shard; a future that is dropped leaves no memory in the hands of the kernel; limits refuse or wait.
//! What is stored, sent and answered is decided on the floors around it.
//!
//! # In brief
//! - [`executor::run_shard`]`(core, name, || async { .. })` starts a shard; inside: [`executor::spawn`], [`executor::sleep_until`],
//!   [`executor::until`] (deadline), [`executor::yield_if_needed`]; [`clock::now`].
//! - [`sync`]: `Notify`, `Semaphore`, `oneshot` within a shard. [`mesh`]: `Mesh::build(n)` gives seats, a shard `attach`es, then `send`,
//!   `recv`, `call(to, |reply| message)`. [`blocking::run`] for what has no asynchronous call.
//! - [`arena::Arena`]: `allocate(len) -> Option<Extent>`, `wait_for_room`, `pressure`, `used`; [`arena::Pinned`] holds bytes,
//!   `for_send()` gives the [`arena::SliceRef`] for `sendfile`, from any shard while the `Pinned` lives.
//! - [`image::FileImage`]: `append`, `begin_receive` / `commit` (in place, revocable), `slice`, `write_sources(range)`, `write_end(end)`,
//!   `evict_durable`, `insert_cold`, `seal`.
//! - [`file::SegmentFile`]: `create`, `open`, `write_blocks(position, sources)` (durable), `read_blocks`, `preallocate`, `write_zeros`,
//!   `truncate_and_sync`; [`file`]: `read_file`, `write_file_atomically`, `rename`, `delete`, `read_dir`, `create_dir`, `sync_dir`.
//! - [`listener::Listener`] accepts, [`socket::Socket`] has `try_*` calls (`None` = would block), waits (`readable`, `writable`, `hangup`)
//!   and both together (`recv`, `recv_buf`, `recv_into(&mut Receiving)`, `send`).

#![allow(unsafe_code)]

pub mod arena;
pub mod blocking;
pub mod child;
pub mod clock;
pub mod doorbell;
pub mod executor;
pub mod file;
pub mod found;
pub mod image;
pub mod listener;
pub mod mesh;
pub mod preflight;
pub mod random;
mod ring;
pub mod signal;
pub mod socket;
pub mod sync;
mod sys;
#[cfg(test)]
pub(crate) mod testing;
mod timer;

pub use ring::{Ring, RingCounters};
