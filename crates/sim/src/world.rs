//! The world of a run: a clock that jumps from one event to the next, a network of byte streams, clients on one side and brokers
//! on the other. It knows what happens when, and nothing of why.
//!
//! ```text
//!   clients ──Out──▶ network: delays, pieces, cuts ──▶ gate ──▶ brokers
//!      ▲                                                │          │
//!      └──────────────── network ◀───────── gate ◀──────┴──────────┘
//! ```
//!
//! What one connection carries in one direction stays in order, as TCP keeps it. Everything else may overtake.

mod commits;
mod coordinators;
mod elections;
mod faults;
mod network;
mod shares;
mod watch;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ottla_engine::{Error, LinkId};
use ottla_protocol::ApiKey;

use crate::book::Book;
use crate::brokers::{Brokers, Served};
use crate::chance::Chance;
use crate::client::Client;
use crate::gate::Gate;
use crate::history::{Act, Place};
use crate::host::Ending;
use crate::keeper::Keeper;
use crate::plan::{Fault, Stage, Weather};
use crate::plant::Plant;
use crate::plant::share::Memory;
use crate::tally::Tally;

/// This many events in one moment mean that time stands still.
const LIVELY: u64 = 1_000_000;

/// What can happen at a moment.
#[derive(Debug)]
enum Event {
    ToNode(u64, Bytes),
    ToClient(u64, Bytes),
    EndForNode(u64),
    EndForClient(u64, Ending),
    /// A dial reaches the node, or gets another response.
    Dialled(usize, LinkId, i32),
    DialFailed(usize, LinkId, Error),
    Alarm(usize),
    BrokersAlarm,
    /// A fault ends.
    Heal(Fault),
    /// A topic that was deleted is recreated.
    Anew(usize),
    /// A client that stood still goes on.
    Wakes(usize),
}

/// An event and its place in time; events of one moment happen in the order in which they were planned.
#[derive(Debug)]
struct Entry {
    at: Instant,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A connection, from the moment that the node took it.
#[derive(Debug)]
struct Wire {
    client: usize,
    link: LinkId,
    node: i32,
    gate: Gate,
    /// Nothing arrives before what was sent earlier.
    node_hears_from: Instant,
    client_hears_from: Instant,
    client_open: bool,
    node_open: bool,
    /// Packets are lost in both directions, and nobody is notified.
    half_open: bool,
}

/// What is wrong at the moment, by node, until when.
#[derive(Debug, Default)]
struct Wrong {
    dead: BTreeMap<i32, Instant>,
    paused: BTreeMap<i32, Instant>,
    unreachable: BTreeMap<i32, Instant>,
    vanished: BTreeMap<i32, Instant>,
    refusing: BTreeMap<i32, Instant>,
    /// Nodes that copy nothing.
    still: BTreeMap<i32, Instant>,
    slow: Option<(Duration, Instant)>,
    /// Until when followers lag.
    lag: Option<Instant>,
    /// Nodes that hear late what the controller decides.
    deaf: BTreeMap<i32, Instant>,
    /// Nodes that refuse all credentials.
    strangers: BTreeMap<i32, Instant>,
}

/// A coordinator's move that waits for its step.
#[derive(Debug)]
struct Planned {
    stage: Stage,
    /// The request is handled first.
    after: bool,
}

/// A commit to which a broker has not responded: its number, its owner, and its version.
#[derive(Clone, Copy, Debug)]
struct Commit {
    number: usize,
    process: usize,
    version: i16,
}

/// Requests of members of share groups that are under way, by their connections and correlation ids.
#[derive(Debug, Default)]
struct Shares {
    asked: BTreeMap<(u64, i32), Asked>,
    /// Responses that are not whole yet, by connection.
    input: BTreeMap<u64, BytesMut>,
    /// How often nodes died.
    deaths: BTreeMap<i32, u32>,
    /// What a planted defect of a broker remembers.
    memory: Memory,
}

/// One of them: its number, its owner, its request and the version.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: usize,
    process: usize,
    api: ApiKey,
    version: i16,
}

