//! The network: what is on its way between clients and nodes, how long it takes, and what befalls it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_engine::{Error, Kind, LinkId};

use super::coordinators::api_of;
use super::{Event, Wire, World};
use crate::gate::{Gate, ToClient};
use crate::host::{Ending, Out};

impl World {
    /// Connections that a client holds open. A node may not hear of the end of one whose packets are lost.
    pub fn open_wires(&self) -> usize {
        let held = |wire: &&Wire| wire.client_open;
        self.wires.values().filter(held).count()
    }

    /// Does what a client wants done.
    pub(super) fn act(&mut self, client: usize, out: Out) {
        match out {
            Out::Dial { link, host, port } => self.dial(client, link, &host, port),
            Out::Send { link, bytes } => {
                if let Some(wire) = self.numbers.get(&(client, link)).copied() {
                    self.note_sent(wire, client, &bytes);
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

    pub(super) fn delay(&mut self) -> Duration {
        let (least, most) = self.weather.delay;
        let slow = self.wrong.slow.filter(|(_, until)| *until > self.book.now);
        self.chance.time(least, most) + slow.map_or(Duration::ZERO, |(by, _)| by)
    }

    /// When what is to come to or from a client then comes through.
    fn reaches(&mut self, client: Option<usize>, at: Instant) -> Instant {
        let until = client.and_then(|client| self.cut_off.get(&client)).copied();
        match until.filter(|until| *until > at) {
            Some(until) => {
                self.book.tally.strike("network: bytes of a client held up");
                until
            }
            None => at,
        }
    }

    pub(super) fn dial(&mut self, client: usize, link: LinkId, host: &str, port: u16) {
        let at = self.book.now + self.delay();
        let at = self.reaches(Some(client), at);
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

    pub(super) fn dialled(&mut self, client: usize, link: LinkId, node: i32) {
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
    pub(super) fn send(&mut self, number: u64, bytes: Bytes, to_node: bool, later: Duration) {
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
                // A node that is back knows nothing of this connection, and resets it.
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
        let client = self.wires.get(&number).map(|wire| wire.client);
        at = at.max(self.reaches(client, at));
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

    pub(super) fn arrive(
        &mut self,
        number: u64,
        at: Instant,
        piece: Bytes,
        to_node: bool,
    ) -> Instant {
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

    pub(super) fn node_hears(&mut self, number: u64, bytes: Bytes) {
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
            self.note_taken(number, &frame);
            self.share_taken(number, &frame);
            self.meet_deposed(node, &frame);
            self.meet_sessions(&frame);
            let api = api_of(&frame);
            if let Some(api) = api {
                self.move_at(node, api, false);
            }
            self.brokers.handle(now, node, number, &frame);
            if let Some(api) = api {
                self.move_at(node, api, true);
            }
            self.move_at_markers();
        }
        self.serve_wire(number);
        self.serve_brokers();
    }

    pub(super) fn client_hears(&mut self, number: u64, bytes: &[u8]) {
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

    pub(super) fn end_for_node(&mut self, number: u64) {
        let Some(wire) = self.wires.get_mut(&number) else {
            return;
        };
        if wire.node_open {
            wire.node_open = false;
            let (node, client) = (wire.node, wire.client);
            if !wire.client_open {
                self.wires.remove(&number);
            }
            self.brokers.disconnect(self.book.now, node, number);
            self.share_parted(number, node, client);
            self.serve_brokers();
        }
    }

    pub(super) fn end_for_client(&mut self, number: u64, ending: Ending) {
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

    /// Passes on what a gate lets out.
    pub(super) fn serve_wire(&mut self, number: u64) {
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
    pub(super) fn hang_up(&mut self, number: u64, ending: Ending, later: Duration) {
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
        let (node, client) = (wire.node, wire.client);
        self.plan(at, Event::EndForClient(number, ending));
        self.brokers.disconnect(self.book.now, node, number);
        self.share_parted(number, node, client);
    }

    pub(super) fn wires_of(&self, node: i32) -> Vec<u64> {
        let wires = self.wires.iter().filter(|(_, wire)| wire.node == node);
        wires.map(|(number, _)| *number).collect()
    }
}
