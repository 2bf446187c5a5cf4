//! The transaction coordinator: all transactional ids, their transactions, and what is to be written for them.
//!
//! Like [`state`], it has neither clock nor sockets nor a log: `now` is an argument, replies come
//! out under the ticket of their request, and what it wants done comes out as [`Effect`]s. Whoever
//! drives it appends the records, reports when they are safe ([`Transactions::appended`]), writes
//! the markers, reports each that is safe ([`Transactions::marked`]), and calls
//! [`Transactions::handle_timeout`] at [`Transactions::next_timeout`].

mod record;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;

pub(crate) use self::record::{Record, decode};
use self::state::{Ended, Initialized, NO_TIMEOUT};
pub(crate) use self::state::{Identity, Metadata, NO_EPOCH, NO_PRODUCER, Protocol, Status};
use crate::now::Now;
use crate::storage::producers::Marker;

/// How long what nobody asked for waits after it could not be written.
const RETRY_MS: i64 = 1000;

/// A partition: its topic and its index.
pub(crate) type Place = (String, i32);

#[derive(Debug, Clone, Copy)]
pub(crate) struct TransactionConfig {
    /// `transaction.max.timeout.ms`.
    pub(crate) max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`.
    pub(crate) expiration_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`: how often ids are looked for that nobody uses.
    pub(crate) expiration_check_ms: i64,
    /// `transaction.two.phase.commit.enable`.
    pub(crate) two_phase: bool,
}

/// The part of the log that an id is kept in, and the epoch of its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) partition: i32,
    pub(crate) epoch: i32,
}

/// An InitProducerId request.
#[derive(Debug, Clone)]
pub(crate) struct Init {
    pub(crate) id: String,
    pub(crate) timeout_ms: i32,
    /// The identity that the producer sends as its own, if it does (KIP-360).
    pub(crate) expected: Option<Identity>,
    /// Only its owner ends a transaction (KIP-939).
    pub(crate) two_phase: bool,
    /// An open transaction stays open, for the producer to end it (KIP-939).
    pub(crate) keeps: bool,
}

/// Partitions that are to be in a transaction, or should be.
#[derive(Debug, Clone)]
pub(crate) struct Add {
    pub(crate) id: String,
    pub(crate) producer: Identity,
    pub(crate) partitions: Vec<Place>,
    pub(crate) how: Adding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adding {
    /// They are added, by a client of this protocol.
    Add(Protocol),
    /// It is only said which are there.
    Verify,
}

/// An EndTxn request.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) id: String,
    pub(crate) producer: Identity,
    pub(crate) commits: bool,
    pub(crate) client: Protocol,
}

/// The reply to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Who the producer is now.
    Producer(Result<Identity, ErrorCode>),
    /// The same, and whose transaction it may end.
    Kept {
        producer: Identity,
        ongoing: Identity,
    },
    /// A code for each partition of an [`Add`], in its order.
    Partitions(Vec<ErrorCode>),
}

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Effect<T> {
    Reply(T, Reply),
    /// The record is to be appended to a partition of the log.
    Append(Append),
    /// A marker is to be written to a partition.
    Mark(Mark),
}

#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) step: Step,
    pub(crate) partition: i32,
    pub(crate) record: Result<Record, String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) step: Step,
    pub(crate) place: Place,
    pub(crate) marker: Marker,
}

/// A step of one id. Another follows when it is done; the results of an abandoned step are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    id: String,
    number: u64,
}

/// One line of ListTransactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed<'a> {
    pub(crate) id: &'a str,
    pub(crate) producer_id: i64,
    pub(crate) status: Status,
    pub(crate) started_ms: i64,
}

#[derive(Debug)]
pub(crate) struct Transactions<T> {
    config: TransactionConfig,
    broker: Protocol,
    /// The parts of the log that were read.
    loaded: BTreeSet<i32>,
    entries: BTreeMap<String, Entry<T>>,
    effects: VecDeque<Effect<T>>,
    /// Each id's next deadline in milliseconds since 1970, soonest first.
    deadlines: BTreeSet<(i64, String)>,
    /// The newest time that was passed in.
    now: Option<Now>,
    /// The first time that was passed in, in milliseconds since 1970: looks for unused ids are
    /// counted from there.
    began_ms: Option<i64>,
    steps: u64,
}

