//! Checksums. Their speed bounds that of reading and writing batches that are not compressed.

use crc_fast::CrcAlgorithm;

/// CRC-32C, of record batches.
#[inline]
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    // The low half of what holds any width.
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn another_library_finds_the_same(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(crc32c(&bytes), crc32c::crc32c(&bytes));
        }
    }

    #[test]
    fn known_checksums() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
