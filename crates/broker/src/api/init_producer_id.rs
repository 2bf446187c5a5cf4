//! InitProducerId, versions 0 to 5: ids for idempotent producers.
//!
//! There are no transactions: a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client
//! takes for final instead of asking again.

use ottla_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

impl Api for InitProducerIdRequest {
    const HANDLED: Versions = Versions { min: 0, max: 5 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<InitProducerIdResponse> {
        let allowed = match &self.transactional_id {
            Some(id) => cx.check(Operation::Write, Resource::transactional_id(id)),
            None if cx.core.security.may_write_any_topic(&cx.who) => Ok(()),
            None => cx.check(Operation::IdempotentWrite, Resource::CLUSTER),
        };
        if let Err(code) = allowed {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        if let Some(id) = &self.transactional_id {
            cx.core.events.say(format_args!(
                "transactional id \"{id}\" was refused: there are no transactions here"
            ));
            return Outcome::Answer(
                self.refuse(cx.version, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            );
        }
        Outcome::Answer(match cx.core.new_producer_id() {
            Ok(producer_id) => InitProducerIdResponse {
                producer_id,
                producer_epoch: 0,
                ..Default::default()
            },
            Err(code) => self.refuse(cx.version, code),
        })
    }
}
