//! An admin client as an application uses it: it makes and deletes topics of its own, requests data
//! about them and about those of others, and records the results.
//!
//! Nobody else touches its topics, and it never changes one that it is changing already, so it
//! knows the true state. A topic whose state is unknown after a failed call is not used again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::admin::Admin as Work;
use ottla_engine::call::{
    Call, ClusterDescription, ClusterMetadata, CreateTopics, DeleteTopics, DescribeProducers,
    DescribeTopics, EARLIEST, LATEST, ListOffsets, ListTopics, Ticket, TopicKey,
};
use ottla_engine::messages::create_topics_request::CreatableTopic;
use ottla_engine::{Config, Engine, Error, Kind};
use ottla_protocol::ErrorCode;

use crate::book::Book;
use crate::chance::Chance;
use crate::history::{Act, Before, Called, Ended, Told};
use crate::host::Host;
use crate::plant::Plant;

/// A running call.
#[derive(Debug)]
enum Asked {
    Create(Ticket<CreateTopics>),
    Delete(Ticket<DeleteTopics>),
    Describe(Ticket<DescribeTopics>),
    List(Ticket<ListTopics>),
    Cluster(Ticket<ClusterMetadata>),
    Offsets(Ticket<ListOffsets>),
    Producers(Ticket<DescribeProducers>),
}

/// An admin client and the application around it.
#[derive(Debug)]
pub struct Admin {
    /// The client.
    pub host: Host<Work>,
    name: String,
    number: usize,
    plant: Option<Plant>,
    /// The running calls, by their place in [`crate::history::History::calls`].
    running: BTreeMap<usize, Asked>,
    topics: BTreeMap<Arc<str>, Before>,
    next_topic: usize,
    replication: i32,
    told: u32,
}

impl Admin {
    /// An admin client that has done nothing; `number` is its place among them, and topics get at most `nodes` replicas.
    pub fn new(
        number: usize,
        nodes: i32,
        config: Config,
        chance: &mut Chance,
        plant: Option<Plant>,
    ) -> Admin {
        let name = config.client_id.clone();
        let engine = Engine::admin(Arc::new(config), chance.number());
        Admin {
            host: Host::new(engine, chance.fork(), plant),
            name,
            number,
            plant,
            running: BTreeMap::new(),
            topics: BTreeMap::new(),
            next_topic: 0,
            replication: nodes,
            told: 0,
        }
    }

    /// Its name in traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does something that `which` chooses; `others` are partitions that it does not own.
    pub fn act(&mut self, book: &mut Book, which: u64, others: &[(Arc<str>, i32)]) {
        let mut chance = Chance::new(which);
        let patience = chance.millis(500, 12_000);
        match chance.below(100) {
            0..=29 => {
                self.create(book, &mut chance, patience);
            }
            30..=44 => {
                if let Some(name) =
                    self.pick(&mut chance, |known| matches!(known, Before::Present(_)))
                {
                    self.delete(book, name, patience);
                }
            }
            45..=49 => {
                // An existing topic must not be created again.
                if let Some(name) =
                    self.pick(&mut chance, |known| matches!(known, Before::Present(_)))
                {
                    let act = Act::Create(name, chance.from_to(1, 3));
                    self.ask(book, act, patience);
                }
            }
            50..=54 => {
                let name: Arc<str> = format!("absent-{}-{which:x}", self.number).into();
                self.delete(book, name, patience);
            }
            55..=74 => {
                if let Some(name) = self.pick(&mut chance, |_| true) {
                    self.ask(book, Act::Describe(name), patience);
                }
            }
            75..=79 => self.ask(book, Act::List, patience),
            80..=82 => self.ask(book, Act::Cluster, patience),
            number => {
                let Some((topic, count)) = others.get(chance.below(others.len())) else {
                    return;
                };
                let place = (Arc::clone(topic), chance.from_to(0, count - 1));
                let act = match number {
                    83..=88 => Act::Offsets(place, EARLIEST),
                    89..=96 => Act::Offsets(place, LATEST),
                    _ => Act::Producers(place),
                };
                self.ask(book, act, patience);
            }
        }
    }

