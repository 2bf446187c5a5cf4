//! A client against a broker with malformed responses, under 200 seeds, three of four with an
//! authentication: each response may be sound, sound for another version, false in its fields,
//! damaged in its bytes, or brought over a connection that misbehaves. Whatever comes, each call
//! ends within its deadline, nothing panics, and nothing grows.
//!
//! A failure names its seed; `OTTLA_SEED=17 cargo test -p ottla-client --test hostile` runs that one alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test; the lint's own exception covers only functions marked as one"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the broker and the stopwatch are the test's own"
)]

mod answers;
mod broker;
mod login;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ottla_client::verbs::cluster::DescribeCluster;
use ottla_client::verbs::topics::ListTopics;
use ottla_client::{
    Admin, Chunk, Config, Consumer, Decode, Error, Fetched, Kind, NoHeaders, Producer, Role, Row,
    Start, Threads,
};
use ottla_columnar::{Columns, FetchedPartition, Memory};
use tokio::task::JoinSet;

use self::broker::Hostile;

const SEEDS: u64 = 200;
/// Seeds that run in parallel. Most of the time each of them waits.
const AT_ONCE: usize = 40;
/// What a call may take beyond its deadline, on a machine that is busy.
const GRACE: Duration = Duration::from_secs(8);
/// What may be left in memory after all of it.
const MOST_LEFT: usize = 96 << 20;
/// How many more descriptors may be open then.
const MORE_DESCRIPTORS: usize = 8;

const CALL: Duration = Duration::from_millis(600);
const DELIVERY: Duration = Duration::from_millis(900);

/// Decodes as Python's consumer does.
struct Decoder(Memory);

#[derive(Debug)]
struct Rows(Columns);

impl Decode for Decoder {
    type Chunk = Rows;

    fn decode(&self, fetched: &Fetched) -> Result<Rows, Error> {
        let source = FetchedPartition {
            topic: Arc::clone(&fetched.topic),
            partition: fetched.partition,
            fetch_offset: fetched.fetch_offset,
            aborted: fetched.aborted.to_vec(),
            read_committed: fetched.partition == 1,
            check_crcs: fetched.fetch_offset % 2 == 0,
            decompress_limit: 1 << 20,
        };
        ottla_columnar::decode(fetched.records.clone(), &source, &self.0)
            .map(Rows)
            .map_err(|error| fetched.corrupt(error))
    }
}