#[derive(Debug)]
struct Entry<T> {
    home: Home,
    metadata: Metadata,
    writing: Option<Writing<T>>,
    /// The partitions whose markers are not safe yet, and the step that writes them.
    marking: Option<(u64, BTreeSet<Place>)>,
    deadline: Option<i64>,
}

/// A state that is on its way to the log.
#[derive(Debug)]
struct Writing<T> {
    number: u64,
    /// `None`: the id is forgotten.
    next: Option<Metadata>,
    reply: Option<(T, Reply)>,
}

impl<T> Transactions<T> {
    pub(crate) fn new(config: TransactionConfig) -> Self {
        Self {
            config,
            broker: Protocol::default(),
            loaded: BTreeSet::new(),
            entries: BTreeMap::new(),
            effects: VecDeque::new(),
            deadlines: BTreeSet::new(),
            now: None,
            began_ms: None,
            steps: 0,
        }
    }

    /// What time it is, and what the broker speaks.
    pub(crate) fn set(&mut self, now: Now, broker: Protocol) {
        self.now = Some(now);
        self.began_ms.get_or_insert(now.unix_ms);
        self.broker = broker;
    }

    fn now_ms(&self) -> i64 {
        self.now.map_or(0, |now| now.unix_ms)
    }

    // Requests.

    /// Whether the next request of this id needs a producer id that nobody has.
    pub(crate) fn needs_producer_id(&self, id: &str) -> bool {
        let entry = self.entries.get(id);
        entry.is_none_or(|entry| entry.metadata.is_exhausted())
    }

    /// InitProducerId.
    pub(crate) fn init(&mut self, init: Init, home: Home, fresh_id: Option<i64>, ticket: T) {
        if let Err(code) = self.try_init(&init, home, fresh_id) {
            let refused = Reply::Producer(Err(code));
            self.effects.push_back(Effect::Reply(ticket, refused));
            return;
        }
        self.answer_when_written(&init.id, ticket, |it| match it.status {
            // The transaction before it must end first.
            Status::PrepareAbort => Reply::Producer(Err(ErrorCode::CONCURRENT_TRANSACTIONS)),
            Status::Ongoing => Reply::Kept {
                producer: it.owner(),
                ongoing: it.identity(),
            },
            _ => Reply::Producer(Ok(it.identity())),
        });
    }

