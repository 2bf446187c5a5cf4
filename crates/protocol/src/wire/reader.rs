//! Reading primitives off received bytes, each length checked against what is there.

use bytes::Bytes;

use super::{DecodeError, DecodeErrorKind, MAX_STRING, Str, UnknownTags, Uuid};

/// How many elements an array gets room for before the first is read.
const RESERVED: usize = 1024;

/// Received bytes and a position in them.
#[derive(Debug, Clone)]
pub struct Reader {
    bytes: Bytes,
    at: usize,
    /// Where reading ends: that of the bytes, or of the tagged field that is being read.
    end: usize,
}

/// Where a section of tagged fields is.
#[derive(Debug)]
pub(crate) struct Tags {
    left: u32,
    previous: Option<u32>,
    tag: u32,
    /// The end of what the section stands in.
    end: usize,
}

impl Reader {
    /// A reader of all the bytes.
    pub fn new(bytes: Bytes) -> Self {
        let end = bytes.len();
        Self { bytes, at: 0, end }
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// The position in the bytes.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Everything that is left, without a copy.
    #[inline]
    pub fn rest(&mut self) -> Bytes {
        let rest = self.bytes.slice(self.at..self.end);
        self.at = self.end;
        rest
    }

    /// Nothing may be left.
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
        let left = self.remaining();
        Err(if self.end < self.bytes.len() {
            DecodeErrorKind::EndOfTag { wanted, left }.into()
        } else {
            DecodeErrorKind::UnexpectedEnd { wanted, left }.into()
        })
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self
            .bytes
            .get(self.at..self.end)
            .and_then(|rest| rest.first_chunk::<N>())
        {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => self.short(N),
        }
    }

    /// So many bytes, without a copy.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`].
    #[inline]
    pub fn raw(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.remaining() {
            return self.short(length);
        }
        let from = self.at;
        self.at += length;
        Ok(self.bytes.slice(from..self.at))
    }

    /// One byte; any but 0 is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        self.fixed::<1>().map(|[byte]| byte != 0)
    }

    /// One byte.
    #[inline]
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        self.fixed().map(i8::from_be_bytes)
    }

    /// Two bytes, big-endian, as all that follow.
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
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        // Nearly every length is below 128.
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 && self.at < self.end => {
                self.at += 1;
                Ok(u32::from(byte))
            }
            _ => self.long_uvarint(),
        }
    }

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
    fn length(&mut self, compact: bool) -> Result<Option<usize>, DecodeError> {
        // Compact lengths are one more than they say, and have 31 bits all the same.
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

    pub(crate) fn string(&mut self, compact: bool) -> Result<Str, DecodeError> {
        match self.nullable_string(compact)? {
            Some(string) => Ok(string),
            None => null(),
        }
    }

    pub(crate) fn nullable_string(&mut self, compact: bool) -> Result<Option<Str>, DecodeError> {
        let Some(length) = self.string_length(compact)? else {
            return Ok(None);
        };
        match Str::from_utf8(self.raw(length)?) {
            Ok(string) => Ok(Some(string)),
            Err(bytes) => not_utf8(&bytes),
        }
    }

    pub(crate) fn bytes(&mut self, compact: bool) -> Result<Bytes, DecodeError> {
        match self.nullable_bytes(compact)? {
            Some(bytes) => Ok(bytes),
            None => null(),
        }
    }

    pub(crate) fn nullable_bytes(&mut self, compact: bool) -> Result<Option<Bytes>, DecodeError> {
        match self.length(compact)? {
            Some(length) => self.raw(length).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    pub(crate) fn array<T>(
        &mut self,
        compact: bool,
        least: usize,
        read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        match self.nullable_array(compact, least, read)? {
            Some(array) => Ok(array),
            None => null(),
        }
    }

    /// An array of elements that take `least` bytes or more each.
    #[inline]
    pub(crate) fn nullable_array<T>(
        &mut self,
        compact: bool,
        least: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.length(compact)? else {
            return Ok(None);
        };
        if count > self.remaining() / least.max(1) {
            return self.too_many(count, least);
        }
        let mut array = Vec::with_capacity(count.min(RESERVED));
        for i in 0..count {
            match read(self) {
                Ok(element) => array.push(element),
                Err(error) => return Err(error.at_index(i)),
            }
        }
        Ok(Some(array))
    }

    /// A struct after the byte, or in a tagged field the varint, that tells it from null.
    #[inline]
    pub(crate) fn nullable_struct<T>(
        &mut self,
        in_tag: bool,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        let present = if in_tag {
            self.uvarint()? != 0
        } else {
            self.i8()? >= 0
        };
        if present {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }

    #[cold]
    #[inline(never)]
    fn too_many<T>(&self, count: usize, least: usize) -> Result<T, DecodeError> {
        Err(DecodeErrorKind::CountTooLarge {
            count,
            least,
            left: self.remaining(),
        }
        .into())
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
            end: self.end,
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
        self.end = self.at + size;
        Ok(Some(tag))
    }

    /// Ends a tagged field, of which nothing may be left.
    pub(crate) fn end_tag(&mut self, tags: &Tags) -> Result<(), DecodeError> {
        let left = self.remaining();
        if left > 0 {
            return Err(DecodeErrorKind::TagLeftOver {
                tag: tags.tag,
                left,
            }
            .into());
        }
        self.end = tags.end;
        Ok(())
    }

    /// The tagged fields of a struct that has none that are known.
    #[inline]
    pub(crate) fn unknown_tags(&mut self, unknown: &mut UnknownTags) -> Result<(), DecodeError> {
        // Nearly always there are none.
        if self.at < self.end && self.bytes.get(self.at) == Some(&0) {
            self.at += 1;
            return Ok(());
        }
        self.some_unknown_tags(unknown)
    }

    fn some_unknown_tags(&mut self, unknown: &mut UnknownTags) -> Result<(), DecodeError> {
        let mut tags = self.tags()?;
        while let Some(tag) = self.next_tag(&mut tags)? {
            unknown.push(tag, self.rest());
            self.end_tag(&tags)?;
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
fn not_utf8<T>(bytes: &[u8]) -> Result<T, DecodeError> {
    let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    Err(DecodeErrorKind::InvalidUtf8 { valid }.into())
}
