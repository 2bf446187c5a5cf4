//! The broker over real sockets: order, faults, bad input, restarts. Every wait is bounded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_broker::{Broker, BrokerConfig, BrokerError, EventSink, Fault};
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use ottla_protocol::messages::{
    AlterConfigsRequest, ApiVersionsRequest, DescribeGroupsRequest, FetchRequest,
    GetTelemetrySubscriptionsRequest, HeartbeatRequest, JoinGroupRequest,
    ListConfigResourcesRequest, ListConfigResourcesResponse, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, SyncGroupRequest,
    alter_configs_request, list_offsets_request, offset_commit_request, offset_fetch_request,
};
use ottla_protocol::records::{BatchBuilder, ProducerState};
use ottla_protocol::{ApiKey, ErrorCode, Request, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BOUND: Duration = Duration::from_secs(20);

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(BOUND, test).await.expect("it hangs") });
}

/// A client that does nothing by itself.
struct Client {
    stream: TcpStream,
    next_id: i32,
}

impl Client {
    async fn to(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            next_id: 0,
        }
    }

    async fn send<R: Request>(&mut self, request: &R, version: i16) -> i32 {
        self.next_id += 1;
        let frame = header::encode_request(request, version, self.next_id, Some("test")).unwrap();
        self.stream.write_all(&frame.into_bytes()).await.unwrap();
        self.next_id
    }

    /// The next frame, or `None` if the connection has ended.
    async fn receive(&mut self) -> Option<Bytes> {
        let length = self.stream.read_u32().await.ok()?;
        let mut frame = vec![0; length as usize];
        self.stream.read_exact(&mut frame).await.ok()?;
        Some(frame.into())
    }

    async fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        let id = self.send(request, version).await;
        let frame = self.receive().await.expect("the connection ended");
        let (answered, answer) = header::decode_response(version, frame).unwrap();
        assert_eq!(answered, id);
        answer
    }
}

async fn broker(config: BrokerConfig) -> Broker {
    Broker::start(BrokerConfig {
        topics: vec![("t".to_owned(), 1)],
        ..config
    })
    .await
    .unwrap()
}

fn produce(values: usize) -> ProduceRequest {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for _ in 0..values {
        builder
            .append(1, Some(b"key"), Some(b"value"), std::iter::empty())
            .unwrap();
    }
    let records = Some(builder.finish(ProducerState::NONE).unwrap());
    let data = PartitionProduceData {
        records,
        ..Default::default()
    };
    let topic = TopicProduceData {
        name: "t".into(),
        partition_data: vec![data],
        ..Default::default()
    };
    ProduceRequest {
        acks: -1,
        topic_data: vec![topic],
        transactional_id: None,
        ..Default::default()
    }
}

fn fetch(fetch_offset: i64, max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition {
        fetch_offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let topic = FetchTopic {
        topic: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![topic],
        ..Default::default()
    }
}

async fn end_offset(client: &mut Client) -> i64 {
    let partition = list_offsets_request::ListOffsetsPartition {
        timestamp: -1,
        ..Default::default()
    };
    let topic = list_offsets_request::ListOffsetsTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    client
        .ask(
            &ListOffsetsRequest {
                topics: vec![topic],
                ..Default::default()
            },
            6,
        )
        .await
        .topics[0]
        .partitions[0]
        .offset
}

#[test]
fn pipelined_requests_are_answered_in_order_and_a_long_poll_wakes_on_append() {
    run(async {
        let broker = broker(BrokerConfig::default()).await;
        let mut client = Client::to(broker.address()).await;
        let begun = Instant::now();
        let poll = client.send(&fetch(0, 60_000), 12).await;
        let after = client.send(&ApiVersionsRequest::default(), 0).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        Client::to(broker.address()).await.ask(&produce(3), 9).await;
        let (first, answer) = header::decode_response::<<FetchRequest as Request>::Response>(
            12,
            client.receive().await.unwrap(),
        )
        .unwrap();
        assert_eq!(
            (first, answer.responses[0].partitions[0].high_watermark),
            (poll, 3)
        );
        assert_eq!(
            header::correlation_id(&client.receive().await.unwrap()),
            Ok(after)
        );
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it waited for its deadline"
        );

        let begun = Instant::now();
        let answer = client.ask(&fetch(3, 100), 12).await;
        assert!(
            answer.responses[0].partitions[0]
                .records
                .as_ref()
                .is_none_or(Bytes::is_empty)
        );
        assert!(begun.elapsed() >= Duration::from_millis(100));
        broker.stop().await.unwrap();
    });
}

