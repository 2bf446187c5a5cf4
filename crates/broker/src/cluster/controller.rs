//! What the nodes of a cluster share, as the metadata log does in Kafka: topics, their leaders, the
//! replicas in sync, the nodes that are up. Every change is handed to all nodes that are up: at
//! once, or as late as [`Controller::set_metadata_delay`] sets.
//!
//! A leader that does not know of its successor yet goes on: it appends and responds. Nobody copies
//! from it any more, so what it appends is never committed, and is cut off when it gets the new
//! metadata. Until then its changes of the replicas in sync are refused, as Kafka refuses
//! AlterPartition from a leader whose metadata is old (KIP-497).
//!
//! It has neither clock nor sockets: `now` is an argument, and whoever drives it calls [`Controller::replicate`] when its
//! waker was woken and at [`Controller::next_timeout`].
//!
//! # Locks
//! Its own comes before all of a node's: a node that calls it holds none. The path of records does not touch it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use ottla_protocol::{ErrorCode, Str, Uuid};
use parking_lot::Mutex;

use super::image::{Host, Image, Layout, PartitionId};
use super::way::{Way, Word};
use crate::bell::Slot;
use crate::config::{EventSink, Values};
use crate::ids::Ids;
use crate::now::Now;
use crate::replicas::Unreplicated;
use crate::storage::producers::Marker;
use crate::storage::replica::{NO_LEADER, Replica, Standing};
use crate::transaction::{Add, Place, Reply};

/// Producer ids handed to a node at once.
const PRODUCER_ID_BLOCK: i64 = 1000;
/// Bytes that a follower takes at once.
const COPIED_AT_ONCE: usize = 1 << 20;

/// A node, as the controller sees it.
pub(crate) trait Member: Send + Sync {
    /// Takes over a topic: new partitions, leaders and followers.
    fn apply(&self, image: &Image);
    /// Deletes a topic.
    fn forget(&self, topic: &str, now: Now);
    /// The topics that it has and that are not among `known`.
    fn missing(&self, known: &BTreeSet<&str>) -> Vec<String>;
    /// Its replica of a partition of the topic with this id.
    fn replica(&self, topic: &str, id: Uuid, index: i32) -> Option<Arc<Mutex<Replica>>>;
    /// Writes a marker to a partition that it leads.
    fn mark(&self, place: &Place, marker: Marker, now: Now) -> Result<Unreplicated, ErrorCode>;
    /// Adds to a transaction that it coordinates; the reply comes under the ticket.
    fn add_to_transaction(&self, add: &Add, ticket: Asked, now: Now);
    /// The partitions that it leads, and that have grown.
    fn take_grown(&self) -> BTreeSet<PartitionId>;
    /// Forgets what it reads back when it comes again: groups.
    fn forget_volatile(&self);
}

/// Where a coordinator's reply about a transaction goes.
pub(crate) type Asked = Arc<Slot<Reply>>;

/// How a node stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It hands over what it leads first, and syncs its logs.
    Clean,
    /// Its process ends; what it wrote is there when it starts again.
    Kill,
    /// Its machine ends; what it had not synced is lost.
    PowerLoss,
}

#[derive(Debug)]
pub(crate) struct Controller {
    state: Mutex<State>,
    waker: Waker,
    replica_lag: Duration,
    default_replication: i32,
    events: EventSink,
}

struct State {
    nodes: BTreeMap<i32, Node>,
    topics: BTreeMap<Str, Image>,
    controller: i32,
    ids: Ids,
    next_producer_id: i64,
    /// The node that leads the next topic's first partition.
    next_leader: usize,
    /// How long followers take.
    delay: Duration,
    /// Partitions that have grown, and when followers will have taken it.
    grown: BTreeMap<PartitionId, Instant>,
    /// Followers that are behind, and since when.
    behind: BTreeMap<(PartitionId, i32), Instant>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

struct Node {
    member: Weak<dyn Member>,
    host: Host,
    up: bool,
    /// Whether it takes what leaders have for it.
    follows: bool,
    /// What it has not heard yet.
    way: Way,
}

/// A topic as the controller decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) name: Str,
    pub(crate) id: Uuid,
    pub(crate) partitions: i32,
    /// Replicas of each partition.
    pub(crate) replication: i32,
}

