//! The settings of a broker: a struct for callers, and Kafka's own property names.
//!
//! The two tables ([`BROKER_KEYS`], [`TOPIC_KEYS`]) are the only place that declares properties: validation, typed
//! values and DescribeConfigs use their rows.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::BrokerError;
use crate::security::listener::{ListenerConfig, SecurityProtocol};
use crate::security::quota::Windows;
use crate::security::sasl::oauth::Rules;
use crate::security::settings::{AclSettings, SecuritySettings};
use crate::security::tokens::Lifetimes;
use crate::telemetry::Wanted;

/// How to start a [`crate::Broker`].
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 takes any free one.
    pub port: u16,
    /// The host and port that clients connect to, if they differ from the address listened on.
    pub advertised: Option<(String, u16)>,
    /// Folder of the log; without one the broker keeps everything in memory and loses it when it stops.
    pub data_dir: Option<PathBuf>,
    /// Topics to create at the start, with their partition counts; existing topics stay unchanged.
    pub topics: Vec<(String, i32)>,
    /// `num.partitions`: partitions of a new topic that names no count.
    pub default_partitions: i32,
    /// `auto.create.topics.enable`: whether a request for the metadata of an unknown topic creates it.
    pub auto_create_topics: bool,
    /// The listeners; without any there is one on `host` and `port`, whose protocol follows from `security`: SASL if anybody
    /// can authenticate, TLS if there is a certificate.
    pub listeners: Vec<ListenerConfig>,
    /// Users, keys, ACLs and quotas.
    pub security: SecuritySettings,
    /// More settings under Kafka's names ([`BROKER_KEYS`]); they override the two fields above.
    pub properties: Vec<(String, String)>,
    /// How many nodes the cluster has; more than one keep everything in memory.
    pub nodes: i32,
    /// Receives events such as refused connections and repaired logs.
    pub events: EventSink,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            advertised: None,
            data_dir: None,
            topics: Vec::new(),
            default_partitions: 1,
            auto_create_topics: true,
            listeners: Vec::new(),
            security: SecuritySettings::default(),
            properties: Vec::new(),
            nodes: 1,
            events: EventSink::default(),
        }
    }
}

impl BrokerConfig {
    /// The listeners, of which there is at least one.
    pub(crate) fn all_listeners(&self) -> Vec<ListenerConfig> {
        if !self.listeners.is_empty() {
            return self.listeners.clone();
        }
        let security = &self.security;
        let keys = &security.token_keys;
        let has_credentials = !security.users.is_empty()
            || !security.aws_keys.is_empty()
            || keys.jwks.is_some()
            || keys.shared.is_some();
        let protocol = match (has_credentials, security.tls.is_some()) {
            (false, false) => SecurityProtocol::Plaintext,
            (false, true) => SecurityProtocol::Ssl,
            (true, false) => SecurityProtocol::SaslPlaintext,
            (true, true) => SecurityProtocol::SaslSsl,
        };
        vec![ListenerConfig {
            host: self.host.clone(),
            port: self.port,
            advertised: self.advertised.clone(),
            ..ListenerConfig::new(protocol)
        }]
    }
}

/// Receives one line for each noteworthy event; the default drops them.
#[derive(Clone, Default)]
pub struct EventSink(Option<Arc<Listener>>);

type Listener = dyn Fn(&str) + Send + Sync;

impl EventSink {
    /// Calls `sink` with each event, on the thread where it happens.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    pub(crate) fn say(&self, event: fmt::Arguments<'_>) {
        if let Some(sink) = &self.0 {
            sink(&event.to_string());
        }
    }
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "EventSink(set)"
        } else {
            "EventSink(none)"
        })
    }
}

/// The type and the valid values of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// `true` or `false`.
    Bool,
    /// A whole number within the bounds, both included.
    Int(i64, i64),
    /// A fraction within 0 to 1.
    Ratio,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any of these words, separated by commas; may be empty.
    ListOf(&'static [&'static str]),
    /// Any text.
    Text,
}

