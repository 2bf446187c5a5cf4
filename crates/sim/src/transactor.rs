//! A transactional producer as an application uses it: it begins a transaction, sends records and a
//! group's offsets in it, and commits or aborts it; it follows the advice of errors, and records
//! the results.
//!
//! Several live at once under one transactional id. None knows of the others: whoever was succeeded goes on as before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::call::{GroupMetadata, GroupOffset};
use ottla_engine::observe::Observed;
use ottla_engine::producer::{Done, NotAppended, Producer as Work, Verb, VerbId};
use ottla_engine::{Config, Engine, Error, Kind, Written};
use ottla_protocol::Uuid;

use crate::batches::{Batches, Wish};
use crate::book::Book;
use crate::chance::Chance;
use crate::history::{Fate, Incarnation, Place, Promise, RecordId, Sent, Transaction, Verdict};
use crate::host::Host;
use crate::plant::Plant;

/// How much later than its deadline a verb may end.
const MARGIN: Duration = Duration::from_secs(2);
/// An application that got an error does not try again at once.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Something that an application does in a transaction.
#[derive(Debug)]
enum Deed {
    Send(Wish),
    /// Offsets of its group for these partitions.
    Offsets(Vec<Place>),
    /// It does something else for a time.
    Rest(Duration),
}

/// What an application does in one transaction.
#[derive(Debug)]
struct Script {
    deeds: VecDeque<Deed>,
    commits: bool,
    /// It must be committed.
    is_probe: bool,
}

/// A verb that was asked for.
#[derive(Clone, Debug)]
struct Asked {
    verb: Verb,
    id: VerbId,
    /// When it must have ended.
    until: Instant,
}

/// What the application is about.
#[derive(Debug)]
enum Doing {
    /// No transaction is open, as far as it knows.
    Nothing,
    /// It waits for a verb's end.
    Waits(Asked),
    /// It works on the open transaction.
    Works,
    /// It can have no further transaction, and has closed the producer.
    Over,
}

/// A transactional producer and the application around it.
#[derive(Debug)]
pub struct Transactor {
    /// The client.
    pub host: Host<Work<u64>>,
    name: String,
    number: usize,
    /// Its place in [`crate::history::History::incarnations`].
    incarnation: usize,
    config: Arc<Config>,
    group: Arc<str>,
    plant: Option<Plant>,
    chance: Chance,
    batches: Batches,
    scripts: VecDeque<Script>,
    script: Option<Script>,
    doing: Doing,
    /// The open transaction, or the last one: its place in [`crate::history::History::transactions`].
    transaction: Option<usize>,
    /// It does nothing until then.
    rests: Option<Instant>,
    /// When the next record is abandoned that waits for its topic or for space, and whether its
    /// topic was requested.
    head: Option<(Instant, bool)>,
    protocol: u8,
    identity: Option<(i64, i16)>,
    /// Whether the transaction that had to be committed was.
    probed: Option<bool>,
    probes: usize,
    /// It was fenced, and nobody has asked about that yet.
    is_replaced: bool,
    closing: Option<Instant>,
}

impl Transactor {
    /// The next producer of the transactional id of this number, which has done nothing.
    pub fn new(
        book: &mut Book,
        id: usize,
        config: Config,
        chance: &mut Chance,
        plant: Option<Plant>,
    ) -> Transactor {
        let number = book.history.promises.len();
        book.history.promises.push(Promise {
            idempotent: true,
            ordered: true,
            acks: config.acks,
            retried: false,
            patient: Promise::is_patient(&config),
        });
        let incarnation = book.history.incarnations.len();
        let before = book.history.incarnations.iter();
        let before = before.filter(|other| other.id == id).count();
        book.history.incarnations.push(Incarnation {
            id,
            producer: number,
            asked: None,
            initialised: None,
        });
        let config = Arc::new(config);
        let engine = Engine::producer(Arc::clone(&config), chance.number());
        Transactor {
            host: Host::new(engine, chance.fork(), plant),
            name: format!("{}.{before}", config.client_id),
            number,
            incarnation,
            config,
            group: group(id),
            plant,
            chance: chance.fork(),
            batches: Batches::default(),
            scripts: VecDeque::new(),
            script: None,
            doing: Doing::Nothing,
            transaction: None,
            rests: None,
            head: None,
            protocol: 0,
            identity: None,
            probed: None,
            probes: 0,
            is_replaced: false,
            closing: None,
        }
    }

