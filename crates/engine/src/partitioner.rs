//! Which partition a record goes to.

/// The partition of a key: Java's murmur2, made positive, modulo the number of partitions.
pub(crate) fn of_key(key: &[u8], partitions: usize) -> usize {
    let positive = murmur2(key) & 0x7fff_ffff;
    (positive as usize).checked_rem(partitions).unwrap_or(0)
}

/// 32-bit MurmurHash2 with the seed that Kafka's Java client uses.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let mut words = data.chunks_exact(4);
    for word in words.by_ref().filter_map(|word| word.first_chunk::<4>()) {
        let k = u32::from_le_bytes(*word).wrapping_mul(M);
        let k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (byte, shift) in rest.iter().zip([0, 8, 16]) {
            hash ^= u32::from(*byte) << shift;
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that Java's `Utils.murmur2` gives.
    #[test]
    fn agrees_with_java() {
        for (key, hash) in [
            (&b"21"[..], -973_932_308_i32),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key) as i32, hash, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn stays_in_range() {
        assert_eq!(of_key(b"k", 0), 0);
        for partitions in 1..20 {
            assert!(of_key(b"foobar", partitions) < partitions);
        }
    }
}
