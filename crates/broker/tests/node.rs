//! The broker without sockets: bytes in, bytes out, simulated time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use ottla_broker::node::{Node, Now, Output};
use ottla_broker::{BrokerConfig, Fault, Secret, SecuritySettings};
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use ottla_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch,
};
use ottla_protocol::messages::share_fetch_request::{
    FetchPartition as SharePartition, FetchTopic as ShareTopic,
};
use ottla_protocol::messages::{
    ApiVersionsRequest, DeleteTopicsRequest, FetchRequest, InitProducerIdRequest, JoinGroupRequest,
    MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest, ShareAcknowledgeRequest, ShareFetchRequest,
};
use ottla_protocol::records::{BatchBuilder, ProducerState};
use ottla_protocol::{ApiKey, ErrorCode, Request, Uuid, header};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A node, its present time, and what came out of it.
struct World {
    node: Node,
    now: Now,
    received: Vec<(u64, BytesMut)>,
    closed: Vec<(u64, String)>,
    /// All that came out, in order.
    trace: Vec<Output>,
}

impl World {
    fn new(config: BrokerConfig, seed: u64) -> Self {
        let config = BrokerConfig {
            topics: vec![("t".to_owned(), 1)],
            ..config
        };
        Self {
            node: Node::new(&config, &[("h".to_owned(), 9)], seed).unwrap(),
            now: Now {
                instant: Instant::now(),
                unix_ms: 1_700_000_000_000,
            },
            received: Vec::new(),
            closed: Vec::new(),
            trace: Vec::new(),
        }
    }

    fn connect(&mut self, connection: u64) {
        self.node.connect(connection, 0, PEER, self.now);
        self.drain();
    }

    fn disconnect(&mut self, connection: u64) {
        self.node.disconnect(connection, self.now);
        self.drain();
    }

    fn send<R: Request>(&mut self, connection: u64, request: &R, version: i16) {
        let frame = header::encode_request(request, version, 1, Some("me")).unwrap();
        self.send_bytes(connection, &frame.into_bytes());
    }

