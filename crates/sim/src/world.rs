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

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_engine::{Error, Kind, LinkId};
use ottla_protocol::messages::{FetchRequest, ProduceRequest};
use ottla_protocol::{ApiKey, Message, Str, Uuid};

use crate::book::Book;
use crate::brokers::{Brokers, Served};
use crate::chance::Chance;
use crate::client::Client;
use crate::gate::{Gate, Keeper, ToClient};
use crate::history::Act;
use crate::host::{Ending, Out};
use crate::plan::{Fault, Weather};
use crate::plant::Plant;

/// So many events in one moment, and time stands still.
const LIVELY: u64 = 1_000_000;

/// What can happen at a moment.
#[derive(Debug)]
enum Event {
    ToNode(u64, Bytes),
    ToClient(u64, Bytes),
    EndForNode(u64),
    EndForClient(u64, Ending),
    /// A dial reaches the node, or is answered for it.
    Dialled(usize, LinkId, i32),
    DialFailed(usize, LinkId, Error),
    Alarm(usize),
    BrokersAlarm,
    /// A fault ends.
    Heal(Fault),
    /// A topic that was deleted comes anew.
    Anew(usize),
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
    /// Packets are lost in both directions, and nobody is told.
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
            keeper: Keeper::new(plant),
            events: 0,
            at_once: 0,
        }
    }

    /// From now on brokers lie at times.
    pub fn turn_hostile(&mut self, lies: Chance) {
        self.keeper.lies = Some(lies);
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

    /// Connections that a client holds open. A node may not hear of the end of one whose packets are lost.
    pub fn open_wires(&self) -> usize {
        let held = |wire: &&Wire| wire.client_open;
        self.wires.values().filter(held).count()
    }

    fn plan(&mut self, at: Instant, event: Event) {
        let number = self.planned;
        self.planned += 1;
        self.heap.push(Reverse(Entry { at, number, event }));
    }

    fn happen(&mut self, event: Event) {
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
                self.serve_brokers();
            }
            Event::Heal(fault) => self.heal(&fault),
            Event::Anew(topic) => self.create(topic),
        }
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

    fn act(&mut self, client: usize, out: Out) {
        match out {
            Out::Dial { link, host, port } => self.dial(client, link, &host, port),
            Out::Send { link, bytes } => {
                if let Some(wire) = self.numbers.get(&(client, link)).copied() {
                    self.send(wire, bytes, true, Duration::ZERO);
                }
            }
            Out::Close { link } => {
                let Some(number) = self.numbers.remove(&(client, link)) else {
                    return;
                };
                let delay = self.delay();
                let Some(wire) = self.wires.get_mut(&number) else {
                    return;
                };
                wire.client_open = false;
                let at = wire.node_hears_from.max(self.book.now + delay);
                if !wire.node_open {
                    self.wires.remove(&number);
                } else {
                    self.plan(at, Event::EndForNode(number));
                }
            }
        }
    }

    fn delay(&mut self) -> Duration {
        let (least, most) = self.weather.delay;
        let slow = self.wrong.slow.filter(|(_, until)| *until > self.book.now);
        self.chance.time(least, most) + slow.map_or(Duration::ZERO, |(by, _)| by)
    }

    fn dial(&mut self, client: usize, link: LinkId, host: &str, port: u16) {
        let at = self.book.now + self.delay();
        let name = self
            .clients
            .get(client)
            .map(|client| client.name().to_owned());
        self.book.say(
            name.unwrap_or_default(),
            format_args!("dials {host}:{port}"),
        );
        let node: Option<i32> = host.strip_prefix('n').and_then(|node| node.parse().ok());
        match (node, host) {
            (Some(node), _) => self.plan(at, Event::Dialled(client, link, node)),
            (None, "silent") => self
                .book
                .tally
                .strike("dial: a bootstrap address is silent"),
            (None, "refused") => {
                self.book.tally.strike("dial: a bootstrap address refuses");
                let error = Error::new(Kind::Unreachable, "connection refused");
                self.plan(at, Event::DialFailed(client, link, error));
            }
            (None, _) => {
                self.book.tally.strike("dial: a bootstrap name is unknown");
                let error = Error::new(Kind::Unresolved, "the name is unknown");
                self.plan(at, Event::DialFailed(client, link, error));
            }
        }
    }

    fn dialled(&mut self, client: usize, link: LinkId, node: i32) {
        let now = self.book.now;
        let until =
            |wrong: &BTreeMap<i32, Instant>| wrong.get(&node).copied().filter(|at| *at > now);
        if until(&self.wrong.vanished).is_some() {
            self.book.tally.strike("dial: hangs");
            return;
        }
        let held = until(&self.wrong.unreachable).or(until(&self.wrong.paused));
        if let Some(at) = held {
            return self.plan(at, Event::Dialled(client, link, node));
        }
        if until(&self.wrong.dead).is_some() || until(&self.wrong.refusing).is_some() {
            self.book.tally.strike("dial: refused");
            let error = Error::new(Kind::Unreachable, "connection refused");
            self.with(client, |client, _| client.dialled(now, link, Err(error)));
            return;
        }
        if !self
            .clients
            .get(client)
            .is_some_and(|client| client.has_link(link))
        {
            return;
        }
        let number = self.next_wire;
        self.next_wire += 1;
        let wire = Wire {
            client,
            link,
            node,
            gate: Gate::new(node),
            node_hears_from: now,
            client_hears_from: now,
            client_open: true,
            node_open: true,
            half_open: false,
        };
        self.wires.insert(number, wire);
        self.numbers.insert((client, link), number);
        self.brokers.connect(now, node, number);
        self.with(client, |client, _| client.dialled(now, link, Ok(())));
    }

    /// Sends bytes on a wire, in pieces if the network cuts them.
    fn send(&mut self, number: u64, bytes: Bytes, to_node: bool, later: Duration) {
        let delay = self.delay() + later;
        let cuts = self.chance.percent(self.weather.pieces);
        let Some(wire) = self.wires.get(&number) else {
            return;
        };
        if wire.half_open {
            let node = wire.node;
            self.book
                .tally
                .strike("network: bytes lost on a half-open connection");
            let gone = self.wrong.vanished.get(&node);
            if to_node && gone.is_none_or(|until| *until <= self.book.now) {
                // Whoever is there again knows nothing of this connection, and says so.
                if let Some(wire) = self.wires.get_mut(&number) {
                    wire.half_open = false;
                }
                self.hang_up(number, Ending::Reset, Duration::ZERO);
            }
            return;
        }
        let node = wire.node;
        let mut at = self.book.now + delay;
        if let Some(until) = self
            .wrong
            .unreachable
            .get(&node)
            .filter(|until| **until > self.book.now)
        {
            self.book.tally.strike("network: bytes held up");
            at = at.max(*until);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = match cuts {
                true => rest.split_to((1 + self.chance.below(rest.len())).min(rest.len())),
                false => rest.split_to(rest.len()),
            };
            if !rest.is_empty() {
                self.book.tally.strike("network: a stream cut in pieces");
            }
            at = self.arrive(number, at, piece, to_node);
        }
    }

    fn arrive(&mut self, number: u64, at: Instant, piece: Bytes, to_node: bool) -> Instant {
        let Some(wire) = self.wires.get_mut(&number) else {
            return at;
        };
        let from = match to_node {
            true => &mut wire.node_hears_from,
            false => &mut wire.client_hears_from,
        };
        *from = at.max(*from);
        let at = *from;
        let event = match to_node {
            true => Event::ToNode(number, piece),
            false => Event::ToClient(number, piece),
        };
        self.plan(at, event);
        at + Duration::from_micros(20)
    }

    fn node_hears(&mut self, number: u64, bytes: Bytes) {
        let now = self.book.now;
        let Some(wire) = self.wires.get_mut(&number).filter(|wire| wire.node_open) else {
            return;
        };
        let node = wire.node;
        if let Some(until) = self.wrong.paused.get(&node).filter(|until| **until > now) {
            self.book
                .tally
                .strike("node: bytes waited for a paused node");
            return self.plan(*until, Event::ToNode(number, bytes));
        }
        let frames = wire
            .gate
            .hear_client(&bytes, &mut self.keeper, &mut self.book.tally);
        for frame in frames {
            self.tell(number, &frame);
            self.meet_deposed(node, &frame);
            self.brokers.handle(now, node, number, &frame);
        }
        self.serve_wire(number);
        self.serve_brokers();
    }

    /// Counts what a leader is asked that has not heard of its successor.
    fn meet_deposed(&mut self, node: i32, frame: &Bytes) {
        if self.deposed.keys().all(|(_, _, old)| *old != node) {
            return;
        }
        let head = ottla_protocol::header::decode_request_header(frame.slice(4..));
        let Ok((header, mut body)) = head else { return };
        let version = header.api_version;
        let places: Vec<(Str, Uuid, i32)> = match ApiKey::from_i16(header.api_key) {
            Some(ApiKey::Produce) => {
                let Ok(request) = ProduceRequest::decode(version, &mut body) else {
                    return;
                };
                let topics = request.topic_data.into_iter();
                let rows = topics.flat_map(|topic| {
                    let rows = topic.partition_data.into_iter();
                    rows.map(move |row| (topic.name.clone(), topic.topic_id, row.index))
                });
                rows.collect()
            }
            Some(ApiKey::Fetch) => {
                let Ok(request) = FetchRequest::decode(version, &mut body) else {
                    return;
                };
                let topics = request.topics.into_iter();
                let rows = topics.flat_map(|topic| {
                    let rows = topic.partitions.into_iter();
                    rows.map(move |row| (topic.topic.clone(), topic.topic_id, row.partition))
                });
                rows.collect()
            }
            _ => return,
        };
        let is_deposed = self.deposed.keys().any(|(topic, partition, old)| {
            let id = self.brokers.topic(topic).map(|topic| Uuid(topic.id));
            *old == node
                && places.iter().any(|(name, by_id, index)| {
                    index == partition && (**name == **topic || id == Some(*by_id))
                })
        });
        if is_deposed {
            self.book.tally.meet(match header.api_key {
                0 => "cluster: a leader of the past was asked to write",
                _ => "cluster: a leader of the past was asked to read",
            });
        }
    }

    /// Writes a request into the trace.
    fn tell(&mut self, number: u64, frame: &Bytes) {
        if !self.book.trace.is_kept() {
            return;
        }
        let Some(wire) = self.wires.get(&number) else {
            return;
        };
        let name = self
            .clients
            .get(wire.client)
            .map_or("", |client| client.name());
        let head = ottla_protocol::header::decode_request_header(frame.slice(4..));
        let Ok((header, _)) = head else { return };
        let api = ApiKey::from_i16(header.api_key).map_or("?", ApiKey::name);
        let (version, id) = (header.api_version, header.correlation_id);
        let text = format!("{name} #{number}: {api} {version} ({id})");
        let who = format!("node {}", wire.node);
        self.book.say(who, text);
    }

    fn client_hears(&mut self, number: u64, bytes: &[u8]) {
        let now = self.book.now;
        let Some(wire) = self
            .wires
            .get(&number)
            .filter(|wire| wire.client_open && !wire.half_open)
        else {
            return;
        };
        let (client, link) = (wire.client, wire.link);
        self.with(client, |client, _| client.received(now, link, bytes));
    }

    fn end_for_node(&mut self, number: u64) {
        let Some(wire) = self.wires.get_mut(&number) else {
            return;
        };
        if wire.node_open {
            wire.node_open = false;
            let node = wire.node;
            if !wire.client_open {
                self.wires.remove(&number);
            }
            self.brokers.disconnect(node, number);
            self.serve_brokers();
        }
    }

    fn end_for_client(&mut self, number: u64, ending: Ending) {
        let now = self.book.now;
        let Some(wire) = self.wires.get_mut(&number).filter(|wire| wire.client_open) else {
            return;
        };
        let (client, link) = (wire.client, wire.link);
        if wire.half_open {
            return;
        }
        wire.client_open = false;
        wire.node_open = false;
        self.numbers.remove(&(client, link));
        self.wires.remove(&number);
        self.with(client, |client, _| client.ended(now, link, ending));
    }

    /// Passes on what brokers do, and sets their alarm.
    fn serve_brokers(&mut self) {
        while let Some(served) = self.brokers.poll() {
            let number = match &served {
                Served::Bytes(number, _) | Served::Close(number) => *number,
            };
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

    /// Passes on what a gate lets out.
    fn serve_wire(&mut self, number: u64) {
        loop {
            let Some(wire) = self.wires.get_mut(&number).filter(|wire| wire.node_open) else {
                return;
            };
            let node = wire.node;
            let Some(out) = wire.gate.poll() else {
                return;
            };
            let until = self.wrong.paused.get(&node).copied();
            let held = until.map_or(Duration::ZERO, |until| {
                until.saturating_duration_since(self.book.now)
            });
            match out {
                ToClient::Bytes(bytes, delay) => self.send(number, bytes, false, delay.max(held)),
                ToClient::Bytewise(mut bytes) => {
                    while !bytes.is_empty() {
                        self.send(number, bytes.split_to(1), false, held);
                    }
                }
                ToClient::Close => self.hang_up(number, Ending::Closed, held),
            }
        }
    }

    /// The node's end of a connection is gone.
    fn hang_up(&mut self, number: u64, ending: Ending, later: Duration) {
        let delay = self.delay() + later;
        let now = self.book.now;
        let Some(wire) = self.wires.get_mut(&number).filter(|wire| wire.node_open) else {
            return;
        };
        wire.node_open = false;
        let at = match ending {
            Ending::Closed => wire.client_hears_from.max(now + delay),
            // What was on its way is lost.
            Ending::Reset => now + delay,
        };
        let node = wire.node;
        self.plan(at, Event::EndForClient(number, ending));
        self.brokers.disconnect(node, number);
    }

    fn wires_of(&self, node: i32) -> Vec<u64> {
        let wires = self.wires.iter().filter(|(_, wire)| wire.node == node);
        wires.map(|(number, _)| *number).collect()
    }

    /// Something goes wrong.
    pub fn strike(&mut self, fault: &Fault) {
        let now = self.book.now;
        self.book.say("fault", format_args!("{fault:?}"));
        let mut struck = true;
        let mut name = fault.name();
        match *fault {
            Fault::Dies(node, how, lasting) => {
                self.book.history.leaders_lost = true;
                let topics: Vec<&str> = self.topics.iter().map(|(name, _)| &**name).collect();
                let how = self.brokers.stop(now, node, how, &topics);
                name = Fault::Dies(node, how, lasting).name();
                for wire in self.wires_of(node) {
                    self.hang_up(wire, Ending::Reset, Duration::ZERO);
                }
                self.lasts(fault, lasting);
                self.wrong.dead.insert(node, now + lasting);
                // Who starts learns what was decided.
                self.deposed.retain(|(_, _, old), _| *old != node);
            }
            Fault::Pauses(node, lasting) => {
                self.wrong.paused.insert(node, now + lasting);
                self.stand_still(node, fault, lasting);
            }
            Fault::StandsStill(node, lasting) => self.stand_still(node, fault, lasting),
            Fault::FollowersLag(by, lasting) => {
                self.brokers.set_replication_delay(by);
                self.wrong.lag = Some(now + lasting);
                self.lasts(fault, lasting);
            }
            Fault::HearsLate(node, by, lasting) => {
                self.book.history.stale = true;
                self.brokers.set_metadata_delay(now, node, by);
                self.wrong.deaf.insert(node, now + lasting);
                self.lasts(fault, lasting);
            }
            Fault::Deposed(topic, partition, lasting) => {
                struck = self.depose(topic, partition, fault, lasting);
            }
            Fault::RefusesLogins(node, lasting) => {
                self.brokers.set_logins(node, false);
                self.wrong.strangers.insert(node, now + lasting);
                self.lasts(fault, lasting);
                // Who comes back is asked for its credentials.
                for wire in self.wires_of(node) {
                    self.hang_up(wire, Ending::Reset, Duration::ZERO);
                }
            }
            Fault::Unreachable(node, lasting) => {
                self.wrong.unreachable.insert(node, now + lasting);
            }
            Fault::Vanishes(node, lasting) => {
                self.wrong.vanished.insert(node, now + lasting);
                for wire in self.wires_of(node) {
                    if let Some(wire) = self.wires.get_mut(&wire) {
                        wire.half_open = true;
                    }
                }
            }
            Fault::Resets(node) | Fault::Closes(node) => {
                let ending = match fault {
                    Fault::Resets(_) => Ending::Reset,
                    _ => Ending::Closed,
                };
                let wires = self.wires_of(node);
                struck = !wires.is_empty();
                for wire in wires {
                    self.hang_up(wire, ending, Duration::ZERO);
                }
            }
            Fault::Refuses(node, lasting) => {
                self.wrong.refusing.insert(node, now + lasting);
            }
            Fault::Slow(by, lasting) => self.wrong.slow = Some((by, now + lasting)),
            Fault::Upgraded(node, release) => {
                self.brokers.set_release(node, release);
                for wire in self.wires_of(node) {
                    self.hang_up(wire, Ending::Closed, Duration::ZERO);
                }
            }
            Fault::Answers(node, api, trouble, count) => {
                // It counts when a request meets it.
                struck = false;
                self.keeper
                    .armed
                    .entry(node)
                    .or_default()
                    .arm(api, trouble, count);
            }
            Fault::LeaderMoves(topic, partition) => {
                struck = self.move_leader(topic, partition, false);
            }
            Fault::UncleanElection(topic, partition) => {
                struck = self.move_leader(topic, partition, true);
            }
            Fault::Grows(topic) => {
                let Some((name, count)) = self.topics.get_mut(topic) else {
                    return;
                };
                let grown = self.brokers.grow(now, name);
                struck = grown > *count;
                *count = grown.max(*count);
            }
            Fault::Deleted(topic, absent) => {
                let Some((name, _)) = self.topics.get(topic) else {
                    return;
                };
                struck = self.brokers.delete(now, name);
                self.plan(now + absent, Event::Anew(topic));
            }
        }
        if struck {
            self.book.tally.strike(name);
        }
        self.serve_brokers();
    }

    fn stand_still(&mut self, node: i32, fault: &Fault, lasting: Duration) {
        let now = self.book.now;
        self.brokers.set_following(now, node, false);
        self.wrong.still.insert(node, now + lasting);
        self.lasts(fault, lasting);
    }

    fn move_leader(&mut self, topic: usize, partition: i32, unclean: bool) -> bool {
        let Some((name, count)) = self.topics.get(topic) else {
            return false;
        };
        let partition = partition % (*count).max(1);
        let moved = self.brokers.move_leader(name, partition, unclean);
        self.book.history.leaders_lost |= moved;
        moved
    }

    /// A leader is replaced, and does not hear of it for a time.
    fn depose(&mut self, topic: usize, partition: i32, fault: &Fault, lasting: Duration) -> bool {
        let now = self.book.now;
        let Some((name, count)) = self.topics.get(topic) else {
            return false;
        };
        let name = std::sync::Arc::clone(name);
        let partition = partition % (*count).max(1);
        let Some(old) = self.brokers.leader(&name, partition) else {
            return false;
        };
        self.brokers.set_metadata_delay(now, old, lasting);
        let moved = self.brokers.move_leader(&name, partition, false);
        if !moved {
            self.brokers.set_metadata_delay(now, old, Duration::ZERO);
            return false;
        }
        self.book.history.leaders_lost = true;
        self.book.history.stale = true;
        self.wrong.deaf.insert(old, now + lasting);
        self.deposed.insert((name, partition, old), now + lasting);
        self.plan(
            now + lasting,
            Event::Heal(Fault::HearsLate(old, lasting, lasting)),
        );
        self.book.say(
            "fault",
            format_args!("node {old} does not hear that it leads no more: {fault:?}"),
        );
        true
    }

    fn lasts(&mut self, fault: &Fault, lasting: Duration) {
        let at = self.book.now + lasting;
        self.plan(at, Event::Heal(fault.clone()));
    }

    /// A fault has lasted as long as it was to, unless another one of its kind goes on.
    fn heal(&mut self, fault: &Fault) {
        let now = self.book.now;
        let is_over = |wrong: &BTreeMap<i32, Instant>, node: i32| {
            wrong.get(&node).is_some_and(|until| *until <= now)
        };
        match *fault {
            Fault::Dies(node, ..) if is_over(&self.wrong.dead, node) => {
                self.wrong.dead.remove(&node);
                self.book.say("fault", format_args!("node {node} is back"));
                self.brokers.start(now, node);
            }
            Fault::Pauses(node, _) | Fault::StandsStill(node, _)
                if is_over(&self.wrong.still, node) =>
            {
                self.wrong.still.remove(&node);
                self.brokers.set_following(now, node, true);
            }
            Fault::HearsLate(node, ..) if is_over(&self.wrong.deaf, node) => {
                self.wrong.deaf.remove(&node);
                self.brokers.set_metadata_delay(now, node, Duration::ZERO);
                self.deposed.retain(|(_, _, old), _| *old != node);
            }
            Fault::RefusesLogins(node, _) if is_over(&self.wrong.strangers, node) => {
                self.wrong.strangers.remove(&node);
                self.brokers.set_logins(node, true);
            }
            Fault::FollowersLag(..) if self.wrong.lag.is_some_and(|until| until <= now) => {
                self.wrong.lag = None;
                self.brokers.set_replication_delay(Duration::ZERO);
            }
            _ => return,
        }
        self.serve_brokers();
    }

    fn create(&mut self, topic: usize) {
        let now = self.book.now;
        if let Some((name, count)) = self.topics.get(topic) {
            if self.brokers.create(now, name, *count) {
                self.book.say("fault", format_args!("{name} was made anew"));
            }
        }
        self.serve_brokers();
    }

    /// From now on nobody plays a planted defect, and the network is at its best.
    pub fn calm(&mut self) {
        self.weather.pieces = 0;
    }

    /// Everything that is wrong ends. Connections that are half open stay so: nobody has told their clients.
    pub fn heal_all(&mut self) {
        let now = self.book.now;
        self.book.say("fault", "everything heals");
        for armed in self.keeper.armed.values_mut() {
            armed.clear();
        }
        let dead: Vec<i32> = self.wrong.dead.keys().copied().collect();
        let still: Vec<i32> = self.wrong.still.keys().copied().collect();
        let deaf: Vec<i32> = self.wrong.deaf.keys().copied().collect();
        let strangers: Vec<i32> = self.wrong.strangers.keys().copied().collect();
        let late = |until: &BTreeMap<i32, Instant>| until.values().any(|until| *until > now);
        // What waits for a paused or unreachable node was planned for its end.
        if late(&self.wrong.paused) || late(&self.wrong.unreachable) {
            self.book
                .tally
                .meet("world: healed in the middle of a fault");
        }
        self.wrong = Wrong {
            paused: std::mem::take(&mut self.wrong.paused),
            unreachable: std::mem::take(&mut self.wrong.unreachable),
            ..Wrong::default()
        };
        for node in dead {
            self.brokers.start(now, node);
        }
        for node in still {
            self.brokers.set_following(now, node, true);
        }
        for node in deaf {
            self.brokers.set_metadata_delay(now, node, Duration::ZERO);
        }
        self.deposed.clear();
        for node in strangers {
            self.brokers.set_logins(node, true);
        }
        self.brokers.set_replication_delay(Duration::ZERO);
        for topic in 0..self.topics.len() {
            self.create(topic);
        }
        self.serve_brokers();
    }
}
