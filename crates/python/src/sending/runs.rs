//! The deliveries of one call of `send_many` or `send_arrow`, as one.

use std::sync::Arc;
use std::time::Duration;

use ottla_client::{Deliveries, Error, Report};
use tokio::time::Instant;

/// The runs of one call: more than one where the rows name different topics.
#[derive(Clone)]
pub(crate) struct Runs(Arc<[Deliveries]>);

impl Runs {
    pub(crate) fn new(runs: Vec<Deliveries>) -> Self {
        Runs(runs.into())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Deliveries::len).sum()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.iter().all(Deliveries::is_done)
    }

    pub(crate) async fn wait(self, timeout: Option<Duration>) -> Result<Report, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut whole = Report::default();
        for run in self.0.iter() {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            append(&mut whole, run.wait(left).await?);
        }
        Ok(whole)
    }

    /// The outcome of all, once it is known.
    pub(crate) fn report(&self) -> Option<Report> {
        let mut whole = Report::default();
        for run in self.0.iter() {
            append(&mut whole, run.report()?);
        }
        Some(whole)
    }

    pub(crate) fn leave(&self) {
        self.0.iter().for_each(Deliveries::leave);
    }

    pub(crate) fn on_done(&self, notify: impl FnOnce() + Send + Sync + 'static) {
        // The last run to be done notifies, and so does this handle itself where there are no runs.
        let last = Arc::new(OnDrop(Some(notify)));
        for run in self.0.iter() {
            let last = Arc::clone(&last);
            run.on_done(move || drop(last));
        }
    }
}

fn append(whole: &mut Report, report: Report) {
    let before = whole.partitions.len();
    whole.partitions.extend(report.partitions);
    whole.offsets.extend(report.offsets);
    whole.errors.extend(
        report
            .errors
            .into_iter()
            .map(|(row, error)| (before + row, error)),
    );
}

struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(notify) = self.0.take() {
            notify();
        }
    }
}
