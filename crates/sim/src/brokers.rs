//! The embedded broker's own cluster, driven by the world: connections by number, bytes in, bytes
//! out, and control of its nodes, leaders and followers. The world changes topics over connections
//! of its own, on a listener without authentication.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ottla_broker::node::{Cluster, Now, Output, Stop, Topic};
use ottla_broker::{
    BrokerConfig, BrokerError, ListenerConfig, Release, Secret, SecurityProtocol, SecuritySettings,
};
use ottla_protocol::Request;
use ottla_protocol::header::{decode_response, encode_request};
use ottla_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use ottla_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use ottla_protocol::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
};
use ottla_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use ottla_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use ottla_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeShareGroupOffsetsRequest, IncrementalAlterConfigsRequest, ListOffsetsRequest,
    ListTransactionsRequest, OffsetFetchRequest,
};

use crate::history::Place;
use crate::plan::Plan;
use crate::plan::aging::is_compacted;
use crate::shared::Rules;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Where clients connect, and where the world does.
const CLIENTS: usize = 0;
const OWN: usize = 1;
/// When the run begins, by everybody's wall clock.
pub const EPOCH_MS: i64 = 1_700_000_000_000;

/// Share groups are less patient than with Kafka's defaults.
const SHARE_PROPERTIES: [(&str, &str); 7] = [
    ("group.share.min.record.lock.duration.ms", "1000"),
    ("group.share.max.delivery.count.limit", "50"),
    ("group.share.max.record.lock.duration.ms", "3600000"),
    ("group.share.min.heartbeat.interval.ms", "100"),
    ("group.share.min.session.timeout.ms", "100"),
    ("group.share.heartbeat.interval.ms", "600"),
    ("group.share.session.timeout.ms", "3000"),
];
/// The kind of a resource that is a group, and what is done to a setting of it.
const GROUP: i8 = 32;
const SET: i8 = 0;

/// A broker's output for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It sends bytes.
    Bytes(u64, Bytes),
    /// It closes it.
    Close(u64),
}

/// All nodes.
#[derive(Debug)]
pub struct Brokers {
    cluster: Cluster,
    base: Instant,
    /// How far the wall clocks of nodes are ahead, in milliseconds.
    ahead: BTreeMap<i32, i64>,
    outs: VecDeque<Served>,
    /// The connection that the world itself uses, and what came on it.
    hand: u64,
    answer: BytesMut,
}

