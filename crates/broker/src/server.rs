//! The running broker, or a cluster of them: listeners, a task per connection, one for each node's timers, and one that
//! replicates.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ottla_protocol::ApiKey;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::clock;
use crate::cluster::controller::{Controller, Member, Stop};
use crate::cluster::image::{Address, Layout};
use crate::config::{BrokerConfig, Settings};
use crate::connection::{self, Alarm};
use crate::core::{Core, Membership, Shared};
use crate::door::Door;
use crate::error::BrokerError;
use crate::fault::{Fault, Faults};
use crate::ids::Ids;
use crate::node::Partition;
use crate::release::Release;
use crate::security::Security;
use crate::security::listener::{ClientAuth, ListenerConfig, SecurityProtocol};
use crate::security::sasl::Mechanism;
use crate::telemetry::Push;

/// How long the listener waits when the system is out of sockets.
const OUT_OF_SOCKETS: Duration = Duration::from_millis(100);

/// A running broker, or a cluster of them; [`Broker::stop`] or dropping it stops it.
pub struct Broker {
    nodes: Vec<Node>,
    faults: Arc<Faults>,
    /// `None`: there is one node.
    cluster: Option<Cluster>,
}

/// One broker.
struct Node {
    id: i32,
    core: Arc<Core>,
    doors: Vec<Door>,
    listeners: Vec<Listener>,
    timer: Arc<Alarm>,
    running: Mutex<Option<Running>>,
}

struct Cluster {
    controller: Arc<Controller>,
    running: Mutex<Option<Running>>,
}

struct Listener {
    config: ListenerConfig,
    address: SocketAddr,
    mechanisms: Vec<Mechanism>,
}

/// A listener that is open.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenListener {
    /// Its name.
    pub name: String,
    /// What is spoken.
    pub protocol: SecurityProtocol,
    /// `host:port` for clients' `bootstrap.servers`.
    pub bootstrap: String,
    /// The SASL mechanisms offered.
    pub mechanisms: Vec<Mechanism>,
    /// Whether it requests client certificates.
    pub client_auth: ClientAuth,
}

struct Running {
    stop: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
}

impl Broker {
    /// Starts a broker on the current tokio runtime. It accepts connections when this returns.
    ///
    /// # Errors
    /// A setting is wrong, an address is taken, or the data folder cannot be read.
    pub async fn start(config: BrokerConfig) -> Result<Self, BrokerError> {
        let settings = Settings::new(&config)?;
        let wanted = config.all_listeners();
        check_names(&wanted)?;
        check_nodes(&config)?;
        let (seed, secret) = seeds()?;
        let mut seeds = Ids::new(seed);
        let faults = Arc::<Faults>::default();
        let several = config.nodes > 1;
        let shared = Shared {
            security: Arc::new(security(&config, &settings, secret).await?),
            faults: Arc::clone(&faults),
            zookeeper: Arc::default(),
            group_settings: Arc::default(),
            share_states: Arc::default(),
            subscriptions: Arc::default(),
            cluster_id: several.then(|| seeds.uuid().to_string()),
        };
        let alarm = Arc::<Alarm>::default();
        let replication = Waker::from(Arc::clone(&alarm));
        let controller = several.then(|| {
            Arc::new(Controller::new(
                seeds.next(),
                settings.replica_lag,
                settings.default_replication,
                config.nodes,
                config.events.clone(),
                replication.clone(),
            ))
        });
        let mut nodes = Vec::new();
        for id in 1..=config.nodes {
            let membership = controller.as_ref().map(|controller| Membership {
                node: id,
                controller: Arc::clone(controller),
                replication: replication.clone(),
            });
            let opening = Opening {
                config: &config,
                settings: &settings,
                shared: &shared,
                seed: seeds.next(),
            };
            nodes.push(opening.node(id, &wanted, membership).await?);
        }
        if let Some(controller) = &controller {
            for node in &nodes {
                let member: Arc<dyn Member> = Arc::clone(&node.core) as Arc<dyn Member>;
                let host = node.core.addresses.clone();
                controller.join(node.id, Arc::downgrade(&member), host);
            }
        }
        if let Some(core) = nodes.first().map(|node| Arc::clone(&node.core)) {
            off_thread(move || core.make_topics(&config)).await?;
        }
        let cluster = controller.map(|controller| Cluster {
            running: Mutex::new(Some(run_replication(&controller, alarm))),
            controller,
        });
        Ok(Self {
            nodes,
            faults,
            cluster,
        })
    }

