//! Values that stand for themselves in every message: strings, uuids, tagged fields not known here.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::{FromStr, Utf8Error};

use bytes::Bytes;
use compact_str::CompactString;
use smallvec::SmallVec;

/// The numbers of an array of int32, such as the replicas of a partition; up to four take no memory of their own.
pub type Ints = SmallVec<[i32; 4]>;

/// A string. Up to 24 bytes, as nearly all names have, take no memory of their own, and none keeps the frame alive that it
/// came in: for strings, copying costs less than counting who shares them.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(CompactString);

impl Str {
    /// The empty string.
    pub const fn new() -> Self {
        Self::from_static("")
    }

    /// A string of the program, without a copy.
    pub const fn from_static(text: &'static str) -> Self {
        Self(CompactString::const_new(text))
    }

    /// The bytes as a string.
    ///
    /// # Errors
    /// They are not UTF-8.
    #[inline]
    pub fn from_utf8(bytes: &[u8]) -> Result<Self, Utf8Error> {
        std::str::from_utf8(bytes).map(Self::from)
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// How many bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is it the empty string?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Deref for Str {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Str {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// A `str` and its `Str` hash and compare alike, so that maps can be asked with either.
impl Borrow<str> for Str {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Str {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == *other
    }
}

impl From<&str> for Str {
    #[inline]
    fn from(text: &str) -> Self {
        Self(CompactString::new(text))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self(CompactString::from(text))
    }
}

impl From<&String> for Str {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Str> for String {
    fn from(text: Str) -> Self {
        text.0.into_string()
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// 16 bytes that name a topic, a directory, a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

/// The letters of url-safe base64.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// The uuid that stands for none.
    pub const ZERO: Self = Self([0; 16]);

    /// Is it [`Uuid::ZERO`]?
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

/// Kafka's text of it: url-safe base64 without padding, 22 letters.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for i in 0..22u32 {
            // The last letter has only two bits of its own.
            let six = if i < 21 {
                bits >> (122 - 6 * i)
            } else {
                bits << 4
            } & 63;
            let letter = LETTERS
                .get(usize::try_from(six).unwrap_or_default())
                .copied()
                .unwrap_or_default();
            write!(f, "{}", char::from(letter))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a uuid in Kafka's notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a uuid; it must be 22 characters of URL-safe base64")]
pub struct ParseUuidError;

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        let text = text.trim_end_matches('=');
        if text.len() != 22 {
            return Err(ParseUuidError);
        }
        let mut bits = 0u128;
        for (i, letter) in text.bytes().enumerate() {
            let six = LETTERS
                .iter()
                .position(|l| *l == letter)
                .ok_or(ParseUuidError)? as u128;
            bits = if i < 21 {
                bits << 6 | six
            } else {
                bits << 2 | six >> 4
            };
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

/// A tagged field as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownTag {
    /// Its tag.
    pub tag: u32,
    /// Its value.
    pub value: Bytes,
}

/// The tagged fields of a struct that are not known here, in ascending order of their tags.
// One word where there are none, which is nearly always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::box_collection)]
pub struct UnknownTags(Option<Box<Vec<UnknownTag>>>);

impl UnknownTags {
    /// None, which takes no memory of its own.
    #[inline]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Adds one at the end. Encoding refuses tags that do not ascend.
    #[cold]
    pub fn push(&mut self, tag: u32, value: Bytes) {
        self.0
            .get_or_insert_default()
            .push(UnknownTag { tag, value });
    }
}

// Every struct has such a field: what there is to drop stands elsewhere, so that only the look at it is repeated.
impl Drop for UnknownTags {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        #[inline(never)]
        #[allow(clippy::box_collection)]
        fn some(tags: Box<Vec<UnknownTag>>) {
            drop(tags);
        }
        if let Some(tags) = self.0.take() {
            some(tags);
        }
    }
}

impl Deref for UnknownTags {
    type Target = [UnknownTag];

    #[inline]
    fn deref(&self) -> &[UnknownTag] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl FromIterator<UnknownTag> for UnknownTags {
    fn from_iter<I: IntoIterator<Item = UnknownTag>>(tags: I) -> Self {
        let tags: Vec<_> = tags.into_iter().collect();
        Self((!tags.is_empty()).then(|| Box::new(tags)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn uuid_text_is_url_safe_base64() {
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Uuid([0xff; 16]).to_string(), "_____________________w");
        let uuid = Uuid(*b"0123456789abcdef");
        assert_eq!(uuid.to_string(), "MDEyMzQ1Njc4OWFiY2RlZg");
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
        assert_eq!("MDEyMzQ1Njc4OWFiY2RlZg==".parse(), Ok(uuid));
        assert_eq!("short".parse::<Uuid>(), Err(ParseUuidError));
        assert_eq!(
            "MDEyMzQ1Njc4OWFiY2Rl+g".parse::<Uuid>(),
            Err(ParseUuidError)
        );
    }

    #[test]
    fn strings_compare_and_hash_as_text() {
        let map = HashMap::from([(Str::from("topic"), 1)]);
        assert_eq!(map.get("topic"), Some(&1));
        assert_eq!(Str::from_static("topic"), "topic");
        assert_eq!(Str::from(String::from("ä")).len(), 2);
        assert_eq!(
            format!("{:>4}|{:?}", Str::from("ab"), Str::from("a\"")),
            "  ab|\"a\\\"\""
        );
        assert!(Str::from_utf8(b"\xff").is_err());
    }
}