impl Brokers {
    /// The brokers of a plan, which began at `base`.
    ///
    /// # Errors
    /// Their settings are wrong.
    pub fn new(base: Instant, seed: u64, plan: &Plan) -> Result<Brokers, BrokerError> {
        let protocol = match plan.authenticated {
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
        let mut properties = vec![
            // Clocks jump, and what is acknowledged must stay.
            ("log.retention.ms", "-1".to_owned()),
            ("min.insync.replicas", plan.min_in_sync.to_string()),
            (
                "replica.lag.time.max.ms",
                plan.replica_lag.as_millis().to_string(),
            ),
            (
                "group.initial.rebalance.delay.ms",
                plan.first_rebalance.as_millis().to_string(),
            ),
            ("group.min.session.timeout.ms", "100".to_owned()),
        ];
        let of_shares = SHARE_PROPERTIES.iter().filter(|_| !plan.shares.is_empty());
        properties.extend(of_shares.map(|(name, value)| (*name, (*value).to_owned())));
        properties.extend(plan.group_settings.iter().cloned());
        if plan.topics.iter().any(|topic| is_compacted(&topic.name)) {
            properties.push(("log.cleaner.backoff.ms", "1000".to_owned()));
        }
        if plan.authenticated {
            config.security = SecuritySettings {
                users: vec![("user".to_owned(), Secret::new("password".to_owned()))],
                ..SecuritySettings::default()
            };
            // Sessions expire, so that clients authenticate again.
            properties.push(("connections.max.reauth.ms", "9000".to_owned()));
        }
        let properties = properties.into_iter();
        config.properties = properties
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let addresses: Vec<_> = (1..=plan.nodes)
            .map(|node| vec![(format!("n{node}"), 9092), (format!("hand{node}"), 9093)])
            .collect();
        let mut brokers = Brokers {
            cluster: Cluster::new(&config, &addresses, seed)?,
            base,
            ahead: BTreeMap::new(),
            outs: VecDeque::new(),
            hand: u64::MAX,
            answer: BytesMut::new(),
        };
        for topic in &plan.topics {
            brokers.create(base, &topic.name, topic.partitions);
        }
        for (node, release) in (1..).zip(&plan.releases) {
            brokers.set_release(node, *release);
        }
        Ok(brokers)
    }

    fn now(&self, now: Instant) -> Now {
        let since = now.saturating_duration_since(self.base).as_millis();
        Now {
            instant: now,
            unix_ms: EPOCH_MS + i64::try_from(since).unwrap_or(0),
        }
    }

    /// Takes the output of the nodes.
    fn drain(&mut self) {
        while let Some((_, output)) = self.cluster.poll() {
            match output {
                Output::Send { connection, bytes } if connection == self.hand => {
                    self.answer.extend_from_slice(&bytes);
                }
                Output::Send { connection, bytes } => {
                    self.outs.push_back(Served::Bytes(connection, bytes));
                }
                Output::Close { connection, .. } => self.outs.push_back(Served::Close(connection)),
            }
        }
    }

    /// A client has connected to a node; the number is never used again.
    pub fn connect(&mut self, now: Instant, node: i32, connection: u64) {
        let now = self.now(now);
        if let Some(node) = self.cluster.node(node) {
            node.connect(connection, CLIENTS, PEER, now);
        }
        self.drain();
    }

    /// Bytes came from it.
    pub fn handle(&mut self, now: Instant, node: i32, connection: u64, bytes: &[u8]) {
        let now = self.now(now);
        if let Some(node) = self.cluster.node(node) {
            node.handle(connection, bytes, now);
        }
        self.drain();
    }

    /// The client is gone.
    pub fn disconnect(&mut self, now: Instant, node: i32, connection: u64) {
        let now = self.now(now);
        if let Some(node) = self.cluster.node(node) {
            node.disconnect(connection, now);
        }
        self.drain();
    }

    /// The next thing that a broker does.
    pub fn poll(&mut self) -> Option<Served> {
        self.outs.pop_front()
    }

    /// When [`Brokers::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.cluster.next_timeout()
    }