/// One row of the tables below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Kafka's name.
    pub name: &'static str,
    /// The valid values.
    pub kind: ValueType,
    /// The default value.
    pub default: &'static str,
    /// A description in one line.
    pub doc: &'static str,
}

const fn key(name: &'static str, kind: ValueType, default: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        doc,
    }
}

const INT: i64 = i32::MAX as i64;
const LONG: i64 = i64::MAX;
const TIMESTAMP_TYPES: ValueType = ValueType::OneOf(&["CreateTime", "LogAppendTime"]);

/// The broker's settings, in Kafka's names.
pub const BROKER_KEYS: &[Key] = &[
    key(
        ALLOW_EVERYONE,
        ValueType::Bool,
        "false",
        "With ACLs: whether a resource that has none is open to all.",
    ),
    key(
        AUTO_CREATE,
        ValueType::Bool,
        "true",
        "Whether a request for the metadata of an unknown topic creates it.",
    ),
    key(
        TOKEN_EXPIRY,
        ValueType::Int(1, LONG),
        "86400000",
        "Milliseconds until a delegation token expires that is not renewed.",
    ),
    key(
        TOKEN_MAX_LIFETIME,
        ValueType::Int(1, LONG),
        "604800000",
        "Milliseconds until a delegation token cannot be renewed any more.",
    ),
    key(
        FAILED_AUTHENTICATION_DELAY,
        ValueType::Int(0, INT),
        "100",
        "Milliseconds before a failed authentication is answered and the connection closed.",
    ),
    key(
        MAX_IDLE,
        ValueType::Int(1, LONG),
        "600000",
        "Milliseconds without a request after which a connection is closed.",
    ),
    key(
        MAX_REAUTHENTICATION,
        ValueType::Int(0, LONG),
        "0",
        "Milliseconds after which a SASL client must authenticate again or is disconnected; 0 means never.",
    ),
    key(
        REPLICATION_FACTOR,
        ValueType::Int(-1, 1000),
        "-1",
        "Replicas of a new topic that names no count; -1 means one on each node, but 3 at most.",
    ),
    key(
        FETCH_MAX_BYTES,
        ValueType::Int(1024, INT),
        "57671680",
        "Maximum bytes of records in one Fetch response.",
    ),
    key(
        INITIAL_REBALANCE_DELAY,
        ValueType::Int(0, INT),
        "0",
        "Milliseconds that an empty group waits for more members before its first rebalance; Kafka's default is 3000.",
    ),
    key(
        MAX_SESSION_TIMEOUT,
        ValueType::Int(1, INT),
        "1800000",
        "Maximum session timeout of a group member, in ms.",
    ),
    key(
        MIN_SESSION_TIMEOUT,
        ValueType::Int(1, INT),
        "6000",
        "Minimum session timeout of a group member, in ms.",
    ),
    key(
        "log.index.interval.bytes",
        ValueType::Int(0, INT),
        "4096",
        "Bytes of the log between two entries of its offset index.",
    ),
    key(
        "log.message.timestamp.after.max.ms",
        ValueType::Int(0, LONG),
        "3600000",
        "Maximum milliseconds that a record's timestamp may be in the future.",
    ),
    key(
        "log.message.timestamp.type",
        TIMESTAMP_TYPES,
        "CreateTime",
        "CreateTime keeps the producer's timestamps; LogAppendTime sets the broker's.",
    ),
    key(
        "log.retention.bytes",
        ValueType::Int(-1, LONG),
        "-1",
        "Maximum bytes of a partition, checked when a segment is full; -1 means no limit.",
    ),
    key(
        "log.segment.bytes",
        ValueType::Int(14, INT),
        "1073741824",
        "Maximum bytes of a log segment.",
    ),
    key(
        "message.max.bytes",
        ValueType::Int(0, INT),
        "1048588",
        "Maximum bytes of a record batch.",
    ),
    key(
        "min.insync.replicas",
        ValueType::Int(1, INT),
        "1",
        "How many replicas must be in sync for acks=all.",
    ),
    key(
        "num.partitions",
        ValueType::Int(1, INT),
        "1",
        "Partitions of a new topic that names no count.",
    ),
    key(
        OFFSET_METADATA_MAX,
        ValueType::Int(0, INT),
        "4096",
        "Maximum bytes of the metadata of a committed offset.",
    ),
    key(
        QUOTA_WINDOWS,
        ValueType::Int(1, INT),
        "11",
        "Samples that a rate is measured over for quotas.",
    ),
    key(
        QUOTA_WINDOW_SECONDS,
        ValueType::Int(1, INT),
        "1",
        "Seconds of each of these samples.",
    ),
    key(
        REPLICA_LAG,
        ValueType::Int(1, LONG),
        "30000",
        "Milliseconds after which a follower that does not catch up is out of sync.",
    ),
    key(
        CLOCK_SKEW,
        ValueType::Int(0, INT),
        "30",
        "Seconds that the clocks of a token's issuer and of the broker may differ.",
    ),
    key(
        EXPECTED_AUDIENCE,
        ValueType::Text,
        "",
        "Audiences, separated by commas, of which a token must name one (aud); empty means any.",
    ),
    key(
        EXPECTED_ISSUER,
        ValueType::Text,
        "",
        "The issuer that a token must name (iss); empty means any.",
    ),
    key(
        PRINCIPAL_CLAIM,
        ValueType::Text,
        "sub",
        "The claim of a token that names the user.",
    ),
    key(
        SASL_MAX_BYTES,
        ValueType::Int(1024, INT),
        "524288",
        "Maximum bytes of a request before the client has authenticated; a larger one closes the connection.",
    ),
    key(
        REQUEST_MAX_BYTES,
        ValueType::Int(1024, INT),
        "104857600",
        "Maximum bytes of a request; a larger one closes the connection.",
    ),
    key(
        SUPER_USERS,
        ValueType::Text,
        "",
        "Principals that may do everything, separated by semicolons, such as User:admin; they switch the authorizer on.",
    ),
    key(
        TELEMETRY_DELTA,
        ValueType::Bool,
        "false",
        "Whether clients push how much totals grew since the last push, instead of the totals.",
    ),
    key(
        TELEMETRY_INTERVAL,
        ValueType::Int(100, INT),
        "300000",
        "Milliseconds between two pushes of a client's metrics.",
    ),
    key(
        TELEMETRY_MAX_BYTES,
        ValueType::Int(1, INT),
        "1048576",
        "Maximum bytes of a push of metrics.",
    ),
    key(
        TELEMETRY_METRICS,
        ValueType::Text,
        "",
        "Beginnings of the names of metrics that clients are asked to push (KIP-714), separated by commas; * means all, and \
         without any, clients are not asked.",
    ),
    key(
        "unclean.leader.election.enable",
        ValueType::Bool,
        "false",
        "Whether a replica that was not in sync may lead when no other can; records are lost then.",
    ),
];