    fn try_init(
        &mut self,
        init: &Init,
        home: Home,
        fresh_id: Option<i64>,
    ) -> Result<(), ErrorCode> {
        if init.id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if init.two_phase && !self.config.two_phase {
            return Err(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        }
        let timeout_ms = if init.two_phase {
            NO_TIMEOUT
        } else if (1..=self.config.max_timeout_ms).contains(&init.timeout_ms) {
            init.timeout_ms
        } else {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        };
        self.check_loaded(home)?;
        let (now_ms, broker) = (self.now_ms(), self.broker);
        if !self.entries.contains_key(&init.id) {
            let producer_id = fresh_id.ok_or(ErrorCode::CONCURRENT_TRANSACTIONS)?;
            let metadata = Metadata::new(producer_id, timeout_ms, now_ms);
            self.entries
                .insert(init.id.clone(), Entry::new(home, metadata));
        }
        let entry = self.idle(&init.id)?;
        entry.home = home;
        let (expected, keeps) = (init.expected, init.keeps);
        let metadata = &entry.metadata;
        let next = metadata.init(expected, keeps, timeout_ms, fresh_id, broker, now_ms)?;
        let (Initialized::Ready(next) | Initialized::Aborting(next) | Initialized::Kept(next)) =
            next;
        self.write(&init.id, Some(next));
        Ok(())
    }

    /// AddPartitionsToTxn and its like.
    pub(crate) fn add(&mut self, add: &Add, home: Home, ticket: T) {
        let answer = match add.how {
            Adding::Verify => self.verify(add, home),
            Adding::Add(client) => match self.try_add(add, home, client) {
                Ok(Written::Yes) => None,
                Ok(Written::NotNeeded) => Some(ErrorCode::NONE),
                Err(code) => Some(code),
            }
            .map(|code| vec![code; add.partitions.len()]),
        };
        match answer {
            Some(codes) => {
                let reply = Reply::Partitions(codes);
                self.effects.push_back(Effect::Reply(ticket, reply));
            }
            None => {
                let codes = vec![ErrorCode::NONE; add.partitions.len()];
                self.answer_when_written(&add.id, ticket, |_| Reply::Partitions(codes));
            }
        }
    }

    fn try_add(&mut self, add: &Add, home: Home, client: Protocol) -> Result<Written, ErrorCode> {
        if add.id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        self.check_loaded(home)?;
        let now_ms = self.now_ms();
        let entry = self.idle(&add.id)?;
        let metadata = &entry.metadata;
        match metadata.add(add.producer, &add.partitions, client, now_ms)? {
            Some(next) => {
                self.write(&add.id, Some(next));
                Ok(Written::Yes)
            }
            None => Ok(Written::NotNeeded),
        }
    }

    /// What is on its way to the log does not count: a partition is verified when its transaction is safe.
    fn verify(&self, add: &Add, home: Home) -> Option<Vec<ErrorCode>> {
        let code = |place: &Place| {
            self.check_loaded(home)?;
            let known = self.entries.get(&add.id);
            let known = known.ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
            known.metadata.verify(add.producer, place)
        };
        let codes = add.partitions.iter().map(code);
        Some(
            codes
                .map(|it| it.err().unwrap_or(ErrorCode::NONE))
                .collect(),
        )
    }

    /// EndTxn.
    pub(crate) fn end(&mut self, end: &End, home: Home, fresh_id: Option<i64>, ticket: T) {
        match self.try_end(end, home, fresh_id) {
            Ok(None) => self.answer_when_written(&end.id, ticket, |next| {
                Reply::Producer(Ok(next.identity_after()))
            }),
            Ok(Some(known)) => {
                let reply = Reply::Producer(Ok(known));
                self.effects.push_back(Effect::Reply(ticket, reply));
            }
            Err(code) => {
                let reply = Reply::Producer(Err(code));
                self.effects.push_back(Effect::Reply(ticket, reply));
            }
        }
    }

    fn try_end(
        &mut self,
        end: &End,
        home: Home,
        fresh_id: Option<i64>,
    ) -> Result<Option<Identity>, ErrorCode> {
        if end.id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        self.check_loaded(home)?;
        let now_ms = self.now_ms();
        let entry = self.idle(&end.id)?;
        let metadata = &entry.metadata;
        match metadata.end(end.producer, end.commits, end.client, fresh_id, now_ms)? {
            Ended::Already(known) => Ok(Some(known)),
            Ended::Ending(next) => {
                self.write(&end.id, Some(next));
                Ok(None)
            }
        }
    }

    pub(crate) fn describe(&self, id: &str, home: Home) -> Result<&Metadata, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        self.check_loaded(home)?;
        let entry = self.entries.get(id);
        entry
            .map(|entry| &entry.metadata)
            .ok_or(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)
    }