    /// Looks at the clock.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.now(now);
        self.cluster.handle_timeout(now);
        self.drain();
    }

    /// A node ends; the world resets its connections. A loss of power that would take the only copy
    /// of acknowledged records, as it would in Kafka, is a kill instead. Returns how the node
    /// ended.
    pub fn stop(&mut self, now: Instant, node: i32, how: Stop, topics: &[&str]) -> Stop {
        let how = match how {
            Stop::PowerLoss if self.is_last_of_any(node, topics) => Stop::Kill,
            how => how,
        };
        let now = self.now(now);
        self.cluster.stop(node, how, now);
        self.drain();
        how
    }

    /// Whether of some partition no other running node has all acknowledged records.
    fn is_last_of_any(&self, node: i32, topics: &[&str]) -> bool {
        let partitions = topics.iter().flat_map(|topic| {
            let rows = (0..).map(|index| self.cluster.partition(topic, index));
            rows.map_while(|row| row)
        });
        let mut held = partitions.filter(|row| row.in_sync.contains(&node));
        held.any(|row| {
            let mut others = row.in_sync.iter().filter(|other| **other != node);
            !others.any(|other| self.cluster.is_up(*other))
        })
    }

    /// It comes back.
    pub fn start(&mut self, now: Instant, node: i32) {
        let now = self.now(now);
        self.cluster.start(node, now);
        self.drain();
    }

    /// A node plays this release from now on.
    pub fn set_release(&mut self, node: i32, release: Release) {
        if let Some(node) = self.cluster.node(node) {
            node.set_release(release);
        }
    }

    /// The wall clock of a node jumps.
    pub fn move_clock(&mut self, node: i32, ms: i64) {
        if let Some(found) = self.cluster.node(node) {
            found.move_clock(ms);
            *self.ahead.entry(node).or_default() += ms;
        }
        self.drain();
    }

    /// All wall clocks show what time it is.
    pub fn set_clocks_right(&mut self) {
        for (node, ahead) in std::mem::take(&mut self.ahead) {
            if let Some(node) = self.cluster.node(node) {
                node.move_clock(-ahead);
            }
        }
        self.drain();
    }

    /// The high watermark of a partition, as its leader returns it.
    pub fn high_watermark(&mut self, now: Instant, place: &Place) -> Option<i64> {
        const END: i64 = -1;
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: (&*place.0).into(),
                partitions: vec![ListOffsetsPartition {
                    partition_index: place.1,
                    timestamp: END,
                    ..ListOffsetsPartition::default()
                }],
                ..ListOffsetsTopic::default()
            }],
            ..ListOffsetsRequest::default()
        };
        let answer = self.ask_leader(now, place, &request, 5)?;
        let row = answer.topics.first()?.partitions.first()?;
        (row.error_code == 0).then_some(row.offset)
    }

    /// Deletes the records of a partition before an offset, if it has a leader.
    pub fn delete_records(&mut self, now: Instant, place: &Place, before: i64) {
        let request = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: (&*place.0).into(),
                partitions: vec![DeleteRecordsPartition {
                    partition_index: place.1,
                    offset: before,
                    ..DeleteRecordsPartition::default()
                }],
                ..DeleteRecordsTopic::default()
            }],
            timeout_ms: 1000,
            ..DeleteRecordsRequest::default()
        };
        self.ask_leader(now, place, &request, 2);
    }

    /// As [`Brokers::ask`], of the leader of a partition.
    fn ask_leader<R: Request>(
        &mut self,
        now: Instant,
        place: &Place,
        request: &R,
        version: i16,
    ) -> Option<R::Response> {
        let leader = self.leader(&place.0, place.1)?;
        let is_up = self.cluster.is_up(leader);
        is_up.then(|| self.ask_of(now, leader, request, version))?
    }

    /// Whether a node takes what leaders have for it.
    pub fn set_following(&mut self, now: Instant, node: i32, follows: bool) {
        let now = self.now(now);
        self.cluster.set_following(node, follows, now);
        self.drain();
    }

    /// How long followers take for what leaders have.
    pub fn set_replication_delay(&mut self, delay: Duration) {
        self.cluster.set_replication_delay(delay);
    }

    /// A partition gets another leader, one in sync or with `unclean` any, if there is another node
    /// for it; returns whether it did.
    pub fn move_leader(&mut self, topic: &str, partition: i32, unclean: bool) -> bool {
        let Some(row) = self.cluster.partition(topic, partition) else {
            return false;
        };
        let mut able = row.replicas.iter().copied().filter(|node| {
            let is_able = unclean || row.in_sync.contains(node);
            is_able && *node != row.leader && self.cluster.is_up(*node)
        });
        let Some(next) = able.next() else {
            return false;
        };
        let moved = match unclean {
            true => self.cluster.elect_unclean(topic, partition, next),
            false => self.cluster.move_leader(topic, partition, next),
        };
        self.drain();
        moved.is_ok()
    }

    /// A partition gets a leader that is out of sync, if a node is: what that one lacks is lost.
    /// Returns whether it did.
    pub fn elect_laggard(&mut self, topic: &str, partition: i32) -> bool {
        let Some(row) = self.cluster.partition(topic, partition) else {
            return false;
        };
        let mut behind = row.replicas.iter().copied().filter(|node| {
            let lags = !row.in_sync.contains(node) && *node != row.leader;
            lags && self.cluster.is_up(*node)
        });
        let Some(next) = behind.next() else {
            return false;
        };
        let elected = self.cluster.elect_unclean(topic, partition, next);
        self.drain();
        elected.is_ok()
    }

    /// Makes a topic; false if it is there, or too few nodes are.
    pub fn create(&mut self, now: Instant, topic: &str, partitions: i32) -> bool {
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: topic.into(),
                num_partitions: partitions,
                replication_factor: -1,
                configs: settings(topic),
                ..CreatableTopic::default()
            }],
            timeout_ms: 1000,
            ..CreateTopicsRequest::default()
        };
        let answer = self.ask(now, &request, 5);
        answer.is_some_and(|answer| answer.topics.iter().all(|row| row.error_code == 0))
    }

    /// Deletes a topic; false if it is not there.
    pub fn delete(&mut self, now: Instant, topic: &str) -> bool {
        let request = DeleteTopicsRequest {
            topic_names: vec![topic.into()],
            timeout_ms: 1000,
            ..DeleteTopicsRequest::default()
        };
        let answer = self.ask(now, &request, 4);
        answer.is_some_and(|answer| answer.responses.iter().all(|row| row.error_code == 0))
    }

    /// Adds a partition to a topic, if enough nodes are up; how many it has then, 0 if it is not there.
    pub fn grow(&mut self, now: Instant, topic: &str) -> i32 {
        let count = self.partitions(topic);
        if count > 0 {
            let request = CreatePartitionsRequest {
                topics: vec![CreatePartitionsTopic {
                    name: topic.into(),
                    count: count + 1,
                    assignments: None,
                    ..CreatePartitionsTopic::default()
                }],
                timeout_ms: 1000,
                ..CreatePartitionsRequest::default()
            };
            self.ask(now, &request, 3);
        }
        self.partitions(topic)
    }

    /// A topic's id and partitions, whichever nodes know it.
    pub fn topic(&self, topic: &str) -> Option<Topic> {
        self.cluster.topic(topic)
    }

    /// The leader of a partition, whichever nodes know it.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<i32> {
        let row = self.cluster.partition(topic, partition)?;
        (row.leader >= 0).then_some(row.leader)
    }

    /// The leader of an existing partition, -1 if it has none.
    pub fn leader_or_none(&self, topic: &str, partition: i32) -> Option<i32> {
        self.cluster
            .partition(topic, partition)
            .map(|row| row.leader)
    }

    /// Whether a coordinator is writing the markers of a transaction at this moment.
    pub fn ends_transaction(&mut self, now: Instant) -> bool {
        let request = ListTransactionsRequest::default();
        let nodes: Vec<i32> = self
            .cluster
            .ids()
            .filter(|node| self.cluster.is_up(*node))
            .collect();
        nodes.into_iter().any(|node| {
            let answer = self.ask_of(now, node, &request, 0);
            let rows = answer
                .map(|answer| answer.transaction_states)
                .unwrap_or_default();
            rows.iter()
                .any(|row| row.transaction_state.starts_with("Prepare"))
        })
    }

    /// The committed offset of a group in a partition, -1 if it has none; `None` if no broker
    /// returns it.
    pub fn committed(&mut self, now: Instant, group: &str, place: &Place) -> Option<i64> {
        let request = OffsetFetchRequest {
            group_id: group.into(),
            topics: Some(vec![OffsetFetchRequestTopic {
                name: (&*place.0).into(),
                partition_indexes: [place.1].into_iter().collect(),
                ..OffsetFetchRequestTopic::default()
            }]),
            // A broker whose offsets are not stable yet returns an error.
            require_stable: true,
            ..OffsetFetchRequest::default()
        };
        let nodes: Vec<i32> = self
            .cluster
            .ids()
            .filter(|node| self.cluster.is_up(*node))
            .collect();
        nodes.into_iter().find_map(|node| {
            let answer = self.ask_of(now, node, &request, 7)?;
            let row = answer.topics.first()?.partitions.first()?;
            (answer.error_code == 0 && row.error_code == 0).then_some(row.committed_offset)
        })
    }

    /// Sets what holds for a share group on all nodes; false if they refuse it.
    pub fn set_share_rules(&mut self, now: Instant, group: &str, rules: &Rules) -> bool {
        let level = match rules.committed {
            true => "read_committed",
            false => "read_uncommitted",
        };
        let settings = [
            ("share.auto.offset.reset", "earliest".to_owned()),
            (
                "share.record.lock.duration.ms",
                rules.lock.as_millis().to_string(),
            ),
            ("share.delivery.count.limit", rules.deliveries.to_string()),
            ("share.partition.max.record.locks", rules.locks.to_string()),
            ("share.isolation.level", level.to_owned()),
        ];
        let configs = settings.into_iter().map(|(name, value)| AlterableConfig {
            name: name.into(),
            config_operation: SET,
            value: Some(value.into()),
            ..AlterableConfig::default()
        });
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: GROUP,
                resource_name: group.into(),
                configs: configs.collect(),
                ..AlterConfigsResource::default()
            }],
            ..IncrementalAlterConfigsRequest::default()
        };
        let answer = self.ask(now, &request, 1);
        answer.is_some_and(|answer| answer.responses.iter().all(|row| row.error_code == 0))
    }

    /// The offset before which a share group is done with a partition, -1 if it has not begun;
    /// `None` if no broker returns it.
    pub fn shared_from(&mut self, now: Instant, group: &str, place: &Place) -> Option<i64> {
        let request = DescribeShareGroupOffsetsRequest {
            groups: vec![DescribeShareGroupOffsetsRequestGroup {
                group_id: group.into(),
                topics: Some(vec![DescribeShareGroupOffsetsRequestTopic {
                    topic_name: (&*place.0).into(),
                    partitions: [place.1].into_iter().collect(),
                    ..DescribeShareGroupOffsetsRequestTopic::default()
                }]),
                ..DescribeShareGroupOffsetsRequestGroup::default()
            }],
            ..DescribeShareGroupOffsetsRequest::default()
        };
        let nodes: Vec<i32> = self
            .cluster
            .ids()
            .filter(|node| self.cluster.is_up(*node))
            .collect();
        nodes.into_iter().find_map(|node| {
            let answer = self.ask_of(now, node, &request, 1)?;
            let row = answer.groups.first()?.topics.first()?.partitions.first()?;
            (row.error_code == 0).then_some(row.start_offset)
        })
    }

    /// The epoch of a partition's leader, whichever nodes know it.
    pub fn leader_epoch(&self, topic: &str, partition: i32) -> Option<i32> {
        let row = self.cluster.partition(topic, partition)?;
        Some(row.epoch)
    }

    /// How long the controller's word takes to a node.
    pub fn set_metadata_delay(&mut self, now: Instant, node: i32, delay: Duration) {
        let now = self.now(now);
        self.cluster.set_metadata_delay(node, delay, now);
        self.drain();
    }

    /// Whether a node accepts credentials.
    pub fn set_logins(&mut self, node: i32, accepted: bool) {
        if let Some(node) = self.cluster.node(node) {
            node.set_logins(accepted);
        }
    }

    fn partitions(&self, topic: &str) -> i32 {
        self.cluster
            .topic(topic)
            .map_or(0, |topic| topic.partitions)
    }

    /// Sends a request in the world's own name. Nodes respond to such requests at once.
    fn ask<R: Request>(&mut self, now: Instant, request: &R, version: i16) -> Option<R::Response> {
        let up = self.cluster.ids().find(|node| self.cluster.is_up(*node))?;
        self.ask_of(now, up, request, version)
    }

    /// As [`Brokers::ask`], of this node.
    fn ask_of<R: Request>(
        &mut self,
        now: Instant,
        up: i32,
        request: &R,
        version: i16,
    ) -> Option<R::Response> {
        let frame = encode_request(request, version, 1, Some("world")).ok()?;
        let now = self.now(now);
        let hand = self.hand;
        let node = self.cluster.node(up)?;
        // The world may request what the node's release does not support.
        let release = node.release();
        node.set_release(Release::NEWEST);
        node.connect(hand, OWN, PEER, now);
        node.handle(hand, &frame.into_bytes(), now);
        self.drain();
        let node = self.cluster.node(up)?;
        node.disconnect(hand, now);
        node.set_release(release);
        self.hand -= 1;
        let body: Bytes = self.answer.split().freeze();
        let body = (body.len() > 4).then(|| body.slice(4..))?;
        decode_response(version, body).ok().map(|(_, body)| body)
    }
}

/// The settings of a topic.
fn settings(topic: &str) -> Vec<CreatableTopicConfig> {
    let compacted = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "500"),
        ("min.cleanable.dirty.ratio", "0.0"),
    ];
    let of_compacted = compacted.into_iter().filter(|_| is_compacted(topic));
    let settings = of_compacted.map(|(name, value)| CreatableTopicConfig {
        name: name.into(),
        value: Some(value.into()),
        ..CreatableTopicConfig::default()
    });
    settings.collect()
}
