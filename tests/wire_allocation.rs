//! What decoding allocates is bounded by the bytes that are there, whatever they claim. A test binary of its own: the counting
//! allocator counts for the whole process.

use std::alloc::System;

use bytes::Bytes;
use ringlog::base::limits;
use ringlog::wire::messages::metadata::MetadataRequest;
use ringlog::wire::{DecodeReason, Message};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[allow(dead_code, reason = "only decoding is of interest here")]
#[path = "wire/messages.rs"]
mod messages;
#[allow(dead_code, reason = "only the bytes are of interest here")]
#[path = "wire/random.rs"]
mod random;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes allocated in all for each byte of a message: the largest structures have some 200 bytes of memory for a few bytes of
/// frame, and a growing list allocates twice what it ends with.
const PER_BYTE_MAX: usize = 128;
/// And for the first few elements of each list.
const AT_LEAST: usize = 16 << 10;

/// One test function: another thread would be counted too.
#[test]
fn decoding_allocates_in_proportion_to_the_frame() {
    damaged_messages();
    counts_without_elements();
    more_elements_than_the_budget();
}

fn damaged_messages() {
    let mut random = random::Random::new(random::seed());
    for entry in messages::all() {
        for version in entry.versions() {
            for _ in 0..100 {
                let mut bytes =
                    random::message(&mut random, &entry.message, entry.structure, version, true)
                        .bytes;
                // A run of 0x7f or 0xff reads as a huge count or length wherever one is due.
                if !bytes.is_empty() {
                    let from = random.below(bytes.len());
                    let to = bytes.len().min(from + 1 + random.below(5));
                    let value = if random.one_in(2) { 0x7f } else { 0xff };
                    bytes[from..to].fill(value);
                }
                let length = bytes.len();
                let bytes = Bytes::from(bytes);
                // Encoding again is counted too, which only makes it stricter.
                let allocated = allocated_by(|| {
                    let _ = (entry.recode)(bytes, version);
                });
                assert!(
                    allocated <= AT_LEAST + PER_BYTE_MAX * length,
                    "{} v{version}: {allocated} bytes allocated for {length}",
                    entry.message.name
                );
            }
        }
    }
}

/// 2^31 - 1 topics in four bytes, 2^32 - 2 in five.
fn counts_without_elements() {
    for (frame, version) in [
        (&[0x7f, 0xff, 0xff, 0xff][..], 1),
        (&[0xff, 0xff, 0xff, 0xff, 0x0f][..], 9),
    ] {
        let frame = Bytes::copy_from_slice(frame);
        let allocated = allocated_by(|| {
            let error = MetadataRequest::decode_bytes(frame, version).expect_err("no elements");
            assert!(matches!(error.reason, DecodeReason::Truncated { .. }));
        });
        assert_eq!(allocated, 0, "v{version}");
    }
}

/// A frame that really has the bytes for more elements than a request may have.
fn more_elements_than_the_budget() {
    let count = limits::REQUEST_ELEMENTS_MAX as i32 + 1;
    let mut frame = vec![0; 4 + 2 * count as usize];
    frame[..4].copy_from_slice(&count.to_be_bytes());
    let frame = Bytes::from(frame);
    let allocated = allocated_by(|| {
        let error = MetadataRequest::decode_bytes(frame, 1).expect_err("one too many");
        assert!(matches!(error.reason, DecodeReason::TooManyElements { .. }));
    });
    assert_eq!(allocated, 0);
}

fn allocated_by(run: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    run();
    region.change().bytes_allocated
}
