//! Connections that come and go by the thousand, against the embedded broker: nothing is lost, and nothing is left behind, be it a
//! thread, a descriptor or memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test; the lint's own exception covers only functions marked as one"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the forwarder and the stopwatch are the test's own"
)]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ottla_broker::{Broker, BrokerConfig};
use ottla_client::verbs::cluster::DescribeCluster;
use ottla_client::{
    Admin, Chunk, Config, Consumer, Decode, Error, Fetched, NoHeaders, Producer, Role, Row, Start,
    Threads,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};

const TIMES: usize = 1000;
const BOUND: Duration = Duration::from_secs(90);
const SOON: Option<Duration> = Some(Duration::from_secs(20));
const MOST_LEFT: usize = 48 << 20;

/// What is counted belongs to the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn run(test: impl Future<Output = ()>) {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async { tokio::time::timeout(BOUND, test).await.expect("it hangs") });
}

/// Threads, descriptors and bytes in memory of this process, where the system reports them.
#[derive(Clone, Copy, Debug)]
struct Held {
    threads: usize,
    descriptors: usize,
    resident: usize,
}

fn held() -> Option<Held> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let number = |name: &str| -> Option<usize> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some(Held {
        threads: number("Threads:")?,
        descriptors: std::fs::read_dir("/proc/self/fd").ok()?.count(),
        resident: number("VmRSS:")? << 10,
    })
}

/// Waits until what was held `before` is all that is held; sockets and tasks take a moment to end, and threads for what blocks are
/// kept for 10 s after their last use.
async fn nothing_is_left(before: Option<Held>) {
    let Some(before) = before else { return };
    let mut after = before;
    for _ in 0..300 {
        after = held().unwrap();
        let few = after.descriptors <= before.descriptors + 4;
        if few && after.threads <= before.threads + 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(
        after.descriptors <= before.descriptors + 4
            && after.threads <= before.threads + 1
            && after.resident < before.resident + MOST_LEFT,
        "{before:?} before, {after:?} after"
    );
}

async fn broker() -> Broker {
    let config = BrokerConfig {
        topics: vec![("t".to_owned(), 2)],
        ..Default::default()
    };
    Broker::start(config).await.unwrap()
}

fn settings(role: Role, bootstrap: &str, more: &[(&str, &str)]) -> Config {
    let pairs = [("bootstrap.servers", bootstrap)];
    Config::parse(role, pairs.into_iter().chain(more.iter().copied())).unwrap()
}

/// Keeps which offsets were read, by partition.
#[derive(Clone, Default)]
struct Reading(Arc<Mutex<BTreeSet<(i32, i64)>>>);

#[derive(Debug)]
struct Span(i64, i64);

impl Decode for Reading {
    type Chunk = Span;

    fn decode(&self, fetched: &Fetched) -> Result<Span, Error> {
        let mut read = self.0.lock().unwrap();
        read.extend((fetched.fetch_offset..fetched.next_offset).map(|at| (fetched.partition, at)));
        Ok(Span(fetched.fetch_offset, fetched.next_offset))
    }
}

impl Chunk for Span {
    fn len(&self) -> usize {
        usize::try_from(self.1 - self.0).unwrap()
    }
    fn split_to(&mut self, length: usize) -> Span {
        let head = self.slice(0, length);
        self.0 = head.1;
        head
    }
    fn slice(&self, start: usize, length: usize) -> Span {
        let start = self.offset(start);
        Span(start, start + i64::try_from(length).unwrap())
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

fn row(value: &[u8]) -> Row<'_, NoHeaders<'_>> {
    Row::new(None, Some(value))
}

/// A client of each kind in turn, which does something and is closed.
async fn come_and_go(number: usize, bootstrap: &str) {
    let threads = Threads::current();
    match number % 3 {
        0 => {
            let admin = Admin::new(settings(Role::Admin, bootstrap, &[]), &threads, None).unwrap();
            let cluster = admin.run(DescribeCluster::default(), SOON).await.unwrap();
            assert_eq!(cluster.nodes.len(), 1);
            admin.close(SOON).await.unwrap();
        }
        1 => {
            let config = settings(Role::Producer, bootstrap, &[]);
            let producer = Producer::new(config, &threads, None).unwrap();
            let delivery = producer.send("t", &row(b"value"), SOON).await.unwrap();
            delivery.wait(SOON).await.unwrap();
            producer.close(SOON).await.unwrap();
        }
        _ => {
            let config = settings(Role::Consumer, bootstrap, &[]);
            let consumer = Consumer::new(config, Reading::default(), &threads, None).unwrap();
            let start = [("t".into(), 0, Start::Beginning)];
            consumer.assign(start).unwrap();
            let polled = consumer.poll(Duration::from_millis(5), None).await;
            polled.unwrap();
            consumer.close(SOON).await.unwrap();
        }
    }
}

#[test]
fn a_thousand_clients_leave_nothing_behind() {
    run(async {
        let broker = broker().await;
        let bootstrap = broker.address().to_string();
        for number in 0..60 {
            come_and_go(number, &bootstrap).await;
        }
        let before = held();
        for number in 0..TIMES {
            come_and_go(number, &bootstrap).await;
        }
        nothing_is_left(before).await;
        broker.stop().await.unwrap();
    });
}

/// Forwards connections to a broker, and cuts all of them again and again.
struct Forwarder {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Forwarder {
    async fn start(to: SocketAddr, times: usize) -> Forwarder {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            let mut cut = tokio::time::interval(Duration::from_millis(15));
            loop {
                tokio::select! {
                    stream = listener.accept() => {
                        let (mut near, _) = stream.unwrap();
                        count.fetch_add(1, Ordering::Relaxed);
                        open.spawn(async move {
                            let mut far = TcpStream::connect(to).await?;
                            tokio::io::copy_bidirectional(&mut near, &mut far).await
                        });
                    }
                    _ = cut.tick() => {
                        if count.load(Ordering::Relaxed) < times {
                            open.abort_all();
                        }
                        while open.try_join_next().is_some() {}
                    }
                }
            }
        });
        Forwarder {
            address,
            accepted,
            task,
        }
    }
}

/// Waits as a thread of Python does: it sleeps until it is woken.
fn wait<F: Future>(future: F) -> F::Output {
    struct Awaiting(Thread, AtomicBool);
    impl Wake for Awaiting {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Ordering::Release);
            self.0.unpark();
        }
    }
    let awaiting = Arc::new(Awaiting(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&awaiting));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        while !awaiting.1.swap(false, Ordering::AcqRel) {
            thread::park_timeout(Duration::from_secs(1));
        }
    }
}

