//! Keys, values, times and partitions as Python gives them.

pub(crate) mod numbers;
pub(crate) mod partitions;
pub(crate) mod scalars;