    fn send_bytes(&mut self, connection: u64, bytes: &[u8]) {
        self.node.handle(connection, bytes, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.node.poll() {
            self.trace.push(output.clone());
            match output {
                Output::Send { connection, bytes } => {
                    match self.received.iter_mut().find(|(of, _)| *of == connection) {
                        Some((_, all)) => all.extend_from_slice(&bytes),
                        None => self.received.push((connection, bytes[..].into())),
                    }
                }
                Output::Close { connection, reason } => self.closed.push((connection, reason)),
            }
        }
    }

    fn frame(&mut self, connection: u64) -> Option<Bytes> {
        let (_, bytes) = self.received.iter_mut().find(|(of, _)| *of == connection)?;
        let length = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
        if bytes.len() < 4 + length {
            return None;
        }
        bytes.advance(4);
        Some(bytes.split_to(length).freeze())
    }

    fn answer<R: Request>(&mut self, connection: u64, version: i16) -> Option<R::Response> {
        let frame = self.frame(connection)?;
        Some(header::decode_response(version, frame).unwrap().1)
    }

    fn ask<R: Request>(&mut self, connection: u64, request: &R, version: i16) -> R::Response {
        self.send(connection, request, version);
        self.answer::<R>(connection, version).expect("no answer")
    }

    /// Lets time pass, step by step.
    fn pass(&mut self, time: Duration) {
        let end = self.now.instant + time;
        while let Some(next) = self.node.next_timeout().filter(|next| *next <= end) {
            self.at(next);
            self.node.handle_timeout(self.now);
            self.drain();
        }
        self.at(end);
    }

    fn at(&mut self, instant: Instant) {
        let step = instant.saturating_duration_since(self.now.instant);
        self.now.instant += step;
        self.now.unix_ms += step.as_millis() as i64;
    }
}

fn produce(value: &[u8]) -> ProduceRequest {
    let mut builder = BatchBuilder::new(Compression::None, None);
    let none = std::iter::empty();
    builder.append(1, None, Some(value), none).unwrap();
    ProduceRequest {
        acks: -1,
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

fn fetch(fetch_offset: i64) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![FetchTopic {
            topic: "t".into(),
            partitions: vec![FetchPartition {
                fetch_offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn join(session_timeout_ms: i32) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms,
        rebalance_timeout_ms: session_timeout_ms,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn bytes_may_come_in_any_pieces_and_answers_keep_their_order() {
    let mut world = World::new(BrokerConfig::default(), 1);
    world.connect(1);
    let mut bytes = BytesMut::new();
    for id in 0..3 {
        let frame = header::encode_request(&MetadataRequest::default(), 12, id, None).unwrap();
        bytes.extend_from_slice(&frame.into_bytes());
    }
    for byte in bytes {
        world.send_bytes(1, &[byte]);
    }
    for id in 0..3 {
        let frame = world.frame(1).unwrap();
        assert_eq!(i32::from_be_bytes(*frame.first_chunk().unwrap()), id);
    }
    assert_eq!(world.frame(1), None);
}

#[test]
fn a_long_poll_ends_with_a_record_or_with_its_time() {
    let mut world = World::new(BrokerConfig::default(), 1);
    world.connect(1);
    world.connect(2);
    world.send(1, &fetch(0), 12);
    assert!(world.answer::<FetchRequest>(1, 12).is_none());
    world.pass(Duration::from_millis(499));
    assert!(world.answer::<FetchRequest>(1, 12).is_none());
    let produced = world.ask(2, &produce(b"one"), 9);
    assert_eq!(produced.responses[0].partition_responses[0].base_offset, 0);
    let fetched = world.answer::<FetchRequest>(1, 12).unwrap();
    assert_ne!(
        fetched.responses[0].partitions[0].records,
        Some(Bytes::new())
    );
    world.send(1, &fetch(1), 12);
    world.pass(Duration::from_millis(499));
    assert!(world.answer::<FetchRequest>(1, 12).is_none());
    world.pass(Duration::from_millis(1));
    let fetched = world.answer::<FetchRequest>(1, 12).unwrap();
    assert_eq!(
        fetched.responses[0].partitions[0].records,
        Some(Bytes::new())
    );
}

#[test]
fn a_member_that_went_away_is_thrown_out_when_its_session_ends() {
    let mut world = World::new(BrokerConfig::default(), 1);
    world.connect(1);
    world.connect(2);
    assert_eq!(world.ask(1, &join(6_000), 3).generation_id, 1);
    world.disconnect(1);
    world.send(2, &join(60_000), 3);
    assert!(world.answer::<JoinGroupRequest>(2, 3).is_none());
    world.pass(Duration::from_secs(6));
    let joined = world.answer::<JoinGroupRequest>(2, 3).unwrap();
    assert_eq!((joined.generation_id, joined.members.len()), (2, 1));
}

/// A share session of this member begins, or goes on.
fn share(member: &'static str, topic_id: Uuid, epoch: i32, max_wait_ms: i32) -> ShareFetchRequest {
    ShareFetchRequest {
        group_id: Some("s".into()),
        member_id: Some(member.into()),
        share_session_epoch: epoch,
        max_wait_ms,
        max_bytes: 1 << 20,
        max_records: 10,
        topics: vec![ShareTopic {
            topic_id,
            partitions: vec![SharePartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn a_lock_on_what_somebody_leaves_begins_when_that_one_goes() {
    let mut world = World::new(BrokerConfig::default(), 1);
    world.connect(1);
    world.connect(2);
    let all = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    let topic_id = world.ask(1, &all, 12).topics[0].topic_id;
    world.ask(1, &share("one", topic_id, 0, 0), 2);
    world.ask(1, &produce(b"value"), 9);
    let first = world.ask(1, &share("one", topic_id, 1, 0), 2);
    let count = |row: &ottla_protocol::messages::ShareFetchResponse| {
        row.responses[0].partitions[0].acquired_records.len()
    };
    assert_eq!(count(&first), 1);
    world.send(2, &share("two", topic_id, 0, 60_000), 2);
    assert!(world.answer::<ShareFetchRequest>(2, 2).is_none());
    // Nothing happens meanwhile.
    world.at(world.now.instant + Duration::from_secs(10));
    world.disconnect(1);
    assert_eq!(count(&world.answer::<ShareFetchRequest>(2, 2).unwrap()), 1);
    // Locks last for 30 s.
    world.pass(Duration::from_secs(29));
    let accept = ShareAcknowledgeRequest {
        group_id: Some("s".into()),
        member_id: Some("two".into()),
        share_session_epoch: 1,
        topics: vec![AcknowledgeTopic {
            topic_id,
            partitions: vec![AcknowledgePartition {
                acknowledgement_batches: vec![AcknowledgementBatch {
                    acknowledge_types: vec![1],
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let told = world.ask(2, &accept, 2);
    let code = ErrorCode(told.responses[0].partitions[0].error_code);
    assert_eq!(code, ErrorCode::NONE);
}

#[test]
fn an_idle_connection_is_closed_and_a_closed_one_stays_so() {
    let config = BrokerConfig {
        properties: vec![("connections.max.idle.ms".to_owned(), "1000".to_owned())],
        ..Default::default()
    };
    let mut world = World::new(config, 1);
    world.connect(1);
    world.pass(Duration::from_millis(900));
    world.ask(1, &ApiVersionsRequest::default(), 0);
    world.pass(Duration::from_millis(999));
    assert!(world.closed.is_empty());
    world.pass(Duration::from_millis(1));
    assert!(world.closed[0].1.contains("connections.max.idle.ms"));
    world.send(1, &ApiVersionsRequest::default(), 0);
    assert!(world.frame(1).is_none());
    let next = world.node.next_timeout().unwrap();
    let left = next - world.now.instant;
    assert!(
        left > Duration::from_secs(1),
        "only logs are looked at: {left:?}"
    );
}

#[test]
fn a_wall_clock_that_jumps_moves_time_stamps_and_ages_and_no_session() {
    const HOUR: i64 = 3_600_000;
    let properties = [
        ("log.message.timestamp.type", "LogAppendTime"),
        ("log.retention.check.interval.ms", "1000"),
    ];
    let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = BrokerConfig {
        properties: properties.to_vec(),
        ..Default::default()
    };
    let mut world = World::new(config, 1);
    for connection in 1..=3 {
        world.connect(connection);
    }
    let stamp = |world: &mut World| {
        let produced = world.ask(1, &produce(b"one"), 9);
        produced.responses[0].partition_responses[0].log_append_time_ms - world.now.unix_ms
    };
    assert_eq!(stamp(&mut world), 0);
    assert_eq!(world.ask(2, &join(6_000), 3).generation_id, 1);
    world.disconnect(2);
    world.send(3, &join(60_000), 3);
    world.node.move_clock(-HOUR);
    assert_eq!(stamp(&mut world), -HOUR);
    world.pass(Duration::from_secs(3));
    let second = |world: &mut World| {
        let fetched = world.ask(1, &fetch(1), 12);
        ErrorCode(fetched.responses[0].partitions[0].error_code)
    };
    assert_eq!(second(&mut world), ErrorCode::NONE);
    world.node.move_clock(9 * 24 * HOUR);
    world.pass(Duration::from_millis(2999));
    // All is older than seven days.
    assert_eq!(second(&mut world), ErrorCode::OFFSET_OUT_OF_RANGE);
    assert!(world.answer::<JoinGroupRequest>(3, 3).is_none());
    world.pass(Duration::from_millis(1));
    let joined = world.answer::<JoinGroupRequest>(3, 3).unwrap();
    assert_eq!((joined.generation_id, joined.members.len()), (2, 1));
}

#[test]
fn faults_strike_without_sockets() {
    let mut world = World::new(BrokerConfig::default(), 1);
    world.connect(1);
    let delay = Duration::from_secs(3);
    world.node.inject(ApiKey::Produce, Fault::Delay(delay), 1);
    world
        .node
        .inject(ApiKey::Produce, Fault::CloseAfterApply, 1);
    world.send(1, &produce(b"late"), 9);
    world.pass(delay - Duration::from_millis(1));
    assert!(world.answer::<ProduceRequest>(1, 9).is_none());
    world.pass(Duration::from_millis(1));
    assert!(world.answer::<ProduceRequest>(1, 9).is_some());
    world.send(1, &produce(b"applied"), 9);
    assert!(world.closed[0].1.contains("after the request was applied"));
    world.connect(2);
    let fetched = world.ask(2, &fetch(1), 12);
    assert_eq!(fetched.responses[0].partitions[0].high_watermark, 2);
}

#[test]
fn answers_come_twice_or_under_a_wrong_number_or_throttled_or_never() {
    let mut world = World::new(BrokerConfig::default(), 1);
    world.connect(1);
    for fault in [Fault::Twice, Fault::WrongCorrelationId] {
        world.node.inject(ApiKey::Metadata, fault, 1);
    }
    world.send(1, &MetadataRequest::default(), 12);
    let first = world.frame(1).unwrap();
    assert_eq!(world.frame(1), Some(first.clone()));
    world.send(1, &MetadataRequest::default(), 12);
    let other = world.frame(1).unwrap();
    assert_ne!(first[..4], other[..4]);
    assert_eq!(first[4..], other[4..]);
    let time = Duration::from_secs(3);
    world
        .node
        .inject(ApiKey::Metadata, Fault::Throttle(time), 1);
    world.node.inject(ApiKey::Metadata, Fault::Hang, 1);
    let throttled = world.ask(1, &MetadataRequest::default(), 12);
    assert_eq!(throttled.throttle_time_ms, 3000);
    world.send(1, &MetadataRequest::default(), 12);
    world.send(1, &ApiVersionsRequest::default(), 0);
    world.pass(Duration::from_secs(3600));
    assert!(world.frame(1).is_none() && world.closed.is_empty());
}

#[test]
fn what_was_applied_may_be_refused_or_never_answered_or_answered_in_bytes() {
    let mut world = World::new(BrokerConfig::default(), 1);
    world.connect(1);
    let delay = Duration::from_secs(2);
    let code = ErrorCode::REQUEST_TIMED_OUT;
    for (applied, delay) in [(true, Duration::ZERO), (false, delay), (true, delay)] {
        let fault = Fault::Error {
            code,
            applied,
            delay,
        };
        world.node.inject(ApiKey::Produce, fault, 1);
        world.send(1, &produce(b"v"), 9);
        if !delay.is_zero() {
            world.pass(delay - Duration::from_millis(1));
            assert!(world.answer::<ProduceRequest>(1, 9).is_none());
            world.pass(Duration::from_millis(1));
        }
        let refused = world.answer::<ProduceRequest>(1, 9).unwrap();
        let row = &refused.responses[0].partition_responses[0];
        assert_eq!((row.error_code, row.base_offset), (code.0, -1));
    }
    let high_watermark = |world: &mut World| {
        let fetched = world.ask(1, &fetch(1), 12);
        fetched.responses[0].partitions[0].high_watermark
    };
    assert_eq!(high_watermark(&mut world), 2);

    let (silence, bytes) = (Fault::SilenceAfterApply, Fault::ByteByByte);
    world.node.inject(ApiKey::Produce, silence, 1);
    world.send(1, &produce(b"v"), 9);
    assert_eq!(high_watermark(&mut world), 3, "the next answer comes first");

    world.node.inject(ApiKey::Metadata, bytes, 1);
    let before = world.trace.len();
    world.send(1, &MetadataRequest::default(), 12);
    world.pass(Duration::ZERO);
    let pieces = world.trace[before..].iter();
    let sizes: Vec<_> = pieces
        .map(|output| match output {
            Output::Send { bytes, .. } => bytes.len(),
            Output::Close { .. } => 0,
        })
        .collect();
    assert!(sizes.len() > 40 && sizes.iter().all(|size| *size == 1));
    let answer = world.answer::<MetadataRequest>(1, 12).unwrap();
    assert_eq!(answer.brokers[0].port, 9);

    let close = Fault::CloseAfterAnswer;
    world.node.inject(ApiKey::Metadata, close, 1);
    world.ask(1, &MetadataRequest::default(), 12);
    assert!(world.closed[0].1.contains("after the response"));
}

/// A broker that knows alice, and how a client begins to authenticate.
fn that_authenticates() -> (World, SaslHandshakeRequest) {
    let config = BrokerConfig {
        security: SecuritySettings {
            users: vec![("alice".to_owned(), Secret::new("right".to_owned()))],
            ..Default::default()
        },
        ..Default::default()
    };
    let handshake = SaslHandshakeRequest {
        mechanism: "PLAIN".into(),
    };
    (World::new(config, 1), handshake)
}

#[test]
fn authentication_has_its_stages_and_a_wrong_password_its_delay() {
    let (mut world, handshake) = that_authenticates();
    let token = |password: &str| SaslAuthenticateRequest {
        auth_bytes: Bytes::from(format!("\0alice\0{password}")),
        ..Default::default()
    };
    world.connect(1);
    world.ask(1, &ApiVersionsRequest::default(), 0);
    assert_eq!(world.ask(1, &handshake, 1).error_code, 0);
    assert_eq!(world.ask(1, &token("right"), 1).error_code, 0);
    assert_eq!(
        world.ask(1, &MetadataRequest::default(), 12).topics.len(),
        0
    );
    world.connect(2);
    world.ask(2, &handshake, 1);
    world.send(2, &token("wrong"), 1);
    assert!(world.frame(2).is_none());
    world.pass(Duration::from_millis(100));
    assert!(
        world
            .answer::<SaslAuthenticateRequest>(2, 1)
            .unwrap()
            .error_code
            != 0
    );
    assert!(world.closed.is_empty());
    world.pass(Duration::from_millis(200));
    assert_eq!(world.closed[0].0, 2);
    world.connect(3);
    world.send(3, &MetadataRequest::default(), 12);
    assert_eq!(world.closed[1].0, 3);
}

#[test]
fn an_answer_in_bytes_is_still_throttled_and_a_failed_authentication_still_the_end() {
    let (mut world, handshake) = that_authenticates();
    let token = SaslAuthenticateRequest {
        auth_bytes: Bytes::from_static(b"\0alice\0wrong"),
        ..Default::default()
    };
    world.connect(1);
    world.ask(1, &handshake, 1);
    let bytes = Fault::ByteByByte;
    world.node.inject(ApiKey::SaslAuthenticate, bytes, 1);
    world.send(1, &token, 1);
    world.pass(Duration::from_millis(99));
    assert!(world.received.iter().all(|(_, bytes)| bytes.is_empty()));
    world.pass(Duration::from_millis(1));
    let refused = world.answer::<SaslAuthenticateRequest>(1, 1).unwrap();
    assert_ne!(refused.error_code, 0);
    world.pass(Duration::from_millis(200));
    assert_eq!(world.closed[0].0, 1);

    let quotas = vec!["client-id:me producer_byte_rate=10".to_owned()];
    let config = BrokerConfig {
        security: SecuritySettings {
            quotas,
            ..Default::default()
        },
        ..Default::default()
    };
    let mut world = World::new(config, 1);
    world.connect(1);
    world.node.inject(ApiKey::Produce, bytes, 1);
    world.send(1, &produce(&[0; 1000]), 9);
    world.pass(Duration::ZERO);
    let throttled = world.answer::<ProduceRequest>(1, 9).unwrap();
    let time = u64::try_from(throttled.throttle_time_ms).unwrap();
    assert!(time > 1000, "{time}");
    world.send(1, &MetadataRequest::default(), 12);
    world.pass(Duration::from_millis(time - 1));
    assert!(world.frame(1).is_none());
    world.pass(Duration::from_millis(1));
    assert!(world.frame(1).is_some());
}

#[test]
fn a_node_may_accept_nobody_and_then_everybody_again() {
    let (mut world, handshake) = that_authenticates();
    let token = SaslAuthenticateRequest {
        auth_bytes: Bytes::from_static(b"\0alice\0right"),
        ..Default::default()
    };
    world.node.set_logins(false);
    world.connect(1);
    world.ask(1, &handshake, 1);
    world.send(1, &token, 1);
    world.pass(Duration::from_millis(100));
    let refused = world.answer::<SaslAuthenticateRequest>(1, 1).unwrap();
    let code = ErrorCode(refused.error_code);
    assert_eq!(code, ErrorCode::SASL_AUTHENTICATION_FAILED);
    world.pass(Duration::from_millis(200));
    assert_eq!(world.closed[0].0, 1);
    world.node.set_logins(true);
    world.connect(2);
    world.ask(2, &handshake, 1);
    assert_eq!(world.ask(2, &token, 1).error_code, 0);
}

/// What a little of everything gives.
fn run(seed: u64) -> VecDeque<Output> {
    let mut world = World::new(BrokerConfig::default(), seed);
    world.connect(1);
    world.connect(2);
    world.ask(1, &MetadataRequest::default(), 12);
    world.ask(1, &InitProducerIdRequest::default(), 4);
    world.send(2, &join(6_000), 3);
    world.send(1, &fetch(0), 12);
    world.pass(Duration::from_secs(60));
    world.trace.into()
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_seed_others() {
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_topic_whose_files_do_not_go_is_deleted_all_the_same() {
    let dir = std::env::temp_dir().join(format!("ottla-node-delete-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let config = BrokerConfig {
        data_dir: Some(dir.clone()),
        ..Default::default()
    };
    let mut world = World::new(config.clone(), 1);
    world.connect(1);
    let commit = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: 7,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    world.ask(1, &commit, 8);
    let committed = OffsetFetchRequest {
        group_id: "g".into(),
        topics: None,
        ..Default::default()
    };
    assert_eq!(world.ask(1, &committed, 7).topics.len(), 1);
    // What has the new name of the partition's folder already stands in its way, and its files do not go one by one: a folder is
    // among them.
    std::fs::create_dir(dir.join("t-0/folder")).unwrap();
    let metadata = std::fs::read_to_string(dir.join("t-0/partition.metadata")).unwrap();
    let id = metadata
        .lines()
        .find_map(|line| line.strip_prefix("topic_id: "));
    let id: Uuid = id.unwrap().parse().unwrap();
    let id: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::create_dir_all(dir.join(format!("t-0.{id}-delete/full"))).unwrap();
    let delete = DeleteTopicsRequest {
        topic_names: vec!["t".into()],
        ..Default::default()
    };
    assert_eq!(world.ask(1, &delete, 5).responses[0].error_code, 0);
    assert_eq!(world.ask(1, &committed, 7).topics.len(), 0);
    assert!(dir.join("t-0").exists(), "it stayed");
    drop(world);
    let config = BrokerConfig {
        topics: vec![("other".to_owned(), 1)],
        ..config
    };
    let node = Node::new(&config, &[("h".to_owned(), 9)], 1).unwrap();
    assert!(!dir.join("t-0").exists() && dir.join("other-0").exists());
    drop(node);
    std::fs::remove_dir_all(&dir).unwrap();
}
