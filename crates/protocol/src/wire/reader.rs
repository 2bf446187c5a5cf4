//! Reads primitives from received bytes, and checks each length against the bytes that are left.

use std::str::Utf8Error;

use bytes::{Buf, Bytes};

use super::group::Group;
use super::{DecodeError, DecodeErrorKind, Ints, MAX_STRING, Str, UnknownTags, Uuid};

/// Number of array elements to reserve before the first one is read.
const RESERVED: usize = 1024;
/// Number of array elements created before they are filled: few enough to stay in the nearest cache.
const FRESH: usize = 16;

/// Received bytes, and the position in them.
#[derive(Debug, Clone)]
pub struct Reader {
    /// The bytes left: up to the end, or to the end of the current tagged field.
    bytes: Bytes,
    /// Number of bytes after those.
    after: usize,
    /// Number of all bytes.
    total: usize,
}

/// Position in a section of tagged fields.
#[derive(Debug)]
pub(crate) struct Tags {
    left: u32,
    previous: Option<u32>,
    tag: u32,
    /// The bytes after the tagged field, in the enclosing section.
    rest: Bytes,
    after: usize,
}

impl Reader {
    /// A reader of all the bytes.
    pub fn new(bytes: Bytes) -> Self {
        let total = bytes.len();
        Self {
            bytes,
            after: 0,
            total,
        }
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The position in the bytes.
    pub fn position(&self) -> usize {
        self.total - self.after - self.bytes.len()
    }

    /// All bytes left, without a copy.
    #[inline]
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes)
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// [`DecodeErrorKind::LeftOver`].
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(DecodeErrorKind::LeftOver { left }.into()),
        }
    }

    #[cold]
    #[inline(never)]
    fn short<T>(&self, wanted: usize) -> Result<T, DecodeError> {
        Err(self.shortage(wanted, self.remaining()))
    }

    fn shortage(&self, wanted: usize, left: usize) -> DecodeError {
        if self.after > 0 {
            DecodeErrorKind::EndOfTag { wanted, left }.into()
        } else {
            DecodeErrorKind::UnexpectedEnd { wanted, left }.into()
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.bytes.first_chunk::<N>() {
            Some(chunk) => {
                let chunk = *chunk;
                self.bytes.advance(N);
                Ok(chunk)
            }
            None => self.short(N),
        }
    }

    /// Consecutive fields of fixed sizes, checked at once; `fields` are their names and sizes. [`Self::skip`] skips
    /// them.
    #[inline]
    pub(crate) fn group<const N: usize>(
        &self,
        fields: &'static [(&'static str, usize)],
    ) -> Result<Group<'_, N>, DecodeError> {
        match self.bytes.first_chunk::<N>() {
            Some(chunk) => Ok(Group(chunk)),
            None => self.short_group(fields),
        }
    }

    /// Skips bytes that are known to be present.
    #[inline]
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.bytes.advance(bytes.min(self.bytes.len()));
    }

    /// The error of the field that the bytes end in.
    #[cold]
    #[inline(never)]
    fn short_group<T>(&self, fields: &[(&'static str, usize)]) -> Result<T, DecodeError> {
        let mut left = self.remaining();
        for &(field, size) in fields {
            if size > left {
                return Err(self.shortage(size, left).at(field));
            }
            left -= size;
        }
        self.short(left)
    }

    /// A number of bytes, without a copy.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn raw(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.remaining() {
            return self.short(length);
        }
        Ok(self.bytes.split_to(length))
    }

    /// One byte; any value but 0 is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        self.fixed::<1>().map(|[byte]| byte != 0)
    }

    /// One byte.
    #[inline]
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        self.fixed().map(i8::from_be_bytes)
    }

    /// Two bytes, big-endian, like the following integers.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.fixed().map(i16::from_be_bytes)
    }

    /// Two bytes without a sign.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.fixed().map(u16::from_be_bytes)
    }

    /// Four bytes.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.fixed().map(i32::from_be_bytes)
    }

    /// Four bytes without a sign.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.fixed().map(u32::from_be_bytes)
    }

    /// Eight bytes.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.fixed().map(i64::from_be_bytes)
    }

    /// The eight bytes of an IEEE 754 double.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        self.fixed().map(f64::from_be_bytes)
    }

    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.fixed().map(Uuid)
    }

    /// Seven bits a byte, the lowest first; of 5 bytes and 32 bits at most, though it may be longer than it needs to be.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        // Nearly every length takes a byte or two.
        match *self.bytes {
            [byte, ..] if byte < 0x80 => {
                self.bytes.advance(1);
                Ok(u32::from(byte))
            }
            [low, high, ..] if high < 0x80 => {
                self.bytes.advance(2);
                Ok(u32::from(low & 0x7f) | u32::from(high) << 7)
            }
            _ => self.long_uvarint(),
        }
    }

    #[inline(never)]
    fn long_uvarint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed::<1>()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0xf {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeErrorKind::VarintTooLong { bits: 32 }.into())
    }

    /// The length of bytes or of an array; `None` is null.
    #[inline]
    fn length(&mut self, compact: bool) -> Result<Option<usize>, DecodeError> {
        // Compact lengths are written as one more, and still have 31 bits.
        let length = if compact {
            self.uvarint()?.wrapping_sub(1) as i32
        } else {
            self.i32()?
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => negative(length),
        }
    }

    fn string_length(&mut self, compact: bool) -> Result<Option<usize>, DecodeError> {
        if compact {
            return match self.length(true)? {
                Some(length) if length > MAX_STRING => {
                    Err(DecodeErrorKind::StringTooLong { length }.into())
                }
                length => Ok(length),
            };
        }
        let length = self.i16()?;
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => negative(i32::from(length)),
        }
    }

    /// Fills the string in place, like the following methods: moving a value would wait for the writes just made.
    #[inline]
    pub(crate) fn string(&mut self, slot: &mut Str, compact: bool) -> Result<(), DecodeError> {
        match self.string_length(compact)? {
            Some(length) => self.text(slot, length),
            None => null(),
        }
    }

    #[inline]
    pub(crate) fn nullable_string(
        &mut self,
        slot: &mut Option<Str>,
        compact: bool,
    ) -> Result<(), DecodeError> {
        match self.string_length(compact)? {
            Some(length) => self.text(slot.get_or_insert_default(), length),
            None => {
                *slot = None;
                Ok(())
            }
        }
    }

    fn text(&mut self, slot: &mut Str, length: usize) -> Result<(), DecodeError> {
        let Some(bytes) = self.bytes.get(..length) else {
            return self.short(length);
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => *slot = Str::from(text),
            Err(error) => return not_utf8(error),
        }
        self.bytes.advance(length);
        Ok(())
    }

    #[inline]
    pub(crate) fn bytes(&mut self, slot: &mut Bytes, compact: bool) -> Result<(), DecodeError> {
        match self.length(compact)? {
            Some(length) => self.payload(slot, length),
            None => null(),
        }
    }

    #[inline]
    pub(crate) fn nullable_bytes(
        &mut self,
        slot: &mut Option<Bytes>,
        compact: bool,
    ) -> Result<(), DecodeError> {
        match self.length(compact)? {
            Some(length) => self.payload(slot.get_or_insert_default(), length),
            None => {
                *slot = None;
                Ok(())
            }
        }
    }

    #[inline]
    fn payload(&mut self, slot: &mut Bytes, length: usize) -> Result<(), DecodeError> {
        if length > self.remaining() {
            return self.short(length);
        }
        *slot = self.bytes.split_to(length);
        Ok(())
    }

    /// An array of elements that take `least` bytes or more each; `fill` reads one into its place.
    #[inline]
    pub(crate) fn array<T: Default>(
        &mut self,
        slot: &mut Vec<T>,
        compact: bool,
        least: usize,
        fill: impl FnMut(&mut T, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        match self.length(compact)? {
            Some(count) => self.elements(slot, count, least, fill),
            None => null(),
        }
    }

    #[inline]
    pub(crate) fn nullable_array<T: Default>(
        &mut self,
        slot: &mut Option<Vec<T>>,
        compact: bool,
        least: usize,
        fill: impl FnMut(&mut T, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        match self.length(compact)? {
            Some(count) => self.elements(slot.get_or_insert_default(), count, least, fill),
            None => {
                *slot = None;
                Ok(())
            }
        }
    }

    #[inline]
    fn elements<T: Default>(
        &mut self,
        array: &mut Vec<T>,
        count: usize,
        least: usize,
        mut fill: impl FnMut(&mut T, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        if count > self.remaining() / least.max(1) {
            return self.too_many(count, least);
        }
        array.clear();
        while array.len() < count {
            let from = array.len();
            if from == array.capacity() {
                // Space doubles with the elements that were really there, and never passes the
                // count.
                array.reserve_exact((count - from).min(from.max(RESERVED)));
            }
            let fresh = FRESH.min(array.capacity().min(count) - from);
            array.extend(std::iter::repeat_with(T::default).take(fresh));
            for (i, value) in array.iter_mut().enumerate().skip(from) {
                if let Err(error) = fill(value, self) {
                    return Err(error.at_index(i));
                }
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn ints(&mut self, slot: &mut Ints, compact: bool) -> Result<(), DecodeError> {
        match self.length(compact)? {
            Some(count) => self.numbers(slot, count),
            None => null(),
        }
    }

    #[inline]
    pub(crate) fn nullable_ints(
        &mut self,
        slot: &mut Option<Ints>,
        compact: bool,
    ) -> Result<(), DecodeError> {
        match self.length(compact)? {
            Some(count) => self.numbers(slot.get_or_insert_default(), count),
            None => {
                *slot = None;
                Ok(())
            }
        }
    }

    /// An array of int32, all its bytes checked at once.
    #[inline]
    fn numbers(&mut self, slot: &mut Ints, count: usize) -> Result<(), DecodeError> {
        // So few stand in the message; four are read at once, whatever follows the array.
        if let (0..=4, Some(bytes)) = (count, self.bytes.first_chunk::<16>()) {
            let numbers = Group(bytes);
            let four = [
                numbers.i32::<0>(),
                numbers.i32::<4>(),
                numbers.i32::<8>(),
                numbers.i32::<12>(),
            ];
            *slot = Ints::from_buf_and_len(four, count);
            self.bytes.advance(4 * count);
            return Ok(());
        }
        self.many_numbers(slot, count)
    }

    #[inline(never)]
    fn many_numbers(&mut self, slot: &mut Ints, count: usize) -> Result<(), DecodeError> {
        let size = count.saturating_mul(4);
        let Some(numbers) = self.bytes.get(..size) else {
            return self.too_many(count, 4);
        };
        let number = |chunk: &[u8]| chunk.first_chunk().copied().map_or(0, i32::from_be_bytes);
        *slot = numbers.chunks_exact(4).map(number).collect();
        self.bytes.advance(size);
        Ok(())
    }

    /// A struct that is there.
    #[inline]
    pub(crate) fn of<T: Default>(
        &mut self,
        fill: impl FnOnce(&mut T, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<T, DecodeError> {
        let mut value = T::default();
        fill(&mut value, self)?;
        Ok(value)
    }

    /// A struct after the byte, or in a tagged field the varint, that marks null.
    #[inline]
    pub(crate) fn nullable_struct<T: Default>(
        &mut self,
        in_tag: bool,
        fill: impl FnOnce(&mut T, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        let present = if in_tag {
            self.uvarint()? != 0
        } else {
            self.i8()? >= 0
        };
        if present {
            self.of(fill).map(Some)
        } else {
            Ok(None)
        }
    }

    #[cold]
    #[inline(never)]
    fn too_many<T>(&self, count: usize, least: usize) -> Result<T, DecodeError> {
        let (wanted, left) = (count.saturating_mul(least), self.remaining());
        // Of a tagged field it is the size that is wrong, if what comes after it could be the elements.
        Err(if self.after > 0 && wanted <= left + self.after {
            DecodeErrorKind::EndOfTag { wanted, left }
        } else {
            DecodeErrorKind::CountTooLarge { count, least, left }
        }
        .into())
    }

    /// Are there tagged fields in a struct? The count of none, as nearly always, is passed over.
    #[inline]
    pub(crate) fn has_tags(&mut self) -> bool {
        let none = self.bytes.first() == Some(&0);
        if none {
            self.bytes.advance(1);
        }
        !none
    }

    /// Begins the tagged fields of a struct.
    pub(crate) fn tags(&mut self) -> Result<Tags, DecodeError> {
        let left = self.uvarint()?;
        // A tag and a size each.
        if left as usize > self.remaining() / 2 {
            return self.too_many(left as usize, 2);
        }
        Ok(Tags {
            left,
            previous: None,
            tag: 0,
            rest: Bytes::new(),
            after: self.after,
        })
    }

    /// Goes to the next tagged field. Until [`Self::end_tag`] the reader ends where the field does.
    pub(crate) fn next_tag(&mut self, tags: &mut Tags) -> Result<Option<u32>, DecodeError> {
        if tags.left == 0 {
            return Ok(None);
        }
        tags.left -= 1;
        let tag = self.uvarint()?;
        match tags.previous {
            Some(previous) if previous >= tag => {
                return Err(DecodeErrorKind::TagOrder { tag, previous }.into());
            }
            _ => tags.previous = Some(tag),
        }
        tags.tag = tag;
        let size = self.uvarint()? as usize;
        let left = self.remaining();
        if size > left {
            return Err(DecodeErrorKind::TagTooLong { tag, size, left }.into());
        }
        tags.rest = self.bytes.split_off(size);
        self.after = tags.after + tags.rest.len();
        Ok(Some(tag))
    }

    /// Ends a tagged field, of which nothing may be left.
    pub(crate) fn end_tag(&mut self, tags: &mut Tags) -> Result<(), DecodeError> {
        let left = self.remaining();
        if left > 0 {
            return Err(DecodeErrorKind::TagLeftOver {
                tag: tags.tag,
                left,
            }
            .into());
        }
        self.bytes = std::mem::take(&mut tags.rest);
        self.after = tags.after;
        Ok(())
    }

    /// The tagged fields of a struct that has none that are known.
    #[inline]
    pub(crate) fn unknown_tags(&mut self, unknown: &mut UnknownTags) -> Result<(), DecodeError> {
        if self.has_tags() {
            self.some_unknown_tags(unknown)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn some_unknown_tags(&mut self, unknown: &mut UnknownTags) -> Result<(), DecodeError> {
        let mut tags = self.tags()?;
        while let Some(tag) = self.next_tag(&mut tags)? {
            unknown.push(tag, self.rest());
            self.end_tag(&mut tags)?;
        }
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn null<T>() -> Result<T, DecodeError> {
    Err(DecodeErrorKind::NullNotAllowed.into())
}

#[cold]
#[inline(never)]
fn negative<T>(length: i32) -> Result<T, DecodeError> {
    Err(DecodeErrorKind::NegativeLength { length }.into())
}

#[cold]
#[inline(never)]
fn not_utf8<T>(error: Utf8Error) -> Result<T, DecodeError> {
    let valid = error.valid_up_to();
    Err(DecodeErrorKind::InvalidUtf8 { valid }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader {
        Reader::new(Bytes::copy_from_slice(bytes))
    }

    /// What a method that fills a place puts there.
    fn filled<T: Default>(
        fill: impl FnOnce(&mut T) -> Result<(), DecodeError>,
    ) -> Result<T, DecodeError> {
        let mut value = T::default();
        fill(&mut value).map(|()| value)
    }

    fn kind<T: std::fmt::Debug>(result: Result<T, DecodeError>) -> DecodeErrorKind {
        result.unwrap_err().kind().clone()
    }

    fn byte(value: &mut i8, input: &mut Reader) -> Result<(), DecodeError> {
        *value = input.i8()?;
        Ok(())
    }

    #[test]
    fn fixed_sizes_are_big_endian_and_end_with_the_bytes() {
        let mut input = reader(&[1, 0xff, 0xfe, 0, 0, 1, 0, 7]);
        assert!(input.bool().unwrap());
        assert_eq!(input.i16().unwrap(), -2);
        assert_eq!(input.i32().unwrap(), 256);
        assert_eq!(
            kind(input.i16()),
            DecodeErrorKind::UnexpectedEnd { wanted: 2, left: 1 }
        );
        assert_eq!(input.i8().unwrap(), 7);
        assert!(input.finish().is_ok());
    }

    #[test]
    fn varints_have_32_bits_and_may_be_longer_than_they_need() {
        for (bytes, value) in [
            (&[0x7f][..], 127),
            (&[0x80, 0x01], 128),
            (&[0x81, 0x80, 0x80, 0x80, 0x00], 1),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], u32::MAX),
        ] {
            assert_eq!(reader(bytes).uvarint().unwrap(), value);
        }
        for bytes in [[0x80, 0x80, 0x80, 0x80, 0x10], [0x80; 5]] {
            assert_eq!(
                kind(reader(&bytes).uvarint()),
                DecodeErrorKind::VarintTooLong { bits: 32 }
            );
        }
        assert_eq!(
            kind(reader(&[0x80]).uvarint()),
            DecodeErrorKind::UnexpectedEnd { wanted: 1, left: 0 }
        );
    }

    #[test]
    fn lengths_below_null_are_refused() {
        assert_eq!(
            filled(|slot| reader(&[0xff; 4]).nullable_bytes(slot, false)).unwrap(),
            None
        );
        assert_eq!(
            filled(|slot| reader(&[0]).nullable_string(slot, true)).unwrap(),
            None
        );
        let negative = |length| DecodeErrorKind::NegativeLength { length };
        assert_eq!(
            kind(filled(
                |slot| reader(&[0xff, 0xff, 0xff, 0xfe]).nullable_bytes(slot, false)
            )),
            negative(-2)
        );
        assert_eq!(
            kind(filled(
                |slot| reader(&[0x80, 0]).nullable_string(slot, false)
            )),
            negative(-32768)
        );
        assert_eq!(
            kind(filled(
                |slot| reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).bytes(slot, true)
            )),
            negative(-2)
        );
        assert_eq!(
            kind(filled(|slot| reader(&[0xff, 0xff]).string(slot, false))),
            DecodeErrorKind::NullNotAllowed
        );
        assert_eq!(
            kind(filled(|slot| reader(&[0]).array(slot, true, 1, byte))),
            DecodeErrorKind::NullNotAllowed
        );
    }

    #[test]
    fn strings_are_utf8_of_32767_bytes_at_most() {
        let mut longest = vec![0x80, 0x80, 0x02];
        longest.resize(3 + MAX_STRING, b'a');
        assert_eq!(
            filled(|slot| reader(&longest).string(slot, true))
                .unwrap()
                .len(),
            MAX_STRING
        );
        longest[0] = 0x81;
        longest.push(b'a');
        let length = MAX_STRING + 1;
        assert_eq!(
            kind(filled(|slot| reader(&longest).string(slot, true))),
            DecodeErrorKind::StringTooLong { length }
        );
        assert_eq!(
            kind(filled(|slot| reader(b"\x04ab\xff").string(slot, true))),
            DecodeErrorKind::InvalidUtf8 { valid: 2 }
        );
    }

    /// Rule: 2.4.3.
    #[test]
    fn a_count_is_refused_before_anything_is_allocated() {
        let result = filled(|slot| {
            reader(&[0x7f, 0xff, 0xff, 0xff, 0, 0]).array(slot, false, 4, |value, input| {
                *value = input.i32()?;
                Ok(())
            })
        });
        let expected = DecodeErrorKind::CountTooLarge {
            count: 0x7fff_ffff,
            least: 4,
            left: 2,
        };
        assert_eq!(kind(result), expected);
        let mut many = vec![0, 0, 0x40, 0];
        many.resize(4 + 0x4000, 0);
        let array = filled(|slot| reader(&many).array(slot, false, 1, byte)).unwrap();
        assert_eq!(array.len(), 0x4000);
    }

    #[test]
    fn bytes_are_slices_of_the_frame() {
        let frame = Bytes::from_static(b"\x06bytes!");
        let bytes = filled(|slot| Reader::new(frame.clone()).bytes(slot, true)).unwrap();
        assert_eq!(bytes.as_ptr(), frame[1..].as_ptr());
    }

    #[test]
    fn a_group_names_the_field_that_the_bytes_end_in() {
        let read = |bytes: &[u8]| {
            reader(bytes)
                .group::<7>(&[("first", 1), ("second", 4), ("third", 2)])
                .map(|group| (group.i8::<0>(), group.i32::<1>(), group.i16::<5>()))
        };
        assert_eq!(read(&[1, 0, 0, 1, 0, 0xff, 0xfe, 9]), Ok((1, 256, -2)));
        for (length, text) in [
            (0, "first: 1 bytes needed, 0 left"),
            (3, "second: 4 bytes needed, 2 left"),
            (5, "third: 2 bytes needed, 0 left"),
            (6, "third: 2 bytes needed, 1 left"),
        ] {
            assert_eq!(read(&[0; 7][..length]).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn numbers_are_counted_against_the_bytes() {
        let mut input = reader(&[3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 7]);
        assert_eq!(filled(|slot| input.ints(slot, true)).unwrap()[..], [1, -2]);
        assert_eq!(input.position(), 9);
        let few: Vec<u8> = [4, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 3].into();
        let mut input = reader(&[few, vec![0xee; 20]].concat());
        let three = filled(|slot| input.ints(slot, true)).unwrap();
        assert_eq!(three[..], [1, i32::MAX, 3]);
        assert_eq!((input.position(), input.remaining()), (13, 20));
        assert_eq!(
            filled(|slot| reader(&[0xff; 4]).nullable_ints(slot, false)).unwrap(),
            None
        );
        let many: Vec<u8> = [0, 0, 0, 9].into_iter().chain([1; 36]).collect();
        assert_eq!(
            filled(|slot| reader(&many).ints(slot, false)).unwrap()[..],
            [0x0101_0101; 9]
        );
        let expected = DecodeErrorKind::CountTooLarge {
            count: 2,
            least: 4,
            left: 7,
        };
        assert_eq!(
            kind(filled(
                |slot| reader(&[3, 0, 0, 0, 1, 0, 0, 0]).ints(slot, true)
            )),
            expected
        );
    }

    #[test]
    fn tags_ascend_and_stay_within_their_size() {
        let read = |bytes: &[u8]| {
            let mut unknown = UnknownTags::new();
            reader(bytes).unknown_tags(&mut unknown).map(|()| unknown)
        };
        assert!(read(&[0]).unwrap().is_empty());
        let two = read(&[2, 3, 1, b'x', 5, 0]).unwrap();
        assert_eq!(
            two.iter()
                .map(|t| (t.tag, &t.value[..]))
                .collect::<Vec<_>>(),
            [(3, &b"x"[..]), (5, b"")]
        );
        let order = |tag, previous| DecodeErrorKind::TagOrder { tag, previous };
        assert_eq!(kind(read(&[2, 3, 0, 3, 0])), order(3, 3));
        assert_eq!(kind(read(&[2, 3, 0, 2, 0])), order(2, 3));
        assert_eq!(
            kind(read(&[1, 3, 2, 0])),
            DecodeErrorKind::TagTooLong {
                tag: 3,
                size: 2,
                left: 1
            }
        );
        assert_eq!(
            kind(read(&[9, 3, 0])),
            DecodeErrorKind::CountTooLarge {
                count: 9,
                least: 2,
                left: 2
            }
        );
    }

    #[test]
    fn a_known_tag_fills_its_size() {
        let read = |bytes: &[u8]| {
            let mut input = reader(bytes);
            let mut tags = input.tags()?;
            while input.next_tag(&mut tags)?.is_some() {
                input.i16()?;
                input.end_tag(&mut tags)?;
            }
            input.finish()
        };
        assert!(read(&[1, 0, 2, 7, 7]).is_ok());
        assert_eq!(
            kind(read(&[1, 0, 3, 7, 7, 7])),
            DecodeErrorKind::TagLeftOver { tag: 0, left: 1 }
        );
        assert_eq!(
            kind(read(&[1, 0, 1, 7, 7])),
            DecodeErrorKind::EndOfTag { wanted: 2, left: 1 }
        );
    }

    #[test]
    fn elements_that_pass_the_end_of_a_tag_are_told_from_a_count_too_large() {
        let read = |bytes: &[u8]| {
            let mut input = reader(bytes);
            let mut tags = input.tags()?;
            input.next_tag(&mut tags)?;
            filled(|slot| input.ints(slot, true))
        };
        assert_eq!(
            kind(read(&[1, 0, 2, 2, 7, 7, 7, 7])),
            DecodeErrorKind::EndOfTag { wanted: 4, left: 1 }
        );
        let expected = DecodeErrorKind::CountTooLarge {
            count: 2,
            least: 4,
            left: 1,
        };
        assert_eq!(kind(read(&[1, 0, 2, 3, 7, 7, 7, 7])), expected);
    }
}
