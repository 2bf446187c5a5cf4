//! InitProducerId (KIP-98): a producer's identity.

use ottla_protocol::messages::InitProducerIdRequest;
use ottla_protocol::{ApiKey, ErrorCode};

use super::interface::only;
use super::{About, Asked, Call, Target};
use crate::api::{Request, Response};
use crate::error::Error;

/// A producer's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdentity {
    /// The producer id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
}

/// A new identity for an idempotent producer without transactions, from any broker.
#[derive(Clone, Copy, Debug)]
pub struct InitProducerId;

impl Call for InitProducerId {
    type Found = ProducerIdentity;
    type Answer = ProducerIdentity;
    const API: ApiKey = ApiKey::InitProducerId;

    /// The next one is for transactions, and not final.
    fn versions(&self) -> (i16, i16) {
        (0, 5)
    }

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::InitProducerId(InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<ProducerIdentity, Error>> {
        let Response::InitProducerId(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        vec![if code.is_error() {
            Err(Error::from_code(code, None))
        } else {
            Ok(ProducerIdentity {
                id: answer.producer_id,
                epoch: answer.producer_epoch,
            })
        }]
    }

    fn merge(self, found: Vec<Result<ProducerIdentity, Error>>) -> Result<ProducerIdentity, Error> {
        only(found, "the producer id")
    }
}