#[test]
fn bad_input_ends_its_own_connection_with_a_reason_and_no_other() {
    run(async {
        let said = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&said);
        let events = EventSink::new(move |event| sink.lock().unwrap().push(event.to_owned()));
        let broker = broker(BrokerConfig {
            events,
            ..BrokerConfig::default()
        })
        .await;
        let mut bystander = Client::to(broker.address()).await;
        let inputs: [(&[u8], &str); 7] = [
            (b"\x16\x03\x01\x02\0\x01\0\x01\xfc", "it speaks TLS"),
            (b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP"),
            (b"\xff\xff\xff\xff", "a request of -1 bytes"),
            (b"\x7f\xff\xff\xff", "a request of 2147483647 bytes"),
            (b"\0\0\0\x03abc", "no request header"),
            (
                b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\0\xff\xff",
                "there is no API 32767",
            ),
            (
                b"\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\xff\xff\x7f\xff\xff\xff",
                "MetadataRequest.topics",
            ),
        ];
        for (input, reason) in inputs {
            let mut client = Client::to(broker.address()).await;
            client.stream.write_all(input).await.unwrap();
            assert_eq!(client.receive().await, None);
            // The run's own deadline ends a wait for what is never said.
            let said = loop {
                if let Some(said) = said.lock().unwrap().pop() {
                    break said;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            assert!(
                said.contains(reason) && said.contains("127.0.0.1:"),
                "{said:?} does not say {reason:?}"
            );
        }
        let mut cut = Client::to(broker.address()).await;
        cut.stream
            .write_all(b"\0\0\xff\xff half a frame")
            .await
            .unwrap();
        drop(cut);
        assert_eq!(
            bystander
                .ask(&ApiVersionsRequest::default(), 0)
                .await
                .error_code,
            0
        );
        broker.stop().await.unwrap();
    });
}

#[test]
fn faults_do_what_they_say() {
    run(async {
        let broker = broker(BrokerConfig::default()).await;
        let mut client = Client::to(broker.address()).await;

        broker.inject(
            ApiKey::Produce,
            Fault::error(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            2,
        );
        for _ in 0..2 {
            let answer = client.ask(&produce(1), 9).await;
            assert_eq!(
                answer.responses[0].partition_responses[0].error_code,
                ErrorCode::NOT_LEADER_OR_FOLLOWER.0
            );
        }
        assert_eq!(
            end_offset(&mut client).await,
            0,
            "refused requests are not applied"
        );

        broker.inject(
            ApiKey::Heartbeat,
            Fault::error(ErrorCode::REBALANCE_IN_PROGRESS),
            1,
        );
        assert_eq!(
            client.ask(&HeartbeatRequest::default(), 4).await.error_code,
            ErrorCode::REBALANCE_IN_PROGRESS.0
        );

        broker.inject(
            ApiKey::Metadata,
            Fault::Delay(Duration::from_millis(200)),
            1,
        );
        let begun = Instant::now();
        client.ask(&MetadataRequest::default(), 9).await;
        assert!(begun.elapsed() >= Duration::from_millis(200));

        broker.inject(ApiKey::Produce, Fault::CloseBefore, 1);
        client.send(&produce(1), 9).await;
        assert_eq!(client.receive().await, None);
        let mut client = Client::to(broker.address()).await;
        assert_eq!(end_offset(&mut client).await, 0);

        broker.inject(ApiKey::Produce, Fault::CloseAfterApply, 1);
        client.send(&produce(1), 9).await;
        assert_eq!(client.receive().await, None);
        let mut client = Client::to(broker.address()).await;
        assert_eq!(end_offset(&mut client).await, 1);

        broker.inject(ApiKey::Produce, Fault::CutAfter(7), 1);
        client.send(&produce(1), 9).await;
        let mut rest = Vec::new();
        client.stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), 7);
        let mut client = Client::to(broker.address()).await;
        assert_eq!(end_offset(&mut client).await, 2);

        broker.inject(ApiKey::Produce, Fault::Silence, 1);
        client.send(&produce(1), 9).await;
        assert_eq!(
            end_offset(&mut client).await,
            2,
            "the connection stays, the request is not applied"
        );

        broker.inject(ApiKey::Produce, Fault::CloseBefore, 1);
        broker.clear_faults();
        assert_eq!(
            client.ask(&produce(1), 9).await.responses[0].partition_responses[0].base_offset,
            2
        );
        broker.stop().await.unwrap();
    });
}

#[test]
fn a_folder_keeps_subscriptions_to_client_metrics() {
    run(async {
        let name = format!("ottla-broker-client-metrics-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        let config = || BrokerConfig {
            data_dir: Some(dir.clone()),
            ..BrokerConfig::default()
        };
        let set = |name: &'static str, metrics: Option<&'static str>| {
            let row = alter_configs_request::AlterableConfig {
                name: "metrics".into(),
                value: metrics.map(Into::into),
                ..Default::default()
            };
            let resource = alter_configs_request::AlterConfigsResource {
                resource_type: 16,
                resource_name: name.into(),
                configs: metrics.map(|_| row).into_iter().collect(),
                ..Default::default()
            };
            AlterConfigsRequest {
                resources: vec![resource],
                ..Default::default()
            }
        };
        let listed = ListConfigResourcesRequest::default();
        let names = |answer: ListConfigResourcesResponse| -> Vec<String> {
            let rows = answer.config_resources.into_iter();
            rows.map(|row| row.resource_name.to_string()).collect()
        };
        let odd = "any = \"name\"\n";
        let first = broker(config()).await;
        let mut client = Client::to(first.address()).await;
        for (name, metrics) in [(odd, Some("a,b")), ("gone", Some("c")), ("gone", None)] {
            let answer = client.ask(&set(name, metrics), 2).await;
            assert_eq!(answer.responses[0].error_code, 0);
        }
        first.stop().await.unwrap();

        let second = broker(config()).await;
        let mut client = Client::to(second.address()).await;
        assert_eq!(names(client.ask(&listed, 0).await), [odd]);
        let welcome = GetTelemetrySubscriptionsRequest::default();
        let found = client.ask(&welcome, 0).await;
        assert_eq!(found.requested_metrics, ["a", "b"]);
        second.stop().await.unwrap();

        std::fs::write(
            dir.join("client-metrics"),
            r#"{"s": {"match": "client_id"}}"#,
        )
        .unwrap();
        let Err(error) = Broker::start(config()).await else {
            panic!("it started");
        };
        let message = error.to_string();
        assert!(
            message.contains("client-metrics: subscription \"s\"") && message.contains("client_id"),
            "{message}"
        );
        std::fs::remove_dir_all(&dir).unwrap();
    });
}

#[test]
fn a_folder_outlives_its_broker() {
    run(async {
        let dir = std::env::temp_dir().join(format!("ottla-broker-restart-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let config = || BrokerConfig {
            data_dir: Some(dir.clone()),
            ..BrokerConfig::default()
        };
        let first = broker(config()).await;
        let mut client = Client::to(first.address()).await;
        client.ask(&produce(5), 9).await;
        let partition = offset_commit_request::OffsetCommitRequestPartition {
            committed_offset: 4,
            ..Default::default()
        };
        let topic = offset_commit_request::OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let commit = OffsetCommitRequest {
            group_id: "g".into(),
            topics: vec![topic],
            ..Default::default()
        };
        assert_eq!(
            client.ask(&commit, 8).await.topics[0].partitions[0].error_code,
            0
        );
        let before = client
            .ask(
                &MetadataRequest {
                    topics: None,
                    ..Default::default()
                },
                12,
            )
            .await;
        first.stop().await.unwrap();
        assert_eq!(client.receive().await, None, "stop ends connections");

        let second = broker(config()).await;
        let mut client = Client::to(second.address()).await;
        let after = client
            .ask(
                &MetadataRequest {
                    topics: None,
                    ..Default::default()
                },
                12,
            )
            .await;
        assert_eq!(
            (before.cluster_id, before.topics),
            (after.cluster_id, after.topics)
        );
        assert_eq!(end_offset(&mut client).await, 5);
        let records = client
            .ask(&fetch(0, 100), 12)
            .await
            .responses
            .remove(0)
            .partitions
            .remove(0)
            .records;
        assert!(records.is_some_and(|records| records.len() > 61));
        let group = offset_fetch_request::OffsetFetchRequestGroup {
            group_id: "g".into(),
            topics: None,
            ..Default::default()
        };
        let fetched = client
            .ask(
                &OffsetFetchRequest {
                    groups: vec![group],
                    ..Default::default()
                },
                8,
            )
            .await;
        assert_eq!(
            fetched.groups[0].topics[0].partitions[0].committed_offset,
            4
        );
        second.stop().await.unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    });
}

#[test]
fn a_group_is_there_again_after_a_restart() {
    run(async {
        let name = format!("ottla-broker-group-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        let config = || BrokerConfig {
            data_dir: Some(dir.clone()),
            properties: vec![
                (
                    "group.initial.rebalance.delay.ms".to_owned(),
                    "0".to_owned(),
                ),
                ("group.min.session.timeout.ms".to_owned(), "1".to_owned()),
            ],
            ..BrokerConfig::default()
        };
        let first = broker(config()).await;
        let mut client = Client::to(first.address()).await;
        let join = JoinGroupRequest {
            group_id: "g".into(),
            session_timeout_ms: 3_000,
            rebalance_timeout_ms: 3_000,
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let joined = client.ask(&join, 3).await;
        let sync = SyncGroupRequest {
            group_id: "g".into(),
            member_id: joined.member_id.clone(),
            generation_id: joined.generation_id,
            assignments: vec![SyncGroupRequestAssignment {
                member_id: joined.member_id.clone(),
                assignment: Bytes::from_static(b"all"),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(client.ask(&sync, 3).await.error_code, 0);
        first.stop().await.unwrap();

        let second = broker(config()).await;
        let mut client = Client::to(second.address()).await;
        let synced = client.ask(&sync, 3).await;
        assert_eq!(
            (synced.error_code, &synced.assignment[..]),
            (0, &b"all"[..])
        );
        second.stop().await.unwrap();

        // Nobody sends a request, and the session ends by itself.
        let third = broker(config()).await;
        let mut client = Client::to(third.address()).await;
        let describe = DescribeGroupsRequest {
            groups: vec!["g".into()],
            ..Default::default()
        };
        loop {
            let answer = client.ask(&describe, 5).await;
            if answer.groups[0].group_state == "Empty" {
                break;
            }
            assert_eq!(answer.groups[0].group_state, "Stable");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        third.stop().await.unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    });
}

#[test]
fn a_taken_port_and_a_wrong_setting_are_errors_that_say_so() {
    run(async {
        let first = broker(BrokerConfig::default()).await;
        let port = first.address().port();
        let error = Broker::start(BrokerConfig {
            port,
            ..BrokerConfig::default()
        })
        .await
        .unwrap_err();
        assert!(matches!(error, BrokerError::Listen { .. }));
        assert!(
            error.to_string().contains(&format!("127.0.0.1:{port}")),
            "{error}"
        );
        let properties = vec![("num.partition".to_owned(), "1".to_owned())];
        let error = Broker::start(BrokerConfig {
            properties,
            ..BrokerConfig::default()
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("\"num.partitions\""), "{error}");
        let topics = vec![("a b".to_owned(), 1)];
        let error = Broker::start(BrokerConfig {
            topics,
            ..BrokerConfig::default()
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("\"a b\""), "{error}");
        first.stop().await.unwrap();
        first.stop().await.unwrap();
    });
}

#[test]
fn stop_does_not_wait_for_waiting_requests() {
    run(async {
        let broker = broker(BrokerConfig::default()).await;
        assert_eq!(broker.bootstrap(), broker.address().to_string());
        let mut client = Client::to(broker.address()).await;
        client.send(&fetch(0, i32::MAX), 12).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begun = Instant::now();
        broker.stop().await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(client.receive().await, None);
    });
}
