//! The properties that every client has.

macro_rules! common {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* ALL {
        /// Brokers to ask for all others: host:port, separated by commas. Required.
        "bootstrap.servers" => bootstrap: Vec<(String, u16)>, text(addresses);
        /// Name of this client in brokers' logs, metrics and quotas.
        "client.id" => client_id: String = "ottla", text(client_id);
        /// How to talk to brokers. Only PLAINTEXT for now; any other value is an error.
        "security.protocol" => security_protocol: SecurityProtocol = "PLAINTEXT", text(security);
        /// How long a request waits for its answer before its connection is closed.
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
        /// Age at which the metadata of the cluster is refreshed even if nothing seems to have changed.
        "metadata.max.age.ms" => metadata_max_age: Duration = "300000", millis(1);
        /// Most bytes of one answer. The client closes a connection whose broker announces more.
        "receive.message.max.bytes" => receive_message_max: usize = "104857600", bytes(1 << 20);
        /// Size of the sockets' receive buffers; -1 leaves it to the system.
        "receive.buffer.bytes" => receive_buffer: Option<usize> = "-1", bytes(-1);
        /// Size of the sockets' send buffers; -1 leaves it to the system.
        "send.buffer.bytes" => send_buffer: Option<usize> = "-1", bytes(-1);
        /// Whether the system probes idle connections (SO_KEEPALIVE) to notice brokers that vanished.
        "socket.keepalive.enable" => keepalive: bool = "true", bool();
    } } };
}
pub(in crate::config) use common;

/// How to talk to brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    #[default]
    Plaintext,
}

pub(in crate::config) fn security(text: &str) -> Result<SecurityProtocol, String> {
    match text.to_ascii_uppercase().as_str() {
        "PLAINTEXT" => Ok(SecurityProtocol::Plaintext),
        "SSL" | "SASL_PLAINTEXT" | "SASL_SSL" => Err(format!(
            "{text} is not supported by this version: use a PLAINTEXT listener of the brokers"
        )),
        _ => Err("must be PLAINTEXT".to_owned()),
    }
}

pub(in crate::config) fn client_id(text: &str) -> Result<String, String> {
    if text.len() > 249 {
        return Err("must be 249 bytes at most".to_owned());
    }
    Ok(text.to_owned())
}

/// `host:port` pairs, separated by commas. An IPv6 address stands in brackets.
pub(in crate::config) fn addresses(text: &str) -> Result<Vec<(String, u16)>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(address)
        .collect()
}

fn address(part: &str) -> Result<(String, u16), String> {
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
}
