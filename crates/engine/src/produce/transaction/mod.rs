//! The transactions of one producer (KIP-98, KIP-360, KIP-890), without batches: whether one is open, whether it can still be committed,
//! and which request comes next.
//!
//! ```text
//!                          begin                        commit: all records delivered, EndTxn done
//!  Fresh ── init ──▶ Ready ─────▶ Open ────────────────────────────────────────────────────────────────▶ Ready
//!                      ▲           │ │  a record or a request failed: Open, with trouble; only an abort helps
//!                      │           │ └─ abort: unsent records failed, sent ones decided, EndTxn done ──▶ Ready
//!                      │           ▼    EndTxn got no response in time
//!                      └──────── Unsettled ── the next init, begin or abort: EndTxn (abort), and its response shows how it ended
//!
//!  any ── fenced by another producer, or what no abort mends ──▶ Fatal
//! ```
//!
//! * With the first protocol ([`TransactionProtocol::V1`]) a partition joins by AddPartitionsToTxn before its first batch, and
//!   offsets by AddOffsetsToTxn. With the second, both join by themselves, and every EndTxn gives the next epoch. Which one
//!   is decided when a transaction begins, by the finalized level of `transaction.version`.
//! * Whatever leaves a gap in the sequence numbers, or a request that may still arrive, needs the next epoch before the next transaction.
//!   InitProducerId returns it to a producer that proves to be the current owner. Brokers before 2.5 cannot check that, and there the
//!   producer ends as fatal rather than fence its successor.
//! * InitProducerId never requests the next epoch while a transaction may be open: the coordinator would fence this
//!   very producer to abort it. EndTxn comes first.
//!
//! * With two-phase commits (KIP-939) a transaction can be prepared before it ends; see `two_phase`.
//! * Offsets of a group join by the steps in `offsets`.
//!
//! The composition carries facts between this and the accumulator: what failed, what is in flight, which partitions are to join, and which
//! have joined.

mod errors;
mod markers;
mod offsets;
mod prepared;
#[cfg(test)]
mod tests;
mod two_phase;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;
use rustc_hash::FxHashMap;

pub(crate) use self::errors::no_id;
use self::errors::{Severity, severity};
use self::markers::Markers;
use self::prepared::Prepared;
pub use self::prepared::PreparedTransaction;
use crate::call::{
    AddOffsetsToTxn, AddPartitionsToTxn, CallId, DescribeTopics, DescribeTransactions, EndTxn,
    Ended, GroupMetadata, GroupOffset, InitTransactions, Initialized, Member, Naming,
    ProducerIdentity, TransactionProtocol, TxnOffsetCommit,
};
use crate::change::Change;
use crate::config::Config;
use crate::error::{Error, Kind, Written};
use crate::observe::Observed;
use crate::part::{Core, Part};
use crate::produce::stamp::Identity;

/// What a caller wants of the producer's transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// An identity, and the end of what an earlier producer of the same transactional id left open.
    Init,
    /// As [`Verb::Init`], but what an earlier producer left prepared stays, to be ended by this one (KIP-939).
    Keep,
    /// A new transaction, after [`Verb::Init`] if needed.
    Begin,
    /// Offsets of a group that take effect with the transaction.
    SendOffsets {
        /// The group, and who of it has read up to the offsets.
        group: GroupMetadata,
        /// The offsets.
        offsets: Vec<GroupOffset>,
    },
    /// The transaction takes effect as a whole.
    Commit,
    /// Nothing of the transaction takes effect.
    Abort,
    /// All records of the transaction are delivered; it takes no more, and waits for its end (KIP-939).
    Prepare,
    /// A prepared transaction ends, after [`Verb::Keep`] if needed (KIP-939).
    Complete {
        /// Which one is meant.
        prepared: PreparedTransaction,
        /// Whether it is committed, if it is the one that is meant. Another one is aborted.
        commits: bool,
    },
}

impl Verb {
    /// Whether it needs `transaction.two.phase.commit.enable`.
    fn is_of_two_phases(&self) -> bool {
        matches!(self, Verb::Keep | Verb::Prepare | Verb::Complete { .. })
    }
}

/// What a [`Verb`] led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// What it is for.
    Done,
    /// The transaction is prepared.
    Prepared(PreparedTransaction),
    /// The prepared transaction was committed.
    Committed,
    /// The prepared transaction was aborted.
    Aborted,
    /// No transaction was open.
    NothingOpen,
}

