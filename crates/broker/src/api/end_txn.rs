//! EndTxn, versions 0 to 5: commits or aborts a transaction. The response comes when that is
//! decided; the markers follow.
//!
//! Since version 2 a producer can get PRODUCER_FENCED (KIP-588). Since version 5 each transaction
//! has an epoch of its own, and the response has the next one (KIP-890).

use ottla_protocol::Versions;
use ottla_protocol::messages::{EndTxnRequest, EndTxnResponse};

use super::coordinated::from_transactions;
use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::transaction::{End, Identity, Protocol, Reply};

const FIRST_WITH_FENCED: i16 = 2;
const FIRST_WITH_EPOCHS: i16 = 5;

impl Api for EndTxnRequest {
    const HANDLED: Versions = Versions { min: 0, max: 5 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<EndTxnResponse> {
        let id = Resource::transactional_id(&self.transactional_id);
        if let Err(code) = cx.check(Operation::Write, id) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let end = End {
            id: self.transactional_id.to_string(),
            producer: Identity {
                producer_id: self.producer_id,
                epoch: self.producer_epoch,
            },
            commits: self.committed,
            client: if cx.version >= FIRST_WITH_EPOCHS {
                Protocol::EpochEach
            } else {
                Protocol::Classic
            },
        };
        let ticket = cx.question();
        cx.core.end_transaction(&end, ticket.clone(), cx.now);
        let version = cx.version;
        from_transactions(ticket, move |reply| match reply {
            Reply::Producer(Ok(producer)) if version >= FIRST_WITH_EPOCHS => Some(EndTxnResponse {
                producer_id: producer.producer_id,
                producer_epoch: producer.epoch,
                ..Default::default()
            }),
            Reply::Producer(Ok(_)) => Some(EndTxnResponse::default()),
            Reply::Producer(Err(code)) => {
                let code = super::old_fencing(code, version < FIRST_WITH_FENCED);
                Some(self.refuse(version, code))
            }
            Reply::Partitions(_) | Reply::Kept { .. } => None,
        })
    }
}
