//! Between Python and the runtime: waits, operations, wake-ups, errors.

pub(crate) mod calls;
pub(crate) mod collector;
pub(crate) mod doorbell;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod interpreters;
pub(crate) mod operation;
pub(crate) mod runtime;
pub(crate) mod wait;
