//! The second pass of encoding: bytes into one buffer, large payloads next to it.

use bytes::Bytes;

use super::group::GroupMut;
use super::{Str, UnknownTag, UnknownTags, Uuid};

/// Payloads from this size on are not copied: below it, a copy costs less than a segment of its own.
const SHARED: usize = 4096;

#[inline]
pub(super) fn is_shared(length: usize) -> bool {
    length >= SHARED
}

/// Writes primitives one after another.
///
/// Each method writes what it is given; the checks stand in the first pass, in `measure`.
#[derive(Debug, Default)]
pub struct Writer {
    buffer: Vec<u8>,
    /// Payloads that are not copied, each with the length of the buffer before it.
    shared: Vec<(usize, Bytes)>,
}

impl Writer {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one with space for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: Vec::with_capacity(bytes),
            shared: Vec::new(),
        }
    }

    /// Reserves space for exactly this many bytes more.
    pub fn reserve(&mut self, bytes: usize) {
        self.buffer.reserve_exact(bytes);
    }

    /// How many bytes were written, payloads included.
    pub fn len(&self) -> usize {
        self.buffer.len()
            + self
                .shared
                .iter()
                .map(|(_, payload)| payload.len())
                .sum::<usize>()
    }

    /// Was nothing written?
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.shared.is_empty()
    }

    /// What was written, as segments to be sent one after another.
    pub fn finish(self) -> Frame {
        let buffer = Bytes::from(self.buffer);
        if self.shared.is_empty() {
            return Frame {
                segments: vec![buffer],
            };
        }
        let mut segments = Vec::with_capacity(2 * self.shared.len() + 1);
        let mut from = 0;
        for (at, payload) in self.shared {
            if at > from {
                segments.push(buffer.slice(from..at));
            }
            segments.push(payload);
            from = at;
        }
        if from < buffer.len() {
            segments.push(buffer.slice(from..));
        }
        Frame { segments }
    }

    /// Bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Space for fields of fixed sizes that follow each other.
    #[inline]
    pub(crate) fn group<const N: usize>(&mut self) -> GroupMut<'_, N> {
        self.raw(&[0; N]);
        GroupMut(self.buffer.last_chunk_mut())
    }

    /// One byte, 1 for true.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.buffer.push(u8::from(value));
    }

    /// One byte.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.raw(&value.to_be_bytes());
    }

    /// Two bytes, big-endian, as all that follow.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    /// Two bytes without a sign.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.raw(&value.to_be_bytes());
    }

    /// Four bytes.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    /// Four bytes without a sign.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    /// Eight bytes.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    /// The eight bytes of an IEEE 754 double.
    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.raw(&value.to_be_bytes());
    }

    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.raw(&value.0);
    }

    /// Seven bits a byte, the lowest first.
    #[inline]
    pub fn uvarint(&mut self, value: u32) {
        if value < 0x80 {
            self.buffer.push(value as u8);
        } else {
            self.long_uvarint(value);
        }
    }

    #[inline(never)]
    fn long_uvarint(&mut self, mut value: u32) {
        while value > 0x7f {
            self.buffer.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.push(value as u8);
    }

    /// The length of an array or of bytes; compact lengths are one more, so that 0 is null.
    #[inline]
    pub(crate) fn count(&mut self, count: usize, compact: bool) {
        if compact {
            self.uvarint(count as u32 + 1)
        } else {
            self.i32(count as i32)
        }
    }

    pub(crate) fn string(&mut self, value: &Str, compact: bool) {
        let bytes = value.as_bytes();
        if compact {
            self.uvarint(bytes.len() as u32 + 1)
        } else {
            self.i16(bytes.len() as i16)
        }
        self.raw(bytes);
    }

    pub(crate) fn null_string(&mut self, compact: bool) {
        if compact {
            self.uvarint(0)
        } else {
            self.i16(-1)
        }
    }

    pub(crate) fn bytes(&mut self, value: &Bytes, compact: bool) {
        let count = value.len() as u32 + 1;
        if compact && (0x80..0x4000).contains(&count) {
            // As a batch of one record mostly has it: both bytes at once, without a call.
            self.raw(&[count as u8 | 0x80, (count >> 7) as u8]);
        } else {
            self.count(value.len(), compact);
        }
        if is_shared(value.len()) {
            self.shared.push((self.buffer.len(), value.clone()));
        } else {
            self.raw(value);
        }
    }

    /// An array of int32.
    pub(crate) fn ints(&mut self, values: &[i32], compact: bool) {
        self.count(values.len(), compact);
        for value in values {
            self.i32(*value);
        }
    }

    pub(crate) fn null_bytes(&mut self, compact: bool) {
        if compact {
            self.uvarint(0)
        } else {
            self.i32(-1)
        }
    }

    #[inline]
    pub(crate) fn tag_count(&mut self, count: usize) {
        self.uvarint(count as u32);
    }

    #[inline]
    pub(crate) fn tag(&mut self, tag: u32, size: usize) {
        self.uvarint(tag);
        self.uvarint(size as u32);
    }

    /// The whole section of a struct that has no known tagged fields.
    #[inline]
    pub(crate) fn tags(&mut self, unknown: &UnknownTags) {
        self.tag_count(unknown.len());
        if !unknown.is_empty() {
            self.tags_below(u32::MAX, &mut unknown.iter());
        }
    }

    /// Those of the unknown tagged fields that stand before a known one.
    pub(crate) fn tags_below(&mut self, tag: u32, unknown: &mut std::slice::Iter<'_, UnknownTag>) {
        while let Some(field) = unknown
            .as_slice()
            .first()
            .filter(|field| field.tag < tag || tag == u32::MAX)
        {
            self.tag(field.tag, field.value.len());
            self.raw(&field.value);
            unknown.next();
        }
    }
}