/// Sends one record at a time, each with its delivery result before the next, as long as `goes_on`
/// is true; their partitions and offsets.
fn send_one_by_one(producer: &Producer, goes_on: impl Fn(usize) -> bool) -> Vec<(i32, i64)> {
    let mut sent = Vec::new();
    while goes_on(sent.len()) {
        let delivery = wait(producer.send("t", &row(b"one"), SOON)).unwrap();
        let done = wait(delivery.wait(SOON)).unwrap();
        sent.push((done.partition, done.offset));
    }
    sent
}

#[test]
fn threads_that_wait_get_each_its_own_answers() {
    const EACH: usize = 3000;
    run(async {
        let broker = broker().await;
        let config = settings(Role::Producer, &broker.address().to_string(), &[]);
        let producer = Arc::new(Producer::new(config, &Threads::current(), None).unwrap());
        let mut threads = JoinSet::new();
        for _ in 0..3 {
            let producer = Arc::clone(&producer);
            threads.spawn_blocking(move || send_one_by_one(&producer, |sent| sent < EACH));
        }
        let mut all = BTreeSet::new();
        for sent in threads.join_all().await {
            for partition in [0, 1] {
                let of_it = sent.iter().filter(|(of, _)| *of == partition);
                assert!(of_it.is_sorted(), "a thread's records are in its order");
            }
            all.extend(sent);
        }
        assert_eq!(all.len(), 3 * EACH);
        for partition in [0, 1] {
            let offsets: Vec<_> = all.iter().filter(|(of, _)| *of == partition).collect();
            let counted = (0..).zip(&offsets);
            assert!(counted.into_iter().all(|(at, (_, offset))| at == *offset));
        }
        producer.close(SOON).await.unwrap();
        broker.stop().await.unwrap();
    });
}

