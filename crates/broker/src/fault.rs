//! Faults on demand, for tests.

use std::collections::VecDeque;
use std::time::Duration;

use ottla_protocol::{ApiKey, ErrorCode};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The broker returns an error code in every place of the response that has one.
    Error {
        /// The code.
        code: ErrorCode,
        /// Whether the broker still applies the request.
        applied: bool,
        /// How long the response takes.
        delay: Duration,
    },
    /// The broker applies the request, and responds after this delay.
    Delay(Duration),
    /// The broker closes the connection without applying the request.
    CloseBefore,
    /// The broker applies the request, and closes the connection without a response.
    CloseAfterApply,
    /// The broker applies the request, responds, and closes the connection.
    CloseAfterAnswer,
    /// The broker neither applies the request nor responds, and keeps the connection.
    Silence,
    /// The broker applies the request, never responds, and keeps the connection.
    SilenceAfterApply,
    /// The broker sends the response in single bytes.
    ByteByByte,
    /// The broker applies the request, and closes the connection after this number of bytes of the response's frame.
    CutAfter(usize),
    /// The broker neither applies this and later requests nor responds to them; the connection
    /// stays open.
    Hang,
    /// The broker throttles the client for this time, and reports it where the response has a field
    /// for it.
    Throttle(Duration),
    /// The broker sends the response twice.
    Twice,
    /// The broker sends the response under the correlation id of another request.
    WrongCorrelationId,
    /// The response leaves out what it may: Metadata the ids of topics (KIP-516), those about records who leads (KIP-951).
    Withheld,
}

impl Fault {
    /// Whether requests of this API can meet it.
    #[must_use]
    pub const fn suits(&self, api: ApiKey) -> bool {
        let may_leave_out = matches!(
            api,
            ApiKey::Metadata
                | ApiKey::Produce
                | ApiKey::Fetch
                | ApiKey::ShareFetch
                | ApiKey::ShareAcknowledge
        );
        may_leave_out || !matches!(self, Self::Withheld)
    }

    /// The broker does not apply the request, and returns this error code at once.
    #[must_use]
    pub const fn error(code: ErrorCode) -> Self {
        Self::Error {
            code,
            applied: false,
            delay: Duration::ZERO,
        }
    }
}

/// The pending faults per API, in the order of the calls.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<FxHashMap<i16, VecDeque<(Fault, u32)>>>);

impl Faults {
    pub(crate) fn inject(&self, api: ApiKey, fault: Fault, count: u32) {
        if count > 0 {
            self.0
                .lock()
                .entry(api.as_i16())
                .or_default()
                .push_back((fault, count));
        }
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// The fault of the next request of `api`.
    pub(crate) fn take(&self, api: ApiKey) -> Option<Fault> {
        let mut faults = self.0.lock();
        let queue = faults.get_mut(&api.as_i16())?;
        let (fault, left) = queue.front_mut()?;
        let fault = *fault;
        *left -= 1;
        if *left == 0 {
            queue.pop_front();
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_in_order_and_run_out() {
        let faults = Faults::default();
        faults.inject(ApiKey::Fetch, Fault::Silence, 2);
        faults.inject(ApiKey::Fetch, Fault::CloseBefore, 1);
        faults.inject(ApiKey::Produce, Fault::CutAfter(3), 0);
        assert_eq!(faults.take(ApiKey::Produce), None);
        let three = [
            faults.take(ApiKey::Fetch),
            faults.take(ApiKey::Fetch),
            faults.take(ApiKey::Fetch),
        ];
        assert_eq!(
            three,
            [
                Some(Fault::Silence),
                Some(Fault::Silence),
                Some(Fault::CloseBefore)
            ]
        );
        assert_eq!(faults.take(ApiKey::Fetch), None);
        faults.inject(ApiKey::Fetch, Fault::Silence, 1);
        faults.clear();
        assert_eq!(faults.take(ApiKey::Fetch), None);
    }
}
