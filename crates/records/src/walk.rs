//! Walks a buffer entry by entry.

use bytes::Bytes;

use super::RecordsError;
use super::header::whole_size;

/// A buffer, and how far it is walked.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    pub(super) rest: Bytes,
    failed: bool,
}

impl Walk {
    pub(super) const fn new(rest: Bytes) -> Self {
        Self {
            rest,
            failed: false,
        }
    }

    /// The next entry; `None` if the rest is not a whole entry, and after an error.
    pub(super) fn next<T>(
        &mut self,
        parse: impl FnOnce(Bytes) -> Result<T, RecordsError>,
    ) -> Option<Result<T, RecordsError>> {
        if self.failed {
            return None;
        }
        let taken = self.take(parse);
        self.failed = taken.is_err();
        taken.transpose()
    }

    fn take<T>(
        &mut self,
        parse: impl FnOnce(Bytes) -> Result<T, RecordsError>,
    ) -> Result<Option<T>, RecordsError> {
        match whole_size(&self.rest)? {
            Some(size) if size <= self.rest.len() => {
                let parsed = parse(self.rest.slice(..size))?;
                self.rest = self.rest.slice(size..);
                Ok(Some(parsed))
            }
            _ => Ok(None),
        }
    }

    /// The error for a last entry that is cut; it needs `least` bytes if its own length is missing.
    pub(super) fn cut(&self, least: usize) -> Option<RecordsError> {
        let needed = whole_size(&self.rest).ok()?.unwrap_or(least);
        let left = self.rest.len();
        (left > 0).then_some(RecordsError::Cut { needed, left })
    }
}
