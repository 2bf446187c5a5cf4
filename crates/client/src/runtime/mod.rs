//! An engine behind its lock, and what runs it: timers, waiting calls, events.

pub(crate) mod calls;
pub(crate) mod client_ids;
pub(crate) mod deadlines;
pub(crate) mod driver;
pub mod events;
pub(crate) mod shell;
pub(crate) mod threads;
pub(crate) mod timer;
pub(crate) mod wait;
