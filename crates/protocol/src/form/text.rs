//! Bytes as text: base64 (RFC 4648, section 4) and hexadecimal digits.

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as base64, with padding.
pub fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let letter = BASE64
                .get((bits >> (18 - 6 * i) & 63) as usize)
                .copied()
                .unwrap_or_default();
            text.push(if i <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

/// The bytes of base64; `None` where it is not base64 with its padding.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let letters = text.as_bytes();
    let padding = letters
        .iter()
        .rev()
        .take_while(|letter| **letter == b'=')
        .count();
    if !letters.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3);
    for chunk in letters.get(..letters.len() - padding)?.chunks(4) {
        let mut bits = 0u32;
        for letter in chunk {
            bits = bits << 6 | six_bits(*letter)?;
        }
        let whole = (bits << (6 * (4 - chunk.len()))).to_be_bytes();
        bytes.extend(whole.iter().skip(1).take(chunk.len() * 6 / 8));
    }
    Some(bytes)
}

fn six_bits(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Bytes as pairs of small hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of pairs of hexadecimal digits; `None` where there is anything else.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect();
    let pairs = digits?;
    let whole = pairs.len() % 2 == 0;
    whole.then(|| {
        pairs
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_remainder() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(
            from_base64("+/+/").as_deref(),
            Some(&[0xfb, 0xff, 0xbf][..])
        );
        for wrong in ["Zg=", "Z===", "Zg=a", "Z g=", "=Zg="] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hex_is_whole_pairs_of_digits() {
        assert_eq!(to_hex(&[0, 0xab]), "00ab");
        assert_eq!(from_hex("00aB").as_deref(), Some(&[0, 0xab][..]));
        for wrong in ["0", "0g", "0x00", " 00"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
}
