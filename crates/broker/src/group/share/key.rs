//! What the records of a share group are about.

/// What a record is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Group,
    /// Of this id, as are those that follow.
    Member(String),
    TargetGroup,
    Target(String),
    Current(String),
}
