//! The properties that every client has.

macro_rules! common {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* ALL {
        /// Brokers that return the addresses of all others: host:port, separated by commas. Required.
        "bootstrap.servers" => bootstrap: Vec<(String, u16)>, text(addresses);
        /// Name of this client in brokers' logs, metrics and quotas. Without one each client gets a name of its own: producer-1,
        /// consumer-GROUP-1, adminclient-1 and so on.
        "client.id" => client_id: String = "", text(client_id);
        /// Protocol of connections: PLAINTEXT, SSL for TLS, and SASL_PLAINTEXT or SASL_SSL to authenticate.
        "security.protocol" => security_protocol: SecurityProtocol = "PLAINTEXT", text(security_protocol);
        /// How long a request waits for its response before its connection is closed.
        "request.timeout.ms" => request_timeout: Duration = "30000", millis(1);
        /// Deadline of calls without a timeout of their own.
        "default.api.timeout.ms" => default_api_timeout: Duration = "60000", millis(1);
        /// First pause before a retry; it doubles with each failure, with 20 % jitter.
        "retry.backoff.ms" => retry_backoff: Duration = "100", millis(0);
        /// Longest pause before a retry.
        "retry.backoff.max.ms" => retry_backoff_max: Duration = "1000", millis(0);
        /// First pause before a reconnect; it doubles with each failure, with 20 % jitter.
        "reconnect.backoff.ms" => reconnect_backoff: Duration = "50", millis(0);
        /// Longest pause before a reconnect.
        "reconnect.backoff.max.ms" => reconnect_backoff_max: Duration = "1000", millis(0);
        /// How long a new connection may take to be ready for requests; it doubles with each failure.
        "socket.connection.setup.timeout.ms" => setup_timeout: Duration = "10000", millis(1);
        /// The longest that a new connection may take to be ready for requests.
        "socket.connection.setup.timeout.max.ms" => setup_timeout_max: Duration = "30000", millis(1);
        /// Whether to request API versions from brokers. If not, broker.version.fallback names the version.
        "api.version.request" => api_version_request: bool = "true", bool();
        /// How long a broker may take to return its API versions. A broker that takes more than 2 s is probed on
        /// another connection first, unless broker.version.fallback is given: it may be Kafka 0.9, which never returns
        /// them.
        "api.version.request.timeout.ms" => api_version_timeout: Duration = "10000", millis(1);
        /// How long the client remembers the version of a broker that returns no API versions.
        "api.version.fallback.ms" => api_version_fallback: Duration = "1200000", millis(0);
        /// Version of a broker that does not return its API versions: 0.8.2 or 0.9.0. Not given: the client finds it
        /// out on another connection. A release since 0.10 makes such a broker an error, because those releases return
        /// them.
        "broker.version.fallback" => broker_version_fallback: Fallback, text(Fallback::parse);
        /// Age at which the metadata of the cluster is refreshed even if nothing seems to have changed.
        "metadata.max.age.ms" => metadata_max_age: Duration = "300000", millis(1);
        /// Most bytes of one response. The client closes the connection of a broker that announces more.
        "receive.message.max.bytes" => receive_message_max: usize = "104857600", bytes(1 << 20);
        /// Size of the sockets' receive buffers; -1 leaves it to the system.
        "receive.buffer.bytes" => receive_buffer: Option<usize> = "-1", bytes(-1);
        /// Size of the sockets' send buffers; -1 leaves it to the system.
        "send.buffer.bytes" => send_buffer: Option<usize> = "-1", bytes(-1);
        /// Whether the system probes idle connections (SO_KEEPALIVE) to notice brokers that vanished.
        "socket.keepalive.enable" => keepalive: bool = "true", bool();
        /// How long a sample of metrics lasts. Rates, averages and maxima are about the last samples.
        "metrics.sample.window.ms" => metrics_sample_window: Duration = "30000", millis(1);
        /// How many samples of metrics count.
        "metrics.num.samples" => metrics_num_samples: usize = "2", whole(1, 1000);
        /// Whether to push metrics to brokers that subscribe to them (KIP-714). Only brokers with a plugin do.
        "enable.metrics.push" => metrics_push: bool = "true", bool();
        /// How often on_metrics is called, where that is given.
        "metrics.interval.ms" => metrics_interval: Duration = "60000", millis(1);
        /// How long leaving a with block may take after KeyboardInterrupt, SystemExit or asyncio.CancelledError. A producer's
        /// undelivered records fail then.
        "close.interrupt.timeout.ms" => close_interrupt_timeout: Duration = "1000", millis(0);
    } } };
}
pub(in crate::config) use common;

use crate::config::network;

/// How to talk to brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    #[default]
    Plaintext,
    /// TLS.
    Ssl,
    /// Authenticated by SASL, and not encrypted.
    SaslPlaintext,
    /// Authenticated by SASL, over TLS.
    SaslSsl,
}

const PROTOCOLS: &str = "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL";

impl SecurityProtocol {
    /// Whether connections are encrypted.
    pub fn is_tls(self) -> bool {
        matches!(self, SecurityProtocol::Ssl | SecurityProtocol::SaslSsl)
    }

    pub(in crate::config) fn name(self) -> &'static str {
        match self {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::Ssl => "SSL",
            SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
            SecurityProtocol::SaslSsl => "SASL_SSL",
        }
    }
}

pub(in crate::config) fn security_protocol(text: &str) -> Result<SecurityProtocol, String> {
    match text.to_ascii_uppercase().as_str() {
        "PLAINTEXT" => Ok(SecurityProtocol::Plaintext),
        "SSL" => Ok(SecurityProtocol::Ssl),
        "SASL_PLAINTEXT" => Ok(SecurityProtocol::SaslPlaintext),
        "SASL_SSL" => Ok(SecurityProtocol::SaslSsl),
        "TLS" => Err(format!(
            "must be one of {PROTOCOLS}: Kafka's word for TLS is SSL"
        )),
        _ => Err(format!("must be one of {PROTOCOLS}")),
    }
}

pub(in crate::config) fn client_id(text: &str) -> Result<String, String> {
    if text.len() > 249 {
        return Err("must be 249 bytes at most".to_owned());
    }
    Ok(text.to_owned())
}

/// `host:port` pairs, separated by commas. An IPv6 address stands in brackets. In front may stand what brokers write in their
/// `listeners`, such as `SSL://`; [`protocols`] finds it.
pub(in crate::config) fn addresses(text: &str) -> Result<Vec<(String, u16)>, String> {
    parts(text).map(address).collect()
}

/// The security protocols that stand in front of addresses.
pub(in crate::config) fn protocols(text: &str) -> impl Iterator<Item = (&str, SecurityProtocol)> {
    parts(text).filter_map(|part| {
        let (protocol, _) = part.split_once("://")?;
        Some((part, security_protocol(protocol).ok()?))
    })
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty())
}

fn address(part: &str) -> Result<(String, u16), String> {
    let rule = || format!("must be host:port, separated by commas; {part:?} is not");
    let address = match part.split_once("://") {
        Some((protocol, _)) if security_protocol(protocol).is_err() => {
            return Err(format!(
                "must be host:port; {part:?} has a scheme that is no security.protocol"
            ));
        }
        Some((_, address)) => address,
        None => part,
    };
    network::address(address).ok_or_else(rule)
}
