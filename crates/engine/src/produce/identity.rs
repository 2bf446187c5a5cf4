//! The state of a producer's identity: producer id and epoch (KIP-98).
//!
//! ```text
//!             pending records                     response
//!   None ───────────────────────────────▶ Asked ───────────────▶ Known ──┐ spent: the next epoch (KIP-360)
//!     ▲  ▲                                  │ │                  │  ▲    │
//!     │  └───────────────────────── refused ┘ │                  │  └────┘
//!     │                                       └▶ Absent: the brokers are before 0.11, and idempotence is only the default
//!     └────────────────────── spent, and no epoch is left ◀──────┘
//! ```
//!
//! It does not know batches. The composition carries facts between it and the accumulator: that an
//! identity is wanted, the identity, and that it is spent.

use std::time::{Duration, Instant};

use crate::call::{CallId, Ended, InitProducerId};
use crate::error::{Error, Kind};
use crate::observe::Observed;
use crate::part::{Core, Part};
use crate::produce::stamp::Identity;

#[derive(Debug, Default)]
pub(crate) struct Identification {
    state: State,
    wanted: bool,
    /// Why the last request failed.
    trouble: Option<Error>,
    /// The error that all waiting batches must fail with, until it is taken.
    refusal: Option<Error>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// None yet, or the last one can no longer be used.
    #[default]
    None,
    /// The last request was refused: the next one waits until then.
    Paused(Instant),
    Asked(CallId),
    Known(Identity),
    /// The brokers give none.
    Absent,
}

/// The pause after a refusal that only a person can mend.
const PAUSE: Duration = Duration::from_secs(1);

impl Identification {
    /// Sets whether an identity is needed.
    pub(crate) fn set_wanted(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// The identity, where there is one.
    pub(crate) fn current(&self) -> Option<Identity> {
        match self.state {
            State::Known(identity) => Some(identity),
            _ => None,
        }
    }

    /// Whether the brokers give none, and the settings allow to do without.
    pub(crate) fn is_absent(&self) -> bool {
        self.state == State::Absent
    }

    /// Why there is no identity so far.
    pub(crate) fn trouble<'a>(&'a self, core: &'a Core) -> Option<&'a Error> {
        let of_call = match self.state {
            State::Asked(call) => core.calls.trouble(call),
            _ => None,
        };
        of_call.or(self.trouble.as_ref())
    }

    /// The error that all waiting batches must fail with, once.
    pub(crate) fn take_refusal(&mut self) -> Option<Error> {
        self.refusal.take()
    }

    /// An identity can number no more batches: its next epoch takes its place.
    pub(crate) fn spend(&mut self, core: &mut Core, spent: Identity) {
        if self.current() == Some(spent) {
            self.state = match spent.bumped() {
                Some(next) => known(core, next),
                None => State::None,
            };
        }
    }
}

/// Whether the broker is too old to give producer ids.
fn is_lacking(error: &Error) -> bool {
    error.kind() == Kind::Unsupported
}

fn known(core: &mut Core, identity: Identity) -> State {
    core.cluster
        .context
        .observer
        .tell(Observed::ProducerIdentified {
            id: identity.id,
            epoch: identity.epoch,
        });
    State::Known(identity)
}

impl Part for Identification {
    fn pump(&mut self, now: Instant, core: &mut Core) {
        if !self.wanted {
            return;
        }
        match self.state {
            State::Paused(until) if until > now => return core.cluster.set_alarm(until),
            State::Paused(_) | State::None => {}
            State::Asked(_) | State::Known(_) | State::Absent => return,
        }
        // The call outlives the batches that wait for it, so that their error can name its cause
        // when they expire.
        let deadline = now + core.cluster.config().delivery_timeout * 2;
        self.state = State::Asked(core.start(now, InitProducerId, deadline));
    }

    fn handle_ended(&mut self, now: Instant, core: &mut Core, ended: Ended) {
        if self.state != State::Asked(ended.id) {
            return;
        }
        match ended.answer::<InitProducerId>() {
            Some(Ok(found)) => {
                let identity = Identity {
                    id: found.id,
                    epoch: found.epoch,
                };
                self.state = known(core, identity);
                self.trouble = None;
            }
            Some(Err(error))
                if is_lacking(&error) && !core.cluster.config().requires_idempotence =>
            {
                let observer = &mut core.cluster.context.observer;
                observer.tell(Observed::IdempotenceOff { cause: error });
                self.state = State::Absent;
            }
            Some(Err(error)) if !error.is_retriable() => {
                let advice = if is_lacking(&error) {
                    "enable.idempotence=true, and the broker gives no producer id"
                } else {
                    "no producer id for idempotence"
                };
                self.refusal = Some(error.clone().wrap(error.kind(), advice));
                self.trouble = Some(error);
                self.state = State::Paused(now + PAUSE);
            }
            // Batches that waited this long have expired; newer ones are worth another request.
            Some(Err(error)) => {
                self.trouble = Some(error);
                self.state = State::None;
            }
            None => self.state = State::None,
        }
    }

    fn abort(&mut self, _: Instant, _: &mut Core, _: &Error) {
        self.wanted = false;
    }
}