    /// The address that the first listener listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let first = self.nodes.first().and_then(|node| node.listeners.first());
        first.map_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)), |it| it.address)
    }

    /// `host:port` of each node's first listener, separated by commas, for clients' `bootstrap.servers`.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.bootstrap_of(0)
    }

    fn bootstrap_of(&self, listener: usize) -> String {
        let nodes = self.nodes.iter();
        let addresses = nodes.filter_map(|node| node.core.addresses.get(listener).map(shown));
        addresses.collect::<Vec<_>>().join(",")
    }

    /// The listeners, in the order in which they were given.
    #[must_use]
    pub fn listeners(&self) -> Vec<OpenListener> {
        let listeners = self.nodes.first().map(|node| node.listeners.iter());
        let opened = listeners.into_iter().flatten().enumerate();
        let opened = opened.map(|(index, listener)| OpenListener {
            name: listener.config.name.clone(),
            protocol: listener.config.protocol,
            bootstrap: self.bootstrap_of(index),
            mechanisms: listener.mechanisms.clone(),
            client_auth: listener.config.client_auth,
        });
        opened.collect()
    }

    /// What clients pushed of their metrics, the oldest first: the last thousand pushes (`telemetry.metrics`, KIP-714).
    #[must_use]
    pub fn telemetry(&self) -> Vec<Push> {
        let nodes = self.nodes.iter();
        nodes
            .flat_map(|node| node.core.pushes.lock().all())
            .collect()
    }

    /// Injects `fault` into the next `count` requests of `api`, on whichever node they come, after those of earlier calls.
    pub fn inject(&self, api: ApiKey, fault: Fault, count: u32) {
        self.faults.inject(api, fault, count);
    }

    /// Injects `fault` into the next `count` requests of `api` that come to this node. They strike before those of
    /// [`Broker::inject`].
    ///
    /// # Errors
    /// There is no such node.
    pub fn inject_at(
        &self,
        id: i32,
        api: ApiKey,
        fault: Fault,
        count: u32,
    ) -> Result<(), BrokerError> {
        self.node(id)?.core.faults.inject(api, fault, count);
        Ok(())
    }

    /// Drops all pending faults.
    pub fn clear_faults(&self) {
        self.faults.clear();
        for node in &self.nodes {
            node.core.faults.clear();
        }
    }

    /// A node, or all if there is no number, speaks as this release from now on, also on connections that there are.
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_release(&self, id: Option<i32>, release: Release) -> Result<(), BrokerError> {
        match id {
            Some(id) => self.node(id)?.core.set_release(release),
            None => self
                .nodes
                .iter()
                .for_each(|node| node.core.set_release(release)),
        }
        Ok(())
    }

    /// Moves the wall clock of a node, or of all if there is no number, by `by_ms` milliseconds:
    /// forward, or back if it is negative. Time stamps, and the age of stored data, go by it;
    /// durations, such as those of sessions, do not.
    ///
    /// # Errors
    /// There is no such node.
    pub fn move_clock(&self, id: Option<i32>, by_ms: i64) -> Result<(), BrokerError> {
        match id {
            Some(id) => self.node(id)?.core.move_clock(by_ms),
            None => self
                .nodes
                .iter()
                .for_each(|node| node.core.move_clock(by_ms)),
        }
        Ok(())
    }

    /// Adds partitions to a topic until there are `total`.
    ///
    /// # Errors
    /// Why it cannot have as many.
    pub async fn create_partitions(&self, topic: &str, total: i32) -> Result<(), BrokerError> {
        let core = Arc::clone(&self.node(1)?.core);
        let topic = topic.to_owned();
        off_thread(move || {
            let added = core.add_partitions(&topic, &Layout::of(total), false);
            added.map_err(|error| BrokerError::Config(error.message))
        })
        .await
    }

    /// Deletes the records of a partition before an offset, or all that are committed if it is -1. Gives the first offset that
    /// is left.
    ///
    /// # Errors
    /// There is no such partition, nobody leads it, or the offset is beyond what is committed.
    pub async fn delete_records(
        &self,
        topic: &str,
        index: i32,
        before: i64,
    ) -> Result<i64, BrokerError> {
        let named = format!("partition {index} of topic {topic:?}");
        let leader = match &self.cluster {
            Some(cluster) => cluster
                .controller
                .standing(topic, index)
                .map(|it| it.leader),
            None => Some(1),
        };
        let none = || BrokerError::Config(format!("there is no {named}, or nobody leads it"));
        let node = leader.and_then(|leader| self.node(leader).ok());
        let core = Arc::clone(&node.ok_or_else(none)?.core);
        let topic = topic.to_owned();
        off_thread(move || {
            let delete = || {
                let topic = core.topic(&topic)?;
                let mut replica = topic.partition(index)?.lock();
                replica.check(-1)?;
                replica.delete_before(before)
            };
            delete().map_err(|code| {
                BrokerError::Config(format!(
                    "no records before {before} of {named} are deleted: {}",
                    code.name()
                ))
            })
        })
        .await
    }

    /// The numbers of the nodes that are up.
    #[must_use]
    pub fn nodes_up(&self) -> Vec<i32> {
        let ids = self.nodes.iter().map(|node| node.id);
        match &self.cluster {
            Some(cluster) => ids.filter(|id| cluster.controller.is_up(*id)).collect(),
            None => ids.collect(),
        }
    }

    /// Stops a node of a cluster: its connections end, and others lead what it led.
    ///
    /// # Errors
    /// There is no such node, or no other.
    pub async fn stop_node(&self, id: i32, how: Stop) -> Result<(), BrokerError> {
        let (cluster, node) = self.member(id)?;
        if how == Stop::Clean {
            cluster.controller.stop(id, how, clock::now());
        }
        node.close().await;
        // What came to its end meanwhile counts.
        cluster.controller.stop(id, how, clock::now());
        Ok(())
    }

    /// Starts a node that was stopped, on the address that it had.
    ///
    /// # Errors
    /// There is no such node, or its address was taken meanwhile.
    pub async fn start_node(&self, id: i32) -> Result<(), BrokerError> {
        let (cluster, node) = self.member(id)?;
        if !cluster.controller.is_up(id) {
            node.open().await?;
            cluster.controller.start(id, clock::now());
        }
        Ok(())
    }

    /// Who leads a partition, and who follows.
    #[must_use]
    pub fn partition(&self, topic: &str, index: i32) -> Option<Partition> {
        let core = &self.nodes.first()?.core;
        let standing = match &self.cluster {
            Some(cluster) => cluster.controller.standing(topic, index)?,
            None => {
                let topic = core.topic(topic).ok()?;
                let replica = topic.partition(index).ok()?.lock();
                replica.standing().clone()
            }
        };
        Some(Partition::from(standing))
    }

    /// The node that coordinates a group; `None` while nobody can.
    #[must_use]
    pub fn coordinator(&self, group: &str) -> Option<i32> {
        let up = self.nodes_up();
        let node = self.nodes.iter().find(|node| up.contains(&node.id))?;
        node.core.coordinator(group).ok()
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> i32 {
        let core = self.nodes.first().map(|node| &node.core);
        core.map_or(-1, |core| core.controller_node())
    }

    /// Makes a node that is in sync, or with `unclean` any, the leader of a partition.
    ///
    /// # Errors
    /// Why it cannot lead.
    pub fn move_leader(
        &self,
        topic: &str,
        index: i32,
        to: i32,
        unclean: bool,
    ) -> Result<(), BrokerError> {
        let (cluster, _) = self.member(to)?;
        let moved = if unclean {
            cluster.controller.elect_unclean(topic, index, to)
        } else {
            cluster.controller.move_leader(topic, index, to)
        };
        moved.map_err(BrokerError::Config)
    }

    /// Makes a node the coordinator of a group, and of those whose offsets are kept with its.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn move_coordinator(&self, group: &str, to: i32) -> Result<(), BrokerError> {
        let (_, node) = self.member(to)?;
        let (topic, index) = node.core.offsets_of(group).map_err(BrokerError::Config)?;
        self.move_leader(&topic, index, to, false)
    }

    /// Makes a node the controller.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn move_controller(&self, to: i32) -> Result<(), BrokerError> {
        let (cluster, _) = self.member(to)?;
        let moved = cluster.controller.move_controller(to);
        moved.map_err(BrokerError::Config)
    }

    /// Whether a node takes what leaders have for it. One that does not is out of sync after `replica.lag.time.max.ms`.
    ///
    /// # Errors
    /// There is no such node, or no other.
    pub fn set_following(&self, id: i32, follows: bool) -> Result<(), BrokerError> {
        let (cluster, _) = self.member(id)?;
        cluster.controller.set_following(id, follows, clock::now());
        Ok(())
    }

    /// Whether a node gets metadata from the cluster: topics, leaders, replicas in sync. Without
    /// it, a node goes on with what it has, also as a leader that was replaced. When it gets
    /// metadata again, it gets all that it missed.
    ///
    /// # Errors
    /// There is no such node, or no other.
    pub fn set_hearing(&self, id: i32, hears: bool) -> Result<(), BrokerError> {
        let (cluster, _) = self.member(id)?;
        let delay = if hears { Duration::ZERO } else { Duration::MAX };
        cluster
            .controller
            .set_metadata_delay(id, delay, clock::now());
        Ok(())
    }

    /// Whether a node takes right credentials. One that does not refuses everybody who authenticates from now on, also on a
    /// connection whose session expires.
    ///
    /// # Errors
    /// There is no such node, or no other.
    pub fn set_logins(&self, id: i32, accepted: bool) -> Result<(), BrokerError> {
        let (_, node) = self.member(id)?;
        node.core.set_logins(accepted);
        Ok(())
    }

    fn member(&self, id: i32) -> Result<(&Cluster, &Node), BrokerError> {
        let Some(cluster) = &self.cluster else {
            return Err(BrokerError::Config(
                "this takes a cluster of more than one node".to_owned(),
            ));
        };
        Ok((cluster, self.node(id)?))
    }

    fn node(&self, id: i32) -> Result<&Node, BrokerError> {
        let node = self.nodes.iter().find(|node| node.id == id);
        node.ok_or_else(|| {
            let last = self.nodes.len();
            BrokerError::Config(format!("there is no node {id}; there are 1 to {last}"))
        })
    }

    /// Closes all connections, waits for the tasks and flushes the log. Stopping a stopped broker does nothing.
    ///
    /// # Errors
    /// The log could not be flushed to its folder.
    pub async fn stop(&self) -> Result<(), BrokerError> {
        if let Some(cluster) = &self.cluster {
            let running = cluster.running.lock().take();
            if let Some(running) = running {
                running.end().await;
            }
        }
        for node in &self.nodes {
            if node.close().await {
                let core = Arc::clone(&node.core);
                off_thread(move || core.close()).await?;
            }
        }
        Ok(())
    }
}

