//! Faults on demand: what a test makes the broker do wrong.

use std::collections::VecDeque;
use std::time::Duration;

use ottla_protocol::{ApiKey, ErrorCode};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// What happens to a request instead of, or besides, being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is not applied and answered with this code wherever the answer has a place for one.
    Error(ErrorCode),
    /// It is applied and answered so much later.
    Delay(Duration),
    /// The connection is closed, and it is not applied.
    CloseBefore,
    /// It is applied, and the connection is closed without an answer.
    CloseAfterApply,
    /// It is neither applied nor answered; the connection stays.
    Silence,
    /// It is applied, and the connection is closed after so many bytes of the answer's frame.
    CutAfter(usize),
}

/// The faults still to come, per API in the order they were asked for.
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
