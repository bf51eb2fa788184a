//! Recovery of an arbitrary directory: see `recovery_image`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../recovery_image.rs"]
mod recovery_image;

fuzz_target!(|data: &[u8]| recovery_image::check(data));
