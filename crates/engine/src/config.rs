//! The one table of properties: Kafka's own names, with kind, range, default, the clients it is for and a line of text.
//!
//! [`Config::parse`] goes from text to settings through this table and nothing else, defaults included. Documentation and
//! Python's typed dictionary are made from [`PROPERTIES`]. A property is listed only if it does something.

use std::fmt;
use std::time::Duration;

use ottla_protocol::compression::Compression;

/// The client that is being configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends records.
    Producer,
    /// Reads records.
    Consumer,
    /// Manages topics.
    Admin,
}

impl Role {
    /// The role in lower case, as used in messages and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Consumer => "consumer",
            Role::Admin => "admin",
        }
    }
}

/// The settings of one client. Which of them matter depends on the [`Role`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The client these settings are for.
    pub role: Role,
    /// Where to ask for the cluster's brokers: host and port.
    pub bootstrap: Vec<(String, u16)>,
    /// The name that brokers put in their logs and quotas.
    pub client_id: String,
    /// Brokers that must have a record before it counts as delivered: 0, 1, or -1 for all in sync.
    pub acks: i16,
    /// How long an open batch waits for more records; `None` is the adaptive default.
    pub linger: Option<Duration>,
    /// The size at which a batch is closed, in bytes before compression.
    pub batch_size: usize,
    /// The most bytes of records the producer holds.
    pub buffer_memory: usize,
    /// The codec of new batches.
    pub compression: Compression,
    /// The codec's level, if its property was given.
    pub compression_level: Option<i32>,
    /// The largest record, and the largest Produce request, in bytes before compression.
    pub max_request_size: usize,
    /// Whether batches carry a producer id and sequence numbers.
    pub idempotence: bool,
    /// Unanswered Produce requests per connection.
    pub max_in_flight: usize,
    /// From `send` to the end of a record's fate.
    pub delivery_timeout: Duration,
    /// How long one request waits for its answer.
    pub request_timeout: Duration,
    /// Repeated attempts of one batch.
    pub retries: u32,
    /// First pause before an attempt is repeated.
    pub retry_backoff: Duration,
    /// Longest pause before an attempt is repeated.
    pub retry_backoff_max: Duration,
    /// First pause before a broken connection is dialled again.
    pub reconnect_backoff: Duration,
    /// Longest pause before a broken connection is dialled again.
    pub reconnect_backoff_max: Duration,
    /// How long dialling and negotiating one connection may take at first.
    pub setup_timeout: Duration,
    /// How long dialling and negotiating one connection may take after several failures.
    pub setup_timeout_max: Duration,
    /// Age at which metadata is asked for again.
    pub metadata_max_age: Duration,
    /// How long a send may wait for room or for a topic's metadata.
    pub max_block: Duration,
    /// How unkeyed records choose a partition.
    pub partitioner: Partitioner,
    /// Bytes that a broker waits for before it answers a fetch.
    pub fetch_min_bytes: i32,
    /// Most bytes in the answer to one fetch.
    pub fetch_max_bytes: i32,
    /// Most bytes of one partition in the answer to one fetch.
    pub max_partition_fetch_bytes: i32,
    /// How long a broker waits for `fetch_min_bytes`.
    pub fetch_max_wait: Duration,
    /// Most records that one poll returns.
    pub max_poll_records: usize,
    /// Where to start without a position, or with one that is out of range.
    pub auto_offset_reset: OffsetReset,
    /// Whether records of open or aborted transactions are hidden.
    pub read_committed: bool,
    /// Whether checksums of batches are verified.
    pub check_crcs: bool,
    /// Fetched bytes that may wait to be polled.
    pub prefetch_max_bytes: usize,
    /// Bytes that one batch may decompress to.
    pub decompress_max_bytes: usize,
    /// Whether asking for an unknown topic may create it.
    pub allow_auto_create_topics: bool,
    /// Most bytes of one answer.
    pub receive_message_max: usize,
    /// Size of the socket's receive buffer; `None` leaves it to the system.
    pub receive_buffer: Option<usize>,
    /// Size of the socket's send buffer; `None` leaves it to the system.
    pub send_buffer: Option<usize>,
    /// Deadline of calls that are given none.
    pub default_api_timeout: Duration,
}

/// How unkeyed records choose a partition. Keyed records always go where Java's murmur2 puts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioner {
    /// One partition until its batch is closed, then the next.
    Sticky,
    /// The next partition for every record.
    RoundRobin,
}

/// Where to start without a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record there is.
    Earliest,
    /// After the last record there is.
    Latest,
    /// Nowhere: it is an error.
    None,
}

