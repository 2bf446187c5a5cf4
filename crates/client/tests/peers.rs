//! The client against peers on the loopback that follow a script: what a broker would never do, and what it does at its worst.

#![allow(
    clippy::unwrap_used,
    reason = "a test; the lint's own exception covers only functions marked as one"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the peers and the stopwatch are the test's own"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use ottla_client::verbs::cluster::DescribeCluster;
use ottla_client::verbs::topics::{CreateTopics, DeleteTopics, ListTopics, NewTopic, TopicKey};
use ottla_client::{
    Admin, Chunk, Config, Consumer, Decode, Error, ErrorCode, Events, Fetched, GroupOffset, Kind,
    LastCommit, Level, Listeners, NoHeaders, Observed, Producer, Role, Row, Rows, Selection, Start,
    Threads, Written,
};
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use ottla_protocol::messages::{
    ApiVersionsResponse, FetchRequest, FetchResponse, InitProducerIdResponse, MetadataRequest,
    MetadataResponse, ProduceRequest, ProduceResponse,
};
use ottla_protocol::records::{BatchBuilder, ProducerState, assign_offsets};
use ottla_protocol::{ApiKey, Message, Reader, Response, Uuid, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// A peer that does the same with every connection; ends with the test.
struct Peer {
    address: String,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peer {
    async fn start<F>(serve: impl Fn(TcpStream, usize, u16) -> F + Send + 'static) -> Peer
    where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, number, port));
            }
        });
        Peer {
            address: format!("127.0.0.1:{port}"),
            connections,
            task,
        }
    }
}

/// A request as it came.
struct Frame {
    api: Option<ApiKey>,
    version: i16,
    correlation: i32,
    body: Reader,
    /// Of a request for metadata, once it got a response: the topics, and whether it may create
    /// them.
    metadata: Option<(Vec<String>, bool)>,
}

async fn read(stream: &mut TcpStream) -> std::io::Result<Frame> {
    let length = stream.read_i32().await?;
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut bytes).await?;
    let (header, body) = header::decode_request_header(bytes.into()).unwrap();
    let api = ApiKey::from_i16(header.api_key);
    Ok(Frame {
        api,
        version: header.api_version,
        correlation: header.correlation_id,
        body,
        metadata: None,
    })
}

fn encode(response: &impl Response, frame: &Frame) -> Vec<u8> {
    header::encode_response(response, frame.version, frame.correlation)
        .unwrap()
        .into_bytes()
        .to_vec()
}