/// What a node is opened with.
struct Opening<'a> {
    config: &'a BrokerConfig,
    settings: &'a Settings,
    shared: &'a Shared,
    seed: u64,
}

impl Opening<'_> {
    /// A node whose addresses are known. It does not listen yet.
    async fn node(
        self,
        id: i32,
        wanted: &[ListenerConfig],
        membership: Option<Membership>,
    ) -> Result<Node, BrokerError> {
        let (mut addresses, mut bound, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        let own: Vec<ListenerConfig> = wanted.iter().map(|it| of_node(it, id)).collect();
        for listener in &own {
            let (socket, address) = bind(&listener.host, listener.port).await?;
            addresses.push(advertised(listener, address));
            bound.push(address);
            sockets.push(socket);
        }
        let timer = Arc::<Alarm>::default();
        let waker = Waker::from(Arc::clone(&timer));
        let (config, settings, shared) = (
            self.config.clone(),
            self.settings.clone(),
            self.shared.clone(),
        );
        let seed = self.seed;
        let doors = own.clone();
        let open = move || {
            let doors = Door::all(&config, &doors, &shared.security, &settings)?;
            let core = Core::open(
                &config, settings, addresses, shared, seed, waker, membership,
            )?;
            Ok((Arc::new(core), doors))
        };
        let (core, doors) = off_thread(open).await?;
        let opened = own.into_iter().zip(bound).zip(&doors);
        let listeners = opened.map(|((config, address), door)| Listener {
            config,
            address,
            mechanisms: door.mechanisms.as_deref().unwrap_or_default().to_vec(),
        });
        let node = Node {
            id,
            core,
            listeners: listeners.collect(),
            doors,
            timer,
            running: Mutex::new(None),
        };
        node.listen(sockets);
        Ok(node)
    }
}

