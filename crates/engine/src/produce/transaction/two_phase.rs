//! Two-phase commits (KIP-939): a transaction whose records are all written, and whose end another
//! system decides.
//!
//! ```text
//!   Open ── prepare: all records delivered ──▶ Prepared ── commit, abort or complete: EndTxn done ──▶ Ready
//!                                                 ▲  │
//!   Fresh ── init that keeps it, by the next ─────┘  └─ no response: Prepared; the same verb sends EndTxn again
//! ```
//!
//! Unlike an open transaction, a prepared one is never aborted at a close or after an unknown
//! result: the decision may be written elsewhere already.

use std::time::Instant;

use ottla_protocol::ErrorCode;

use super::prepared::{Prepared, PreparedTransaction};
use super::{Finished, State, Step, Transaction, Verb, errors};
use crate::call::{EndTxn, InitTransactions, Initialized, ProducerIdentity, TransactionProtocol};
use crate::error::{Error, Kind};
use crate::part::Core;

impl Transaction {
    /// An identity, with which a prepared transaction can be ended that an earlier producer left.
    pub(super) fn init_keeping(&mut self, now: Instant, core: &mut Core, deadline: Instant) {
        let call = InitTransactions {
            keeps: true,
            ..self.init_call(None)
        };
        let call = core.start(now, call, deadline);
        self.set_step(Step::Init(call));
    }

    /// Whether this verb keeps what an earlier producer prepared.
    pub(super) fn is_keeping(&self) -> bool {
        let mut running = self.running.iter();
        running.any(|running| matches!(running.verb, Verb::Keep | Verb::Complete { .. }))
    }

    /// A transaction of an earlier producer is there to be ended.
    pub(super) fn kept(&mut self, core: &mut Core, ongoing: ProducerIdentity) {
        self.choose_protocol(core);
        self.state = State::Prepared(Prepared {
            token: ongoing.into(),
            touched: true,
            commits: None,
            may_be_done: false,
        });
    }

    pub(super) fn prepare(&mut self, core: &mut Core, deadline: Instant) {
        if let Some(trouble) = self.trouble() {
            return self.finish(core, Err(trouble));
        }
        if self.facts.undecided || self.facts.under_way || self.joining.is_some() {
            return core.cluster.set_alarm(deadline);
        }
        if self.protocol == TransactionProtocol::V1 {
            // Its epochs stay: the names of all transactions would be equal.
            return self.finish(core, Err(errors::names_repeat()));
        }
        let Some(identity) = self.identity else {
            return self.finish(core, Err(errors::none_open()));
        };
        let token = PreparedTransaction::from(identity);
        self.state = State::Prepared(Prepared {
            token,
            touched: self.is_touched(),
            commits: None,
            may_be_done: false,
        });
        self.finish(core, Ok(Finished::Prepared(token)));
    }

    /// The effect of a verb on a prepared transaction.
    pub(super) fn advance_prepared(
        &mut self,
        now: Instant,
        core: &mut Core,
        (prepared, verb): (Prepared, Verb),
        deadline: Instant,
    ) {
        let commits = match verb {
            Verb::Keep => return self.finish(core, Ok(Finished::Done)),
            Verb::Prepare => {
                return self.finish(core, Ok(Finished::Prepared(prepared.token)));
            }
            Verb::Commit => true,
            Verb::Abort => false,
            Verb::Complete {
                prepared: wanted,
                commits,
            } => commits && wanted == prepared.token,
            Verb::Init | Verb::Begin | Verb::SendOffsets { .. } => {
                return self.finish(core, Err(errors::prepared()));
            }
        };
        if prepared.commits.is_some_and(|before| before != commits) {
            let error = errors::decided(prepared.token, !commits);
            return self.finish(core, Err(error));
        }
        let Some(member) = self.member() else {
            return self.finish(core, Err(errors::none_open()));
        };
        self.state = State::Prepared(Prepared {
            commits: Some(commits),
            ..prepared
        });
        // No coordinator knows a transaction without records. To abort it gives the next one
        // another epoch, so that no two have the same name.
        let end = EndTxn {
            member,
            commits: commits && prepared.touched,
        };
        let call = core.start(now, end, deadline);
        self.set_step(Step::End(call));
    }

    pub(super) fn handle_prepared_end(
        &mut self,
        now: Instant,
        core: &mut Core,
        prepared: Prepared,
        result: Result<Option<ProducerIdentity>, Error>,
    ) {
        let commits = prepared.commits.unwrap_or(false);
        match result {
            Ok(next) => {
                self.markers.ended(now, core);
                self.identity = next.or(self.identity);
                self.state = State::Ready;
                self.finish(core, Ok(Finished::ended(commits)));
            }
            Err(error) => {
                let silent = error.code().is_none() && error.kind() != Kind::Unsupported;
                let may_be_done = prepared.may_be_done
                    || error.may_have_been_done()
                    || error.is_retriable()
                    || silent;
                self.state = State::Prepared(Prepared {
                    may_be_done,
                    ..prepared
                });
                let is_final =
                    !errors::may_pass(&error) || error.code() == Some(ErrorCode::INVALID_TXN_STATE);
                if !is_final {
                    let error = match may_be_done {
                        true => errors::not_completed(error, commits),
                        false => errors::still_prepared(error),
                    };
                    return self.finish(core, Err(error));
                }
                let error = match error.code() {
                    Some(ErrorCode::INVALID_TXN_STATE) if !may_be_done => {
                        error.adding("somebody has ended the prepared transaction otherwise")
                    }
                    _ => error,
                };
                self.die(error);
                match (&self.state, may_be_done) {
                    (State::Fatal(cause), true) => {
                        let error = errors::never_completed(cause.clone(), commits);
                        self.finish(core, Err(error));
                    }
                    _ => self.set_step(Step::Waits),
                }
            }
        }
    }

    /// Handles the result of InitProducerId, whether or not it was to keep a transaction.
    pub(super) fn handle_init(&mut self, core: &mut Core, result: Result<Initialized, Error>) {
        match result {
            Ok(Initialized { identity, ongoing }) => {
                self.identified(core, identity);
                if let Some(ongoing) = ongoing {
                    self.kept(core, ongoing);
                }
                self.set_step(Step::Waits);
            }
            Err(error) => {
                let error = errors::not_initialised(error, self.two_phase, self.is_keeping());
                self.finish(core, Err(error));
            }
        }
    }
}