    /// Its name in traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs another transaction, after those that it was to run before: `which` chooses what is done in it.
    pub fn transact(&mut self, which: u64, topics: &[(Arc<str>, i32)]) {
        let mut chance = Chance::new(which);
        let mut deeds = VecDeque::new();
        for _ in 0..chance.below(7) {
            match chance.below(20) {
                0..=11 => {
                    let padding = chance.pick(&[0, 0, 10, 200]).unwrap_or(0);
                    for _ in 0..1 + chance.below(4) {
                        let (topic, partition) = any(&mut chance, topics);
                        deeds.push_back(Deed::Send(wish(topic, partition, padding)));
                    }
                }
                12..=14 => {
                    let places = (0..1 + chance.below(2)).map(|_| any(&mut chance, topics));
                    deeds.push_back(Deed::Offsets(places.collect()));
                }
                15..=18 => deeds.push_back(Deed::Rest(chance.millis(1, 500))),
                _ => deeds.push_back(Deed::Rest(chance.millis(1000, 6000))),
            }
        }
        let commits = chance.percent(75);
        self.plan(deeds, commits, false);
    }

    /// Writes something, and so learns whether it was succeeded.
    pub fn find_out(&mut self, topics: &[(Arc<str>, i32)]) {
        let first = topics.first().map(|(topic, _)| Arc::clone(topic));
        let send = first.map(|topic| Deed::Send(wish(topic, 0, 0)));
        self.plan(send.into_iter().collect(), true, false);
    }

    /// Writes to every partition, and commits an offset for each; that must be committed.
    pub fn probe(&mut self, topics: &[(Arc<str>, i32)]) {
        let places = topics
            .iter()
            .flat_map(|(topic, count)| (0..*count).map(|partition| (Arc::clone(topic), partition)));
        let places: Vec<Place> = places.collect();
        let sends = places.iter().cloned();
        let mut deeds: VecDeque<Deed> = sends
            .map(|(topic, partition)| Deed::Send(wish(topic, partition, 0)))
            .collect();
        deeds.push_back(Deed::Offsets(places));
        self.probed = Some(false);
        self.probes += 1;
        self.plan(deeds, true, true);
    }

    fn plan(&mut self, deeds: VecDeque<Deed>, commits: bool, is_probe: bool) {
        self.scripts.push_back(Script {
            deeds,
            commits,
            is_probe,
        });
    }

    /// Whether it can have no further transaction.
    pub fn is_over(&self) -> bool {
        matches!(self.doing, Doing::Over)
    }

    /// When it got its first identity.
    pub fn initialised_at(&self, book: &Book) -> Option<Duration> {
        book.history.incarnations.get(self.incarnation)?.initialised
    }

    /// Whether it has done all that it was asked for.
    pub fn is_done(&self) -> bool {
        let rests = matches!(self.doing, Doing::Nothing) && self.scripts.is_empty();
        (rests || self.is_over()) && self.batches.is_empty()
    }

    /// Whether the transaction of [`Transactor::probe`] was committed; `None` if there was none.
    pub fn probed(&self) -> Option<bool> {
        self.probed
    }

    /// Whether it is done with that transaction, could not commit it, and has not tried again. A request on a connection that was
    /// lost in silence while it was idle takes `request.timeout.ms`, which may be all the time that a call has: seed 1572462.
    pub fn failed_once(&self) -> bool {
        self.probed == Some(false) && self.probes == 1 && self.is_done() && !self.is_over()
    }

