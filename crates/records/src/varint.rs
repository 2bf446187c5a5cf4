//! Zigzag varints, as records use them for lengths and differences.
//!
//! Readers take the input and return the rest: the fields of a record follow each other, and the compiler would store and
//! load an input behind a reference between any two of them.

use super::Malformed;

/// A varint of at most 32 bits, and the rest.
#[inline(always)]
pub(super) fn read_i32(input: &[u8]) -> Result<(i32, &[u8]), Malformed> {
    if let Some((short, rest)) = read_short(input) {
        return Ok((unzigzag_i32(short), rest));
    }
    let (wide, rest) = read_u64(input, 5)?;
    let value = u32::try_from(wide).map_err(|_| Malformed::Varint)?;
    Ok((unzigzag_i32(value), rest))
}

/// A varint of at most 64 bits, and the rest.
#[inline(always)]
pub(super) fn read_i64(input: &[u8]) -> Result<(i64, &[u8]), Malformed> {
    if let Some((short, rest)) = read_short(input) {
        return Ok((i64::from(unzigzag_i32(short)), rest));
    }
    let (wide, rest) = read_u64(input, 10)?;
    Ok((unzigzag_i64(wide), rest))
}

/// The fast path for one or two bytes.
#[inline(always)]
fn read_short(input: &[u8]) -> Option<(u32, &[u8])> {
    match input {
        [first, rest @ ..] if *first < 0x80 => Some((u32::from(*first), rest)),
        [first, second, rest @ ..] if *second < 0x80 => {
            let value = u32::from(*first & 0x7f) | u32::from(*second) << 7;
            Some((value, rest))
        }
        _ => None,
    }
}

#[cold]
fn read_u64(input: &[u8], most_bytes: usize) -> Result<(u64, &[u8]), Malformed> {
    let mut value = 0_u64;
    for (index, byte) in input.iter().take(most_bytes).enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has space for one bit.
        if index == 9 && bits > 1 {
            return Err(Malformed::Varint);
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, input.get(index + 1..).unwrap_or_default()));
        }
    }
    Err(if input.len() < most_bytes {
        Malformed::Cut
    } else {
        Malformed::Varint
    })
}

const fn unzigzag_i32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

const fn unzigzag_i64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Bytes that a value takes; a value of 32 bits takes the same by either width.
#[inline]
pub(super) const fn size(value: i64) -> usize {
    // One byte for each 7 bits begun, and one for 0; 9/64 is as good as 1/7 up to 64 bits, and no division.
    let bits = 63 - (zigzag(value) | 1).leading_zeros() as usize;
    (bits * 9 + 73) / 64
}

/// Writes a value to the front of `out` and returns its number of bytes. `out` must have space for
/// it.
#[inline]
pub(super) fn write(out: &mut [u8], value: i64) -> usize {
    let mut left = zigzag(value);
    let mut written = 0;
    for byte in out {
        written += 1;
        if left < 0x80 {
            *byte = left as u8;
            break;
        }
        *byte = left as u8 | 0x80;
        left >>= 7;
    }
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_bytes() {
        let known: [(i64, &[u8]); 8] = [
            (0, &[0]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (
                i64::MIN,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            ),
        ];
        for (value, bytes) in known {
            let mut out = [0; 10];
            let written = write(&mut out, value);
            assert_eq!(&out[..written], bytes);
            assert_eq!(read_i64(bytes), Ok((value, &[][..])));
        }
    }

    /// Rule: 2.4.4.
    #[test]
    fn longer_than_needed_is_legal_and_too_long_is_not() {
        assert_eq!(read_i32(&[0x82, 0x80, 0x80, 0x80, 0, 7]), Ok((1, &[7][..])));
        assert_eq!(
            read_i32(&[0x82, 0x80, 0x80, 0x80, 0x80, 0]),
            Err(Malformed::Varint)
        );
        // 2^32 is 33 bits.
        assert_eq!(
            read_i32(&[0x80, 0x80, 0x80, 0x80, 0x10]),
            Err(Malformed::Varint)
        );
        assert_eq!(
            read_i64(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]),
            Err(Malformed::Varint)
        );
        assert_eq!(read_i64(&[0xff; 11]), Err(Malformed::Varint));
        assert_eq!(read_i32(&[0xff; 4]), Err(Malformed::Cut));
        assert_eq!(read_i64(&[]), Err(Malformed::Cut));
    }

    proptest! {
        #[test]
        fn round_trip(value in any::<i64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = [0; 10];
            let written = write(&mut out, value);
            prop_assert_eq!(written, size(value));
            let input = &out[..written];
            let nothing = &[][..];
            prop_assert_eq!(read_i64(input), Ok((value, nothing)));
            match i32::try_from(value) {
                Ok(narrow) => prop_assert_eq!(read_i32(input), Ok((narrow, nothing))),
                Err(_) => prop_assert_eq!(read_i32(input), Err(Malformed::Varint)),
            }
        }
    }
}
