//! Errors that polls have raised. A loop that goes on after an error must not use a whole core: the same error is raised again
//! only at the end of a poll's timeout.

use ottla_engine::{Error, Kind};
use parking_lot::Mutex;

/// More errors than this are not kept apart.
const KEPT: usize = 64;

/// The errors that polls raised since the last poll without an error.
#[derive(Debug, Default)]
pub(crate) struct Raised(Mutex<Vec<Error>>);

impl Raised {
    /// Whether a poll has to wait for its deadline before it raises this error.
    pub(crate) fn is_repeated(&self, error: &Error) -> bool {
        error.kind() != Kind::Closed && self.0.lock().contains(error)
    }

    /// A poll raises this error.
    pub(crate) fn note(&self, error: &Error) {
        let mut errors = self.0.lock();
        if !errors.contains(error) {
            if errors.len() == KEPT {
                errors.remove(0);
            }
            errors.push(error.clone());
        }
    }

    /// A poll ends without an error.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}
