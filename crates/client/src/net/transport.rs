//! The one place that knows sockets, the clock and chance. Everything else in this crate takes them from here, so that another
//! transport (a simulated network) is an arm of [`ReadHalf`] and [`WriteHalf`] and nothing more, as TLS is.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "all others come here for them"
)]

mod clock;
mod dial;
mod proxy;
mod resolve;
mod secure;
mod stream;
mod tls;

pub(crate) use clock::{
    Late, deadline, hold, nonce, now, now_ms, now_ns, seed, sleep_until, timeout_at,
};
pub(crate) use dial::dial;
pub(crate) use secure::secure;
pub(crate) use stream::{ReadHalf, WriteHalf, broken, say};
pub(crate) use tls::Tls;
