//! What can be wrong with bytes or values, and where.

use std::fmt;

use super::Versions;

/// Where an error is: from the field it is in outward to the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(&'static str),
    Index(usize),
}

impl Path {
    /// One field further out.
    pub(crate) fn push(&mut self, field: &'static str) {
        self.0.push(Step::Name(field));
    }

    /// In an element of an array.
    pub(crate) fn push_index(&mut self, index: usize) {
        self.0.push(Step::Index(index));
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().rev().enumerate() {
            match step {
                Step::Name(name) if i == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        if self.0.is_empty() {
            Ok(())
        } else {
            f.write_str(": ")
        }
    }
}

macro_rules! located_error {
    ($(#[$doc:meta])* $error:ident, $kind:ident) => {
        $(#[$doc])*
        // A pointer, so that results stay small where nothing is wrong.
        #[derive(Clone, PartialEq, Eq, thiserror::Error)]
        #[error("{}{}", .0.path, .0.kind)]
        #[non_exhaustive]
        pub struct $error(Box<Located<$kind>>);

        impl $error {
            /// What is wrong.
            pub fn kind(&self) -> &$kind {
                &self.0.kind
            }

            /// Where it is, as `FetchResponse.responses[3].partitions[0].records`.
            pub fn path(&self) -> String {
                let mut path = self.0.path.to_string();
                path.truncate(path.trim_end_matches(": ").len());
                path
            }

            /// The error, one field further out.
            #[cold]
            #[inline(never)]
            pub(crate) fn at(mut self, field: &'static str) -> Self {
                self.0.path.push(field);
                self
            }

            /// The error, in an element of an array.
            #[cold]
            #[inline(never)]
            pub(crate) fn at_index(mut self, index: usize) -> Self {
                self.0.path.push_index(index);
                self
            }
        }

        impl From<$kind> for $error {
            #[cold]
            #[inline(never)]
            fn from(kind: $kind) -> Self {
                Self(Box::new(Located { path: Path::default(), kind }))
            }
        }

        impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($error))
            }
        }
    };
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Located<K> {
    path: Path,
    kind: K,
}

located_error! {
    /// Bytes that are not a message of the version, and where they stop being one.
    DecodeError, DecodeErrorKind
}

located_error! {
    /// A message that cannot be written in the version, and the field that prevents it.
    EncodeError, EncodeErrorKind
}

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The version is not known here.
    #[error("{name} has no version {version} here, only {known}")]
    UnsupportedVersion {
        /// The message.
        name: &'static str,
        /// The version asked for.
        version: i16,
        /// The versions there are.
        known: Versions,
    },
    /// The bytes end too early.
    #[error("{wanted} bytes needed, {left} left")]
    UnexpectedEnd {
        /// How many bytes come next.
        wanted: usize,
        /// How many there are.
        left: usize,
    },
    /// A known tagged field that is longer than its size.
    #[error("{wanted} bytes needed, {left} left in the tagged field")]
    EndOfTag {
        /// How many bytes come next.
        wanted: usize,
        /// How many the field still has.
        left: usize,
    },
    /// A length or count below -1.
    #[error("the length {length} is negative")]
    NegativeLength {
        /// The length.
        length: i32,
    },
    /// Null where the version has none.
    #[error("null is not allowed in this version")]
    NullNotAllowed,
    /// A string above 32,767 bytes.
    #[error("a string of {length} bytes; at most 32767 are allowed")]
    StringTooLong {
        /// Its length.
        length: usize,
    },
    /// More elements than the bytes can hold.
    #[error("{count} elements of {least} bytes or more, {left} bytes left")]
    CountTooLarge {
        /// The number of elements claimed.
        count: usize,
        /// The fewest bytes that an element takes.
        least: usize,
        /// How many bytes there are.
        left: usize,
    },
    /// A string that is not UTF-8.
    #[error("invalid UTF-8 after {valid} bytes")]
    InvalidUtf8 {
        /// How many bytes are right.
        valid: usize,
    },
    /// A varint over 32 bits.
    #[error("a varint of more than {bits} bits")]
    VarintTooLong {
        /// How many bits it may have.
        bits: u32,
    },
    /// Tags that do not ascend.
    #[error("tag {tag} after tag {previous}: tags must ascend")]
    TagOrder {
        /// The tag.
        tag: u32,
        /// The one before.
        previous: u32,
    },
    /// A tag that other versions of the struct have.
    #[error("tag {tag} is not in version {version}")]
    TagNotInVersion {
        /// The tag.
        tag: u32,
        /// The version.
        version: i16,
    },
    /// A tagged field that is longer than what it stands in.
    #[error("tag {tag}: {size} bytes needed, {left} left")]
    TagTooLong {
        /// The tag.
        tag: u32,
        /// The size that it claims.
        size: usize,
        /// How many bytes there are.
        left: usize,
    },
    /// A known tagged field that does not fill its size.
    #[error("tag {tag}: {left} bytes left over")]
    TagLeftOver {
        /// The tag.
        tag: u32,
        /// How many bytes were not read.
        left: usize,
    },
    /// Bytes after the message.
    #[error("{left} bytes left over")]
    LeftOver {
        /// How many.
        left: usize,
    },
}

/// Why a message cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The version is not known here.
    #[error("{name} has no version {version} here, only {known}")]
    UnsupportedVersion {
        /// The message.
        name: &'static str,
        /// The version asked for.
        version: i16,
        /// The versions there are.
        known: Versions,
    },
    /// A field that the version lacks holds something.
    #[error("version {version} has no such field, so it must have its default")]
    NotInVersion {
        /// The version.
        version: i16,
    },
    /// Null where the version has none.
    #[error("null is not allowed in version {version}")]
    NullNotAllowed {
        /// The version.
        version: i16,
    },
    /// A string above 32,767 bytes.
    #[error("a string of {length} bytes; at most 32767 are allowed")]
    StringTooLong {
        /// Its length.
        length: usize,
    },
    /// More than the lengths of the protocol can say.
    #[error("{length} bytes or elements; at most 2147483647 are allowed")]
    TooLarge {
        /// How many.
        length: usize,
    },
    /// Unknown tagged fields in a version without tags.
    #[error("version {version} has no tagged fields")]
    TagsNotInVersion {
        /// The version.
        version: i16,
    },
    /// Unknown tags that do not ascend, or that are known.
    #[error("unknown tagged fields: tag {tag} is out of order or known")]
    TagOrder {
        /// The tag.
        tag: u32,
    },
}

