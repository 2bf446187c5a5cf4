//! What is measured: sensors, and gauges that the parts of a client set just before somebody reads them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ApiKey;
use rustc_hash::FxHashMap;

use super::sensor::{Reading, Sensor, Window};
use crate::config::Config;

/// Everything that one client measures.
#[derive(Debug)]
pub(crate) struct Meters {
    window: Window,
    /// When the step of the engine began that is under way.
    step: Option<Instant>,
    pub(crate) app: App,
    pub(crate) network: Network,
    pub(crate) nodes: BTreeMap<i32, Node>,
    pub(crate) sending: Sending,
    pub(crate) sent_topics: FxHashMap<Arc<str>, SentTopic>,
    pub(crate) polling: Polling,
    pub(crate) fetching: Fetching,
    pub(crate) read_topics: FxHashMap<Arc<str>, ReadTopic>,
    pub(crate) partitions: BTreeMap<(Arc<str>, i32), Partition>,
}

/// The client itself.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// When it began, in ms since 1970 UTC.
    pub(crate) started_ms: Option<f64>,
}

/// Connections and requests.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) opened: Sensor,
    pub(crate) closed: Sensor,
    pub(crate) authenticated: Sensor,
    pub(crate) refused: Sensor,
    /// Milliseconds that each authentication took of a connection that had authenticated before.
    pub(crate) renewed: Sensor,
    pub(crate) not_renewed: Sensor,
    pub(crate) requests: Sensor,
    /// The bytes of each request that was answered, or that was written and has no answer.
    pub(crate) sent: Sensor,
    /// The bytes of each answer.
    pub(crate) received: Sensor,
    /// Milliseconds that each answer asked to pause.
    pub(crate) throttle: Sensor,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    /// When the view of the cluster was requested that is in use.
    pub(crate) view_of: Option<Instant>,
    /// Metrics of the snapshot that is being made.
    pub(crate) metrics: usize,
}

/// The requests to one broker.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) requests: Sensor,
    pub(crate) sent: Sensor,
    pub(crate) received: Sensor,
    /// Milliseconds.
    pub(crate) latency: Sensor,
}

/// Batches on their way.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// The records of each batch that was given to a connection.
    pub(crate) records: Sensor,
    /// The records of each request.
    pub(crate) records_of_request: Sensor,
    /// The bytes of each batch on the wire.
    pub(crate) batch: Sensor,
    /// The bytes of each batch on the wire, by those before compression.
    pub(crate) compression: Sensor,
    /// The largest record of each batch, in bytes.
    pub(crate) record_size: Sensor,
    /// Milliseconds from a batch's first record to its first attempt.
    pub(crate) queued: Sensor,
    /// Milliseconds of each Produce.
    pub(crate) latency: Sensor,
    pub(crate) retries: Sensor,
    pub(crate) errors: Sensor,
    pub(crate) splits: Sensor,
    pub(crate) exhausted: Sensor,
    /// Nanoseconds that callers waited for room, for a topic's partitions, and in flushes.
    pub(crate) waited_for_room: Sensor,
    pub(crate) waited_for_topics: Sensor,
    pub(crate) flushed: Sensor,
    pub(crate) waiting: usize,
    pub(crate) buffer: usize,
    pub(crate) buffer_used: usize,
}

/// Batches of one topic.
#[derive(Debug, Default)]
pub(crate) struct SentTopic {
    pub(crate) records: Sensor,
    pub(crate) bytes: Sensor,
    pub(crate) compression: Sensor,
    pub(crate) retries: Sensor,
    pub(crate) errors: Sensor,
}

/// The calls of whoever reads.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    /// Milliseconds from the beginning of a poll to that of the next.
    pub(crate) between: Sensor,
    /// The part of that time which was spent inside of the poll.
    pub(crate) idle: Sensor,
    pub(crate) began: Option<Instant>,
    ended: Option<Instant>,
}

/// Fetches and what came of them.
#[derive(Debug, Default)]
pub(crate) struct Fetching {
    /// The bytes of records in each answer that had any.
    pub(crate) size: Sensor,
    /// Milliseconds of each Fetch.
    pub(crate) latency: Sensor,
    /// Records that were handed out.
    pub(crate) records: Sensor,
    pub(crate) bytes: Sensor,
    pub(crate) lag: Sensor,
    pub(crate) lead: Sensor,
}

/// What was read of one topic.
#[derive(Debug, Default)]
pub(crate) struct ReadTopic {
    pub(crate) size: Sensor,
    pub(crate) records: Sensor,
    pub(crate) bytes: Sensor,
}

/// How far one assigned partition was read.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    pub(crate) lag: Sensor,
    pub(crate) lead: Sensor,
    pub(crate) latest_lag: Option<i64>,
    pub(crate) latest_lead: Option<i64>,
    pub(crate) replica: Option<i32>,
}

