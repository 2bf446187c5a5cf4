//! What the settings say, typed: those of the broker, and of a topic what its logs use.

use std::time::Duration;

use ottla_protocol::compression::Compression;

use super::BrokerConfig;
use super::group_keys::{GROUP_INHERITED, GROUP_KEYS};
use super::keys::*;
use crate::error::BrokerError;
use crate::group::{
    Assignor, CONSUMER_HEARTBEAT, CONSUMER_SESSION, ConsumerRules, Migration, OwnSettings,
    SHARE_HEARTBEAT, SHARE_SESSION, ShareRules,
};
use crate::release::Release;
use crate::security::quota::Windows;
use crate::security::sasl::oauth::Rules;
use crate::security::settings::AclSettings;
use crate::security::tokens::Lifetimes;
use crate::sharing::{
    Reset, SHARE_DELIVERIES, SHARE_ISOLATION, SHARE_LOCK, SHARE_LOCKS, SHARE_RENEW, SHARE_RESET,
    SharingRules,
};
use crate::telemetry::Wanted;
use crate::transaction::TransactionConfig;

/// Who sets the timestamps of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// A topic's settings for its compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Compaction {
    /// `delete.retention.ms`: how long a tombstone stays.
    pub(crate) delete_retention_ms: i64,
    /// `min.compaction.lag.ms`: how long a record stays at least.
    pub(crate) min_lag_ms: i64,
    /// `max.compaction.lag.ms`: how long a record waits at most before the log is cleaned.
    pub(crate) max_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`: the part of the log's bytes that is worth a cleaning.
    pub(crate) dirty_ratio: f64,
}

/// The settings of a topic that its partitions' logs use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogConfig {
    pub(crate) segment_bytes: u64,
    pub(crate) index_interval_bytes: u64,
    /// How long, by the timestamps of records, a segment takes batches.
    pub(crate) segment_ms: i64,
    /// Does the topic have the policy "delete"?
    pub(crate) deletes: bool,
    /// `None`: no limit.
    pub(crate) retention_bytes: Option<u64>,
    /// `None`: no limit.
    pub(crate) retention_ms: Option<i64>,
    pub(crate) max_message_bytes: usize,
    /// What batches are stored with. `None`: each with what its producer used.
    pub(crate) compression: Option<Compression>,
    pub(crate) timestamp_type: TimestampType,
    pub(crate) timestamp_after_max_ms: i64,
    /// `None`: the topic does not have the policy "compact".
    pub(crate) compaction: Option<Compaction>,
    /// `flush.messages`: records after which what a node has survives a loss of power.
    pub(crate) flush_messages: i64,
    /// `min.insync.replicas`.
    pub(crate) least_in_sync: usize,
    /// `unclean.leader.election.enable`: whether a replica may lead that was not in sync.
    pub(crate) unclean_elections: bool,
}

/// An asterisk requests all, which the protocol writes as an empty prefix.
fn prefixes(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(|part| part.replace('*', "")).collect()
}

/// The broker's settings, checked and typed.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    values: Values,
    /// What it speaks as when it starts.
    pub(crate) release: Release,
    pub(crate) auto_create_topics: bool,
    pub(crate) default_partitions: i32,
    /// `None`: one on each node, but 3 at most.
    pub(crate) default_replication: Option<i32>,
    pub(crate) replica_lag: Duration,
    pub(crate) fetch_max_bytes: usize,
    pub(crate) fetch_sessions: usize,
    pub(crate) retention_check: Duration,
    pub(crate) cleaner_backoff: Duration,
    pub(crate) producer_expiration_ms: i64,
    pub(crate) producer_expiration_check: Duration,
    pub(crate) request_max_bytes: usize,
    pub(crate) offset_metadata_max_bytes: usize,
    pub(crate) initial_rebalance_delay: Duration,
    pub(crate) min_session_timeout: Duration,
    pub(crate) max_session_timeout: Duration,
    /// What holds for groups of the consumer protocol that have no settings of their own.
    pub(crate) consumer_groups: ConsumerRules,
    /// The same for the members of share groups.
    pub(crate) share_groups: ShareRules,
    /// The most share sessions.
    pub(crate) share_sessions: usize,
    pub(crate) offsets_retention_ms: i64,
    pub(crate) offsets_retention_check: Duration,
    pub(crate) sasl_max_bytes: usize,
    pub(crate) max_idle: Duration,
    pub(crate) failed_authentication_delay: Duration,
    pub(crate) max_reauthentication: Option<Duration>,
    pub(crate) telemetry: Wanted,
    pub(crate) transactions: TransactionConfig,
    /// Whether the newest release also speaks versions that are not final.
    pub(crate) unstable_versions: bool,
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
        let release = config.as_version.as_deref().map(Release::parse);
        let settings = Self {
            release: release
                .transpose()
                .map_err(BrokerError::Config)?
                .unwrap_or(Release::NEWEST),
            auto_create_topics: broker_value(&values, AUTO_CREATE) == "true",
            default_partitions: number(broker_value(&values, "num.partitions")),
            default_replication: match number(broker_value(&values, REPLICATION_FACTOR)) {
                -1 | 0 => None,
                factor => Some(factor),
            },
            replica_lag: Duration::from_millis(number(broker_value(&values, REPLICA_LAG))),
            fetch_max_bytes: number(broker_value(&values, FETCH_MAX_BYTES)),
            fetch_sessions: number(broker_value(&values, FETCH_SESSIONS)),
            cleaner_backoff: Duration::from_millis(number(broker_value(&values, CLEANER_BACKOFF))),
            producer_expiration_ms: number(broker_value(&values, PRODUCER_EXPIRATION)),
            producer_expiration_check: Duration::from_millis(number(broker_value(
                &values,
                PRODUCER_EXPIRATION_CHECK,
            ))),
            retention_check: Duration::from_millis(number(broker_value(&values, RETENTION_CHECK))),
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
            consumer_groups: ConsumerRules {
                session: Duration::from_millis(number(broker_value(&values, ALL_CONSUMER_SESSION))),
                heartbeat: Duration::from_millis(number(broker_value(
                    &values,
                    ALL_CONSUMER_HEARTBEAT,
                ))),
                assignment_interval: Duration::from_millis(number(broker_value(
                    &values,
                    ALL_CONSUMER_ASSIGNMENT_INTERVAL,
                ))),
                most_members: number(broker_value(&values, MAX_CONSUMER_GROUP)),
                assignors: words(broker_value(&values, CONSUMER_ASSIGNORS), ',')
                    .iter()
                    .filter_map(|name| Assignor::named(name))
                    .collect(),
                migration: Migration::named(broker_value(&values, CONSUMER_MIGRATION)),
            },
            share_groups: ShareRules {
                session: Duration::from_millis(number(broker_value(&values, ALL_SHARE_SESSION))),
                heartbeat: Duration::from_millis(number(broker_value(
                    &values,
                    ALL_SHARE_HEARTBEAT,
                ))),
                assignment_interval: Duration::from_millis(number(broker_value(
                    &values,
                    ALL_SHARE_ASSIGNMENT_INTERVAL,
                ))),
                most_members: number(broker_value(&values, MAX_SHARE_GROUP)),
            },
            share_sessions: number(broker_value(&values, MAX_SHARE_SESSIONS)),
            offsets_retention_ms: number::<i64>(broker_value(&values, OFFSETS_RETENTION)) * 60_000,
            offsets_retention_check: Duration::from_millis(number(broker_value(
                &values,
                OFFSETS_RETENTION_CHECK,
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
            transactions: TransactionConfig {
                max_timeout_ms: number(broker_value(&values, MAX_TRANSACTION_TIMEOUT)),
                expiration_ms: number(broker_value(&values, TRANSACTIONAL_ID_EXPIRATION)),
                expiration_check_ms: number(broker_value(
                    &values,
                    TRANSACTIONAL_ID_EXPIRATION_CHECK,
                )),
                two_phase: broker_value(&values, TWO_PHASE_COMMIT) == "true",
            },
            unstable_versions: broker_value(&values, UNSTABLE_VERSIONS) == "true",
            values,
        };
        if settings.min_session_timeout > settings.max_session_timeout {
            return Err(BrokerError::Config(format!(
                "{MIN_SESSION_TIMEOUT} ({} ms) is above {MAX_SESSION_TIMEOUT} ({} ms)",
                settings.min_session_timeout.as_millis(),
                settings.max_session_timeout.as_millis()
            )));
        }
        let own = settings.check_group(&OwnSettings::new());
        own.map_err(|what| BrokerError::Config(format!("group.{what}")))?;
        Ok(settings)
    }

    /// Checks what is set for a group against what the broker allows.
    ///
    /// # Errors
    /// Which setting is wrong, and what it may be.
    pub(crate) fn check_group(&self, own: &OwnSettings) -> Result<(), String> {
        let value = |name| number::<u64>(&self.group_value(own, name).0);
        let bounds = [
            (
                CONSUMER_HEARTBEAT,
                MIN_CONSUMER_HEARTBEAT,
                MAX_CONSUMER_HEARTBEAT,
            ),
            (CONSUMER_SESSION, MIN_CONSUMER_SESSION, MAX_CONSUMER_SESSION),
            (SHARE_DELIVERIES, MIN_SHARE_DELIVERIES, MAX_SHARE_DELIVERIES),
            (SHARE_HEARTBEAT, MIN_SHARE_HEARTBEAT, MAX_SHARE_HEARTBEAT),
            (SHARE_LOCK, MIN_SHARE_LOCK, MAX_SHARE_LOCK),
            (SHARE_LOCKS, MIN_SHARE_LOCKS, MAX_SHARE_LOCKS),
            (SHARE_SESSION, MIN_SHARE_SESSION, MAX_SHARE_SESSION),
        ];
        for (name, least, most) in bounds {
            let least = number(broker_value(&self.values, least));
            let most = number(broker_value(&self.values, most));
            if !(least..=most).contains(&value(name)) {
                let value = value(name);
                return Err(format!("{name}={value}: must be from {least} to {most}"));
            }
        }
        for (session_key, heartbeat_key) in [
            (CONSUMER_SESSION, CONSUMER_HEARTBEAT),
            (SHARE_SESSION, SHARE_HEARTBEAT),
        ] {
            let (session, heartbeat) = (value(session_key), value(heartbeat_key));
            if session <= heartbeat {
                return Err(format!(
                    "{session_key}={session}: must be above {heartbeat_key}={heartbeat}"
                ));
            }
        }
        Ok(())
    }

    /// The settings of a group: row, effective value, and its source.
    pub(crate) fn group_rows<'a>(
        &'a self,
        own: &'a OwnSettings,
    ) -> impl Iterator<Item = (&'static Key, String, ConfigSource)> + 'a {
        GROUP_KEYS.iter().map(|key| {
            let (value, source) = self.group_value(own, key.name);
            (key, value, source)
        })
    }

    fn group_value(&self, own: &OwnSettings, name: &str) -> (String, ConfigSource) {
        if let Some(value) = own.get(name) {
            return (value.clone(), ConfigSource::Group);
        }
        let inherited = GROUP_INHERITED.iter().find(|(own, _)| *own == name);
        let Some((_, of_broker)) = inherited else {
            let default = default_of(GROUP_KEYS, name);
            return (default.to_owned(), ConfigSource::Default);
        };
        let source = match self.values.set_value(of_broker) {
            Some(_) => ConfigSource::Broker,
            None => ConfigSource::Default,
        };
        (broker_value(&self.values, of_broker).to_owned(), source)
    }

    /// What holds for the records of a share group.
    pub(crate) fn sharing_rules(&self, own: &OwnSettings) -> SharingRules {
        let value = |name| self.group_value(own, name).0;
        SharingRules {
            lock: Duration::from_millis(number(&value(SHARE_LOCK))),
            most_deliveries: number(&value(SHARE_DELIVERIES)),
            most_locks: number(&value(SHARE_LOCKS)),
            reset: Reset::parse(&value(SHARE_RESET)).unwrap_or(Reset::Latest),
            committed: value(SHARE_ISOLATION) == "read_committed",
            renews: value(SHARE_RENEW) == "true",
        }
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
        let compacts = value("cleanup.policy").contains("compact");
        let compaction = compacts.then(|| Compaction {
            delete_retention_ms: number(value("delete.retention.ms")),
            min_lag_ms: number(value("min.compaction.lag.ms")),
            max_lag_ms: number(value("max.compaction.lag.ms")),
            dirty_ratio: number(value("min.cleanable.dirty.ratio")),
        });
        // Only a full segment is compacted: it must be full in time.
        let segment_ms: i64 = number(value("segment.ms"));
        LogConfig {
            segment_bytes: number(value("segment.bytes")),
            index_interval_bytes: number(value("index.interval.bytes")),
            segment_ms: compaction
                .map_or(i64::MAX, |it| it.max_lag_ms)
                .min(segment_ms),
            deletes: value("cleanup.policy").contains("delete"),
            retention_bytes: value("retention.bytes").parse().ok(),
            retention_ms: Some(number(value("retention.ms"))).filter(|ms| *ms >= 0),
            max_message_bytes: number(value("max.message.bytes")),
            compression: Compression::ALL.into_iter().find(|codec| {
                let name = match codec {
                    Compression::None => "uncompressed",
                    codec => codec.name(),
                };
                name == value("compression.type")
            }),
            timestamp_type: match value("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_after_max_ms: number(value("message.timestamp.after.max.ms")),
            compaction,
            flush_messages: number(value("flush.messages")),
            least_in_sync: number(value("min.insync.replicas")),
            unclean_elections: value("unclean.leader.election.enable") == "true",
        }
    }

    /// The broker's setting that a topic's or a group's setting inherits: its name, what is set for it, and its default.
    pub(crate) fn inherited(
        &self,
        name: &str,
        is_group: bool,
    ) -> Option<(&'static str, Option<&str>, &'static str)> {
        let all = if is_group { GROUP_INHERITED } else { INHERITED };
        let (_, of_broker) = all.iter().find(|(own, _)| *own == name)?;
        let set = self.values.set_value(of_broker);
        Some((of_broker, set, default_of(BROKER_KEYS, of_broker)))
    }

    pub(crate) fn topic_value<'a>(
        &'a self,
        topic: &'a Values,
        name: &str,
    ) -> (&'a str, ConfigSource) {
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
    ClientMetrics = 7,
    Group = 8,
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
    }

    #[test]
    fn batches_keep_their_compression_unless_the_topic_or_the_broker_has_one() {
        let mut topic = Values::default();
        assert_eq!(with(&[]).unwrap().log_config(&topic).compression, None);
        let settings = with(&[("compression.type", "zstd")]).unwrap();
        assert_eq!(
            settings.log_config(&topic).compression,
            Some(Compression::Zstd)
        );
        for (value, wanted) in [
            ("producer", None),
            ("uncompressed", Some(Compression::None)),
            ("gzip", Some(Compression::Gzip)),
            ("snappy", Some(Compression::Snappy)),
            ("lz4", Some(Compression::Lz4)),
            ("zstd", Some(Compression::Zstd)),
        ] {
            topic.set(TOPIC_KEYS, "compression.type", value).unwrap();
            assert_eq!(settings.log_config(&topic).compression, wanted, "{value}");
        }
        let error = topic.set(TOPIC_KEYS, "compression.type", "none");
        assert!(error.unwrap_err().contains("uncompressed"));
    }
}
