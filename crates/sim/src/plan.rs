//! What happens in a run, decided from its seed before it begins: who takes part, with which settings, what they do, and what
//! befalls them. A shorter run of the same seed is a prefix of the same steps.

pub mod aging;
pub mod consumer_groups;
pub mod deposed;
mod exchanges;
pub mod groups;
pub mod share;
pub mod transactions;
pub mod truncated;

use std::sync::Arc;
use std::time::Duration;

use ottla_broker::Release;
use ottla_broker::node::Stop;
use ottla_protocol::{ApiKey, ErrorCode};

use self::exchanges::exchange;
use crate::chance::Chance;
use crate::habits::{Commits, Habits};
use crate::keeper::Trouble;
use crate::shared::Rules;

/// A topic.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its partitions at the beginning.
    pub partitions: i32,
    /// It is deleted and recreated at times.
    pub mortal: bool,
}

/// A client and its settings.
#[derive(Clone, Debug)]
pub struct Member {
    /// Kafka's names and values.
    pub pairs: Vec<(&'static str, String)>,
    /// Between two polls, and the most records of one.
    pub rest: Duration,
    /// The most records of one poll.
    pub most: usize,
}

/// A member of a share group, its settings, and what its application makes of it. All its processes have the same.
#[derive(Clone, Debug)]
pub struct Sharer {
    /// The group's number.
    pub group: usize,
    /// Kafka's names and values.
    pub pairs: Vec<(&'static str, String)>,
    /// It acknowledges each record explicitly.
    pub is_explicit: bool,
    /// Whether it commits before it polls.
    pub commits: Commits,
    /// How long it works on what a poll gave at most.
    pub works: Duration,
    /// The most records of a poll.
    pub most: usize,
    /// How long locks last in its group.
    pub lock: Duration,
}

/// How the network is when nothing is wrong.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The least and the most time that bytes take.
    pub delay: (Duration, Duration),
    /// In how many of a hundred cases bytes arrive in pieces.
    pub pieces: u32,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A producer sends this many records to a topic.
    Send {
        /// Which.
        producer: usize,
        /// The topic's number.
        topic: usize,
        /// The partition; `None` leaves it to a key.
        partition: Option<i32>,
        /// How many records.
        count: usize,
        /// Bytes that make values longer.
        padding: usize,
    },
    /// A producer flushes.
    Flush(usize),
    /// A consumer reads other partitions: a number that chooses which.
    Assign(usize, u64),
    /// A consumer follows topics.
    Follow(usize, u64),
    /// A consumer seeks in one of its partitions: which, and where to.
    Seek(usize, u64, Aim),
    /// A consumer pauses or resumes one of its partitions.
    Pause(usize, u64, bool),
    /// An admin client does something: a number that chooses what.
    Administer(usize, u64),
    /// A producer of a transactional id runs a transaction: a number that chooses which producer, and what it does.
    Transact(usize, u64),
    /// Another producer of a transactional id begins, while the one before goes on.
    Succeed(usize),
    /// A consumer of a group begins, unless it is there; one with an instance id begins next to the one before.
    Join(usize),
    /// The application around it does something: a number that chooses what.
    Deed(usize, u64),
    /// Its process ends at once.
    Die(usize),
    /// Something goes wrong.
    Strike(Fault),
}

/// Where a seek goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// To an offset near the beginning, which there may be.
    Offset(i64),
    /// To the beginning.
    Beginning,
    /// To the end.
    End,
    /// Beyond any end.
    Beyond,
}

/// A step of a transaction or of a member of a group, by the request that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A producer gets its identity.
    InitProducerId,
    /// Partitions join.
    AddPartitionsToTxn,
    /// Batches are written.
    Produce,
    /// A group joins.
    AddOffsetsToTxn,
    /// A group's offsets are written; its own coordinator moves.
    TxnOffsetCommit,
    /// The transaction is ended.
    EndTxn,
    /// The markers are written that follow from that.
    Markers,
    /// A consumer joins its group.
    JoinGroup,
    /// It gets, or hands out, an assignment.
    SyncGroup,
    /// A heartbeat of a member.
    Heartbeat,
    /// It commits offsets.
    OffsetCommit,
    /// It looks up where to read on.
    OffsetFetch,
    /// It leaves.
    LeaveGroup,
    /// A member of a share group joins, sends a heartbeat, or leaves.
    ShareGroupHeartbeat,
    /// It gets records; their leader moves.
    ShareFetch,
    /// It acknowledges records; their leader moves.
    ShareAcknowledge,
    /// A heartbeat with what the member wants and has (KIP-848).
    ConsumerGroupHeartbeat,
}

