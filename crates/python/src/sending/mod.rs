//! Records on their way to a producer, and their delivery results.

pub(crate) mod delivery;
pub(crate) mod outgoing;
pub(crate) mod partitioner;
pub(crate) mod portions;
pub(crate) mod runs;
pub(crate) mod unobserved_failures;