/// Sends until there were enough connections; the partitions and offsets of what was sent.
async fn send_meanwhile(producer: &Producer, forwarder: &Forwarder) -> Vec<(i32, i64)> {
    let (mut sent, mut pending) = (Vec::new(), Vec::new());
    let mut number = 0_u64;
    while forwarder.accepted.load(Ordering::Relaxed) < TIMES {
        let value = number.to_be_bytes();
        pending.push(producer.send("t", &row(&value), SOON).await.unwrap());
        number += 1;
        if number.is_multiple_of(64) {
            for delivery in pending.drain(..) {
                let done = delivery.wait(SOON).await.unwrap();
                sent.push((done.partition, done.offset));
            }
        }
    }
    for delivery in pending {
        let done = delivery.wait(SOON).await.unwrap();
        sent.push((done.partition, done.offset));
    }
    sent
}

#[test]
fn a_thousand_reconnects_under_load_lose_nothing_and_leave_nothing_behind() {
    run(async {
        let broker = broker().await;
        let threads = Threads::current();
        come_and_go(1, &broker.address().to_string()).await;
        let before = held();
        let forwarder = Forwarder::start(broker.address(), TIMES).await;
        // The broker advertises its own address, and is still reached through the forwarder.
        let bootstrap = broker.address().to_string();
        let map = format!("{bootstrap}={}", forwarder.address);
        let quick = [
            ("address.map", map.as_str()),
            ("reconnect.backoff.ms", "1"),
            ("reconnect.backoff.max.ms", "5"),
            ("retry.backoff.ms", "1"),
            ("retry.backoff.max.ms", "10"),
        ];
        let reading = Reading::default();
        let config = settings(Role::Consumer, &bootstrap, &quick);
        let consumer = Consumer::new(config, reading.clone(), &threads, None).unwrap();
        let starts = [0, 1].map(|partition| ("t".into(), partition, Start::Beginning));
        consumer.assign(starts).unwrap();
        let polling = tokio::spawn({
            let consumer = consumer.clone();
            async move {
                // An error means that a broker is away for the moment.
                while consumer
                    .poll(Duration::from_millis(100), None)
                    .await
                    .map_or_else(|error| error.kind() != ottla_client::Kind::Closed, |_| true)
                {
                }
            }
        });
        let config = settings(Role::Producer, &bootstrap, &quick);
        let producer = Arc::new(Producer::new(config, &threads, None).unwrap());
        let (waiting, accepted) = (Arc::clone(&producer), Arc::clone(&forwarder.accepted));
        let goes_on = move |_| accepted.load(Ordering::Relaxed) < TIMES;
        let waiting = tokio::task::spawn_blocking(move || send_one_by_one(&waiting, goes_on));
        let mut sent = send_meanwhile(&producer, &forwarder).await;
        sent.extend(waiting.await.unwrap());
        producer.close(SOON).await.unwrap();
        // The producer is idempotent: no record twice, no offset for two, none between them that nobody sent.
        let distinct: BTreeSet<_> = sent.iter().copied().collect();
        assert_eq!(distinct.len(), sent.len());
        let deadline = Instant::now() + Duration::from_secs(20);
        let all = loop {
            let read = reading.0.lock().unwrap().clone();
            if read.is_superset(&distinct) || Instant::now() > deadline {
                break read;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(all.is_superset(&distinct), "records were not read");
        // The one record of the warm-up is the only other.
        assert!(all.len() <= distinct.len() + 1);
        assert!(forwarder.accepted.load(Ordering::Relaxed) >= TIMES);
        consumer.close(SOON).await.unwrap();
        polling.await.unwrap();
        drop((forwarder, producer, consumer, reading, sent, distinct, all));
        nothing_is_left(before).await;
        broker.stop().await.unwrap();
    });
}
