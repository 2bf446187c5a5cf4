//! Fencing the producers of transactional ids (KIP-664, KIP-939): InitProducerId by a client that
//! will not produce, to each id's coordinator. An open transaction is aborted, also one that was
//! prepared for a two-phase commit.

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::ApiKey;
use serde::{Deserialize, Serialize};

use super::interface::Retry;
use super::transactional::InitTransactions;
use super::values::{ByItem, names};
use super::{About, Asked, Call, Target};
use crate::api::{Request, Response};
use crate::error::Error;

/// The identity of a transactional id's next producer, after the one before was fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FencedProducer {
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
}

/// Fences the producers of transactional ids. An item is one of them.
#[derive(Clone, Debug, Deserialize)]
pub struct FenceProducers {
    /// The transactional ids.
    #[serde(deserialize_with = "names")]
    pub transactional_ids: Vec<Arc<str>>,
}

impl FenceProducers {
    fn init(&self, item: usize) -> Option<InitTransactions> {
        Some(InitTransactions {
            id: Arc::clone(self.transactional_ids.get(item)?),
            // Nobody begins a transaction with this identity, and brokers refuse timeouts that are too long.
            timeout: Duration::from_millis(1),
            current: None,
            two_phase: false,
            keeps: false,
        })
    }
}

impl Call for FenceProducers {
    type Found = FencedProducer;
    type Answer = ByItem<FencedProducer>;
    const API: ApiKey = ApiKey::InitProducerId;

    fn changes(&self) -> bool {
        true
    }

    fn versions(&self) -> (i16, i16) {
        InitTransactions::FINAL
    }

    fn items(&self) -> usize {
        self.transactional_ids.len()
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn target(&self, item: usize) -> Target {
        self.init(item).map_or(Target::Any, |init| init.target(0))
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let mut inits = items.iter().filter_map(|item| self.init(*item));
        match inits.next() {
            Some(init) => init.request(&[0], about),
            None => Request::InitProducerId(Default::default()),
        }
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let [asked] = items else {
            return Vec::new();
        };
        let Some(init) = self.init(asked.item) else {
            return Vec::new();
        };
        let results = init.take(items, response).into_iter();
        results
            .map(|result| match result {
                Ok(initialized) => Ok(FencedProducer {
                    producer_id: initialized.identity.id,
                    producer_epoch: initialized.identity.epoch,
                }),
                Err(error) => Err(error.with_transactional_id(&init.id)),
            })
            .collect()
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        super::transactional::retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.transactional_ids, found)
    }
}
