//! From pairs of a property's name and its text to a [`Config`].

use std::fmt;
use std::time::Duration;

use ottla_protocol::compression::Compression;
use ottla_protocol::nearest::near;

use super::moved;
use super::property::{Property, Role};
use super::secret::Secret;
use super::settings::{Config, PROPERTIES};
use super::tables::{GroupProtocol, Partitioner, protocols};
use crate::release::Fallback;

/// The default for the number of records of one poll of a share consumer.
const SHARED_AT_ONCE: usize = 500;

/// The bytes that the response to a fetch may take besides its records.
const FETCH_OVERHEAD: usize = 1 << 20;

/// Settings that the consumer protocol of groups does not use, and which setting replaces them
/// there (KIP-848).
const OF_CLASSIC: [(&str, &str); 3] = [
    (
        "partition.assignment.strategy",
        "group.remote.assignor names an assignor of the brokers",
    ),
    (
        "session.timeout.ms",
        "the group's consumer.session.timeout.ms on the brokers sets it",
    ),
    (
        "heartbeat.interval.ms",
        "the group's consumer.heartbeat.interval.ms on the brokers sets it",
    ),
];

/// A property that cannot be used as it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct ConfigError {
    /// The property, as the caller wrote it.
    pub key: String,
    /// The problem and what would be valid.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl GroupProtocol {
    /// Whether groups of this protocol have a use for a property, for a caller that gives it as something else than text.
    ///
    /// # Errors
    /// The consumer protocol does not have them; the error names what replaces them.
    pub fn check_uses(self, name: &'static str) -> Result<(), ConfigError> {
        match OF_CLASSIC.iter().find(|(classic, _)| *classic == name) {
            Some((_, instead)) if self == GroupProtocol::Consumer => Err(error(
                name,
                format!("is not used with group.protocol=consumer: leave it out; {instead}"),
            )),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// Settings for `role` from pairs of a property's name and its text. Names may be written with underscores.
    ///
    /// # Errors
    /// The first property that is unknown, meant for another client, given twice, out of range, or in conflict with
    /// another; or `bootstrap.servers` missing.
    pub fn parse<'a>(
        role: Role,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Config, ConfigError> {
        let mut given: Vec<(&'static Property<Config>, &'a str, &'a str)> = Vec::new();
        for (key, text) in pairs {
            let property = find(role, key, Some(text))?;
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
                (Some((_, key, text)), _) => property.apply(&mut config, text).map_err(|rule| {
                    match property.is_secret() {
                        true => error(key, rule),
                        false => error(key, format!("{rule}, and was {text:?}")),
                    }
                })?,
                (None, Some(text)) => property
                    .apply(&mut config, text)
                    .map_err(|rule| error(property.name, rule))?,
                (None, None) => {}
            }
        }
        let servers = given
            .iter()
            .find(|(row, _, _)| row.name == "bootstrap.servers");
        if let Some((_, key, text)) = servers {
            config
                .check_protocols(text)
                .map_err(|rule| error(key, rule))?;
        }
        let is_given = |name: &str| given.iter().any(|(row, _, _)| row.name == name);
        config.settle(is_given)?;
        let for_provider = given
            .iter()
            .filter(|(row, _, _)| row.name.starts_with("sasl.") || row.name.starts_with("https."));
        config.sasl_given = for_provider
            .map(|(row, _, text)| (row.name, Secret::new(text)))
            .collect();
        Ok(config)
    }

    /// Whether records are compressed before they are sent.
    pub fn compresses(&self) -> bool {
        self.compression != Compression::None
    }

    /// The scheme of the bootstrap servers must be the protocol of the connections.
    fn check_protocols(&self, servers: &str) -> Result<(), String> {
        let speaks = self.security_protocol;
        match protocols(servers).find(|(_, protocol)| *protocol != speaks) {
            Some((server, protocol)) => Err(format!(
                "{server:?} is an address of a listener for {0}, and security.protocol is {1}: set security.protocol to {0}, or \
                 leave the scheme out",
                protocol.name(),
                speaks.name()
            )),
            None => Ok(()),
        }
    }

    /// Rules that concern more than one property: conflicts are errors, and what was not given gives way.
    fn settle(&mut self, is_given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        if self.bootstrap.is_empty() {
            return Err(error(
                "bootstrap.servers",
                "is required: host:port of at least one broker",
            ));
        }
        self.settle_authentication(&is_given)
            .map_err(|(key, problem)| error(key, problem))?;
        if !self.api_version_request && !matches!(self.broker_version_fallback, Fallback::Old(_)) {
            return Err(error(
                "api.version.request",
                "false needs broker.version.fallback, the version of the brokers: 0.8.2 or 0.9.0; newer ones return it",
            ));
        }
        match self.role {
            Role::Producer => self.settle_producer(&is_given)?,
            Role::Consumer => {
                self.settle_answers(&is_given)?;
                self.settle_group(&is_given)?;
            }
            Role::ShareConsumer => {
                self.settle_answers(&is_given)?;
                self.settle_share(&is_given)?;
            }
            Role::Admin => {}
        }
        self.settle_security(&is_given)?;
        self.setup_timeout_max = self.setup_timeout_max.max(self.setup_timeout);
        self.reconnect_backoff_max = self.reconnect_backoff_max.max(self.reconnect_backoff);
        self.retry_backoff_max = self.retry_backoff_max.max(self.retry_backoff);
        Ok(())
    }

    fn settle_producer(&mut self, is_given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        // Where brokers create topics, a send to a new topic creates it. Kafka's producers have no property against it.
        self.allow_auto_create_topics = true;
        self.compression_level = match self.compression {
            Compression::Gzip => self.gzip_level,
            Compression::Lz4 => self.lz4_level,
            Compression::Zstd => self.zstd_level,
            Compression::None | Compression::Snappy => None,
        };
        if self.transactional_id.is_some() {
            if let Some(rule) = self.idempotence_conflict() {
                return Err(error("transactional.id", rule));
            }
            if !self.idempotence {
                return Err(error("transactional.id", "needs enable.idempotence=true"));
            }
        }
        if self.two_phase_commit {
            let key = "transaction.two.phase.commit.enable";
            if self.transactional_id.is_none() {
                return Err(error(key, "needs a transactional.id"));
            }
            if is_given("transaction.timeout.ms") {
                let rule = "must not be given together with transaction.two.phase.commit.enable=true: such transactions have no \
                            timeout";
                return Err(error("transaction.timeout.ms", rule));
            }
        }
        match self.idempotence_conflict() {
            Some(rule) if self.idempotence && is_given("enable.idempotence") => {
                return Err(error("enable.idempotence", rule));
            }
            Some(_) => self.idempotence = false,
            None => {
                let asked = is_given("enable.idempotence") || self.transactional_id.is_some();
                self.requires_idempotence = self.idempotence && asked;
            }
        }
        let goes_by_keys = !matches!(
            self.partitioner,
            Partitioner::Sticky | Partitioner::RoundRobin
        );
        if self.ignores_keys && goes_by_keys {
            let text = "cannot be true with a partitioner that goes by keys: leave partitioner out, or write sticky or round_robin";
            return Err(error("partitioner.ignore.keys", text));
        }
        if self.rack_aware && self.client_rack.is_none() {
            let text = "needs client.rack: the rack this client stands in, as brokers name theirs";
            return Err(error("partitioner.rack.aware", text));
        }
        if self.batch_size > self.buffer_memory {
            let text = format!(
                "must hold at least one batch (batch.size is {})",
                self.batch_size
            );
            return Err(error("buffer.memory", text));
        }
        let one_attempt: Duration = self.linger.unwrap_or_default() + self.request_timeout;
        if self.delivery_timeout < one_attempt {
            if is_given("delivery.timeout.ms") {
                return Err(error(
                    "delivery.timeout.ms",
                    "must be at least linger.ms + request.timeout.ms",
                ));
            }
            self.delivery_timeout = one_attempt;
        }
        Ok(())
    }

    /// Settings of TLS without TLS would leave a connection open to everybody that was meant to be safe.
    fn settle_security(&mut self, is_given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        let of_tls = PROPERTIES
            .iter()
            .find(|row| row.name.starts_with("ssl.") && is_given(row.name));
        if let Some(row) = of_tls.filter(|_| !is_given("security.protocol")) {
            let text = format!(
                "must be given with {}: SSL to use TLS, PLAINTEXT to do without it",
                row.name
            );
            return Err(error("security.protocol", text));
        }
        let one_of = |names: &[&str]| {
            let given: Vec<_> = names.iter().filter(|name| is_given(name)).collect();
            match given.as_slice() {
                [first, second, ..] => Err(error(
                    first,
                    format!("means the same as {second}: give one of them"),
                )),
                _ => Ok(()),
            }
        };
        one_of(&[
            "ssl.ca.location",
            "ssl.ca.pem",
            "ssl.truststore.location",
            "ssl.truststore.certificates",
        ])?;
        one_of(&[
            "ssl.keystore.location",
            "ssl.keystore.certificate.chain",
            "ssl.certificate.location",
            "ssl.certificate.pem",
        ])?;
        one_of(&[
            "ssl.keystore.location",
            "ssl.keystore.key",
            "ssl.key.location",
            "ssl.key.pem",
        ])?;
        let any = |names: &[&str]| names.iter().any(|name| is_given(name));
        let has_certificate = any(&[
            "ssl.keystore.certificate.chain",
            "ssl.certificate.location",
            "ssl.certificate.pem",
        ]);
        let has_key = any(&["ssl.keystore.key", "ssl.key.location", "ssl.key.pem"]);
        if has_certificate && !has_key {
            let text = "is required with a client certificate: the file of its private key; see ssl.key.pem too";
            return Err(error("ssl.key.location", text));
        }
        if has_key && !has_certificate {
            let text = "is required with a private key: the file of its certificate; see ssl.certificate.pem too";
            return Err(error("ssl.certificate.location", text));
        }
        let newest = self.ssl_newest;
        if !self.ssl_versions.iter().any(|version| *version <= newest) {
            return Err(error(
                "ssl.protocol",
                "allows none of ssl.enabled.protocols",
            ));
        }
        self.ssl_versions.retain(|version| *version <= newest);
        Ok(())
    }

    /// A member that is taken for dead between two heartbeats could not stay in its group.
    fn settle_group(&mut self, is_given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        self.settle_group_protocol(&is_given)?;
        if self.heartbeat_interval >= self.session_timeout {
            if is_given("heartbeat.interval.ms") {
                return Err(error(
                    "heartbeat.interval.ms",
                    "must be less than session.timeout.ms, and is best a third of it",
                ));
            }
            self.heartbeat_interval = self.session_timeout / 3;
        }
        if self.group_instance_id.is_some() && self.group_id.is_none() {
            return Err(error("group.instance.id", "needs group.id"));
        }
        Ok(())
    }

    /// Records that one member has are kept from the others.
    fn settle_share(&mut self, is_given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        if self.group_id.is_none() {
            return Err(error("group.id", "is required: the share group"));
        }
        if !is_given("max.poll.records") {
            self.max_poll_records = SHARED_AT_ONCE;
        }
        Ok(())
    }

    /// A setting that the group protocol does not use would have no effect.
    fn settle_group_protocol(&self, is_given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        match self.group_protocol {
            GroupProtocol::Classic if is_given("group.remote.assignor") => Err(error(
                "group.remote.assignor",
                "names an assignor of the group's coordinator, which does not assign with group.protocol=classic: set \
                 group.protocol=consumer, or partition.assignment.strategy instead",
            )),
            protocol => OF_CLASSIC
                .iter()
                .filter(|(name, _)| is_given(name))
                .try_for_each(|(name, _)| protocol.check_uses(name)),
        }
    }

    /// The requirement of idempotence that these settings do not meet.
    fn idempotence_conflict(&self) -> Option<&'static str> {
        if self.acks != -1 {
            Some("needs acks=all")
        } else if self.max_in_flight > 5 {
            Some("needs max.in.flight.requests.per.connection of 5 at most")
        } else if self.retries == 0 {
            Some("needs retries above 0")
        } else {
            None
        }
    }

    /// A broker may exceed fetch.max.bytes for the first batch of a response: the limit of a
    /// response leaves space for that.
    fn settle_answers(&mut self, is_given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        let fetched = usize::try_from(self.fetch_max_bytes)
            .unwrap_or(0)
            .saturating_add(FETCH_OVERHEAD);
        if self.receive_message_max < fetched {
            if is_given("receive.message.max.bytes") {
                return Err(error(
                    "receive.message.max.bytes",
                    format!("must be at least {fetched}: fetch.max.bytes and 1 MiB"),
                ));
            }
            self.receive_message_max = fetched;
        }
        Ok(())
    }
}

