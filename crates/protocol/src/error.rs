//! Kafka's error codes.

use std::fmt;

/// An error code on the wire. Unknown codes keep their number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ErrorCode(pub i16);

include!(concat!(env!("OUT_DIR"), "/errors.rs"));

impl ErrorCode {
    /// Kafka's name of the code, in capitals; `UNKNOWN_ERROR_CODE` for an unknown code.
    pub const fn name(self) -> &'static str {
        match name_of(self.0) {
            Some(name) => name,
            None => "UNKNOWN_ERROR_CODE",
        }
    }

    /// Can a retry of the same request succeed? Follows Kafka's clients (`RetriableException`).
    pub const fn is_retriable(self) -> bool {
        retriable(self.0)
    }

    /// Is it anything but [`ErrorCode::NONE`]?
    pub const fn is_error(self) -> bool {
        self.0 != 0
    }
}

impl From<i16> for ErrorCode {
    fn from(code: i16) -> Self {
        Self(code)
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> Self {
        code.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_ascend_and_have_names() {
        assert!(ErrorCode::ALL.is_sorted_by(|a, b| a < b));
        assert_eq!(
            ErrorCode::ALL.first(),
            Some(&ErrorCode::UNKNOWN_SERVER_ERROR)
        );
        for code in i16::MIN..=i16::MAX {
            let known = ErrorCode(code).name() != "UNKNOWN_ERROR_CODE";
            assert_eq!(ErrorCode::ALL.contains(&ErrorCode(code)), known, "{code}");
        }
    }

    #[test]
    fn codes_have_names_and_retriability() {
        assert_eq!(ErrorCode::NONE, ErrorCode(0));
        assert_eq!(ErrorCode(3).name(), "UNKNOWN_TOPIC_OR_PARTITION");
        assert_eq!(ErrorCode::UNKNOWN_SERVER_ERROR, ErrorCode(-1));
        assert!(ErrorCode::NOT_LEADER_OR_FOLLOWER.is_retriable());
        assert!(!ErrorCode::TOPIC_AUTHORIZATION_FAILED.is_retriable());
        assert!(!ErrorCode::NONE.is_error());
        assert_eq!(ErrorCode(32000).to_string(), "UNKNOWN_ERROR_CODE (32000)");
    }
}
