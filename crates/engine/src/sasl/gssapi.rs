//! GSSAPI (RFC 4752): Kerberos, through the system's library, which the provider calls.
//!
//! ```text
//! begin() ── context ──▶ token ⇄ token … ── complete ──▶ the layers that the broker offers ──▶ none of them, confirmed
//! ```
//!
//! The last message of each side lists the security layers that it supports and its largest message
//! size. Kafka uses none: data after the authentication is protected by TLS or not at all.

use bytes::Bytes;

use super::outside::{Given, Need};
use super::{Mechanism, Step, out_of_turn, refused};
use crate::credentials::{Question, Reply};
use crate::error::Error;

/// "No security layer", as the first byte of the last messages names it.
const NO_LAYER: u8 = 1;
/// The most steps of a context; Kerberos takes two.
const MOST_STEPS: u32 = 10;

/// A client with a Kerberos ticket.
#[derive(Debug)]
pub(super) struct Gssapi {
    principal: Option<String>,
    stage: Stage,
    steps: u32,
}

#[derive(Debug)]
enum Stage {
    Idle,
    /// The provider makes the next token.
    Making,
    /// The broker makes the next one; whether our side of the context is complete.
    Sent {
        complete: bool,
    },
    Unwrapping,
    Wrapping,
}

impl Gssapi {
    pub(super) fn new(principal: Option<&str>) -> Gssapi {
        Gssapi {
            principal: principal.map(str::to_owned),
            stage: Stage::Idle,
            steps: 0,
        }
    }

    fn context(&mut self, token: Bytes) -> Result<Step, Error> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(refused("the broker does not come to an end with GSSAPI"));
        }
        self.stage = Stage::Making;
        Ok(Step::Need(Need::Outside(Question::Context(token))))
    }

    fn made(&mut self, reply: Reply) -> Result<Step, Error> {
        if reply.bytes.is_empty() && !reply.complete {
            return Err(refused("GSSAPI has nothing to say, and is not complete"));
        }
        self.stage = Stage::Sent {
            complete: reply.complete,
        };
        // Empty if the broker's token was the last of the context: it sends its layers next.
        Ok(Step::Send(reply.bytes.into()))
    }

    fn unwrapped(&mut self, reply: &Reply) -> Result<Step, Error> {
        let [layers, _, _, _] = reply.bytes.as_slice() else {
            return Err(refused("the broker's last GSSAPI message is not 4 bytes"));
        };
        if layers & NO_LAYER == 0 {
            return Err(refused(
                "the broker insists on a security layer of GSSAPI, which Kafka does not use",
            ));
        }
        self.stage = Stage::Wrapping;
        // No layer, so no size; and no authorization identity, since the broker takes it from the ticket.
        let answer = Bytes::from_static(&[NO_LAYER, 0, 0, 0]);
        Ok(Step::Need(Need::Outside(Question::Wrap(answer))))
    }
}

impl Mechanism for Gssapi {
    fn name(&self) -> &'static str {
        "GSSAPI"
    }

    fn user(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    fn advice(&self) -> &'static str {
        "check the ticket (klist), sasl.kerberos.service.name, and that the broker's name, or \
         sasl.kerberos.domain.name, is that of its principal"
    }

    fn begin(&mut self) -> Result<Step, Error> {
        self.steps = 0;
        self.context(Bytes::new())
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Sent { .. } if challenge.is_empty() => {
                Err(refused("the broker has nothing to say to GSSAPI"))
            }
            Stage::Sent { complete: false } => self.context(challenge),
            Stage::Sent { complete: true } => {
                self.stage = Stage::Unwrapping;
                Ok(Step::Need(Need::Outside(Question::Unwrap(challenge))))
            }
            Stage::Idle | Stage::Making | Stage::Unwrapping | Stage::Wrapping => Err(out_of_turn()),
        }
    }

    fn take(&mut self, given: Given) -> Result<Step, Error> {
        let Given::Reply(reply) = given else {
            return Err(out_of_turn());
        };
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Making => self.made(reply),
            Stage::Unwrapping => self.unwrapped(&reply),
            Stage::Wrapping => Ok(Step::Last(reply.bytes.into())),
            Stage::Idle | Stage::Sent { .. } => Err(out_of_turn()),
        }
    }
}
