//! Keys with a chosen distribution, and the partitions they belong to.
//! Made once, before the run; pure.
//! Always: a key goes to the partition that Kafka's own clients send it to.
//! Making batches of them is `payload`'s.

use super::load::Keys;

/// All keys with their probabilities.
#[derive(Debug)]
pub struct KeySpace {
    /// Sums to 1.
    weights: Vec<f64>,
}

/// The exponent of YCSB's distribution.
const ZIPF_EXPONENT: f64 = 0.99;

impl KeySpace {
    pub fn new(keys: Keys, count: usize) -> KeySpace {
        let raw = (0..count).map(|rank| match keys {
            Keys::Zipf => ((rank + 1) as f64).powf(-ZIPF_EXPONENT),
            Keys::Uniform | Keys::None => 1.0,
        });
        let raw: Vec<f64> = raw.collect();
        let sum: f64 = raw.iter().sum();
        KeySpace {
            weights: raw.into_iter().map(|weight| weight / sum).collect(),
        }
    }

    pub fn weight(&self, key: usize) -> f64 {
        self.weights[key]
    }

    /// Running sums of the weights of `keys`, for `pick`.
    pub fn sums(&self, keys: &[usize]) -> Vec<f64> {
        let weights = keys.iter().map(|&key| self.weights[key]);
        weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect()
    }

    /// One of `keys`, as likely as its weight; `unit` is at least 0 and below 1. Without any: key 0.
    pub fn pick(keys: &[usize], sums: &[f64], unit: f64) -> usize {
        let wanted = unit * sums.last().copied().unwrap_or(0.0);
        let at = sums.partition_point(|sum| *sum <= wanted);
        keys.get(at).or(keys.last()).copied().unwrap_or(0)
    }

    /// The bytes of a key.
    pub fn key(key: usize) -> Vec<u8> {
        format!("key-{key:08}").into_bytes()
    }
}

/// Kafka's default partitioner.
pub fn partition_of(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

/// `Utils.murmur2` of Kafka's clients.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (at, byte) in tail.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * at);
    }
    if !tail.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden: `UtilsTest.testMurmur2` of Apache Kafka.
    #[test]
    fn hashes_are_those_of_kafkas_clients() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
        ] {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
    }

    #[test]
    fn the_first_zipf_key_is_the_likeliest_and_picks_follow_the_weights() {
        let space = KeySpace::new(Keys::Zipf, 100);
        assert!(space.weight(0) > 1.9 * space.weight(1));
        let sums = space.sums(&[3, 4]);
        assert_eq!(KeySpace::pick(&[3, 4], &sums, 0.0), 3);
        assert_eq!(KeySpace::pick(&[3, 4], &sums, 0.999), 4);
        let even = KeySpace::new(Keys::Uniform, 4);
        assert!((even.weight(3) - 0.25).abs() < 1e-12);
    }
}
