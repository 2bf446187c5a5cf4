//! Transactions as their coordinators know them, and their ends (KIP-664, KIP-939).

use std::sync::Arc;

use serde::Deserialize;

use super::verb::{Ask, Verb, verbs};
use crate::call::{
    self, AbortTransaction, ByItem, FenceProducers, ListTransactions, TransactionDescription,
    values,
};
use crate::error::Error;

verbs! {
    list_transactions: ListTransactions,
    describe_transactions: DescribeTransactions,
    fence_producers: FenceProducers,
    abort_transaction: AbortTransaction,
}

/// Describes transactional ids.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeTransactions {
    /// The transactional ids.
    #[serde(deserialize_with = "values::names")]
    pub transactional_ids: Vec<Arc<str>>,
}

impl Verb for DescribeTransactions {
    type Outcome = ByItem<TransactionDescription>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let ids = self.transactional_ids;
        let call = call::DescribeTransactions { ids: ids.clone() };
        ByItem::new(ids, admin.ask(call).await?)
    }
}