const ALLOW_EVERYONE: &str = "allow.everyone.if.no.acl.found";
const AUTO_CREATE: &str = "auto.create.topics.enable";
const FAILED_AUTHENTICATION_DELAY: &str = "connection.failed.authentication.delay.ms";
const MAX_IDLE: &str = "connections.max.idle.ms";
const MAX_REAUTHENTICATION: &str = "connections.max.reauth.ms";
const QUOTA_WINDOWS: &str = "quota.window.num";
const QUOTA_WINDOW_SECONDS: &str = "quota.window.size.seconds";
const CLOCK_SKEW: &str = "sasl.oauthbearer.clock.skew.seconds";
const EXPECTED_AUDIENCE: &str = "sasl.oauthbearer.expected.audience";
const EXPECTED_ISSUER: &str = "sasl.oauthbearer.expected.issuer";
const PRINCIPAL_CLAIM: &str = "sasl.oauthbearer.sub.claim.name";
const REPLICA_LAG: &str = "replica.lag.time.max.ms";
const REPLICATION_FACTOR: &str = "default.replication.factor";
const SASL_MAX_BYTES: &str = "sasl.server.max.receive.size";
const SUPER_USERS: &str = "super.users";
const TOKEN_EXPIRY: &str = "delegation.token.expiry.time.ms";
const TOKEN_MAX_LIFETIME: &str = "delegation.token.max.lifetime.ms";
const FETCH_MAX_BYTES: &str = "fetch.max.bytes";
const INITIAL_REBALANCE_DELAY: &str = "group.initial.rebalance.delay.ms";
const MIN_SESSION_TIMEOUT: &str = "group.min.session.timeout.ms";
const MAX_SESSION_TIMEOUT: &str = "group.max.session.timeout.ms";
const OFFSET_METADATA_MAX: &str = "offset.metadata.max.bytes";
const REQUEST_MAX_BYTES: &str = "socket.request.max.bytes";
const TELEMETRY_DELTA: &str = "telemetry.delta.temporality";
const TELEMETRY_INTERVAL: &str = "telemetry.interval.ms";
const TELEMETRY_MAX_BYTES: &str = "telemetry.max.bytes";
const TELEMETRY_METRICS: &str = "telemetry.metrics";