impl Decided {
    fn of(image: &Image) -> Self {
        let first = image.partitions.first();
        Self {
            name: image.name.clone(),
            id: image.id,
            partitions: image.partitions.len() as i32,
            replication: first.map_or(0, |standing| standing.replicas.len() as i32),
        }
    }
}

/// A change that a cluster refuses.
pub(crate) type Failure = (ErrorCode, String);

impl Controller {
    pub(crate) fn new(
        seed: u64,
        replica_lag: Duration,
        default_replication: Option<i32>,
        nodes: i32,
        events: EventSink,
        waker: Waker,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                nodes: BTreeMap::new(),
                topics: BTreeMap::new(),
                controller: 1,
                ids: Ids::new(seed),
                next_producer_id: 0,
                next_leader: 0,
                delay: Duration::ZERO,
                grown: BTreeMap::new(),
                behind: BTreeMap::new(),
            }),
            waker,
            replica_lag,
            default_replication: default_replication.unwrap_or(nodes.min(3)),
            events,
        }
    }

    /// A node comes to the cluster, and is up.
    pub(crate) fn join(&self, id: i32, member: Weak<dyn Member>, host: Host) {
        let node = Node {
            member,
            host,
            up: true,
            follows: true,
            way: Way::default(),
        };
        self.state.lock().nodes.insert(id, node);
    }

    // Lookups.

    /// The nodes that are up, and where their clients connect, by number.
    pub(crate) fn hosts(&self) -> Vec<(i32, Host)> {
        let state = self.state.lock();
        let up = state.nodes.iter().filter(|(_, node)| node.up);
        up.map(|(id, node)| (*id, node.host.clone())).collect()
    }

    pub(crate) fn controller(&self) -> i32 {
        self.state.lock().controller
    }

    pub(crate) fn is_up(&self, id: i32) -> bool {
        self.state.lock().nodes.get(&id).is_some_and(|node| node.up)
    }

    /// How many nodes there are, up or not.
    pub(crate) fn size(&self) -> i32 {
        self.state.lock().nodes.len() as i32
    }

    /// Who leads a partition, and who is in sync.
    pub(crate) fn standing(&self, topic: &str, index: i32) -> Option<Standing> {
        let state = self.state.lock();
        let index = usize::try_from(index).ok()?;
        state.topics.get(topic)?.partitions.get(index).cloned()
    }

    /// A topic of this name, whichever nodes have heard of it.
    pub(crate) fn topic(&self, name: &str) -> Option<Decided> {
        self.state.lock().topics.get(name).map(Decided::of)
    }

    /// The topic with this id, whichever nodes have heard of it.
    pub(crate) fn topic_by_id(&self, id: Uuid) -> Option<Decided> {
        let state = self.state.lock();
        let mut topics = state.topics.values();
        topics.find(|image| image.id == id).map(Decided::of)
    }

    /// A node that is up.
    pub(crate) fn member(&self, id: i32) -> Option<Arc<dyn Member>> {
        let state = self.state.lock();
        let node = state.member(id).filter(|node| node.up)?;
        node.member.upgrade()
    }

    /// A block of producer ids that no other node has.
    pub(crate) fn producer_ids(&self) -> std::ops::Range<i64> {
        let mut state = self.state.lock();
        let start = state.next_producer_id;
        state.next_producer_id += PRODUCER_ID_BLOCK;
        start..state.next_producer_id
    }

    // Topics.

    /// Creates a topic, or with `validate_only` checks whether it could be created. Its name was
    /// checked already.
    pub(crate) fn create_topic(
        &self,
        name: &str,
        layout: &Layout,
        values: Values,
        unclean_elections: bool,
        validate_only: bool,
    ) -> Result<Decided, Failure> {
        let mut state = self.state.lock();
        if state.topics.contains_key(name) {
            let what = format!("topic \"{name}\" is there already");
            return Err((ErrorCode::TOPIC_ALREADY_EXISTS, what));
        }
        let id = state.ids.uuid();
        let partitions = state.place(layout, self.default_replication, 0)?;
        let image = Image {
            name: name.to_owned().into(),
            id,
            values,
            unclean_elections,
            partitions,
        };
        let made = Decided::of(&image);
        if !validate_only {
            state.topics.insert(image.name.clone(), image.clone());
            state.tell(&image);
            drop(state);
            self.waker.wake_by_ref();
        }
        Ok(made)
    }

    /// Adds partitions until there are as many as in `layout`.
    pub(crate) fn add_partitions(&self, name: &str, layout: &Layout) -> Result<(), Failure> {
        let mut state = self.state.lock();
        let unknown = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, name.to_owned());
        let present = state.topics.get(name).ok_or_else(unknown)?;
        let replication = present
            .partitions
            .first()
            .map(|it| it.replicas.len() as i32);
        let present = present.partitions.len();
        let layout = Layout {
            replication: replication.or(layout.replication),
            ..layout.clone()
        };
        let added = state.place(&layout, self.default_replication, present)?;
        let image = state.topics.get_mut(name).ok_or_else(unknown)?;
        image.partitions.extend(added);
        let image = image.clone();
        state.tell(&image);
        drop(state);
        self.waker.wake_by_ref();
        Ok(())
    }

    pub(crate) fn delete_topic(&self, name: &str, now: Now) -> Result<(), Failure> {
        let mut state = self.state.lock();
        if state.topics.remove(name).is_none() {
            return Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, name.to_owned()));
        }
        for node in state.nodes.values_mut().filter(|node| node.up) {
            if !node.way.is_open() {
                node.way.push(Word::Gone(name.to_owned().into()));
            } else if let Some(member) = node.member.upgrade() {
                member.forget(name, now);
            }
        }
        drop(state);
        self.waker.wake_by_ref();
        Ok(())
    }

    // Nodes.

    /// A node has stopped: others lead what it led.
    pub(crate) fn stop(&self, id: i32, how: Stop, now: Now) {
        if how == Stop::Clean {
            self.replicate_all(now);
        }
        let mut state = self.state.lock();
        let Some(node) = state.nodes.get_mut(&id).filter(|node| node.up) else {
            return;
        };
        node.up = false;
        node.way.clear();
        let member = node.member.upgrade();
        state.behind.retain(|(_, follower), _| *follower != id);
        state.pass_control_on();
        if let Some(member) = member {
            member.forget_volatile();
            for image in state.topics.values() {
                for (index, _) in image.partitions.iter().enumerate() {
                    let replica = member.replica(&image.name, image.id, index as i32);
                    let Some(replica) = replica else { continue };
                    match how {
                        Stop::Clean => replica.lock().sync(),
                        Stop::Kill => {}
                        Stop::PowerLoss => {
                            if let Err(cause) = replica.lock().lose_unsynced() {
                                self.events.say(format_args!("node {id}: {cause}"));
                            }
                        }
                    }
                }
            }
        }
        state.each_partition(|state, image, index| {
            let unclean = image.unclean_elections;
            let standing = image.partitions.get_mut(index)?;
            if standing.in_sync.len() > 1 {
                standing.in_sync.retain(|node| *node != id);
            }
            (standing.leader == id || standing.leader == NO_LEADER)
                .then(|| state.elect(standing, unclean))
        });
    }

    /// A node is back: it learns what happened, and follows.
    pub(crate) fn start(&self, id: i32, now: Now) {
        {
            let mut state = self.state.lock();
            let Some(node) = state.nodes.get_mut(&id).filter(|node| !node.up) else {
                return;
            };
            node.up = true;
            node.follows = true;
            state.pass_control_on();
            state.each_partition(|state, image, index| {
                let unclean = image.unclean_elections;
                let standing = image.partitions.get_mut(index)?;
                (standing.leader == NO_LEADER).then(|| state.elect(standing, unclean))
            });
            // What it missed, also of partitions that did not change now.
            let node = state.nodes.get_mut(&id);
            let member = node.and_then(|node| {
                node.way.clear();
                node.member.upgrade()
            });
            if let Some(member) = member {
                let known = state.topics.keys().map(|name| &**name).collect();
                for gone in member.missing(&known) {
                    member.forget(&gone, now);
                }
                for image in state.topics.values() {
                    member.apply(image);
                }
            }
            state.grow_all(now);
        }
        self.waker.wake_by_ref();
    }

    /// Makes a node in sync the leader of a partition.
    pub(crate) fn move_leader(&self, topic: &str, index: i32, to: i32) -> Result<(), String> {
        let mut state = self.state.lock();
        let is_up = state.nodes.get(&to).is_some_and(|node| node.up);
        let unknown = || format!("there is no partition {index} of topic \"{topic}\"");
        let image = state.topics.get_mut(topic).ok_or_else(unknown)?;
        let standing = usize::try_from(index)
            .ok()
            .and_then(|index| image.partitions.get_mut(index))
            .ok_or_else(unknown)?;
        if !standing.replicas.contains(&to) {
            return Err(format!("node {to} has no replica of {topic}-{index}"));
        }
        if !is_up {
            return Err(format!("node {to} is not up"));
        }
        if !standing.in_sync.contains(&to) {
            return Err(format!("node {to} is not in sync for {topic}-{index}"));
        }
        if standing.leader != to {
            standing.leader = to;
            standing.epoch += 1;
            let image = image.clone();
            state.tell(&image);
        }
        drop(state);
        self.waker.wake_by_ref();
        Ok(())
    }

    /// Makes any node that is up the leader of a partition, in sync or not: what others have more is cut off.
    pub(crate) fn elect_unclean(&self, topic: &str, index: i32, to: i32) -> Result<(), String> {
        {
            let mut state = self.state.lock();
            let is_up = state.nodes.get(&to).is_some_and(|node| node.up);
            let unknown = || format!("there is no partition {index} of topic \"{topic}\"");
            let image = state.topics.get_mut(topic).ok_or_else(unknown)?;
            let standing = usize::try_from(index)
                .ok()
                .and_then(|index| image.partitions.get_mut(index))
                .ok_or_else(unknown)?;
            if !standing.replicas.contains(&to) || !is_up {
                return Err(format!("node {to} cannot lead {topic}-{index}"));
            }
            standing.leader = to;
            standing.epoch += 1;
            standing.in_sync = vec![to];
            let image = image.clone();
            state.tell(&image);
        }
        self.waker.wake_by_ref();
        Ok(())
    }

    /// Another node controls.
    pub(crate) fn move_controller(&self, to: i32) -> Result<(), String> {
        let mut state = self.state.lock();
        if !state.nodes.get(&to).is_some_and(|node| node.up) {
            return Err(format!("node {to} is not up"));
        }
        state.controller = to;
        Ok(())
    }

    /// Whether a node takes what leaders have for it; one that does not falls out of sync after `replica.lag.time.max.ms`.
    pub(crate) fn set_following(&self, id: i32, follows: bool, now: Now) {
        {
            let mut state = self.state.lock();
            if let Some(node) = state.nodes.get_mut(&id) {
                node.follows = follows;
            }
            state.grow_all(now);
        }
        self.waker.wake_by_ref();
    }

    /// The delay of metadata from the controller to a node. With no delay the node gets at once
    /// what it has missed.
    pub(crate) fn set_metadata_delay(&self, id: i32, delay: Duration, now: Now) {
        {
            let mut state = self.state.lock();
            if let Some(node) = state.nodes.get_mut(&id) {
                node.way.set_delay(delay, now.instant);
            }
            state.deliver(now);
        }
        self.waker.wake_by_ref();
    }

    /// Whether a node has heard everything that the controller decided.
    pub(crate) fn has_heard(&self, id: i32) -> bool {
        let state = self.state.lock();
        state.nodes.get(&id).is_some_and(|node| node.way.is_empty())
    }

    /// How long followers take for what leaders have.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.state.lock().delay = delay;
    }

    /// Makes all that a node has survive a loss of power.
    pub(crate) fn sync(&self, id: i32) {
        let state = self.state.lock();
        let member = state.nodes.get(&id).and_then(|node| node.member.upgrade());
        let Some(member) = member else { return };
        for image in state.topics.values() {
            for (index, _) in image.partitions.iter().enumerate() {
                if let Some(replica) = member.replica(&image.name, image.id, index as i32) {
                    replica.lock().sync();
                }
            }
        }
    }

    // Replication.

    /// When [`Controller::replicate`] has something to do, unless its waker is woken before.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let state = self.state.lock();
        let grown = state.grown.values().min().copied();
        let behind = state.behind.values().min();
        let lagging = behind.and_then(|since| since.checked_add(self.replica_lag));
        let words = state
            .nodes
            .values()
            .filter_map(|node| node.way.next_timeout());
        words.chain(grown).chain(lagging).min()
    }

    /// Hands new records to followers, and removes lagging ones from the replicas in sync. Returns
    /// whether it did anything.
    pub(crate) fn replicate(&self, now: Now) -> bool {
        let mut state = self.state.lock();
        let mut did = state.deliver(now);
        loop {
            state.gather(now);
            let due = state.grown.iter().find(|(_, due)| **due <= now.instant);
            let Some(partition) = due.map(|(partition, _)| partition.clone()) else {
                break;
            };
            state.grown.remove(&partition);
            if let Err(cause) = state.follow(&partition, now) {
                let (topic, index) = &partition;
                self.events
                    .say(format_args!("{topic}-{index} could not be copied: {cause}"));
            }
            did = true;
        }
        did | state.shrink(self.replica_lag, now)
    }

    fn replicate_all(&self, now: Now) {
        let delay = {
            let mut state = self.state.lock();
            state.grow_all(now);
            let now_due = state.grown.values_mut();
            now_due.for_each(|due| *due = now.instant);
            std::mem::replace(&mut state.delay, Duration::ZERO)
        };
        self.replicate(now);
        self.state.lock().delay = delay;
    }
}