/// Names the field that a result of reading is for.
#[inline(always)]
pub(crate) fn at<T>(result: Result<T, DecodeError>, field: &'static str) -> Result<T, DecodeError> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.at(field)),
    }
}

/// Names the field that a struct is measured for.
#[inline(always)]
pub(crate) fn within(
    result: Result<(), EncodeError>,
    field: &'static str,
) -> Result<(), EncodeError> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(error.at(field)),
    }
}

/// Names the element that a struct is measured for.
#[inline(always)]
pub(crate) fn within_element(
    result: Result<(), EncodeError>,
    field: &'static str,
    index: usize,
) -> Result<(), EncodeError> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(error.at_index(index).at(field)),
    }
}

#[cold]
#[inline(never)]
pub(crate) fn not_in_version(field: &'static str, version: i16) -> EncodeError {
    EncodeError::from(EncodeErrorKind::NotInVersion { version }).at(field)
}

#[cold]
#[inline(never)]
pub(crate) fn null_in_version(field: &'static str, version: i16) -> EncodeError {
    EncodeError::from(EncodeErrorKind::NullNotAllowed { version }).at(field)
}

#[cold]
#[inline(never)]
pub(crate) fn tags_in_version(version: i16) -> EncodeError {
    EncodeErrorKind::TagsNotInVersion { version }.into()
}

#[cold]
#[inline(never)]
pub(crate) fn tag_not_in_version(tag: u32, version: i16) -> DecodeError {
    DecodeErrorKind::TagNotInVersion { tag, version }.into()
}

#[cold]
pub(crate) fn encode_version(name: &'static str, version: i16, known: Versions) -> EncodeError {
    EncodeErrorKind::UnsupportedVersion {
        name,
        version,
        known,
    }
    .into()
}

#[cold]
pub(crate) fn decode_version(name: &'static str, version: i16, known: Versions) -> DecodeError {
    DecodeErrorKind::UnsupportedVersion {
        name,
        version,
        known,
    }
    .into()
}

#[cold]
pub(crate) fn too_large(length: usize) -> EncodeError {
    EncodeErrorKind::TooLarge { length }.into()
}