impl Stage {
    /// Those of a transaction.
    pub const OF_TRANSACTIONS: [Stage; 7] = [
        Stage::InitProducerId,
        Stage::AddPartitionsToTxn,
        Stage::Produce,
        Stage::AddOffsetsToTxn,
        Stage::TxnOffsetCommit,
        Stage::EndTxn,
        Stage::Markers,
    ];

    /// Those of a group.
    pub const OF_GROUPS: [Stage; 6] = [
        Stage::JoinGroup,
        Stage::SyncGroup,
        Stage::Heartbeat,
        Stage::OffsetCommit,
        Stage::OffsetFetch,
        Stage::LeaveGroup,
    ];

    /// Those of a share group.
    pub const OF_SHARES: [Stage; 3] = [
        Stage::ShareGroupHeartbeat,
        Stage::ShareFetch,
        Stage::ShareAcknowledge,
    ];

    /// Those of a group whose coordinator assigns.
    pub const OF_CONSUMER_GROUPS: [Stage; 4] = [
        Stage::ConsumerGroupHeartbeat,
        Stage::ConsumerGroupHeartbeat,
        Stage::OffsetCommit,
        Stage::OffsetFetch,
    ];

    /// The request that it begins with.
    pub fn api(self) -> ApiKey {
        match self {
            Stage::InitProducerId => ApiKey::InitProducerId,
            Stage::AddPartitionsToTxn => ApiKey::AddPartitionsToTxn,
            Stage::Produce => ApiKey::Produce,
            Stage::AddOffsetsToTxn => ApiKey::AddOffsetsToTxn,
            Stage::TxnOffsetCommit => ApiKey::TxnOffsetCommit,
            Stage::EndTxn | Stage::Markers => ApiKey::EndTxn,
            Stage::JoinGroup => ApiKey::JoinGroup,
            Stage::SyncGroup => ApiKey::SyncGroup,
            Stage::Heartbeat => ApiKey::Heartbeat,
            Stage::OffsetCommit => ApiKey::OffsetCommit,
            Stage::OffsetFetch => ApiKey::OffsetFetch,
            Stage::LeaveGroup => ApiKey::LeaveGroup,
            Stage::ShareGroupHeartbeat => ApiKey::ShareGroupHeartbeat,
            Stage::ShareFetch => ApiKey::ShareFetch,
            Stage::ShareAcknowledge => ApiKey::ShareAcknowledge,
            Stage::ConsumerGroupHeartbeat => ApiKey::ConsumerGroupHeartbeat,
        }
    }