/// What a property's text may be, and where its value goes.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// `true` or `false`.
    Bool(fn(&mut Config, bool)),
    /// A whole number in a range. `unit` is empty, `bytes` or `ms`.
    Int {
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: i64,
        /// What is counted.
        unit: &'static str,
        /// Takes the value.
        set: fn(&mut Config, i64),
    },
    /// One of several words; `set` gets the word in lower case, which is one of `of`.
    Choice {
        /// The words allowed.
        of: &'static [&'static str],
        /// Takes the word.
        set: fn(&mut Config, &str),
    },
    /// Any text that `set` accepts; it says what it would have accepted.
    Text(fn(&mut Config, &str) -> Result<(), String>),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// Kafka's name, with dots.
    pub name: &'static str,
    /// The clients that know it.
    pub roles: &'static [Role],
    /// Kind, range and destination.
    pub value: Value,
    /// Default, as the text that would set it; `None` if being absent is a state of its own.
    pub default: Option<&'static str>,
    /// One line of documentation.
    pub doc: &'static str,
}

impl Property {
    /// The kind of value in a word: `bool`, `int`, `choice`, `text`.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Bool(_) => "bool",
            Value::Int { .. } => "int",
            Value::Choice { .. } => "choice",
            Value::Text(_) => "text",
        }
    }

    fn apply(&self, config: &mut Config, text: &str) -> Result<(), String> {
        let text = text.trim();
        match self.value {
            Value::Bool(set) => match text.to_ascii_lowercase().as_str() {
                "true" => set(config, true),
                "false" => set(config, false),
                _ => return Err("must be true or false".to_owned()),
            },
            Value::Int {
                min,
                max,
                unit,
                set,
            } => match text.parse::<i64>() {
                Ok(number) if (min..=max).contains(&number) => set(config, number),
                _ => {
                    let unit = if unit.is_empty() {
                        String::new()
                    } else {
                        format!(" {unit}")
                    };
                    return Err(format!("must be a whole number from {min} to {max}{unit}"));
                }
            },
            Value::Choice { of, set } => {
                let word = text.to_ascii_lowercase();
                if !of.contains(&word.as_str()) {
                    return Err(format!("must be one of {}", of.join(", ")));
                }
                set(config, &word);
            }
            Value::Text(set) => return set(config, text),
        }
        Ok(())
    }
}

/// A property that cannot be used as it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct ConfigError {
    /// The property, as the caller wrote it.
    pub key: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

const ALL: &[Role] = &[Role::Producer, Role::Consumer, Role::Admin];
const PRODUCER: &[Role] = &[Role::Producer];
const CONSUMER: &[Role] = &[Role::Consumer];

/// The longest duration a request can carry, in ms.
const MAX_MS: i64 = i32::MAX as i64;
const MAX_BYTES: i64 = i32::MAX as i64;

/// What the answer to a fetch may take beside its records.
const FETCH_OVERHEAD: usize = 1 << 20;

const fn bytes(min: i64, max: i64, set: fn(&mut Config, i64)) -> Value {
    Value::Int {
        min,
        max,
        unit: "bytes",
        set,
    }
}

const fn millis(min: i64, set: fn(&mut Config, i64)) -> Value {
    Value::Int {
        min,
        max: MAX_MS,
        unit: "ms",
        set,
    }
}

