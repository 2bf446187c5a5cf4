//! The producers that write to partitions.

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Error;
use ottla_engine::call::DescribeProducers;
use ottla_engine::messages::describe_producers_response;

use crate::admin::handle::{Admin, Each};

/// A producer as the leader of a partition knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i32,
    /// The sequence number of its last record; -1 if it wrote none.
    pub last_sequence: i32,
    /// The time of its last batch, in ms since 1970 UTC; -1 if it wrote none.
    pub last_timestamp_ms: i64,
    /// The epoch of the coordinator of its last transaction; -1 if it had none.
    pub coordinator_epoch: i32,
    /// The first offset of its open transaction, if one is open.
    pub transaction_start: Option<i64>,
}

impl Admin {
    /// The producers that write to each partition, in the order of their ids. Partitions come back in the order given.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn describe_producers(
        &self,
        partitions: &[(Arc<str>, i32)],
        timeout: Option<Duration>,
    ) -> Result<Each<(Arc<str>, i32), Vec<ProducerState>>, Error> {
        let call = DescribeProducers {
            partitions: partitions.to_vec(),
        };
        let found = self.ask(call, timeout).await?;
        let described = |rows: Vec<describe_producers_response::ProducerState>| {
            let mut states: Vec<_> = rows.iter().map(ProducerState::answered).collect();
            states.sort_by_key(|state| state.producer_id);
            states
        };
        Ok(partitions
            .iter()
            .cloned()
            .zip(found.into_iter().map(|result| result.map(described)))
            .collect())
    }
}

impl ProducerState {
    fn answered(row: &describe_producers_response::ProducerState) -> ProducerState {
        ProducerState {
            producer_id: row.producer_id,
            producer_epoch: row.producer_epoch,
            last_sequence: row.last_sequence,
            last_timestamp_ms: row.last_timestamp,
            coordinator_epoch: row.coordinator_epoch,
            transaction_start: Some(row.current_txn_start_offset).filter(|offset| *offset >= 0),
        }
    }
}
