//! Nodes that share topics: leaders and followers, what is lost when, and what clients get.
//! Simulated time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use ottla_broker::BrokerConfig;
use ottla_broker::node::{Cluster, Now, Output, Partition, Stop};
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::create_topics_request::CreatableTopic;
use ottla_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use ottla_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_protocol::messages::fetch_response::PartitionData;
use ottla_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use ottla_protocol::messages::metadata_request::MetadataRequestTopic;
use ottla_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::produce_response::PartitionProduceResponse;
use ottla_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use ottla_protocol::messages::{
    ConsumerGroupHeartbeatRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    EndTxnRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest, InitProducerIdRequest,
    JoinGroupRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    ProduceResponse, SyncGroupRequest, list_offsets_request, offset_commit_request,
    offset_fetch_request,
};
use ottla_protocol::records::{BatchBuilder, ProducerState};
use ottla_protocol::{ErrorCode, Request, header};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// When all begins, by the brokers' clock and by that of records: older ones would not be kept.
const EPOCH_MS: i64 = 1_700_000_000_000;
const DELAY: Duration = Duration::from_millis(50);

struct World {
    cluster: Cluster,
    now: Now,
    connections: u64,
    received: BTreeMap<u64, BytesMut>,
    trace: Vec<(i32, Output)>,
}

impl World {
    fn new(properties: &[(&str, &str)]) -> Self {
        Self::seeded(properties, 1)
    }

    fn seeded(properties: &[(&str, &str)], seed: u64) -> Self {
        let config = BrokerConfig {
            topics: vec![("t".to_owned(), 3)],
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Default::default()
        };
        let addresses: Vec<_> = (1..=3).map(|port| vec![("h".to_owned(), port)]).collect();
        Self {
            cluster: Cluster::new(&config, &addresses, seed).unwrap(),
            now: Now {
                instant: Instant::now(),
                unix_ms: EPOCH_MS,
            },
            connections: 0,
            received: BTreeMap::new(),
            trace: Vec::new(),
        }
    }

    /// Sends a request on a connection of its own.
    fn send<R: Request>(&mut self, node: i32, request: &R, version: i16) -> u64 {
        self.connections += 1;
        let frame = header::encode_request(request, version, 1, Some("me")).unwrap();
        let (connection, now) = (self.connections, self.now);
        let to = self.cluster.node(node).unwrap();
        to.connect(connection, 0, PEER, now);
        to.handle(connection, &frame.into_bytes(), now);
        self.drain();
        connection
    }

    fn drain(&mut self) {
        while let Some((node, output)) = self.cluster.poll() {
            self.trace.push((node, output.clone()));
            if let Output::Send { connection, bytes } = output {
                let all = self.received.entry(connection).or_default();
                all.extend_from_slice(&bytes);
            }
        }
    }

    fn answer<R: Request>(&mut self, connection: u64, version: i16) -> Option<R::Response> {
        let mut bytes = self.received.remove(&connection)?;
        bytes.advance(4);
        Some(header::decode_response(version, bytes.freeze()).unwrap().1)
    }

    fn ask<R: Request>(&mut self, node: i32, request: &R, version: i16) -> R::Response {
        let connection = self.send(node, request, version);
        self.answer::<R>(connection, version).expect("no answer")
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now.instant + time;
        while let Some(next) = self.cluster.next_timeout().filter(|next| *next <= end) {
            self.at(next);
            self.cluster.handle_timeout(self.now);
            self.drain();
        }
        self.at(end);
    }

    fn at(&mut self, instant: Instant) {
        let step = instant.saturating_duration_since(self.now.instant);
        self.now.instant += step;
        self.now.unix_ms += step.as_millis() as i64;
    }

    fn partition(&self, topic: &str) -> Partition {
        self.cluster.partition(topic, 0).unwrap()
    }

    fn leader(&self) -> i32 {
        self.partition("t").leader
    }

    fn other(&self) -> i32 {
        let leader = self.leader();
        self.cluster.ids().find(|id| *id != leader).unwrap()
    }

    fn produce(&mut self, node: i32, acks: i16, value: &str) -> PartitionProduceResponse {
        let answer = self.ask(node, &produce(acks, value), 10);
        one(answer)
    }

    fn fetch(&mut self, node: i32, offset: i64, epochs: (i32, i32)) -> PartitionData {
        let answer = self.ask(node, &fetch(offset, epochs), 12);
        answer.responses[0].partitions[0].clone()
    }

    /// The values that the leader shows.
    fn values(&mut self) -> Vec<String> {
        let records = self.fetch(self.leader(), 0, (-1, -1)).records.unwrap();
        let mut values = Vec::new();
        for batch in ottla_protocol::records::batches(records) {
            let batch = batch.unwrap();
            let payload = batch.payload(1 << 20).unwrap();
            for record in batch.records(&payload).unwrap() {
                let value = record.unwrap().value.unwrap();
                values.push(String::from_utf8(value.to_vec()).unwrap());
            }
        }
        values
    }

    fn stop(&mut self, node: i32, how: Stop) {
        self.cluster.stop(node, how, self.now);
        self.drain();
    }

    fn start(&mut self, node: i32) {
        self.cluster.start(node, self.now);
        self.drain();
    }

    fn follow(&mut self, node: i32, follows: bool) {
        self.cluster.set_following(node, follows, self.now);
        self.drain();
    }
}

fn one(answer: ProduceResponse) -> PartitionProduceResponse {
    answer.responses[0].partition_responses[0].clone()
}

fn produce(acks: i16, value: &str) -> ProduceRequest {
    produce_at(EPOCH_MS, acks, value)
}