    /// The name in the summary of a coordinator's move at this step.
    pub fn name(self) -> &'static str {
        match self {
            Stage::InitProducerId => "coordinator: moved at InitProducerId",
            Stage::AddPartitionsToTxn => "coordinator: moved at AddPartitionsToTxn",
            Stage::Produce => "coordinator: moved at Produce",
            Stage::AddOffsetsToTxn => "coordinator: moved at AddOffsetsToTxn",
            Stage::TxnOffsetCommit => "coordinator: moved at TxnOffsetCommit",
            Stage::EndTxn => "coordinator: moved at EndTxn",
            Stage::Markers => "coordinator: moved while markers were written",
            Stage::JoinGroup => "coordinator: moved at JoinGroup",
            Stage::SyncGroup => "coordinator: moved at SyncGroup",
            Stage::Heartbeat => "coordinator: moved at Heartbeat",
            Stage::OffsetCommit => "coordinator: moved at OffsetCommit",
            Stage::OffsetFetch => "coordinator: moved at OffsetFetch",
            Stage::LeaveGroup => "coordinator: moved at LeaveGroup",
            Stage::ShareGroupHeartbeat => "coordinator: moved at ShareGroupHeartbeat",
            Stage::ShareFetch => "leader: moved at ShareFetch",
            Stage::ShareAcknowledge => "leader: moved at ShareAcknowledge",
            Stage::ConsumerGroupHeartbeat => "coordinator: moved at ConsumerGroupHeartbeat",
        }
    }
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A node ends, and comes back after a time.
    Dies(i32, Stop, Duration),
    /// A node does nothing for a time.
    Pauses(i32, Duration),
    /// Packets to and from a node do not pass for a time; TCP delivers them afterwards.
    Unreachable(i32, Duration),
    /// A node's connections are half open from now on, and dials to it get no response for a time.
    Vanishes(i32, Duration),
    /// A node resets its connections.
    Resets(i32),
    /// A node closes its connections, as one that finds them idle.
    Closes(i32),
    /// A node takes no connections for a time.
    Refuses(i32, Duration),
    /// Everything takes longer, for a time.
    Slow(Duration, Duration),
    /// Requests of an API at a node get into trouble.
    Answers(i32, ApiKey, Trouble, u32),
    /// What the controller decides takes so long to a node, for a time.
    HearsLate(i32, Duration, Duration),
    /// A partition gets another leader that is in sync, and the old one does not hear of it for a time.
    Deposed(usize, i32, Duration),
    /// A node refuses everybody's credentials for a time.
    RefusesLogins(i32, Duration),
    /// A node copies nothing from leaders for a time, and falls out of sync if that is long.
    StandsStill(i32, Duration),
    /// Followers take so long to copy, for a time.
    FollowersLag(Duration, Duration),
    /// A node's wall clock jumps by this many milliseconds.
    ClockJumps(i32, i64),
    /// The wall clock of a producer jumps so, and the time stamps of its records with it. In a plan it is the one of this number.
    TimeJumps(usize, i64),
    /// This many of a hundred records of a partition are deleted, the oldest first, whoever has not read them.
    Trims(usize, i32, i64),
    /// A partition gets another leader that is in sync.
    LeaderMoves(usize, i32),
    /// A partition gets another leader, in sync or not: what it has not is lost.
    UncleanElection(usize, i32),
    /// A partition gets a leader that is out of sync, if a node is.
    LaggardElected(usize, i32),
    /// A node reports no newer Fetch than brokers of 2.4 to 2.6 support, which the embedded broker cannot be.
    FetchesAsOld(i32),
    /// A node becomes another release, and its connections end.
    Upgraded(i32, Release),
    /// A topic gets another partition.
    Grows(usize),
    /// A topic is deleted, and recreated after a time.
    Deleted(usize, Duration),
    /// The coordinator moves when somebody comes to this step next: before the request is handled, or right after.
    CoordinatorMoves(Stage, bool),
    /// The coordinators of a node get successors, and it does not hear of it for a time.
    CoordinatorDeposed(i32, Duration),
    /// A client stands still for a time, as a program that is stopped. In a plan it is the newest of this transactional id, or of
    /// this number in groups.
    Sleeps(usize, Duration),
    /// Packets to and from a client do not pass for a time. In a plan it is the newest of this transactional id, or of
    /// this number in groups.
    CutOff(usize, Duration),
}

impl Fault {
    /// Its name in the summary.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Dies(_, Stop::Clean, _) => "node: stopped and came back",
            Fault::Dies(_, Stop::Kill, _) => "node: was killed and came back",
            Fault::Dies(_, Stop::PowerLoss, _) => "node: lost power and came back",
            Fault::Pauses(..) => "node: paused",
            Fault::Unreachable(..) => "network: packets held up",
            Fault::Vanishes(..) => "network: half open",
            Fault::Resets(_) => "network: reset",
            Fault::Closes(_) => "node: closed idle connections",
            Fault::Refuses(..) => "node: refused connections",
            Fault::Slow(..) => "network: slow",
            Fault::Answers(_, _, trouble, _) => trouble.name(),
            Fault::HearsLate(..) => "cluster: a node heard late",
            Fault::Deposed(..) => "cluster: a leader did not hear of its successor",
            Fault::RefusesLogins(..) => "node: refused credentials",
            Fault::StandsStill(..) => "cluster: a follower stood still",
            Fault::FollowersLag(..) => "cluster: followers lagged",
            Fault::ClockJumps(..) => "node: its clock jumped",
            Fault::TimeJumps(..) => "client: its clock jumped",
            Fault::Trims(..) => "cluster: records were deleted",
            Fault::LeaderMoves(..) => "cluster: a leader moved",
            Fault::UncleanElection(..) => "cluster: an unclean election",
            Fault::FetchesAsOld(_) => "node: supports no Fetch that returns where logs diverge",
            Fault::LaggardElected(..) => "cluster: a replica that lacked records was elected",
            Fault::Upgraded(..) => "node: became another release",
            Fault::Grows(_) => "cluster: a topic grew",
            Fault::Deleted(..) => "cluster: a topic was deleted and recreated",
            Fault::CoordinatorMoves(stage, _) => stage.name(),
            Fault::CoordinatorDeposed(..) => "coordinator: did not hear of its successor",
            Fault::Sleeps(..) => "client: stood still",
            Fault::CutOff(..) => "client: cut off",
        }
    }
}