impl Node {
    /// Listens on the addresses that it had.
    async fn open(&self) -> Result<(), BrokerError> {
        if self.running.lock().is_some() {
            return Ok(());
        }
        let mut sockets = Vec::new();
        for listener in &self.listeners {
            let (socket, _) = bind(&listener.config.host, listener.address.port()).await?;
            sockets.push(socket);
        }
        self.listen(sockets);
        Ok(())
    }

    fn listen(&self, sockets: Vec<TcpListener>) {
        let (stop, stopped) = watch::channel(());
        let timers = run_timers(
            Arc::clone(&self.core),
            Arc::clone(&self.timer),
            stopped.clone(),
        );
        let upkeep = run_upkeep(Arc::clone(&self.core), stopped.clone());
        let mut tasks = vec![tokio::spawn(timers), tokio::spawn(upkeep)];
        for (socket, door) in sockets.into_iter().zip(&self.doors) {
            let core = Arc::clone(&self.core);
            let accepting = listen_until(socket, core, door.clone(), stopped.clone());
            tasks.push(tokio::spawn(accepting));
        }
        *self.running.lock() = Some(Running { stop, tasks });
    }

    /// Closes all connections and waits for the tasks. Returns whether there were any.
    async fn close(&self) -> bool {
        let running = self.running.lock().take();
        match running {
            Some(running) => {
                running.end().await;
                true
            }
            None => false,
        }
    }
}