/// Everything in a run.
pub struct World {
    /// What is written down.
    pub book: Book,
    /// All clients.
    pub clients: Vec<Client>,
    /// Names and partitions of topics, by their numbers.
    pub topics: Vec<(std::sync::Arc<str>, i32)>,
    /// The cluster.
    pub brokers: Brokers,
    chance: Chance,
    weather: Weather,
    heap: BinaryHeap<Reverse<Entry>>,
    planned: u64,
    wires: BTreeMap<u64, Wire>,
    numbers: BTreeMap<(usize, LinkId), u64>,
    next_wire: u64,
    alarms: Vec<Option<Instant>>,
    brokers_alarm: Option<Instant>,
    wrong: Wrong,
    /// Leaders that were replaced and have not heard of it: topic, partition, node.
    deposed: BTreeMap<(std::sync::Arc<str>, i32, i32), Instant>,
    /// Partitions with an unclean election of which some node has not heard.
    unheard: Vec<Place>,
    /// Coordinators that are to move, and whether one is to when it writes markers.
    moves: Vec<Planned>,
    awaits_markers: bool,
    /// Commits of groups that are under way, by their connections and correlation ids.
    commits: BTreeMap<(u64, i32), Commit>,
    /// What passes between members of share groups and brokers.
    shares: Shares,
    /// Pending events of clients that stand still.
    asleep: BTreeMap<usize, Vec<Event>>,
    /// Clients that the network lets nobody reach.
    cut_off: BTreeMap<usize, Instant>,
    keeper: Keeper,
    /// Events that happened, and those of this moment.
    pub events: u64,
    at_once: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("book", &self.book)
            .finish_non_exhaustive()
    }
}

impl World {
    /// A world in good weather, with nobody in it.
    pub fn new(
        book: Book,
        brokers: Brokers,
        chance: Chance,
        weather: Weather,
        plant: Option<Plant>,
    ) -> World {
        World {
            book,
            clients: Vec::new(),
            topics: Vec::new(),
            brokers,
            chance,
            weather,
            heap: BinaryHeap::new(),
            planned: 0,
            wires: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_wire: 0,
            alarms: Vec::new(),
            brokers_alarm: None,
            wrong: Wrong::default(),
            deposed: BTreeMap::new(),
            unheard: Vec::new(),
            moves: Vec::new(),
            awaits_markers: false,
            commits: BTreeMap::new(),
            shares: Shares::default(),
            asleep: BTreeMap::new(),
            cut_off: BTreeMap::new(),
            keeper: Keeper::new(plant),
            events: 0,
            at_once: 0,
        }
    }

    /// From now on brokers lie at times.
    pub fn turn_hostile(&mut self, lies: Chance) {
        self.keeper.lies = Some(lies);
    }

    /// Whether the states in responses for transactions are counted.
    pub fn set_counting(&mut self, counts: bool) {
        self.keeper.counts = counts;
    }

    /// What was met at the brokers' doors.
    pub fn tally(&self) -> &Tally {
        &self.keeper.tally
    }

    /// How often brokers lied.
    pub fn lied(&self) -> u64 {
        self.keeper.lied
    }

    /// A client joins; its number.
    pub fn join(&mut self, client: Client) -> usize {
        self.clients.push(client);
        self.alarms.push(None);
        self.clients.len() - 1
    }

    /// Lets a client do something, and does what follows from it.
    pub fn with<R>(
        &mut self,
        client: usize,
        f: impl FnOnce(&mut Client, &mut Book) -> R,
    ) -> Option<R> {
        let known = self.clients.get_mut(client)?;
        let result = f(known, &mut self.book);
        self.serve_client(client);
        Some(result)
    }

    /// Lets everything happen up to this moment.
    pub fn run_until(&mut self, until: Instant) {
        self.serve_brokers();
        while self
            .heap
            .peek()
            .is_some_and(|Reverse(entry)| entry.at <= until)
        {
            let Some(Reverse(entry)) = self.heap.pop() else {
                break;
            };
            if entry.at > self.book.now {
                self.book.now = entry.at;
                self.at_once = 0;
            }
            self.events += 1;
            self.at_once += 1;
            if self.at_once == LIVELY {
                let text = format!("{LIVELY} events in one moment");
                self.book.history.complain("R14", "livelock", text);
                self.heap.clear();
                break;
            }
            self.happen(entry.event);
        }
        self.book.now = self.book.now.max(until);
    }

    fn plan(&mut self, at: Instant, event: Event) {
        let number = self.planned;
        self.planned += 1;
        self.heap.push(Reverse(Entry { at, number, event }));
    }

    fn happen(&mut self, event: Event) {
        let Some(event) = self.let_sleep(event) else {
            return;
        };
        match event {
            Event::ToNode(wire, bytes) => self.node_hears(wire, bytes),
            Event::ToClient(wire, bytes) => self.client_hears(wire, &bytes),
            Event::EndForNode(wire) => self.end_for_node(wire),
            Event::EndForClient(wire, ending) => self.end_for_client(wire, ending),
            Event::Dialled(client, link, node) => self.dialled(client, link, node),
            Event::DialFailed(client, link, error) => {
                let now = self.book.now;
                self.with(client, |client, _| client.dialled(now, link, Err(error)));
            }
            Event::Alarm(client) => self.alarm(client),
            Event::BrokersAlarm => {
                self.brokers_alarm = None;
                let now = self.book.now;
                self.brokers.handle_timeout(now);
                self.move_at_markers();
                self.serve_brokers();
            }
            Event::Heal(fault) => self.heal(&fault),
            Event::Anew(topic) => self.create(topic),
            Event::Wakes(client) => self.wake(client),
        }
    }