/// Something that happens, and when.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// A run, before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes, numbered from 1.
    pub nodes: i32,
    /// Topics.
    pub topics: Vec<Topic>,
    /// Producers.
    pub producers: Vec<Member>,
    /// Transactional ids: the settings of all producers of each.
    pub transactors: Vec<Member>,
    /// Consumers.
    pub consumers: Vec<Member>,
    /// Consumers of groups.
    pub members: Vec<Habits>,
    /// What holds for the records of share groups, by their numbers.
    pub shares: Vec<Rules>,
    /// Members of share groups.
    pub sharers: Vec<Sharer>,
    /// Admin clients.
    pub admins: Vec<Member>,
    /// The network.
    pub weather: Weather,
    /// What happens, by time.
    pub steps: Vec<Step>,
    /// When everything is healed.
    pub end: Duration,
    /// `min.insync.replicas` and `replica.lag.time.max.ms` of the nodes.
    pub min_in_sync: i32,
    /// See there.
    pub replica_lag: Duration,
    /// `group.initial.rebalance.delay.ms`.
    pub first_rebalance: Duration,
    /// The brokers' settings for groups whose coordinators assign.
    pub group_settings: Vec<(&'static str, String)>,
    /// What each node is.
    pub releases: Vec<Release>,
    /// Whether clients authenticate.
    pub authenticated: bool,
    /// What the network and the clients draw from.
    pub chance: Chance,
}

/// Every fault that some seed must meet.
pub const FAULTS: &[&str] = &[
    "response: applied, yet refused",
    "response: byte by byte",
    "response: closed after",
    "response: cut",
    "response: late",
    "response: lost, connection closed",
    "response: never",
    "response: refused",
    "response: throttled",
    "response: twice",
    "response: wrong correlation id",
    "client: its clock jumped",
    "cluster: a follower stood still",
    "cluster: a leader did not hear of its successor",
    "cluster: a leader moved",
    "cluster: a node heard late",
    "cluster: a topic grew",
    "cluster: a topic was deleted and recreated",
    "cluster: an unclean election",
    "cluster: followers lagged",
    "cluster: records were deleted",
    "dial: a bootstrap address is silent",
    "dial: a bootstrap address refuses",
    "dial: a bootstrap name is unknown",
    "dial: hangs",
    "dial: refused",
    "network: a stream cut in pieces",
    "network: bytes held up",
    "network: bytes lost on a half-open connection",
    "network: half open",
    "network: packets held up",
    "network: reset",
    "network: slow",
    "node: became another release",
    "node: bytes waited for a paused node",
    "node: closed idle connections",
    "node: its clock jumped",
    "node: lost power and came back",
    "node: paused",
    "node: refused connections",
    "node: refused credentials",
    "node: stopped and came back",
    "node: was killed and came back",
    "request: closed before",
    "request: lost",
];

