//! What the records of a consumer group are about.

/// What a record is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::group) enum Key {
    Group,
    /// Of this id, as are those that follow.
    Member(String),
    TargetGroup,
    Target(String),
    Current(String),
    /// This expression.
    Pattern(String),
}

impl Key {
    /// The type of its key on the wire.
    pub(super) fn number(&self) -> i16 {
        match self {
            Self::Group => 3,
            Self::Member(_) => 5,
            Self::TargetGroup => 6,
            Self::Target(_) => 7,
            Self::Current(_) => 8,
            Self::Pattern(_) => 16,
        }
    }
}
