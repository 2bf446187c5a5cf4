//! Errors of bytes or values, and their paths.

use std::fmt;

use super::Versions;

/// The path of an error, from the innermost field out to the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(&'static str),
    Index(usize),
}

impl Path {
    /// Adds the enclosing field.
    pub(crate) fn push(&mut self, field: &'static str) {
        self.0.push(Step::Name(field));
    }

    /// Adds the index of an array element.
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

            /// The path, such as `FetchResponse.responses[3].partitions[0].records`.
            pub fn path(&self) -> String {
                let mut path = self.0.path.to_string();
                path.truncate(path.trim_end_matches(": ").len());
                path
            }

            /// The error with the enclosing field added to its path.
            #[cold]
            #[inline(never)]
            pub(crate) fn at(mut self, field: &'static str) -> Self {
                self.0.path.push(field);
                self
            }

            /// The error with the index of an array element added to its path.
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
    /// The bytes are not a message of this version; the path shows where.
    DecodeError, DecodeErrorKind
}

located_error! {
    /// A message cannot be written in this version; the path shows which field prevents it.
    EncodeError, EncodeErrorKind
}

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The version is unknown.
    #[error("{name} has no version {version} here, only {known}")]
    UnsupportedVersion {
        /// The message.
        name: &'static str,
        /// The requested version.
        version: i16,
        /// The known versions.
        known: Versions,
    },
    /// The bytes end too early.
    #[error("{wanted} bytes needed, {left} left")]
    UnexpectedEnd {
        /// Bytes that are needed.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A known tagged field that is longer than its size.
    #[error("{wanted} bytes needed, {left} left in the tagged field")]
    EndOfTag {
        /// Bytes that are needed.
        wanted: usize,
        /// Bytes that the field has left.
        left: usize,
    },
    /// A length or count below -1.
    #[error("the length {length} is negative")]
    NegativeLength {
        /// The length.
        length: i32,
    },
    /// Null, where the version does not allow it.
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
        /// Minimum bytes of an element.
        least: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A string that is not UTF-8.
    #[error("invalid UTF-8 after {valid} bytes")]
    InvalidUtf8 {
        /// Number of valid bytes.
        valid: usize,
    },
    /// A varint over 32 bits.
    #[error("a varint of more than {bits} bits")]
    VarintTooLong {
        /// Maximum number of bits.
        bits: u32,
    },
    /// Tags that do not ascend.
    #[error("tag {tag} after tag {previous}: tags must ascend")]
    TagOrder {
        /// The tag.
        tag: u32,
        /// The previous tag.
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
    /// A tagged field that is longer than its surroundings.
    #[error("tag {tag}: {size} bytes needed, {left} left")]
    TagTooLong {
        /// The tag.
        tag: u32,
        /// The claimed size.
        size: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A known tagged field that does not fill its size.
    #[error("tag {tag}: {left} bytes left over")]
    TagLeftOver {
        /// The tag.
        tag: u32,
        /// Bytes that were not read.
        left: usize,
    },
    /// Bytes after the message.
    #[error("{left} bytes left over")]
    LeftOver {
        /// Their number.
        left: usize,
    },
}

/// Why a message cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The version is unknown.
    #[error("{name} has no version {version} here, only {known}")]
    UnsupportedVersion {
        /// The message.
        name: &'static str,
        /// The requested version.
        version: i16,
        /// The known versions.
        known: Versions,
    },
    /// A field that the version lacks has a value.
    #[error("version {version} has no such field, so it must have its default")]
    NotInVersion {
        /// The version.
        version: i16,
    },
    /// Null, where the version does not allow it.
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
    /// More than the protocol's lengths can express.
    #[error("{length} bytes or elements; at most 2147483647 are allowed")]
    TooLarge {
        /// Their number.
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

/// Adds the field to an error of reading it.
#[inline(always)]
pub(crate) fn at<T>(result: Result<T, DecodeError>, field: &'static str) -> Result<T, DecodeError> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.at(field)),
    }
}

/// Adds the field to an error of measuring its struct.
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

/// Adds the array element to an error of measuring its struct.
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