impl Running {
    async fn end(self) {
        drop(self.stop);
        for task in self.tasks {
            // It ends by itself; a panic in it has been printed by the runtime.
            let _ = task.await;
        }
    }
}

/// Runs `work`, which reads or writes files, where it blocks no other task.
async fn off_thread<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, BrokerError> + Send + 'static,
) -> Result<R, BrokerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(BrokerError::Runtime),
        },
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

fn check_names(listeners: &[ListenerConfig]) -> Result<(), BrokerError> {
    let mut names = BTreeSet::new();
    match listeners.iter().find(|each| !names.insert(&each.name)) {
        None => Ok(()),
        Some(twice) => Err(BrokerError::Config(format!(
            "two listeners are called {}; give them names of their own",
            twice.name
        ))),
    }
}

fn check_nodes(config: &BrokerConfig) -> Result<(), BrokerError> {
    const MOST_NODES: i32 = 100;
    if !(1..=MOST_NODES).contains(&config.nodes) {
        return Err(BrokerError::Config(format!(
            "{} nodes; from 1 to {MOST_NODES} are possible",
            config.nodes
        )));
    }
    if config.nodes > 1 && config.data_dir.is_some() {
        return Err(BrokerError::Config(
            "several nodes keep their logs in memory: they take no data folder".to_owned(),
        ));
    }
    Ok(())
}

/// A listener as the node of this number has it: ports are counted up.
fn of_node(listener: &ListenerConfig, node: i32) -> ListenerConfig {
    let above = u16::try_from(node - 1).unwrap_or(0);
    let mut own = listener.clone();
    if own.port != 0 {
        own.port = own.port.saturating_add(above);
    }
    if let Some((_, port)) = &mut own.advertised {
        *port = port.saturating_add(above);
    }
    own
}