    /// What happens to a client that stands still happens when it goes on.
    fn let_sleep(&mut self, event: Event) -> Option<Event> {
        if self.asleep.is_empty() {
            return Some(event);
        }
        let client = match &event {
            Event::ToClient(wire, _) | Event::EndForClient(wire, _) => {
                self.wires.get(wire).map(|wire| wire.client)
            }
            Event::Dialled(client, ..) | Event::DialFailed(client, ..) | Event::Alarm(client) => {
                Some(*client)
            }
            _ => None,
        };
        match client.and_then(|client| self.asleep.get_mut(&client)) {
            Some(waiting) => {
                waiting.push(event);
                None
            }
            None => Some(event),
        }
    }

    /// A client that stood still goes on.
    fn wake(&mut self, client: usize) {
        let Some(waiting) = self.asleep.remove(&client) else {
            return;
        };
        if let Some(client) = self.clients.get_mut(client) {
            self.book.say(client.name(), "goes on");
            client.woke(&mut self.book);
        }
        for event in waiting {
            self.happen(event);
        }
        self.serve_client(client);
    }

    /// Whether a client stands still.
    pub fn is_asleep(&self, client: usize) -> bool {
        self.asleep.contains_key(&client)
    }

    fn alarm(&mut self, client: usize) {
        let now = self.book.now;
        match self.alarms.get_mut(client) {
            Some(alarm) if alarm.is_some_and(|at| at <= now) => *alarm = None,
            _ => return,
        }
        self.with(client, |client, book| client.alarm(book));
    }

    /// Does what a client wants done, and sets its alarm.
    fn serve_client(&mut self, number: usize) {
        loop {
            let Some(client) = self.clients.get_mut(number) else {
                return;
            };
            client.settle(&mut self.book);
            let (again, refused) = client.take_logins();
            for _ in 0..again {
                self.book.tally.meet("client: authenticated again");
            }
            for _ in 0..refused {
                self.book.tally.meet("client: was refused by a node");
            }
            self.prove();
            let mut idle = true;
            while let Some(out) = self.clients.get_mut(number).and_then(Client::poll_out) {
                idle = false;
                self.act(number, out);
            }
            if idle {
                break;
            }
        }
        let wanted = self.clients.get(number).and_then(Client::next_timeout);
        let (Some(wanted), Some(alarm)) = (wanted, self.alarms.get(number)) else {
            return;
        };
        let wanted = wanted.max(self.book.now);
        if alarm.is_none_or(|at| wanted < at) {
            self.plan(wanted, Event::Alarm(number));
            if let Some(alarm) = self.alarms.get_mut(number) {
                *alarm = Some(wanted);
            }
        }
    }

    /// Writes down how the cluster itself has the topics of calls that have ended.
    fn prove(&mut self) {
        for number in std::mem::take(&mut self.book.unproven) {
            let Some(call) = self.book.history.calls.get_mut(number) else {
                continue;
            };
            let (Act::Create(name, _) | Act::Delete(name) | Act::Describe(name)) = &call.act else {
                continue;
            };
            if let Some(ended) = &mut call.ended {
                let found = self.brokers.topic(name);
                ended.cluster = found.map(|topic| (topic.id, topic.partitions));
            }
        }
    }

    /// Passes on what brokers do, and sets their alarm.
    fn serve_brokers(&mut self) {
        while let Some(mut served) = self.brokers.poll() {
            let number = match &served {
                Served::Bytes(number, _) | Served::Close(number) => *number,
            };
            if let Served::Bytes(_, bytes) = &mut served {
                self.note_answered(number, bytes);
                *bytes = self.share_answered(number, std::mem::take(bytes));
            }
            let Some(wire) = self.wires.get_mut(&number) else {
                continue;
            };
            match served {
                Served::Bytes(_, bytes) => wire.gate.hear_broker(&bytes, &mut self.keeper),
                Served::Close(_) => wire.gate.broker_closed(),
            }
            self.serve_wire(number);
        }
        let Some(wanted) = self.brokers.next_timeout() else {
            return;
        };
        let wanted = wanted.max(self.book.now);
        if self.brokers_alarm.is_none_or(|at| wanted < at) {
            self.brokers_alarm = Some(wanted);
            self.plan(wanted, Event::BrokersAlarm);
        }
    }
}
