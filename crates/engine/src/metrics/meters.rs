//! The measured values: sensors, and gauges that the parts of a client set just before they are
//! read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ApiKey;
use rustc_hash::FxHashMap;

use super::notes::{Answered, BatchSize, MOST, Note, Progress};
use super::sensor::{Reading, Sensor, Window};
use crate::config::Config;

/// Everything that one client measures.
#[derive(Debug)]
pub(crate) struct Meters {
    window: Window,
    /// When the current step of the engine began.
    step: Option<Instant>,
    /// Those that no sensor has taken in, in the order in which they came.
    notes: Vec<(Instant, Note)>,
    pub(crate) app: App,
    pub(crate) network: Network,
    pub(crate) nodes: BTreeMap<i32, Node>,
    pub(crate) sending: Sending,
    pub(crate) sent_topics: FxHashMap<Arc<str>, SentTopic>,
    pub(crate) polling: Polling,
    pub(crate) fetching: Fetching,
    pub(crate) coordinating: Coordinating,
    pub(crate) sharing: Sharing,
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
    /// The bytes of each request that got a response, or that was written and gets none.
    pub(crate) sent: Sensor,
    /// The bytes of each response.
    pub(crate) received: Sensor,
    /// The throttle time of each response in milliseconds.
    pub(crate) throttle: Sensor,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    /// When the metadata in use was requested.
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

/// Batches in flight.
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
    /// Nanoseconds that callers waited for buffer space, for a topic's partitions, and in flushes.
    pub(crate) waited_for_room: Sensor,
    pub(crate) waited_for_topics: Sensor,
    pub(crate) flushed: Sensor,
    /// Nanoseconds that callers spent in the verbs of transactions.
    pub(crate) initialised: Sensor,
    pub(crate) began: Sensor,
    pub(crate) sent_offsets: Sensor,
    pub(crate) prepared: Sensor,
    pub(crate) committed: Sensor,
    pub(crate) aborted: Sensor,
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

/// The polls of callers.
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
    /// The bytes of records in each response that had any.
    pub(crate) size: Sensor,
    /// Milliseconds of each Fetch.
    pub(crate) latency: Sensor,
    /// Records that were handed out.
    pub(crate) records: Sensor,
    pub(crate) bytes: Sensor,
    pub(crate) lag: Sensor,
    pub(crate) lead: Sensor,
}

/// The work of a group's member with its coordinator and its listeners; times are milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Coordinating {
    pub(crate) heartbeat: Sensor,
    pub(crate) join: Sensor,
    pub(crate) sync: Sensor,
    pub(crate) commit: Sensor,
    /// When the last heartbeat that got a response was sent.
    pub(crate) beat: Option<Instant>,
    pub(crate) rebalance: Sensor,
    /// When the last rebalance ended well.
    pub(crate) rebalanced: Option<Instant>,
    pub(crate) failed: Sensor,
    /// The time that listeners took to handle partitions.
    pub(crate) assigned: Sensor,
    pub(crate) revoked: Sensor,
    pub(crate) lost: Sensor,
    /// How many are owned.
    pub(crate) partitions: usize,
}

/// Acquired records, and their acknowledgements, in a share group.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// The records of each response.
    pub(crate) records_of_request: Sensor,
    pub(crate) acknowledged: Sensor,
    pub(crate) refused: Sensor,
}

/// The records read of one topic.
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