impl Finished {
    fn ended(commits: bool) -> Finished {
        if commits {
            Finished::Committed
        } else {
            Finished::Aborted
        }
    }
}

/// Names one use of a [`Verb`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VerbId(u64);

/// What the accumulator knows about the batches of the transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// A record has no delivery result yet.
    pub(crate) undecided: bool,
    /// A request with batches has no response yet.
    pub(crate) under_way: bool,
    /// A batch was sent since the transaction began.
    pub(crate) sent: bool,
    /// A batch that has sequence numbers was abandoned.
    pub(crate) gap: bool,
}

#[derive(Debug)]
pub(crate) struct Transaction {
    id: Arc<str>,
    timeout: Duration,
    /// `transaction.two.phase.commit.enable`.
    two_phase: bool,
    state: State,
    identity: Option<ProducerIdentity>,
    protocol: TransactionProtocol,
    /// The protocol that was reported last.
    told: Option<TransactionProtocol>,
    /// Transactions begun so far: the number of the open one.
    number: u64,
    facts: Facts,
    running: Option<Running>,
    next_verb: u64,
    ended: FxHashMap<VerbId, EndedVerb>,
    /// Partitions that want to join.
    wishes: Vec<(Arc<str>, i32)>,
    joining: Option<Joining>,
    joined: VecDeque<(Arc<str>, i32)>,
    markers: Markers,
}

#[derive(Debug)]
enum State {
    /// Never initialised.
    Fresh,
    Ready,
    Open(Open),
    /// It takes nothing more, and only its owner ends it.
    Prepared(Prepared),
    /// How the last transaction ended is not known, if it has.
    Unsettled(End),
    /// No further transaction is possible.
    Fatal(Error),
}

/// The end of a transaction that has to be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// An abort was requested.
    Abort,
    /// A commit was requested, and the caller does not know whether it was carried out.
    Commit,
    /// A commit was carried out. Only the next epoch is missing.
    Committed,
}

#[derive(Debug, Default)]
struct Open {
    /// Why it can only be aborted.
    trouble: Option<Error>,
    /// The coordinator was asked for something in it, and so may know of it.
    touched: bool,
    /// A request to the coordinator got no response: it may still arrive.
    unsure: bool,
}

#[derive(Debug)]
struct Running {
    id: VerbId,
    verb: Verb,
    deadline: Instant,
    step: Step,
    /// Somebody waits for its end.
    awaited: bool,
}

/// A verb whose end nobody took yet.
#[derive(Debug)]
struct EndedVerb {
    /// The number of the transaction that it opened.
    opened: Option<u64>,
    result: Result<Finished, Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nobody is asked: it begins, or waits for batches.
    Waits,
    Init(CallId),
    /// The next epoch is asked for.
    Bump(CallId),
    AddOffsets(CallId),
    /// A broker is asked whether the topics of the offsets are still there.
    CheckTopics(CallId),
    CommitOffsets(CallId, Naming),
    End(CallId),
}

#[derive(Debug)]
struct Joining {
    call: CallId,
    partitions: Vec<(Arc<str>, i32)>,
}

impl Transaction {
    /// The transactions of a producer with these settings; `None` if it has no transactional id.
    pub(crate) fn new(config: &Config) -> Option<Transaction> {
        let id = config.transactional_id.as_deref()?;
        Some(Transaction {
            id: id.into(),
            timeout: config.transaction_timeout,
            two_phase: config.two_phase_commit,
            state: State::Fresh,
            identity: None,
            protocol: TransactionProtocol::V1,
            told: None,
            number: 0,
            facts: Facts::default(),
            running: None,
            next_verb: 0,
            ended: FxHashMap::default(),
            wishes: Vec::new(),
            joining: None,
            joined: VecDeque::new(),
            markers: Markers::default(),
        })
    }

    // --- what callers ask

    /// Start a verb that has to end by the deadline; `None` while another verb runs. Look again
    /// after [`Change::Transaction`].
    pub(crate) fn start(&mut self, verb: &Verb, deadline: Instant) -> Option<VerbId> {
        if self.running.is_some() {
            return None;
        }
        self.next_verb += 1;
        let id = VerbId(self.next_verb);
        self.running = Some(Running {
            id,
            verb: verb.clone(),
            deadline,
            step: Step::Waits,
            awaited: true,
        });
        Some(id)
    }