impl State {
    fn members(&self) -> Vec<Arc<dyn Member>> {
        let up = self.nodes.values().filter(|node| node.up);
        up.filter_map(|node| node.member.upgrade()).collect()
    }

    fn tell(&mut self, image: &Image) {
        for node in self.nodes.values_mut().filter(|node| node.up) {
            if !node.way.is_open() {
                node.way.push(Word::Topic(image.clone()));
            } else if let Some(member) = node.member.upgrade() {
                member.apply(image);
            }
        }
    }

    /// Delivers due metadata to nodes. Returns whether there was any.
    fn deliver(&mut self, now: Now) -> bool {
        let (mut any, mut all) = (false, false);
        for node in self.nodes.values_mut().filter(|node| node.up) {
            let Some(member) = node.member.upgrade() else {
                continue;
            };
            let mut heard = false;
            while let Some(word) = node.way.pop(now.instant) {
                heard = true;
                match word {
                    Word::Topic(image) => member.apply(&image),
                    Word::Gone(name) => member.forget(&name, now),
                }
            }
            any |= heard;
            all |= heard && node.way.is_empty();
        }
        if all {
            // What was refused to a leader whose knowledge was old is asked for again.
            self.grow_all(now);
        }
        any
    }

    fn pass_control_on(&mut self) {
        let is_up = |id: &i32| self.nodes.get(id).is_some_and(|node| node.up);
        if !is_up(&self.controller)
            && let Some(next) = self.nodes.keys().copied().find(is_up)
        {
            self.controller = next;
        }
    }

