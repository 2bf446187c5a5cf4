//! Numbers of seven bits a byte, the lowest first, as Avro and Protobuf write them.

/// The bit of a byte behind which others follow.
const MORE: u64 = 0x8080_8080_8080_8080;

/// The number at the beginning of some bytes, and the bytes behind it; `None` if it does not end there, or has more than 64 bits.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes.split_first() {
        Some((byte @ ..0x80, rest)) => Some((u64::from(*byte), rest)),
        _ => long(bytes),
    }
}

/// Of up to 56 bits, without a branch for each byte.
#[inline]
fn long(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let word = bytes
        .first_chunk()
        .map_or(u64::MAX, |eight| u64::from_le_bytes(*eight));
    let last = !word & MORE;
    if last == 0 {
        return byte_by_byte(bytes);
    }
    let count = last.trailing_zeros() / 8 + 1;
    let sevens = word & (u64::MAX >> (64 - 8 * count)) & !MORE;
    // Groups of 7 bits become groups of 14, of 28 and of 56.
    let two = (sevens & 0x00ff_00ff_00ff_00ff) | (sevens & 0xff00_ff00_ff00_ff00) >> 1;
    let four = (two & 0x0000_ffff_0000_ffff) | (two & 0xffff_0000_ffff_0000) >> 2;
    let value = (four & 0xffff_ffff) | (four & 0xffff_ffff_0000_0000) >> 4;
    Some((value, bytes.get(count as usize..)?))
}

fn byte_by_byte(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        // The tenth byte has space for one bit.
        if index == 9 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

/// Appends a number as [`varint`] reads it.
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::{put_varint, varint};

    /// Numbers of each length, at the end of the bytes and with more behind them.
    #[test]
    fn numbers_of_every_length_are_read() {
        let powers = (0..64).map(|bits| 1_u64 << bits);
        for value in powers.flat_map(|power| [power - 1, power, power | 0x5555_5555, !power]) {
            let mut bytes = Vec::new();
            put_varint(value, &mut bytes);
            for behind in [&[][..], &[0xff; 9], &[0; 9]] {
                let whole = [&bytes, behind].concat();
                assert_eq!(varint(&whole), Some((value, behind)), "{value}");
            }
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None, "{value}");
        }
        // Longer than needed, as some writers leave space for a length.
        assert_eq!(varint(&[0x81, 0x80, 0x00, 7]), Some((1, &[7][..])));
        assert_eq!(varint(&[0x81, 0x80, 0, 7, 7, 7, 7, 7]).unwrap().0, 1);
    }

    #[test]
    fn what_has_more_than_64_bits_is_no_number() {
        assert_eq!(varint(&[0xff; 10]), None);
        assert_eq!(varint(&[0xff; 12]), None);
        let mut bytes = vec![0xff; 9];
        bytes.push(1);
        assert_eq!(varint(&bytes), Some((u64::MAX, &[][..])));
        bytes[9] = 2;
        assert_eq!(varint(&bytes), None);
    }
}