/// The property of `role` with the name `key`, in which underscores may stand for dots. `text` is the value that it was given,
/// if that is a text; an error may repeat it in the line to write instead.
///
/// # Errors
/// The name belongs to another client or to another Kafka client, or is unknown; with what to write instead.
pub fn find(
    role: Role,
    key: &str,
    text: Option<&str>,
) -> Result<&'static Property<Config>, ConfigError> {
    let dotted = key.replace('_', ".");
    let dotted = moved::another_spelling(&dotted).map_or(dotted, str::to_owned);
    if let Some(property) = PROPERTIES.iter().find(|row| row.name == dotted) {
        if property.roles.contains(&role) {
            return Ok(property);
        }
        let owners: Vec<_> = property.roles.iter().map(|owner| owner.name()).collect();
        let owners = owners.join(" and ");
        let text = format!("is a property of the {owners}, not of the {}", role.name());
        return Err(error(key, text));
    }
    if let Some(advice) = moved::advice(key, &dotted, text) {
        return Err(error(key, advice));
    }
    let known = PROPERTIES
        .iter()
        .filter(|row| row.roles.contains(&role))
        .map(|row| row.name);
    let guess = near(&dotted, known).map_or_else(String::new, |name| {
        format!("; did you mean {}?", moved::in_the_style_of(key, name))
    });
    let text = format!("is not a property of the {}{guess}", role.name());
    Err(error(key, text))
}

