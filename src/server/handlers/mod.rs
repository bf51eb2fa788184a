//! One file for each family of APIs: from a decoded request to its outcome.
//! Called by `dispatch` on the shard of the connection.
//! Always: an error of one item is that item's; the others are served.
//! What is behind a request is `shard`'s.

pub mod api_versions;
pub mod configs;
pub mod fetch;
pub mod groups;
pub mod leader_hint;
pub mod metadata;
pub mod offsets;
pub mod produce;
pub mod producer_ids;
pub mod topics;