impl Chunk for Rows {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn split_to(&mut self, length: usize) -> Rows {
        Rows(self.0.split_to(length))
    }
    fn slice(&self, start: usize, length: usize) -> Rows {
        Rows(self.0.slice(start, length))
    }
    fn offset(&self, row: usize) -> i64 {
        self.0.offset(row)
    }
    fn next_offset(&self) -> i64 {
        self.0.next_offset()
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

fn settings(role: Role, bootstrap: &str, seed: u64) -> Config {
    let mut pairs = vec![
        ("bootstrap.servers", bootstrap),
        ("request.timeout.ms", "400"),
        ("socket.connection.setup.timeout.ms", "400"),
        ("socket.connection.setup.timeout.max.ms", "400"),
        ("metadata.max.age.ms", "300"),
        ("reconnect.backoff.max.ms", "100"),
        ("retry.backoff.max.ms", "100"),
        ("receive.message.max.bytes", "2097152"),
    ];
    let mechanism = login::MECHANISMS[(seed % 4) as usize];
    if !mechanism.is_empty() {
        pairs.extend([
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.allow.plaintext", "true"),
            ("sasl.mechanism", mechanism),
            ("sasl.username", login::USER),
            ("sasl.password", login::PASSWORD),
        ]);
    }
    match role {
        Role::Producer => pairs.extend([
            ("delivery.timeout.ms", "900"),
            ("max.block.ms", "600"),
            ("linger.ms", "0"),
            (
                "compression.type",
                ["none", "gzip", "snappy", "lz4", "zstd"][(seed % 5) as usize],
            ),
        ]),
        Role::Consumer => pairs.extend([
            ("fetch.max.bytes", "65536"),
            ("fetch.max.wait.ms", "50"),
            ("auto.offset.reset", "earliest"),
        ]),
        _ => {}
    }
    Config::parse(role, pairs).unwrap()
}

/// `call`, which must end by itself, and fail if it fails with an error that it may have.
async fn bounded<T>(
    what: &str,
    within: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Option<T> {
    let begun = Instant::now();
    let ended = tokio::time::timeout(within + GRACE, call).await;
    let ended = ended.unwrap_or_else(|_| {
        panic!(
            "{what} hangs: {} ms and no end",
            begun.elapsed().as_millis()
        )
    });
    match ended {
        Ok(found) => Some(found),
        Err(error) => {
            assert!(
                !error.message().is_empty(),
                "{what} fails and does not say why"
            );
            assert!(
                !matches!(error.kind(), Kind::Config | Kind::Closed),
                "{what}: {error}"
            );
            None
        }
    }
}

async fn produce(bootstrap: &str, seed: u64) {
    let threads = Threads::current();
    let producer = Producer::new(settings(Role::Producer, bootstrap, seed), &threads, None);
    let producer = producer.unwrap();
    for round in 0..3_u8 {
        let value = [round; 64];
        let row: Row<'_, NoHeaders<'_>> = Row::new(Some(b"key"), Some(&value));
        let sent = bounded("send", CALL, producer.send("t", &row, Some(CALL))).await;
        if let Some(delivery) = sent {
            bounded("delivery", DELIVERY, delivery.wait(Some(DELIVERY))).await;
        }
    }
    bounded("flush", CALL, producer.flush(Some(CALL))).await;
    bounded("close", CALL, producer.close(Some(CALL))).await;
    assert_eq!(
        producer.buffered_bytes(),
        0,
        "records are left in the buffer"
    );
}

async fn consume(bootstrap: &str, seed: u64) {
    let decode = Decoder(Memory::new(1 << 20, Vec::with_capacity));
    let threads = Threads::current();
    let consumer = Consumer::new(
        settings(Role::Consumer, bootstrap, seed),
        decode,
        &threads,
        None,
    );
    let consumer = consumer.unwrap();
    consumer
        .assign([0, 1].map(|partition| ("t".into(), partition, Start::Beginning)))
        .unwrap();
    for _ in 0..6 {
        bounded("poll", CALL / 3, consumer.poll(CALL / 3, Some(100))).await;
        // Past what cannot be read.
        let _ = consumer.seek("t", (seed % 2) as i32, Start::Offset((seed % 9) as i64));
    }
    bounded("close", CALL, consumer.close(Some(CALL))).await;
}

async fn administer(bootstrap: &str, seed: u64) {
    let threads = Threads::current();
    let admin = Admin::new(settings(Role::Admin, bootstrap, seed), &threads, None).unwrap();
    bounded(
        "describe_cluster",
        CALL,
        admin.run(DescribeCluster::default(), Some(CALL)),
    )
    .await;
    bounded(
        "list_topics",
        CALL,
        admin.run(ListTopics::default(), Some(CALL)),
    )
    .await;
    bounded("close", CALL, admin.close(Some(CALL))).await;
}

async fn one(seed: u64) {
    let hostile = Hostile::start(seed).await;
    let at = &hostile.address;
    tokio::join!(produce(at, seed), consume(at, seed), administer(at, seed));
}

/// Bytes of this process in memory, where the system reports them.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

fn open_descriptors() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

/// Panics of any thread, for a task's is kept from whoever waits for it.
fn watch_panics() -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (noted, usual) = (Arc::clone(&seen), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        noted.lock().unwrap().push(info.to_string());
        usual(info);
    }));
    seen
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn whatever_a_broker_answers_each_call_ends_and_nothing_is_left() {
    let panics = watch_panics();
    if let Some(seed) = std::env::var("OTTLA_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        runtime().block_on(one(seed));
        assert_eq!(*panics.lock().unwrap(), [""; 0], "seed {seed}");
        return;
    }
    let runtime = runtime();
    runtime.block_on(one(0));
    let before = (resident(), open_descriptors());
    let failed: Vec<(u64, String)> = runtime.block_on(async {
        let (mut running, mut failed) = (JoinSet::new(), Vec::new());
        let mut seeds = 1..=SEEDS;
        let next = Arc::new(AtomicUsize::new(0));
        loop {
            while running.len() < AT_ONCE {
                let Some(seed) = seeds.next() else { break };
                let next = Arc::clone(&next);
                running.spawn(async move {
                    let ended = tokio::spawn(one(seed)).await;
                    next.fetch_add(1, Ordering::Relaxed);
                    ended.err().map(|cause| (seed, cause.to_string()))
                });
            }
            match running.join_next().await {
                Some(ended) => failed.extend(ended.unwrap()),
                None => break,
            }
        }
        assert_eq!(next.load(Ordering::Relaxed) as u64, SEEDS);
        failed
    });
    assert_eq!(failed, [], "seeds that failed, and how");
    let seen = panics.lock().unwrap().clone();
    if !seen.is_empty() {
        // One after the other, to find whose it was.
        let guilty = (1..=SEEDS).find(|seed| {
            runtime.block_on(one(*seed));
            panics.lock().unwrap().len() > seen.len()
        });
        panic!("something panicked (seed {guilty:?}): {seen:?}");
    }
    // Tasks that have to end do so now, and need a moment.
    runtime.block_on(async {
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if open_descriptors() <= before.1.map(|before| before + MORE_DESCRIPTORS) {
                break;
            }
        }
    });
    if let (Some(before), Some(after)) = (before.0, resident()) {
        let grown = after.saturating_sub(before);
        assert!(grown < MOST_LEFT, "{} MiB were left", grown >> 20);
    }
    if let (Some(before), Some(after)) = (before.1, open_descriptors()) {
        assert!(
            after <= before + MORE_DESCRIPTORS,
            "{before} descriptors before, {after} after"
        );
    }
}