/// Encoded bytes, as segments to be sent one after another in one vectored write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    segments: Vec<Bytes>,
}

/// One piece; the bytes are all that is sent, with no length before them.
impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Frame {
        let segments = if bytes.is_empty() {
            Vec::new()
        } else {
            vec![bytes]
        };
        Frame { segments }
    }
}

impl Frame {
    /// The segments, none of them empty unless the frame is.
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// The segments, handed over.
    pub fn into_segments(self) -> Vec<Bytes> {
        self.segments
    }

    /// How many bytes in all.
    pub fn len(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum()
    }

    /// Are there no bytes?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everything in one piece, which copies where there is more than one segment.
    pub fn into_bytes(mut self) -> Bytes {
        match self.segments.len() {
            0 => Bytes::new(),
            1 => self.segments.pop().unwrap_or_default(),
            _ => self.segments.concat().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_payloads_are_shared_and_small_ones_copied() {
        let (small, large) = (
            Bytes::from(vec![1; SHARED - 1]),
            Bytes::from(vec![2; SHARED]),
        );
        let mut out = Writer::new();
        out.bytes(&large, false);
        out.bytes(&small, false);
        out.bytes(&large, true);
        let length = out.len();
        let frame = out.finish();
        assert_eq!(frame.segments().len(), 4);
        assert_eq!(frame.segments()[1].as_ptr(), large.as_ptr());
        assert_eq!(frame.len(), length);
        let whole = frame.into_bytes();
        assert_eq!(whole.len(), 4 + SHARED + 4 + SHARED - 1 + 2 + SHARED);
        assert_eq!(&whole[..4], [0, 0, 16, 0]);
        assert_eq!(whole[4], 2);
    }

    #[test]
    fn lengths_of_payloads_are_varints() {
        for length in [0, 126, 127, 16382, 16383] {
            let payload = Bytes::from(vec![7; length]);
            let (mut out, mut plain) = (Writer::new(), Writer::new());
            out.bytes(&payload, true);
            plain.uvarint(length as u32 + 1);
            plain.raw(&payload);
            assert_eq!(
                out.finish().into_bytes(),
                plain.finish().into_bytes(),
                "{length}"
            );
        }
    }

    #[test]
    fn an_empty_writer_gives_an_empty_frame() {
        assert!(Writer::new().finish().is_empty());
        assert_eq!(Writer::new().finish().into_bytes(), Bytes::new());
    }
}
