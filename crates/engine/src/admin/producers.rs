//! The producers that write to partitions.

use ottla_protocol::messages::describe_producers_response;
use serde::{Deserialize, Serialize};

use super::verb::{Ask, Verb, verbs};
use crate::call::{self, ByItem, TopicPartition};
use crate::error::Error;

verbs! {
    describe_producers: DescribeProducers,
}

/// A producer as the leader of a partition knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProducerState {
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i32,
    /// The sequence number of its last record; -1 if it wrote none.
    pub last_sequence: i32,
    /// The time of its last batch, in ms since 1970 UTC; -1 if it wrote none.
    pub last_timestamp: i64,
    /// The epoch of the coordinator of its last transaction; -1 if it had none.
    pub coordinator_epoch: i32,
    /// The first offset of its open transaction, if one is open.
    pub current_transaction_start_offset: Option<i64>,
}

impl From<describe_producers_response::ProducerState> for ProducerState {
    fn from(row: describe_producers_response::ProducerState) -> ProducerState {
        let start = row.current_txn_start_offset;
        ProducerState {
            producer_id: row.producer_id,
            producer_epoch: row.producer_epoch,
            last_sequence: row.last_sequence,
            last_timestamp: row.last_timestamp,
            coordinator_epoch: row.coordinator_epoch,
            current_transaction_start_offset: Some(start).filter(|offset| *offset >= 0),
        }
    }
}

/// The producers that write to each partition, in the order of their ids.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeProducers {
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

impl Verb for DescribeProducers {
    type Outcome = ByItem<Vec<ProducerState>>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let partitions = self.partitions.into_iter();
        let partitions: Vec<_> = partitions.map(|it| (it.topic, it.partition)).collect();
        let call = call::DescribeProducers {
            partitions: partitions.clone(),
        };
        let found = admin.ask(call).await?.into_iter().map(|result| {
            result.map(|rows| {
                let mut states: Vec<_> = rows.into_iter().map(ProducerState::from).collect();
                states.sort_by_key(|state| state.producer_id);
                states
            })
        });
        ByItem::new(partitions, found.collect())
    }
}
