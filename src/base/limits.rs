//! Every bound of the broker in one place: frames, queues, caches, waits.
//! Owned by nobody, constants; a bound that a user may set is the default of a config key instead.
//! Always: related bounds are checked against each other at compile time.
//! What happens at a bound is decided where it is met.

/// Largest request frame in bytes (`socket.request.max.bytes`).
pub const REQUEST_BYTES_MAX: usize = 104_857_600;
/// Smallest request: api key, version, correlation id.
pub const REQUEST_BYTES_MIN: usize = 8;
/// Array elements in one request, all arrays together: bounds what decoding may allocate.
pub const REQUEST_ELEMENTS_MAX: usize = 1_000_000;
/// Bytes of an answer that a small request can make large by naming the same thing again and again.
pub const ANSWER_BYTES_MAX: usize = 100 << 20;
/// Responses a connection may have queued before it stops reading requests.
pub const RESPONSES_QUEUED_MAX: usize = 64;
/// Bytes of a decompressed batch (a batch that unfolds to more is refused).
pub const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;
/// A decompressed batch may be at most this many times its compressed size, once it is above `DECOMPRESSED_FREE_BYTES`.
pub const DECOMPRESSED_RATIO_MAX: usize = 2_000;
/// Up to this size the ratio is not looked at.
pub const DECOMPRESSED_FREE_BYTES: usize = 16 << 20;
/// Records of one refused batch that are named with their error; the message still counts all.
pub const RECORD_ERRORS_MAX: usize = 1_000;
/// Idempotent producers one partition remembers; the one heard of longest ago gives way.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 10_000;
/// Bytes of a fetch answer (`fetch.max.bytes`).
pub const FETCH_BYTES_MAX: usize = 57_671_680;
/// Bytes appended to one partition and not yet durable.
pub const PARTITION_IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;
/// Writes in flight for one partition.
pub const PARTITION_WRITES_MAX: usize = 8;
/// Unit of direct I/O in bytes, in files and in memory.
pub const BLOCK_BYTES: u64 = 4096;
/// Longest topic name (`Topic.MAX_NAME_LENGTH`).
pub const TOPIC_NAME_BYTES_MAX: usize = 249;
/// Partitions one CreateTopics or CreatePartitions request may ask for, in all.
pub const PARTITIONS_PER_REQUEST_MAX: usize = 20_000;
/// Longest offset commit metadata in bytes (`offset.metadata.max.bytes`).
pub const OFFSET_METADATA_BYTES_MAX: usize = 4096;

const _: () = assert!(DECOMPRESSED_FREE_BYTES <= DECOMPRESSED_BYTES_MAX);
const _: () = assert!(FETCH_BYTES_MAX < REQUEST_BYTES_MAX);