/// Every state that some seed must enter.
pub const STATES: &[&str] = &[
    "admin: a call was surely refused",
    "admin: a call's result stayed unknown",
    "admin: a change was made",
    "admin: described a topic",
    "admin: found an offset",
    "admin: listed brokers",
    "admin: listed topics",
    "client: authenticated again",
    "client: assumed a release",
    "client: began again at the bootstrap servers",
    "client: connected",
    "client: could not connect",
    "client: could not read on without a seek",
    "client: did without idempotence",
    "client: disconnected",
    "client: gave a batch up",
    "client: got a producer id",
    "client: missed a topic",
    "client: reset an offset",
    "client: retried",
    "client: saw a leader move",
    "client: saw a recreated topic",
    "client: saw partitions added",
    "client: throttled",
    "client: was refused by a node",
    "cluster: a leader of the past was asked to read",
    "cluster: a leader of the past was asked to write",
    "cluster: a log was compacted",
    "consumer: a poll cut a batch",
    "consumer: a poll raised an error",
    "consumer: a poll was full",
    "consumer: dropped records that a seek or reset made stale",
    "consumer: what it was to read next was deleted",
    "producer: a record was surely not written",
    "producer: a record's delivery result stayed unknown",
    "producer: a record's time was refused",
    "producer: stopped waiting",
    "producer: waited for a topic",
    "producer: waited for space",
    "session: a partition was forgotten",
    "session: all was as before",
    "session: began in place of another",
    "session: what changed was said",
    "world: healed in the middle of a fault",
];

const SECOND: Duration = Duration::from_secs(1);
/// A broker that receives nothing for 9 s (`broker.session.timeout.ms`) is no longer part of the cluster.
const LATE: Duration = Duration::from_secs(8);

impl Plan {
    /// The run of a seed.
    pub fn of(seed: u64) -> Plan {
        let mut chance = Chance::new(seed);
        let nodes = chance.pick(&[1, 2, 3, 3]).unwrap_or(1);
        let topics = topics(&mut chance);
        let authenticated = chance.percent(20);
        let releases = releases(&mut chance, nodes, authenticated);
        let cluster = Cluster {
            nodes,
            authenticated,
            is_old: releases.iter().any(|release| *release < since("0.11.0")),
        };
        let producers = (0..1 + chance.below(3))
            .map(|number| producer(&mut chance, &cluster, number))
            .collect();
        let consumers = (0..1 + chance.below(3))
            .map(|number| consumer(&mut chance, &cluster, number))
            .collect();
        let admins = (0..chance.below(3))
            .map(|number| admin(&mut chance, &cluster, number))
            .collect();
        let slow = chance.millis(0, 4);
        let weather = Weather {
            delay: (Duration::from_micros(50), Duration::from_micros(500) + slow),
            pieces: chance.pick(&[0, 5, 30]).unwrap_or(0),
        };
        let end = chance.time(SECOND * 20, SECOND * 60);
        let min_in_sync = chance.from_to(1, (nodes - 1).max(1));
        let replica_lag = chance.time(SECOND, SECOND * 10);
        let mut plan = Plan {
            nodes,
            topics,
            producers,
            transactors: Vec::new(),
            consumers,
            members: Vec::new(),
            shares: Vec::new(),
            sharers: Vec::new(),
            admins,
            weather,
            steps: Vec::new(),
            end,
            min_in_sync,
            replica_lag,
            first_rebalance: Duration::ZERO,
            group_settings: Vec::new(),
            releases,
            authenticated,
            chance: chance.fork(),
        };
        plan.begin(&mut chance);
        plan.work(&mut chance);
        plan.trouble(&mut chance, authenticated);
        plan.steps.sort_by_key(|step| step.at);
        plan
    }

