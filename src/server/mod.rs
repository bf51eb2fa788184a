//! The protocol's side: connections, the requests on them, and the life of the process.
//! On every shard, around its `Shard`.
//! Always: a connection costs only itself; a request is answered or its connection closed.
//! Locating bytes is `shard`'s, metrics are `admin`'s.
//!
//! | file | flow |
//! |---|---|
//! | `serve` | start and stop of the process |
//! | `connection`, `receive`, `route` | requests come in |
//! | `budget` | how much memory they take |
//! | `dispatch`, `handlers` | what they mean |
//! | `outcome`, `pipeline` | answers go out |
//! | `sweep` | connections that are idle or stuck |

mod budget;
mod connection;
mod dispatch;
mod handlers;
mod outcome;
mod pipeline;
mod receive;
mod route;
mod serve;
mod sweep;
#[cfg(test)]
pub(crate) mod testing;

pub use serve::{ServeError, ServeOptions, serve};