    /// Whether it could not commit that transaction because it was fenced before; returned once.
    pub fn take_failed_probe(&mut self) -> bool {
        self.is_over() && std::mem::take(&mut self.is_replaced)
    }

    /// It stood still: what was due meanwhile is due a little later.
    pub fn woke(&mut self, book: &mut Book) {
        let due = book.at() + MARGIN;
        let sends = book.history.sends.iter_mut();
        let own = sends.filter(|sent| sent.producer == self.number && sent.fates.is_empty());
        for sent in own {
            sent.due = sent.due.map(|at| at.max(due));
        }
        if let Doing::Waits(asked) = &mut self.doing {
            asked.until = asked.until.max(book.now);
        }
    }

    /// Does nothing more, and closes the producer when the verb that it waits for has ended, at the latest after `timeout`.
    pub fn close(&mut self, book: &mut Book, timeout: Duration) {
        self.scripts.clear();
        self.closing.get_or_insert(book.now + timeout);
        self.settle(book);
    }

    /// Whether it was closed to its end.
    pub fn is_closed(&self) -> bool {
        self.host.is_closed()
    }

    /// When [`Transactor::alarm`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let waits = match &self.doing {
            Doing::Waits(asked) => Some(asked.until + MARGIN),
            _ => None,
        };
        let head = self.head.map(|(until, _)| until);
        let all = [waits, head, self.rests, self.closing];
        all.into_iter()
            .flatten()
            .chain(self.host.next_timeout())
            .min()
    }

    /// Looks at the clock.
    pub fn alarm(&mut self, book: &mut Book) {
        self.host.alarm(book.now);
        self.settle(book);
    }

    /// Takes in what the engine has to say, and goes on.
    pub fn settle(&mut self, book: &mut Book) {
        loop {
            self.collect(book);
            if !self.go_on(book) {
                break;
            }
        }
        let is_idle = !matches!(self.doing, Doing::Waits(_));
        if self
            .closing
            .is_some_and(|until| until <= book.now || is_idle)
        {
            self.finish(book);
        }
    }

    /// Closes the producer: there is nothing left that it could do.
    fn finish(&mut self, book: &mut Book) {
        self.closing = None;
        self.doing = Doing::Over;
        self.script = None;
        self.scripts.clear();
        self.rests = None;
        self.head = None;
        let now = book.now;
        self.host.close(now);
        self.collect(book);
    }

    /// Takes in delivery results and events.
    fn collect(&mut self, book: &mut Book) {
        self.host.take_changes();
        while let Some(done) = self.host.engine.poll_done() {
            self.resolve(book, done);
        }
        while let Some(event) = self.host.poll_observed() {
            match &event {
                Observed::Retried { .. } => {
                    if let Some(promise) = book.history.promises.get_mut(self.number) {
                        promise.retried = true;
                    }
                }
                Observed::ProducerIdentified { id, epoch } => {
                    if self.identity.is_some_and(|(known, _)| known == *id) {
                        book.tally
                            .meet("transaction: its producer got the next epoch");
                    }
                    self.identity = Some((*id, *epoch));
                }
                Observed::TransactionProtocolChosen { protocol, .. } => self.protocol = *protocol,
                Observed::TransactionSettled { committed, .. } => {
                    book.tally.meet(match committed {
                        true => "transaction: settled later as committed",
                        false => "transaction: settled later as aborted",
                    });
                    if let Some(transaction) = self.known(book) {
                        transaction.settled = Some(*committed);
                    }
                }
                _ => {}
            }
            book.observe(&self.name, &event);
        }
    }

    fn resolve(&mut self, book: &mut Book, done: Done<u64>) {
        let number = done.batch;
        let Some(records) = self.batches.records(book, number, done.first, done.count) else {
            return;
        };
        for (index, id) in (0_i64..).zip(records) {
            let fate = match &done.result {
                Ok(stored) => Fate::Written(Some(stored.base_offset.saturating_add(index))),
                Err(error) if error.written() == Some(Written::No) => {
                    Fate::NotWritten(error.to_string())
                }
                Err(error) => Fate::Unknown(error.to_string()),
            };
            self.tell(book, id, fate);
        }
        self.batches.forget_if_decided(book, number);
    }

    fn tell(&mut self, book: &mut Book, id: RecordId, fate: Fate) {
        book.say(&self.name, format_args!("record {id}: {fate:?}"));
        let at = book.at();
        if let Some(sent) = book.history.sends.get_mut(id) {
            sent.fates.push((at, fate));
        }
    }

    /// The open transaction, or the last one, as it is written down.
    fn known<'a>(&self, book: &'a mut Book) -> Option<&'a mut Transaction> {
        book.history.transactions.get_mut(self.transaction?)
    }

    /// Does the next thing; false if it has to wait.
    fn go_on(&mut self, book: &mut Book) -> bool {
        match &self.doing {
            Doing::Over => return false,
            Doing::Waits(asked) => {
                let asked = asked.clone();
                return self.look(book, asked);
            }
            Doing::Nothing | Doing::Works => {}
        }
        if self.rests.is_some_and(|until| until > book.now) {
            return false;
        }
        self.rests = None;
        match self.doing {
            Doing::Works => self.work(book),
            _ if self.scripts.is_empty() => false,
            _ => {
                let incarnation = book.history.incarnations.get(self.incarnation);
                let is_new = incarnation.is_some_and(|it| it.initialised.is_none());
                let verb = if is_new { Verb::Init } else { Verb::Begin };
                self.ask(book, verb)
            }
        }
    }

    /// Starts a verb; false if that is not possible.
    fn ask(&mut self, book: &mut Book, verb: Verb) -> bool {
        let now = book.now;
        let until = now + self.config.max_block;
        let at = book.at();
        book.say(&self.name, format_args!("{verb:?}"));
        if verb == Verb::Init
            && let Some(incarnation) = book.history.incarnations.get_mut(self.incarnation)
        {
            incarnation.asked.get_or_insert(at);
        }
        if verb == Verb::Commit {
            if let Some(transaction) = self.known(book) {
                transaction.commit_asked.get_or_insert(at);
                transaction.commit_asked_last = Some(at);
            }
            if self.is_succeeded(book) {
                book.tally.meet("zombie: tried to commit");
            }
        }
        let started = self
            .host
            .work(now, |engine| engine.start_verb(now, &verb, until));
        match started {
            Ok(Some(id)) => {
                self.doing = Doing::Waits(Asked { verb, id, until });
                true
            }
            Ok(None) => {
                let text = format!("{}: {verb:?} while another verb runs", self.name);
                book.history.complain("R14", "stuck", text);
                false
            }
            Err(error) => {
                self.give_up(book, &error);
                false
            }
        }
    }

    /// Whether another producer of its id was initialised after it, as the run knows and it does not.
    fn is_succeeded(&self, book: &Book) -> bool {
        let all = &book.history.incarnations;
        let own = all.get(self.incarnation);
        own.is_some_and(|own| {
            let mut later = all.iter().filter(|other| other.id == own.id);
            later.any(|other| other.asked > own.initialised && other.initialised.is_some())
        })
    }

    /// Looks whether a verb has ended; false if it has not.
    fn look(&mut self, book: &mut Book, asked: Asked) -> bool {
        let ended = self.host.engine.take_verb(asked.id);
        let Some(result) = ended.map(|result| result.map(drop)) else {
            if asked.until + MARGIN <= book.now {
                let text = format!("{}: {:?} has not ended in time", self.name, asked.verb);
                book.history.complain("R14", "stuck", text);
                self.finish(book);
            }
            return false;
        };
        match &result {
            Ok(()) => book.say(&self.name, format_args!("{:?}: done", asked.verb)),
            Err(error) => book.say(&self.name, format_args!("{:?}: {error}", asked.verb)),
        }
        match (asked.verb, result) {
            (Verb::Init, result) => self.initialised(book, result),
            (Verb::Begin, result) => self.begun(book, result),
            (Verb::SendOffsets { offsets, .. }, result) => self.sent(book, &offsets, result),
            (Verb::Commit, result) => self.committed(book, result),
            (Verb::Abort, result) => self.aborted(book, result),
            // It never starts these.
            (Verb::Keep | Verb::Prepare | Verb::Complete { .. }, _) => self.doing = Doing::Nothing,
        }
        true
    }

    fn initialised(&mut self, book: &mut Book, result: Result<(), Error>) {
        self.doing = Doing::Nothing;
        let at = book.at();
        match result {
            Ok(()) => {
                if let Some(incarnation) = book.history.incarnations.get_mut(self.incarnation) {
                    incarnation.initialised = Some(at);
                }
            }
            Err(error) => self.try_again(book, &error),
        }
    }

    fn begun(&mut self, book: &mut Book, result: Result<(), Error>) {
        self.doing = Doing::Nothing;
        if let Err(error) = result {
            if error.kind() == Kind::Timeout && self.chance.percent(50) {
                self.scripts.pop_front();
            }
            return self.try_again(book, &error);
        }
        self.script = self.scripts.pop_front();
        self.transaction = Some(book.history.transactions.len());
        let begun = book.at();
        book.history.transactions.push(Transaction {
            incarnation: self.incarnation,
            begun,
            records: Vec::new(),
            offsets: Vec::new(),
            commit_asked: None,
            commit_asked_last: None,
            verdict: None,
            settled: None,
        });
        self.doing = Doing::Works;
    }

    /// An error before a transaction began: later it may go better, unless nothing ever will.
    fn try_again(&mut self, book: &mut Book, error: &Error) {
        match error.kind() {
            Kind::Fenced | Kind::Fatal | Kind::Closed => self.give_up(book, error),
            _ => self.rests = Some(book.now + AFTER_ERROR),
        }
    }

    /// No further transaction is possible.
    fn give_up(&mut self, book: &mut Book, error: &Error) {
        if error.kind() == Kind::Fenced {
            book.tally.meet("transaction: its producer was fenced");
            self.is_replaced = true;
        }
        book.say(&self.name, format_args!("stops: {error}"));
        self.finish(book);
    }

    /// The next deed of the open transaction, or its end.
    fn work(&mut self, book: &mut Book) -> bool {
        let script = self.script.as_mut();
        let Some(deed) = script.and_then(|script| script.deeds.pop_front()) else {
            let commits = self.script.as_ref().is_some_and(|script| script.commits);
            return self.ask(book, if commits { Verb::Commit } else { Verb::Abort });
        };
        match deed {
            Deed::Rest(time) => {
                self.rests = Some(book.now + time);
                true
            }
            Deed::Offsets(places) => {
                let verb = self.offsets(book, places);
                self.ask(book, verb)
            }
            Deed::Send(wish) => self.send(book, wish),
        }
    }

    /// Offsets that no other transaction commits.
    fn offsets(&mut self, book: &mut Book, places: Vec<Place>) -> Verb {
        let transaction = self.transaction.unwrap_or_default();
        let earlier = book.history.transactions.get(transaction);
        let earlier = earlier.map_or(0, |transaction| transaction.offsets.len());
        let offset = |index: usize| i64::try_from(transaction * 100 + earlier + index).unwrap_or(0);
        let rows = places.into_iter().enumerate();
        let rows = rows.map(|(index, (topic, partition))| GroupOffset {
            topic,
            partition,
            offset: offset(index),
            leader_epoch: -1,
            metadata: "".into(),
            topic_id: Uuid::ZERO,
        });
        let mut offsets: Vec<GroupOffset> = Vec::new();
        for row in rows {
            let is_there = |other: &GroupOffset| {
                (&other.topic, other.partition) == (&row.topic, row.partition)
            };
            if !offsets.iter().any(is_there) {
                offsets.push(row);
            }
        }
        Verb::SendOffsets {
            group: GroupMetadata::outside(Arc::clone(&self.group)),
            offsets,
        }
    }

    fn send(&mut self, book: &mut Book, wish: Wish) -> bool {
        let now = book.now;
        let id = book.history.sends.len();
        let sent = Sent {
            producer: self.number,
            transaction: self.transaction,
            topic: Arc::clone(&wish.topic),
            asked: wish.partition,
            placed: None,
            due: None,
            fates: Vec::new(),
        };
        book.history.sends.push(sent);
        let patience = self.config.delivery_timeout;
        match self
            .batches
            .append(book, &mut self.host, patience, id, &wish)
        {
            Ok(()) => {
                let at = book.at();
                if self.is_succeeded(book) {
                    book.tally.meet("zombie: tried to write");
                }
                if let Some(transaction) = self.known(book) {
                    transaction.records.push((at, id));
                }
                self.moved_on(&wish);
                true
            }
            Err(NotAppended::Failed(error) | NotAppended::UnknownPartition(error)) => {
                self.tell(book, id, Fate::NotWritten(error.to_string()));
                self.moved_on(&wish);
                self.fail(book, &error)
            }
            Err(refusal) => {
                book.history.sends.pop();
                let (until, asked) = self.head.unwrap_or((now + self.config.max_block, false));
                let is_unknown = matches!(refusal, NotAppended::UnknownTopic);
                self.head = Some((until, asked || is_unknown));
                if is_unknown && !asked {
                    let topic = &wish.topic;
                    self.host.work(now, |engine| engine.want_topic(now, topic));
                }
                if until <= now {
                    // It does without this record.
                    self.moved_on(&wish);
                    return true;
                }
                let may_go = is_unknown && !asked && self.host.engine.knows_topic(&wish.topic);
                if let Some(script) = &mut self.script {
                    script.deeds.push_front(Deed::Send(wish));
                }
                may_go
            }
        }
    }

    /// The record that waited does not wait any more.
    fn moved_on(&mut self, wish: &Wish) {
        if self.head.take().is_some_and(|(_, asked)| asked) {
            self.host.engine.give_up_topic(&wish.topic);
        }
    }

    /// Something in the open transaction failed: mostly it is aborted, and some try to commit it
    /// nevertheless.
    fn fail(&mut self, book: &mut Book, error: &Error) -> bool {
        match error.kind() {
            Kind::Fenced | Kind::Fatal | Kind::Closed => {
                self.give_up(book, error);
                false
            }
            _ => {
                if error.kind() == Kind::Abortable {
                    book.tally.meet("transaction: could only be aborted");
                }
                if let Some(script) = &mut self.script {
                    script.deeds.clear();
                    script.commits = self.chance.percent(20);
                }
                self.doing = Doing::Works;
                true
            }
        }
    }

    fn sent(&mut self, book: &mut Book, offsets: &[GroupOffset], result: Result<(), Error>) {
        self.doing = Doing::Works;
        match result {
            Ok(()) => {
                if let Some(transaction) = self.known(book) {
                    let rows = offsets.iter();
                    let rows =
                        rows.map(|row| ((Arc::clone(&row.topic), row.partition), row.offset));
                    transaction.offsets.extend(rows);
                }
            }
            Err(error) => {
                self.fail(book, &error);
            }
        }
    }

    fn decide(&mut self, book: &mut Book, verdict: Verdict) {
        if let Some(transaction) = self.known(book) {
            transaction.verdict.get_or_insert(verdict);
        }
    }

    fn committed(&mut self, book: &mut Book, result: Result<(), Error>) {
        self.doing = Doing::Nothing;
        let is_probe = self.script.as_ref().is_some_and(|script| script.is_probe);
        let error = match result {
            Ok(()) => {
                book.tally.meet(match self.protocol {
                    1 => "transaction: committed with protocol 1",
                    _ => "transaction: committed with protocol 2",
                });
                let transaction = self.known(book);
                if transaction.is_some_and(|transaction| !transaction.offsets.is_empty()) {
                    book.tally
                        .meet("transaction: offsets were committed with it");
                }
                if is_probe {
                    self.probed = Some(true);
                }
                return self.decide(book, Verdict::Committed);
            }
            Err(error) => error,
        };
        self.note_time(book);
        match error.kind() {
            Kind::OutcomeUnknown => {
                book.tally
                    .meet("transaction: whether it was committed was not known");
                let is_refused = error.code().is_some_and(|code| !code.is_retriable());
                let verdict = match self.plant {
                    Some(Plant::UnknownCommitAssumed) => Verdict::Committed,
                    Some(Plant::UnknownCommitForgotten) => Verdict::NotCommitted,
                    Some(Plant::RefusedCommitForgotten) if is_refused => Verdict::NotCommitted,
                    _ => Verdict::Unknown,
                };
                if is_refused {
                    book.tally
                        .meet("transaction: a refused commit may have been carried out");
                }
                self.decide(book, verdict);
                self.rests = Some(book.now + AFTER_ERROR);
                // A new producer learns how it ended, and so does an abort.
                if self.chance.percent(30) {
                    self.doing = Doing::Works;
                    if let Some(script) = &mut self.script {
                        script.commits = false;
                    }
                }
            }
            Kind::Fenced | Kind::Fatal | Kind::Closed => {
                self.decide(book, Verdict::NotCommitted);
                self.give_up(book, &error);
            }
            // It is still open, and may yet be committed.
            Kind::Timeout => {
                book.tally.meet("transaction: was not flushed in time");
                self.doing = Doing::Works;
                if let Some(script) = &mut self.script {
                    script.commits = self.chance.percent(50);
                }
            }
            _ => {
                book.tally.meet("transaction: could only be aborted");
                self.decide(book, Verdict::NotCommitted);
                self.doing = Doing::Works;
                if let Some(script) = &mut self.script {
                    script.commits = false;
                }
            }
        }
    }

    /// Counts transactions that their coordinator may have ended.
    fn note_time(&mut self, book: &mut Book) {
        let timeout = self.config.transaction_timeout;
        let at = book.at();
        let transaction = self.known(book);
        if transaction.is_some_and(|transaction| transaction.begun + timeout < at) {
            book.tally.meet("transaction: took longer than its timeout");
        }
    }

    fn aborted(&mut self, book: &mut Book, result: Result<(), Error>) {
        self.doing = Doing::Nothing;
        match result {
            Ok(()) => {
                book.tally.meet("transaction: aborted");
                self.decide(book, Verdict::NotCommitted);
            }
            Err(error) => {
                self.note_time(book);
                match error.kind() {
                    // A refused login may work again.
                    kind if kind == Kind::Timeout || error.is_final() => {
                        book.tally
                            .meet("transaction: an abort was not known to be done");
                        // A new producer ends it first, and so does another abort.
                        if self.chance.percent(50) {
                            self.doing = Doing::Works;
                        }
                        self.rests = Some(book.now + AFTER_ERROR);
                    }
                    _ => self.give_up(book, &error),
                }
            }
        }
    }
}

/// The group whose offsets the producers of a transactional id commit.
pub fn group(id: usize) -> Arc<str> {
    format!("group-{id}").into()
}

fn wish(topic: Arc<str>, partition: i32, padding: usize) -> Wish {
    Wish {
        topic,
        partition: Some(partition),
        key: None,
        padding,
    }
}

/// Any partition.
fn any(chance: &mut Chance, topics: &[(Arc<str>, i32)]) -> Place {
    match topics.get(chance.below(topics.len())) {
        Some((topic, count)) => (Arc::clone(topic), chance.from_to(0, count - 1)),
        None => ("".into(), 0),
    }
}