/// A topic's settings, in Kafka's names. Rows that say "without effect" are stored and described, but change nothing
/// in a broker with one node that neither compacts logs nor deletes records by age.
pub const TOPIC_KEYS: &[Key] = &[
    key(
        "cleanup.policy",
        ValueType::ListOf(&["compact", "delete"]),
        "delete",
        "With compact, records must have a key; the broker does not compact logs yet.",
    ),
    key(
        "compression.type",
        ValueType::OneOf(&["producer"]),
        "producer",
        "Batches are stored as the producer compressed them.",
    ),
    key(
        "delete.retention.ms",
        ValueType::Int(0, LONG),
        "86400000",
        "Stored, without effect.",
    ),
    key(
        "file.delete.delay.ms",
        ValueType::Int(0, LONG),
        "60000",
        "Stored, without effect.",
    ),
    key(
        "flush.messages",
        ValueType::Int(1, LONG),
        "9223372036854775807",
        "Records after which a node of a cluster has them even if it loses its power.",
    ),
    key(
        "flush.ms",
        ValueType::Int(0, LONG),
        "9223372036854775807",
        "Stored, without effect.",
    ),
    key(
        "index.interval.bytes",
        ValueType::Int(0, INT),
        "4096",
        "Bytes of the log between two entries of its offset index.",
    ),
    key(
        "max.compaction.lag.ms",
        ValueType::Int(1, LONG),
        "9223372036854775807",
        "Stored, without effect.",
    ),
    key(
        "max.message.bytes",
        ValueType::Int(0, INT),
        "1048588",
        "Maximum bytes of a record batch.",
    ),
    key(
        "message.timestamp.after.max.ms",
        ValueType::Int(0, LONG),
        "3600000",
        "Maximum milliseconds that a record's timestamp may be in the future.",
    ),
    key(
        "message.timestamp.before.max.ms",
        ValueType::Int(0, LONG),
        "9223372036854775807",
        "Stored, without effect.",
    ),
    key(
        "message.timestamp.type",
        TIMESTAMP_TYPES,
        "CreateTime",
        "CreateTime keeps the producer's timestamps; LogAppendTime sets the broker's.",
    ),
    key(
        "min.cleanable.dirty.ratio",
        ValueType::Ratio,
        "0.5",
        "Stored, without effect.",
    ),
    key(
        "min.compaction.lag.ms",
        ValueType::Int(0, LONG),
        "0",
        "Stored, without effect.",
    ),
    key(
        "min.insync.replicas",
        ValueType::Int(1, INT),
        "1",
        "How many replicas must be in sync for acks=all.",
    ),
    key(
        "preallocate",
        ValueType::Bool,
        "false",
        "Stored, without effect.",
    ),
    key(
        "retention.bytes",
        ValueType::Int(-1, LONG),
        "-1",
        "Maximum bytes of a partition, checked when a segment is full; -1 means no limit.",
    ),
    key(
        "retention.ms",
        ValueType::Int(-1, LONG),
        "604800000",
        "Stored, without effect.",
    ),
    key(
        "segment.bytes",
        ValueType::Int(14, INT),
        "1073741824",
        "Maximum bytes of a log segment.",
    ),
    key(
        "segment.index.bytes",
        ValueType::Int(4, INT),
        "10485760",
        "Stored, without effect.",
    ),
    key(
        "segment.jitter.ms",
        ValueType::Int(0, LONG),
        "0",
        "Stored, without effect.",
    ),
    key(
        "segment.ms",
        ValueType::Int(1, LONG),
        "604800000",
        "Stored, without effect.",
    ),
    key(
        "unclean.leader.election.enable",
        ValueType::Bool,
        "false",
        "Whether a replica that was not in sync may lead when no other can; records are lost then.",
    ),
    key(
        "leader.replication.throttled.replicas",
        ValueType::Text,
        "",
        "Stored, without effect.",
    ),
    key(
        "follower.replication.throttled.replicas",
        ValueType::Text,
        "",
        "Stored, without effect.",
    ),
];

