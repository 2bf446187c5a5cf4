//! The open request to the caller's assignors, if there is one.

use crate::group::assignor::Question;

/// The number of a request to the caller's assignors, by which a late reply is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionId(u64);

#[derive(Debug, Default)]
pub(super) struct Asking {
    last: u64,
    is_open: bool,
    /// Until a caller takes it.
    untaken: Option<Question>,
}

impl Asking {
    pub(super) fn ask(&mut self, question: Question) {
        self.last += 1;
        self.is_open = true;
        self.untaken = Some(question);
    }

    /// Whether a request waits for a caller to take it.
    pub(super) fn has_question(&self) -> bool {
        self.untaken.is_some()
    }

    pub(super) fn take(&mut self) -> Option<(QuestionId, Question)> {
        let question = self.untaken.take()?;
        Some((QuestionId(self.last), question))
    }

    /// A reply came. Returns whether it is still awaited.
    pub(super) fn close(&mut self, id: QuestionId) -> bool {
        let is_awaited = self.is_open && id.0 == self.last;
        if is_awaited {
            self.is_open = false;
        }
        is_awaited
    }

    /// The reply is no longer awaited.
    pub(super) fn drop_question(&mut self) {
        self.is_open = false;
        self.untaken = None;
    }
}
