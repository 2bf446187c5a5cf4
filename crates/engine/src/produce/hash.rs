//! The hashes by which keys choose partitions, as other clients compute them.

/// Java's murmur2 of a key, made positive.
pub(super) fn murmur2(key: &[u8]) -> u32 {
    raw_murmur2(key) & 0x7fff_ffff
}

/// 32-bit MurmurHash2 with the seed that Kafka's Java client uses.
fn raw_murmur2(data: &[u8]) -> u32 {
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

/// FNV-1a of 32 bits. Its absolute value as a signed number, which is what librdkafka takes, and Sarama before it.
pub(super) fn fnv1a(key: &[u8]) -> u32 {
    let hash = key.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    (hash as i32).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that Java's `Utils.murmur2` gives.
    #[test]
    fn murmur2_agrees_with_java() {
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
            assert_eq!(raw_murmur2(key) as i32, hash, "{}", key.escape_ascii());
            assert_eq!(murmur2(key), hash as u32 & 0x7fff_ffff);
        }
    }

    /// The published values of FNV-1a: 0x811c9dc5 for no bytes, 0xe40c292c for "a", 0xbf9cf968 for "foobar".
    #[test]
    fn fnv1a_is_the_published_one_made_positive() {
        for (key, hash) in [
            (&b""[..], 0x811c_9dc5_u32),
            (b"a", 0xe40c_292c),
            (b"foobar", 0xbf9c_f968),
        ] {
            assert_eq!(fnv1a(key), (hash as i32).unsigned_abs());
        }
    }
}