    /// Clients keep little, so that what they keep too much of shows.
    pub fn keep_little(&mut self) {
        let keep = |pairs: &mut Vec<(&'static str, String)>, little: &[(&'static str, &str)]| {
            let is_set = |name: &str| little.iter().any(|(other, _)| *other == name);
            pairs.retain(|(name, _)| !is_set(name));
            let little = little.iter();
            pairs.extend(little.map(|(name, value)| (*name, (*value).to_owned())));
        };
        let frame = ("receive.message.max.bytes", "1310720");
        for producer in self.producers.iter_mut().chain(&mut self.transactors) {
            keep(&mut producer.pairs, &[frame, ("buffer.memory", "200000")]);
        }
        let fetched = ("fetch.max.bytes", "262144");
        let prefetched = ("prefetch.max.bytes", "200000");
        let consumers = self.consumers.iter_mut().map(|it| &mut it.pairs);
        for pairs in consumers.chain(self.members.iter_mut().map(|it| &mut it.pairs)) {
            keep(pairs, &[frame, fetched, prefetched]);
        }
        for sharer in &mut self.sharers {
            keep(&mut sharer.pairs, &[frame, fetched]);
        }
        for admin in &mut self.admins {
            keep(&mut admin.pairs, &[frame]);
        }
    }

    /// Consumers begin to read at once, so that every prefix has readers.
    fn begin(&mut self, chance: &mut Chance) {
        for consumer in 0..self.consumers.len() {
            let which = chance.number();
            let what = if chance.percent(40) {
                What::Follow(consumer, which)
            } else {
                What::Assign(consumer, which)
            };
            self.steps.push(Step {
                at: chance.millis(0, 50),
                what,
            });
        }
    }

    /// What applications do.
    fn work(&mut self, chance: &mut Chance) {
        for _ in 0..60 + chance.below(140) {
            let at = chance.time(Duration::ZERO, self.end);
            let consumer = chance.below(self.consumers.len());
            let producer = chance.below(self.producers.len());
            let which = chance.number();
            let admin = chance.below(self.admins.len());
            let what = match chance.below(100) {
                0..=24 if !self.admins.is_empty() => What::Administer(admin, which),
                0..=74 => self.send(chance, producer),
                75..=79 => What::Flush(producer),
                80..=81 => What::Assign(consumer, which),
                82 => What::Follow(consumer, which),
                83..=89 => What::Seek(consumer, which, aim(chance)),
                90..=94 => What::Pause(consumer, which, true),
                _ => What::Pause(consumer, which, false),
            };
            self.steps.push(Step { at, what });
        }
    }

    fn send(&self, chance: &mut Chance, producer: usize) -> What {
        let topic = chance.below(self.topics.len());
        let partitions = self.topics.get(topic).map_or(1, |topic| topic.partitions);
        let partition = chance
            .percent(70)
            .then(|| chance.from_to(0, partitions - 1));
        What::Send {
            producer,
            topic,
            partition,
            count: 1 + chance.below(12),
            padding: chance.pick(&[0, 0, 10, 200, 3000]).unwrap_or(0),
        }
    }

    /// What goes wrong: something every one to fifteen seconds.
    fn trouble(&mut self, chance: &mut Chance, authenticated: bool) {
        // Some runs are calm, so that what must never happen in good weather is seen there.
        if chance.percent(8) {
            return;
        }
        let pause = chance.time(SECOND, SECOND * 15);
        let mut at = chance.time(Duration::ZERO, pause);
        while at < self.end {
            if let Some(fault) = self.fault(chance, authenticated) {
                self.steps.push(Step {
                    at,
                    what: What::Strike(fault),
                });
            }
            at += chance.time(pause / 2, pause * 2);
        }
    }

    /// What a node may become: nothing that clients which rely on newer brokers could not use.
    fn other_release(&self, chance: &mut Chance) -> Option<Release> {
        let oldest = self.releases.iter().min().copied()?;
        if oldest < since("0.10.0") {
            return None;
        }
        let from = match oldest < since("0.11.0") {
            true => "0.10.0",
            false if self.authenticated => "1.1",
            false => "0.11.0",
        };
        Some(any_since(chance, from))
    }

    fn fault(&self, chance: &mut Chance, authenticated: bool) -> Option<Fault> {
        let node = chance.from_to(1, self.nodes);
        let short = chance.time(SECOND / 10, SECOND * 5);
        let long = chance.time(SECOND, SECOND * 20);
        let topic = chance.below(self.topics.len());
        let lasting = if chance.percent(30) { long } else { short };
        let fault = match chance.below(100) {
            0..=7 => {
                let how = chance.pick(&[Stop::Clean, Stop::Kill, Stop::Kill, Stop::PowerLoss])?;
                Fault::Dies(node, how, lasting)
            }
            8..=12 => Fault::Pauses(node, lasting),
            13..=17 => Fault::Unreachable(node, lasting),
            18..=22 => Fault::Vanishes(node, lasting),
            23..=27 => Fault::Resets(node),
            28..=30 => Fault::Closes(node),
            31..=33 => Fault::Refuses(node, lasting),
            34..=36 => Fault::Slow(chance.millis(20, 800), lasting),
            42..=43 => {
                // What was acknowledged is lost, so only a topic of which nothing is promised will do.
                let mortal = self.topics.iter().position(|topic| topic.mortal)?;
                Fault::UncleanElection(mortal, chance.from_to(0, 7))
            }
            39..=41 if chance.percent(50) => {
                Fault::Deposed(topic, chance.from_to(0, 7), lasting.min(LATE))
            }
            37..=41 => Fault::LeaderMoves(topic, chance.from_to(0, 7)),
            44 if chance.percent(50) => {
                Fault::HearsLate(node, chance.millis(1, 3000), lasting.min(LATE))
            }
            44..=45 => Fault::StandsStill(node, lasting),
            46 => Fault::FollowersLag(chance.millis(20, 3000), lasting),
            47..=48 => Fault::Upgraded(node, self.other_release(chance)?),
            49..=51 => Fault::Grows(topic),
            52..=54 => {
                let mortal = self.topics.iter().position(|topic| topic.mortal)?;
                Fault::Deleted(mortal, chance.millis(0, 3000))
            }
            55 if authenticated => {
                let refused = Trouble::Refused(ErrorCode::SASL_AUTHENTICATION_FAILED);
                Fault::Answers(node, ApiKey::SaslAuthenticate, refused, 1)
            }
            56..=57 if authenticated => Fault::RefusesLogins(node, lasting),
            _ => {
                let (api, trouble) = exchange(chance, !self.admins.is_empty(), self.authenticated)?;
                let most = match api {
                    // A broker that is silent about its versions three times, and about nothing else, is one of 0.9.
                    ApiKey::ApiVersions => 2,
                    _ => 3,
                };
                Fault::Answers(node, api, trouble, 1 + chance.below(most) as u32)
            }
        };
        Some(fault)
    }
}