/// Topic settings that fall back to a broker setting of another name.
const INHERITED: &[(&str, &str)] = &[
    ("index.interval.bytes", "log.index.interval.bytes"),
    ("max.message.bytes", "message.max.bytes"),
    (
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
    ),
    ("message.timestamp.type", "log.message.timestamp.type"),
    ("min.insync.replicas", "min.insync.replicas"),
    ("retention.bytes", "log.retention.bytes"),
    ("segment.bytes", "log.segment.bytes"),
    (
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
    ),
];

/// The values set for the names of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Values(BTreeMap<&'static str, String>);

impl Values {
    /// Checks `name` and `value` against `table` and stores them.
    ///
    /// # Errors
    /// A sentence that names the key, the value and the valid values.
    pub(crate) fn set(
        &mut self,
        table: &'static [Key],
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        let key = table.iter().find(|key| key.name == name).ok_or_else(|| {
            format!(
                "unknown setting \"{name}\"; the nearest is \"{}\"",
                nearest(name, table)
            )
        })?;
        key.kind
            .check(value)
            .map_err(|rule| format!("{name}={value}: {rule}"))?;
        self.0.insert(key.name, value.to_owned());
        Ok(())
    }

    /// The value set for `name`, if one was.
    pub(crate) fn set_value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All that was set, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl ValueType {
    fn check(self, value: &str) -> Result<(), String> {
        match self {
            ValueType::Bool => value
                .parse::<bool>()
                .map(drop)
                .map_err(|_| "must be true or false".to_owned()),
            ValueType::Int(least, most) => match value.parse::<i64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(()),
                _ => Err(format!("must be a whole number from {least} to {most}")),
            },
            ValueType::Ratio => match value.parse::<f64>() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(()),
                _ => Err("must be a number from 0 to 1".to_owned()),
            },
            ValueType::OneOf(words) if words.contains(&value) => Ok(()),
            ValueType::OneOf(words) => Err(format!("must be one of {}", words.join(", "))),
            ValueType::ListOf(words)
                if value.is_empty()
                    || value.split(',').all(|word| words.contains(&word.trim())) =>
            {
                Ok(())
            }
            ValueType::ListOf(words) => Err(format!(
                "must be a list of {}, separated by commas",
                words.join(", ")
            )),
            ValueType::Text => Ok(()),
        }
    }
}