    /// Where the partitions of a topic go, from number `first` on.
    fn place(
        &mut self,
        layout: &Layout,
        default_replication: i32,
        first: usize,
    ) -> Result<Vec<Standing>, Failure> {
        let standing = |replicas: Vec<i32>| {
            let up = |id: &i32| self.nodes.get(id).is_some_and(|node| node.up);
            let in_sync: Vec<i32> = replicas.iter().copied().filter(up).collect();
            Standing {
                leader: in_sync.first().copied().unwrap_or(NO_LEADER),
                epoch: 0,
                in_sync: if in_sync.is_empty() {
                    replicas.clone()
                } else {
                    in_sync
                },
                replicas,
            }
        };
        if let Some(assignments) = &layout.assignments {
            return Ok(assignments.iter().cloned().map(standing).collect());
        }
        let up = self.nodes.iter().filter(|(_, node)| node.up);
        let up: Vec<i32> = up.map(|(id, _)| *id).collect();
        let replication = layout.replication.unwrap_or(default_replication);
        let count = usize::try_from(replication).unwrap_or(0);
        if count == 0 || count > up.len() {
            let what = format!(
                "replication factor {replication} is not possible with {} brokers",
                up.len()
            );
            return Err((ErrorCode::INVALID_REPLICATION_FACTOR, what));
        }
        let offset = self.next_leader;
        let made = (first..layout.partitions as usize).map(|index| {
            let ring = up.iter().copied().cycle().skip((offset + index) % up.len());
            standing(ring.take(count).collect())
        });
        let made = made.collect();
        self.next_leader += 1;
        Ok(made)
    }