fn since(name: &str) -> Release {
    Release::parse(name).unwrap_or(Release::NEWEST)
}

/// Any release from one on.
fn any_since(chance: &mut Chance, oldest: &str) -> Release {
    let from = Release::all().filter(|release| *release >= since(oldest));
    chance
        .pick(&from.collect::<Vec<_>>())
        .unwrap_or(Release::NEWEST)
}

/// Mostly new brokers, else all of one release, or each of another. Brokers that do not return their versions only occur together. PLAIN
/// exists since 0.10, and in its present form since 1.0.
fn releases(chance: &mut Chance, nodes: i32, authenticated: bool) -> Vec<Release> {
    let each = 0..nodes;
    match (chance.below(10), authenticated) {
        (0..=4, _) => each.map(|_| Release::NEWEST).collect(),
        (5..=6, false) => {
            let release = any_since(chance, "0.8.2");
            each.map(|_| release).collect()
        }
        (_, false) => each.map(|_| any_since(chance, "0.10.0")).collect(),
        (_, true) => each.map(|_| any_since(chance, "1.1")).collect(),
    }
}

fn topics(chance: &mut Chance) -> Vec<Topic> {
    let count = 1 + chance.below(3);
    let mut topics = Vec::new();
    for number in 0..count {
        topics.push(Topic {
            name: format!("t{number}").into(),
            partitions: chance.pick(&[1, 1, 2, 2, 3, 4, 8]).unwrap_or(1),
            mortal: number == 2 && chance.percent(60),
        });
    }
    topics
}

/// What clients meet, as far as it decides about their settings.
struct Cluster {
    nodes: i32,
    authenticated: bool,
    /// A node has no record batches, or does not even return its versions.
    is_old: bool,
}

/// Some of the nodes' addresses in any order, and at times some where no broker is.
fn bootstrap(chance: &mut Chance, nodes: i32) -> String {
    let mut addresses: Vec<String> = (1..=nodes).map(|node| format!("n{node}:9092")).collect();
    for _ in 0..chance.below(addresses.len()) {
        let at = chance.below(addresses.len());
        addresses.remove(at);
    }
    for absent in ["refused:9092", "silent:9092", "nowhere:9092"] {
        if chance.percent(15) {
            let at = chance.below(addresses.len() + 1);
            addresses.insert(at, absent.to_owned());
        }
    }
    addresses.join(",")
}

