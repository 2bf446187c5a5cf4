//! AddOffsetsToTxn, versions 0 to 4: a producer is about to commit a group's offsets in its transaction, which so gets the
//! partition that keeps them. With KIP-890 TxnOffsetCommit does that by itself.

use ottla_protocol::ErrorCode;
use ottla_protocol::Versions;
use ottla_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::coordinated::from_transactions;
use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::transaction::{Add, Adding, Identity, Protocol, Reply};

const FIRST_WITH_FENCED: i16 = 2;

impl Api for AddOffsetsToTxnRequest {
    const HANDLED: Versions = Versions { min: 0, max: 4 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AddOffsetsToTxnResponse> {
        let id = Resource::transactional_id(&self.transactional_id);
        let group = Resource::group(&self.group_id);
        let allowed = cx.check(Operation::Write, id);
        if let Err(code) = allowed.and_then(|()| cx.check(Operation::Read, group)) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let Ok(place) = cx.core.offsets_of(&self.group_id) else {
            let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
            return Outcome::Answer(self.refuse(cx.version, code));
        };
        let add = Add {
            id: self.transactional_id.to_string(),
            producer: Identity {
                producer_id: self.producer_id,
                epoch: self.producer_epoch,
            },
            partitions: vec![place],
            how: Adding::Add(Protocol::Classic),
        };
        let ticket = cx.question();
        cx.core.add_here(&add, ticket.clone(), cx.now);
        let version = cx.version;
        from_transactions(ticket, move |reply| match reply {
            Reply::Partitions(codes) => {
                let code = codes.first().copied().unwrap_or(ErrorCode::NONE);
                let code = super::old_fencing(code, version < FIRST_WITH_FENCED);
                Some(AddOffsetsToTxnResponse {
                    error_code: code.0,
                    ..Default::default()
                })
            }
            Reply::Producer(_) | Reply::Kept { .. } => None,
        })
    }
}
