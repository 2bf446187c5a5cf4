//! Computes the checksum of any range of a buffer.

use std::ops::Range;

/// Bytes between two stored checksums.
const STRIDE: usize = 1 << 10;

/// A polynomial, and a fast function for its checksums.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checksum {
    /// Its coefficients without the highest; bit 31 is that of x^0.
    pub(super) polynomial: u32,
    pub(super) crc: fn(&[u8]) -> u32,
}

/// CRC-32C, of record batches.
pub(super) const CRC_32C: Checksum = Checksum {
    polynomial: 0x82f6_3b78,
    crc: super::crc::crc32c,
};

/// CRC-32, of messages.
pub(super) const CRC_32: Checksum = Checksum {
    polynomial: 0xedb8_8320,
    crc: |bytes| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    },
};

/// Computes the checksum of any range of a buffer in a time that does not grow with the range. In
/// malformed bytes nearly every position can look like an entry that reaches to the end of the
/// file; reading each of them whole would take quadratic time.
///
/// It stores the checksum of each prefix of the buffer whose length is a multiple of [`STRIDE`]. A checksum is a remainder, so
/// that the checksum of a range follows from those of the prefixes up to its start and up to its end.
#[derive(Debug, Clone)]
pub(super) struct RangeCrc {
    checksum: Checksum,
    /// Start of the prefixes.
    origin: usize,
    beginnings: Vec<u32>,
    /// x to the power of 8, 16, 32 and so on: the factors of a remainder when 1, 2, 4 bytes are appended.
    powers: [u32; usize::BITS as usize],
}

impl RangeCrc {
    /// For ranges that start at `origin` or later.
    pub(super) fn new(checksum: Checksum, origin: usize) -> Self {
        let mut power = 1 << (31 - 8);
        let powers = std::array::from_fn(|_| {
            let this = power;
            power = multiplied(checksum.polynomial, power, power);
            this
        });
        Self {
            checksum,
            origin,
            beginnings: vec![0],
            powers,
        }
    }

    /// The checksum of a range of `bytes`, which must be the same in every call.
    pub(super) fn of(&mut self, bytes: &[u8], range: Range<usize>) -> u32 {
        let crc = |range: Range<usize>| (self.checksum.crc)(bytes.get(range).unwrap_or_default());
        let first = range.start.saturating_sub(self.origin).div_ceil(STRIDE);
        let last = range.end.saturating_sub(self.origin) / STRIDE;
        if last <= first {
            return crc(range);
        }
        while self.beginnings.len() <= last {
            let start = self.origin + (self.beginnings.len() - 1) * STRIDE;
            let before = self.beginnings.last().copied().unwrap_or_default();
            let next = self.appended(before, STRIDE) ^ crc(start..start + STRIDE);
            self.beginnings.push(next);
        }
        let beginning = |index: usize| self.beginnings.get(index).copied().unwrap_or_default();
        let head = crc(range.start..self.origin + first * STRIDE);
        let middle =
            self.appended(head ^ beginning(first), (last - first) * STRIDE) ^ beginning(last);
        let tail = self.origin + last * STRIDE..range.end;
        self.appended(middle, tail.len()) ^ crc(tail)
    }

    /// Shifts a checksum by `count` bytes, before the checksum of those bytes is added.
    fn appended(&self, crc: u32, count: usize) -> u32 {
        let bits = self.powers.iter().enumerate();
        bits.filter(|(bit, _)| count >> bit & 1 == 1)
            .fold(crc, |crc, (_, power)| {
                multiplied(self.checksum.polynomial, crc, *power)
            })
    }
}

/// The product of two remainders. Bit 31 is the coefficient of x^0, bit 0 that of x^31.
fn multiplied(polynomial: u32, a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..32).rev() {
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        // Times x.
        b = b >> 1 ^ if b & 1 == 1 { polynomial } else { 0 };
    }
    product
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_range_has_the_checksum_of_its_bytes(
            bytes in prop::collection::vec(any::<u8>(), 4 * STRIDE..6 * STRIDE),
            origin in 0..STRIDE,
            ranges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
        ) {
            for checksum in [CRC_32, CRC_32C] {
                let mut crcs = RangeCrc::new(checksum, origin);
                for (a, b) in &ranges {
                    let (a, b) = (a.index(bytes.len() - origin), b.index(bytes.len() - origin));
                    let range = origin + a.min(b)..origin + a.max(b) + 1;
                    prop_assert_eq!(crcs.of(&bytes, range.clone()), (checksum.crc)(&bytes[range]));
                }
            }
        }

        #[test]
        fn a_checksum_is_the_remainder_of_a_division(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            for checksum in [CRC_32, CRC_32C] {
                prop_assert_eq!((checksum.crc)(&bytes), divided(checksum.polynomial, &bytes));
            }
        }
    }

    /// A checksum, bit by bit.
    fn divided(polynomial: u32, bytes: &[u8]) -> u32 {
        let shifted = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { polynomial } else { 0 };
        !bytes.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| shifted(crc))
        })
    }

    #[test]
    fn the_checksums_are_the_published_ones() {
        assert_eq!((CRC_32.crc)(b"123456789"), 0xcbf4_3926);
        // RFC 3720, B.4.
        assert_eq!((CRC_32C.crc)(b"123456789"), 0xe306_9283);
        assert_eq!((CRC_32C.crc)(&[0; 32]), 0x8a91_36aa);
        assert_eq!((CRC_32C.crc)(&[0xff; 32]), 0x62a8_ab43);
    }
}
