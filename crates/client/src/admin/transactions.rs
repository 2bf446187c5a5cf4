//! Transactions as their coordinators know them, and their ends (KIP-664, KIP-939).

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Error;
pub use ottla_engine::call::{
    AbortTransaction, ProducerIdentity, TransactionDescription, TransactionListing,
};
use ottla_engine::call::{DescribeTransactions, FenceProducers, ListTransactions};

use crate::admin::handle::{Admin, Each};

impl Admin {
    /// All transactional ids that the client may see, sorted.
    ///
    /// # Errors
    /// A broker does not answer for those that it coordinates, refuses, or is too old; no answer by the deadline.
    pub async fn list_transactions(
        &self,
        timeout: Option<Duration>,
    ) -> Result<Vec<TransactionListing>, Error> {
        self.ask(ListTransactions, timeout).await
    }

    /// Describes transactional ids, which come back in the order given.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn describe_transactions(
        &self,
        ids: &[String],
        timeout: Option<Duration>,
    ) -> Result<Each<String, TransactionDescription>, Error> {
        let call = DescribeTransactions { ids: shared(ids) };
        let found = self.ask(call, timeout).await?;
        Ok(ids.iter().cloned().zip(found).collect())
    }

    /// Fences the producers of transactional ids, which come back in the order given, each with the identity that its producer
    /// would have now. What is open is aborted.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn fence_producers(
        &self,
        ids: &[String],
        timeout: Option<Duration>,
    ) -> Result<Each<String, ProducerIdentity>, Error> {
        let call = FenceProducers { ids: shared(ids) };
        let found = self.ask(call, timeout).await?;
        Ok(ids.iter().cloned().zip(found).collect())
    }

    /// Aborts a transaction in one partition, whatever its coordinator knows.
    ///
    /// # Errors
    /// The client may not, the producer's epoch is not the transaction's, or no answer by the deadline.
    pub async fn abort_transaction(
        &self,
        call: AbortTransaction,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        self.ask(call, timeout).await
    }
}

fn shared(ids: &[String]) -> Vec<Arc<str>> {
    ids.iter().map(|id| Arc::from(&**id)).collect()
}
