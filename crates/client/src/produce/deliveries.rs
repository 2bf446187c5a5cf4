//! The delivery results of many records that were sent together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ottla_engine::Error;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::net::transport::deadline;
use crate::produce::delivery::{Completion, Ledger, offset_of};

/// What became of many records, by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each row's partition; -1 if it never got one.
    pub partitions: Vec<i32>,
    /// Each row's offset; -1 if it failed or the broker did not say.
    pub offsets: Vec<i64>,
    /// The rows that failed, ascending, and why.
    pub errors: Vec<(usize, Error)>,
}

/// Rows after each other that share a batch, or the reason why they have none.
#[derive(Clone, Debug)]
enum Run {
    Sent {
        batch: usize,
        first: u32,
        count: u32,
    },
    Failed {
        error: Error,
        count: u32,
    },
}

/// The delivery results of many records, kept as runs of rows that share a batch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Deliveries(Arc<Rows>);

#[derive(Debug, Default)]
struct Rows {
    batches: Vec<Arc<Completion>>,
    runs: Vec<Run>,
    len: usize,
    /// Why the last rows were not taken.
    stopped: Option<Error>,
    ledger: Arc<Ledger>,
}

/// Collects the rows of one [`Deliveries`].
#[derive(Debug)]
pub(crate) struct DeliveriesBuilder {
    rows: Rows,
    /// Where in `batches` the one at this address is.
    known: FxHashMap<usize, usize>,
}

impl DeliveriesBuilder {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> DeliveriesBuilder {
        let rows = Rows {
            ledger: Arc::clone(ledger),
            ..Rows::default()
        };
        let known = FxHashMap::default();
        DeliveriesBuilder { rows, known }
    }

    /// `more` rows are in a batch, the first of them at `index`.
    pub(crate) fn sent(&mut self, batch: &Arc<Completion>, index: u32, more: u32) {
        self.rows.len += more as usize;
        let rows = &mut self.rows;
        if let Some(Run::Sent {
            batch: last,
            first,
            count,
        }) = rows.runs.last_mut()
        {
            let same = rows
                .batches
                .get(*last)
                .is_some_and(|last| Arc::ptr_eq(last, batch));
            if same && *first + *count == index {
                *count += more;
                return;
            }
        }
        let number = *self
            .known
            .entry(Arc::as_ptr(batch) as usize)
            .or_insert_with(|| {
                rows.batches.push(Arc::clone(batch));
                rows.batches.len() - 1
            });
        rows.runs.push(Run::Sent {
            batch: number,
            first: index,
            count: more,
        });
    }

    pub(crate) fn failed(&mut self, error: Error) {
        self.rows.len += 1;
        match self.rows.runs.last_mut() {
            Some(Run::Failed { error: last, count }) if *last == error => *count += 1,
            _ => self.rows.runs.push(Run::Failed { error, count: 1 }),
        }
    }

    /// No further row is taken, since a wait failed.
    pub(crate) fn stopped(&mut self, error: Error) {
        self.rows.stopped = Some(error);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len == 0
    }

    pub(crate) fn finish(mut self) -> Deliveries {
        Deliveries(Arc::new(std::mem::take(&mut self.rows)))
    }
}

/// A caller that stops waiting for space never gets the deliveries, so nobody observes the rows
/// that were sent.
impl Drop for DeliveriesBuilder {
    fn drop(&mut self) {
        self.rows.leave();
    }
}

impl Deliveries {
    /// Rows.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Why the last rows were not taken, if a wait for space or for the topic failed before them.
    pub fn stopped(&self) -> Option<&Error> {
        self.0.stopped.as_ref()
    }

    /// Whether the delivery result of every row is known.
    pub fn is_done(&self) -> bool {
        self.0
            .sent()
            .all(|(batch, first, count)| batch.covers(first, count))
    }

    /// The report, once the delivery result of every row is known. Does not wait.
    pub fn report(&self) -> Option<Report> {
        let rows = &*self.0;
        let mut report = Report {
            partitions: Vec::with_capacity(rows.len),
            offsets: Vec::with_capacity(rows.len),
            errors: Vec::new(),
        };
        for run in &rows.runs {
            match run {
                Run::Sent {
                    batch,
                    first,
                    count,
                } => {
                    let batch = rows.batches.get(*batch)?;
                    report.add(batch, *first, *count)?;
                }
                Run::Failed { error, count } => {
                    for _ in 0..*count {
                        report.errors.push((report.offsets.len(), error.clone()));
                        report.partitions.push(-1);
                        report.offsets.push(-1);
                    }
                }
            }
        }
        Some(report)
    }