    /// Runs `change` on every partition, and sends changed topics to the nodes. `change` returns
    /// whether a leader was looked for.
    fn each_partition(&mut self, mut change: impl FnMut(&Self, &mut Image, usize) -> Option<()>) {
        let names: Vec<Str> = self.topics.keys().cloned().collect();
        for name in names {
            let Some(old) = self.topics.get(&name).cloned() else {
                continue;
            };
            let mut image = old.clone();
            for index in 0..image.partitions.len() {
                change(self, &mut image, index);
            }
            if image.partitions != old.partitions {
                self.topics.insert(name, image.clone());
                self.tell(&image);
            }
        }
    }

    /// Looks for a leader among those that are up: in sync, or with `unclean` any.
    fn elect(&self, standing: &mut Standing, unclean: bool) {
        let up = |id: &&i32| self.nodes.get(*id).is_some_and(|node| node.up);
        let in_sync = |id: &&i32| standing.in_sync.contains(*id);
        let mut replicas = standing.replicas.iter().filter(up);
        let clean = replicas.clone().find(in_sync).copied();
        let leader = clean.or_else(|| replicas.next().copied().filter(|_| unclean));
        if leader.is_some() && clean.is_none() {
            standing.in_sync = leader.into_iter().collect();
        }
        let leader = leader.unwrap_or(NO_LEADER);
        if leader != standing.leader {
            standing.leader = leader;
            standing.epoch += 1;
        }
    }

