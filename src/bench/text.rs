//! Numbers for people.
//! Pure.
//! Always: a duration has three digits and its unit, a count its thousands apart.
//! Where they stand is `table`'s and `report`'s.

/// Nanoseconds, such as `1.23 ms`.
pub fn duration(nanos: u64) -> String {
    let (value, unit) = match nanos {
        0..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (nanos as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos as f64 / 1e6, "ms"),
        _ => (nanos as f64 / 1e9, "s"),
    };
    match value {
        0.0..10.0 => format!("{value:.2} {unit}"),
        10.0..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A whole number with a comma between thousands.
pub fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, such as `1 partition`, `3 partitions`.
pub fn things(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_234, "1.23 us"),
            (45_678_000, "45.7 ms"),
            (999_400_000, "999 ms"),
            (12_300_000_000, "12.3 s"),
        ] {
            assert_eq!(duration(nanos), text);
        }
        assert_eq!(count(1_234_567.4), "1,234,567");
        assert_eq!(count(12.0), "12");
        assert_eq!(count(123_456.0), "123,456");
        assert_eq!(things(1, "consumer"), "1 consumer");
        assert_eq!(things(0, "consumer"), "0 consumers");
    }
}
