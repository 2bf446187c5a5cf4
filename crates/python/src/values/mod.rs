//! Keys, values, times and partitions as Python gives them.

pub(crate) mod partitions;
pub(crate) mod scalars;
