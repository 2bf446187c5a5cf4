//! Offsets by time.

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Error;
use ottla_engine::call::{EARLIEST, LATEST};

use crate::admin::handle::Admin;
use crate::consume::consumer::OffsetAndTimestamp;
use crate::runtime::calls;

/// Which offset to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first there is.
    Earliest,
    /// The one after the last.
    Latest,
    /// The first at or after this time, in ms since 1970 UTC.
    AtTime(i64),
}

impl Admin {
    /// Offsets of partitions; `None` if no record is at or after the requested time. In the order given.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn list_offsets(
        &self,
        partitions: &[(Arc<str>, i32, OffsetSpec)],
        timeout: Option<Duration>,
    ) -> Result<Vec<Result<Option<OffsetAndTimestamp>, Error>>, Error> {
        let wanted = partitions
            .iter()
            .map(|(topic, partition, spec)| {
                let time = match spec {
                    OffsetSpec::Earliest => EARLIEST,
                    OffsetSpec::Latest => LATEST,
                    OffsetSpec::AtTime(time) => *time,
                };
                (Arc::clone(topic), *partition, time)
            })
            .collect();
        let found = calls::list_offsets(&self.driver, wanted, timeout).await?;
        Ok(found
            .into_iter()
            .map(|result| result.map(OffsetAndTimestamp::of))
            .collect())
    }
}
