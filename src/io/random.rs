//! Random bytes from the system, for ids.
//! Owned by nobody.
//! Always: from the kernel's generator.
//! What they become is decided by the caller: floors 0 to 3 are given them.

/// Random bytes. Panics if the system has none, which Linux does not do once it is up.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("the system gives no random bytes: {error}");
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn random_bytes_differ() {
        assert_ne!(super::bytes::<16>(), super::bytes::<16>());
    }
}
