//! The first pass of encoding: how many bytes, and whether they can be written.

use bytes::Bytes;

use super::{EncodeError, EncodeErrorKind, MAX_STRING, Str, UnknownTags, writer};

/// A number of bytes, and how many of them a [`super::Writer`] takes over without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    total: usize,
    shared: usize,
}

impl Size {
    /// Every byte.
    #[inline]
    pub fn total(&self) -> usize {
        self.total
    }

    /// The bytes that go through the writer's buffer.
    #[inline]
    pub fn copied(&self) -> usize {
        self.total - self.shared
    }

    /// Counts bytes that are copied.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.total += bytes;
    }

    #[inline]
    fn add_payload(&mut self, bytes: usize) {
        self.total += bytes;
        if writer::is_shared(bytes) {
            self.shared += bytes;
        }
    }
}

/// How many bytes an unsigned varint takes.
#[inline]
pub(super) fn uvarint(value: u32) -> usize {
    // A byte for each 7 bits begun; zero takes one.
    ((38 - (value | 1).leading_zeros()) / 7) as usize
}

pub(crate) fn measure_string(
    value: &Str,
    compact: bool,
    size: &mut Size,
    field: &'static str,
) -> Result<(), EncodeError> {
    let length = value.len();
    if length > MAX_STRING {
        return Err(string_too_long(length, field));
    }
    size.add(
        length
            + if compact {
                uvarint(length as u32 + 1)
            } else {
                2
            },
    );
    Ok(())
}

pub(crate) fn measure_bytes(
    value: &Bytes,
    compact: bool,
    size: &mut Size,
    field: &'static str,
) -> Result<(), EncodeError> {
    measure_count(value.len(), compact, size, field)?;
    size.add_payload(value.len());
    Ok(())
}

/// The length of an array or of bytes.
pub(crate) fn measure_count(
    count: usize,
    compact: bool,
    size: &mut Size,
    field: &'static str,
) -> Result<(), EncodeError> {
    if count >= i32::MAX as usize {
        return Err(too_many(count, field));
    }
    size.add(if compact {
        uvarint(count as u32 + 1)
    } else {
        4
    });
    Ok(())
}

/// Adds the tag and the size of a value that was measured since `before`.
pub(crate) fn measure_tag(tag: u32, before: usize, size: &mut Size) {
    let value = size.total - before;
    size.add(uvarint(tag) + uvarint(u32::try_from(value).unwrap_or(u32::MAX)));
}

/// The section of tagged fields, of which `known` were measured. The unknown ones ascend and are none of `tags`.
#[inline]
pub(crate) fn measure_tags(
    unknown: &UnknownTags,
    known: u32,
    size: &mut Size,
    tags: &[u32],
) -> Result<(), EncodeError> {
    if unknown.is_empty() {
        size.add(uvarint(known));
        return Ok(());
    }
    measure_unknown_tags(unknown, known, size, tags)
}

#[cold]
fn measure_unknown_tags(
    unknown: &UnknownTags,
    known: u32,
    size: &mut Size,
    tags: &[u32],
) -> Result<(), EncodeError> {
    let mut previous = None;
    for field in unknown.iter() {
        if previous.is_some_and(|p| p >= field.tag) || tags.contains(&field.tag) {
            return Err(EncodeErrorKind::TagOrder { tag: field.tag }.into());
        }
        previous = Some(field.tag);
        let before = size.total;
        size.add(field.value.len());
        measure_tag(field.tag, before, size);
    }
    size.add(uvarint(known.saturating_add(
        u32::try_from(unknown.len()).unwrap_or(u32::MAX),
    )));
    Ok(())
}

/// The size of a value that was found writable before.
pub(crate) fn measured(measure: impl FnOnce(&mut Size) -> Result<(), EncodeError>) -> usize {
    let mut size = Size::default();
    let again = measure(&mut size);
    debug_assert!(again.is_ok(), "measured before writing");
    size.total
}

#[cold]
#[inline(never)]
fn string_too_long(length: usize, field: &'static str) -> EncodeError {
    let error = EncodeError::from(EncodeErrorKind::StringTooLong { length });
    if field.is_empty() {
        error
    } else {
        error.at(field)
    }
}

#[cold]
#[inline(never)]
fn too_many(length: usize, field: &'static str) -> EncodeError {
    let error = EncodeError::from(EncodeErrorKind::TooLarge { length });
    if field.is_empty() {
        error
    } else {
        error.at(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule: 2.4.4.
    #[test]
    fn varints_take_a_byte_for_seven_bits() {
        for (value, size) in [
            (0, 1),
            (1, 1),
            (127, 1),
            (128, 2),
            (16383, 2),
            (16384, 3),
            (2097151, 3),
            (2097152, 4),
            (268435455, 4),
            (268435456, 5),
            (u32::MAX, 5),
        ] {
            assert_eq!(uvarint(value), size, "{value}");
        }
    }
}
