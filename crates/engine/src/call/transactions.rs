//! Transactions as their coordinators know them (KIP-664): ListTransactions, to which every broker
//! responds with those that it coordinates, and DescribeTransactions, which goes to the coordinator
//! of each transactional id.

use std::sync::Arc;

use ottla_protocol::messages::describe_transactions_response::TransactionState;
use ottla_protocol::messages::{DescribeTransactionsRequest, ListTransactionsRequest};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::interface::{listed, results};
use super::{About, Asked, Call, Rows, Target, partitions, values};
use crate::api::{Request, Response};
use crate::cluster::CoordinatorType;
use crate::error::{Error, Kind};

/// A transactional id as its coordinator lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransactionListing {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer's id.
    pub producer_id: i64,
    /// The state of its last transaction, such as `Ongoing`.
    pub state: String,
}

/// The first versions of ListTransactions that filter by duration (KIP-994) and by a pattern (KIP-1152).
const FILTERS: (i16, i16) = (1, 2);

/// Lists transactional ids that the client may see. An empty filter lets all pass.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ListTransactions {
    /// Only those in these states, such as `Ongoing`.
    pub states: Vec<String>,
    /// Only those of producers with these ids.
    pub producer_ids: Vec<i64>,
    /// Only those whose transaction is open for longer, in ms; since Kafka 3.8.
    pub longer_than_ms: Option<i64>,
    /// Only those that match this regular expression of RE2/J; since Kafka 4.1.
    pub pattern: Option<String>,
}

impl Call for ListTransactions {
    type Found = Vec<TransactionListing>;
    /// Sorted by transactional id.
    type Answer = Rows<TransactionListing>;
    const API: ApiKey = ApiKey::ListTransactions;

    fn versions(&self) -> (i16, i16) {
        let least = match (&self.longer_than_ms, &self.pattern) {
            (_, Some(_)) => FILTERS.1,
            (Some(_), None) => FILTERS.0,
            (None, None) => 0,
        };
        (least, i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        Target::EveryNode
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let states = self.states.iter().map(|text| text.as_str().into());
        Request::ListTransactions(ListTransactionsRequest {
            state_filters: states.collect(),
            producer_id_filters: self.producer_ids.clone(),
            duration_filter: self.longer_than_ms.unwrap_or(-1),
            transactional_id_pattern: self.pattern.as_deref().map(Into::into),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::ListTransactions(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return vec![Err(Error::from_code(code, None))];
        }
        if let Some(state) = answer.unknown_state_filters.first() {
            let text = format!("the broker knows no state {state:?} of transactions");
            return vec![Err(Error::new(Kind::Argument, text))];
        }
        let rows = answer.transaction_states.iter();
        let rows = rows.map(|row| TransactionListing {
            transactional_id: row.transactional_id.to_string(),
            producer_id: row.producer_id,
            state: row.transaction_state.to_string(),
        });
        vec![Ok(rows.collect())]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        listed(found, |row| &row.transactional_id).map(Rows)
    }
}

/// A transactional id as its coordinator describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransactionDescription {
    /// The transactional id.
    pub transactional_id: String,
    /// The state of its last transaction: `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`,
    /// `CompleteAbort`, `PrepareEpochFence` or `Dead`.
    pub state: String,
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// How long a transaction may stay open, in ms.
    #[serde(rename = "timeout")]
    pub timeout_ms: i32,
    /// When the open transaction began, in ms since 1970 UTC; `None` if none is open.
    #[serde(rename = "started")]
    pub started_ms: Option<i64>,
    /// The partitions of the open transaction, sorted.
    #[serde(serialize_with = "values::partitions")]
    pub partitions: Vec<(Arc<str>, i32)>,
}

/// Describes transactional ids. An item is one of them.
#[derive(Clone, Debug)]
pub struct DescribeTransactions {
    /// The transactional ids.
    pub ids: Vec<Arc<str>>,
}

impl Call for DescribeTransactions {
    type Found = TransactionDescription;
    /// In the order of the request.
    type Answer = Vec<Result<TransactionDescription, Error>>;
    const API: ApiKey = ApiKey::DescribeTransactions;

    fn items(&self) -> usize {
        self.ids.len()
    }

    fn target(&self, item: usize) -> Target {
        match self.ids.get(item) {
            Some(id) => Target::Coordinator(CoordinatorType::Transaction, Arc::clone(id)),
            None => Target::Any,
        }
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.ids.get(*item));
        Request::DescribeTransactions(DescribeTransactionsRequest {
            transactional_ids: wanted.map(|id| (&**id).into()).collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeTransactions(answer) = response else {
            return Vec::new();
        };
        results(items, "a transactional id", |asked| {
            let id = self.ids.get(asked.item)?;
            let mut rows = answer.transaction_states.iter();
            let row = rows.find(|row| *row.transactional_id == **id)?;
            Some(described(row).map_err(|error| error.with_transactional_id(id)))
        })
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}

fn described(row: &TransactionState) -> Result<TransactionDescription, Error> {
    let code = ErrorCode(row.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, None));
    }
    let topics = row.topics.iter();
    Ok(TransactionDescription {
        transactional_id: row.transactional_id.to_string(),
        state: row.transaction_state.to_string(),
        producer_id: row.producer_id,
        producer_epoch: row.producer_epoch,
        timeout_ms: row.transaction_timeout_ms,
        started_ms: Some(row.transaction_start_time_ms).filter(|started| *started >= 0),
        partitions: partitions::pairs(
            topics.map(|topic| (&*topic.topic, topic.partitions.iter().copied())),
        ),
    })
}
