//! InitProducerId, versions 0 to 6: ids and epochs for idempotent and for transactional producers.
//!
//! Since version 3 a producer sends its id and epoch, to raise its own epoch (KIP-360). Since
//! version 4 it can get PRODUCER_FENCED (KIP-588). Version 6, which is not final, is for two-phase
//! commit (KIP-939): a transaction that nobody but its producer ends, and that the next producer
//! can keep and end. Kafka 4.4 has the first half and refuses to keep one. Kept transactions here
//! follow the KIP.

use ottla_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::coordinated::from_transactions;
use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::transaction::{Identity, Init, NO_EPOCH, NO_PRODUCER, Reply};

const FIRST_WITH_FENCED: i16 = 4;

impl Api for InitProducerIdRequest {
    const HANDLED: Versions = Versions { min: 0, max: 6 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<InitProducerIdResponse> {
        let allowed = match &self.transactional_id {
            Some(id) => {
                let id = Resource::transactional_id(id);
                cx.check(Operation::Write, id)
                    .and_then(|()| match self.enable2_pc {
                        true => cx.check(Operation::TwoPhaseCommit, id),
                        false => Ok(()),
                    })
            }
            None if cx.core.security.may_write_any_topic(&cx.who) => Ok(()),
            None => cx.check(Operation::IdempotentWrite, Resource::CLUSTER),
        };
        if let Err(code) = allowed {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        // One without the other is nobody.
        if (self.producer_id == NO_PRODUCER) != (self.producer_epoch == NO_EPOCH) {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::INVALID_REQUEST));
        }
        let Some(id) = &self.transactional_id else {
            return Outcome::Answer(match cx.core.new_producer_id() {
                Ok(producer_id) => respond(Identity {
                    producer_id,
                    epoch: 0,
                }),
                Err(code) => self.refuse(cx.version, code),
            });
        };
        let init = Init {
            id: id.to_string(),
            timeout_ms: self.transaction_timeout_ms,
            expected: (self.producer_id != NO_PRODUCER).then_some(Identity {
                producer_id: self.producer_id,
                epoch: self.producer_epoch,
            }),
            two_phase: self.enable2_pc,
            keeps: self.keep_prepared_txn,
        };
        let ticket = cx.question();
        cx.core.init_producer(init, ticket.clone(), cx.now);
        let version = cx.version;
        from_transactions(ticket, move |reply| match reply {
            Reply::Producer(Ok(producer)) => Some(respond(producer)),
            Reply::Kept { producer, ongoing } => Some(InitProducerIdResponse {
                ongoing_txn_producer_id: ongoing.producer_id,
                ongoing_txn_producer_epoch: ongoing.epoch,
                ..respond(producer)
            }),
            Reply::Producer(Err(code)) => {
                let code = super::old_fencing(code, version < FIRST_WITH_FENCED);
                Some(self.refuse(version, code))
            }
            Reply::Partitions(_) => None,
        })
    }
}

fn respond(producer: Identity) -> InitProducerIdResponse {
    InitProducerIdResponse {
        producer_id: producer.producer_id,
        producer_epoch: producer.epoch,
        ..Default::default()
    }
}