/// The response of a broker with the one topic `t` of one partition; `None` for requests it does
/// not know.
fn usual(frame: &mut Frame, port: u16) -> Option<Vec<u8>> {
    Some(match frame.api? {
        ApiKey::ApiVersions => {
            let api_keys = [(0, 9), (1, 11), (2, 5), (3, 9), (18, 3), (19, 5), (22, 3)]
                .map(|(api_key, max_version)| ApiVersion {
                    api_key,
                    max_version,
                    ..Default::default()
                })
                .to_vec();
            let response = ApiVersionsResponse {
                api_keys,
                ..Default::default()
            };
            if frame.version > 3 {
                frame.version = 0;
                return Some(encode(
                    &ApiVersionsResponse {
                        error_code: 35,
                        ..response
                    },
                    frame,
                ));
            }
            encode(&response, frame)
        }
        ApiKey::Metadata => {
            let request = MetadataRequest::decode(frame.version, &mut frame.body).unwrap();
            let names = request.topics.iter().flatten();
            let names = names.filter_map(|topic| topic.name.as_deref());
            let names = names.map(str::to_owned).collect();
            frame.metadata = Some((names, request.allow_auto_topic_creation));
            let brokers = vec![MetadataResponseBroker {
                node_id: 1,
                host: "127.0.0.1".into(),
                port: i32::from(port),
                ..Default::default()
            }];
            let topics = request
                .topics
                .unwrap_or_default()
                .into_iter()
                .map(|topic| {
                    let known = topic.name.as_deref() == Some("t");
                    let code = match topic.name.as_deref() {
                        Some("t") => ErrorCode::NONE,
                        Some("not a topic") => ErrorCode::INVALID_TOPIC_EXCEPTION,
                        _ => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    };
                    let partition = MetadataResponsePartition {
                        leader_id: 1,
                        ..Default::default()
                    };
                    MetadataResponseTopic {
                        error_code: code.0,
                        name: topic.name,
                        partitions: if known { vec![partition] } else { Vec::new() },
                        ..Default::default()
                    }
                })
                .collect();
            encode(
                &MetadataResponse {
                    brokers,
                    topics,
                    controller_id: 1,
                    ..Default::default()
                },
                frame,
            )
        }
        ApiKey::InitProducerId => encode(
            &InitProducerIdResponse {
                producer_id: 5,
                ..Default::default()
            },
            frame,
        ),
        ApiKey::Produce => {
            let request = ProduceRequest::decode(frame.version, &mut frame.body).unwrap();
            let responses = request
                .topic_data
                .into_iter()
                .map(|topic| TopicProduceResponse {
                    name: topic.name,
                    partition_responses: topic
                        .partition_data
                        .iter()
                        .map(|part| PartitionProduceResponse {
                            index: part.index,
                            base_offset: 7,
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect();
            encode(
                &ProduceResponse {
                    responses,
                    ..Default::default()
                },
                frame,
            )
        }
        _ => return None,
    })
}

/// A broker that responds as usual, but leaves some requests to `twist`: bytes to send instead, or
/// none to close.
async fn broker(
    mut stream: TcpStream,
    port: u16,
    mut twist: impl FnMut(&mut Frame, &mut Option<Vec<u8>>) -> Duration + Send,
) -> std::io::Result<()> {
    loop {
        let mut frame = read(&mut stream).await?;
        let mut answer = usual(&mut frame, port);
        let delay = twist(&mut frame, &mut answer);
        tokio::time::sleep(delay).await;
        match answer {
            Some(bytes) => stream.write_all(&bytes).await?,
            None => return Ok(()),
        }
    }
}

/// A peer that sends these bytes to whoever connects and sends something.
async fn stranger(bytes: &'static [u8]) -> Peer {
    Peer::start(move |mut stream, _, _| async move {
        stream.read_exact(&mut [0; 8]).await?;
        stream.write_all(bytes).await?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    })
    .await
}

/// A broker that responds to everything but Produce.
async fn silent_at_produce() -> Peer {
    let slow = |frame: &mut Frame, _: &mut Option<Vec<u8>>| match frame.api {
        Some(ApiKey::Produce) => 60 * SECOND,
        _ => Duration::ZERO,
    };
    Peer::start(move |stream, _, port| broker(stream, port, slow)).await
}

/// An address where nothing listens, now and later: the socket that has it stays, or another test could be given the port.
fn nobody() -> String {
    let taken: &TcpSocket = Box::leak(Box::new(TcpSocket::new_v4().unwrap()));
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    taken.local_addr().unwrap().to_string()
}

fn settings(role: Role, bootstrap: &str, more: &[(&str, &str)]) -> Config {
    let pairs = [("bootstrap.servers", bootstrap)]
        .into_iter()
        .chain(more.iter().copied());
    Config::parse(role, pairs).unwrap()
}

fn admin(bootstrap: &str) -> Admin {
    Admin::new(
        settings(Role::Admin, bootstrap, &[]),
        &Threads::current(),
        None,
    )
    .unwrap()
}

fn producer(bootstrap: &str, more: &[(&str, &str)]) -> Producer {
    Producer::new(
        settings(Role::Producer, bootstrap, more),
        &Threads::current(),
        None,
    )
    .unwrap()
}

const SECOND: Duration = Duration::from_secs(1);
const SOON: Option<Duration> = Some(Duration::from_secs(5));

fn row(value: &[u8]) -> Row<'_, NoHeaders<'_>> {
    Row::new(None, Some(value))
}

#[tokio::test]
async fn a_dead_bootstrap_address_does_not_matter() {
    let peer = Peer::start(|stream, _, port| broker(stream, port, |_, _| Duration::ZERO)).await;
    for _ in 0..4 {
        let admin = admin(&format!("{},{}", nobody(), peer.address));
        let cluster = admin.run(DescribeCluster::default(), SOON).await.unwrap();
        assert_eq!(cluster.nodes[0].id, 1);
        admin.close(SOON).await.unwrap();
    }
}

#[tokio::test]
async fn nobody_at_all_is_said_at_the_deadline() {
    let address = nobody();
    let begin = Instant::now();
    let error = admin(&address)
        .run(ListTopics::default(), Some(SECOND))
        .await
        .unwrap_err();
    assert!(begin.elapsed() >= SECOND && begin.elapsed() < 20 * SECOND);
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(
        error.message().contains("connection refused") && error.message().contains(&address),
        "{error}"
    );
    let error = producer(&address, &[])
        .send("t", &row(b"v"), Some(2 * SECOND))
        .await
        .unwrap_err();
    assert!(error.message().contains("connection refused"), "{error}");
}

#[tokio::test]
async fn http_and_tls_are_recognised_at_once() {
    for (bytes, text) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "HTTP"),
        (b"\x15\x03\x03\0\x02\x02\x50", "TLS"),
    ] {
        let peer = stranger(bytes).await;
        let begin = Instant::now();
        let error = admin(&peer.address)
            .run(ListTopics::default(), None)
            .await
            .unwrap_err();
        assert!(
            begin.elapsed() < 30 * SECOND,
            "60 s is the deadline, and no use here"
        );
        assert_eq!(error.kind(), Kind::NotKafka);
        assert!(error.message().contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_broker_that_closes_at_the_first_question_is_named() {
    let peer =
        Peer::start(
            |mut stream, _, _| async move { stream.read_exact(&mut [0; 8]).await.map(|_| ()) },
        )
        .await;
    let error = admin(&peer.address)
        .run(ListTopics::default(), Some(2 * SECOND))
        .await
        .unwrap_err();
    assert!(error.message().contains("not a Kafka broker"), "{error}");
    assert!(
        peer.connections.load(Ordering::Relaxed) < 15,
        "back-off between attempts"
    );
}

#[tokio::test]
async fn a_connection_cut_in_the_middle_of_an_answer_is_made_again() {
    let peer = Peer::start(|mut stream, number, port| async move {
        if number == 0 {
            let mut frame = read(&mut stream).await?;
            let answer = usual(&mut frame, port).unwrap();
            return stream.write_all(&answer[..answer.len() / 2]).await;
        }
        broker(stream, port, |_, _| Duration::ZERO).await
    })
    .await;
    assert_eq!(
        admin(&peer.address)
            .run(DescribeCluster::default(), SOON)
            .await
            .unwrap()
            .controller
            .map(|node| node.id),
        Some(1)
    );
    assert_eq!(peer.connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_answer_byte_by_byte_is_an_answer() {
    let peer = Peer::start(|mut stream, _, port| async move {
        stream.set_nodelay(true)?;
        loop {
            let mut frame = read(&mut stream).await?;
            for byte in usual(&mut frame, port).unwrap() {
                stream.write_all(&[byte]).await?;
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    assert_eq!(
        admin(&peer.address)
            .run(DescribeCluster::default(), SOON)
            .await
            .unwrap()
            .controller
            .map(|node| node.id),
        Some(1)
    );
}

#[tokio::test]
async fn a_wrong_correlation_id_ends_the_connection() {
    let peer = Peer::start(|stream, number, port| {
        broker(stream, port, move |frame, answer| {
            if number == 0 && frame.api == Some(ApiKey::Metadata) {
                frame.correlation += 1;
                *answer = Some(encode(&MetadataResponse::default(), frame));
            }
            Duration::ZERO
        })
    })
    .await;
    assert_eq!(
        admin(&peer.address)
            .run(DescribeCluster::default(), SOON)
            .await
            .unwrap()
            .controller
            .map(|node| node.id),
        Some(1)
    );
    assert_eq!(peer.connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_slow_answer_meets_the_deadline_of_its_request() {
    let peer = Peer::start(|stream, number, port| {
        broker(stream, port, move |frame, _| {
            let slow = number == 0 && frame.api == Some(ApiKey::Metadata);
            if slow { 60 * SECOND } else { Duration::ZERO }
        })
    })
    .await;
    let config = settings(Role::Admin, &peer.address, &[("request.timeout.ms", "300")]);
    let admin = Admin::new(config, &Threads::current(), None).unwrap();
    assert_eq!(
        admin
            .run(DescribeCluster::default(), SOON)
            .await
            .unwrap()
            .controller
            .map(|node| node.id),
        Some(1)
    );
}

#[tokio::test]
async fn a_wait_without_end_is_none_too_long() {
    let peer = Peer::start(|stream, _, port| broker(stream, port, |_, _| Duration::ZERO)).await;
    let forever = Some(Duration::MAX);
    let producer = producer(&peer.address, &[]);
    let delivery = producer.send("t", &row(b"x"), forever).await.unwrap();
    assert_eq!(delivery.wait(forever).await.unwrap().offset, 7);
    producer.close(forever).await.unwrap();
    let admin = admin(&peer.address);
    admin
        .run(DescribeCluster::default(), forever)
        .await
        .unwrap();
    admin.close(forever).await.unwrap();
}

#[tokio::test]
async fn what_a_broker_refuses_or_does_not_know_is_said() {
    let peer = Peer::start(|stream, _, port| broker(stream, port, |_, _| Duration::ZERO)).await;
    let topics = vec![TopicKey::Name("t".to_owned())];
    let error = admin(&peer.address)
        .run(DeleteTopics { topics }, SOON)
        .await
        .unwrap_err();
    assert_eq!(error.failures().len(), 1);
    assert_eq!(
        (error.kind(), error.api()),
        (Kind::Unsupported, Some("DeleteTopics"))
    );
    assert_eq!(error.broker(), Some(&*peer.address));
    let topic = NewTopic {
        name: "n".to_owned(),
        partitions: 1,
        replication: -1,
        config: BTreeMap::new(),
        assignments: None,
    };
    let call = CreateTopics {
        topics: vec![topic],
        validate_only: false,
    };
    let error = admin(&peer.address)
        .run(call, Some(SECOND))
        .await
        .unwrap_err();
    assert!(error.message().contains("closed the connection"), "{error}");
}

#[tokio::test]
async fn records_are_delivered_and_everybody_is_told() {
    let peer = Peer::start(|stream, _, port| broker(stream, port, |_, _| Duration::ZERO)).await;
    let producer = producer(&peer.address, &[]);
    let delivery = producer.send("t", &row(b"v"), SOON).await.unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let count = || {
        let told = Arc::clone(&told);
        move || {
            told.fetch_add(1, Ordering::Relaxed);
        }
    };
    delivery.on_done(count());
    assert_eq!(delivery.wait(SOON).await.unwrap().offset, 7);
    delivery.on_done(count());
    let values: Vec<Vec<u8>> = (0..1000)
        .map(|number: i32| number.to_be_bytes().to_vec())
        .collect();
    let rows = Rows::new(values.len(), |at| values.get(at).map(|value| row(value)));
    let deliveries = producer.send_many("t", rows, SOON).await.unwrap();
    deliveries.on_done(count());
    let report = deliveries.wait(SOON).await.unwrap();
    assert_eq!(
        (
            report.offsets.len(),
            report.errors.len(),
            report.partitions[999]
        ),
        (1000, 0, 0)
    );
    producer.flush(SOON).await.unwrap();
    assert_eq!(told.load(Ordering::Relaxed), 3);
    assert_eq!(producer.buffered_bytes(), 0);
    producer.close(SOON).await.unwrap();
    producer.close(SOON).await.unwrap();
    assert_eq!(
        producer
            .send("t", &row(b"v"), SOON)
            .await
            .unwrap_err()
            .kind(),
        Kind::Closed
    );
}

#[tokio::test]
async fn a_broker_gone_for_good_leaves_a_record_whose_fate_is_unknown() {
    let peer = Peer::start(|stream, _, port| {
        broker(stream, port, |frame, answer| {
            if frame.api == Some(ApiKey::Produce) {
                *answer = None;
            }
            Duration::ZERO
        })
    })
    .await;
    let more = [
        ("delivery.timeout.ms", "1000"),
        ("request.timeout.ms", "500"),
        ("linger.ms", "0"),
    ];
    let producer = producer(&peer.address, &more);
    let delivery = producer.send("t", &row(b"v"), SOON).await.unwrap();
    let error = delivery.wait(SOON).await.unwrap_err();
    assert_eq!(
        (error.written(), error.topic(), error.partition()),
        (Some(Written::Unknown), Some("t"), Some(0))
    );
    assert!(error.attempts() > 1, "{error}");
    producer.close(Some(SECOND)).await.unwrap();
}

#[tokio::test]
async fn an_unknown_topic_is_said_at_the_deadline() {
    let peer = Peer::start(|stream, _, port| broker(stream, port, |_, _| Duration::ZERO)).await;
    let error = producer(&peer.address, &[])
        .send("nope", &row(b"v"), Some(SECOND))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.topic()),
        (Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), Some("nope"))
    );
}

type MetadataAsked = Arc<Mutex<Vec<(Vec<String>, bool)>>>;

/// A broker that notes the requested topics, and responds to everything but Produce.
async fn noting_metadata() -> (Peer, MetadataAsked) {
    let asked = MetadataAsked::default();
    let peer = Peer::start({
        let asked = Arc::clone(&asked);
        move |stream, _, port| {
            let asked = Arc::clone(&asked);
            broker(stream, port, move |frame, _| {
                asked.lock().unwrap().extend(frame.metadata.take());
                match frame.api {
                    Some(ApiKey::Produce) => 60 * SECOND,
                    _ => Duration::ZERO,
                }
            })
        }
    })
    .await;
    (peer, asked)
}

#[tokio::test]
async fn a_topic_that_was_refused_or_given_up_is_not_asked_for_again() {
    let (peer, asked) = noting_metadata().await;
    let producer = producer(&peer.address, &[]);
    let error = producer
        .send("not a topic", &row(b"v"), SOON)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::INVALID_TOPIC_EXCEPTION));
    let late = producer.send("late", &row(b"v"), Some(SECOND / 2)).await;
    late.unwrap_err();
    let requests = || -> Vec<Vec<String>> {
        let asked = asked.lock().unwrap();
        asked.iter().map(|(names, _)| names.clone()).collect()
    };
    let was_asked_for = |name: &str| requests().concat().iter().any(|asked| asked == name);
    let record = row(b"v");
    let dropped = producer.send("dropped", &record, None);
    let noted = async {
        while !was_asked_for("dropped") {
            tokio::time::sleep(SECOND / 100).await;
        }
    };
    tokio::select! {
        sent = dropped => panic!("there is no such topic: {sent:?}"),
        noted = tokio::time::timeout(5 * SECOND, noted) => noted.unwrap(),
    }
    assert!(was_asked_for("not a topic") && was_asked_for("late"));
    producer.send("t", &row(b"v"), SOON).await.unwrap();
    // Until then, one more request for "dropped" may have been under way.
    let begin = requests()
        .iter()
        .position(|names| names.contains(&"t".to_owned()));
    let left = requests().split_off(begin.unwrap()).concat();
    assert_eq!(left.last().map(String::as_str), Some("t"));
    assert!(!left.contains(&"not a topic".to_owned()), "{left:?}");
    assert!(!left.contains(&"late".to_owned()), "{left:?}");
    assert!(!left.contains(&"dropped".to_owned()), "{left:?}");
}

#[tokio::test]
async fn partitions_of_an_absent_topic_are_said_after_a_few_answers() {
    let (peer, asked) = noting_metadata().await;
    let producer = producer(&peer.address, &[]);
    let error = producer.partitions_for("absent", None).await.unwrap_err();
    assert_eq!(
        (error.code(), error.topic()),
        (Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), Some("absent"))
    );
    let asked = asked.lock().unwrap();
    let about = asked.iter().filter(|(names, _)| names == &["absent"]);
    assert_eq!(about.count(), 4, "{asked:?}");
    assert!(asked.iter().all(|(_, may_create)| !may_create), "{asked:?}");
}

#[tokio::test]
async fn partitions_are_told_while_the_buffer_is_full() {
    let (peer, _) = noting_metadata().await;
    let pairs = [("buffer.memory", "1000"), ("batch.size", "900")];
    let producer = producer(&peer.address, &pairs);
    let record = row(&[0; 890]);
    producer.send("t", &record, SOON).await.unwrap();
    let full = producer.send("t", &record, Some(Duration::ZERO));
    assert_eq!(full.await.unwrap_err().kind(), Kind::Timeout);
    assert_eq!(producer.partitions_for("t", SOON).await.unwrap().len(), 1);
}

#[tokio::test]
async fn closing_does_not_wait_for_a_broker_that_is_silent() {
    let peer = silent_at_produce().await;
    let producer = producer(&peer.address, &[]);
    let delivery = producer.send("t", &row(b"v"), SOON).await.unwrap();
    let begin = Instant::now();
    assert_eq!(
        producer.close(Some(SECOND / 2)).await.unwrap_err().kind(),
        Kind::Timeout
    );
    assert!(begin.elapsed() < 20 * SECOND);
    let error = delivery.result().unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.written()),
        (Kind::Closed, Some(Written::Unknown))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_flush_every_fate_is_told() {
    let peer = silent_at_produce().await;
    let producer = producer(&peer.address, &[("batch.size", "1")]);
    let first = producer.send("t", &row(b"1"), SOON).await.unwrap();
    let second = producer.send("t", &row(b"2"), SOON).await.unwrap();
    let (told, waiting) = std::sync::mpsc::channel();
    second.on_done(move || {
        told.send(()).unwrap();
        std::thread::sleep(SECOND / 2);
    });
    let closing = tokio::spawn({
        let producer = producer.clone();
        async move { producer.close(Some(SECOND / 5)).await }
    });
    tokio::task::block_in_place(|| waiting.recv_timeout(3 * SECOND)).unwrap();
    producer.flush(SOON).await.unwrap();
    assert!(first.is_done() && second.is_done());
    closing.await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_sent_on_an_idle_connection_is_missed_in_time() {
    let peer = silent_at_produce().await;
    let pairs = [
        ("request.timeout.ms", "600"),
        ("delivery.timeout.ms", "20000"),
        ("retries", "0"),
        ("enable.idempotence", "false"),
    ];
    let producer = producer(&peer.address, &pairs);
    producer.partitions_for("t", SOON).await.unwrap();
    tokio::time::sleep(SECOND / 3).await;
    let begin = Instant::now();
    let delivery = producer.send("t", &row(b"1"), SOON).await.unwrap();
    producer.flush(Some(10 * SECOND)).await.unwrap();
    let error = delivery.result().unwrap().unwrap_err();
    assert!(error.message().contains("request.timeout.ms"), "{error}");
    let took = begin.elapsed();
    assert!(SECOND / 2 < took && took < 10 * SECOND, "{took:?}");
    producer.close(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_on_a_connection_that_is_out_of_step() {
    let produced = Arc::new(Mutex::new(Vec::new()));
    let peer = Peer::start({
        let produced = Arc::clone(&produced);
        move |stream, number, port| {
            let produced = Arc::clone(&produced);
            broker(stream, port, move |frame, answer| {
                if frame.api == Some(ApiKey::Produce) {
                    let mut produced = produced.lock().unwrap();
                    let first = produced.is_empty();
                    produced.push(number);
                    if first {
                        // A response without a request, in the same write.
                        let stray = [&8_i32.to_be_bytes()[..], &[0x7f; 8]].concat();
                        answer.as_mut().unwrap().extend(stray);
                    }
                }
                Duration::ZERO
            })
        }
    })
    .await;
    let pairs = [("max.in.flight.requests.per.connection", "1")];
    let producer = producer(&peer.address, &pairs);
    let mut deliveries = Vec::new();
    for _ in 0..50 {
        deliveries.push(producer.send("t", &row(b"1"), SOON).await.unwrap());
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    producer.flush(SOON).await.unwrap();
    for delivery in deliveries {
        delivery.result().unwrap().unwrap();
    }
    let produced = produced.lock().unwrap();
    let broken = produced[0];
    assert_eq!(
        produced.iter().filter(|number| **number == broken).count(),
        1
    );
}

/// Counts offsets instead of decoding, up to those that do not decode.
struct Count {
    broken: i64,
    /// A consumer whose partition is paused when its second record is decoded.
    paused: Arc<OnceLock<Consumer<Count>>>,
}
/// From the first offset to the one before the last.
#[derive(Debug)]
struct Counted(i64, i64);

impl Decode for Count {
    type Chunk = Counted;

    fn decode(&self, fetched: &Fetched) -> Result<Counted, Error> {
        if let Some(consumer) = self.paused.get().filter(|_| fetched.fetch_offset == 1) {
            consumer.pause(&[("t".into(), 0)])?;
        }
        if fetched.next_offset > self.broken {
            return Err(fetched.corrupt("bad sum"));
        }
        Ok(Counted(fetched.fetch_offset, fetched.next_offset))
    }
}

impl Chunk for Counted {
    fn len(&self) -> usize {
        usize::try_from(self.1 - self.0).unwrap()
    }
    fn split_to(&mut self, length: usize) -> Counted {
        let head = self.slice(0, length);
        self.0 = head.1;
        head
    }
    fn slice(&self, start: usize, length: usize) -> Counted {
        let start = self.offset(start);
        Counted(start, start + i64::try_from(length).unwrap())
    }
    fn offset(&self, row: usize) -> i64 {
        self.0 + i64::try_from(row).unwrap()
    }
    fn next_offset(&self) -> i64 {
        self.1
    }
    fn bytes(&self) -> usize {
        0
    }
}

fn consumer(bootstrap: &str) -> Consumer<Count> {
    let (broken, paused) = (i64::MAX, Arc::default());
    counting(bootstrap, Count { broken, paused })
}

fn counting(bootstrap: &str, count: Count) -> Consumer<Count> {
    Consumer::new(
        settings(Role::Consumer, bootstrap, &[]),
        count,
        &Threads::current(),
        None,
    )
    .unwrap()
}

async fn member() -> Consumer<Count> {
    let settings = settings(Role::Consumer, &nobody(), &[("group.id", "g")]);
    let (broken, paused) = (i64::MAX, Arc::default());
    Consumer::new(
        settings,
        Count { broken, paused },
        &Threads::current(),
        None,
    )
    .unwrap()
}

#[tokio::test]
async fn a_close_ends_what_else_leaves_the_group() {
    let consumer = member().await;
    let offset = GroupOffset {
        topic: "t".into(),
        partition: 0,
        offset: 3,
        leader_epoch: -1,
        metadata: "".into(),
        topic_id: Uuid::ZERO,
    };
    // Who leaves waits for this commit, which never ends.
    consumer.commit_later(Some(vec![offset])).unwrap();
    let other = consumer.clone();
    let leaving = tokio::spawn(async move { other.unsubscribe(Some(60 * SECOND)).await });
    tokio::time::sleep(SECOND / 10).await;
    assert!(!leaving.is_finished());
    consumer.close(Some(SECOND / 5)).await.unwrap();
    let ended = tokio::time::timeout(10 * SECOND, leaving).await;
    let error = ended.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Closed);
}

#[tokio::test]
async fn a_poll_that_waits_in_a_group_hears_of_a_close() {
    let consumer = member().await;
    let topics = Selection::Names(["t".into()].into());
    consumer.subscribe(topics, Listeners::default()).unwrap();
    let other = consumer.clone();
    let polling = tokio::spawn(async move { other.poll(60 * SECOND, None).await });
    tokio::time::sleep(SECOND / 10).await;
    assert!(!polling.is_finished());
    assert!(
        consumer
            .leave(SOON, LastCommit::Returned)
            .await
            .unwrap()
            .done()
            .is_some()
    );
    let ended = tokio::time::timeout(10 * SECOND, polling).await;
    let error = ended.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Closed);
    consumer.close(SOON).await.unwrap();
}

#[tokio::test]
async fn a_poll_never_says_nothing_when_there_is_nobody() {
    let consumer = consumer(&nobody());
    assert_eq!(
        consumer.poll(SECOND, None).await.unwrap_err().kind(),
        Kind::Argument
    );
    consumer
        .assign([("t".into(), 0, Start::Beginning)])
        .unwrap();
    let error = consumer.poll(2 * SECOND, None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.message().contains("connection refused"), "{error}");
    consumer.close(SOON).await.unwrap();
    assert_eq!(
        consumer.poll(SECOND, None).await.unwrap_err().kind(),
        Kind::Closed
    );
}

#[tokio::test]
async fn closing_ends_a_poll() {
    let peer = Peer::start(|stream, _, port| {
        broker(stream, port, |frame, _| {
            if frame.api == Some(ApiKey::Fetch) {
                60 * SECOND
            } else {
                Duration::ZERO
            }
        })
    })
    .await;
    let consumer = consumer(&peer.address);
    consumer
        .assign([("t".into(), 0, Start::Offset(3))])
        .unwrap();
    let poll = tokio::spawn({
        let consumer = consumer.clone();
        async move {
            consumer
                .poll(30 * SECOND, None)
                .await
                .map(|polled| polled.done().map_or(0, |chunks| chunks.len()))
        }
    });
    tokio::time::sleep(SECOND / 4).await;
    consumer.close(SOON).await.unwrap();
    let ended = tokio::time::timeout(3 * SECOND, poll)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ended.unwrap_err().kind(), Kind::Closed);
    assert_eq!(consumer.assignment(), [("t".into(), 0)]);
}

/// Two partitions: one that never runs out of records, one whose bytes are no batches. Returns the
/// offset that a Fetch requests of the former.
fn endless_and_broken(frame: &mut Frame, answer: &mut Option<Vec<u8>>) -> Option<i64> {
    if frame.api == Some(ApiKey::Metadata) {
        let bytes = answer.take().unwrap().split_off(4);
        let (_, mut response) =
            header::decode_response::<MetadataResponse>(frame.version, bytes.into()).unwrap();
        for topic in &mut response.topics {
            topic.partitions.push(MetadataResponsePartition {
                partition_index: 1,
                leader_id: 1,
                ..Default::default()
            });
        }
        *answer = Some(encode(&response, frame));
    } else if frame.api == Some(ApiKey::Fetch) {
        let request = FetchRequest::decode(frame.version, &mut frame.body).unwrap();
        let rows = || request.topics.iter().flat_map(|topic| &topic.partitions);
        let partitions = rows()
            .map(|row| {
                let mut batch = BatchBuilder::new(Compression::None, None);
                batch.append(0, None, None, std::iter::empty()).unwrap();
                let mut bytes = batch.finish(ProducerState::NONE).unwrap().to_vec();
                assign_offsets(&mut bytes, row.fetch_offset, 0).unwrap();
                let records = if row.partition == 0 {
                    bytes
                } else {
                    vec![0xff; 99]
                };
                PartitionData {
                    partition_index: row.partition,
                    records: Some(records.into()),
                    ..Default::default()
                }
            })
            .collect();
        let response = FetchResponse {
            responses: vec![FetchableTopicResponse {
                topic: "t".into(),
                partitions,
                ..Default::default()
            }],
            ..Default::default()
        };
        *answer = Some(encode(&response, frame));
        let mut first = rows().filter(|row| row.partition == 0);
        return first.next().map(|row| row.fetch_offset);
    }
    None
}

#[tokio::test]
async fn a_broken_partition_is_not_hidden_by_one_that_never_ends() {
    let peer = Peer::start(|stream, _, port| {
        broker(stream, port, |frame, answer| {
            endless_and_broken(frame, answer);
            Duration::ZERO
        })
    })
    .await;
    let consumer = consumer(&peer.address);
    let starts = [0, 1].map(|partition| ("t".into(), partition, Start::Offset(0)));
    consumer.assign(starts).unwrap();
    let (mut errors, mut polls) = (Vec::new(), 0);
    for _ in 0..10 {
        tokio::time::sleep(SECOND / 20).await;
        match consumer.poll(SECOND, Some(1)).await {
            Ok(polled) => polls += polled.done().map_or(0, |chunks| chunks.len()),
            Err(error) => errors.push(error),
        }
    }
    let [error] = &errors[..] else {
        panic!("raised once, and the other partition goes on: {errors:?}");
    };
    assert_eq!((error.kind(), polls), (Kind::Corrupt, 9));
    assert_eq!(error.partition(), Some(1));
    let damage = error.damage().unwrap();
    assert_eq!((damage.offset, damage.next_offset), (0, None));
    assert_eq!(damage.data, vec![0xff; 99]);
    // It comes again where nothing else comes.
    consumer.pause(&[("t".into(), 0)]).unwrap();
    let again = consumer.poll(SECOND, None).await.unwrap_err();
    assert_eq!(again, *error);
    assert_eq!(consumer.position("t", 1, SOON).await.unwrap(), 0);
}

/// A broker whose log is two batches of three records, and the offsets that were fetched.
async fn two_batches() -> (Peer, Arc<Mutex<Vec<i64>>>) {
    let offsets = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&offsets);
    let peer = Peer::start(move |stream, _, port| {
        let noted = Arc::clone(&noted);
        broker(stream, port, move |frame, answer| {
            if frame.api != Some(ApiKey::Fetch) {
                return Duration::ZERO;
            }
            let request = FetchRequest::decode(frame.version, &mut frame.body).unwrap();
            let topic = request.topics.first().unwrap();
            let offset = topic.partitions.first().unwrap().fetch_offset;
            noted.lock().unwrap().push(offset);
            let batches = [0, 3].map(|base| {
                let mut batch = BatchBuilder::new(Compression::None, None);
                for _ in 0..3 {
                    batch.append(0, None, None, std::iter::empty()).unwrap();
                }
                let mut bytes = batch.finish(ProducerState::NONE).unwrap().to_vec();
                assign_offsets(&mut bytes, base, 0).unwrap();
                bytes
            });
            let there = batches.into_iter().zip([3, 6]);
            let rest: Vec<_> = there.filter(|(_, end)| *end > offset).collect();
            let row = PartitionData {
                records: Some(rest.iter().flat_map(|(bytes, _)| bytes.clone()).collect()),
                ..Default::default()
            };
            let response = FetchResponse {
                responses: vec![FetchableTopicResponse {
                    topic: "t".into(),
                    partitions: vec![row],
                    ..Default::default()
                }],
                ..Default::default()
            };
            *answer = Some(encode(&response, frame));
            if rest.is_empty() {
                SECOND / 10
            } else {
                Duration::ZERO
            }
        })
    })
    .await;
    (peer, offsets)
}

/// The offsets that an iteration has at hand.
fn at_hand(consumer: &Consumer<Count>) -> Vec<i64> {
    let records = std::iter::from_fn(|| consumer.next_record());
    records.map(|(chunk, row)| chunk.offset(row)).collect()
}

#[tokio::test]
async fn an_iteration_gets_what_stands_before_a_broken_batch() {
    let (peer, _) = two_batches().await;
    let (broken, paused) = (3, Arc::default());
    let consumer = counting(&peer.address, Count { broken, paused });
    let start = ("t".into(), 0, Start::Offset(0));
    consumer.assign([start]).unwrap();
    consumer.poll_to_iterate(5 * SECOND).await.unwrap();
    assert_eq!(at_hand(&consumer), [0, 1, 2]);
    let error = consumer.poll_to_iterate(5 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.message().contains("offset 3"), "{error}");
}

#[tokio::test]
async fn a_pause_keeps_what_an_iteration_has_left() {
    let (peer, offsets) = two_batches().await;
    let consumer = consumer(&peer.address);
    let start = ("t".into(), 0, Start::Offset(0));
    consumer.assign([start]).unwrap();
    consumer.poll_to_iterate(5 * SECOND).await.unwrap();
    let (chunk, row) = consumer.next_record().unwrap();
    assert_eq!(chunk.offset(row), 0);
    let partition = [("t".into(), 0)];
    consumer.pause(&partition).unwrap();
    assert!(at_hand(&consumer).is_empty());
    consumer.poll_to_iterate(SECOND / 5).await.unwrap();
    assert!(
        consumer
            .poll(SECOND / 5, None)
            .await
            .unwrap()
            .done()
            .is_some_and(|chunks| chunks.is_empty())
    );
    assert!(at_hand(&consumer).is_empty());
    assert_eq!(consumer.position("t", 0, SOON).await.unwrap(), 1);
    consumer.resume(&partition).unwrap();
    assert_eq!(at_hand(&consumer), [1, 2, 3, 4, 5]);
    consumer.poll_to_iterate(SECOND / 5).await.unwrap();
    assert!(at_hand(&consumer).is_empty());
    let offsets = offsets.lock().unwrap();
    assert!(!offsets.contains(&1), "fetched again: {offsets:?}");
}

#[tokio::test]
async fn a_pause_during_the_poll_of_an_iteration_loses_nothing() {
    let (send, mut fetched_from) = tokio::sync::mpsc::unbounded_channel();
    let peer = Peer::start(move |stream, _, port| {
        let send = send.clone();
        broker(stream, port, move |frame, answer| {
            send.send(endless_and_broken(frame, answer)).unwrap();
            Duration::ZERO
        })
    })
    .await;
    let (broken, paused) = (i64::MAX, Arc::<OnceLock<_>>::default());
    let (decoder, partition) = (Arc::clone(&paused), [("t".into(), 0)]);
    let consumer = counting(
        &peer.address,
        Count {
            broken,
            paused: decoder,
        },
    );
    paused.set(consumer.clone()).unwrap();
    let start = ("t".into(), 0, Start::Offset(0));
    consumer.assign([start]).unwrap();
    // Each response has one record: the poll shall find several, and two are there once the third
    // is requested.
    let third = async { while fetched_from.recv().await.unwrap() != Some(2) {} };
    tokio::time::timeout(5 * SECOND, third).await.unwrap();
    consumer.poll_to_iterate(5 * SECOND).await.unwrap();
    assert_eq!(consumer.paused(), partition);
    assert!(at_hand(&consumer).is_empty());
    assert_eq!(consumer.position("t", 0, SOON).await.unwrap(), 0);
    consumer.resume(&partition).unwrap();
    assert_eq!(at_hand(&consumer), [0]);
    consumer.close(SOON).await.unwrap();
}

#[tokio::test]
async fn dropping_the_last_handle_hangs_up() {
    let (send, mut closed) = tokio::sync::mpsc::unbounded_channel();
    let peer = Peer::start(move |stream, _, port| {
        let send = send.clone();
        async move {
            let ended = broker(stream, port, |_, _| Duration::ZERO).await;
            send.send(()).unwrap();
            ended
        }
    })
    .await;
    let admin = admin(&peer.address);
    admin.run(DescribeCluster::default(), SOON).await.unwrap();
    drop(admin);
    tokio::time::timeout(3 * SECOND, closed.recv())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn what_is_known_needs_no_time_and_the_rest_is_late_at_once() {
    const NOW: Option<Duration> = Some(Duration::ZERO);
    let peer = silent_at_produce().await;
    let producer = producer(&peer.address, &[]);
    let error = producer.ready("t", None, 1, NOW).await.unwrap_err();
    assert!(error.message().contains(&peer.address), "{error}");
    producer.ready("t", None, 1, SOON).await.unwrap();
    producer.ready("t", None, 1, NOW).await.unwrap();
    producer.flush(NOW).await.unwrap();
    producer.send("t", &row(b"v"), NOW).await.unwrap();
    let begin = Instant::now();
    assert_eq!(producer.flush(NOW).await.unwrap_err().kind(), Kind::Timeout);

    let consumer = consumer(&peer.address);
    consumer
        .assign([("t".into(), 0, Start::Offset(3))])
        .unwrap();
    assert_eq!(consumer.position("t", 0, NOW).await.unwrap(), 3);
    assert!(
        consumer
            .poll(Duration::ZERO, None)
            .await
            .unwrap()
            .done()
            .is_some_and(|chunks| chunks.is_empty())
    );
    let admin = admin(&peer.address);
    let error = admin.run(ListTopics::default(), NOW).await.unwrap_err();
    assert!(error.message().contains(&peer.address), "{error}");
    assert!(begin.elapsed() < 5 * SECOND);
}

#[tokio::test]
async fn a_dead_address_is_told_at_once() {
    let (told, mut woken) = tokio::sync::mpsc::unbounded_channel();
    let events = Events::new(Level::Info, move || told.send(()).unwrap());
    let address = nobody();
    let config = settings(Role::Admin, &address, &[("client.id", "me")]);
    let threads = Threads::current();
    let admin = Admin::new(config, &threads, Some(Arc::clone(&events))).unwrap();
    // The call has a minute; what keeps it from succeeding is reported while it waits.
    let call = admin.run(ListTopics::default(), None);
    let waked = tokio::select! {
        _ = call => panic!("there is nobody who could answer"),
        waked = tokio::time::timeout(10 * SECOND, woken.recv()) => waked,
    };
    waked.unwrap().unwrap();
    let first = events.drain().remove(0);
    assert_eq!((&*first.client, first.role), ("me", Role::Admin));
    let Observed::ConnectFailed { broker, cause, .. } = &first.event else {
        panic!("{first:?}")
    };
    assert_eq!(*broker, address);
    assert!(cause.message().contains("connection refused"), "{cause}");
}