    pub(crate) fn list(&self) -> impl Iterator<Item = Listed<'_>> {
        self.entries.iter().map(|(id, entry)| Listed {
            id,
            producer_id: entry.metadata.producer_id,
            status: entry.metadata.status,
            started_ms: entry.metadata.started_ms,
        })
    }

    fn check_loaded(&self, home: Home) -> Result<(), ErrorCode> {
        if self.loaded.contains(&home.partition) {
            Ok(())
        } else {
            Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)
        }
    }

    /// The id, of which nothing is on its way to the log.
    fn idle(&mut self, id: &str) -> Result<&mut Entry<T>, ErrorCode> {
        let entry = self.entries.get_mut(id);
        let entry = entry.ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
        if entry.writing.is_some() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        Ok(entry)
    }

    // What follows.

    /// Has the next state of an id written to the log.
    fn write(&mut self, id: &str, next: Option<Metadata>) {
        self.steps += 1;
        let number = self.steps;
        let broker = self.broker;
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let record = record::encode(id, next.as_ref(), broker);
        entry.writing = Some(Writing {
            number,
            next,
            reply: None,
        });
        self.effects.push_back(Effect::Append(Append {
            step: Step {
                id: id.to_owned(),
                number,
            },
            partition: entry.home.partition,
            record: record.map_err(|error| error.to_string()),
        }));
        self.schedule(id);
    }

    fn answer_when_written(&mut self, id: &str, ticket: T, reply: impl FnOnce(&Metadata) -> Reply) {
        let entry = self.entries.get_mut(id);
        let writing = entry.and_then(|entry| entry.writing.as_mut());
        if let Some(writing) = writing
            && let Some(next) = &writing.next
        {
            writing.reply = Some((ticket, reply(next)));
        }
    }

    /// The record of a step is safe: its state counts.
    pub(crate) fn appended(&mut self, step: &Step) {
        let Some(writing) = self.take_writing(step) else {
            return;
        };
        if let Some((ticket, reply)) = writing.reply {
            self.effects.push_back(Effect::Reply(ticket, reply));
        }
        match writing.next {
            Some(next) => {
                if let Some(entry) = self.entries.get_mut(&step.id) {
                    entry.metadata = next;
                }
                self.mark(&step.id);
                self.schedule(&step.id);
            }
            None => self.remove(&step.id),
        }
    }

    /// The record of a step did not come into the log.
    pub(crate) fn append_failed(&mut self, step: &Step, code: ErrorCode) {
        let Some(writing) = self.take_writing(step) else {
            return;
        };
        if let Some((ticket, reply)) = writing.reply {
            self.effects
                .push_back(Effect::Reply(ticket, reply.failed(code)));
        }
        let entry = self.entries.get(&step.id);
        if entry.is_some_and(|entry| entry.metadata.epoch == NO_EPOCH) {
            self.remove(&step.id);
        } else {
            self.schedule_from(&step.id, self.now_ms().saturating_add(RETRY_MS));
        }
    }

    fn take_writing(&mut self, step: &Step) -> Option<Writing<T>> {
        let entry = self.entries.get_mut(&step.id)?;
        let is_due = entry.writing.as_ref()?.number == step.number;
        entry.writing.take_if(|_| is_due)
    }

    /// Has the markers of an ending transaction written.
    fn mark(&mut self, id: &str) {
        self.steps += 1;
        let number = self.steps;
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let metadata = &entry.metadata;
        if !metadata.status.is_ending() {
            return;
        }
        let marker = Marker {
            producer_id: metadata.producer_id,
            epoch: metadata.epoch,
            coordinator_epoch: entry.home.epoch,
            commits: metadata.status == Status::PrepareCommit,
        };
        let partitions = metadata.partitions.iter();
        let places: BTreeSet<Place> = partitions
            .flat_map(|(topic, indexes)| indexes.iter().map(move |index| (topic.clone(), *index)))
            .collect();
        for place in &places {
            self.effects.push_back(Effect::Mark(Mark {
                step: Step {
                    id: id.to_owned(),
                    number,
                },
                place: place.clone(),
                marker,
            }));
        }
        entry.marking = Some((number, places));
        self.complete_if_marked(id);
    }

    /// A marker is safe, or its partition is gone.
    pub(crate) fn marked(&mut self, step: &Step, place: &Place) {
        let entry = self.entries.get_mut(&step.id);
        let marking = entry.and_then(|entry| entry.marking.as_mut());
        if let Some((_, places)) = marking.filter(|(number, _)| *number == step.number) {
            places.remove(place);
            self.complete_if_marked(&step.id);
        }
    }

    fn complete_if_marked(&mut self, id: &str) {
        let now_ms = self.now_ms();
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let is_done = entry.marking.take_if(|(_, places)| places.is_empty());
        if is_done.is_some() {
            let next = entry.metadata.completed(now_ms);
            self.write(id, Some(next));
        }
    }

    /// What is to be done next.
    pub(crate) fn take_effect(&mut self) -> Option<Effect<T>> {
        self.effects.pop_front()
    }

    /// Puts back effects that were taken and not seen to.
    pub(crate) fn put_back(&mut self, effects: Vec<Effect<T>>) {
        for effect in effects.into_iter().rev() {
            self.effects.push_front(effect);
        }
    }

    // Coordinators come and go.

    pub(crate) fn leads(&self, partition: i32) -> bool {
        self.loaded.contains(&partition)
    }

    /// This node coordinates the ids of this part of the log from here on; [`Transactions::load`] follows for each of them.
    pub(crate) fn lead(&mut self, home: Home, kept: BTreeMap<String, Metadata>) {
        self.unload(|partition| partition == home.partition);
        self.loaded.insert(home.partition);
        for (id, metadata) in kept {
            self.entries.insert(id.clone(), Entry::new(home, metadata));
            self.mark(&id);
            self.schedule(&id);
        }
    }

    /// Another node coordinates the ids of such parts of the log from here on; pending requests get
    /// an error.
    pub(crate) fn unload(&mut self, is_gone: impl Fn(i32) -> bool) {
        self.loaded.retain(|partition| !is_gone(*partition));
        let gone = self.entries.iter();
        let gone = gone.filter(|(_, entry)| is_gone(entry.home.partition));
        for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let entry = self.entries.get_mut(&id);
            let writing = entry.and_then(|entry| entry.writing.take());
            if let Some((ticket, reply)) = writing.and_then(|it| it.reply) {
                let reply = reply.failed(ErrorCode::NOT_COORDINATOR);
                self.effects.push_back(Effect::Reply(ticket, reply));
            }
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(entry) = self.entries.remove(id)
            && let Some(deadline) = entry.deadline
        {
            self.deadlines.remove(&(deadline, id.to_owned()));
        }
    }

    // Timers.

    /// The clock was moved: pending retries are done at once, since their time may be far away now.
    pub(crate) fn reschedule(&mut self) {
        let ids: Vec<String> = self.deadlines.iter().map(|(_, id)| id.clone()).collect();
        for id in ids {
            self.schedule(&id);
        }
    }

    fn schedule(&mut self, id: &str) {
        self.schedule_from(id, i64::MIN);
    }

    /// As [`Self::schedule`], but not before `earliest`.
    fn schedule_from(&mut self, id: &str, earliest: i64) {
        let began_ms = self.began_ms.unwrap_or_default();
        let interval_ms = self.config.expiration_check_ms;
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let deadline = match (&entry.writing, &entry.marking) {
            (Some(_), _) => None,
            // All markers are written, and that could not be: it is tried again.
            (None, None) if entry.metadata.status.is_ending() => Some(earliest),
            (None, _) => {
                let deadline = entry.metadata.deadline(self.config.expiration_ms);
                match entry.metadata.status {
                    Status::Ongoing => deadline,
                    _ => deadline.map(|due| next_look(due, began_ms, interval_ms)),
                }
            }
        };
        let deadline = deadline.map(|deadline| deadline.max(earliest));
        if deadline != entry.deadline {
            if let Some(old) = std::mem::replace(&mut entry.deadline, deadline) {
                self.deadlines.remove(&(old, id.to_owned()));
            }
            if let Some(new) = deadline {
                self.deadlines.insert((new, id.to_owned()));
            }
        }
    }

    /// When [`Transactions::handle_timeout`] has something to do next, by the newest time that was
    /// passed in.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let now = self.now?;
        let (deadline, _) = self.deadlines.first()?;
        let left = u64::try_from(deadline.saturating_sub(now.unix_ms)).unwrap_or(0);
        now.instant.checked_add(Duration::from_millis(left))
    }

    /// Aborts the transactions that take too long, forgets the ids that nobody uses, and tries again what could not be written.
    pub(crate) fn handle_timeout(&mut self) {
        let (now_ms, broker) = (self.now_ms(), self.broker);
        while let Some((_, id)) = self
            .deadlines
            .first()
            .filter(|(deadline, _)| *deadline <= now_ms)
            .cloned()
        {
            let Some(entry) = self.entries.get(&id) else {
                return;
            };
            let next = match entry.metadata.status {
                Status::Ongoing => Some(entry.metadata.fenced(broker, now_ms)),
                status if status.is_ending() => Some(entry.metadata.completed(now_ms)),
                _ => None,
            };
            self.write(&id, next);
        }
    }
}

/// The first look at or after `due`, of those that come every `interval_ms` from `began_ms` on.
fn next_look(due: i64, began_ms: i64, interval_ms: i64) -> i64 {
    let past = due.saturating_sub(began_ms).rem_euclid(interval_ms.max(1));
    match past {
        0 => due,
        past => due.saturating_add(interval_ms.saturating_sub(past)),
    }
}

enum Written {
    Yes,
    NotNeeded,
}

impl<T> Entry<T> {
    fn new(home: Home, metadata: Metadata) -> Self {
        Self {
            home,
            metadata,
            writing: None,
            marking: None,
            deadline: None,
        }
    }
}

impl Reply {
    /// The same, had it not come into the log.
    fn failed(self, code: ErrorCode) -> Self {
        match self {
            Self::Producer(_) | Self::Kept { .. } => Self::Producer(Err(code)),
            Self::Partitions(codes) => Self::Partitions(vec![code; codes.len()]),
        }
    }
}
