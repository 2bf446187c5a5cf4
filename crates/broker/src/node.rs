//! A broker without sockets, tasks and clocks: bytes in, bytes out, and time as an argument.
//!
//! It is the same broker as [`crate::Broker`], with connections that are numbers. Whoever drives it calls
//! [`Node::poll`] until nothing is left after each other call, and [`Node::handle_timeout`] at [`Node::next_timeout`].
//! The same calls in the same order, with the same seed, give the same bytes.

mod cluster;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use ottla_protocol::ApiKey;
use parking_lot::Mutex;

pub use self::cluster::{Cluster, Partition, Topic};
use crate::api::Client;
pub use crate::cluster::controller::Stop;
use crate::cluster::image::Address;
use crate::config::{BrokerConfig, Settings};
use crate::conversation::{Conversation, Need};
use crate::core::{Core, Membership, Shared};
use crate::door::Door;
use crate::error::BrokerError;
use crate::fault::Fault;
use crate::ids::Ids;
pub use crate::now::Now;
use crate::release::Release;
use crate::security::Security;

/// What is to be done for a [`Node`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// These bytes go to the client, after those before them.
    Send {
        /// Whose.
        connection: u64,
        /// A piece of a response, or all of it.
        bytes: Bytes,
    },
    /// The connection ends, once the client has got what was sent before.
    Close {
        /// Whose.
        connection: u64,
        /// Why.
        reason: String,
    },
}

/// A broker of one node.
pub struct Node {
    core: Arc<Core>,
    doors: Vec<Door>,
    wires: BTreeMap<u64, Wire>,
    /// When each connection's timeout is, the soonest first.
    timeouts: BTreeSet<(Instant, u64)>,
    rung: Arc<Rung>,
    outputs: VecDeque<Output>,
    now: Option<Now>,
    is_up: bool,
}

/// What nodes are made of, and a cluster's have in common.
struct Parts {
    doors: Vec<Door>,
    shared: Shared,
}

impl Parts {
    fn new(config: &BrokerConfig, settings: &Settings, seed: u64) -> Result<Self, BrokerError> {
        let listeners = config.all_listeners();
        let mut seeds = Ids::new(seed);
        let mut secret = [0; 32];
        for bytes in secret.chunks_mut(8) {
            bytes.copy_from_slice(&seeds.next().to_be_bytes());
        }
        let security = Security::new(
            &config.security,
            settings.acl_settings(),
            settings.token_rules(),
            settings.token_lifetimes(),
            settings.quota_windows(),
            secret,
        );
        let security = security.map_err(BrokerError::Config)?;
        let doors = Door::all(config, &listeners, &security, settings)?;
        if doors.iter().any(|door| door.tls.is_some()) {
            return Err(BrokerError::Config(
                "a node without sockets does not speak TLS".to_owned(),
            ));
        }
        Ok(Self {
            doors,
            shared: Shared {
                security: Arc::new(security),
                faults: Arc::default(),
                zookeeper: Arc::default(),
                group_settings: Arc::default(),
                share_states: Arc::default(),
                subscriptions: Arc::default(),
                cluster_id: None,
            },
        })
    }
}

/// One connection.
struct Wire {
    conversation: Conversation,
    /// What came and is not handled yet.
    received: BytesMut,
    timeout: Option<Instant>,
}

/// The connections whose parked responses can go on.
type Rung = Mutex<BTreeSet<u64>>;

struct Ringer {
    connection: u64,
    rung: Arc<Rung>,
}

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        self.rung.lock().insert(self.connection);
    }
}

impl Node {
    /// A broker with the listeners of `config`, which advertises `addresses`, one for each
    /// listener. All chance comes from `seed`.
    ///
    /// # Errors
    /// A setting is wrong, a listener speaks TLS, which bytes without sockets do not, or the data folder cannot be read.
    pub fn new(
        config: &BrokerConfig,
        addresses: &[(String, u16)],
        seed: u64,
    ) -> Result<Self, BrokerError> {
        let settings = Settings::new(config)?;
        let mut seeds = Ids::new(seed);
        let parts = Parts::new(config, &settings, seeds.next())?;
        let node = Self::open(config, settings, addresses, parts, seeds.next(), None)?;
        node.core.make_topics(config)?;
        Ok(node)
    }

