//! Errors of a message's form.

use std::fmt;

use crate::wire::{DecodeError, EncodeError, Path};

/// A form that is not a message, a message that is not bytes, or bytes that are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// There is no message of this name.
    #[error("no message is named {name:?}; the nearest is {nearest:?}")]
    UnknownMessage {
        /// The name.
        name: String,
        /// The nearest name of a message.
        nearest: &'static str,
    },
    /// A value that does not fit its field.
    #[error(transparent)]
    Value(Box<ValueError>),
    /// The message cannot be written in the version.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The bytes are not a message of the version.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// A value that does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    path: Path,
    reason: String,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path, self.reason)
    }
}

impl std::error::Error for ValueError {}

impl FormError {
    /// A value that does not fit its field, for this reason.
    #[cold]
    pub fn value(reason: impl Into<String>) -> Self {
        Self::Value(Box::new(ValueError {
            path: Path::default(),
            reason: reason.into(),
        }))
    }

    /// The error with the enclosing field added to its path.
    #[cold]
    pub(crate) fn at(mut self, field: &'static str) -> Self {
        if let Self::Value(error) = &mut self {
            error.path.push(field);
        }
        self
    }

    /// The error with the index of an array element added to its path.
    #[cold]
    pub(crate) fn at_index(mut self, index: usize) -> Self {
        if let Self::Value(error) = &mut self {
            error.path.push_index(index);
        }
        self
    }
}
