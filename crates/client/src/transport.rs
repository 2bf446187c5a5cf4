//! The one place that knows sockets, the clock and chance. Everything else in this crate takes them from here, so that another
//! transport (TLS, a simulated network) is an arm of [`ReadHalf`] and [`WriteHalf`] and nothing more.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "all others come here for them"
)]

mod clock;
mod dial;
mod stream;

pub(crate) use clock::{Late, deadline, now, now_ms, seed, sleep_until, timeout_at};
pub(crate) use dial::{dial, say};
pub(crate) use stream::{ReadHalf, WriteHalf};
