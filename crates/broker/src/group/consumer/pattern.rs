//! What the expression of a member (KIP-848) was found to match.

use std::collections::BTreeSet;

/// The topics that an expression was found to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) topics: BTreeSet<String>,
    /// The version of the catalogue that was looked through; 0 after a restart, so that it is looked through again.
    pub(super) version: u64,
}
