//! Every API at every version through the door, and what single ones mean; no sockets, and time stands still.

mod client_metrics;
mod fetch_sessions;
mod old_versions;
mod security;
mod sharing;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::*;
use ottla_protocol::records::{self, BatchBuilder, MessageSetBuilder, OldMagic, ProducerState};
use ottla_protocol::{Request, Uuid, header};

use super::*;
use crate::cluster::image::Address;
use crate::config::{BrokerConfig, Settings};
use crate::core::Shared;
use crate::release::Release;
use crate::security::Security;
use crate::security::session::{Principal, Session};
use crate::security::settings::SecuritySettings;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NOW_MS: i64 = 1_700_000_000_000;

struct Bench {
    core: Arc<Core>,
    client: Client,
    now: Now,
}

impl Bench {
    fn new(properties: &[(&str, &str)]) -> Self {
        Self::secured(properties, SecuritySettings::default())
    }

    fn secured(properties: &[(&str, &str)], security: SecuritySettings) -> Self {
        let config = BrokerConfig {
            topics: vec![("t".to_owned(), 2)],
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            security,
            ..BrokerConfig::default()
        };
        let settings = Settings::new(&config).unwrap();
        let address = Address {
            host: "h".into(),
            port: 9,
        };
        let security = Security::new(
            &config.security,
            settings.acl_settings(),
            settings.token_rules(),
            settings.token_lifetimes(),
            settings.quota_windows(),
            [5; 32],
        );
        let timer = Waker::noop().clone();
        let core = Core::open(
            &config,
            settings,
            vec![address],
            Shared {
                security: Arc::new(security.unwrap()),
                faults: Arc::default(),
                zookeeper: Arc::default(),
                group_settings: Arc::default(),
                share_states: Arc::default(),
                subscriptions: Arc::default(),
                cluster_id: None,
            },
            7,
            timer,
            None,
        )
        .unwrap();
        core.make_topics(&config).unwrap();
        let core = Arc::new(core);
        Self {
            core,
            client: client(Principal::anonymous()),
            now: Now {
                instant: Instant::now(),
                unix_ms: NOW_MS,
            },
        }
    }

    fn outcome<R: Request>(&self, request: &R, version: i16, ask: Ask) -> Outcome<Answered> {
        let frame = header::encode_request(request, version, 5, Some("me")).unwrap();
        let opened = open(frame.into_bytes().slice(4..)).unwrap();
        handle(&self.core, opened, &self.client, self.now, ask)
    }

    /// The response, however long it waits.
    fn ask<R: Request>(&self, request: &R, version: i16) -> R::Response {
        let mut outcome = self.outcome(request, version, Ask::Answer);
        loop {
            outcome = match outcome {
                Outcome::Answer(frame) | Outcome::Finish(frame, _) => {
                    return answer::<R>(version, frame);
                }
                Outcome::Wait(wait) => (wait.resume)(self.now),
                Outcome::Silent => panic!("no answer"),
                Outcome::Close(reason) => panic!("closed: {reason}"),
            }
        }
    }

    fn topic_id(&self) -> Uuid {
        self.core.topic("t").unwrap().id
    }