/// Finds the meters of a topic, or begins them. Its name is cloned for new ones only.
fn of_topic<M: Default>(
    all: &mut FxHashMap<Arc<str>, M>,
    topic: &Arc<str>,
    record: impl FnOnce(&mut M),
) {
    match all.get_mut(topic) {
        Some(meters) => record(meters),
        None => record(all.entry(Arc::clone(topic)).or_default()),
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
            notes: Vec::new(),
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
            coordinating: Coordinating::default(),
            sharing: Sharing::default(),
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

    /// The moment of the current step.
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
        self.note(now, Note::Asked { node });
    }

    /// A request got its response.
    pub(crate) fn answered(&mut self, now: Instant, answered: Answered) {
        self.note(now, Note::Answered(answered));
    }

    /// A response has a throttle time, or none.
    pub(crate) fn throttled(&mut self, now: Instant, pause: Option<Duration>) {
        let pause = pause.unwrap_or_default();
        self.note(now, Note::Throttled { pause });
    }

    /// A request was written, and gets no response.
    pub(crate) fn written(&mut self, now: Instant, node: i32, bytes: usize) {
        self.note(now, Note::Written { node, bytes });
    }

    /// A batch was given to a connection. `since` is when its first record came, if this is its first attempt.
    pub(crate) fn batch_sent(&mut self, topic: &Arc<str>, records: u32, since: Option<Instant>) {
        let topic = Arc::clone(topic);
        self.note_step(Note::BatchSent {
            topic,
            records,
            since,
        });
    }

    /// A Produce with this many records was given to a connection.
    pub(crate) fn produce_sent(&mut self, records: u32) {
        self.note_step(Note::ProduceSent { records });
    }

    /// A batch got its response, or needs none.
    pub(crate) fn batch_answered(&mut self, topic: &Arc<str>, size: BatchSize) {
        let topic = Arc::clone(topic);
        self.note_step(Note::BatchAnswered { topic, size });
    }

    /// This many records will be sent again.
    pub(crate) fn batch_retried(&mut self, topic: &Arc<str>, records: u32) {
        let Some(at) = self.moment() else { return };
        self.sending.retries.record(&at, f64::from(records));
        self.of_sent(topic, |topic| {
            topic.retries.record(&at, f64::from(records));
        });
    }

    /// This many records were abandoned.
    pub(crate) fn batch_failed(&mut self, topic: Option<&str>, records: u32) {
        let Some(at) = self.moment() else { return };
        self.sending.errors.record(&at, f64::from(records));
        if let Some(topic) = topic {
            self.of_sent(&topic.into(), |topic| {
                topic.errors.record(&at, f64::from(records));
            });
        }
    }

    /// A batch became two.
    pub(crate) fn batch_split(&mut self) {
        let Some(at) = self.moment() else { return };
        self.sending.splits.count(&at);
    }

    /// A Fetch brought records of these topics, in bytes.
    pub(crate) fn fetched(&mut self, now: Instant, topics: &[(Arc<str>, usize)]) {
        let bytes: usize = topics.iter().map(|(_, bytes)| bytes).sum();
        if bytes > 0 {
            self.note(now, Note::Fetched { bytes });
        }
        for (topic, bytes) in topics {
            let (topic, bytes) = (Arc::clone(topic), *bytes);
            self.note(now, Note::TopicFetched { topic, bytes });
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
        let topic = Arc::clone(topic);
        self.note(
            now,
            Note::HandedOut {
                topic,
                records,
                bytes,
            },
        );
    }

    /// A poll returned records of a share group.
    pub(crate) fn shared_out(&mut self, now: Instant, records: usize, bytes: usize) {
        let at = self.at(now);
        self.fetching.records.record(&at, records as f64);
        self.fetching.bytes.record(&at, bytes as f64);
    }

    /// A response had records that were acquired, in this many bytes.
    pub(crate) fn acquired(&mut self, now: Instant, records: u64, bytes: usize) {
        if records > 0 {
            let at = self.at(now);
            self.fetching.size.record(&at, bytes as f64);
            let sensor = &mut self.sharing.records_of_request;
            sensor.record(&at, records as f64);
        }
    }

    /// Brokers have handled the acknowledgements of this many records, or will not.
    pub(crate) fn acknowledged(&mut self, records: u64, counts: bool) {
        let Some(at) = self.moment() else { return };
        self.sharing.acknowledged.record(&at, records as f64);
        if !counts {
            self.sharing.refused.record(&at, records as f64);
        }
    }

    /// A rebalance ended well.
    pub(crate) fn rebalanced(&mut self, now: Instant, took: Duration) {
        let at = self.at(now);
        self.coordinating.rebalance.record(&at, millis(took));
        self.coordinating.rebalanced = Some(now);
    }

    /// An attempt to join, or to get the assignment, failed.
    pub(crate) fn rebalance_failed(&mut self, now: Instant) {
        let at = self.at(now);
        self.coordinating.failed.count(&at);
    }

    /// A step of a member took this long.
    pub(crate) fn coordinated(
        &mut self,
        now: Instant,
        took: Duration,
        sensor: impl FnOnce(&mut Coordinating) -> &mut Sensor,
    ) {
        let at = self.at(now);
        sensor(&mut self.coordinating).record(&at, millis(took));
    }

    /// Records something of a topic that is sent to.
    pub(super) fn of_sent(&mut self, topic: &Arc<str>, record: impl FnOnce(&mut SentTopic)) {
        of_topic(&mut self.sent_topics, topic, record);
    }

    /// Records something of a topic that is read.
    pub(super) fn of_read(&mut self, topic: &Arc<str>, record: impl FnOnce(&mut ReadTopic)) {
        of_topic(&mut self.read_topics, topic, record);
    }

    /// The position of a partition moved on.
    pub(crate) fn moved_to(
        &mut self,
        now: Instant,
        (topic, partition): (&Arc<str>, i32),
        to: Progress,
    ) {
        let topic = Arc::clone(topic);
        self.note(
            now,
            Note::Moved {
                topic,
                partition,
                to,
            },
        );
    }

    /// All assigned partitions whose position is known: the gauges of the others are gone.
    pub(crate) fn read_partitions(
        &mut self,
        known: impl Iterator<Item = ((Arc<str>, i32), Progress)>,
    ) {
        self.take_in();
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
        let ended = self.polling.ended.take();
        if let Some(before) = self.polling.began.replace(now) {
            let after = now.saturating_duration_since(before);
            let inside = ended.map_or(after, |end| end.saturating_duration_since(before));
            self.note(now, Note::Polled { after, inside });
        }
    }

    /// The poll returned.
    pub(crate) fn poll_ended(&mut self, now: Instant) {
        self.polling.ended = Some(now);
    }

    /// Leaves a note for the sensors.
    #[inline]
    fn note(&mut self, now: Instant, note: Note) {
        self.notes.push((now, note));
        if self.notes.len() >= MOST {
            self.take_in();
        }
    }

    /// Appends a note of the current step.
    #[inline]
    fn note_step(&mut self, note: Note) {
        if let Some(now) = self.step {
            self.note(now, note);
        }
    }

    /// Gives all notes to the sensors.
    #[cold]
    pub(super) fn take_in(&mut self) {
        let mut notes = std::mem::take(&mut self.notes);
        for (now, note) in notes.drain(..) {
            let at = self.at(now);
            self.record(&at, &note);
        }
        // Their memory is used again.
        self.notes = notes;
    }

    fn record(&mut self, at: &Reading, note: &Note) {
        match note {
            Note::Asked { node } => {
                self.network.requests.count(at);
                self.node(*node).requests.count(at);
            }
            Note::Answered(answered) => self.record_answered(at, answered),
            Note::Written { node, bytes } => {
                self.network.sent.record(at, *bytes as f64);
                self.node(*node).sent.record(at, *bytes as f64);
            }
            Note::Throttled { pause } => self.network.throttle.record(at, millis(*pause)),
            Note::BatchSent {
                topic,
                records,
                since,
            } => {
                let records = f64::from(*records);
                self.sending.records.record(at, records);
                if let Some(since) = since {
                    let queued = at.now.saturating_duration_since(*since);
                    self.sending.queued.record(at, millis(queued));
                }
                self.of_sent(topic, |topic| topic.records.record(at, records));
            }
            Note::ProduceSent { records } => {
                let sensor = &mut self.sending.records_of_request;
                sensor.record(at, f64::from(*records));
            }
            Note::BatchAnswered { topic, size } => self.record_batch(at, topic, size),
            Note::Fetched { bytes } => self.fetching.size.record(at, *bytes as f64),
            Note::TopicFetched { topic, bytes } => {
                self.of_read(topic, |topic| topic.size.record(at, *bytes as f64));
            }
            Note::HandedOut {
                topic,
                records,
                bytes,
            } => {
                let (records, bytes) = (*records as f64, *bytes as f64);
                self.fetching.records.record(at, records);
                self.fetching.bytes.record(at, bytes);
                self.of_read(topic, |topic| {
                    topic.records.record(at, records);
                    topic.bytes.record(at, bytes);
                });
            }
            Note::Moved {
                topic,
                partition,
                to,
            } => self.record_move(at, (Arc::clone(topic), *partition), *to),
            Note::Polled { after, inside } => {
                self.polling.between.record(at, millis(*after));
                if !after.is_zero() {
                    let part = inside.as_secs_f64() / after.as_secs_f64();
                    self.polling.idle.record(at, part);
                }
            }
        }
    }

    fn record_answered(&mut self, at: &Reading, answered: &Answered) {
        let (sent, received) = answered.sizes;
        self.network.sent.record(at, sent as f64);
        self.network.received.record(at, received as f64);
        let took = millis(answered.took);
        match answered.api {
            ApiKey::Produce => self.sending.latency.record(at, took),
            ApiKey::Fetch | ApiKey::ShareFetch => self.fetching.latency.record(at, took),
            ApiKey::Heartbeat | ApiKey::ConsumerGroupHeartbeat | ApiKey::ShareGroupHeartbeat => {
                self.coordinating.heartbeat.record(at, took);
                self.coordinating.beat = at.now.checked_sub(answered.took);
            }
            ApiKey::JoinGroup => self.coordinating.join.record(at, took),
            ApiKey::SyncGroup => self.coordinating.sync.record(at, took),
            ApiKey::OffsetCommit => self.coordinating.commit.record(at, took),
            _ => {}
        }
        let node = self.node(answered.node);
        node.sent.record(at, sent as f64);
        node.received.record(at, received as f64);
        node.latency.record(at, took);
    }

    fn record_batch(&mut self, at: &Reading, topic: &Arc<str>, batch: &BatchSize) {
        let (wire, plain) = (batch.wire as f64, batch.plain as f64);
        self.sending.batch.record(at, wire);
        self.sending.compression.record(at, wire / plain);
        let largest = batch.largest_record as f64;
        self.sending.record_size.record(at, largest);
        self.of_sent(topic, |topic| {
            topic.bytes.record(at, wire);
            topic.compression.record(at, wire / plain);
        });
    }

    fn record_move(&mut self, at: &Reading, partition: (Arc<str>, i32), to: Progress) {
        let meters = self.partitions.entry(partition).or_default();
        if let Some(lag) = to.lag() {
            meters.lag.record(at, lag as f64);
            self.fetching.lag.record(at, lag as f64);
        }
        if let Some(lead) = to.lead() {
            meters.lead.record(at, lead as f64);
            self.fetching.lead.record(at, lead as f64);
        }
    }

    fn node(&mut self, node: i32) -> &mut Node {
        self.nodes.entry(node).or_default()
    }
}