    /// How a verb ended, once.
    pub(crate) fn take(&mut self, id: VerbId) -> Option<Result<Finished, Error>> {
        self.ended.remove(&id).map(|ended| ended.result)
    }

    /// Nobody waits for the end of a verb any more. It goes on, but opens no transaction.
    pub(crate) fn give_up(&mut self, id: VerbId) {
        let opened = self.ended.remove(&id).and_then(|ended| ended.opened);
        // Others may have used it by now, and even have begun another one. A record that was not sent yet would become part of the
        // next transaction.
        let is_unused = matches!(&self.state, State::Open(open) if !open.touched)
            && !self.facts.undecided
            && opened == Some(self.number);
        if is_unused {
            self.state = State::Ready;
        }
        if let Some(running) = self.running.as_mut().filter(|running| running.id == id) {
            running.awaited = false;
            if running.verb == Verb::Begin {
                running.verb = Verb::Init;
            }
        }
    }

    /// Whether a transaction is open, or the end of one is not known. A prepared one is not: it waits for its owner.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_) | State::Unsettled(_))
    }

    /// Whether there is nothing that the end of a block would have to end: it is done, or prepared for its owner.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.state, State::Ready | State::Prepared(_))
    }

    /// Whether a record can be sent now.
    ///
    /// # Errors
    /// Why not; nothing of the record was written.
    #[inline]
    pub(crate) fn accepts(&self) -> Result<(), Error> {
        match (&self.state, &self.running) {
            (State::Open(Open { trouble: None, .. }), None) => Ok(()),
            _ => self.refusal(),
        }
    }

    #[cold]
    fn refusal(&self) -> Result<(), Error> {
        let ends = self.running.as_ref().is_some_and(|running| {
            matches!(running.verb, Verb::Commit | Verb::Abort | Verb::Prepare)
        });
        let error = match &self.state {
            State::Fatal(error) => error.clone(),
            State::Open(Open {
                trouble: Some(error),
                ..
            }) => error.clone(),
            State::Open(_) if ends => errors::ending(),
            State::Open(_) => return Ok(()),
            State::Prepared(_) => errors::prepared(),
            State::Fresh | State::Ready | State::Unsettled(_) => errors::none_open(),
        };
        Err(error.with_written(Written::No))
    }

    // --- facts for the accumulator, and from it

    /// The number and the protocol of the open transaction.
    pub(crate) fn scope(&self) -> (u64, TransactionProtocol) {
        (self.number, self.protocol)
    }

    /// The identity of batches that are sent now; `None` while they wait.
    pub(crate) fn identity(&self, now: Instant) -> Option<Identity> {
        match (&self.state, self.identity) {
            (State::Open(_), Some(identity)) if !self.markers.are_missing(now) => Some(Identity {
                id: identity.id,
                epoch: identity.epoch,
            }),
            _ => None,
        }
    }

    /// Takes in what the accumulator knows.
    pub(crate) fn set_facts(&mut self, facts: Facts) {
        if let State::Open(open) = &mut self.state {
            open.touched |= facts.sent;
        }
        self.facts = facts;
    }

    /// A record of the transaction was not delivered.
    pub(crate) fn record_failed(&mut self, cause: Error) {
        self.fail(cause, "a record of the transaction was not delivered");
    }

    /// Why everything that was not sent must fail now, if it must.
    pub(crate) fn purge(&self) -> Option<Error> {
        match &self.state {
            State::Fatal(error) => Some(error.clone()),
            State::Open(open) => {
                let trouble = open.trouble.clone();
                trouble.or_else(|| self.is_aborting().then(errors::aborted))
            }
            State::Unsettled(_) => Some(errors::aborted()),
            State::Fresh | State::Ready | State::Prepared(_) => None,
        }
    }

    /// Whether open batches must be sent without lingering.
    pub(crate) fn flushes(&self) -> bool {
        let open = matches!(&self.state, State::Open(open) if open.trouble.is_none());
        let mut running = self.running.iter();
        open && running.any(|running| matches!(running.verb, Verb::Commit | Verb::Prepare))
    }

    /// Whether partitions must join before their first batch.
    pub(crate) fn admits(&self) -> bool {
        let open = matches!(&self.state, State::Open(open) if open.trouble.is_none());
        open && self.protocol == TransactionProtocol::V1
    }

    /// Partitions want to join.
    pub(crate) fn wish(&mut self, partitions: Vec<(Arc<str>, i32)>) {
        self.wishes.extend(partitions);
    }

    /// The next partition that has joined.
    pub(crate) fn poll_joined(&mut self) -> Option<(Arc<str>, i32)> {
        self.joined.pop_front()
    }

    /// Why batches wait, as far as known.
    pub(crate) fn delay<'a>(&self, core: &'a Core) -> Option<&'a Error> {
        core.calls.trouble(self.joining.as_ref()?.call)
    }

    // --- steps

    /// The transaction cannot be committed any more, because of `cause`.
    fn fail(&mut self, cause: Error, what: &str) {
        if matches!(self.state, State::Fatal(_)) {
            return;
        }
        match severity(&cause) {
            Severity::Fenced => {
                self.state = State::Fatal(errors::fenced(cause, &self.id, self.two_phase))
            }
            Severity::Fatal => self.state = State::Fatal(errors::fatal(cause, self.two_phase)),
            Severity::Abortable => {
                if let State::Open(open) = &mut self.state {
                    let trouble = || errors::abortable(cause, what);
                    open.trouble.get_or_insert_with(trouble);
                }
            }
        }
    }

    fn member(&self) -> Option<Member> {
        Some(Member {
            id: Arc::clone(&self.id),
            identity: self.identity?,
            protocol: self.protocol,
        })
    }

    fn set_step(&mut self, step: Step) {
        if let Some(running) = &mut self.running {
            running.step = step;
        }
    }

    /// The running verb has ended.
    fn finish(&mut self, core: &mut Core, result: Result<Finished, Error>) {
        if let Some(running) = self.running.take().filter(|running| running.awaited) {
            let opens = running.verb == Verb::Begin && result.is_ok();
            let opened = opens.then_some(self.number);
            self.ended.insert(running.id, EndedVerb { opened, result });
        }
        core.cluster.context.changes.tell(Change::Transaction);
    }

    /// Lets partitions join that want to.
    fn join(&mut self, now: Instant, core: &mut Core) {
        if !self.admits() {
            self.wishes.clear();
            return;
        }
        if self.joining.is_some() || self.wishes.is_empty() {
            return;
        }
        let Some(member) = self.member() else {
            return;
        };
        let partitions = std::mem::take(&mut self.wishes);
        // The batches that wait for these partitions have expired by then.
        let deadline = now + core.cluster.config().delivery_timeout;
        let call = AddPartitionsToTxn {
            member,
            partitions: partitions.clone(),
        };
        let call = core.start(now, call, deadline);
        self.joining = Some(Joining { call, partitions });
        self.touch();
    }

    /// A request of the open transaction may still arrive, if `unsure`.
    fn doubt(&mut self, unsure: bool) {
        if let State::Open(open) = &mut self.state {
            open.unsure |= unsure;
        }
    }

    fn touch(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.touched = true;
        }
    }

    /// Goes on with the running verb, if nobody is being asked for it.
    fn advance(&mut self, now: Instant, core: &mut Core) {
        let Some(running) = &self.running else {
            return;
        };
        let deadline = running.deadline;
        if running.step != Step::Waits {
            return;
        }
        let verb = running.verb.clone();
        match (&self.state, verb) {
            (State::Fatal(error), _) => {
                let error = error.clone();
                self.finish(core, Err(error));
            }
            (_, verb) if verb.is_of_two_phases() && !self.two_phase => {
                self.finish(core, Err(errors::one_phase()));
            }
            _ if deadline <= now => self.late(core),
            (State::Prepared(prepared), verb) => {
                self.advance_prepared(now, core, (*prepared, verb), deadline);
            }
            (State::Fresh, Verb::Init | Verb::Begin) => self.init(now, core, deadline),
            (State::Fresh, Verb::Keep | Verb::Complete { .. }) => {
                self.init_keeping(now, core, deadline);
            }
            (State::Ready, Verb::Init | Verb::Keep) => self.finish(core, Ok(Finished::Done)),
            (State::Ready, Verb::Complete { .. }) => {
                self.finish(core, Ok(Finished::NothingOpen));
            }
            (State::Ready, Verb::Begin) => {
                self.begin(core);
                self.finish(core, Ok(Finished::Done));
            }
            (State::Open(_), Verb::Init | Verb::Begin | Verb::Keep) => {
                self.finish(core, Err(errors::still_open()));
            }
            (State::Open(_), Verb::Prepare) => self.prepare(core, deadline),
            (State::Open(_) | State::Unsettled(_), Verb::Complete { .. }) => {
                self.finish(core, Err(errors::not_prepared()));
            }
            (State::Unsettled(End::Committed), Verb::Abort) => {
                self.finish(core, Err(errors::was_committed()));
            }
            (State::Unsettled(_), Verb::Init | Verb::Begin | Verb::Abort | Verb::Keep) => {
                if self.facts.undecided || self.facts.under_way {
                    core.cluster.set_alarm(deadline);
                } else {
                    self.end(now, core, deadline, false);
                }
            }
            (State::Open(_), Verb::SendOffsets { group, offsets }) => {
                self.send_offsets(now, core, deadline, group, offsets);
            }
            (State::Open(_), Verb::Commit) => self.commit(now, core, deadline),
            (State::Open(_), Verb::Abort) => self.abort_open(now, core, deadline),
            (_, Verb::SendOffsets { .. } | Verb::Commit | Verb::Abort | Verb::Prepare) => {
                self.finish(core, Err(errors::none_open()));
            }
        }
    }

    /// The deadline passed while batches were waited for, or before anything began.
    fn late(&mut self, core: &mut Core) {
        let error = match (&self.state, self.is_aborting()) {
            (State::Open(_), true) => {
                self.state = State::Unsettled(End::Abort);
                errors::not_aborted(None, self.two_phase)
            }
            (State::Unsettled(_), _) => errors::not_aborted(None, self.two_phase),
            (State::Open(_), false) => errors::not_flushed(self.is_preparing()),
            _ => errors::no_time(),
        };
        self.finish(core, Err(error));
    }

    fn is_aborting(&self) -> bool {
        let mut running = self.running.iter();
        running.any(|running| running.verb == Verb::Abort)
    }

    fn is_preparing(&self) -> bool {
        let mut running = self.running.iter();
        running.any(|running| running.verb == Verb::Prepare)
    }

    fn init(&mut self, now: Instant, core: &mut Core, deadline: Instant) {
        let call = core.start(now, self.init_call(None), deadline);
        self.set_step(Step::Init(call));
    }

    fn init_call(&self, current: Option<ProducerIdentity>) -> InitTransactions {
        InitTransactions {
            id: Arc::clone(&self.id),
            timeout: self.timeout,
            current,
            two_phase: self.two_phase,
            keeps: false,
        }
    }

    /// Request the next epoch of the current identity.
    fn bump(&mut self, now: Instant, core: &mut Core, deadline: Instant) {
        let call = core.start(now, self.init_call(self.identity), deadline);
        self.set_step(Step::Bump(call));
    }

    fn begin(&mut self, core: &mut Core) {
        self.number += 1;
        self.state = State::Open(Open::default());
        self.choose_protocol(core);
    }

    fn choose_protocol(&mut self, core: &mut Core) {
        self.protocol = TransactionProtocol::of_level(core.cluster.transaction_version());
        if self.told != Some(self.protocol) {
            self.told = Some(self.protocol);
            core.cluster
                .context
                .observer
                .tell(Observed::TransactionProtocolChosen {
                    id: Arc::clone(&self.id),
                    protocol: self.protocol.number(),
                });
        }
    }

    fn trouble(&self) -> Option<Error> {
        match &self.state {
            State::Open(open) => open.trouble.clone(),
            State::Fatal(error) => Some(error.clone()),
            _ => None,
        }
    }

    fn is_touched(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.touched)
    }

    fn commit(&mut self, now: Instant, core: &mut Core, deadline: Instant) {
        if let Some(trouble) = self.trouble() {
            return self.finish(core, Err(trouble));
        }
        if self.facts.undecided || self.facts.under_way || self.joining.is_some() {
            return core.cluster.set_alarm(deadline);
        }
        if self.is_touched() {
            return self.end(now, core, deadline, true);
        }
        // Nobody knows of the transaction.
        self.state = State::Ready;
        self.finish(core, Ok(Finished::Done));
    }

    fn abort_open(&mut self, now: Instant, core: &mut Core, deadline: Instant) {
        if let Some(joining) = self.joining.take() {
            core.calls.cancel(&mut core.cluster, joining.call);
            self.doubt(true);
        }
        self.wishes.clear();
        // What is still on its way would be written after the end, and stay open for ever with the first protocol.
        if self.facts.undecided || self.facts.under_way {
            return core.cluster.set_alarm(deadline);
        }
        if self.is_touched() {
            return self.end(now, core, deadline, false);
        }
        self.state = State::Ready;
        self.finish(core, Ok(Finished::Done));
    }

    fn end(&mut self, now: Instant, core: &mut Core, deadline: Instant, commits: bool) {
        let Some(member) = self.member() else {
            return self.finish(core, Err(errors::none_open()));
        };
        let call = core.start(now, EndTxn { member, commits }, deadline);
        self.set_step(Step::End(call));
    }

    // --- responses

    fn handle_joined(&mut self, joining: Joining, result: Result<(), Error>) {
        match result {
            Ok(()) => self.joined.extend(joining.partitions),
            Err(error) => {
                self.doubt(error.code().is_none() || error.may_have_been_done());
                self.fail(error, "partitions could not join the transaction");
            }
        }
    }

    fn handle_bump(&mut self, core: &mut Core, result: Result<Initialized, Error>) {
        match result {
            Ok(Initialized { identity, .. }) => {
                self.identified(core, identity);
                self.settled(core);
            }
            Err(error) if errors::may_pass(&error) => {
                self.finish(core, Err(errors::not_aborted(Some(error), self.two_phase)));
            }
            Err(error) => {
                self.die(error);
                self.set_step(Step::Waits);
            }
        }
    }

    /// No further transaction is possible.
    fn die(&mut self, cause: Error) {
        self.state = State::Fatal(match severity(&cause) {
            Severity::Fenced => errors::fenced(cause, &self.id, self.two_phase),
            Severity::Fatal | Severity::Abortable => errors::fatal(cause, self.two_phase),
        });
    }

    fn identified(&mut self, core: &mut Core, identity: ProducerIdentity) {
        self.identity = Some(identity);
        self.state = State::Ready;
        let observer = &mut core.cluster.context.observer;
        observer.tell(Observed::ProducerIdentified {
            id: identity.id,
            epoch: identity.epoch,
        });
    }

    /// The transaction before has ended: an abort is done, and what wanted to begin goes on.
    fn settled(&mut self, core: &mut Core) {
        if self.is_aborting() {
            self.finish(core, Ok(Finished::Done));
        } else {
            self.set_step(Step::Waits);
        }
    }

    fn handle_end(
        &mut self,
        now: Instant,
        core: &mut Core,
        running: (Instant, Verb),
        result: Result<Option<ProducerIdentity>, Error>,
    ) {
        let (deadline, verb) = running;
        if let State::Prepared(prepared) = self.state {
            return self.handle_prepared_end(now, core, prepared, result);
        }
        if verb == Verb::Commit {
            return self.handle_commit(now, core, result);
        }
        let (unsettled, unsure) = match &self.state {
            State::Unsettled(end) => (Some(*end), true),
            State::Open(open) => (None, open.unsure),
            _ => (None, false),
        };
        let was_open = match &result {
            Ok(_) => true,
            Err(error) if error.code() == Some(ErrorCode::INVALID_TXN_STATE) => false,
            Err(error) if errors::may_pass(error) => {
                self.state = State::Unsettled(unsettled.unwrap_or(End::Abort));
                let error = errors::not_aborted(Some(error.clone()), self.two_phase);
                return self.finish(core, Err(error));
            }
            Err(error) => {
                self.die(error.clone());
                return self.set_step(Step::Waits);
            }
        };
        if unsettled == Some(End::Commit) {
            // The coordinator aborts what is open, and refuses to abort what was committed: so this is what happened.
            core.cluster
                .context
                .observer
                .tell(Observed::TransactionSettled {
                    id: Arc::clone(&self.id),
                    committed: !was_open,
                });
            if !was_open && verb == Verb::Abort {
                self.state = State::Unsettled(End::Committed);
                return self.finish(core, Err(errors::was_committed()));
            }
            self.state = State::Unsettled(End::Abort);
        }
        if let Ok(Some(next)) = result {
            self.identity = Some(next);
            self.state = State::Ready;
            self.markers.ended(now, core);
            return self.settled(core);
        }
        if self.facts.gap || unsure || !was_open {
            // The abort itself is done; from here on only the next epoch is missing.
            self.state = State::Unsettled(End::Abort);
            return self.bump(now, core, deadline);
        }
        self.state = State::Ready;
        self.settled(core);
    }

    fn handle_commit(
        &mut self,
        now: Instant,
        core: &mut Core,
        result: Result<Option<ProducerIdentity>, Error>,
    ) {
        let error = match result {
            Ok(next) => {
                if next.is_some() {
                    self.markers.ended(now, core);
                }
                self.identity = next.or(self.identity);
                self.state = State::Ready;
                return self.finish(core, Ok(Finished::Done));
            }
            Err(error) => error,
        };
        let silent = error.code().is_none() && error.kind() != Kind::Unsupported;
        if error.may_have_been_done() || error.is_retriable() || silent {
            self.state = State::Unsettled(End::Commit);
            return self.finish(core, Err(errors::outcome_unknown(error)));
        }
        let what = if error.code() == Some(ErrorCode::INVALID_TXN_STATE) {
            "the coordinator has aborted the transaction already, as it does with one that is open for longer than \
             transaction.timeout.ms"
        } else {
            "the coordinator did not commit the transaction"
        };
        self.fail(error, what);
        self.set_step(Step::Waits);
    }
}