    fn produce(&self, version: i16, batches: &[(i32, Bytes)]) -> Vec<(i16, i64)> {
        let data = |(index, records): &(i32, Bytes)| PartitionProduceData {
            index: *index,
            records: Some(records.clone()),
            ..Default::default()
        };
        let by_id = version >= 13;
        let request = ProduceRequest {
            acks: -1,
            topic_data: vec![TopicProduceData {
                name: if by_id { Str::new() } else { "t".into() },
                topic_id: if by_id { self.topic_id() } else { Uuid::ZERO },
                partition_data: batches.iter().map(data).collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = self.ask(&request, version);
        let partitions = answer
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses);
        partitions
            .map(|partition| (partition.error_code, partition.base_offset))
            .collect()
    }

    fn fetch(
        &self,
        offset: i64,
        partition_max_bytes: i32,
        version: i16,
    ) -> fetch_response::PartitionData {
        let request = self.fetch_request(offset, partition_max_bytes, version);
        self.ask(&request, version)
            .responses
            .remove(0)
            .partitions
            .remove(0)
    }

    fn fetch_request(
        &self,
        fetch_offset: i64,
        partition_max_bytes: i32,
        version: i16,
    ) -> FetchRequest {
        let by_id = version >= 13;
        FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1 << 20,
            topics: vec![FetchTopic {
                topic: if by_id { Str::new() } else { "t".into() },
                topic_id: if by_id { self.topic_id() } else { Uuid::ZERO },
                partitions: vec![FetchPartition {
                    fetch_offset,
                    partition_max_bytes,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
    }
}

fn client(principal: Principal) -> Client {
    Client {
        host: HOST,
        port: 50_000,
        listener: 0,
        session: Mutex::new(Session::open(principal)),
        waker: Waker::noop().clone(),
        shares: Mutex::default(),
        software: Mutex::default(),
    }
}

fn answer<R: Request>(version: i16, answered: Answered) -> R::Response {
    let frame = (answered.encode)(Throttle::default()).unwrap();
    let (correlation_id, answer) =
        header::decode_response(version, frame.into_bytes().slice(4..)).unwrap();
    assert_eq!(correlation_id, 5);
    answer
}

fn batch(records: usize, state: ProducerState) -> Bytes {
    batch_at(NOW_MS, records, state)
}

fn batch_at(timestamp: i64, records: usize, state: ProducerState) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for i in 0..records {
        builder
            .append(
                timestamp + i as i64,
                None,
                Some(b"value"),
                std::iter::empty(),
            )
            .unwrap();
    }
    builder.finish(state).unwrap()
}

fn sequenced(producer_id: i64, base_sequence: i32) -> ProducerState {
    ProducerState {
        producer_id,
        epoch: 0,
        base_sequence,
    }
}

/// Sends one API at every version it advertises, for a response and for a refusal.
/// Sends requests to a broker of each release for each version of an API.
fn at_every_version<R: Api>(bench: &Bench) {
    for release in Release::all() {
        bench.core.set_release(release);
        for version in R::VERSIONS.min - 1..=R::VERSIONS.max + 1 {
            let told = told(&bench.core, R::KEY, R::HANDLED);
            if told.is_some_and(|told| told.contains(version))
                && release.manner(R::KEY, version) == Manner::Take(version)
            {
                takes_version::<R>(bench, version);
            } else {
                refuses_version::<R>(bench, version);
            }
        }
    }
    bench.core.set_release(Release::NEWEST);
}

fn takes_version<R: Api>(bench: &Bench, version: i16) {
    for ask in [Ask::Answer, Ask::Refuse(ErrorCode::UNKNOWN_SERVER_ERROR)] {
        match bench.outcome(&R::default(), version, ask) {
            Outcome::Answer(frame) | Outcome::Finish(frame, _) => {
                drop(answer::<R>(version, frame));
            }
            Outcome::Silent => assert_eq!(R::KEY, ApiKey::Produce, "acks is 0 there"),
            Outcome::Close(reason) if R::KEY == ApiKey::Produce && ask != Ask::Answer => {
                assert!(reason.contains("nobody waits"), "{reason}");
            }
            Outcome::Close(reason) => panic!("{} {version} {ask:?}: {reason}", R::NAME),
            Outcome::Wait(_) => {}
        }
    }
}

fn refuses_version<R: Api>(bench: &Bench, version: i16) {
    let mut frame = Vec::new();
    frame.extend(R::KEY.as_i16().to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend([0, 0, 0, 5, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0]);
    let opened = open(frame.into()).unwrap();
    let outcome = handle(&bench.core, opened, &bench.client, bench.now, Ask::Answer);
    let manner = bench.core.release().manner(R::KEY, version);
    match outcome {
        Outcome::Answer(frame) if R::KEY == ApiKey::ApiVersions => {
            let refused = answer::<ApiVersionsRequest>(0, frame);
            assert_eq!(refused.error_code, ErrorCode::UNSUPPORTED_VERSION.0);
            assert!(!refused.api_keys.is_empty());
        }
        Outcome::Silent if manner == Manner::Ignore => {}
        // It is taken for another version.
        _ if matches!(manner, Manner::Take(taken) if taken != version) => {}
        Outcome::Close(reason) => assert!(reason.contains("is not taken"), "{reason}"),
        _ => panic!(
            "{} answers version {version}, which it does not take",
            R::NAME
        ),
    }
}

#[test]
fn a_refused_request_is_answered_by_what_it_asked_for() {
    let bench = Bench::new(&[]);
    let code = ErrorCode::NOT_LEADER_OR_FOLLOWER;
    let refused = |request: &FetchRequest, version| match bench.outcome(
        request,
        version,
        Ask::Refuse(code),
    ) {
        Outcome::Answer(frame) => answer::<FetchRequest>(version, frame),
        _ => panic!("not refused"),
    };
    // Before version 7 only the partitions have the code, since version 13 only the top has it.
    for (version, top, partitions) in [(4, 0, 1), (7, code.0, 1), (13, code.0, 0)] {
        let answer = refused(&bench.fetch_request(0, 1, version), version);
        assert_eq!(answer.error_code, top, "{version}");
        let partitions_of = |topic: &fetch_response::FetchableTopicResponse| {
            assert_eq!(topic.topic, "t");
            topic.partitions.iter().map(|p| p.error_code).collect()
        };
        let codes: Vec<Vec<i16>> = answer.responses.iter().map(partitions_of).collect();
        assert_eq!(codes.concat(), vec![code.0; partitions], "{version}");
    }
    let unanswered = ProduceRequest::default();
    assert!(
        matches!(bench.outcome(&unanswered, 9, Ask::Refuse(code)), Outcome::Close(reason) if reason.contains(code.name()))
    );
}

#[test]
fn every_release_answers_every_version_it_tells_and_no_other() {
    let bench = Bench::new(&[]);
    at_every_version::<ApiVersionsRequest>(&bench);
    at_every_version::<CreatePartitionsRequest>(&bench);
    at_every_version::<CreateTopicsRequest>(&bench);
    at_every_version::<DeleteGroupsRequest>(&bench);
    at_every_version::<DeleteTopicsRequest>(&bench);
    at_every_version::<DescribeClusterRequest>(&bench);
    at_every_version::<DescribeConfigsRequest>(&bench);
    at_every_version::<DescribeGroupsRequest>(&bench);
    at_every_version::<FetchRequest>(&bench);
    at_every_version::<FindCoordinatorRequest>(&bench);
    at_every_version::<GetTelemetrySubscriptionsRequest>(&bench);
    at_every_version::<HeartbeatRequest>(&bench);
    at_every_version::<InitProducerIdRequest>(&bench);
    at_every_version::<JoinGroupRequest>(&bench);
    at_every_version::<LeaveGroupRequest>(&bench);
    at_every_version::<ListGroupsRequest>(&bench);
    at_every_version::<ListOffsetsRequest>(&bench);
    at_every_version::<MetadataRequest>(&bench);
    at_every_version::<OffsetCommitRequest>(&bench);
    at_every_version::<OffsetFetchRequest>(&bench);
    at_every_version::<OffsetForLeaderEpochRequest>(&bench);
    at_every_version::<ProduceRequest>(&bench);
    at_every_version::<PushTelemetryRequest>(&bench);
    at_every_version::<SyncGroupRequest>(&bench);
    at_every_version::<AlterClientQuotasRequest>(&bench);
    at_every_version::<AlterUserScramCredentialsRequest>(&bench);
    at_every_version::<CreateAclsRequest>(&bench);
    at_every_version::<DeleteAclsRequest>(&bench);
    at_every_version::<DescribeAclsRequest>(&bench);
    at_every_version::<DescribeClientQuotasRequest>(&bench);
    at_every_version::<DescribeUserScramCredentialsRequest>(&bench);
    at_every_version::<SaslAuthenticateRequest>(&bench);
    at_every_version::<SaslHandshakeRequest>(&bench);
    at_every_version::<CreateDelegationTokenRequest>(&bench);
    at_every_version::<RenewDelegationTokenRequest>(&bench);
    at_every_version::<ExpireDelegationTokenRequest>(&bench);
    at_every_version::<DescribeDelegationTokenRequest>(&bench);
    at_every_version::<DeleteRecordsRequest>(&bench);
    at_every_version::<AddOffsetsToTxnRequest>(&bench);
    at_every_version::<AddPartitionsToTxnRequest>(&bench);
    at_every_version::<DescribeProducersRequest>(&bench);
    at_every_version::<DescribeTransactionsRequest>(&bench);
    at_every_version::<EndTxnRequest>(&bench);
    at_every_version::<WriteTxnMarkersRequest>(&bench);
    at_every_version::<ListTransactionsRequest>(&bench);
    at_every_version::<TxnOffsetCommitRequest>(&bench);
    at_every_version::<ConsumerGroupDescribeRequest>(&bench);
    at_every_version::<ConsumerGroupHeartbeatRequest>(&bench);
    at_every_version::<IncrementalAlterConfigsRequest>(&bench);
    at_every_version::<OffsetDeleteRequest>(&bench);
    at_every_version::<AlterShareGroupOffsetsRequest>(&bench);
    at_every_version::<DeleteShareGroupOffsetsRequest>(&bench);
    at_every_version::<DescribeShareGroupOffsetsRequest>(&bench);
    at_every_version::<ShareAcknowledgeRequest>(&bench);
    at_every_version::<ShareFetchRequest>(&bench);
    at_every_version::<ShareGroupDescribeRequest>(&bench);
    at_every_version::<ShareGroupHeartbeatRequest>(&bench);
    at_every_version::<AddRaftVoterRequest>(&bench);
    at_every_version::<AlterPartitionReassignmentsRequest>(&bench);
    at_every_version::<AlterReplicaLogDirsRequest>(&bench);
    at_every_version::<DescribeLogDirsRequest>(&bench);
    at_every_version::<DescribeQuorumRequest>(&bench);
    at_every_version::<ElectLeadersRequest>(&bench);
    at_every_version::<ListConfigResourcesRequest>(&bench);
    at_every_version::<ListPartitionReassignmentsRequest>(&bench);
    at_every_version::<RemoveRaftVoterRequest>(&bench);
    at_every_version::<StreamsGroupDescribeRequest>(&bench);
    at_every_version::<UnregisterBrokerRequest>(&bench);
    at_every_version::<UnregisterControllerRequest>(&bench);
    at_every_version::<UpdateFeaturesRequest>(&bench);
    at_every_version::<AlterConfigsRequest>(&bench);
    at_every_version::<DescribeTopicPartitionsRequest>(&bench);
    at_every_version::<StreamsGroupHeartbeatRequest>(&bench);
    at_every_version::<StreamsGroupTopologyDescriptionUpdateRequest>(&bench);
    assert_eq!(HANDLED.len(), 74, "an API is missing above");
}

#[test]
fn metrics_are_asked_for_only_where_a_setting_says_so() {
    let named = |bench: &Bench| {
        let answer = bench.ask(&ApiVersionsRequest::default(), 0);
        let keys = answer.api_keys.iter().map(|row| row.api_key);
        keys.filter(|key| [71, 72].contains(key)).count()
    };
    let plain = Bench::new(&[]);
    assert_eq!(named(&plain), 0);
    let refused = plain.ask(&GetTelemetrySubscriptionsRequest::default(), 0);
    assert_eq!(refused.error_code, ErrorCode::UNSUPPORTED_VERSION.0);
    let asking = Bench::new(&[("telemetry.metrics", "org.apache.kafka.a., *")]);
    assert_eq!(named(&asking), 2);
    let answer = asking.ask(&GetTelemetrySubscriptionsRequest::default(), 0);
    assert_eq!(answer.requested_metrics, ["org.apache.kafka.a.", ""]);
    assert_ne!(answer.client_instance_id, Uuid::ZERO);
    assert_eq!(answer.accepted_compression_types, [4, 3, 2, 1]);
    assert_eq!(
        (answer.push_interval_ms, answer.delta_temporality),
        (300_000, false)
    );
    let again = GetTelemetrySubscriptionsRequest {
        client_instance_id: answer.client_instance_id,
        ..Default::default()
    };
    let again = asking.ask(&again, 0);
    assert_eq!(again.client_instance_id, answer.client_instance_id);
}

#[test]
fn pushes_are_refused_as_kafka_refuses_them_and_kept_otherwise() {
    let mut bench = Bench::new(&[
        ("telemetry.metrics", "*"),
        ("telemetry.interval.ms", "1000"),
        ("telemetry.max.bytes", "10"),
    ]);
    let welcome = bench.ask(&GetTelemetrySubscriptionsRequest::default(), 0);
    let good = PushTelemetryRequest {
        client_instance_id: welcome.client_instance_id,
        subscription_id: welcome.subscription_id,
        metrics: Bytes::from_static(b"metrics"),
        ..Default::default()
    };
    let code =
        |bench: &Bench, push: &PushTelemetryRequest| ErrorCode(bench.ask(push, 0).error_code);
    let wrong = [
        (
            ErrorCode::INVALID_REQUEST,
            PushTelemetryRequest {
                client_instance_id: Uuid::ZERO,
                ..good.clone()
            },
        ),
        (
            ErrorCode::UNKNOWN_SUBSCRIPTION_ID,
            PushTelemetryRequest {
                subscription_id: 0,
                ..good.clone()
            },
        ),
        (
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            PushTelemetryRequest {
                compression_type: 9,
                ..good.clone()
            },
        ),
        (
            ErrorCode::TELEMETRY_TOO_LARGE,
            PushTelemetryRequest {
                metrics: Bytes::from_static(b"more than ten"),
                ..good.clone()
            },
        ),
    ];
    for (wanted, push) in &wrong {
        assert_eq!(code(&bench, push), *wanted);
        bench.now.instant += Duration::from_secs(1);
    }
    assert_eq!(code(&bench, &good), ErrorCode::NONE);
    assert_eq!(code(&bench, &good), ErrorCode::THROTTLING_QUOTA_EXCEEDED);
    bench.now.instant += Duration::from_secs(1);
    let damaged = PushTelemetryRequest {
        compression_type: 4,
        ..good.clone()
    };
    assert_eq!(code(&bench, &damaged), ErrorCode::INVALID_RECORD);
    let last = PushTelemetryRequest {
        terminating: true,
        ..good.clone()
    };
    assert_eq!(
        code(&bench, &last),
        ErrorCode::NONE,
        "the last one may come early"
    );
    assert_eq!(
        code(&bench, &last),
        ErrorCode::INVALID_REQUEST,
        "it was the last"
    );
    let kept = bench.core.pushes.lock().all();
    let ends: Vec<_> = kept.iter().map(|push| push.terminating).collect();
    assert_eq!(ends, [false, true]);
    assert_eq!(
        (&kept[0].metrics[..], kept[0].client_id.as_deref()),
        (&b"metrics"[..], Some("me"))
    );
}

#[test]
fn an_unknown_api_or_a_broken_body_closes_with_a_reason() {
    let bench = Bench::new(&[]);
    let close = |frame: &'static [u8]| match open(Bytes::from_static(frame)) {
        Err(reason) => reason,
        Ok(opened) => match handle(&bench.core, opened, &bench.client, bench.now, Ask::Answer) {
            Outcome::Close(reason) => reason,
            _ => panic!("it was answered"),
        },
    };
    assert_eq!(
        close(b"\x03\xe8\0\0\0\0\0\x01\xff\xff"),
        "there is no API 1000"
    );
    assert_eq!(
        close(b"\0\x04\0\0\0\0\0\x01\xff\xff"),
        "LeaderAndIsr is not taken by a broker of release 4.4"
    );
    assert!(close(b"\0\x01").contains("left"));
    let reason = close(b"\0\x03\0\x01\0\0\0\x01\xff\xff\x7f\xff\xff\xff");
    assert!(reason.starts_with("MetadataRequest.topics"), "{reason}");
}

#[test]
fn what_is_produced_is_fetched_at_every_version() {
    let bench = Bench::new(&[]);
    let records = batch(3, ProducerState::NONE);
    let produced = (3..=13).map(|version| bench.produce(version, &[(0, records.clone())]));
    assert!(produced.eq((0..11).map(|i| vec![(0, 3 * i)])));
    for version in 4..=18 {
        let data = bench.fetch(0, 1 << 20, version);
        assert_eq!((data.error_code, data.high_watermark), (0, 33), "{version}");
        let stored = data.records.unwrap();
        assert_eq!(stored.len(), 11 * records.len());
        assert_eq!(stored[..8], [0; 8]);
        assert_eq!(stored[records.len()..][..8], 3_i64.to_be_bytes());
        assert_eq!(stored[12..16], [0; 4], "the leader epoch");
        assert_eq!(
            stored[16..records.len()],
            records[16..],
            "all else is as it was sent"
        );
    }
}

#[test]
fn limits_hold_but_for_one_batch() {
    let bench = Bench::new(&[]);
    let records = batch(10, ProducerState::NONE);
    for _ in 0..5 {
        bench.produce(9, &[(0, records.clone())]);
    }
    let size = records.len() as i32;
    let length = |offset, limit| bench.fetch(offset, limit, 12).records.unwrap().len() as i32;
    assert_eq!(length(0, 1), size);
    assert_eq!(length(0, 3 * size - 1), 2 * size);
    assert_eq!(length(0, 3 * size), 3 * size);
    assert_eq!(
        length(45, 3 * size),
        size,
        "from the batch that holds the offset"
    );
    assert_eq!(length(50, 3 * size), 0);

    let mut request = bench.fetch_request(0, 1, 12);
    let second = request.topics[0].partitions[0].clone();
    request.topics[0].partitions.push(FetchPartition {
        partition: 1,
        ..second
    });
    bench.produce(9, &[(1, records.clone())]);
    let answer = bench.ask(&request, 12);
    let lengths = answer.responses[0]
        .partitions
        .iter()
        .map(|data| data.records.as_ref().unwrap().len() as i32);
    assert!(
        lengths.eq([size, 0]),
        "only the first partition may go over the limit"
    );
}

#[test]
fn a_fetch_waits_for_its_bytes() {
    let bench = Bench::new(&[]);
    let records = batch(1, ProducerState::NONE);
    let mut request = bench.fetch_request(0, 1 << 20, 12);
    request.min_bytes = 2 * records.len() as i32;
    bench.produce(9, &[(0, records.clone())]);
    let Outcome::Wait(wait) = bench.outcome(&request, 12, Ask::Answer) else {
        panic!("it does not wait")
    };
    let deadline = bench.now.instant + Duration::from_millis(500);
    assert_eq!(wait.deadline, Some(deadline));
    let is_woken = || wait.awaited.bell().is_rung();
    assert!(!is_woken());
    bench.produce(9, &[(1, records.clone())]);
    assert!(!is_woken(), "another partition grew");
    bench.produce(9, &[(0, records.clone())]);
    assert!(is_woken());
    let Outcome::Answer(frame) = (wait.resume)(bench.now) else {
        panic!("it waits again")
    };
    let data = &answer::<FetchRequest>(12, frame).responses[0].partitions[0];
    assert_eq!(data.records.as_ref().unwrap().len(), 2 * records.len());
}

#[test]
fn a_waiting_fetch_learns_that_its_topic_is_gone() {
    let bench = Bench::new(&[]);
    let Outcome::Wait(wait) = bench.outcome(&bench.fetch_request(0, 1, 12), 12, Ask::Answer) else {
        panic!()
    };
    let request = DeleteTopicsRequest {
        topic_names: vec!["t".into()],
        ..Default::default()
    };
    assert_eq!(bench.ask(&request, 5).responses[0].error_code, 0);
    assert!(wait.awaited.bell().is_rung());
    let Outcome::Answer(frame) = (wait.resume)(bench.now) else {
        panic!()
    };
    let code = answer::<FetchRequest>(12, frame).responses[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
}

/// Rule: CVE-2018-1288.
#[test]
fn offsets_outside_the_log_and_wrong_epochs_are_refused_at_once() {
    let bench = Bench::new(&[]);
    bench.produce(9, &[(0, batch(2, ProducerState::NONE))]);
    for offset in [-1, 3] {
        let data = bench.fetch(offset, 1 << 20, 12);
        assert_eq!(data.error_code, ErrorCode::OFFSET_OUT_OF_RANGE.0);
        let told = (data.high_watermark, data.log_start_offset);
        assert_eq!(told, (-1, -1), "as Kafka");
    }
    let mut request = bench.fetch_request(0, 1, 12);
    request.topics[0].partitions[0].current_leader_epoch = 1;
    let code = bench.ask(&request, 12).responses[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UNKNOWN_LEADER_EPOCH.0);
    let follower = FetchRequest {
        replica_id: 2,
        ..Default::default()
    };
    assert_eq!(
        bench.ask(&follower, 12).error_code,
        ErrorCode::CLUSTER_AUTHORIZATION_FAILED.0
    );
    let session = FetchRequest {
        session_id: 3,
        session_epoch: 4,
        ..Default::default()
    };
    assert_eq!(
        bench.ask(&session, 12).error_code,
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND.0
    );
}

#[test]
fn an_idempotent_batch_sent_again_keeps_its_offset() {
    let bench = Bench::new(&[]);
    let new_id = || {
        let request = InitProducerIdRequest {
            transactional_id: None,
            ..Default::default()
        };
        bench.ask(&request, 4).producer_id
    };
    let id = new_id();
    assert_ne!(id, new_id());
    let send = |sequence| bench.produce(9, &[(0, batch(2, sequenced(id, sequence)))])[0];
    assert_eq!(send(0), (0, 0));
    assert_eq!(send(2), (0, 2));
    assert_eq!(send(0), (0, 0), "again");
    assert_eq!(send(6), (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER.0, -1));
    assert_eq!(send(4), (0, 4));
    assert_eq!(bench.fetch(0, 1 << 20, 12).high_watermark, 6);
}

#[test]
fn bad_batches_are_refused_each_with_its_code() {
    let bench = Bench::new(&[("message.max.bytes", "1000")]);
    let good = batch(1, ProducerState::NONE);
    let code = |version, records: Bytes| ErrorCode(bench.produce(version, &[(0, records)])[0].0);
    assert_eq!(code(9, Bytes::new()), ErrorCode::INVALID_RECORD);
    assert_eq!(
        code(9, [good.clone(), good.clone()].concat().into()),
        ErrorCode::INVALID_RECORD
    );
    assert_eq!(
        code(9, good.slice(..good.len() - 1)),
        ErrorCode::CORRUPT_MESSAGE
    );
    assert_eq!(
        code(9, batch(100, ProducerState::NONE)),
        ErrorCode::MESSAGE_TOO_LARGE
    );
    assert_eq!(
        code(9, batch(1, sequenced(5, -1))),
        ErrorCode::INVALID_RECORD
    );
    assert_eq!(
        code(9, batch_at(NOW_MS + 3_700_000, 1, ProducerState::NONE)),
        ErrorCode::INVALID_TIMESTAMP
    );
    let with = |at: usize, bits: u8| {
        let mut bytes = good.to_vec();
        bytes[at] ^= bits;
        Bytes::from(bytes)
    };
    assert_eq!(code(9, with(good.len() - 1, 1)), ErrorCode::CORRUPT_MESSAGE);
    assert_eq!(
        code(9, with(16, 3)),
        ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT,
        "magic 1"
    );
    assert_eq!(
        code(9, with(22, 7)),
        ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        "codec 7"
    );
    let mut builder = BatchBuilder::new(Compression::Zstd, None);
    builder
        .append(NOW_MS, None, None, std::iter::empty())
        .unwrap();
    let zstd = builder.finish(ProducerState::NONE).unwrap();
    assert_eq!(
        code(6, zstd.clone()),
        ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
    );
    assert_eq!(code(7, zstd), ErrorCode::NONE);
    assert_eq!(
        ErrorCode(bench.produce(9, &[(2, good)])[0].0),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
    assert_eq!(
        bench.fetch(0, 1 << 20, 12).high_watermark,
        1,
        "nothing else was appended"
    );
}

#[test]
fn without_acknowledgement_a_refusal_closes_the_connection() {
    let bench = Bench::new(&[]);
    let send = |name: &'static str, acks| {
        let data = PartitionProduceData {
            records: Some(batch(1, ProducerState::NONE)),
            ..Default::default()
        };
        let topic = TopicProduceData {
            name: name.into(),
            partition_data: vec![data],
            ..Default::default()
        };
        bench.outcome(
            &ProduceRequest {
                acks,
                topic_data: vec![topic],
                ..Default::default()
            },
            9,
            Ask::Answer,
        )
    };
    assert!(matches!(send("t", 0), Outcome::Silent));
    assert!(matches!(send("none", 0), Outcome::Close(reason) if reason.contains("acks=0")));
    let Outcome::Answer(frame) = send("t", 2) else {
        panic!()
    };
    let code = answer::<ProduceRequest>(9, frame).responses[0].partition_responses[0].error_code;
    assert_eq!(code, ErrorCode::INVALID_REQUIRED_ACKS.0);
}

#[test]
fn the_brokers_time_replaces_the_producers_where_the_topic_says_so() {
    let bench = Bench::new(&[("log.message.timestamp.type", "LogAppendTime")]);
    let records = batch_at(5, 2, ProducerState::NONE);
    bench.produce(9, &[(0, records)]);
    let stored = bench.fetch(0, 1 << 20, 12).records.unwrap();
    let times: Vec<i64> = {
        let parsed = records::validate_batch(stored).unwrap();
        let payload = parsed.payload(1000).unwrap();
        parsed
            .records(&payload)
            .unwrap()
            .map(|record| record.unwrap().timestamp)
            .collect()
    };
    assert_eq!(times, [NOW_MS, NOW_MS]);
}

#[test]
fn offsets_are_found_by_time() {
    use list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
    let bench = Bench::new(&[]);
    let find = |timestamp, version| {
        let partition = ListOffsetsPartition {
            timestamp,
            ..Default::default()
        };
        let topic = ListOffsetsTopic {
            name: "t".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = ListOffsetsRequest {
            topics: vec![topic],
            ..Default::default()
        };
        let found = bench
            .ask(&request, version)
            .topics
            .remove(0)
            .partitions
            .remove(0);
        (found.error_code, found.timestamp, found.offset)
    };
    assert_eq!(find(-3, 7), (0, -1, -1), "an empty log");
    for i in 0..200 {
        bench.produce(9, &[(0, batch_at(1000 + 10 * i, 10, ProducerState::NONE))]);
    }
    bench.produce(9, &[(0, batch_at(0, 1, ProducerState::NONE))]);
    for version in 1..=11 {
        assert_eq!(find(-1, version), (0, -1, 2001));
        assert_eq!(find(-2, version), (0, -1, 0));
        assert_eq!(find(1234, version), (0, 1234, 234));
        assert_eq!(find(0, version), (0, 1000, 0));
        assert_eq!(find(2999, version), (0, 2999, 1999));
        assert_eq!(find(3000, version), (0, -1, -1));
    }
    assert_eq!(find(-3, 7), (0, 2999, 1999));
    assert_eq!(find(-3, 6).0, ErrorCode::UNSUPPORTED_VERSION.0);
    assert_eq!(
        (find(-4, 8), find(-5, 9), find(-6, 11)),
        ((0, -1, 0), (0, -1, -1), (0, -1, -1))
    );
}

#[test]
fn metadata_makes_topics_where_it_may() {
    use metadata_request::MetadataRequestTopic;
    let ask = |bench: &Bench, name: &'static str, allow_auto_topic_creation| {
        let topic = MetadataRequestTopic {
            name: Some(name.into()),
            ..Default::default()
        };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation,
            ..Default::default()
        };
        let topic = bench.ask(&request, 12).topics.remove(0);
        (ErrorCode(topic.error_code), topic.partitions.len())
    };
    let bench = Bench::new(&[("num.partitions", "3")]);
    assert_eq!(
        ask(&bench, "new", false),
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)
    );
    assert_eq!(ask(&bench, "new", true), (ErrorCode::NONE, 3));
    assert_eq!(ask(&bench, "new", false), (ErrorCode::NONE, 3));
    assert_eq!(
        ask(&bench, "a b", true),
        (ErrorCode::INVALID_TOPIC_EXCEPTION, 0)
    );
    let bench = Bench::new(&[("auto.create.topics.enable", "false")]);
    assert_eq!(
        ask(&bench, "new", true),
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)
    );

    let count = |topics, version| {
        bench
            .ask(
                &MetadataRequest {
                    topics,
                    ..Default::default()
                },
                version,
            )
            .topics
            .len()
    };
    assert_eq!(
        (
            count(Some(vec![]), 0),
            count(Some(vec![]), 1),
            count(None, 1)
        ),
        (1, 0, 1)
    );
    let by_id = |topic_id| {
        let topic = MetadataRequestTopic {
            topic_id,
            name: None,
            ..Default::default()
        };
        let topic = bench
            .ask(
                &MetadataRequest {
                    topics: Some(vec![topic]),
                    ..Default::default()
                },
                12,
            )
            .topics
            .remove(0);
        (ErrorCode(topic.error_code), topic.name.map(String::from))
    };
    assert_eq!(
        by_id(bench.topic_id()),
        (ErrorCode::NONE, Some("t".to_owned()))
    );
    assert_eq!(by_id(Uuid([9; 16])), (ErrorCode::UNKNOWN_TOPIC_ID, None));
}

#[test]
fn topics_are_checked_made_grown_and_deleted() {
    use create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
    let bench = Bench::new(&[]);
    let create = |topic: CreatableTopic, validate_only| {
        let request = CreateTopicsRequest {
            topics: vec![topic],
            validate_only,
            ..Default::default()
        };
        let made = bench.ask(&request, 7).topics.remove(0);
        (ErrorCode(made.error_code), made.num_partitions)
    };
    let topic = |name: &'static str, num_partitions, replication_factor| CreatableTopic {
        name: name.into(),
        num_partitions,
        replication_factor,
        ..Default::default()
    };
    assert_eq!(create(topic("a", 4, 1), true), (ErrorCode::NONE, 4));
    assert_eq!(
        create(topic("a", 4, 1), false),
        (ErrorCode::NONE, 4),
        "the first was only a question"
    );
    assert_eq!(
        create(topic("a", 4, 1), false).0,
        ErrorCode::TOPIC_ALREADY_EXISTS
    );
    assert_eq!(create(topic("b", -1, -1), false), (ErrorCode::NONE, 1));
    assert_eq!(
        create(topic("c", 0, 1), false).0,
        ErrorCode::INVALID_PARTITIONS
    );
    assert_eq!(
        create(topic("c", i32::MAX, 1), false).0,
        ErrorCode::INVALID_PARTITIONS
    );
    assert_eq!(
        create(topic("c", 1, 3), false).0,
        ErrorCode::INVALID_REPLICATION_FACTOR
    );
    assert_eq!(
        create(topic("c/d", 1, 1), false).0,
        ErrorCode::INVALID_TOPIC_EXCEPTION
    );
    let with = |name: &'static str, value: Option<&'static str>| CreatableTopic {
        configs: vec![CreatableTopicConfig {
            name: name.into(),
            value: value.map(Str::from),
            ..Default::default()
        }],
        ..topic("c", 1, 1)
    };
    assert_eq!(
        create(with("retention.msec", Some("1")), false).0,
        ErrorCode::INVALID_CONFIG
    );
    assert_eq!(
        create(with("retention.ms", None), false).0,
        ErrorCode::INVALID_CONFIG
    );
    assert_eq!(
        create(with("retention.ms", Some("1")), true).0,
        ErrorCode::NONE
    );
    let assigned = |broker: i32, partition_index| CreatableTopic {
        assignments: vec![CreatableReplicaAssignment {
            partition_index,
            broker_ids: vec![broker].into(),
            ..Default::default()
        }],
        ..topic("c", -1, -1)
    };
    assert_eq!(
        create(assigned(2, 0), false).0,
        ErrorCode::INVALID_REPLICA_ASSIGNMENT
    );
    assert_eq!(
        create(assigned(1, 1), false).0,
        ErrorCode::INVALID_REPLICA_ASSIGNMENT
    );
    assert_eq!(create(assigned(1, 0), false), (ErrorCode::NONE, 1));

    let grow = |count| {
        let topic = create_partitions_request::CreatePartitionsTopic {
            name: "a".into(),
            count,
            assignments: None,
            ..Default::default()
        };
        let request = CreatePartitionsRequest {
            topics: vec![topic],
            ..Default::default()
        };
        ErrorCode(bench.ask(&request, 3).results.remove(0).error_code)
    };
    assert_eq!(
        (grow(4), grow(6)),
        (ErrorCode::INVALID_PARTITIONS, ErrorCode::NONE)
    );
    let grown = bench.core.topic("a").unwrap();
    assert_eq!(grown.partitions.len(), 6);

    let delete = |name: Option<&'static str>, topic_id| {
        let topic = delete_topics_request::DeleteTopicState {
            name: name.map(Str::from),
            topic_id,
            ..Default::default()
        };
        let gone = bench
            .ask(
                &DeleteTopicsRequest {
                    topics: vec![topic],
                    ..Default::default()
                },
                6,
            )
            .responses
            .remove(0);
        (
            ErrorCode(gone.error_code),
            gone.name.map(String::from),
            gone.topic_id,
        )
    };
    assert_eq!(
        delete(None, grown.id),
        (ErrorCode::NONE, Some("a".to_owned()), grown.id)
    );
    assert_eq!(delete(None, grown.id).0, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(
        delete(Some("a"), Uuid::ZERO).0,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
    assert_eq!(delete(Some("b"), Uuid::ZERO).0, ErrorCode::NONE);
}

#[test]
fn committed_offsets_are_fetched_until_topic_or_group_go() {
    use offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
    let bench = Bench::new(&[("offset.metadata.max.bytes", "4")]);
    let commit = |version, group: &'static str, partition_index, metadata: &'static str| {
        let partition = OffsetCommitRequestPartition {
            partition_index,
            committed_offset: 42,
            committed_metadata: Some(metadata.into()),
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: if version < 10 { "t".into() } else { Str::new() },
            topic_id: if version < 10 {
                Uuid::ZERO
            } else {
                bench.topic_id()
            },
            partitions: vec![partition],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: group.into(),
            topics: vec![topic],
            ..Default::default()
        };
        ErrorCode(bench.ask(&request, version).topics[0].partitions[0].error_code)
    };
    for version in 2..=10 {
        assert_eq!(commit(version, "g", 0, "note"), ErrorCode::NONE);
    }
    assert_eq!(
        commit(9, "g", 0, "notes"),
        ErrorCode::OFFSET_METADATA_TOO_LARGE
    );
    assert_eq!(commit(9, "g", 2, ""), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(commit(9, "", 0, ""), ErrorCode::INVALID_GROUP_ID);
    assert_eq!(commit(9, "h", 1, ""), ErrorCode::NONE);

    for version in 1..=7 {
        let topic = offset_fetch_request::OffsetFetchRequestTopic {
            name: "t".into(),
            partition_indexes: vec![0, 1].into(),
            ..Default::default()
        };
        let request = OffsetFetchRequest {
            group_id: "g".into(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let found = bench.ask(&request, version).topics.remove(0).partitions;
        let found = found.iter().map(|found| {
            (
                found.error_code,
                found.committed_offset,
                found.metadata.as_deref(),
            )
        });
        assert!(
            found.eq([(0, 42, Some("note")), (0, -1, Some(""))]),
            "{version}"
        );
    }
    let all_of = |group: &'static str, version| {
        let group = offset_fetch_request::OffsetFetchRequestGroup {
            group_id: group.into(),
            topics: None,
            ..Default::default()
        };
        let group = bench
            .ask(
                &OffsetFetchRequest {
                    groups: vec![group],
                    ..Default::default()
                },
                version,
            )
            .groups
            .remove(0);
        group
            .topics
            .iter()
            .map(|topic| {
                (
                    topic.name.to_string(),
                    topic.topic_id,
                    topic.partitions.len(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(all_of("g", 9), [("t".to_owned(), Uuid::ZERO, 1)]);
    assert_eq!(all_of("g", 10), [(String::new(), bench.topic_id(), 1)]);
    assert_eq!(all_of("nobody", 10), []);

    let delete = DeleteGroupsRequest {
        groups_names: vec!["h".into(), "nobody".into()],
        ..Default::default()
    };
    let codes = bench
        .ask(&delete, 3)
        .results
        .iter()
        .map(|result| ErrorCode(result.error_code))
        .collect::<Vec<_>>();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::GROUP_ID_NOT_FOUND]);
    let topics = DeleteTopicsRequest {
        topic_names: vec!["t".into()],
        ..Default::default()
    };
    assert_eq!(bench.ask(&topics, 5).responses[0].error_code, 0);
    assert_eq!(all_of("g", 9), []);
}

#[test]
fn the_offsets_topic_is_the_brokers_own() {
    let bench = Bench::new(&[]);
    let all = || {
        bench
            .ask(
                &MetadataRequest {
                    topics: None,
                    ..Default::default()
                },
                12,
            )
            .topics
    };
    assert_eq!(all().len(), 1);
    // As in Kafka, whoever looks for a coordinator makes it.
    bench.ask(
        &FindCoordinatorRequest {
            key: "g".into(),
            ..Default::default()
        },
        3,
    );
    let internal: Vec<_> = all()
        .into_iter()
        .filter(|topic| topic.is_internal)
        .collect();
    assert_eq!(internal[0].name.as_deref(), Some("__consumer_offsets"));
    let delete = DeleteTopicsRequest {
        topic_names: vec!["__consumer_offsets".into()],
        ..Default::default()
    };
    assert_eq!(
        bench.ask(&delete, 5).responses[0].error_code,
        ErrorCode::INVALID_REQUEST.0
    );
}

#[test]
fn a_group_forms_over_the_protocol() {
    let bench = Bench::new(&[]);
    let protocol = join_group_request::JoinGroupRequestProtocol {
        name: "range".into(),
        metadata: Bytes::from_static(b"topics"),
        ..Default::default()
    };
    for version in 0..=9 {
        let group = format!("g{version}");
        let mut join = JoinGroupRequest {
            group_id: group.as_str().into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: if version == 0 { -1 } else { 60_000 },
            protocol_type: "consumer".into(),
            protocols: vec![protocol.clone()],
            ..Default::default()
        };
        if version >= 4 {
            let refused = bench.ask(&join, version);
            assert_eq!(refused.error_code, ErrorCode::MEMBER_ID_REQUIRED.0);
            join.member_id = refused.member_id;
        }
        let joined = bench.ask(&join, version);
        assert_eq!(
            (
                joined.error_code,
                joined.generation_id,
                joined.members.len()
            ),
            (0, 1, 1),
            "{version}"
        );
        assert_eq!(
            (joined.leader.as_str(), joined.protocol_name.as_deref()),
            (joined.member_id.as_str(), Some("range"))
        );
        let sync_version = version.min(5);
        let sync = SyncGroupRequest {
            group_id: group.as_str().into(),
            generation_id: 1,
            member_id: joined.member_id.clone(),
            protocol_type: (sync_version == 5).then(|| "consumer".into()),
            protocol_name: (sync_version == 5).then(|| "range".into()),
            assignments: vec![sync_group_request::SyncGroupRequestAssignment {
                member_id: joined.member_id.clone(),
                assignment: Bytes::from_static(b"all"),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(bench.ask(&sync, sync_version).assignment, b"all"[..]);
        let describe = DescribeGroupsRequest {
            groups: vec![group.as_str().into()],
            ..Default::default()
        };
        let described = bench.ask(&describe, version.min(6)).groups.remove(0);
        assert_eq!(
            (
                described.group_state.as_str(),
                described.members[0].client_id.as_str()
            ),
            ("Stable", "me")
        );
        assert_eq!(described.members[0].client_host, "/127.0.0.1");
        let heartbeat = HeartbeatRequest {
            group_id: group.as_str().into(),
            generation_id: 1,
            member_id: joined.member_id.clone(),
            ..Default::default()
        };
        assert_eq!(bench.ask(&heartbeat, version.min(4)).error_code, 0);
        let leave_version = version.min(5);
        let member = leave_group_request::MemberIdentity {
            member_id: joined.member_id.clone(),
            ..Default::default()
        };
        let leave = LeaveGroupRequest {
            group_id: group.as_str().into(),
            member_id: if leave_version < 3 {
                joined.member_id
            } else {
                Str::new()
            },
            members: if leave_version < 3 {
                Vec::new()
            } else {
                vec![member]
            },
            ..Default::default()
        };
        let left = bench.ask(&leave, leave_version);
        assert!(left.error_code == 0 && left.members.iter().all(|member| member.error_code == 0));
    }
    let listed = |states: &[&'static str]| {
        let states_filter = states.iter().map(|state| Str::from(*state)).collect();
        bench
            .ask(
                &ListGroupsRequest {
                    states_filter,
                    ..Default::default()
                },
                5,
            )
            .groups
            .len()
    };
    assert_eq!(
        (listed(&[]), listed(&["empty"]), listed(&["Stable"])),
        (10, 10, 0)
    );
    let missing = DescribeGroupsRequest {
        groups: vec!["none".into()],
        ..Default::default()
    };
    assert_eq!(bench.ask(&missing, 5).groups[0].group_state, "Dead");
    assert_eq!(
        bench.ask(&missing, 6).groups[0].error_code,
        ErrorCode::GROUP_ID_NOT_FOUND.0
    );
}

#[test]
fn settings_are_described_with_where_they_come_from() {
    use describe_configs_request::DescribeConfigsResource;
    let bench = Bench::new(&[("message.max.bytes", "1000")]);
    let describe = |resource_type, resource_name: &'static str, key: &'static str| {
        let resource = DescribeConfigsResource {
            resource_type,
            resource_name: resource_name.into(),
            configuration_keys: Some(vec![key.into()]),
            ..Default::default()
        };
        let request = DescribeConfigsRequest {
            resources: vec![resource],
            include_synonyms: true,
            ..Default::default()
        };
        let mut result = bench.ask(&request, 4).results.remove(0);
        let row = result.configs.pop().map(|row| {
            (
                row.value.map(String::from),
                row.config_source,
                row.synonyms
                    .iter()
                    .map(|row| row.name.to_string())
                    .collect(),
            )
        });
        (ErrorCode(result.error_code), row)
    };
    let value = |text: &str| Some(text.to_owned());
    let names = |all: &[&str]| {
        all.iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        describe(2, "t", "max.message.bytes"),
        (
            ErrorCode::NONE,
            Some((value("1000"), 4, names(&["message.max.bytes"; 2])))
        )
    );
    assert_eq!(
        describe(2, "t", "segment.bytes"),
        (
            ErrorCode::NONE,
            Some((value("1073741824"), 5, names(&["log.segment.bytes"])))
        )
    );
    assert_eq!(
        describe(4, "1", "message.max.bytes"),
        (
            ErrorCode::NONE,
            Some((value("1000"), 4, names(&["message.max.bytes"; 2])))
        )
    );
    assert_eq!(
        describe(2, "none", "x").0,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
    assert_eq!(describe(4, "2", "x").0, ErrorCode::INVALID_REQUEST);
}

#[test]
fn the_coordinator_of_everything_is_this_node() {
    let bench = Bench::new(&[]);
    let one = FindCoordinatorRequest {
        key: "g".into(),
        ..Default::default()
    };
    assert_eq!(bench.ask(&one, 3).node_id, 1);
    let many = |key_type| FindCoordinatorRequest {
        coordinator_keys: vec!["g".into(), "h".into()],
        key_type,
        ..Default::default()
    };
    let found = bench.ask(&many(0), 6).coordinators;
    assert!(
        found
            .iter()
            .map(|found| (found.key.as_str(), found.port))
            .eq([("g", 9), ("h", 9)])
    );
    let refused = bench.ask(&many(2), 6).coordinators;
    assert!(
        refused
            .iter()
            .all(|found| found.error_code == ErrorCode::INVALID_REQUEST.0)
    );
    let found = bench.ask(&many(1), 6).coordinators;
    assert!(found.iter().all(|found| found.port == 9));
}

/// What a release of magic 0 or 1 is given and gives, in the codecs that it has.
#[test]
fn message_sets_come_back_as_they_were_written() {
    let codecs = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
    ];
    for (produce, fetch, magic) in [(0, 0, OldMagic::Zero), (2, 2, OldMagic::One)] {
        let bench = Bench::new(&[]);
        bench.core.set_release(Release::parse("0.10.0").unwrap());
        for (codec, round) in codecs.into_iter().zip(0..) {
            let mut set = MessageSetBuilder::new(magic, codec, None, 0).unwrap();
            for value in ["a", "b", "c"] {
                set.append(7, Some(b"key"), Some(value.as_bytes())).unwrap();
            }
            let set = set.finish().unwrap();
            let written = bench.produce(produce, &[(0, set)]);
            assert_eq!(written, [(0, round * 3)], "{codec:?}");
            let read = bench.fetch(round * 3, 1 << 20, fetch).records.unwrap();
            let mut again = Vec::new();
            for entry in records::entries(read) {
                let entry = entry.unwrap();
                entry.verify_crc().unwrap();
                assert_eq!(entry.magic(), magic.id());
                assert_eq!(entry.compression().unwrap(), codec);
                let payload = entry.payload(1 << 20).unwrap();
                for record in entry.records(&payload).unwrap() {
                    let record = record.unwrap();
                    let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                    again.push((record.offset - round * 3, record.timestamp, value));
                }
            }
            let time = if magic == OldMagic::Zero { -1 } else { 7 };
            let expected = ["a", "b", "c"].iter().zip(0..);
            let expected = expected.map(|(value, at)| (at, time, (*value).to_owned()));
            assert_eq!(again, expected.collect::<Vec<_>>());
        }
        let newer = bench.produce(produce, &[(0, batch(1, ProducerState::NONE))]);
        assert_eq!(newer, [(ErrorCode::INVALID_RECORD.0, -1)]);
    }
}

#[test]
fn a_message_that_has_no_room_is_cut_before_version_3_of_fetch() {
    let bench = Bench::new(&[]);
    bench.core.set_release(Release::parse("0.10.2").unwrap());
    let mut set = MessageSetBuilder::new(OldMagic::One, Compression::None, None, 0).unwrap();
    set.append(7, None, Some(&[b'x'; 500])).unwrap();
    assert_eq!(bench.produce(2, &[(0, set.finish().unwrap())]), [(0, 0)]);
    for (version, length) in [(2, 100), (3, 534)] {
        let read = bench.fetch(0, 100, version);
        assert_eq!(read.records.unwrap().len(), length);
    }
}

#[test]
fn version_0_of_list_offsets_gives_the_ends_of_the_log() {
    let bench = Bench::new(&[]);
    bench.core.set_release(Release::parse("0.8.2").unwrap());
    let ask = |timestamp| {
        let request = ListOffsetsRequest {
            topics: vec![ListOffsetsTopic {
                name: "t".into(),
                partitions: vec![ListOffsetsPartition {
                    timestamp,
                    max_num_offsets: 1,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = bench.ask(&request, 0);
        answer.topics[0].partitions[0].old_style_offsets.clone()
    };
    assert!(ask(1).is_empty());
    let mut set = MessageSetBuilder::new(OldMagic::Zero, Compression::None, None, 0).unwrap();
    set.append(-1, None, Some(b"x")).unwrap();
    assert_eq!(bench.produce(0, &[(0, set.finish().unwrap())]), [(0, 0)]);
    assert_eq!((ask(-1), ask(-2), ask(1)), (vec![1], vec![0], vec![0]));
}
