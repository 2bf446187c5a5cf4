//! DescribeTransactions, version 0 (KIP-664): the transactions of ids that this node coordinates.

use ottla_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use ottla_protocol::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

impl Api for DescribeTransactionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeTransactionsResponse> {
        let describe = |id: &Str| {
            describe(cx, id).unwrap_or_else(|code| TransactionState {
                transactional_id: id.clone(),
                error_code: code.0,
                ..Default::default()
            })
        };
        Outcome::Answer(DescribeTransactionsResponse {
            transaction_states: self.transactional_ids.iter().map(describe).collect(),
            ..Default::default()
        })
    }
}

fn describe(cx: &Cx<'_>, id: &Str) -> Result<TransactionState, ErrorCode> {
    cx.check(Operation::Describe, Resource::transactional_id(id))?;
    let home = cx.core.transaction_home(id)?;
    cx.core.look_at_transactions(|transactions| {
        let found = transactions.describe(id, home)?;
        let seen = found
            .partitions
            .iter()
            .filter(|(topic, _)| cx.may(Operation::Describe, Resource::topic(topic)));
        let topics = seen.map(|(topic, partitions)| TopicData {
            topic: topic.as_str().into(),
            partitions: partitions.iter().copied().collect(),
            ..Default::default()
        });
        Ok(TransactionState {
            transactional_id: id.clone(),
            transaction_state: Str::from_static(found.status.name()),
            transaction_timeout_ms: found.timeout_ms,
            transaction_start_time_ms: found.started_ms,
            producer_id: found.producer_id,
            producer_epoch: found.epoch,
            topics: topics.collect(),
            ..Default::default()
        })
    })
}
