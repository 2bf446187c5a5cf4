//! The checksums of record batches and of messages. The first bounds the speed of reading and writing
//! uncompressed batches: `docs/results/clients.md` has the figures of the library used and of another.

use crc_fast::CrcAlgorithm;

/// CRC-32C of these bytes.
#[inline]
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    // The library returns 64 bits for any width; these are the low half.
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32 of these bytes, as in zip files: of messages before 0.11, and of keys in librdkafka's partitioners.
#[inline]
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_crc32c_crate_computes_the_same(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(crc32c(&bytes), ::crc32c::crc32c(&bytes));
        }
    }

    /// RFC 3720, B.4.
    #[test]
    fn published_checksums_are_met() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