    /// Makes a topic; its place in [`crate::history::History::calls`].
    pub fn create(&mut self, book: &mut Book, chance: &mut Chance, patience: Duration) -> usize {
        let name: Arc<str> = format!("own-{}-{}", self.number, self.next_topic).into();
        self.next_topic += 1;
        self.topics.insert(Arc::clone(&name), Before::Absent);
        let number = book.history.calls.len();
        self.ask(book, Act::Create(name, chance.from_to(1, 3)), patience);
        number
    }

    fn delete(&mut self, book: &mut Book, name: Arc<str>, patience: Duration) {
        self.ask(book, Act::Delete(name), patience);
    }

    /// A topic that is not being changed, and of which this holds.
    fn pick(&self, chance: &mut Chance, is: impl Fn(&Before) -> bool) -> Option<Arc<str>> {
        let fit: Vec<_> = self.topics.iter().filter(|(_, known)| is(known)).collect();
        let (name, _) = fit.get(chance.below(fit.len()))?;
        Some(Arc::clone(name))
    }

    fn before(&self, act: &Act) -> Before {
        match act {
            Act::Create(name, _) | Act::Delete(name) | Act::Describe(name) => {
                self.topics.get(name).copied().unwrap_or(Before::Absent)
            }
            _ => Before::Unsure,
        }
    }

    fn ask(&mut self, book: &mut Book, act: Act, patience: Duration) {
        book.say(&self.name, format_args!("{act:?} within {patience:?}"));
        let until = book.now + patience;
        let before = self.before(&act);
        let number = book.history.calls.len();
        book.history.calls.push(Called {
            act: act.clone(),
            before,
            begun: book.at(),
            due: book.at() + patience,
            ended: None,
        });
        let asked = match act {
            Act::Create(name, partitions) => {
                self.topics.insert(Arc::clone(&name), Before::Unsure);
                let replication = 1 + number as i32 % self.replication;
                let topic = CreatableTopic {
                    name: (&*name).into(),
                    num_partitions: partitions,
                    replication_factor: i16::try_from(replication).unwrap_or(1),
                    ..CreatableTopic::default()
                };
                let call = CreateTopics {
                    topics: vec![topic],
                    validate_only: false,
                    timeout_ms: 1000,
                };
                Asked::Create(self.start(book, call, until))
            }
            Act::Delete(name) => {
                self.topics.insert(Arc::clone(&name), Before::Unsure);
                let call = DeleteTopics {
                    topics: vec![TopicKey::Name(name.to_string())],
                    timeout_ms: 1000,
                };
                Asked::Delete(self.start(book, call, until))
            }
            Act::Describe(name) => {
                let call = DescribeTopics::at_once(vec![name.to_string()]);
                Asked::Describe(self.start(book, call, until))
            }
            Act::List => Asked::List(self.start(book, ListTopics, until)),
            Act::Cluster => {
                Asked::Cluster(self.start(book, ClusterMetadata { operations: false }, until))
            }
            Act::Offsets((topic, partition), time) => {
                let wanted = vec![(topic, partition, time)];
                Asked::Offsets(self.start(book, ListOffsets { wanted }, until))
            }
            Act::Producers(place) => {
                let partitions = vec![place];
                Asked::Producers(self.start(book, DescribeProducers { partitions }, until))
            }
        };
        self.running.insert(number, asked);
        self.settle(book);
    }

    fn start<C: Call>(&mut self, book: &Book, call: C, until: Instant) -> Ticket<C> {
        let now = book.now;
        self.host.work(now, |engine| engine.ask(now, call, until))
    }

    /// Closes it.
    pub fn close(&mut self, book: &mut Book) {
        let now = book.now;
        if self.plant != Some(Plant::CloseHangs) {
            self.host.close(now);
        }
        self.settle(book);
    }

    /// Whether it was closed to its end.
    pub fn is_closed(&self) -> bool {
        self.host.is_closed()
    }

    /// Whether every call has ended.
    pub fn is_done(&self) -> bool {
        self.running.is_empty()
    }

