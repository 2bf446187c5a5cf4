//! Records that Python reads and writes in columns.

pub(crate) mod arrow;
pub(crate) mod batch;
pub(crate) mod decoder;
pub(crate) mod encoding;
pub(crate) mod lines;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod table;
pub(crate) mod typed;