fn produce_at(timestamp: i64, acks: i16, value: &str) -> ProduceRequest {
    let mut builder = BatchBuilder::new(Compression::None, None);
    let none = std::iter::empty();
    builder
        .append(timestamp, None, Some(value.as_bytes()), none)
        .unwrap();
    ProduceRequest {
        acks,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: "t".into(),
            partition_data: vec![PartitionProduceData {
                records: Some(builder.finish(ProducerState::NONE).unwrap()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn fetch(fetch_offset: i64, (current, last): (i32, i32)) -> FetchRequest {
    FetchRequest {
        max_bytes: 1 << 20,
        topics: vec![FetchTopic {
            topic: "t".into(),
            partitions: vec![FetchPartition {
                fetch_offset,
                current_leader_epoch: current,
                last_fetched_epoch: last,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn leaders_are_spread_and_every_node_tells_the_same() {
    let mut world = World::new(&[]);
    let answers: Vec<_> = (1..=3)
        .map(|node| world.ask(node, &MetadataRequest::default(), 8))
        .collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(answers[0].brokers.len(), 3);
    let metadata = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    let topic = world.ask(2, &metadata, 8).topics.remove(0);
    let mut leaders: Vec<i32> = topic.partitions.iter().map(|it| it.leader_id).collect();
    leaders.sort_unstable();
    assert_eq!(leaders, [1, 2, 3]);
    assert!(topic.partitions.iter().all(|it| it.isr_nodes.len() == 3));
}

#[test]
fn acks_all_waits_for_followers_and_so_do_consumers() {
    let mut world = World::new(&[]);
    world.cluster.set_replication_delay(DELAY);
    let leader = world.leader();
    assert_eq!(world.produce(leader, 1, "one").base_offset, 0);
    assert_eq!(world.fetch(leader, 0, (-1, -1)).high_watermark, 0);
    let waiting = world.send(leader, &produce(-1, "two"), 10);
    world.pass(DELAY - Duration::from_millis(1));
    assert!(world.answer::<ProduceRequest>(waiting, 10).is_none());
    world.pass(Duration::from_millis(1));
    let answer = one(world.answer::<ProduceRequest>(waiting, 10).unwrap());
    assert_eq!((answer.error_code, answer.base_offset), (0, 1));
    assert_eq!(world.values(), ["one", "two"]);
}

#[test]
fn acks_all_times_out_when_a_follower_in_sync_takes_nothing() {
    let mut world = World::new(&[]);
    let other = world.other();
    world.follow(other, false);
    let leader = world.leader();
    let waiting = world.send(leader, &produce(-1, "late"), 10);
    world.pass(Duration::from_millis(1000));
    let answer = one(world.answer::<ProduceRequest>(waiting, 10).unwrap());
    assert_eq!(answer.error_code, ErrorCode::REQUEST_TIMED_OUT.0);
    // Out of sync after replica.lag.time.max.ms, it holds nothing back any more.
    world.pass(Duration::from_secs(30));
    assert!(!world.partition("t").in_sync.contains(&other));
    assert_eq!(world.values(), ["late"]);
    world.follow(other, true);
    assert!(world.partition("t").in_sync.contains(&other));
}

#[test]
fn a_node_that_was_behind_and_leads_now_stays_in_sync() {
    let mut world = World::new(&[]);
    let (leader, other) = (world.leader(), world.other());
    world.follow(other, false);
    assert_eq!(world.produce(leader, 1, "lost").error_code, 0);
    world.pass(Duration::from_secs(1));
    world.cluster.move_leader("t", 0, other).unwrap();
    world.drain();
    // It was behind from the first second on, and would be out of sync by now.
    world.pass(Duration::from_secs(40));
    let partition = world.partition("t");
    assert_eq!(partition.leader, other);
    assert!(partition.in_sync.contains(&other), "{partition:?}");
}

#[test]
fn too_few_in_sync_refuse_acks_all_and_nothing_else() {
    let mut world = World::new(&[("min.insync.replicas", "2")]);
    let leader = world.leader();
    for node in [1, 2, 3] {
        if node != leader {
            world.stop(node, Stop::Kill);
        }
    }
    let refused = world.produce(leader, -1, "no");
    assert_eq!(refused.error_code, ErrorCode::NOT_ENOUGH_REPLICAS.0);
    assert_eq!(world.produce(leader, 1, "yes").error_code, 0);
    assert_eq!(world.values(), ["yes"]);
}

#[test]
fn who_asks_another_than_the_leader_is_told_who_leads() {
    let mut world = World::new(&[]);
    let (leader, other) = (world.leader(), world.other());
    let answer = world.ask(other, &produce(-1, "x"), 10);
    let endpoint = &answer.node_endpoints[0];
    assert_eq!((endpoint.node_id, endpoint.port), (leader, leader));
    let refused = one(answer);
    assert_eq!(refused.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.0);
    assert_eq!(refused.current_leader.leader_id, leader);
    let fetched = world.fetch(other, 0, (-1, -1));
    assert_eq!(fetched.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.0);
    assert_eq!(fetched.current_leader.leader_id, leader);
    assert_eq!(one(world.ask(other, &produce(-1, "x"), 9)).error_code, 6);
}

const LATE: Duration = Duration::from_secs(2);

#[test]
fn a_leader_that_has_not_heard_of_its_successor_goes_on_and_loses_what_it_took() {
    let mut world = World::new(&[("replica.lag.time.max.ms", "500")]);
    let (old, next) = (world.leader(), world.other());
    world.produce(old, -1, "one");
    world.cluster.set_metadata_delay(old, LATE, world.now);
    world.cluster.move_leader("t", 0, next).unwrap();
    world.drain();
    assert!(!world.cluster.has_heard(old) && world.cluster.has_heard(next));
    // The new leader puts the old one out of sync, since that does not follow.
    world.pass(Duration::from_millis(600));
    assert!(!world.partition("t").in_sync.contains(&old));

    assert_eq!(world.produce(old, 1, "lost").base_offset, 1);
    let waiting = world.send(old, &produce(-1, "never"), 10);
    assert_eq!(world.produce(next, -1, "two").base_offset, 1);
    assert_eq!(world.produce(next, -1, "three").base_offset, 2);
    // Nobody copies from it, and it copies from nobody.
    let stale = world.fetch(old, 0, (0, -1));
    assert_eq!((stale.error_code, stale.high_watermark), (0, 1));
    assert_eq!(
        world.fetch(old, 0, (1, -1)).error_code,
        ErrorCode::UNKNOWN_LEADER_EPOCH.0
    );
    let fenced = world.fetch(next, 0, (0, -1));
    assert_eq!(fenced.error_code, ErrorCode::FENCED_LEADER_EPOCH.0);

    world.pass(Duration::from_millis(999));
    assert!(world.answer::<ProduceRequest>(waiting, 10).is_none());
    let second = world.send(old, &produce(-1, "nor this"), 10);
    world.pass(Duration::from_millis(1));
    let first = one(world.answer::<ProduceRequest>(waiting, 10).unwrap());
    assert_eq!(first.error_code, ErrorCode::REQUEST_TIMED_OUT.0);
    world.pass(Duration::from_millis(400));
    let second = one(world.answer::<ProduceRequest>(second, 10).unwrap());
    assert_eq!(second.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.0);
    assert_eq!(world.values(), ["one", "two", "three"]);
    // It follows again, and has what the others have.
    assert!(world.partition("t").in_sync.contains(&old));
    world.cluster.move_leader("t", 0, old).unwrap();
    world.drain();
    world.pass(LATE);
    assert_eq!(world.values(), ["one", "two", "three"]);
}

#[test]
fn a_leader_changes_who_is_in_sync_only_if_it_knows_what_was_decided() {
    let mut world = World::new(&[("replica.lag.time.max.ms", "1000")]);
    let leader = world.leader();
    let other = world.other();
    world.follow(other, false);
    world.produce(leader, 1, "one");
    world.pass(Duration::from_secs(2));
    assert!(!world.partition("t").in_sync.contains(&other));
    world.cluster.set_metadata_delay(leader, LATE, world.now);
    // Something else that it has not heard.
    let id = world.cluster.ids().find(|id| ![leader, other].contains(id));
    world.stop(id.unwrap(), Stop::Kill);
    world.follow(other, true);
    assert_eq!(world.partition("t").in_sync, [leader]);
    world.pass(LATE);
    let mut both = [leader, other];
    both.sort_unstable();
    assert_eq!(world.partition("t").in_sync, both);
    // Its own change it knows at once, so that what it shows is on all that may follow it.
    assert_eq!(world.produce(leader, -1, "two").error_code, 0);
    world.cluster.move_leader("t", 0, other).unwrap();
    world.drain();
    assert_eq!(world.values(), ["one", "two"]);
}

#[test]
fn a_topic_is_made_and_deleted_whichever_node_has_heard_of_it() {
    let mut world = World::new(&[]);
    for node in [2, 3] {
        world.cluster.set_metadata_delay(node, LATE, world.now);
    }
    let create = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: "new".into(),
            num_partitions: 2,
            replication_factor: 3,
            ..Default::default()
        }],
        ..Default::default()
    };
    let made = world.ask(2, &create, 7).topics.remove(0);
    assert_eq!((made.error_code, made.num_partitions), (0, 2));
    assert_eq!(made.replication_factor, 3);
    let describe = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some("new".into()),
            ..Default::default()
        }]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let code = |world: &mut World, node| {
        let answer = world.ask(node, &describe, 9);
        ErrorCode(answer.topics[0].error_code)
    };
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(
        [1, 2, 3].map(|node| code(&mut world, node)),
        [ErrorCode::NONE, unknown, unknown]
    );
    let again = world.ask(3, &create, 7).topics.remove(0);
    assert_eq!(again.error_code, ErrorCode::TOPIC_ALREADY_EXISTS.0);
    world.pass(LATE);
    assert_eq!(
        [1, 2, 3].map(|node| code(&mut world, node)),
        [ErrorCode::NONE; 3]
    );
    let delete = DeleteTopicsRequest {
        topic_names: vec!["new".into()],
        ..Default::default()
    };
    assert_eq!(world.ask(3, &delete, 4).responses[0].error_code, 0);
    assert_eq!(
        [1, 2].map(|node| code(&mut world, node)),
        [unknown, ErrorCode::NONE]
    );
    assert_eq!(world.ask(2, &delete, 4).responses[0].error_code, unknown.0);
    // Who starts learns it at once.
    world.stop(2, Stop::Kill);
    world.start(2);
    assert_eq!(code(&mut world, 2), unknown);
    world
        .cluster
        .set_metadata_delay(3, Duration::ZERO, world.now);
    assert_eq!(code(&mut world, 3), unknown);
}

#[test]
fn a_killed_leader_is_followed_by_another_with_a_new_epoch_and_nothing_is_lost() {
    let mut world = World::new(&[]);
    let old = world.leader();
    world.produce(old, -1, "one");
    let waiting = world.send(old, &fetch(1, (0, -1)), 12);
    world.stop(old, Stop::Kill);
    assert!(
        world.trace.contains(&(
            old,
            Output::Close {
                connection: waiting,
                reason: "the node went down".to_owned()
            }
        )) || world.answer::<FetchRequest>(waiting, 12).is_some()
    );
    let new = world.partition("t");
    assert!(new.leader != old && new.epoch == 1 && !new.in_sync.contains(&old));
    assert_eq!(
        world.fetch(new.leader, 0, (0, -1)).error_code,
        ErrorCode::FENCED_LEADER_EPOCH.0
    );
    assert_eq!(
        world.fetch(new.leader, 0, (2, -1)).error_code,
        ErrorCode::UNKNOWN_LEADER_EPOCH.0
    );
    world.produce(new.leader, -1, "two");
    world.start(old);
    assert_eq!(world.partition("t").in_sync, [1, 2, 3]);
    world.cluster.move_leader("t", 0, old).unwrap();
    world.drain();
    assert_eq!(world.values(), ["one", "two"]);
}

#[test]
fn an_unclean_leader_cuts_off_what_it_never_had_and_clients_can_tell() {
    let mut world = World::new(&[]);
    let old = world.leader();
    world.produce(old, -1, "kept");
    for node in [1, 2, 3] {
        world.follow(node, false);
    }
    world.produce(old, 1, "lost");
    world.produce(old, 1, "lost too");
    let new = world.other();
    world.cluster.elect_unclean("t", 0, new).unwrap();
    world.produce(new, 1, "instead");
    for node in [1, 2, 3] {
        world.follow(node, true);
    }
    assert_eq!(world.partition("t").in_sync, [1, 2, 3]);
    let fetched = world.fetch(new, 3, (1, 0));
    assert_eq!(
        (
            fetched.diverging_epoch.epoch,
            fetched.diverging_epoch.end_offset
        ),
        (0, 1)
    );
    let asked = OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: vec![OffsetForLeaderTopic {
            topic: "t".into(),
            partitions: vec![OffsetForLeaderPartition {
                current_leader_epoch: 1,
                leader_epoch: 0,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let end = world.ask(new, &asked, 4).topics[0].partitions[0].clone();
    assert_eq!((end.leader_epoch, end.end_offset), (0, 1));
    // The old leader has cut its log too.
    world.cluster.move_leader("t", 0, old).unwrap();
    world.drain();
    assert_eq!(world.values(), ["kept", "instead"]);
}

#[test]
fn leaders_that_wrote_nothing_follow_again() {
    let mut world = World::new(&[]);
    for (step, to) in [2, 3, 1, 3, 2, 1].into_iter().enumerate() {
        world.cluster.move_leader("t", 0, to).unwrap();
        world.drain();
        if step % 2 == 1 {
            assert_eq!(world.produce(to, -1, "x").error_code, 0);
        }
        assert_eq!(world.partition("t").in_sync, [1, 2, 3]);
    }
    assert_eq!(world.values(), ["x", "x", "x"]);
}

#[test]
fn a_loss_of_power_takes_what_was_not_synced() {
    let mut world = World::new(&[("default.replication.factor", "1")]);
    let leader = world.leader();
    world.produce(leader, -1, "synced");
    world.cluster.sync(leader);
    world.produce(leader, -1, "written");
    world.stop(leader, Stop::Kill);
    assert_eq!(world.leader(), -1);
    world.start(leader);
    assert_eq!(world.values(), ["synced", "written"]);
    world.stop(leader, Stop::PowerLoss);
    world.start(leader);
    assert_eq!(world.values(), ["synced"]);
}

#[test]
fn only_an_unclean_election_replaces_the_last_in_sync() {
    for (unclean, expected) in [("false", -1), ("true", 3)] {
        let mut world = World::new(&[
            ("unclean.leader.election.enable", unclean),
            ("replica.lag.time.max.ms", "100"),
        ]);
        let leader = world.leader();
        assert_eq!(leader, 1);
        world.stop(2, Stop::Kill);
        world.follow(3, false);
        world.produce(leader, 1, "only here");
        world.pass(Duration::from_millis(100));
        assert_eq!(world.partition("t").in_sync, [1]);
        world.stop(1, Stop::Kill);
        assert_eq!(world.leader(), expected);
        world.start(1);
        assert_eq!(world.leader(), if expected == -1 { 1 } else { expected });
    }
}

#[test]
fn a_clean_stop_loses_nothing_even_with_acks_1() {
    let mut world = World::new(&[]);
    world.cluster.set_replication_delay(DELAY);
    let leader = world.leader();
    world.produce(leader, 1, "handed over");
    world.stop(leader, Stop::Clean);
    world.pass(DELAY);
    assert_eq!(world.values(), ["handed over"]);
}

const OFFSETS: &str = "__consumer_offsets";

impl World {
    /// The node that coordinates the group "g", which all nodes agree on.
    fn coordinator(&mut self) -> i32 {
        let find = FindCoordinatorRequest {
            coordinator_keys: vec!["g".into()],
            ..Default::default()
        };
        let up: Vec<i32> = self.cluster.ids().collect();
        let up = up.into_iter().filter(|node| self.cluster.is_up(*node));
        let told: Vec<i32> = up
            .collect::<Vec<_>>()
            .into_iter()
            .map(|node| self.ask(node, &find, 4).coordinators[0].node_id)
            .collect();
        assert!(told.iter().all(|node| *node == told[0]), "{told:?}");
        told[0]
    }

    /// The partition that keeps the group "g": the only one with anything in it.
    fn kept_in(&mut self) -> i32 {
        let coordinator = self.coordinator();
        let mut all = (0..3).filter(|index| {
            let standing = self.cluster.partition(OFFSETS, *index).unwrap();
            standing.leader == coordinator
        });
        all.next().unwrap()
    }

    fn beat(&mut self, node: i32, member: &str, generation_id: i32) -> i16 {
        let beat = HeartbeatRequest {
            group_id: "g".into(),
            member_id: member.into(),
            generation_id,
            ..Default::default()
        };
        self.ask(node, &beat, 4).error_code
    }

    /// The group "g" gets one member, which has synced; gives its id.
    fn member(&mut self) -> String {
        let coordinator = self.coordinator();
        let joining = self.send(coordinator, &join(), 3);
        self.pass(DELAY);
        let joined = self.answer::<JoinGroupRequest>(joining, 3).unwrap();
        assert_eq!((joined.error_code, joined.generation_id), (0, 1));
        let member = joined.member_id.to_string();
        let syncing = self.send(coordinator, &sync(&member), 3);
        self.pass(DELAY * 2);
        let synced = self.answer::<SyncGroupRequest>(syncing, 3).unwrap();
        assert_eq!(
            (synced.error_code, &synced.assignment[..]),
            (0, &b"all"[..])
        );
        member
    }
}

fn join() -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 6_000,
        rebalance_timeout_ms: 6_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn sync(member: &str) -> SyncGroupRequest {
    SyncGroupRequest {
        group_id: "g".into(),
        member_id: member.into(),
        generation_id: 1,
        assignments: vec![SyncGroupRequestAssignment {
            member_id: member.into(),
            assignment: bytes::Bytes::from_static(b"all"),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn commit(committed_offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                committed_offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn committed(answer: &OffsetCommitResponse) -> i16 {
    answer.topics[0].partitions[0].error_code
}

#[test]
fn committed_offsets_are_compacted_and_none_is_lost() {
    let mut world = World::new(&[]);
    let old = world.coordinator();
    let commit = |partition_index, committed_offset| OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                partition_index,
                committed_offset,
                committed_metadata: Some("m".repeat(4000).into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    world.ask(old, &commit(1, 99), 8);
    for offset in 0..600 {
        world.ask(old, &commit(0, offset), 8);
    }
    world.pass(Duration::from_secs(16));
    let new = old % 3 + 1;
    let index = world.kept_in();
    let mut first_at = |offset| {
        let mut request = fetch(offset, (-1, -1));
        request.topics[0].topic = OFFSETS.into();
        request.topics[0].partitions[0].partition = index;
        let answer = world.ask(old, &request, 12);
        let records = answer.responses[0].partitions[0].records.clone().unwrap();
        let mut batches = ottla_protocol::records::batches(records);
        batches.next().unwrap().unwrap().header.base_offset
    };
    assert_eq!(first_at(0), 0, "the only commit of its partition");
    assert!(first_at(1) > 200, "the older ones have gone");
    world.cluster.move_leader(OFFSETS, index, new).unwrap();
    let fetched = OffsetFetchRequest {
        group_id: "g".into(),
        topics: None,
        ..Default::default()
    };
    let fetched = world.ask(new, &fetched, 7);
    let committed = fetched.topics[0].partitions.iter();
    let committed: Vec<_> = committed
        .map(|it| (it.partition_index, it.committed_offset))
        .collect();
    assert_eq!(committed, [(0, 599), (1, 99)]);
}

#[test]
fn committed_offsets_move_with_their_coordinator() {
    let mut world = World::new(&[]);
    let old = world.coordinator();
    let wrong = old % 3 + 1;
    let refused = world.ask(wrong, &commit(7), 8);
    assert_eq!(committed(&refused), ErrorCode::NOT_COORDINATOR.0);
    assert_eq!(committed(&world.ask(old, &commit(7), 8)), 0);
    world.stop(old, Stop::Kill);
    let new = world.coordinator();
    assert_ne!(new, old);
    let fetch = OffsetFetchRequest {
        group_id: "g".into(),
        topics: Some(vec![offset_fetch_request::OffsetFetchRequestTopic {
            name: "t".into(),
            partition_indexes: ottla_protocol::Ints::from_slice(&[0]),
            ..Default::default()
        }]),
        ..Default::default()
    };
    let fetched = world.ask(new, &fetch, 7);
    assert_eq!(fetched.topics[0].partitions[0].committed_offset, 7);
    world.start(old);
    assert_eq!(world.beat(old, "", 0), ErrorCode::NOT_COORDINATOR.0);
}

#[test]
fn offsets_are_committed_when_the_replicas_in_sync_have_them() {
    let mut world = World::new(&[("min.insync.replicas", "2")]);
    let coordinator = world.coordinator();
    world.cluster.set_replication_delay(DELAY);
    let waits = world.send(coordinator, &commit(7), 8);
    world.pass(DELAY - Duration::from_millis(1));
    assert!(world.answer::<OffsetCommitRequest>(waits, 8).is_none());
    world.pass(DELAY);
    let answer = world.answer::<OffsetCommitRequest>(waits, 8).unwrap();
    assert_eq!(committed(&answer), 0);
    // A follower in sync that takes nothing: the time is over before it is out of sync.
    let others: Vec<_> = (1..=3).filter(|node| *node != coordinator).collect();
    world.follow(others[0], false);
    let waits = world.send(coordinator, &commit(8), 8);
    world.pass(Duration::from_secs(5));
    let answer = world.answer::<OffsetCommitRequest>(waits, 8).unwrap();
    let not_available = ErrorCode::COORDINATOR_NOT_AVAILABLE.0;
    assert_eq!(committed(&answer), not_available);
    // Too few are in sync.
    for node in others {
        world.stop(node, Stop::Kill);
    }
    let answer = world.ask(coordinator, &commit(9), 8);
    assert_eq!(committed(&answer), not_available);
}

#[test]
fn members_move_with_their_coordinator() {
    let mut world = World::new(&[("group.initial.rebalance.delay.ms", "0")]);
    let partition = world.kept_in();
    let member = world.member();
    let mut old = world.coordinator();
    // By hand, by a kill, by a clean stop; the last node that is up has seen none of it happen.
    for step in 0..3 {
        match step {
            0 => world
                .cluster
                .move_leader(OFFSETS, partition, old % 3 + 1)
                .unwrap(),
            1 => world.stop(old, Stop::Kill),
            _ => world.stop(old, Stop::Clean),
        }
        world.drain();
        let new = world.coordinator();
        assert_ne!(new, old);
        if step == 0 {
            assert_eq!(world.beat(old, &member, 1), ErrorCode::NOT_COORDINATOR.0);
        }
        assert_eq!(world.beat(new, &member, 1), 0);
        assert_eq!(world.ask(new, &sync(&member), 3).assignment[..], b"all"[..]);
        old = new;
    }
    // Its session ends there too.
    world.pass(Duration::from_millis(5_999));
    assert_eq!(world.beat(old, &member, 1), 0);
    world.pass(Duration::from_secs(6));
    let unknown = ErrorCode::UNKNOWN_MEMBER_ID.0;
    assert_eq!(world.beat(old, &member, 1), unknown);
}

#[test]
fn a_group_whose_coordinator_comes_back_is_there_again() {
    let mut world = World::new(&[
        ("default.replication.factor", "1"),
        ("group.initial.rebalance.delay.ms", "0"),
    ]);
    let member = world.member();
    let only = world.coordinator();
    world.stop(only, Stop::Kill);
    world.pass(Duration::from_secs(60));
    world.start(only);
    assert_eq!(world.beat(only, &member, 1), 0);
    // Nobody sends a request, and the session still ends.
    world.stop(only, Stop::Kill);
    world.start(only);
    world.pass(Duration::from_secs(6));
    let unknown = ErrorCode::UNKNOWN_MEMBER_ID.0;
    assert_eq!(world.beat(only, &member, 1), unknown);
}

#[test]
fn an_assignment_is_told_when_the_replicas_in_sync_have_it() {
    let mut world = World::new(&[("group.initial.rebalance.delay.ms", "0")]);
    let coordinator = world.coordinator();
    let joined = world.ask(coordinator, &join(), 3);
    world.cluster.set_replication_delay(DELAY);
    // The leader assigns, and a client requests the assignment, before the replicas have it.
    let assigns = world.send(coordinator, &sync(&joined.member_id), 3);
    let asks = world.send(coordinator, &sync(&joined.member_id), 3);
    world.pass(DELAY - Duration::from_millis(1));
    for waits in [assigns, asks] {
        assert!(world.answer::<SyncGroupRequest>(waits, 3).is_none());
    }
    world.pass(DELAY);
    for waits in [assigns, asks] {
        let synced = world.answer::<SyncGroupRequest>(waits, 3).unwrap();
        assert_eq!(
            (synced.error_code, &synced.assignment[..]),
            (0, &b"all"[..])
        );
    }
}

/// A ConsumerGroupHeartbeat of a member of the group "g", which is a full request when it joins.
fn epoch_beat(member_epoch: i32) -> ConsumerGroupHeartbeatRequest {
    let joins = member_epoch == 0;
    ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        member_epoch,
        rebalance_timeout_ms: if joins { 6_000 } else { -1 },
        subscribed_topic_names: joins.then(|| vec!["t".into()]),
        topic_partitions: joins.then(Vec::new),
        ..Default::default()
    }
}

#[test]
fn nobody_is_told_of_an_epoch_that_too_few_replicas_know() {
    let mut world = World::new(&[("min.insync.replicas", "2")]);
    let coordinator = world.coordinator();
    let place = world.kept_in();
    let others: Vec<i32> = (1..=3).filter(|node| *node != coordinator).collect();
    for node in &others {
        world.stop(*node, Stop::Kill);
    }
    for _ in 0..2 {
        let refused = world.ask(coordinator, &epoch_beat(0), 1);
        assert_eq!(
            refused.error_code,
            ErrorCode::COORDINATOR_NOT_AVAILABLE.0,
            "{refused:?}"
        );
    }
    for node in &others {
        world.start(*node);
    }
    let joining = world.send(coordinator, &epoch_beat(0), 1);
    world.pass(DELAY * 2);
    let joined = world.answer::<ConsumerGroupHeartbeatRequest>(joining, 1);
    let joined = joined.unwrap();
    assert_eq!(joined.error_code, 0, "{joined:?}");
    let next = others[0];
    world.cluster.move_leader(OFFSETS, place, next).unwrap();
    let stays = world.ask(next, &epoch_beat(joined.member_epoch), 1);
    assert_eq!(
        (stays.error_code, stays.member_epoch),
        (0, joined.member_epoch)
    );
}

#[test]
fn an_assignment_that_too_few_replicas_took_is_made_anew() {
    let mut world = World::new(&[
        ("group.initial.rebalance.delay.ms", "0"),
        ("min.insync.replicas", "2"),
    ]);
    let coordinator = world.coordinator();
    let joined = world.ask(coordinator, &join(), 3);
    for node in (1..=3).filter(|node| *node != coordinator) {
        world.stop(node, Stop::Kill);
    }
    let mut synced = || {
        let synced = world.ask(coordinator, &sync(&joined.member_id), 3);
        synced.error_code
    };
    assert_eq!(synced(), ErrorCode::COORDINATOR_NOT_AVAILABLE.0);
    assert_eq!(synced(), ErrorCode::REBALANCE_IN_PROGRESS.0);
}

#[test]
fn deleted_records_are_gone_on_every_replica() {
    let mut world = World::new(&[]);
    let leader = world.leader();
    for value in ["one", "two", "three"] {
        world.produce(leader, -1, value);
    }
    let delete = |offset| DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: "t".into(),
            partitions: vec![DeleteRecordsPartition {
                offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let ask = |world: &mut World, node, offset| {
        let answer = world.ask(node, &delete(offset), 2);
        let partition = &answer.topics[0].partitions[0];
        (partition.error_code, partition.low_watermark)
    };
    let other = world.other();
    let not_leader = ErrorCode::NOT_LEADER_OR_FOLLOWER.0;
    assert_eq!(ask(&mut world, other, 2), (not_leader, -1));
    let out_of_range = ErrorCode::OFFSET_OUT_OF_RANGE.0;
    assert_eq!(ask(&mut world, leader, 4), (out_of_range, -1));
    assert_eq!(ask(&mut world, leader, 2), (0, 2));
    let code = world.fetch(leader, 1, (-1, -1)).error_code;
    assert_eq!(code, out_of_range);
    world.cluster.move_leader("t", 0, other).unwrap();
    world.drain();
    assert_eq!(world.fetch(other, 2, (-1, -1)).log_start_offset, 2);
    assert_eq!(ask(&mut world, other, -1), (0, 3));
    assert_eq!(world.produce(other, -1, "four").base_offset, 3);
    world.drain();
    let fetched = world.fetch(other, 3, (-1, -1));
    assert_eq!((fetched.error_code, fetched.high_watermark), (0, 4));
}

/// A little of everything.
fn run(seed: u64) -> Vec<(i32, Output)> {
    let mut world = World::seeded(&[], seed);
    world.cluster.set_replication_delay(DELAY);
    let metadata = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    for node in [1, 2, 3] {
        let leader = world.leader();
        world.produce(leader, 1, "x");
        world.pass(DELAY);
        world.stop(node, Stop::PowerLoss);
        let up = world.cluster.ids().find(|id| *id != node).unwrap();
        world.ask(up, &metadata, 12);
        world.values();
        world.start(node);
        world.pass(DELAY);
    }
    world.trace
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_seed_others() {
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_cluster_keeps_nothing_in_a_folder() {
    let config = BrokerConfig {
        data_dir: Some("nowhere".into()),
        ..Default::default()
    };
    let error = Cluster::new(&config, &[vec![("h".to_owned(), 1)]], 1).unwrap_err();
    assert!(error.to_string().contains("in memory"));
}

#[test]
fn followers_keep_what_their_leader_keeps() {
    let mut world = World::new(&[
        ("log.segment.bytes", "100"),
        ("log.retention.ms", "60000"),
        ("log.retention.check.interval.ms", "10000"),
    ]);
    let leader = world.leader();
    let start = world.now.unix_ms;
    for step in 0..6 {
        let request = produce_at(start + 10_000 * step, -1, "record");
        assert_eq!(one(world.ask(leader, &request, 10)).error_code, 0);
    }
    let log_start = |world: &mut World, node| world.fetch(node, 5, (-1, -1)).log_start_offset;
    world.pass(Duration::from_secs(60));
    assert_eq!(log_start(&mut world, leader), 0);
    world.pass(Duration::from_secs(20));
    assert_eq!(log_start(&mut world, leader), 2);
    let other = world.other();
    world.cluster.move_leader("t", 0, other).unwrap();
    assert_eq!(log_start(&mut world, other), 2, "before it looked itself");
    world.pass(Duration::from_secs(30));
    assert_eq!(log_start(&mut world, other), 5);
    world.pass(Duration::from_secs(60));
    let data = world.fetch(other, 6, (-1, -1));
    assert_eq!(
        (data.error_code, data.log_start_offset, data.high_watermark),
        (0, 6, 6)
    );
}

/// A transactional producer of a cluster that takes its time, with one record in `t-0`.
struct Transaction {
    producer: (i64, i16),
    end: EndTxnRequest,
}

impl World {
    fn transaction_coordinator(&mut self) -> Option<i32> {
        let find = FindCoordinatorRequest {
            key_type: 1,
            coordinator_keys: vec!["id".into()],
            ..Default::default()
        };
        let up = self.cluster.ids().find(|id| self.cluster.is_up(*id))?;
        let found = self.ask(up, &find, 4).coordinators.remove(0);
        (found.error_code == 0).then_some(found.node_id)
    }

    /// Sends a request, and waits for the response.
    fn wait<R: Request>(&mut self, node: i32, request: &R, version: i16) -> R::Response {
        let connection = self.send(node, request, version);
        let mut rounds = 0..100;
        loop {
            if let Some(answer) = self.answer::<R>(connection, version) {
                return answer;
            }
            rounds.next().expect("no answer");
            self.pass(Duration::from_millis(10));
        }
    }

    fn begin(&mut self) -> Transaction {
        while self.transaction_coordinator().is_none() {
            self.pass(Duration::from_millis(10));
        }
        let coordinator = self.transaction_coordinator().unwrap();
        let init = InitProducerIdRequest {
            transactional_id: Some("id".into()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let given = self.wait(coordinator, &init, 5);
        assert_eq!(given.error_code, 0);
        let producer = (given.producer_id, given.producer_epoch);
        let mut builder = BatchBuilder::new(Compression::None, None);
        builder.set_transactional(true);
        builder
            .append(EPOCH_MS, None, Some(b"v"), std::iter::empty())
            .unwrap();
        let state = ProducerState {
            producer_id: producer.0,
            epoch: producer.1,
            base_sequence: 0,
        };
        let mut request = produce(-1, "");
        request.transactional_id = Some("id".into());
        request.topic_data[0].partition_data[0].records = Some(builder.finish(state).unwrap());
        let leader = self.leader();
        let written = one(self.wait(leader, &request, 12));
        assert_eq!((written.error_code, written.base_offset), (0, 0));
        let end = EndTxnRequest {
            transactional_id: "id".into(),
            producer_id: producer.0,
            producer_epoch: producer.1,
            committed: true,
            ..Default::default()
        };
        Transaction { producer, end }
    }

    /// The end of `t-0` for who reads what is committed.
    fn stable(&mut self) -> i64 {
        let request = ListOffsetsRequest {
            replica_id: -1,
            isolation_level: 1,
            topics: vec![list_offsets_request::ListOffsetsTopic {
                name: "t".into(),
                partitions: vec![list_offsets_request::ListOffsetsPartition {
                    timestamp: -1,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let leader = self.leader();
        self.ask(leader, &request, 7).topics[0].partitions[0].offset
    }
}

const LONG: Duration = Duration::from_secs(1);

#[test]
fn a_leader_hears_of_the_coordinator_at_once_whichever_node_is_looked_at_first() {
    for (leader, coordinator) in [(1, 3), (3, 1)] {
        let mut world = World::new(&[]);
        while world.transaction_coordinator().is_none() {
            world.pass(Duration::from_millis(10));
        }
        // Where the node leads already, there is nothing to move.
        let _ = world.cluster.move_leader("t", 0, leader);
        for partition in 0..3 {
            let topic = "__transaction_state";
            let _ = world.cluster.move_leader(topic, partition, coordinator);
        }
        world.drain();
        assert_eq!(world.leader(), leader);
        assert_eq!(world.transaction_coordinator(), Some(coordinator));
        let before = world.now.instant;
        world.begin();
        assert_eq!(world.now.instant, before, "nothing happens at that time");
    }
}

#[test]
fn a_transaction_is_decided_when_replicas_know_it() {
    let mut world = World::new(&[]);
    world.cluster.set_replication_delay(DELAY);
    let Transaction { producer, end } = world.begin();
    assert_eq!(world.stable(), 0);
    let coordinator = world.transaction_coordinator().unwrap();
    let waiting = world.send(coordinator, &end, 5);
    world.pass(DELAY - Duration::from_millis(1));
    assert!(world.answer::<EndTxnRequest>(waiting, 5).is_none());
    world.pass(Duration::from_millis(1));
    let answer = world.answer::<EndTxnRequest>(waiting, 5).unwrap();
    assert_eq!(answer.error_code, 0);
    assert_eq!(
        (answer.producer_id, answer.producer_epoch),
        (producer.0, producer.1 + 1)
    );
    assert_eq!(world.stable(), 0, "the marker is not on all replicas");
    world.pass(LONG);
    assert_eq!(world.stable(), 2);
}

#[test]
fn a_decision_outlives_its_coordinator() {
    for how in [Stop::Clean, Stop::Kill, Stop::PowerLoss] {
        let mut world = World::new(&[("transaction.max.timeout.ms", "60000")]);
        world.cluster.set_replication_delay(DELAY);
        let Transaction { end, .. } = world.begin();
        let coordinator = world.transaction_coordinator().unwrap();
        assert_eq!(world.wait(coordinator, &end, 5).error_code, 0);
        world.cluster.stop(coordinator, how, world.now);
        world.drain();
        world.pass(LONG);
        // The markers may come from both.
        assert!(world.stable() >= 2, "{how:?}: the next coordinator ends it");
        let other = world.transaction_coordinator().unwrap();
        assert_ne!(other, coordinator);
        assert_eq!(world.wait(other, &end, 5).error_code, 0, "{how:?}");
    }
}

#[test]
fn what_its_coordinator_took_along_is_not_decided() {
    let mut world = World::new(&[]);
    world.cluster.set_replication_delay(DELAY);
    let Transaction { end, .. } = world.begin();
    let coordinator = world.transaction_coordinator().unwrap();
    let waiting = world.send(coordinator, &end, 5);
    world.cluster.stop(coordinator, Stop::Kill, world.now);
    world.drain();
    world.pass(LONG);
    assert!(world.answer::<EndTxnRequest>(waiting, 5).is_none());
    assert_eq!(world.stable(), 0, "it is open");
    let other = world.transaction_coordinator().unwrap();
    assert_eq!(world.wait(other, &end, 5).error_code, 0);
    world.pass(LONG);
    assert_eq!(world.stable(), 2);
}

#[test]
fn an_open_transaction_times_out_whoever_coordinates_and_leads() {
    let mut world = World::new(&[]);
    world.cluster.set_replication_delay(DELAY);
    world.begin();
    for topic in ["__transaction_state", "t"] {
        for index in 0..3 {
            let now = world.cluster.partition(topic, index).unwrap().leader;
            let next = world.cluster.ids().find(|id| *id != now).unwrap();
            world.cluster.move_leader(topic, index, next).unwrap();
            world.drain();
        }
    }
    world.pass(Duration::from_secs(50));
    assert_eq!(world.stable(), 0, "the next leader knows that it is open");
    world.pass(Duration::from_secs(20));
    assert_eq!(world.stable(), 2);
    let leader = world.leader();
    let mut request = fetch(0, (-1, -1));
    request.isolation_level = 1;
    let answer = world.ask(leader, &request, 12);
    let aborted = answer.responses[0].partitions[0]
        .aborted_transactions
        .clone();
    assert_eq!(aborted.unwrap()[0].first_offset, 0);
}

#[test]
fn a_transaction_is_decided_where_enough_replicas_are_in_sync() {
    let mut world = World::new(&[("min.insync.replicas", "2")]);
    world.cluster.set_replication_delay(DELAY);
    let Transaction { end, .. } = world.begin();
    let coordinator = world.transaction_coordinator().unwrap();
    let others: Vec<_> = world
        .cluster
        .ids()
        .filter(|id| *id != coordinator)
        .collect();
    for other in &others {
        world.stop(*other, Stop::Kill);
    }
    world.pass(LONG);
    let alone = world.wait(coordinator, &end, 5);
    let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!(alone.error_code, code.0, "nobody else would know of it");
    assert_eq!(world.stable(), 0);
    world.start(others[0]);
    world.pass(LONG);
    assert_eq!(world.wait(coordinator, &end, 5).error_code, 0);
    world.pass(LONG);
    assert_eq!(world.stable(), 2);
}