    /// When [`Admin::alarm`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.host.next_timeout()
    }

    /// Looks at the clock.
    pub fn alarm(&mut self, book: &mut Book) {
        self.host.alarm(book.now);
        self.settle(book);
    }

    /// Handles the engine's output.
    pub fn settle(&mut self, book: &mut Book) {
        while let Some(event) = self.host.poll_observed() {
            book.observe(&self.name, &event);
        }
        self.host.take_changes();
        let numbers: Vec<usize> = self.running.keys().copied().collect();
        for number in numbers {
            let Some(asked) = self.running.get(&number) else {
                continue;
            };
            let engine = &mut self.host.engine;
            let told = match asked {
                Asked::Create(ticket) => engine.take_answer(ticket).map(done),
                Asked::Delete(ticket) => engine.take_answer(ticket).map(done),
                Asked::Describe(ticket) => {
                    let count = |topic: Describable| Told::Topic(topic.partitions.len() as i32);
                    engine.take_answer(ticket).map(|found| one(found, count))
                }
                Asked::List(ticket) => engine.take_answer(ticket).map(|found| {
                    let names = |topic: &Describable| topic.name.as_deref().map(str::to_owned);
                    let listed =
                        |answer: Metadata| answer.topics.iter().filter_map(names).collect();
                    found.map_or_else(|error| failure(&error), |all| Told::Topics(listed(all)))
                }),
                Asked::Cluster(ticket) => engine.take_answer(ticket).map(|found| {
                    let ids = |cluster: ClusterDescription| {
                        cluster.nodes.iter().map(|it| it.id).collect()
                    };
                    found.map_or_else(|error| failure(&error), |all| Told::Nodes(ids(all)))
                }),
                Asked::Offsets(ticket) => engine
                    .take_answer(ticket)
                    .map(|found| one(found, |found| Told::Offset(found.offset))),
                Asked::Producers(ticket) => engine
                    .take_answer(ticket)
                    .map(|found| one(found, |found| Told::Producers(found.len()))),
            };
            if let Some(told) = told {
                self.told += 1;
                if self.plant == Some(Plant::CallsUnanswered) && self.told.is_multiple_of(5) {
                    self.running.remove(&number);
                    continue;
                }
                self.end(book, number, told);
            }
        }
    }

    fn end(&mut self, book: &mut Book, number: usize, told: Told) {
        self.running.remove(&number);
        book.say(&self.name, format_args!("call {number}: {told:?}"));
        let at = book.at();
        let Some(call) = book.history.calls.get_mut(number) else {
            return;
        };
        book.tally.meet(told.state());
        let after = call.after(&told);
        if let (Act::Create(name, _) | Act::Delete(name), Some(after)) = (&call.act, after) {
            self.topics.insert(Arc::clone(name), after);
        }
        let made = match (&call.act, &told) {
            (Act::Create(name, _), Told::Done) => Some(Arc::clone(name)),
            _ => None,
        };
        call.ended = Some(Ended {
            at,
            told,
            cluster: None,
        });
        book.unproven.push(number);
        // The first thing that an application does with its topic.
        if let Some(name) = made.filter(|_| number.is_multiple_of(2) && !self.is_closed()) {
            self.ask(book, Act::Describe(name), Duration::from_secs(8));
        }
    }
}

type Metadata = ottla_engine::messages::MetadataResponse;
type Describable = ottla_engine::messages::metadata_response::MetadataResponseTopic;

/// The result of a call with one item.
fn one<T>(found: Result<Vec<Result<T, Error>>, Error>, read: impl Fn(T) -> Told) -> Told {
    let first = found.map(|found| found.into_iter().next());
    match first {
        Ok(Some(Ok(found))) => read(found),
        Ok(Some(Err(error))) | Err(error) => failure(&error),
        Ok(None) => Told::Unknown("no result".to_owned()),
    }
}

fn done(found: Result<Vec<Result<(), Error>>, Error>) -> Told {
    one(found, |()| Told::Done)
}

/// What an error means for an application: that something was surely not done, or nothing.
fn failure(error: &Error) -> Told {
    let text = error.to_string();
    if error.may_have_been_done() {
        return Told::Unknown(text);
    }
    match (error.code(), error.kind()) {
        (Some(code), _) => Told::Refused(code, text),
        (None, Kind::Unsupported | Kind::Argument) => {
            Told::Refused(ErrorCode::UNSUPPORTED_VERSION, text)
        }
        (None, _) => Told::Unknown(text),
    }
}
