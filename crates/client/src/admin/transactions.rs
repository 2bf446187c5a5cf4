//! Transactions as their coordinators know them (KIP-664).

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Error;
use ottla_engine::call::{DescribeTransactions, ListTransactions};
pub use ottla_engine::call::{TransactionDescription, TransactionListing};

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
        let call = DescribeTransactions {
            ids: ids.iter().map(|id| Arc::from(&**id)).collect(),
        };
        let found = self.ask(call, timeout).await?;
        Ok(ids.iter().cloned().zip(found).collect())
    }
}
