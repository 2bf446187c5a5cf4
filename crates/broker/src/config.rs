//! The settings of a broker: a struct for callers ([`BrokerConfig`]), Kafka's own property names ([`keys`]), and what both
//! say ([`settings`]).

mod group_keys;
mod keys;
mod settings;
pub(crate) mod subscription_keys;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use self::group_keys::group_key;
pub(crate) use self::keys::Values;
pub use self::keys::{BROKER_KEYS, Key, TOPIC_KEYS, ValueType};
pub(crate) use self::settings::{Compaction, ConfigSource, LogConfig, Settings, TimestampType};
use crate::security::listener::{ListenerConfig, SecurityProtocol};
use crate::security::settings::SecuritySettings;

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
    /// The release of Kafka that it speaks as, such as `0.10.2`; without one the newest ([`crate::Release`]).
    pub as_version: Option<String>,
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
            as_version: None,
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