fn error(key: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError {
        key: key.to_owned(),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{TlsVersion, is_secret};

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
        assert!(config.idempotence && config.check_crcs);
        assert_eq!(
            (config.acks, config.linger, config.batch_size),
            (-1, None, 1_000_000)
        );
    }

    #[test]
    fn only_a_send_creates_topics_unless_told_otherwise() {
        let creates = |role, pairs: &[(&'static str, &'static str)]| {
            let servers = [("bootstrap.servers", "localhost:9092")];
            let pairs = servers.into_iter().chain(pairs.iter().copied());
            Config::parse(role, pairs).unwrap().allow_auto_create_topics
        };
        assert!(!creates(Role::Consumer, &[]));
        assert!(!creates(Role::Admin, &[]));
        assert!(creates(Role::Producer, &[]));
        let told = [("allow.auto.create.topics", "true")];
        assert!(creates(Role::Consumer, &told));
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

    /// Rule: 2.4.17.
    #[test]
    fn names_the_key_and_what_would_be_right() {
        assert_eq!(
            problem(&[("lingerms", "5")]),
            "lingerms: is not a property of the producer; did you mean linger.ms?"
        );
        assert_eq!(
            problem(&[("linger_mss", "5")]),
            "linger_mss: is not a property of the producer; did you mean linger_ms?"
        );
        assert_eq!(
            problem(&[("zzzzzzzzzzzzzzzzzzz", "5")]),
            "zzzzzzzzzzzzzzzzzzz: is not a property of the producer"
        );
        assert_eq!(
            problem(&[("check.crcs", "true")]),
            "check.crcs: is a property of the consumer and share-consumer, not of the producer"
        );
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
        assert!(
            problem(&[("security.protocol", "SASL_SSL")]).contains("sasl.mechanism: is required")
        );
        assert!(problem(&[("security.protocol", "tls")]).contains("is SSL"));
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
    fn brokers_that_are_not_asked_must_know_the_mechanism() {
        let login = [
            ("security.protocol", "SASL_SSL"),
            ("sasl.username", "alice"),
            ("sasl.password", "secret"),
            ("api.version.request", "false"),
        ];
        for (release, mechanism, needed) in [
            ("0.8.2", "GSSAPI", "0.9"),
            ("0.9.0", "PLAIN", "0.10"),
            ("0.9.0", "SCRAM-SHA-512", "0.10.2"),
        ] {
            let of = [
                ("broker.version.fallback", release),
                ("sasl.mechanism", mechanism),
            ];
            let said = problem(&[&login[..], &of].concat());
            let wanted =
                format!("sasl.mechanism: {mechanism} needs brokers of Kafka {needed} or newer");
            assert!(said.starts_with(&wanted), "{said}");
        }
        let kerberos = [
            ("broker.version.fallback", "0.9.0"),
            ("sasl.mechanism", "GSSAPI"),
        ];
        assert!(producer(&[&login[..], &kerberos].concat()).is_ok());
        // Newer brokers are asked, and the fallback does not matter.
        let asked = [
            ("broker.version.fallback", "0.9.0"),
            ("sasl.mechanism", "PLAIN"),
        ];
        assert!(producer(&[&login[..3], &asked].concat()).is_ok());
    }

    #[test]
    fn settings_of_tls_are_whole() {
        for (given, said) in [
            (
                &[("ssl.ca.location", "ca.pem")][..],
                "security.protocol: must be given with ssl.ca.location",
            ),
            (
                &[("ssl.ca.location", "a"), ("ssl.truststore.location", "b")],
                "ssl.ca.location: means the same as ssl.truststore.location",
            ),
            (
                &[("ssl.keystore.location", "a"), ("ssl.key.pem", "b")],
                "ssl.keystore.location: means the same as ssl.key.pem",
            ),
            (
                &[("ssl.certificate.location", "a")],
                "ssl.key.location: is required",
            ),
            (
                &[("ssl.key.location", "a")],
                "ssl.certificate.location: is required",
            ),
            (
                &[("ssl.ca.location", "-----BEGIN CERTIFICATE-----")],
                "ssl.ca.location: must be the path",
            ),
            (&[("ssl.ca.pem", "ca.pem")], "ssl.ca.pem: must be the text"),
            (
                &[("ssl.enabled.protocols", "TLSv1.2,TLSv1.1")],
                "TLSv1.1 is no longer safe",
            ),
            (
                &[
                    ("ssl.enabled.protocols", "TLSv1.3"),
                    ("ssl.protocol", "TLSv1.2"),
                ],
                "ssl.protocol: allows none",
            ),
            (
                &[("ssl.keystore.type", "BCFKS")],
                "must be one of pem, pkcs12, jks",
            ),
        ] {
            let protocol = [("security.protocol", "SSL")];
            let skipped = usize::from(said.starts_with("security.protocol"));
            let pairs: Vec<_> = protocol[skipped..].iter().chain(given).copied().collect();
            let problem = problem(&pairs);
            assert!(problem.contains(said), "{problem}");
        }
        let hidden = [
            ("security.protocol", "SSL"),
            ("ssl.key.password", "hunter2"),
        ];
        let config = producer(&hidden).unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(config.security_protocol.is_tls() && config.ssl_checks_host);
        let plain = [("security.protocol", "PLAINTEXT"), ("ssl.ca.location", "a")];
        assert!(
            producer(&plain).is_ok(),
            "settings may be shared with others"
        );
        let unchecked = [
            ("security.protocol", "ssl"),
            ("ssl.endpoint.identification.algorithm", ""),
            ("ssl.protocol", "TLSv1.2"),
            ("ssl.cipher.suites", "A, B:C"),
        ];
        let config = producer(&unchecked).unwrap();
        assert_eq!(config.ssl_versions, [TlsVersion::V12]);
        assert_eq!(config.ssl_cipher_suites, ["A", "B", "C"]);
        assert!(!config.ssl_checks_host);
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
            "SSL://a:1",
            "PLAINTEXT://a",
            "PLAINTEXT://a:1,SASL_SSL://a:2",
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
    fn an_address_may_have_the_scheme_of_its_listener() {
        let pairs = [(
            "bootstrap.servers",
            "PLAINTEXT://a:1, b:2,plaintext://[::1]:3",
        )];
        let config = Config::parse(Role::Admin, pairs).unwrap();
        let wanted = [("a", 1), ("b", 2), ("::1", 3)].map(|(host, port)| (host.to_owned(), port));
        assert_eq!(config.bootstrap, wanted);
        let pairs = [
            ("bootstrap.servers", "SASL_SSL://a:1"),
            ("security.protocol", "SSL"),
        ];
        let error = Config::parse(Role::Admin, pairs).unwrap_err().to_string();
        assert!(
            error.contains("set security.protocol to SASL_SSL"),
            "{error}"
        );
    }

    #[test]
    fn the_table_is_consistent() {
        let mut names: Vec<_> = PROPERTIES.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROPERTIES.len());
        for row in PROPERTIES {
            // By the name alone, errors about values that never reach the table keep them hidden.
            assert!(!row.is_secret() || is_secret(row.name), "{}", row.name);
            if let Some(text) = row.default {
                row.apply(&mut Config::blank(Role::Producer), text).unwrap();
            }
        }
    }

    #[test]
    fn each_protocol_of_groups_has_settings_of_its_own() {
        let consumer = |pairs: &[(&'static str, &'static str)]| {
            let servers = [("bootstrap.servers", "localhost:9092"), ("group.id", "g")];
            Config::parse(
                Role::Consumer,
                servers.into_iter().chain(pairs.iter().copied()),
            )
        };
        for key in [
            "partition.assignment.strategy",
            "session.timeout.ms",
            "heartbeat.interval.ms",
        ] {
            let value = if key.ends_with("ms") { "9000" } else { "range" };
            let given = [("group.protocol", "consumer"), (key, value)];
            let error = consumer(&given).unwrap_err();
            assert_eq!(error.key, key);
            assert!(error.problem.contains("group.protocol=consumer"), "{error}");
            consumer(&[("group.protocol", "auto"), (key, value)]).unwrap();
        }
        let error = consumer(&[("group.remote.assignor", "range")]).unwrap_err();
        assert!(
            error.to_string().contains("group.protocol=classic"),
            "{error}"
        );
        for protocol in ["consumer", "auto", "CONSUMER"] {
            consumer(&[
                ("group.protocol", protocol),
                ("group.remote.assignor", "range"),
            ])
            .unwrap();
        }
        assert!(consumer(&[("group.protocol", "streams")]).is_err());
    }
}