/// The name in the table with the fewest edits from `name`.
fn nearest(name: &str, table: &'static [Key]) -> &'static str {
    table
        .iter()
        .min_by_key(|key| strsim::levenshtein(name, key.name))
        .map_or("", |key| key.name)
}

/// Who sets the timestamps of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// The settings of a topic that its partitions' logs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogConfig {
    pub(crate) segment_bytes: u64,
    pub(crate) index_interval_bytes: u64,
    /// `None`: no limit.
    pub(crate) retention_bytes: Option<u64>,
    pub(crate) max_message_bytes: usize,
    pub(crate) timestamp_type: TimestampType,
    pub(crate) timestamp_after_max_ms: i64,
    /// Does the topic have the policy "compact"?
    pub(crate) needs_keys: bool,
    /// `flush.messages`: records after which what a node has survives a loss of power.
    pub(crate) flush_messages: i64,
    /// `min.insync.replicas`.
    pub(crate) least_in_sync: usize,
    /// `unclean.leader.election.enable`: whether a replica may lead that was not in sync.
    pub(crate) unclean_elections: bool,
}

/// The broker's settings, checked and typed.
/// An asterisk asks for all, which the protocol says with an empty beginning.
fn prefixes(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(|part| part.replace('*', "")).collect()
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    values: Values,
    pub(crate) auto_create_topics: bool,
    pub(crate) default_partitions: i32,
    /// `None`: one on each node, but 3 at most.
    pub(crate) default_replication: Option<i32>,
    pub(crate) replica_lag: Duration,
    pub(crate) fetch_max_bytes: usize,
    pub(crate) request_max_bytes: usize,
    pub(crate) offset_metadata_max_bytes: usize,
    pub(crate) initial_rebalance_delay: Duration,
    pub(crate) min_session_timeout: Duration,
    pub(crate) max_session_timeout: Duration,
    pub(crate) sasl_max_bytes: usize,
    pub(crate) max_idle: Duration,
    pub(crate) failed_authentication_delay: Duration,
    pub(crate) max_reauthentication: Option<Duration>,
    pub(crate) telemetry: Wanted,
}

impl Settings {
    /// Reads the settings from `config`.
    ///
    /// # Errors
    /// [`BrokerError::Config`] for an unknown name or a value out of its range.
    pub(crate) fn new(config: &BrokerConfig) -> Result<Self, BrokerError> {
        let mut values = Values::default();
        let fields = [
            (
                "num.partitions".to_owned(),
                config.default_partitions.to_string(),
            ),
            (
                AUTO_CREATE.to_owned(),
                config.auto_create_topics.to_string(),
            ),
        ];
        for (name, value) in fields.iter().chain(&config.properties) {
            values
                .set(BROKER_KEYS, name, value)
                .map_err(BrokerError::Config)?;
        }
        let settings = Self {
            auto_create_topics: broker_value(&values, AUTO_CREATE) == "true",
            default_partitions: number(broker_value(&values, "num.partitions")),
            default_replication: match number(broker_value(&values, REPLICATION_FACTOR)) {
                -1 | 0 => None,
                factor => Some(factor),
            },
            replica_lag: Duration::from_millis(number(broker_value(&values, REPLICA_LAG))),
            fetch_max_bytes: number(broker_value(&values, FETCH_MAX_BYTES)),
            request_max_bytes: number(broker_value(&values, REQUEST_MAX_BYTES)),
            offset_metadata_max_bytes: number(broker_value(&values, OFFSET_METADATA_MAX)),
            initial_rebalance_delay: Duration::from_millis(number(broker_value(
                &values,
                INITIAL_REBALANCE_DELAY,
            ))),
            min_session_timeout: Duration::from_millis(number(broker_value(
                &values,
                MIN_SESSION_TIMEOUT,
            ))),
            max_session_timeout: Duration::from_millis(number(broker_value(
                &values,
                MAX_SESSION_TIMEOUT,
            ))),
            sasl_max_bytes: number(broker_value(&values, SASL_MAX_BYTES)),
            max_idle: Duration::from_millis(number(broker_value(&values, MAX_IDLE))),
            failed_authentication_delay: Duration::from_millis(number(broker_value(
                &values,
                FAILED_AUTHENTICATION_DELAY,
            ))),
            max_reauthentication: match number(broker_value(&values, MAX_REAUTHENTICATION)) {
                0 => None,
                ms => Some(Duration::from_millis(ms)),
            },
            telemetry: Wanted {
                prefixes: prefixes(broker_value(&values, TELEMETRY_METRICS)),
                interval: Duration::from_millis(number(broker_value(&values, TELEMETRY_INTERVAL))),
                max_bytes: number(broker_value(&values, TELEMETRY_MAX_BYTES)),
                delta: broker_value(&values, TELEMETRY_DELTA) == "true",
            },
            values,
        };
        if settings.min_session_timeout > settings.max_session_timeout {
            return Err(BrokerError::Config(format!(
                "{MIN_SESSION_TIMEOUT} ({} ms) is above {MAX_SESSION_TIMEOUT} ({} ms)",
                settings.min_session_timeout.as_millis(),
                settings.max_session_timeout.as_millis()
            )));
        }
        Ok(settings)
    }

