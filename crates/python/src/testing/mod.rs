//! The embedded broker and its certificates.

pub(crate) mod broker;
pub(crate) mod certificates;
