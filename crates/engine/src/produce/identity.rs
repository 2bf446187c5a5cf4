//! How far a producer is with getting its identity: producer id and epoch (KIP-98).
//!
//! ```text
//!             something waits to be sent            answered
//!   Wanted ─────────────────────────────▶ Asked ───────────────▶ Known ──┐ spent: the next epoch (KIP-360)
//!     ▲  ▲                                  │                    │  ▲    │
//!     │  └──── refused, or broken: a pause ◀┘                    │  └────┘
//!     └────────────────────── spent, and no epoch is left ◀──────┘
//! ```
//!
//! It knows nothing of batches. Who composes it with the accumulator carries three facts from one to the other: that an
//! identity is wanted, which one there is, and that one is spent.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::api::Request;
use crate::cluster::{Cluster, LinkId, Orphan, Owner};
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::produce::stamp::Identity;

#[derive(Debug)]
pub(crate) struct Identification {
    config: Arc<Config>,
    state: State,
    /// Why the last question failed.
    trouble: Option<Error>,
    /// The last failure, if it is final for what waits to be sent and nobody has taken it.
    refusal: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// None yet, or the last one is of no use any more; `after` is when to ask.
    Wanted {
        after: Option<Instant>,
        failures: u32,
    },
    Asked {
        token: u64,
        failures: u32,
    },
    Known(Identity),
}

impl State {
    const NEW: State = State::Wanted {
        after: None,
        failures: 0,
    };
}

impl Identification {
    pub(crate) fn new(config: Arc<Config>) -> Identification {
        Identification {
            config,
            state: State::NEW,
            trouble: None,
            refusal: None,
        }
    }

    /// The identity, where there is one.
    pub(crate) fn current(&self) -> Option<Identity> {
        match self.state {
            State::Known(identity) => Some(identity),
            _ => None,
        }
    }

    /// Why there is none, if the last question failed.
    pub(crate) fn trouble(&self) -> Option<&Error> {
        self.trouble.as_ref()
    }

    /// What all that waits must fail with, once.
    pub(crate) fn take_refusal(&mut self) -> Option<Error> {
        self.refusal.take()
    }

    /// Asks for an identity, unless there is one or the question is out already. To be called while one is wanted.
    pub(crate) fn pump(&mut self, now: Instant, cluster: &mut Cluster) {
        let State::Wanted { after, failures } = self.state else {
            return;
        };
        if let Some(after) = after.filter(|after| *after > now) {
            cluster.set_alarm(after);
            return;
        }
        let Some(link) = cluster.any_link(now) else {
            return;
        };
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            ..Default::default()
        };
        let timeout = self.config.request_timeout;
        let token = cluster.ask(link, Owner::Work, Request::InitProducerId(request), timeout);
        self.state = State::Asked { token, failures };
    }

    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
        token: u64,
        answer: &InitProducerIdResponse,
    ) {
        let Some(failures) = self.failures_if_asked(token) else {
            return;
        };
        let code = ErrorCode(answer.error_code);
        if !code.is_error() {
            self.trouble = None;
            self.state = State::Known(Identity {
                id: answer.producer_id,
                epoch: answer.producer_epoch,
            });
            return;
        }
        let mut error = Error::from_code(code, None).calling("InitProducerId");
        if let Some(address) = cluster.address_of(link) {
            error = error.at(address);
        }
        self.failed(now, cluster, failures, error);
    }

    /// Takes in that the question will not be answered; false if it is not this one's.
    pub(crate) fn handle_orphan(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        orphan: &Orphan,
    ) -> bool {
        let Some(failures) = self.failures_if_asked(orphan.token) else {
            return false;
        };
        let error = orphan.error.clone();
        let error = error.retriable_is(orphan.may_be_repeated());
        self.failed(now, cluster, failures, error);
        true
    }

    /// An identity can number nothing new any more: goes on with its next epoch.
    pub(crate) fn spend(&mut self, spent: Identity) {
        if self.current() == Some(spent) {
            self.state = spent.bumped().map_or(State::NEW, State::Known);
        }
    }

    fn failures_if_asked(&self, token: u64) -> Option<u32> {
        match self.state {
            State::Asked {
                token: asked,
                failures,
            } if asked == token => Some(failures),
            _ => None,
        }
    }

    fn failed(&mut self, now: Instant, cluster: &mut Cluster, failures: u32, error: Error) {
        let failures = failures.saturating_add(1);
        let after = now + cluster.retry_pause(failures);
        cluster.set_alarm(after);
        self.state = State::Wanted {
            after: Some(after),
            failures,
        };
        if !error.is_retriable() {
            let advice = if error.kind() == Kind::Unsupported {
                "no producer id for idempotence (the broker is too old for it: set enable.idempotence=false)"
            } else {
                "no producer id for idempotence"
            };
            self.refusal = Some(error.clone().wrap(error.kind(), advice));
        }
        self.trouble = Some(error);
    }
}