    /// What a bearer token must say.
    pub(crate) fn token_rules(&self) -> Rules {
        let text = |name| broker_value(&self.values, name);
        Rules {
            issuer: Some(text(EXPECTED_ISSUER).to_owned()).filter(|issuer| !issuer.is_empty()),
            audiences: words(text(EXPECTED_AUDIENCE), ','),
            principal_claim: text(PRINCIPAL_CLAIM).to_owned(),
            clock_skew_ms: number::<i64>(text(CLOCK_SKEW)) * 1000,
        }
    }

    /// How long delegation tokens last.
    pub(crate) fn token_lifetimes(&self) -> Lifetimes {
        Lifetimes {
            expiry_ms: number(broker_value(&self.values, TOKEN_EXPIRY)),
            max_ms: number(broker_value(&self.values, TOKEN_MAX_LIFETIME)),
        }
    }

    /// The authorizer's own settings.
    pub(crate) fn acl_settings(&self) -> AclSettings {
        AclSettings {
            super_users: words(broker_value(&self.values, SUPER_USERS), ';'),
            allow_everyone_if_no_acl: broker_value(&self.values, ALLOW_EVERYONE) == "true",
        }
    }

    /// How quotas measure rates.
    pub(crate) fn quota_windows(&self) -> Windows {
        Windows {
            count: number(broker_value(&self.values, QUOTA_WINDOWS)),
            size: Duration::from_secs(number(broker_value(&self.values, QUOTA_WINDOW_SECONDS))),
        }
    }

    /// The broker's own settings: row, effective value, and its source.
    pub(crate) fn broker_rows(&self) -> impl Iterator<Item = (&'static Key, &str, ConfigSource)> {
        BROKER_KEYS
            .iter()
            .map(|key| match self.values.set_value(key.name) {
                Some(value) => (key, value, ConfigSource::Broker),
                None => (key, key.default, ConfigSource::Default),
            })
    }

    /// A topic's settings: row, effective value, and its source.
    pub(crate) fn topic_rows<'a>(
        &'a self,
        topic: &'a Values,
    ) -> impl Iterator<Item = (&'static Key, &'a str, ConfigSource)> {
        TOPIC_KEYS.iter().map(|key| {
            let (value, source) = self.topic_value(topic, key.name);
            (key, value, source)
        })
    }

    /// The settings of a topic's logs.
    pub(crate) fn log_config(&self, topic: &Values) -> LogConfig {
        let value = |name| self.topic_value(topic, name).0;
        LogConfig {
            segment_bytes: number(value("segment.bytes")),
            index_interval_bytes: number(value("index.interval.bytes")),
            retention_bytes: value("retention.bytes").parse().ok(),
            max_message_bytes: number(value("max.message.bytes")),
            timestamp_type: match value("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_after_max_ms: number(value("message.timestamp.after.max.ms")),
            needs_keys: value("cleanup.policy").contains("compact"),
            flush_messages: number(value("flush.messages")),
            least_in_sync: number(value("min.insync.replicas")),
            unclean_elections: value("unclean.leader.election.enable") == "true",
        }
    }

    fn topic_value<'a>(&'a self, topic: &'a Values, name: &str) -> (&'a str, ConfigSource) {
        if let Some(value) = topic.set_value(name) {
            return (value, ConfigSource::Topic);
        }
        let inherited = INHERITED.iter().find(|(own, _)| *own == name);
        if let Some(value) = inherited.and_then(|(_, of_broker)| self.values.set_value(of_broker)) {
            return (value, ConfigSource::Broker);
        }
        (default_of(TOPIC_KEYS, name), ConfigSource::Default)
    }
}