impl Part for Transaction {
    fn pump(&mut self, now: Instant, core: &mut Core) {
        let waits = matches!(self.state, State::Open(_)) && self.facts.undecided;
        self.markers.pump(now, core, &self.id, waits);
        self.join(now, core);
        self.advance(now, core);
    }

    fn handle_ended(&mut self, now: Instant, core: &mut Core, ended: Ended) {
        if let Some(joining) = self.joining.take_if(|joining| joining.call == ended.id) {
            if let Some(result) = ended.answer::<AddPartitionsToTxn>() {
                self.handle_joined(joining, result);
            }
            return;
        }
        if self.markers.asked(ended.id) {
            if let Some(result) = ended.answer::<DescribeTransactions>() {
                self.markers.answered(now, result);
            }
            return;
        }
        let Some(running) = &self.running else {
            return;
        };
        let about = (running.deadline, running.verb.clone());
        match running.step {
            Step::Init(call) if call == ended.id => {
                if let Some(result) = ended.answer::<InitTransactions>() {
                    self.handle_init(core, result);
                }
            }
            Step::Bump(call) if call == ended.id => {
                if let Some(result) = ended.answer::<InitTransactions>() {
                    self.handle_bump(core, result);
                }
            }
            Step::AddOffsets(call) if call == ended.id => {
                if let Some(result) = ended.answer::<AddOffsetsToTxn>() {
                    self.handle_added(now, core, about, result);
                }
            }
            Step::CheckTopics(call) if call == ended.id => {
                if let Some(result) = ended.answer::<DescribeTopics>() {
                    self.handle_checked(now, core, about, result);
                }
            }
            Step::CommitOffsets(call, naming) if call == ended.id => {
                if let Some(result) = ended.answer::<TxnOffsetCommit>() {
                    self.handle_committed(now, core, about, (naming, result));
                }
            }
            Step::End(call) if call == ended.id => {
                if let Some(result) = ended.answer::<EndTxn>() {
                    self.handle_end(now, core, about, result);
                }
            }
            _ => {}
        }
    }

    fn abort(&mut self, _: Instant, core: &mut Core, cause: &Error) {
        let running = self.running.as_ref();
        let ends = running.filter(|running| matches!(running.step, Step::End(_)));
        let error = match (ends.map(|running| &running.verb), &self.state) {
            (Some(_), State::Prepared(prepared)) => {
                errors::not_completed(cause.clone(), prepared.commits.unwrap_or(false))
            }
            (Some(Verb::Commit), _) => errors::closed_in_commit(cause.clone()),
            _ => cause.clone(),
        };
        self.finish(core, Err(error));
    }
}
