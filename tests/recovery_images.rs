//! The fuzz target of the recovery on seeded bytes, so that it runs with every `cargo test`. `RINGLOG_SEED=n` runs one.

#[path = "fuzz/recovery_image.rs"]
mod recovery_image;

#[test]
fn recovery_of_any_directory_keeps_its_promises() {
    let one: Option<u64> = std::env::var("RINGLOG_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    for seed in one.map_or(0..3000, |seed| seed..seed + 1) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let data: Vec<u8> = (0..seed % 120 + 2)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 24) as u8
            })
            .collect();
        let run = std::panic::catch_unwind(|| recovery_image::check(&data));
        if let Err(panic) = run {
            eprintln!("RINGLOG_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