/// The texts between separators.
fn words(text: &str, separator: char) -> Vec<String> {
    let words = text.split(separator).map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The source of an effective value, with DescribeConfigs' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigSource {
    Topic = 1,
    Broker = 4,
    Default = 5,
}

fn broker_value<'a>(values: &'a Values, name: &str) -> &'a str {
    values
        .set_value(name)
        .unwrap_or_else(|| default_of(BROKER_KEYS, name))
}

fn default_of(table: &'static [Key], name: &str) -> &'static str {
    table
        .iter()
        .find(|key| key.name == name)
        .map_or("", |key| key.default)
}

/// A number that was checked against its row's bounds when it was set; the bounds fit the type that it is read as.
fn number<T: std::str::FromStr + Default>(text: &str) -> T {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(properties: &[(&str, &str)]) -> Result<Settings, BrokerError> {
        let properties = properties
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        Settings::new(&BrokerConfig {
            properties,
            ..BrokerConfig::default()
        })
    }

    #[test]
    fn every_default_passes_its_own_check() {
        for key in BROKER_KEYS.iter().chain(TOPIC_KEYS) {
            assert_eq!(key.kind.check(key.default), Ok(()), "{}", key.name);
        }
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let error = with(&[("log.segments.byte", "1")]).unwrap_err().to_string();
        assert!(
            error.contains("\"log.segments.byte\"") && error.contains("\"log.segment.bytes\""),
            "{error}"
        );
    }

    #[test]
    fn a_bad_value_names_key_value_and_range() {
        let error = with(&[("num.partitions", "0")]).unwrap_err().to_string();
        assert!(
            error.contains("num.partitions=0") && error.contains("from 1 to"),
            "{error}"
        );
    }

    #[test]
    fn session_bounds_must_be_in_order() {
        let error = with(&[(MIN_SESSION_TIMEOUT, "10"), (MAX_SESSION_TIMEOUT, "9")])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("(10 ms)") && error.contains("(9 ms)"),
            "{error}"
        );
    }

    #[test]
    fn a_topic_inherits_from_the_broker_and_overrides_it() {
        let settings = with(&[
            ("log.segment.bytes", "1000"),
            ("log.retention.bytes", "5000"),
        ])
        .unwrap();
        let mut topic = Values::default();
        assert_eq!(settings.log_config(&topic).segment_bytes, 1000);
        assert_eq!(settings.log_config(&topic).retention_bytes, Some(5000));
        topic.set(TOPIC_KEYS, "segment.bytes", "2000").unwrap();
        topic.set(TOPIC_KEYS, "retention.bytes", "-1").unwrap();
        topic
            .set(TOPIC_KEYS, "message.timestamp.type", "LogAppendTime")
            .unwrap();
        let config = settings.log_config(&topic);
        assert_eq!((config.segment_bytes, config.retention_bytes), (2000, None));
        assert_eq!(config.timestamp_type, TimestampType::LogAppendTime);
        assert!(
            topic
                .set(TOPIC_KEYS, "compression.type", "gzip")
                .unwrap_err()
                .contains("producer")
        );
    }
}
