//! Writes protobuf: the few kinds of fields that OTLP's metrics have.

const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const BYTES: u32 = 2;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn key(out: &mut Vec<u8>, field: u32, kind: u32) {
    varint(out, u64::from(field << 3 | kind));
}

/// An integer or an enum.
pub(super) fn integer(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, VARINT);
    varint(out, value);
}

/// A fixed64, or the bits of a double.
pub(super) fn fixed(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, FIXED_64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A string.
pub(super) fn text(out: &mut Vec<u8>, field: u32, value: &str) {
    key(out, field, BYTES);
    varint(out, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

/// A message, which `write` writes.
pub(super) fn message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    key(out, field, BYTES);
    varint(out, inner.len() as u64);
    out.append(&mut inner);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the encoding page of protobuf's documentation.
    #[test]
    fn bytes_are_those_of_the_specification() {
        let mut out = Vec::new();
        integer(&mut out, 1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        text(&mut out, 2, "testing");
        assert_eq!(out, b"\x12\x07testing");
        out.clear();
        message(&mut out, 3, |inner| integer(inner, 1, 150));
        assert_eq!(out, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        out.clear();
        fixed(&mut out, 16, 1);
        assert_eq!(out, [0x81, 0x01, 1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