/// An answer, as far as it is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) node: i32,
    pub(crate) api: ApiKey,
    pub(crate) took: Duration,
    /// The bytes of the request, and of the answer.
    pub(crate) sizes: (usize, usize),
}

/// The size of a batch that was sent, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    pub(crate) wire: usize,
    /// Before compression.
    pub(crate) plain: usize,
    pub(crate) largest_record: usize,
}

/// Where one partition is read, and the log it is read from. A bound of the log is -1 if it is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) next: i64,
    pub(crate) begin: i64,
    pub(crate) end: i64,
    /// The broker that is read instead of the leader.
    pub(crate) replica: Option<i32>,
}

impl Progress {
    fn lag(self) -> Option<i64> {
        (self.end >= 0).then(|| self.end.saturating_sub(self.next).max(0))
    }

    fn lead(self) -> Option<i64> {
        (self.begin >= 0).then(|| self.next.saturating_sub(self.begin).max(0))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

impl Meters {
    pub(crate) fn new(config: &Config) -> Meters {
        Meters {
            window: Window {
                sample: config.metrics_sample_window,
                samples: config.metrics_num_samples,
            },
            step: None,
            app: App::default(),
            network: Network::default(),
            nodes: BTreeMap::new(),
            sending: Sending {
                buffer: config.buffer_memory,
                ..Sending::default()
            },
            sent_topics: FxHashMap::default(),
            polling: Polling::default(),
            fetching: Fetching::default(),
            read_topics: FxHashMap::default(),
            partitions: BTreeMap::new(),
        }
    }

    /// The moment at which something is recorded or read.
    pub(crate) fn at(&self, now: Instant) -> Reading {
        let window = self.window;
        Reading { now, window }
    }

    /// A step of the engine begins.
    pub(crate) fn step(&mut self, now: Instant) {
        self.step = Some(now);
    }

    /// The moment of the step that is under way.
    fn moment(&self) -> Option<Reading> {
        self.step.map(|now| self.at(now))
    }

    /// The client began at this time of day, in ns since 1970 UTC.
    pub(crate) fn set_started(&mut self, ns: u64) {
        self.app.started_ms = Some((ns / 1_000_000) as f64);
    }

    /// A connection authenticated again.
    pub(crate) fn renewed(&mut self, now: Instant, took: Duration) {
        let at = self.at(now);
        self.network.renewed.record(&at, millis(took));
    }

    /// A connection's authentication failed; `again` if it had authenticated before.
    pub(crate) fn refused(&mut self, now: Instant, again: bool) {
        let at = self.at(now);
        let network = &mut self.network;
        let sensor = if again {
            &mut network.not_renewed
        } else {
            &mut network.refused
        };
        sensor.count(&at);
    }

    /// How many connections there have been.
    pub(crate) fn connections_made(&self) -> f64 {
        self.network.opened.times()
    }

    /// A request was given to a connection to this broker.
    pub(crate) fn asked(&mut self, now: Instant, node: i32) {
        let at = self.at(now);
        self.network.requests.count(&at);
        self.nodes.entry(node).or_default().requests.count(&at);
    }

    /// A request was answered.
    pub(crate) fn answered(&mut self, now: Instant, answered: &Answered) {
        let at = self.at(now);
        let (sent, received) = answered.sizes;
        self.network.sent.record(&at, sent as f64);
        self.network.received.record(&at, received as f64);
        let took = millis(answered.took);
        match answered.api {
            ApiKey::Produce => self.sending.latency.record(&at, took),
            ApiKey::Fetch => self.fetching.latency.record(&at, took),
            _ => {}
        }
        let node = self.nodes.entry(answered.node).or_default();
        node.sent.record(&at, sent as f64);
        node.received.record(&at, received as f64);
        node.latency.record(&at, took);
    }

    /// An answer asked for a pause, or for none.
    pub(crate) fn throttled(&mut self, now: Instant, pause: Option<Duration>) {
        let at = self.at(now);
        let pause = millis(pause.unwrap_or_default());
        self.network.throttle.record(&at, pause);
    }

    /// A request was written, and needs no answer.
    pub(crate) fn written(&mut self, now: Instant, node: i32, bytes: usize) {
        let at = self.at(now);
        self.network.sent.record(&at, bytes as f64);
        let node = self.nodes.entry(node).or_default();
        node.sent.record(&at, bytes as f64);
    }

    /// A batch was given to a connection. `queued` is how long it waited for that, if this is its first attempt.
    pub(crate) fn batch_sent(&mut self, topic: &Arc<str>, records: u32, since: Option<Instant>) {
        let Some(at) = self.moment() else { return };
        self.sending.records.record(&at, f64::from(records));
        if let Some(since) = since {
            let queued = at.now.saturating_duration_since(since);
            self.sending.queued.record(&at, millis(queued));
        }
        let topic = self.sent_topic(topic);
        topic.records.record(&at, f64::from(records));
    }

    /// A Produce with so many records was given to a connection.
    pub(crate) fn produce_sent(&mut self, records: u32) {
        let Some(at) = self.moment() else { return };
        let sensor = &mut self.sending.records_of_request;
        sensor.record(&at, f64::from(records));
    }

    /// A batch was answered, or needs no answer.
    pub(crate) fn batch_answered(&mut self, topic: &Arc<str>, batch: &BatchSize) {
        let Some(at) = self.moment() else { return };
        let (wire, plain) = (batch.wire as f64, batch.plain as f64);
        self.sending.batch.record(&at, wire);
        self.sending.compression.record(&at, wire / plain);
        let largest = batch.largest_record as f64;
        self.sending.record_size.record(&at, largest);
        let topic = self.sent_topic(topic);
        topic.bytes.record(&at, wire);
        topic.compression.record(&at, wire / plain);
    }

    /// So many records will be sent again.
    pub(crate) fn batch_retried(&mut self, topic: &Arc<str>, records: u32) {
        let Some(at) = self.moment() else { return };
        self.sending.retries.record(&at, f64::from(records));
        let topic = self.sent_topic(topic);
        topic.retries.record(&at, f64::from(records));
    }

    /// So many records were given up.
    pub(crate) fn batch_failed(&mut self, topic: Option<&str>, records: u32) {
        let Some(at) = self.moment() else { return };
        self.sending.errors.record(&at, f64::from(records));
        if let Some(topic) = topic {
            let topic = self.sent_topic(&topic.into());
            topic.errors.record(&at, f64::from(records));
        }
    }

    /// A batch became two.
    pub(crate) fn batch_split(&mut self) {
        let Some(at) = self.moment() else { return };
        self.sending.splits.count(&at);
    }

    /// A Fetch brought records of these topics, in bytes.
    pub(crate) fn fetched(&mut self, now: Instant, topics: &[(Arc<str>, usize)]) {
        let at = self.at(now);
        let all: usize = topics.iter().map(|(_, bytes)| bytes).sum();
        if all > 0 {
            self.fetching.size.record(&at, all as f64);
        }
        for (topic, bytes) in topics {
            let topic = self.read_topic(topic);
            topic.size.record(&at, *bytes as f64);
        }
    }

    /// A poll returned records of a topic.
    pub(crate) fn handed_out(
        &mut self,
        now: Instant,
        topic: &Arc<str>,
        records: usize,
        bytes: usize,
    ) {
        let at = self.at(now);
        self.fetching.records.record(&at, records as f64);
        self.fetching.bytes.record(&at, bytes as f64);
        let topic = self.read_topic(topic);
        topic.records.record(&at, records as f64);
        topic.bytes.record(&at, bytes as f64);
    }

    /// The meters of a topic that is sent to.
    pub(crate) fn sent_topic(&mut self, topic: &Arc<str>) -> &mut SentTopic {
        self.sent_topics.entry(Arc::clone(topic)).or_default()
    }

    /// The meters of a topic that is read.
    pub(crate) fn read_topic(&mut self, topic: &Arc<str>) -> &mut ReadTopic {
        self.read_topics.entry(Arc::clone(topic)).or_default()
    }

    /// The position of a partition moved on.
    pub(crate) fn moved_to(&mut self, now: Instant, partition: (Arc<str>, i32), to: Progress) {
        let at = self.at(now);
        let meters = self.partitions.entry(partition).or_default();
        if let Some(lag) = to.lag() {
            meters.lag.record(&at, lag as f64);
            self.fetching.lag.record(&at, lag as f64);
        }
        if let Some(lead) = to.lead() {
            meters.lead.record(&at, lead as f64);
            self.fetching.lead.record(&at, lead as f64);
        }
    }

    /// All assigned partitions whose position is known: the gauges of the others are gone.
    pub(crate) fn read_partitions(
        &mut self,
        known: impl Iterator<Item = ((Arc<str>, i32), Progress)>,
    ) {
        let mut before = std::mem::take(&mut self.partitions);
        for (partition, progress) in known {
            let mut meters = before.remove(&partition).unwrap_or_default();
            meters.latest_lag = progress.lag();
            meters.latest_lead = progress.lead();
            meters.replica = progress.replica;
            self.partitions.insert(partition, meters);
        }
    }

    /// A caller polls.
    pub(crate) fn poll_began(&mut self, now: Instant) {
        let at = self.at(now);
        let Polling {
            between,
            idle,
            began,
            ended,
        } = &mut self.polling;
        if let Some(before) = began.replace(now) {
            let since = now.saturating_duration_since(before);
            between.record(&at, millis(since));
            let inside = ended.map_or(since, |end| end.saturating_duration_since(before));
            if !since.is_zero() {
                idle.record(&at, inside.as_secs_f64() / since.as_secs_f64());
            }
        }
        *ended = None;
    }

    /// The poll returned.
    pub(crate) fn poll_ended(&mut self, now: Instant) {
        self.polling.ended = Some(now);
    }
}
