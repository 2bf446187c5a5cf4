//! Transactions that hang: open in a partition, while no coordinator knows them (KIP-664).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::producers::ProducerState;
use super::verb::{Ask, Verb, verbs};
use crate::call::{
    self, DescribeProducers, DescribeTopics, ListTransactions, PartitionInfo, Rows,
    TransactionDescription,
};
use crate::error::{Error, Kind};

verbs! {
    find_hanging_transactions: FindHangingTransactions,
}

/// A transaction that is open in a partition, and that no coordinator will end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HangingTransaction {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i32,
    /// The epoch of the coordinator of its last transaction; -1 if it had none.
    pub coordinator_epoch: i32,
    /// The offset where it begins.
    pub start_offset: i64,
    /// The time of its last batch, in ms since 1970 UTC.
    pub last_timestamp: i64,
    /// The producer's transactional id, if a coordinator knows the producer.
    pub transactional_id: Option<String>,
}

/// Finds hanging transactions. Each topic costs a request to the leaders of its partitions.
#[derive(Clone, Debug, Deserialize)]
pub struct FindHangingTransactions {
    /// Only in these topics; `None` for all.
    pub topics: Option<Vec<String>>,
    /// Only those whose last batch is older than this time, in ms since 1970 UTC.
    pub before_ms: i64,
}

impl Verb for FindHangingTransactions {
    type Outcome = Rows<HangingTransaction>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let mut rows = self.open(admin).await?;
        if rows.is_empty() {
            return Ok(Rows(rows));
        }
        let mut producer_ids: Vec<i64> = rows.iter().map(|row| row.producer_id).collect();
        producer_ids.sort_unstable();
        producer_ids.dedup();
        let call = ListTransactions {
            producer_ids,
            ..ListTransactions::default()
        };
        let listed = admin.ask(call).await?.0;
        for row in &mut rows {
            let mut listed = listed.iter();
            let found = listed.find(|it| it.producer_id == row.producer_id);
            row.transactional_id = found.map(|it| it.transactional_id.clone());
        }
        let known = listed.iter();
        let ids: Vec<Arc<str>> = known
            .map(|it| it.transactional_id.as_str().into())
            .collect();
        let call = call::DescribeTransactions { ids };
        let mut described = Vec::new();
        for each in admin.ask(call).await? {
            match each {
                Ok(each) => described.push(each),
                // It ended in the meantime.
                Err(error) if error.kind() == Kind::Broker => {}
                Err(error) => return Err(error),
            }
        }
        rows.retain(|row| !described.iter().any(|it| is_known(row, it)));
        Ok(Rows(rows))
    }
}

/// Whether a coordinator will end the transaction.
fn is_known(row: &HangingTransaction, described: &TransactionDescription) -> bool {
    described.producer_id == row.producer_id
        && described
            .partitions
            .iter()
            .any(|(topic, partition)| (&**topic, *partition) == (&*row.topic, row.partition))
}

impl FindHangingTransactions {
    /// The transactions that are open for long.
    async fn open(&self, admin: &impl Ask) -> Result<Vec<HangingTransaction>, Error> {
        let topics = match &self.topics {
            Some(topics) => topics.clone(),
            None => {
                let answer = admin.ask(call::ListTopics).await?;
                let names = answer.topics.iter();
                let names = names.filter_map(|topic| Some(topic.name.as_deref()?.to_owned()));
                names.collect()
            }
        };
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let described = admin.ask(DescribeTopics::at_once(topics.clone())).await?;
        let mut partitions = Vec::new();
        for (topic, found) in topics.iter().zip(described) {
            let topic: Arc<str> = topic.as_str().into();
            let found = PartitionInfo::of(&found?);
            partitions.extend(found.iter().map(|it| (Arc::clone(&topic), it.partition)));
        }
        let call = DescribeProducers {
            partitions: partitions.clone(),
        };
        let mut rows = Vec::new();
        for ((topic, partition), producers) in partitions.iter().zip(admin.ask(call).await?) {
            for state in producers?.into_iter().map(ProducerState::from) {
                let Some(start_offset) = state.current_transaction_start_offset else {
                    continue;
                };
                if state.last_timestamp < self.before_ms {
                    rows.push(HangingTransaction {
                        topic: topic.to_string(),
                        partition: *partition,
                        producer_id: state.producer_id,
                        producer_epoch: state.producer_epoch,
                        coordinator_epoch: state.coordinator_epoch,
                        start_offset,
                        last_timestamp: state.last_timestamp,
                        transactional_id: None,
                    });
                }
            }
        }
        Ok(rows)
    }
}