fn common(chance: &mut Chance, cluster: &Cluster, name: String) -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        ("bootstrap.servers", bootstrap(chance, cluster.nodes)),
        ("client.id", name),
        ("request.timeout.ms", millis(chance, &[2000, 5000, 8000])),
        ("retry.backoff.ms", millis(chance, &[10, 100])),
        ("reconnect.backoff.ms", millis(chance, &[10, 50])),
        (
            "socket.connection.setup.timeout.ms",
            millis(chance, &[500, 2000]),
        ),
        ("socket.connection.setup.timeout.max.ms", "4000".to_owned()),
        (
            "metadata.max.age.ms",
            millis(chance, &[3000, 30_000, 300_000]),
        ),
        ("connections.max.idle.ms", millis(chance, &[4000, 540_000])),
        ("enable.metrics.push", "false".to_owned()),
        // A client whose timeout is shorter than the network takes for a response finds old brokers where there are no such brokers.
        (
            "api.version.request.timeout.ms",
            if cluster.is_old { "500" } else { "5000" }.to_owned(),
        ),
    ];
    if chance.percent(30) {
        pairs.push((
            "metadata.recovery.rebootstrap.trigger.ms",
            "3000".to_owned(),
        ));
    }
    if cluster.authenticated {
        pairs.extend(login());
    }
    pairs
}

/// The settings of a client that authenticates.
pub fn login() -> [(&'static str, String); 5] {
    [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.allow.plaintext", "true"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "user"),
        ("sasl.password", "password"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
}

fn millis(chance: &mut Chance, of: &[u32]) -> String {
    chance.pick(of).unwrap_or(1000).to_string()
}

fn producer(chance: &mut Chance, cluster: &Cluster, number: usize) -> Member {
    let mut pairs = common(chance, cluster, format!("producer-{number}"));
    let idempotent = chance.percent(60);
    let acks = match idempotent {
        true => "all",
        false => chance.pick(&["all", "all", "1", "0"]).unwrap_or("all"),
    };
    // Who insists on it is refused by brokers that do not have it.
    if !(idempotent && cluster.is_old) {
        pairs.push(("enable.idempotence", idempotent.to_string()));
    }
    pairs.extend([
        ("acks", acks.to_owned()),
        ("linger.ms", millis(chance, &[0, 1, 20, 200])),
        ("batch.size", millis(chance, &[200, 2000, 100_000])),
        (
            "delivery.timeout.ms",
            millis(chance, &[9000, 15_000, 30_000]),
        ),
        ("max.block.ms", millis(chance, &[1000, 5000])),
        (
            "max.in.flight.requests.per.connection",
            millis(chance, &[1, 2, 5]),
        ),
        (
            "compression.type",
            chance
                .pick(&["none", "none", "none", "lz4"])
                .unwrap_or("none")
                .to_owned(),
        ),
    ]);
    if chance.percent(15) {
        pairs.retain(|(name, _)| *name != "batch.size");
        pairs.push(("batch.size", "2000".to_owned()));
        pairs.push(("buffer.memory", "20000".to_owned()));
    }
    if chance.percent(10) {
        pairs.push(("retries", "2".to_owned()));
    }
    Member {
        pairs,
        rest: Duration::ZERO,
        most: 0,
    }
}

fn consumer(chance: &mut Chance, cluster: &Cluster, number: usize) -> Member {
    let mut pairs = common(chance, cluster, format!("consumer-{number}"));
    pairs.extend([
        (
            "auto.offset.reset",
            chance
                .pick(&["earliest", "latest", "none"])
                .unwrap_or("latest")
                .to_owned(),
        ),
        ("fetch.max.wait.ms", millis(chance, &[100, 500, 1000])),
        (
            "max.partition.fetch.bytes",
            // Old brokers give no message that is larger.
            match cluster.is_old {
                true => "1000000".to_owned(),
                false => millis(chance, &[300, 4000, 1_000_000]),
            },
        ),
    ]);
    if chance.percent(20) && !cluster.is_old {
        pairs.push(("prefetch.max.bytes", "4000".to_owned()));
    }
    Member {
        pairs,
        rest: chance.millis(1, 200),
        most: chance.pick(&[1, 3, 10, 500]).unwrap_or(500),
    }
}

fn admin(chance: &mut Chance, cluster: &Cluster, number: usize) -> Member {
    Member {
        pairs: common(chance, cluster, format!("admin-{number}")),
        rest: Duration::ZERO,
        most: 0,
    }
}

fn aim(chance: &mut Chance) -> Aim {
    match chance.below(10) {
        0..=5 => Aim::Offset(i64::from(chance.from_to(0, 60))),
        6..=7 => Aim::Beginning,
        8 => Aim::End,
        _ => Aim::Beyond,
    }
}