    fn gather(&mut self, now: Now) {
        let due = now.instant + self.delay;
        for member in self.members() {
            for partition in member.take_grown() {
                self.grown.entry(partition).or_insert(due);
            }
        }
    }

    fn grow_all(&mut self, now: Now) {
        let due = now.instant + self.delay;
        let topics = self.topics.values();
        let all = topics.flat_map(|image| {
            (0..image.partitions.len()).map(|index| (image.name.clone(), index as i32))
        });
        for partition in all.collect::<Vec<_>>() {
            self.grown.entry(partition).or_insert(due);
        }
    }

    /// Has the followers of a partition take what its leader has.
    fn follow(&mut self, partition: &PartitionId, now: Now) -> std::io::Result<()> {
        let (name, index) = partition;
        let found = self.topics.get(name).and_then(|image| {
            let standing = image.partitions.get(usize::try_from(*index).ok()?)?;
            Some((image.id, standing.clone()))
        });
        let Some((id, standing)) = found else {
            return Ok(());
        };
        let leader = self.member(standing.leader).filter(|node| node.up);
        let replica_of = |node: &Node| node.member.upgrade()?.replica(name, id, *index);
        // Each knows by itself who leads.
        let has_heard = |replica: &Arc<Mutex<Replica>>| {
            let replica = replica.lock();
            let known = replica.standing();
            (known.leader, known.epoch) == (standing.leader, standing.epoch)
        };
        let Some(leader) = leader.and_then(replica_of).filter(has_heard) else {
            return Ok(());
        };
        let committed = leader.lock().visible().high_watermark;
        self.behind.remove(&(partition.clone(), standing.leader));
        let mut joining = Vec::new();
        for follower in standing.replicas.clone() {
            if follower == standing.leader {
                continue;
            }
            let node = self.member(follower).filter(|node| node.up);
            let Some(node) = node else { continue };
            let key = (partition.clone(), follower);
            let copy = replica_of(node).filter(|copy| node.follows && has_heard(copy));
            let (end, has_all) = match copy {
                Some(copy) => take_all(&leader, &copy, follower)?,
                None => (-1, false),
            };
            let is_behind = end < leader.lock().tail().0;
            if is_behind {
                self.behind.entry(key).or_insert(now.instant);
            } else {
                self.behind.remove(&key);
            }
            if has_all && !standing.in_sync.contains(&follower) {
                joining.push(follower);
            }
        }
        if !joining.is_empty() {
            let mut standing = standing;
            standing.in_sync.append(&mut joining);
            standing.in_sync.sort_unstable();
            self.alter(partition, standing);
        }
        if leader.lock().visible().high_watermark != committed {
            // Followers learn of it when they fetch the next time.
            let due = now.instant + self.delay;
            self.grown.entry(partition.clone()).or_insert(due);
        }
        Ok(())
    }

