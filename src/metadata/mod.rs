//! Floor 2: what the cluster knows of itself: nodes, topics, placement, configuration; and the controller that changes it.
//! Shard 0 owns the [`Controller`]; every shard holds the same [`Image`].
//! Always: a change is records first; the image follows from the records alone.
//! Writing the records to `__cluster_metadata-0` and sending images to the shards is `shard`'s.
//!
//! # A change, end to end
//! A handler gives [`Controller`] a command; it answers with an [`Outcome`]: records, and the answer to give once they are
//! durable. The caller appends the records ([`MetadataRecord::encode`]), waits until they are durable, and calls
//! [`Controller::publish`], which makes the next image; when every shard has it, the answer leaves. One change at a time:
//! a command is decided on the image that the last one left.
//!
//! # At start
//! [`Controller::replay`] takes every record of the log, then [`Controller::register`] names the nodes and shards of this
//! start and moves what lived on shards that are gone.

pub mod config;
mod controller;
mod image;
pub mod placement;
mod records;
pub mod topic_name;

pub use controller::{
    AlterOp, AlterResource, Assignment, CommandError, Controller, CreatedTopic, DeletedTopic,
    Machine, MachineNode, NewPartitions, NewTopic, Outcome, ProducerIdBlock, TopicRef,
};
pub use image::{ApplyError, ConfigResource, CowMap, Image, Node, PartitionState, Topic};
pub use records::{MetadataRecord, RecordError};