    /// Waits until the delivery result of every row is known.
    ///
    /// # Errors
    /// `Kind::Timeout` after `timeout`. Failed rows are in the report.
    pub async fn wait(&self, timeout: Option<Duration>) -> Result<Report, Error> {
        let deadline = timeout.map(deadline);
        for (batch, first, count) in self.0.sent() {
            if !batch.wait(first, count, deadline).await {
                return Err(self.0.ledger.late(timeout));
            }
        }
        self.report().ok_or_else(|| self.0.ledger.late(timeout))
    }

    /// Calls `notify` once when the delivery result of every row is known; where and how as for
    /// [`Delivery::on_done`].
    pub fn on_done(&self, notify: impl FnOnce() + Send + 'static) {
        // One more than there are runs, so that it cannot reach 0 before all hooks are in place.
        let left = Arc::new(AtomicUsize::new(1 + self.0.sent().count()));
        let notify = Arc::new(Mutex::new(Some(notify)));
        let one_less = move || {
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                let notify = notify.lock().take();
                if let Some(notify) = notify {
                    notify();
                }
            }
        };
        for (batch, first, count) in self.0.sent() {
            batch.hook(first, count, one_less.clone());
        }
        one_less();
    }

    /// Nobody will ask about these records: see [`Delivery::leave`]. Called once.
    pub fn leave(&self) {
        self.0.leave();
    }
}

impl Rows {
    fn leave(&self) {
        for (batch, first, count) in self.sent() {
            batch.leave(first, count);
        }
        for run in &self.runs {
            if let Run::Failed { error, count } = run {
                self.ledger.add(*count, error);
            }
        }
    }

    fn sent(&self) -> impl Iterator<Item = (&Arc<Completion>, u32, u32)> {
        self.runs.iter().filter_map(|run| match run {
            Run::Sent {
                batch,
                first,
                count,
            } => Some((self.batches.get(*batch)?, *first, *count)),
            Run::Failed { .. } => None,
        })
    }
}

impl Report {
    /// Adds the rows of a run; `None` if the delivery result of one of them is not known yet.
    fn add(&mut self, batch: &Completion, first: u32, count: u32) -> Option<()> {
        batch.each_fate(first, count, |indexes, fate| {
            for index in indexes {
                match &fate.result {
                    Ok(stored) => self.offsets.push(offset_of(stored, index - fate.first)),
                    Err(error) => {
                        self.errors.push((self.offsets.len(), error.clone()));
                        self.offsets.push(-1);
                    }
                }
                self.partitions.push(batch.partition);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use ottla_engine::Kind;
    use ottla_engine::producer::Done;

    use super::*;
    use crate::produce::delivery::UnobservedFailures;

    #[test]
    fn rows_that_are_left_are_counted_whether_they_were_sent_or_not() {
        let ledger = Arc::default();
        let batch = Arc::new(Completion::new(&"t".into(), 0, &ledger));
        let (refused, lost) = (
            Error::new(Kind::TooLarge, "a"),
            Error::new(Kind::Closed, "b"),
        );
        let rows = |first| {
            let mut rows = DeliveriesBuilder::new(&ledger);
            rows.sent(&batch, first, 1);
            rows.failed(refused.clone());
            rows.sent(&batch, first + 1, 1);
            rows
        };
        let unobserved = |failed, first| Some(UnobservedFailures { failed, first });
        rows(0).finish().leave();
        assert_eq!(ledger.take(), unobserved(1, refused.clone()));
        drop(rows(2));
        assert_eq!(ledger.take(), unobserved(1, refused.clone()));
        drop(rows(4).finish());
        assert_eq!(ledger.take(), None, "these may still be asked about");
        Completion::resolve(Done {
            batch: Arc::clone(&batch),
            first: 0,
            count: 6,
            result: Err(lost.clone()),
        });
        assert_eq!(ledger.take(), unobserved(4, lost));
    }
}