    fn open(
        config: &BrokerConfig,
        settings: Settings,
        addresses: &[(String, u16)],
        parts: Parts,
        seed: u64,
        membership: Option<Membership>,
    ) -> Result<Self, BrokerError> {
        let Parts { doors, shared } = parts;
        if addresses.len() != doors.len() {
            return Err(BrokerError::Config(format!(
                "{} addresses for {} listeners",
                addresses.len(),
                doors.len()
            )));
        }
        let addresses = addresses.iter().map(|(host, port)| Address {
            host: host.as_str().into(),
            port: i32::from(*port),
        });
        let core = Core::open(
            config,
            settings,
            addresses.collect(),
            shared,
            seed,
            Waker::noop().clone(),
            membership,
        )?;
        Ok(Self {
            core: Arc::new(core),
            doors,
            wires: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            rung: Arc::default(),
            outputs: VecDeque::new(),
            now: None,
            is_up: true,
        })
    }

    /// A client at `peer` has connected to the listener of this index. `connection` is its number from here on, and never
    /// that of another.
    pub fn connect(&mut self, connection: u64, listener: usize, peer: IpAddr, now: Now) {
        self.now = Some(now);
        self.core.begin_upkeep(now);
        if !self.is_up {
            let reason = "the node is down".to_owned();
            self.outputs.push_back(Output::Close { connection, reason });
            return;
        }
        let door = self.doors.get(listener).ok_or("there is no such listener");
        let session = door
            .map_err(str::to_owned)
            .and_then(|door| door.session(&[]));
        let session = match session {
            Ok(session) => session,
            Err(reason) => {
                self.outputs.push_back(Output::Close { connection, reason });
                return;
            }
        };
        let ringer = Ringer {
            connection,
            rung: Arc::clone(&self.rung),
        };
        let client = Client {
            host: peer,
            // Bytes without sockets have no port.
            port: 0,
            listener,
            session: Mutex::new(session),
            waker: Waker::from(Arc::new(ringer)),
            shares: Mutex::default(),
            software: Mutex::default(),
        };
        let wire = Wire {
            conversation: Conversation::new(Arc::clone(&self.core), client, now),
            received: BytesMut::new(),
            timeout: None,
        };
        self.wires.insert(connection, wire);
        self.follow_up(connection, now);
    }

    /// Bytes of a client have arrived: any piece of its stream. Those of a connection that has ended are dropped.
    pub fn handle(&mut self, connection: u64, bytes: &[u8], now: Now) {
        self.now = Some(now);
        if let Some(wire) = self.wires.get_mut(&connection) {
            wire.received.extend_from_slice(bytes);
            self.follow_up(connection, now);
        }
    }

    /// The client has gone. Nothing comes out for it any more, and what it leaves may be somebody else's from now on.
    pub fn disconnect(&mut self, connection: u64, now: Now) {
        self.now = Some(now);
        if let Some(wire) = self.wires.remove(&connection) {
            if let Some(timeout) = wire.timeout {
                self.timeouts.remove(&(timeout, connection));
            }
            self.outputs.retain(|output| match output {
                Output::Send { connection: of, .. } | Output::Close { connection: of, .. } => {
                    *of != connection
                }
            });
        }
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        if let Some(now) = self.now.filter(|_| self.core.has_news()) {
            self.core.handle_timeout(now);
        }
        while self.outputs.is_empty() {
            let now = self.now?;
            self.core.begin_sessions(now);
            let connection = self.rung.lock().pop_first()?;
            self.wake(connection, now);
        }
        self.outputs.pop_front()
    }

    /// Whether [`Node::poll`] has something to do that another node brought it.
    fn has_news(&self) -> bool {
        self.core.has_news() || !self.rung.lock().is_empty()
    }

