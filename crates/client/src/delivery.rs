//! The fate of sent records.

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Error;

/// Where a record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset; -1 if the broker did not say (`acks=0`, or a repeat it had already written long ago).
    pub offset: i64,
    /// Milliseconds since 1970 UTC: the record's own, or the broker's if the topic stamps records on append.
    pub timestamp_ms: i64,
}

/// The fate of one record. Cheap to clone: a share in its batch's fate, and an index.
#[derive(Clone, Debug)]
pub struct Delivery {}

impl Delivery {
    /// Whether the fate is known.
    pub fn is_done(&self) -> bool {
        todo!()
    }

    /// The fate, once it is known. Does not wait.
    pub fn result(&self) -> Option<Result<RecordMetadata, Error>> {
        todo!()
    }

    /// Waits for the fate. Dropping the future changes nothing about the record.
    ///
    /// # Errors
    /// The record's own failure, or `Kind::Timeout` after `timeout` (`None`: no limit but `delivery.timeout.ms`).
    pub async fn wait(&self, timeout: Option<Duration>) -> Result<RecordMetadata, Error> {
        todo!()
    }

    /// Calls `notify` once when the fate is known: at once on this thread if it is, else on a thread of the runtime, where
    /// it must neither block nor attach to an interpreter.
    pub fn on_done(&self, notify: impl FnOnce() + Send + 'static) {
        todo!()
    }

    /// The record's topic.
    pub fn topic(&self) -> &Arc<str> {
        todo!()
    }

    /// The record's partition.
    pub fn partition(&self) -> i32 {
        todo!()
    }
}

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

/// The fate of many records, kept as runs of rows that share a batch.
#[derive(Clone, Debug)]
pub struct Deliveries {}

impl Deliveries {
    /// Rows.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every row's fate is known.
    pub fn is_done(&self) -> bool {
        todo!()
    }

    /// The report, once every row's fate is known. Does not wait.
    pub fn report(&self) -> Option<Report> {
        todo!()
    }

    /// Waits until every row's fate is known.
    ///
    /// # Errors
    /// `Kind::Timeout` after `timeout`. Failed rows are in the report.
    pub async fn wait(&self, timeout: Option<Duration>) -> Result<Report, Error> {
        todo!()
    }

    /// Calls `notify` once when every row's fate is known; where and how as for [`Delivery::on_done`].
    pub fn on_done(&self, notify: impl FnOnce() + Send + 'static) {
        todo!()
    }
}
