//! Ranges of versions.

use std::fmt::{self, Display};

/// A closed range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Versions {
    /// The lowest.
    pub min: i16,
    /// The highest.
    pub max: i16,
}

impl Versions {
    /// Is the version in the range?
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The versions that are in both; `None` where there are none.
    pub fn and(self, other: Self) -> Option<Self> {
        let both = Self {
            min: self.min.max(other.min),
            max: self.max.min(other.max),
        };
        (both.min <= both.max).then_some(both)
    }
}

impl Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{}-{}", self.min, self.max)
        }
    }
}