fn ms(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn int32(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Every property there is. Numbers that differ from Java's defaults are chosen for throughput: few large batches carry
/// three times as many records a second as many small ones.
pub static PROPERTIES: &[Property] = &[
    Property {
        name: "bootstrap.servers",
        roles: ALL,
        value: Value::Text(|c, text| {
            c.bootstrap = addresses(text)?;
            Ok(())
        }),
        default: None,
        doc: "Brokers to ask for all others: host:port, separated by commas. Required.",
    },
    Property {
        name: "client.id",
        roles: ALL,
        value: Value::Text(|c, text| {
            if text.len() > 249 {
                return Err("must be 249 bytes at most".to_owned());
            }
            text.clone_into(&mut c.client_id);
            Ok(())
        }),
        default: Some("ottla"),
        doc: "Name of this client in brokers' logs, metrics and quotas.",
    },
    Property {
        name: "security.protocol",
        roles: ALL,
        value: Value::Text(|_, text| match text.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => Ok(()),
            "SSL" | "SASL_PLAINTEXT" | "SASL_SSL" => Err(format!(
                "{text} is not supported by this version; only PLAINTEXT is"
            )),
            _ => Err("must be PLAINTEXT".to_owned()),
        }),
        default: Some("PLAINTEXT"),
        doc: "How to talk to brokers. Only PLAINTEXT for now; any other value is an error.",
    },
    Property {
        name: "request.timeout.ms",
        roles: ALL,
        value: millis(1, |c, v| c.request_timeout = ms(v)),
        default: Some("30000"),
        doc: "How long one request waits for its answer before its connection is given up.",
    },
    Property {
        name: "default.api.timeout.ms",
        roles: ALL,
        value: millis(1, |c, v| c.default_api_timeout = ms(v)),
        default: Some("60000"),
        doc: "Deadline of calls that are given no timeout.",
    },
    Property {
        name: "retry.backoff.ms",
        roles: ALL,
        value: millis(0, |c, v| c.retry_backoff = ms(v)),
        default: Some("100"),
        doc: "First pause before an attempt is repeated; it doubles, with 20 % jitter.",
    },
    Property {
        name: "retry.backoff.max.ms",
        roles: ALL,
        value: millis(0, |c, v| c.retry_backoff_max = ms(v)),
        default: Some("1000"),
        doc: "Longest pause before an attempt is repeated.",
    },
    Property {
        name: "reconnect.backoff.ms",
        roles: ALL,
        value: millis(0, |c, v| c.reconnect_backoff = ms(v)),
        default: Some("50"),
        doc: "First pause before a broken connection is dialled again; it doubles, with 20 % jitter.",
    },
    Property {
        name: "reconnect.backoff.max.ms",
        roles: ALL,
        value: millis(0, |c, v| c.reconnect_backoff_max = ms(v)),
        default: Some("1000"),
        doc: "Longest pause before a broken connection is dialled again.",
    },
    Property {
        name: "socket.connection.setup.timeout.ms",
        roles: ALL,
        value: millis(1, |c, v| c.setup_timeout = ms(v)),
        default: Some("10000"),
        doc: "How long a new connection may take to be ready for requests; it doubles with each failure.",
    },
    Property {
        name: "socket.connection.setup.timeout.max.ms",
        roles: ALL,
        value: millis(1, |c, v| c.setup_timeout_max = ms(v)),
        default: Some("30000"),
        doc: "The longest that a new connection may take to be ready for requests.",
    },
    Property {
        name: "metadata.max.age.ms",
        roles: ALL,
        value: millis(1, |c, v| c.metadata_max_age = ms(v)),
        default: Some("300000"),
        doc: "Age at which the view of the cluster is refreshed even if nothing seems to have changed.",
    },
    Property {
        name: "receive.message.max.bytes",
        roles: ALL,
        value: bytes(1 << 20, MAX_BYTES, |c, v| c.receive_message_max = size(v)),
        default: Some("104857600"),
        doc: "Most bytes of one answer; a broker that announces more is not read from any further.",
    },
    Property {
        name: "receive.buffer.bytes",
        roles: ALL,
        value: bytes(-1, MAX_BYTES, |c, v| {
            c.receive_buffer = usize::try_from(v).ok()
        }),
        default: Some("-1"),
        doc: "Size of the sockets' receive buffers; -1 leaves it to the system.",
    },
    Property {
        name: "send.buffer.bytes",
        roles: ALL,
        value: bytes(-1, MAX_BYTES, |c, v| {
            c.send_buffer = usize::try_from(v).ok()
        }),
        default: Some("-1"),
        doc: "Size of the sockets' send buffers; -1 leaves it to the system.",
    },
    Property {
        name: "acks",
        roles: PRODUCER,
        value: Value::Choice {
            of: &["all", "-1", "0", "1"],
            set: |c, word| {
                c.acks = match word {
                    "0" => 0,
                    "1" => 1,
                    _ => -1,
                }
            },
        },
        default: Some("all"),
        doc: "Replicas that must have a record before it counts as delivered.",
    },
    Property {
        name: "enable.idempotence",
        roles: PRODUCER,
        value: Value::Bool(|c, v| c.idempotence = v),
        default: Some("true"),
        doc: "Whether retries can never write a record twice or out of order. Off by itself if acks is given as 0 or 1.",
    },
    Property {
        name: "linger.ms",
        roles: PRODUCER,
        value: millis(0, |c, v| c.linger = Some(ms(v))),
        default: None,
        doc: "How long a batch waits for more records. Not given: it leaves at once when its broker owes no answer, else \
              when an answer comes, when it is full, or after 5 ms.",
    },
    Property {
        name: "batch.size",
        roles: PRODUCER,
        value: bytes(1, MAX_BYTES, |c, v| c.batch_size = size(v)),
        default: Some("1000000"),
        doc: "Size at which a batch is closed, before compression. A larger record has a batch of its own.",
    },
    Property {
        name: "buffer.memory",
        roles: PRODUCER,
        value: bytes(1, i64::MAX, |c, v| c.buffer_memory = size(v)),
        default: Some("67108864"),
        doc: "Most bytes of undelivered records. Above it a send waits for room.",
    },
    Property {
        name: "max.block.ms",
        roles: PRODUCER,
        value: millis(0, |c, v| c.max_block = ms(v)),
        default: Some("60000"),
        doc: "How long a send may wait for room, or for the metadata of a topic not used before.",
    },
    Property {
        name: "max.request.size",
        roles: PRODUCER,
        value: bytes(1, MAX_BYTES, |c, v| c.max_request_size = size(v)),
        default: Some("1048576"),
        doc: "Largest record and largest Produce request, before compression. Brokers have limits of their own.",
    },
    Property {
        name: "compression.type",
        roles: PRODUCER,
        value: Value::Choice {
            of: &["none", "gzip", "snappy", "lz4", "zstd"],
            set: |c, word| {
                c.compression = match word {
                    "gzip" => Compression::Gzip,
                    "snappy" => Compression::Snappy,
                    "lz4" => Compression::Lz4,
                    "zstd" => Compression::Zstd,
                    _ => Compression::None,
                }
            },
        },
        default: Some("none"),
        doc: "Codec of new batches.",
    },
    Property {
        name: "compression.gzip.level",
        roles: PRODUCER,
        value: level(1, 9, |c, v| set_level(c, Compression::Gzip, v)),
        default: None,
        doc: "Level of gzip, if that is the codec. Not given: 6.",
    },
    Property {
        name: "compression.lz4.level",
        roles: PRODUCER,
        value: level(1, 17, |c, v| set_level(c, Compression::Lz4, v)),
        default: None,
        doc: "Level of lz4, if that is the codec: 1 to 17. 9, Kafka's default, is fast; the others search slowly.",
    },
    Property {
        name: "compression.zstd.level",
        roles: PRODUCER,
        value: level(-131_072, 22, |c, v| set_level(c, Compression::Zstd, v)),
        default: None,
        doc: "Level of zstd, if that is the codec. Not given: 3.",
    },
    Property {
        name: "max.in.flight.requests.per.connection",
        roles: PRODUCER,
        value: Value::Int {
            min: 1,
            max: 1000,
            unit: "",
            set: |c, v| c.max_in_flight = size(v),
        },
        default: Some("5"),
        doc: "Unanswered Produce requests per connection; 5 at most with idempotence.",
    },
    Property {
        name: "delivery.timeout.ms",
        roles: PRODUCER,
        value: millis(1, |c, v| c.delivery_timeout = ms(v)),
        default: Some("120000"),
        doc: "Time from a send until its fate is known, retries included.",
    },
    Property {
        name: "retries",
        roles: PRODUCER,
        value: Value::Int {
            min: 0,
            max: i32::MAX as i64,
            unit: "",
            set: |c, v| c.retries = u32::try_from(v).unwrap_or(u32::MAX),
        },
        default: Some("2147483647"),
        doc: "How often a batch is sent again. delivery.timeout.ms is the better bound.",
    },
    Property {
        name: "partitioner",
        roles: PRODUCER,
        value: Value::Choice {
            of: &["sticky", "round_robin"],
            set: |c, word| {
                c.partitioner = if word == "sticky" {
                    Partitioner::Sticky
                } else {
                    Partitioner::RoundRobin
                };
            },
        },
        default: Some("sticky"),
        doc: "How records without key and partition are spread; keyed ones go where Java's murmur2 puts them.",
    },
    Property {
        name: "fetch.min.bytes",
        roles: CONSUMER,
        value: bytes(0, MAX_BYTES, |c, v| c.fetch_min_bytes = int32(v)),
        default: Some("1"),
        doc: "Bytes that a broker collects before it answers a fetch.",
    },
    Property {
        name: "fetch.max.bytes",
        roles: CONSUMER,
        value: bytes(1, MAX_BYTES, |c, v| c.fetch_max_bytes = int32(v)),
        default: Some("16777216"),
        doc: "Most bytes in the answer to one fetch. A batch that is larger comes all the same.",
    },
    Property {
        name: "max.partition.fetch.bytes",
        roles: CONSUMER,
        value: bytes(1, MAX_BYTES, |c, v| c.max_partition_fetch_bytes = int32(v)),
        default: Some("4194304"),
        doc: "Most bytes of one partition in the answer to one fetch. A batch that is larger comes all the same.",
    },
    Property {
        name: "fetch.max.wait.ms",
        roles: CONSUMER,
        value: millis(0, |c, v| c.fetch_max_wait = ms(v)),
        default: Some("500"),
        doc: "How long a broker waits for fetch.min.bytes.",
    },
    Property {
        name: "max.poll.records",
        roles: CONSUMER,
        value: Value::Int {
            min: 1,
            max: i32::MAX as i64,
            unit: "",
            set: |c, v| c.max_poll_records = size(v),
        },
        default: Some("100000"),
        doc: "Most records that one poll returns.",
    },
    Property {
        name: "prefetch.max.bytes",
        roles: CONSUMER,
        value: bytes(1, i64::MAX, |c, v| c.prefetch_max_bytes = size(v)),
        default: Some("33554432"),
        doc: "Fetched bytes, asked for or waiting to be polled, at which fetching pauses.",
    },
    Property {
        name: "decompress.max.bytes",
        roles: CONSUMER,
        value: bytes(1, MAX_BYTES, |c, v| c.decompress_max_bytes = size(v)),
        default: Some("268435456"),
        doc: "Most bytes that one batch may decompress to; one that is larger is an error.",
    },
    Property {
        name: "auto.offset.reset",
        roles: CONSUMER,
        value: Value::Choice {
            of: &["earliest", "latest", "none"],
            set: |c, word| {
                c.auto_offset_reset = match word {
                    "earliest" => OffsetReset::Earliest,
                    "none" => OffsetReset::None,
                    _ => OffsetReset::Latest,
                }
            },
        },
        default: Some("latest"),
        doc: "Where to start without a position, or with one whose records are gone.",
    },
    Property {
        name: "isolation.level",
        roles: CONSUMER,
        value: Value::Choice {
            of: &["read_uncommitted", "read_committed"],
            set: |c, word| c.read_committed = word == "read_committed",
        },
        default: Some("read_uncommitted"),
        doc: "Whether records of open and aborted transactions are hidden.",
    },
    Property {
        name: "check.crcs",
        roles: CONSUMER,
        value: Value::Bool(|c, v| c.check_crcs = v),
        default: Some("true"),
        doc: "Whether the checksum of every batch is verified.",
    },
    Property {
        name: "allow.auto.create.topics",
        roles: CONSUMER,
        value: Value::Bool(|c, v| c.allow_auto_create_topics = v),
        default: Some("true"),
        doc: "Whether reading a topic may create it, where the broker allows that.",
    },
];

const fn level(min: i64, max: i64, set: fn(&mut Config, i64)) -> Value {
    Value::Int {
        min,
        max,
        unit: "",
        set,
    }
}

/// `compression.type` stands before the levels in the table, so the codec is known when a level is set.
fn set_level(config: &mut Config, codec: Compression, level: i64) {
    if config.compression == codec {
        config.compression_level = i32::try_from(level).ok();
    }
}

/// Properties of other clients that people bring along, and what to do instead.
static ELSEWHERE: &[(&str, &str)] = &[
    (
        "key.serializer",
        "keys are bytes or text here, so there is nothing to configure; leave it out",
    ),
    (
        "value.serializer",
        "values are bytes or text here, so there is nothing to configure; leave it out",
    ),
    (
        "key.deserializer",
        "keys are bytes here, decode them where you use them; leave it out",
    ),
    (
        "value.deserializer",
        "values are bytes here, decode them where you use them; leave it out",
    ),
    (
        "interceptor.classes",
        "there are no Java classes to load here; leave it out",
    ),
    (
        "metric.reporters",
        "there are no Java classes to load here; leave it out",
    ),
    (
        "partitioner.class",
        "there are no Java classes to load here; keyed records go where Java's default puts them, see partitioner",
    ),
    (
        "partition.assignment.strategy",
        "consumer groups are not supported by this version; assign partitions",
    ),
    (
        "group.id",
        "consumer groups are not supported by this version; assign partitions",
    ),
    (
        "enable.auto.commit",
        "consumer groups are not supported by this version, so nothing is committed; leave it out",
    ),
    (
        "transactional.id",
        "transactions are not supported by this version",
    ),
    (
        "message.max.bytes",
        "Kafka's name for this in a client is max.request.size",
    ),
    (
        "queue.buffering.max.ms",
        "Kafka's name for this is linger.ms",
    ),
    (
        "queue.buffering.max.messages",
        "the producer's buffer is bounded in bytes, by buffer.memory",
    ),
    (
        "queue.buffering.max.kbytes",
        "Kafka's name for this is buffer.memory, in bytes",
    ),
    (
        "queued.max.messages.kbytes",
        "the name for this is prefetch.max.bytes, in bytes",
    ),
    (
        "queued.min.messages",
        "the consumer's buffer is bounded in bytes, by prefetch.max.bytes",
    ),
    (
        "fetch.message.max.bytes",
        "Kafka's name for this is max.partition.fetch.bytes",
    ),
    (
        "fetch.wait.max.ms",
        "Kafka's name for this is fetch.max.wait.ms",
    ),
    (
        "compression.codec",
        "Kafka's name for this is compression.type",
    ),
    (
        "compression.level",
        "Kafka's names for this are compression.gzip.level, compression.lz4.level, compression.zstd.level",
    ),
    ("request.required.acks", "Kafka's name for this is acks"),
    (
        "message.timeout.ms",
        "Kafka's name for this is delivery.timeout.ms",
    ),
    (
        "message.send.max.retries",
        "Kafka's name for this is retries",
    ),
    (
        "metadata.broker.list",
        "Kafka's name for this is bootstrap.servers",
    ),
    (
        "socket.timeout.ms",
        "Kafka's name for this is request.timeout.ms",
    ),
    (
        "session.timeout.ms",
        "consumer groups are not supported by this version",
    ),
    (
        "heartbeat.interval.ms",
        "consumer groups are not supported by this version",
    ),
    (
        "max.poll.interval.ms",
        "consumer groups are not supported by this version",
    ),
];

impl Config {
    /// Whether records are compressed before they are sent.
    pub fn compresses(&self) -> bool {
        self.compression != Compression::None
    }

    /// Settings for `role` from pairs of a property's name and its text. Names may be written with underscores.
    ///
    /// # Errors
    /// The first property that is unknown, meant for another client, given twice, out of range, or in conflict with
    /// another; or `bootstrap.servers` missing.
    pub fn parse<'a>(
        role: Role,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Config, ConfigError> {
        let mut given: Vec<(&'static Property, &'a str, &'a str)> = Vec::new();
        for (key, text) in pairs {
            let property = find(role, key)?;
            if given
                .iter()
                .any(|(other, _, _)| other.name == property.name)
            {
                return Err(error(key, "given twice"));
            }
            given.push((property, key, text));
        }
        let mut config = Config::blank(role);
        for property in PROPERTIES {
            let chosen = given.iter().find(|(row, _, _)| row.name == property.name);
            match (chosen, property.default) {
                (Some((_, key, text)), _) => property
                    .apply(&mut config, text)
                    .map_err(|rule| error(key, format!("{rule}, and was {text:?}")))?,
                (None, Some(text)) => property
                    .apply(&mut config, text)
                    .map_err(|rule| error(property.name, rule))?,
                (None, None) => {}
            }
        }
        let is_given = |name: &str| given.iter().any(|(row, _, _)| row.name == name);
        config.check(is_given)?;
        Ok(config)
    }

    /// Rules that concern more than one property.
    fn check(&mut self, is_given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        if self.bootstrap.is_empty() {
            return Err(error(
                "bootstrap.servers",
                "is required: host:port of at least one broker",
            ));
        }
        if self.idempotence && self.role == Role::Producer {
            let conflict = if self.acks != -1 {
                Some("needs acks=all")
            } else if self.max_in_flight > 5 {
                Some("needs max.in.flight.requests.per.connection of 5 at most")
            } else if self.retries == 0 {
                Some("needs retries above 0")
            } else {
                None
            };
            match conflict {
                Some(rule) if is_given("enable.idempotence") => {
                    return Err(error("enable.idempotence", rule));
                }
                Some(_) => self.idempotence = false,
                None => {}
            }
        }
        if self.role == Role::Producer && self.batch_size > self.buffer_memory {
            return Err(error(
                "buffer.memory",
                format!(
                    "must hold at least one batch (batch.size is {})",
                    self.batch_size
                ),
            ));
        }
        if self.role == Role::Producer
            && self.delivery_timeout < self.linger.unwrap_or_default() + self.request_timeout
        {
            if is_given("delivery.timeout.ms") {
                return Err(error(
                    "delivery.timeout.ms",
                    "must be at least linger.ms + request.timeout.ms",
                ));
            }
            self.delivery_timeout = self.linger.unwrap_or_default() + self.request_timeout;
        }
        // A broker may go over fetch.max.bytes for the sake of the first batch, which this must leave room for.
        let fetched = size(self.fetch_max_bytes.into()).saturating_add(FETCH_OVERHEAD);
        if self.role == Role::Consumer && self.receive_message_max < fetched {
            if is_given("receive.message.max.bytes") {
                return Err(error(
                    "receive.message.max.bytes",
                    format!("must be at least {fetched}: fetch.max.bytes and 1 MiB"),
                ));
            }
            self.receive_message_max = fetched;
        }
        self.setup_timeout_max = self.setup_timeout_max.max(self.setup_timeout);
        self.reconnect_backoff_max = self.reconnect_backoff_max.max(self.reconnect_backoff);
        self.retry_backoff_max = self.retry_backoff_max.max(self.retry_backoff);
        Ok(())
    }

    /// Everything empty: the table's defaults come on top.
    fn blank(role: Role) -> Config {
        Config {
            role,
            bootstrap: Vec::new(),
            client_id: String::new(),
            acks: -1,
            linger: None,
            batch_size: 0,
            buffer_memory: 0,
            compression: Compression::None,
            compression_level: None,
            max_request_size: 0,
            idempotence: false,
            max_in_flight: 0,
            delivery_timeout: Duration::ZERO,
            request_timeout: Duration::ZERO,
            retries: 0,
            retry_backoff: Duration::ZERO,
            retry_backoff_max: Duration::ZERO,
            reconnect_backoff: Duration::ZERO,
            reconnect_backoff_max: Duration::ZERO,
            setup_timeout: Duration::ZERO,
            setup_timeout_max: Duration::ZERO,
            metadata_max_age: Duration::ZERO,
            max_block: Duration::ZERO,
            partitioner: Partitioner::Sticky,
            fetch_min_bytes: 0,
            fetch_max_bytes: 0,
            max_partition_fetch_bytes: 0,
            fetch_max_wait: Duration::ZERO,
            max_poll_records: 0,
            auto_offset_reset: OffsetReset::Latest,
            read_committed: false,
            check_crcs: true,
            prefetch_max_bytes: 0,
            decompress_max_bytes: 0,
            // A producer has always been free to; there is no property for it.
            allow_auto_create_topics: role == Role::Producer,
            receive_message_max: 0,
            receive_buffer: None,
            send_buffer: None,
            default_api_timeout: Duration::ZERO,
        }
    }
}

fn error(key: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError {
        key: key.to_owned(),
        problem: problem.into(),
    }
}

fn find(role: Role, key: &str) -> Result<&'static Property, ConfigError> {
    let dotted = key.replace('_', ".");
    if let Some(property) = PROPERTIES.iter().find(|row| row.name == dotted) {
        if property.roles.contains(&role) {
            return Ok(property);
        }
        let owners: Vec<_> = property.roles.iter().map(|owner| owner.name()).collect();
        return Err(error(
            key,
            format!(
                "is a property of the {}, not of the {}",
                owners.join(" and "),
                role.name()
            ),
        ));
    }
    if let Some((_, advice)) = ELSEWHERE.iter().find(|(name, _)| *name == dotted) {
        return Err(error(key, *advice));
    }
    let nearest = PROPERTIES
        .iter()
        .filter(|row| row.roles.contains(&role))
        .map(|row| (strsim::levenshtein(&dotted, row.name), row.name))
        .min();
    Err(match nearest {
        Some((far, name)) if far <= dotted.len().max(6) / 2 => error(
            key,
            format!(
                "is not a property of the {}; did you mean {name}?",
                role.name()
            ),
        ),
        _ => error(key, format!("is not a property of the {}", role.name())),
    })
}

/// `host:port` pairs, separated by commas. An IPv6 address stands in brackets.
fn addresses(text: &str) -> Result<Vec<(String, u16)>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let rule = || format!("must be host:port, separated by commas; {part:?} is not");
            if part.contains("://") {
                return Err(format!(
                    "must be host:port without a scheme; {part:?} has one"
                ));
            }
            let (host, port) = part.rsplit_once(':').ok_or_else(rule)?;
            let host = match host.strip_prefix('[') {
                Some(rest) => rest.strip_suffix(']').ok_or_else(rule)?,
                None if host.contains(':') => return Err(rule()),
                None => host,
            };
            let port = port
                .parse::<u16>()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(rule)?;
            if host.is_empty() || host.contains(char::is_whitespace) {
                return Err(rule());
            }
            Ok((host.to_owned(), port))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn producer(pairs: &[(&'static str, &'static str)]) -> Result<Config, ConfigError> {
        Config::parse(
            Role::Producer,
            [("bootstrap.servers", "localhost:9092")]
                .into_iter()
                .chain(pairs.iter().copied()),
        )
    }

    fn problem(pairs: &[(&'static str, &'static str)]) -> String {
        producer(pairs).unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_valid_for_every_role() {
        for role in [Role::Producer, Role::Consumer, Role::Admin] {
            let config = Config::parse(role, [("bootstrap_servers", "a:1, [::1]:2")]).unwrap();
            assert_eq!(
                config.bootstrap,
                [("a".to_owned(), 1), ("::1".to_owned(), 2)]
            );
            assert_eq!(config.request_timeout, Duration::from_secs(30));
        }
        let config = producer(&[]).unwrap();
        assert!(config.idempotence);
        assert_eq!(
            (config.acks, config.linger, config.batch_size),
            (-1, None, 1_000_000)
        );
    }

    #[test]
    fn takes_text_to_settings() {
        let config = producer(&[
            ("linger_ms", "20"),
            ("compression.zstd.level", "9"),
            ("compression.type", "ZSTD"),
        ])
        .unwrap();
        assert_eq!(config.linger, Some(Duration::from_millis(20)));
        assert_eq!(
            (config.compression, config.compression_level),
            (Compression::Zstd, Some(9))
        );
        assert!(!producer(&[("acks", "1")]).unwrap().idempotence);
        assert_eq!(
            producer(&[("request.timeout.ms", "600000")])
                .unwrap()
                .delivery_timeout,
            Duration::from_secs(600)
        );
    }

    #[test]
    fn names_the_key_and_what_would_be_right() {
        assert_eq!(
            problem(&[("lingerms", "5")]),
            "lingerms: is not a property of the producer; did you mean linger.ms?"
        );
        assert_eq!(
            problem(&[("zzzzzzzzzzzzzzzzzzz", "5")]),
            "zzzzzzzzzzzzzzzzzzz: is not a property of the producer"
        );
        assert_eq!(
            problem(&[("check.crcs", "true")]),
            "check.crcs: is a property of the consumer, not of the producer"
        );
        assert!(problem(&[("key.serializer", "x")]).contains("nothing to configure"));
        assert_eq!(
            problem(&[("acks", "2")]),
            "acks: must be one of all, -1, 0, 1, and was \"2\""
        );
        assert_eq!(
            problem(&[("linger_ms", "-1")]),
            "linger_ms: must be a whole number from 0 to 2147483647 ms, and was \"-1\""
        );
        assert_eq!(
            problem(&[("acks", "1"), ("enable.idempotence", "true")]),
            "enable.idempotence: needs acks=all"
        );
        assert_eq!(
            problem(&[("linger.ms", "1"), ("linger_ms", "2")]),
            "linger_ms: given twice"
        );
        assert!(problem(&[("security.protocol", "SASL_SSL")]).contains("not supported"));
        let small = [("receive.message.max.bytes", "2000000")];
        assert!(producer(&small).is_ok());
        let consumer = |pairs: &[(&'static str, &'static str)]| {
            let servers = [("bootstrap.servers", "localhost:9092")];
            Config::parse(
                Role::Consumer,
                servers.into_iter().chain(pairs.iter().copied()),
            )
        };
        assert_eq!(
            consumer(&small).unwrap_err().to_string(),
            "receive.message.max.bytes: must be at least 17825792: fetch.max.bytes and 1 MiB"
        );
        let large = consumer(&[("fetch.max.bytes", "200000000")]).unwrap();
        assert!(large.receive_message_max > 200_000_000);
        assert!(
            problem(&[("delivery.timeout.ms", "10")]).contains("linger.ms + request.timeout.ms")
        );
    }

    #[test]
    fn addresses_are_host_and_port() {
        for bad in [
            "",
            "localhost",
            "localhost:",
            "localhost:0",
            "localhost:70000",
            ":9092",
            "::1:9092",
            "http://a:1",
            "a b:1",
        ] {
            let result = Config::parse(Role::Admin, [("bootstrap.servers", bad)]);
            assert!(
                result
                    .unwrap_err()
                    .to_string()
                    .starts_with("bootstrap.servers: "),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_table_is_consistent() {
        let mut names: Vec<_> = PROPERTIES.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROPERTIES.len());
        for (name, _) in ELSEWHERE {
            assert!(!names.contains(name), "{name} is in the table");
        }
        for row in PROPERTIES {
            if let Some(text) = row.default {
                row.apply(&mut Config::blank(Role::Producer), text).unwrap();
            }
        }
    }
}
