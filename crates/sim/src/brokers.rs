//! The embedded broker's own node as a cluster of one. What the world does to its topics goes over a connection of its own, on
//! a listener that asks nobody who they are.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use ottla_broker::node::{Node, Now, Output};
use ottla_broker::{
    BrokerConfig, BrokerError, ListenerConfig, Secret, SecurityProtocol, SecuritySettings,
};
use ottla_protocol::Request;
use ottla_protocol::header::{decode_response, encode_request};
use ottla_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use ottla_protocol::messages::create_topics_request::CreatableTopic;
use ottla_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest,
};

use crate::servers::{Served, Servers};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The connection that the world itself uses.
const HAND: u64 = u64::MAX;
/// Where clients connect, and where the world does.
const CLIENTS: usize = 0;
const OWN: usize = 1;
/// When the run begins, by the brokers' clock.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// A node, driven by the world.
#[derive(Debug)]
pub struct Brokers {
    node: Node,
    base: Instant,
    outs: VecDeque<Served>,
    answer: BytesMut,
}

impl Brokers {
    /// A broker that began at `base`.
    ///
    /// # Errors
    /// Its settings are wrong.
    pub fn new(base: Instant, seed: u64, authenticated: bool) -> Result<Brokers, BrokerError> {
        let protocol = match authenticated {
            true => SecurityProtocol::SaslPlaintext,
            false => SecurityProtocol::Plaintext,
        };
        let mut config = BrokerConfig {
            auto_create_topics: false,
            listeners: vec![
                ListenerConfig::new(protocol),
                ListenerConfig {
                    name: "HAND".to_owned(),
                    ..ListenerConfig::new(SecurityProtocol::Plaintext)
                },
            ],
            ..BrokerConfig::default()
        };
        if authenticated {
            config.security = SecuritySettings {
                users: vec![("user".to_owned(), Secret::new("password".to_owned()))],
                ..SecuritySettings::default()
            };
            // Sessions expire, so that clients authenticate again.
            let rule = ("connections.max.reauth.ms", "9000");
            config
                .properties
                .push((rule.0.to_owned(), rule.1.to_owned()));
        }
        let addresses = [("n1".to_owned(), 9092), ("hand".to_owned(), 9093)];
        let mut node = Node::new(&config, &addresses, seed)?;
        node.connect(HAND, OWN, PEER, time(base, base));
        Ok(Brokers {
            node,
            base,
            outs: VecDeque::new(),
            answer: BytesMut::new(),
        })
    }

    fn now(&self, now: Instant) -> Now {
        time(self.base, now)
    }

    /// Takes out what the node has to say.
    fn drain(&mut self) {
        while let Some(output) = self.node.poll() {
            match output {
                Output::Send { connection, bytes } if connection == HAND => {
                    self.answer.extend_from_slice(&bytes);
                }
                Output::Send { connection, bytes } => {
                    self.outs.push_back(Served::Bytes(connection, bytes));
                }
                Output::Close { connection, .. } => self.outs.push_back(Served::Close(connection)),
            }
        }
    }

    /// Asks something in the world's own name. The node answers such questions at once.
    fn ask<R: Request>(&mut self, now: Instant, request: &R, version: i16) -> Option<R::Response> {
        self.answer.clear();
        let frame = encode_request(request, version, 1, Some("world")).ok()?;
        let now = self.now(now);
        self.node.handle(HAND, &frame.into_bytes(), now);
        self.drain();
        let body: Bytes = self.answer.split().freeze();
        let body = (body.len() > 4).then(|| body.slice(4..))?;
        decode_response(version, body).ok().map(|(_, body)| body)
    }

    fn partitions(&mut self, now: Instant, topic: &str) -> i32 {
        let request = MetadataRequest {
            topics: None,
            ..MetadataRequest::default()
        };
        let answer = self.ask(now, &request, 9);
        let topics = answer.map(|answer| answer.topics).unwrap_or_default();
        let found = topics.iter().find(|row| row.name.as_deref() == Some(topic));
        found.map_or(0, |row| row.partitions.len() as i32)
    }
}

fn time(base: Instant, now: Instant) -> Now {
    let since = now.saturating_duration_since(base).as_millis();
    Now {
        instant: now,
        unix_ms: EPOCH_MS + i64::try_from(since).unwrap_or(0),
    }
}

impl Servers for Brokers {
    fn connect(&mut self, now: Instant, _: i32, connection: u64) {
        let now = self.now(now);
        self.node.connect(connection, CLIENTS, PEER, now);
        self.drain();
    }

    fn handle(&mut self, now: Instant, _: i32, connection: u64, bytes: &[u8]) {
        let now = self.now(now);
        self.node.handle(connection, bytes, now);
        self.drain();
    }

    fn disconnect(&mut self, _: i32, connection: u64) {
        self.node.disconnect(connection);
        self.drain();
    }

    fn poll(&mut self) -> Option<Served> {
        self.outs.pop_front()
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.node.next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        let now = self.now(now);
        self.node.handle_timeout(now);
        self.drain();
    }

    fn stop(&mut self, _: Instant, _: i32) {}

    fn start(&mut self, _: Instant, _: i32) {}

    fn move_leader(&mut self, _: Instant, _: &str, _: i32) -> bool {
        false
    }

    fn create(&mut self, now: Instant, topic: &str, partitions: i32) -> bool {
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: topic.into(),
                num_partitions: partitions,
                replication_factor: 1,
                ..CreatableTopic::default()
            }],
            timeout_ms: 1000,
            ..CreateTopicsRequest::default()
        };
        let answer = self.ask(now, &request, 5);
        answer.is_some_and(|answer| answer.topics.iter().all(|row| row.error_code == 0))
    }

    fn delete(&mut self, now: Instant, topic: &str) -> bool {
        let request = DeleteTopicsRequest {
            topic_names: vec![topic.into()],
            timeout_ms: 1000,
            ..DeleteTopicsRequest::default()
        };
        let answer = self.ask(now, &request, 4);
        answer.is_some_and(|answer| answer.responses.iter().all(|row| row.error_code == 0))
    }

    fn grow(&mut self, now: Instant, topic: &str) -> i32 {
        let count = self.partitions(now, topic);
        if count > 0 {
            let request = CreatePartitionsRequest {
                topics: vec![CreatePartitionsTopic {
                    name: topic.into(),
                    count: count + 1,
                    ..CreatePartitionsTopic::default()
                }],
                timeout_ms: 1000,
                ..CreatePartitionsRequest::default()
            };
            self.ask(now, &request, 3);
        }
        self.partitions(now, topic)
    }
}
