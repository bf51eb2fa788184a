//! Zigzag varints, as the records of a batch use them (`ByteUtils.readVarint`, `writeVarint`).
//! Owned by nobody, functions over slices.
//! Always: a number that does not fit its type, or is cut, is refused; a longer form than needed is read.
//! The unsigned varints of messages are `wire`'s.

/// Takes a 32-bit zigzag varint off the front; `None` if it is cut or too long.
#[inline(always)]
pub fn take_i32(bytes: &mut &[u8]) -> Option<i32> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(zigzag(u64::from(first)) as i32);
    }
    // Two bytes cover sizes up to 8191, the usual case.
    if let Some((&second, rest)) = rest.split_first()
        && second < 0x80
    {
        *bytes = rest;
        return Some(zigzag(u64::from(first & 0x7f) | u64::from(second) << 7) as i32);
    }
    let wide = take_long(bytes, 5)?;
    u32::try_from(wide)
        .ok()
        .map(|raw| zigzag(raw.into()) as i32)
}

/// Takes a 64-bit zigzag varint off the front; `None` if it is cut or too long.
#[inline(always)]
pub fn take_i64(bytes: &mut &[u8]) -> Option<i64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(zigzag(u64::from(first)));
    }
    take_long(bytes, 10).map(zigzag)
}

/// An unsigned varint of at most `bytes_max` bytes.
#[inline(never)]
fn take_long(bytes: &mut &[u8], bytes_max: usize) -> Option<u64> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(bytes_max).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

#[inline(always)]
fn zigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

/// Appends a zigzag varint, in its shortest form.
pub fn put(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Bytes that `put` writes for this value.
pub fn size(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)) as u64;
    (64 - (raw | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken() {
        let mut values = vec![0, -1, i64::MIN, i64::MAX];
        for shift in 0..63 {
            values.extend([1 << shift, -(1 << shift), (1 << shift) - 1]);
        }
        for value in values {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(bytes.len(), size(value), "{value}");
            bytes.push(0x55);
            let mut rest = &bytes[..];
            assert_eq!(take_i64(&mut rest), Some(value));
            assert_eq!(rest, [0x55]);
            let mut rest = &bytes[..];
            match i32::try_from(value) {
                Ok(narrow) => assert_eq!(take_i32(&mut rest), Some(narrow)),
                Err(_) => assert_eq!(take_i32(&mut rest), None, "{value} does not fit"),
            }
            for cut in 0..size(value) {
                assert_eq!(take_i64(&mut &bytes[..cut]), None, "{value} cut at {cut}");
            }
        }
    }

    #[test]
    fn too_long_is_refused_and_longer_than_needed_is_read() {
        assert_eq!(take_i32(&mut &[0x8e, 0x80, 0x80, 0x80, 0x00][..]), Some(7));
        assert_eq!(
            take_i32(&mut &[0x8e, 0x80, 0x80, 0x80, 0x80, 0x00][..]),
            None
        );
        assert_eq!(take_i32(&mut &[0xff, 0xff, 0xff, 0xff, 0x10][..]), None);
        assert_eq!(take_i64(&mut &[0xff; 11][..]), None);
        let mut ten = [0xff; 10];
        ten[9] = 0x01;
        assert_eq!(take_i64(&mut &ten[..]), Some(i64::MIN));
        ten[9] = 0x02;
        assert_eq!(take_i64(&mut &ten[..]), None);
    }
}