async fn security(
    config: &BrokerConfig,
    settings: &Settings,
    secret: [u8; 32],
) -> Result<Security, BrokerError> {
    let (config, settings) = (config.clone(), settings.clone());
    off_thread(move || {
        let security = Security::new(
            &config.security,
            settings.acl_settings(),
            settings.token_rules(),
            settings.token_lifetimes(),
            settings.quota_windows(),
            secret,
        );
        security.map_err(BrokerError::Config)
    })
    .await
}

async fn bind(host: &str, port: u16) -> Result<(TcpListener, SocketAddr), BrokerError> {
    let failed = |cause| BrokerError::Listen {
        host: host.to_owned(),
        port,
        cause: Arc::new(cause),
    };
    let socket = TcpListener::bind((host, port)).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    Ok((socket, address))
}

/// The advertised address of a listener.
fn advertised(listener: &ListenerConfig, address: SocketAddr) -> Address {
    let (host, port) = listener
        .advertised
        .clone()
        .unwrap_or_else(|| (reachable(&listener.host, address), address.port()));
    Address {
        host: host.into(),
        port: i32::from(port),
    }
}

/// The host for clients, which cannot connect to "any address".
fn reachable(host: &str, address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_owned(),
        ip if ip.is_unspecified() => "::1".to_owned(),
        _ => host.to_owned(),
    }
}

fn shown(Address { host, port }: &Address) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Where identifiers come from, and what must stay secret.
fn seeds() -> Result<(u64, [u8; 32]), BrokerError> {
    let (mut seed, mut secret) = ([0; 8], [0; 32]);
    let random = SystemRandom::new();
    let filled = random
        .fill(&mut seed)
        .and_then(|()| random.fill(&mut secret));
    filled.map_err(|_| BrokerError::Config("the system gives no random numbers".to_owned()))?;
    Ok((u64::from_ne_bytes(seed), secret))
}

async fn listen_until(
    listener: TcpListener,
    core: Arc<Core>,
    door: Door,
    mut stopped: watch::Receiver<()>,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stopped.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Without it a response waits for the client's acknowledgement of the one
                    // before.
                    let _ = stream.set_nodelay(true);
                    tasks.spawn(connection::serve(stream, peer, Arc::clone(&core), door.clone()));
                }
                Err(cause) => {
                    core.events.say(format_args!("a connection could not be accepted: {cause}"));
                    tokio::time::sleep(OUT_OF_SOCKETS).await;
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    drop(listener);
    tasks.shutdown().await;
}

/// Drives the timers of groups and transactions.
async fn run_timers(core: Arc<Core>, alarm: Arc<Alarm>, mut stopped: watch::Receiver<()>) {
    loop {
        let now = clock::now();
        if core.blocks() {
            let core = Arc::clone(&core);
            // What groups keep is written to files. A panic in it has been printed by the runtime.
            let _ = tokio::task::spawn_blocking(move || core.handle_timeout(now)).await;
        } else {
            core.handle_timeout(now);
        }
        let due = async {
            match core.next_timeout() {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stopped.changed() => return,
            () = alarm.woken() => {}
            () = due => {}
        }
    }
}

/// Looks at the logs when that is due.
async fn run_upkeep(core: Arc<Core>, mut stopped: watch::Receiver<()>) {
    core.begin_upkeep(clock::now());
    while let Some(due) = core.next_upkeep() {
        tokio::select! {
            biased;
            _ = stopped.changed() => return,
            () = tokio::time::sleep_until(due.into()) => {}
        }
        let core = Arc::clone(&core);
        let work = move || {
            core.upkeep(clock::now());
            Ok(())
        };
        if off_thread(work).await.is_err() {
            return;
        }
    }
}

/// Hands what leaders have to their followers.
fn run_replication(controller: &Arc<Controller>, alarm: Arc<Alarm>) -> Running {
    let (stop, mut stopped) = watch::channel(());
    let controller = Arc::clone(controller);
    let work = async move {
        loop {
            controller.replicate(clock::now());
            let due = controller.next_timeout();
            let due = async {
                match due {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = stopped.changed() => return,
                () = alarm.woken() => {}
                () = due => {}
            }
        }
    };
    Running {
        stop,
        tasks: vec![tokio::spawn(work)],
    }
}