    fn member(&self, id: i32) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// A leader changes who is in sync; false if it does not know all that was decided. It knows of its own change at once.
    fn alter(&mut self, (name, index): &PartitionId, standing: Standing) -> bool {
        let id = standing.leader;
        if self.member(id).is_none_or(|node| !node.way.is_empty()) {
            return false;
        }
        let Some(image) = self.topics.get_mut(name) else {
            return false;
        };
        let place = usize::try_from(*index).ok();
        if let Some(old) = place.and_then(|index| image.partitions.get_mut(index)) {
            *old = standing;
        }
        let image = image.clone();
        self.tell(&image);
        if let Some(leader) = self.nodes.get_mut(&id)
            && let Some(member) = leader.member.upgrade().filter(|_| leader.up)
        {
            leader.way.clear();
            member.apply(&image);
        }
        true
    }

    /// Puts followers out of sync that were behind for too long.
    fn shrink(&mut self, lag: Duration, now: Now) -> bool {
        let is_over = |since: &Instant| {
            since
                .checked_add(lag)
                .is_some_and(|late| late <= now.instant)
        };
        let late: Vec<_> = self
            .behind
            .iter()
            .filter(|(_, since)| is_over(since))
            .map(|(key, _)| key.clone())
            .collect();
        for (partition, follower) in &late {
            self.behind.remove(&(partition.clone(), *follower));
            let (name, index) = partition;
            let found = self.topics.get(name).and_then(|image| {
                let index = usize::try_from(*index).ok()?;
                image.partitions.get(index).cloned()
            });
            // It may lead by now.
            let is_late = |it: &Standing| {
                let is_led = it.leader != NO_LEADER && it.leader != *follower;
                is_led && it.in_sync.contains(follower)
            };
            if let Some(mut standing) = found.filter(is_late) {
                standing.in_sync.retain(|node| node != follower);
                if !self.alter(partition, standing) {
                    self.behind
                        .insert((partition.clone(), *follower), now.instant);
                }
            }
        }
        !late.is_empty()
    }
}

/// A follower takes all that its leader has. Gives its end then, and whether it has all that is committed.
fn take_all(
    leader: &Mutex<Replica>,
    follower: &Mutex<Replica>,
    id: i32,
) -> std::io::Result<(i64, bool)> {
    loop {
        let (end, last_epoch, may_diverge) = follower.lock().tail();
        let copied = leader
            .lock()
            .give(end, last_epoch, may_diverge, COPIED_AT_ONCE)?;
        let records = match copied.span {
            Some(span) => span.load()?,
            None => bytes::Bytes::new(),
        };
        let is_last = records.is_empty() && copied.cut.is_none();
        follower.lock().take(copied.cut, copied.visible, records)?;
        let (end, ..) = follower.lock().tail();
        let has_all = leader.lock().followed(id, end);
        if is_last {
            return Ok((end, has_all));
        }
    }
}