    /// When [`Node::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let connections = self.timeouts.first().map(|(timeout, _)| *timeout);
        let groups = self.core.next_timeout();
        let upkeep = self.core.next_upkeep().filter(|_| self.is_up);
        connections.into_iter().chain(groups).chain(upkeep).min()
    }

    /// Does what is due: long polls, the timers of groups and transactions, delays, idle connections, old segments.
    pub fn handle_timeout(&mut self, now: Now) {
        self.now = Some(now);
        if self
            .core
            .next_timeout()
            .is_some_and(|due| due <= now.instant)
        {
            self.core.handle_timeout(now);
        }
        if self.is_up {
            self.core.upkeep(now);
        }
        while let Some((due, connection)) = self.timeouts.first().copied() {
            if due > now.instant {
                break;
            }
            self.wake(connection, now);
        }
    }

    /// The release that the node speaks as.
    #[must_use]
    pub fn release(&self) -> Release {
        self.core.release()
    }

    /// The node speaks as this release from now on, with all clients.
    pub fn set_release(&self, release: Release) {
        self.core.set_release(release);
    }

    /// Moves the node's wall clock, which its time stamps and the age of stored data go by: by
    /// `by_ms` milliseconds forward, or back if it is negative. Moves add up. Durations, such as
    /// those of sessions and delays, go on as they were.
    pub fn move_clock(&self, by_ms: i64) {
        self.core.move_clock(by_ms);
    }

    /// Whether the node takes right credentials. One that does not refuses everybody who authenticates from now on, also on a
    /// connection whose session expires.
    pub fn set_logins(&self, accepted: bool) {
        self.core.set_logins(accepted);
    }

    /// Injects `fault` into the next `count` requests of `api`, after those of earlier calls.
    pub fn inject(&self, api: ApiKey, fault: Fault, count: u32) {
        self.core.faults.inject(api, fault, count);
    }

    /// Drops all pending faults.
    pub fn clear_faults(&self) {
        self.core.faults.clear();
    }

    /// Ends all connections at once.
    fn go_down(&mut self) {
        self.is_up = false;
        self.outputs.retain(|it| matches!(it, Output::Close { .. }));
        self.timeouts.clear();
        self.rung.lock().clear();
        for connection in std::mem::take(&mut self.wires).into_keys() {
            let reason = "the node went down".to_owned();
            self.outputs.push_back(Output::Close { connection, reason });
        }
    }

    fn wake(&mut self, connection: u64, now: Now) {
        if let Some(wire) = self.wires.get_mut(&connection) {
            wire.conversation.handle_timeout(now);
            wire.conversation.settle(now);
            self.follow_up(connection, now);
        }
    }

    /// Handles the frames that are there, and takes out what came of them.
    fn follow_up(&mut self, connection: u64, now: Now) {
        let Some(wire) = self.wires.get_mut(&connection) else {
            return;
        };
        let end = loop {
            let output = wire.conversation.take_output();
            let output = output.into_iter().filter(|bytes| !bytes.is_empty());
            self.outputs
                .extend(output.map(|bytes| Output::Send { connection, bytes }));
            match wire.conversation.need() {
                Need::End(reason) => break Some(reason.unwrap_or_default()),
                Need::Time => break None,
                Need::Frame => {}
            }
            match wire.next_frame() {
                Ok(Some(frame)) => wire.conversation.handle(frame, now),
                Ok(None) => break None,
                Err(reason) => wire.conversation.end(reason),
            }
            wire.conversation.settle(now);
        };
        if let Some(old) = wire.timeout.take() {
            self.timeouts.remove(&(old, connection));
        }
        if let Some(reason) = end {
            self.wires.remove(&connection);
            self.core
                .events
                .say(format_args!("connection {connection} closed: {reason}"));
            self.outputs.push_back(Output::Close { connection, reason });
        } else if let Some(timeout) = wire.conversation.next_timeout() {
            wire.timeout = Some(timeout);
            self.timeouts.insert((timeout, connection));
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("connections", &self.wires.len())
            .finish_non_exhaustive()
    }
}

impl Wire {
    fn next_frame(&mut self) -> Result<Option<Bytes>, String> {
        let Some(start) = self.received.first_chunk().copied() else {
            return Ok(None);
        };
        let length = self.conversation.frame_limit().check(start)?;
        if self.received.len() - 4 < length {
            return Ok(None);
        }
        self.received.advance(4);
        Ok(Some(self.received.split_to(length).freeze()))
    }
}
