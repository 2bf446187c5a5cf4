//! Names that people bring along from other clients and from old releases, and what to write instead.
//!
//! The names are those of Java's clients, librdkafka (confluent-kafka), kafka-python and aiokafka. None is in the table of
//! properties: what several clients name alike is there under Kafka's name. They stand here with dots; the Python clients
//! write underscores.

use super::secret::is_secret;

/// The advice for a caller that uses the name.
#[derive(Clone, Copy, Debug)]
enum Instead {
    /// The property of another name, with the same values.
    Write(&'static str),
    /// The property has another name, and a value in its unit is this many times larger.
    Times(&'static str, i64),
    /// Anything else: what to do, in words.
    Do(&'static str),
}

/// The advice instead of setting `key`, which is `dotted` with underscores for dots; `None` if no
/// client has such a name. `text` is the value that was given, if it is a text.
pub(super) fn advice(key: &str, dotted: &str, text: Option<&str>) -> Option<String> {
    let dotted = dotted.to_ascii_lowercase();
    let known = NAMES.iter().find(|(name, _)| *name == dotted);
    let family = || {
        let mut families = FAMILIES.iter();
        families.find(|(start, _)| dotted.starts_with(start))
    };
    let (_, instead) = known.or_else(family)?;
    let shown = |name: &str| text.filter(|_| !is_secret(key) && !is_secret(name));
    Some(match *instead {
        Instead::Write(name) => line(key, name, shown(name).map(str::to_owned)),
        Instead::Times(name, factor) => {
            let number = text.and_then(|text| text.trim().parse::<i64>().ok());
            let value = number.and_then(|number| number.checked_mul(factor));
            line(key, name, value.map(|value| value.to_string()))
        }
        Instead::Do(what) => what.to_owned(),
    })
}

fn line(key: &str, name: &str, value: Option<String>) -> String {
    let name = in_the_style_of(key, name);
    let value = value.map_or_else(String::new, |value| format!("={value}"));
    format!("has another name here: write {name}{value}")
}

/// `name` with underscores, if `key` was written so.
pub(super) fn in_the_style_of(key: &str, name: &str) -> String {
    if key.contains('_') && !key.contains('.') {
        name.replace('.', "_")
    } else {
        name.to_owned()
    }
}

/// Kafka's name of a property that other clients spell otherwise and mean the same by, so that both are taken.
pub(super) fn another_spelling(dotted: &str) -> Option<&'static str> {
    const SPELLINGS: &[(&str, &str)] = &[
        ("sasl.mechanisms", "sasl.mechanism"),
        (
            "sasl.oauthbearer.client.id",
            "sasl.oauthbearer.client.credentials.client.id",
        ),
        (
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.client.credentials.client.secret",
        ),
        (
            "sasl.oauthbearer.assertion.jwt.algorithm",
            "sasl.oauthbearer.assertion.algorithm",
        ),
    ];
    let mut known = SPELLINGS.iter();
    known
        .find(|(name, _)| *name == dotted)
        .map(|(_, kafka)| *kafka)
}

const SERIALIZER: &str = "is not needed: keys and values are bytes or str. Leave it out and encode where you send: \
    producer.send(topic, json.dumps(value))";
const DESERIALIZER: &str = "is not needed: keys and values come as bytes. Leave it out and decode where you read: \
    json.loads(record.value)";
const LISTENERS: &str =
    "is not a setting here: write consumer.subscribe(topics, on_assign=f, on_revoke=g, on_lost=h)";
const COMMITTED: &str = "is not a setting here: consumer.commit() raises what went wrong, and commits that nobody waits for are \
    logged by logging.getLogger(\"ottla.consumer\")";
const STORED: &str = "is not needed: what is committed is what consumer.commit(offsets) is given, and else what was polled. Leave \
    it out, and set enable.auto.commit=false to commit by yourself";
const NO_FILES: &str = "is not needed: offsets are committed to the group's brokers. Leave it out";
const TLS_CLASS: &str =
    "belongs to Java's or OpenSSL's TLS, and this client has its own: leave it out";
const REVOKED: &str =
    "belongs to lists of revoked certificates, which this version does not support: leave it out";
const SASL: &str = "belongs to SASL, and has no counterpart here: leave it out. The properties of SASL are in `ottla config admin`";
const SASL_CLASS: &str = "names a Java class, which this client never loads: leave it out. Tokens of your own come from \
    sasl_token=callable";
const SASL_TOKEN: &str = "has another name here: write sasl_token=callable, which returns a token, or a token and the seconds \
    for which it is valid";
const KINIT: &str = "is not needed: the Kerberos library gets tickets by itself, from the credentials cache or from \
    sasl.kerberos.keytab. Leave it out";
const ENCRYPTED_KEY: &str = "has no counterpart: give a key that is not encrypted in \
    sasl.oauthbearer.assertion.private.key.file";
const JAVA_CLASS: &str = "names Java classes, which this client cannot load: leave it out";
const DELIVERY: &str = "is not a setting here: each send returns its delivery, so write \
    producer.send(topic, value).add_done_callback(f)";
const EVENTS: &str = "is not needed: an error is raised by the call that it concerns. To see what happens in between, listen \
    to logging.getLogger(\"ottla\")";
const LOGGER: &str = "is not a setting here: what happens goes to Python's logging, so set the level and the handlers of \
    logging.getLogger(\"ottla\")";
const STATISTICS: &str = "has another name here: write on_metrics=f, which is called with the client's metrics every \
    metrics.interval.ms";
const RECORDING: &str =
    "is not needed: everything that the client measures is there at any time. Leave it out";
const TELEMETRY: &str = "is a setting of brokers: whether this client pushes metrics to them is enable.metrics.push. Leave it out";
const VERSIONS: &str =
    "is not needed: the client requests each broker's versions itself. Leave it out";
const NOT_KEPT: &str =
    "has no counterpart: the client decides this without a setting. Leave it out";
const LOOP: &str = "is not needed: clients of ottla.aio use the running event loop. Leave it out";
const NODELAY: &str =
    "is not needed: the client never delays small requests (TCP_NODELAY). Leave it out";

#[rustfmt::skip]
static NAMES: &[(&str, Instead)] = &[
    // Serializers, callbacks and logs: things of the caller's language.
    ("key.serializer", Instead::Do(SERIALIZER)),
    ("value.serializer", Instead::Do(SERIALIZER)),
    ("key.deserializer", Instead::Do(DESERIALIZER)),
    ("value.deserializer", Instead::Do(DESERIALIZER)),
    ("on.delivery", Instead::Do(DELIVERY)),
    ("dr.cb", Instead::Do(DELIVERY)),
    ("dr.msg.cb", Instead::Do(DELIVERY)),
    ("delivery.report.only.error", Instead::Do(DELIVERY)),
    ("go.delivery.reports", Instead::Do(DELIVERY)),
    ("error.cb", Instead::Do(EVENTS)),
    ("throttle.cb", Instead::Do(EVENTS)),
    ("state.change.callback", Instead::Do(EVENTS)),
    ("log.cb", Instead::Do(LOGGER)),
    ("logger", Instead::Do(LOGGER)),
    ("debug", Instead::Do(LOGGER)),
    ("log.level", Instead::Do(LOGGER)),
    ("log.queue", Instead::Do(LOGGER)),
    ("log.connection.close", Instead::Do(LOGGER)),
    ("log.thread.name", Instead::Do(LOGGER)),
    ("stats.cb", Instead::Do(STATISTICS)),
    ("statistics.interval.ms", Instead::Write("metrics.interval.ms")),
    ("metrics.recording.level", Instead::Do(RECORDING)),
    ("metrics.enabled", Instead::Do(RECORDING)),
    ("auto.include.jmx.reporter", Instead::Do(JAVA_CLASS)),
    ("interceptor.classes", Instead::Do(JAVA_CLASS)),
    ("plugin.library.paths", Instead::Do("loads libraries into librdkafka, which this client does not use: leave it out")),
    ("config.providers", Instead::Do(JAVA_CLASS)),
    ("default.topic.config", Instead::Do("is not needed: topic properties are set next to the other properties. Move its \
        entries up, such as acks or auto.offset.reset")),
    ("loop", Instead::Do(LOOP)),
    ("executor", Instead::Do(LOOP)),
    ("kafka.client", Instead::Do(NOT_KEPT)),
    ("selector", Instead::Do(NOT_KEPT)),
    ("legacy.iterator", Instead::Do(NOT_KEPT)),

    // Where the brokers are.
    ("metadata.broker.list", Instead::Write("bootstrap.servers")),
    ("brokers", Instead::Write("bootstrap.servers")),
    ("bootstrap.controllers", Instead::Do("connects to controllers directly, which this version does not do: give bootstrap.servers \
        the brokers' host:port")),
    ("zookeeper.connect", Instead::Do("is how old consumers found brokers: give bootstrap.servers the brokers' host:port")),
    ("client.software.name", Instead::Do(NOT_KEPT)),
    ("client.software.version", Instead::Do(NOT_KEPT)),

    // Connections and requests.
    ("socket.timeout.ms", Instead::Write("request.timeout.ms")),
    ("timeout.ms", Instead::Write("request.timeout.ms")),
    ("socket.send.buffer.bytes", Instead::Write("send.buffer.bytes")),
    ("socket.receive.buffer.bytes", Instead::Write("receive.buffer.bytes")),
    ("socket.nagle.disable", Instead::Do(NODELAY)),
    ("socket.options", Instead::Do(NODELAY)),
    ("socket.max.fails", Instead::Do(NOT_KEPT)),
    ("sock.chunk.bytes", Instead::Do(NOT_KEPT)),
    ("sock.chunk.buffer.count", Instead::Do(NOT_KEPT)),
    ("socket.blocking.max.ms", Instead::Do(NOT_KEPT)),
    ("reconnect.backoff.jitter.ms", Instead::Write("reconnect.backoff.ms")),
    ("broker.address.ttl", Instead::Do(NOT_KEPT)),
    ("broker.address.family", Instead::Do(NOT_KEPT)),
    ("max.in.flight", Instead::Write("max.in.flight.requests.per.connection")),
    ("max.in.flight.requests", Instead::Write("max.in.flight.requests.per.connection")),
    ("api.version", Instead::Do(VERSIONS)),
    ("api.version.auto.timeout.ms", Instead::Write("api.version.request.timeout.ms")),
    ("metadata.request.timeout.ms", Instead::Write("request.timeout.ms")),
    ("topic.metadata.refresh.interval.ms", Instead::Write("metadata.max.age.ms")),
    ("topic.metadata.refresh.fast.interval.ms", Instead::Write("retry.backoff.ms")),
    ("topic.metadata.refresh.sparse", Instead::Do(NOT_KEPT)),
    ("topic.metadata.propagation.max.ms", Instead::Do(NOT_KEPT)),
    ("topic.blacklist", Instead::Do(NOT_KEPT)),
    ("enable.sparse.connections", Instead::Do(NOT_KEPT)),

    // Sending.
    ("request.required.acks", Instead::Write("acks")),
    ("queue.buffering.max.ms", Instead::Write("linger.ms")),
    ("queue.buffering.max.messages", Instead::Do("counts records, and the buffer is bounded in bytes here: set buffer.memory")),
    ("queue.buffering.max.kbytes", Instead::Times("buffer.memory", 1024)),
    ("queue.buffering.backpressure.threshold", Instead::Do(NOT_KEPT)),
    ("batch.num.messages", Instead::Do("counts records, and batches are bounded in bytes here: set batch.size")),
    ("max.batch.size", Instead::Write("batch.size")),
    ("message.max.bytes", Instead::Write("max.request.size")),
    ("message.copy.max.bytes", Instead::Do(NOT_KEPT)),
    ("message.timeout.ms", Instead::Write("delivery.timeout.ms")),
    ("message.send.max.retries", Instead::Write("retries")),
    ("enable.gapless.guarantee", Instead::Do(NOT_KEPT)),
    ("compression.codec", Instead::Write("compression.type")),
    ("compression.level", Instead::Do("belongs to a codec here: set compression.gzip.level, compression.lz4.level or \
        compression.zstd.level")),
    ("block.on.buffer.full", Instead::Do("is a time here: max.block.ms is how long a send waits for space, and with 0 it does not wait")),
    ("partitioner.class", Instead::Do("names a Java class, which this client cannot load: leave it out. Records go where \
        Java's default puts them; write partitioner=round_robin with partitioner.ignore.keys=true for its RoundRobinPartitioner, and \
        a function of your own as partitioner=callable")),
    ("sticky.partitioning.linger.ms", Instead::Do(NOT_KEPT)),
    ("msg.order.cmp", Instead::Do(NOT_KEPT)),
    ("produce.offset.report", Instead::Do("is not needed: the result of a delivery has the offset. Leave it out")),

    // Reading.
    ("fetch.wait.max.ms", Instead::Write("fetch.max.wait.ms")),
    ("fetch.message.max.bytes", Instead::Write("max.partition.fetch.bytes")),
    ("fetch.error.backoff.ms", Instead::Write("retry.backoff.ms")),
    ("fetch.queue.backoff.ms", Instead::Do(NOT_KEPT)),
    ("queued.max.messages.kbytes", Instead::Times("prefetch.max.bytes", 1024)),
    ("queued.min.messages", Instead::Do("counts records, and the buffer is bounded in bytes here: set prefetch.max.bytes")),
    ("consumer.timeout.ms", Instead::Do("is a timeout of each poll here: consumer.poll(seconds)")),
    ("consume.callback.max.messages", Instead::Write("max.poll.records")),
    ("enable.partition.eof", Instead::Do("has no counterpart: leave it out, and compare consumer.position(...) with \
        consumer.end_offsets(...), or ask consumer.lag()")),
    ("exclude.internal.topics", Instead::Do("is not needed: only the topics that you name are read. Leave it out")),

    // Groups and committed offsets.
    ("group.protocol.type", Instead::Do("is always consumer here: leave it out")),
    ("rebalance.timeout.ms", Instead::Write("max.poll.interval.ms")),
    ("coordinator.query.interval.ms", Instead::Write("retry.backoff.ms")),
    ("internal.leave.group.on.close", Instead::Do("is not needed: a member with a group.instance.id does not leave when it is \
        closed, any other does. Leave it out")),
    ("rebalance.cb", Instead::Do(LISTENERS)),
    ("auto.commit.enable", Instead::Write("enable.auto.commit")),
    ("enable.auto.offset.store", Instead::Do(STORED)),
    ("offset.commit.cb", Instead::Do(COMMITTED)),
    ("on.commit", Instead::Do(COMMITTED)),
    ("default.offset.commit.callback", Instead::Do(COMMITTED)),
    ("dual.commit.enabled", Instead::Do("is not needed: a consumer with offsets.storage=zookeeper and one without can commit the \
        same offsets. Leave it out")),
    ("offset.store.method", Instead::Do(NO_FILES)),
    ("offset.store.path", Instead::Do(NO_FILES)),
    ("offset.store.sync.interval.ms", Instead::Do(NO_FILES)),
    ("throw.on.fetch.stable.offset.unsupported", Instead::Do("is not needed: brokers before 2.5 have no offsets that would be \
        waited for. Leave it out")),

    // Security beyond the families below.
    ("security.providers", Instead::Do(JAVA_CLASS)),
    ("oauthbearer.token.refresh.cb", Instead::Do(SASL_TOKEN)),
    ("oauth.cb", Instead::Do(SASL_TOKEN)),
    ("sasl.oauth.token.provider", Instead::Do(SASL_TOKEN)),
    ("enable.sasl.oauthbearer.unsecure.jwt", Instead::Do(SASL_TOKEN)),
    ("sasl.oauthbearer.config", Instead::Do(SASL_TOKEN)),
    ("sasl.plain.username", Instead::Write("sasl.username")),
    ("sasl.plain.password", Instead::Write("sasl.password")),
    ("sasl.kerberos.kinit.cmd", Instead::Do(KINIT)),
    ("sasl.kerberos.min.time.before.relogin", Instead::Do(KINIT)),
    ("sasl.kerberos.ticket.renew.jitter", Instead::Do(KINIT)),
    ("sasl.kerberos.ticket.renew.window.factor", Instead::Do(KINIT)),
    ("sasl.client.callback.handler.class", Instead::Do(SASL_CLASS)),
    ("sasl.login.callback.handler.class", Instead::Do(SASL_CLASS)),
    ("sasl.login.class", Instead::Do(SASL_CLASS)),
    ("sasl.oauthbearer.jwt.retriever.class", Instead::Do(SASL_CLASS)),
    ("sasl.oauthbearer.jwt.validator.class", Instead::Do(SASL_CLASS)),
    ("sasl.oauthbearer.assertion.private.key.passphrase", Instead::Do(ENCRYPTED_KEY)),
    ("sasl.oauthbearer.clock.skew.seconds", Instead::Do(SASL)),
    ("sasl.oauthbearer.header.urlencode", Instead::Do(SASL)),
    ("sasl.oauthbearer.scope.claim.name", Instead::Do(SASL)),
    ("sasl.oauthbearer.sub.claim.name", Instead::Do(SASL)),
    ("ssl.cafile", Instead::Write("ssl.ca.location")),
    ("ssl.certfile", Instead::Write("ssl.certificate.location")),
    ("ssl.keyfile", Instead::Write("ssl.key.location")),
    ("ssl.password", Instead::Write("ssl.key.password")),
    ("ssl.ciphers", Instead::Write("ssl.cipher.suites")),
    ("ssl.crlfile", Instead::Do(REVOKED)),
    ("ssl.crl.location", Instead::Do(REVOKED)),
    ("ssl.context", Instead::Do("is Python's TLS, which this client does not use: leave it out and write \
        security.protocol=SSL, ssl.ca.location=..., and for a client certificate ssl.certificate.location=... and \
        ssl.key.location=...")),
    ("ssl.check.hostname", Instead::Do("has another name here: write ssl.endpoint.identification.algorithm=none to turn the \
        check off; it is on by default")),
    ("ssl.engine.factory.class", Instead::Do(JAVA_CLASS)),
    ("ssl.engine.location", Instead::Do(TLS_CLASS)),
    ("ssl.engine.id", Instead::Do(TLS_CLASS)),
    ("ssl.providers", Instead::Do(TLS_CLASS)),
    ("ssl.provider", Instead::Do(TLS_CLASS)),
    ("ssl.keymanager.algorithm", Instead::Do(TLS_CLASS)),
    ("ssl.trustmanager.algorithm", Instead::Do(TLS_CLASS)),
    ("ssl.secure.random.implementation", Instead::Do(TLS_CLASS)),
    ("ssl.curves.list", Instead::Do(TLS_CLASS)),
    ("ssl.sigalgs.list", Instead::Do(TLS_CLASS)),
    ("ssl.ca.certificate.stores", Instead::Do("is not needed: the system's authorities are trusted if nothing else is named. \
        Leave it out")),
];

/// Names with a common beginning.
static FAMILIES: &[(&str, Instead)] = &[
    ("sasl.login.", Instead::Do(SASL)),
    ("sasl.oauthbearer.jwks.", Instead::Do(SASL)),
    ("sasl.oauthbearer.expected.", Instead::Do(SASL)),
    ("sasl.server.", Instead::Do(SASL)),
    ("oauthbearer.", Instead::Do(SASL)),
    ("metric.reporters", Instead::Do(JAVA_CLASS)),
    ("telemetry.", Instead::Do(TELEMETRY)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PROPERTIES, Role};

    fn problem(role: Role, key: &str, text: &str) -> String {
        let pairs = [("bootstrap.servers", "localhost:9092"), (key, text)];
        Config::parse(role, pairs).unwrap_err().to_string()
    }

    /// Each of these keys is rejected with an error that contains all the words, which name what to
    /// do.
    fn all_say(role: Role, words: &[&str], keys: &[&str]) {
        for key in keys {
            let said = problem(role, key, "1");
            assert!(said.starts_with(&format!("{key}: ")), "{said}");
            assert!(!said.contains("not a property"), "{said}");
            for word in words {
                assert!(said.contains(word), "{word} is not in {said}");
            }
        }
    }

    #[test]
    fn another_name_is_answered_with_the_line_to_write() {
        for (role, key, text, line) in [
            (Role::Producer, "queue.buffering.max.ms", "5", "linger.ms=5"),
            (
                Role::Producer,
                "queue.buffering.max.kbytes",
                "64",
                "buffer.memory=65536",
            ),
            (
                Role::Producer,
                "queue_buffering_max_kbytes",
                "64",
                "buffer_memory=65536",
            ),
            (Role::Producer, "max_batch_size", "100", "batch_size=100"),
            (Role::Producer, "request.required.acks", "-1", "acks=-1"),
            (
                Role::Producer,
                "message.max.bytes",
                "1000",
                "max.request.size=1000",
            ),
            (
                Role::Producer,
                "message.timeout.ms",
                "1",
                "delivery.timeout.ms=1",
            ),
            (
                Role::Producer,
                "compression.codec",
                "lz4",
                "compression.type=lz4",
            ),
            (
                Role::Producer,
                "max.in.flight",
                "1",
                "max.in.flight.requests.per.connection=1",
            ),
            (
                Role::Admin,
                "socket.timeout.ms",
                "9",
                "request.timeout.ms=9",
            ),
            (
                Role::Admin,
                "metadata.broker.list",
                "a:1",
                "bootstrap.servers=a:1",
            ),
            (
                Role::Consumer,
                "fetch.wait.max.ms",
                "9",
                "fetch.max.wait.ms=9",
            ),
            (
                Role::Consumer,
                "queued.max.messages.kbytes",
                "many",
                "prefetch.max.bytes",
            ),
        ] {
            let wanted = format!("{key}: has another name here: write {line}");
            assert_eq!(problem(role, key, text), wanted);
        }
    }

    #[test]
    fn what_the_language_does_is_answered_with_how() {
        all_say(
            Role::Producer,
            &["encode", "send"],
            &["key_serializer", "value.serializer"],
        );
        all_say(
            Role::Consumer,
            &["decode"],
            &["key.deserializer", "value_deserializer"],
        );
        all_say(
            Role::Producer,
            &["add_done_callback"],
            &["on_delivery", "dr_cb"],
        );
        all_say(
            Role::Consumer,
            &["logging.getLogger(\"ottla\")"],
            &["error_cb", "logger", "debug", "log_level"],
        );
        all_say(
            Role::Producer,
            &["Move its entries up"],
            &["default.topic.config"],
        );
        all_say(
            Role::Consumer,
            &["consumer.poll("],
            &["consumer_timeout_ms"],
        );
        all_say(
            Role::Producer,
            &["leave it out"],
            &["metric.reporters", "interceptor.classes"],
        );
        all_say(
            Role::Consumer,
            &["on_metrics", "metrics.interval.ms"],
            &["stats_cb", "stats.cb"],
        );
        all_say(
            Role::Producer,
            &["metrics_interval_ms"],
            &["statistics_interval_ms"],
        );
        all_say(Role::Admin, &["Leave it out"], &["api_version", "loop"]);
    }

    #[test]
    fn what_is_not_there_yet_says_so_and_what_to_do() {
        all_say(
            Role::Consumer,
            &["of the share-consumer"],
            &["share.acquire.mode"],
        );
        all_say(Role::Consumer, &["on_assign="], &["rebalance_cb"]);
        all_say(Role::Admin, &["write ssl_ca_location="], &["ssl_cafile"]);
        all_say(Role::Admin, &["security.protocol=SSL"], &["ssl_context"]);
        all_say(
            Role::Admin,
            &["leave it out"],
            &["ssl.provider", "ssl_crlfile", "ssl.engine.factory.class"],
        );
        let classes = [
            "sasl.login.callback.handler.class",
            "sasl_client_callback_handler_class",
        ];
        all_say(Role::Producer, &["never loads", "sasl_token="], &classes);
        all_say(
            Role::Consumer,
            &["write sasl_token="],
            &["oauth_cb", "sasl_oauth_token_provider"],
        );
        let said = problem(Role::Producer, "sasl_plain_password", "hunter2");
        assert!(said.contains("write sasl_password"), "{said}");
        assert!(!said.contains("hunter2"), "secrets are not repeated");
        let said = problem(Role::Producer, "ssl_password", "hunter2");
        assert!(said.ends_with("write ssl_key_password"), "{said}");
    }

    #[test]
    fn every_name_leads_somewhere() {
        let is_property = |name: &str| PROPERTIES.iter().any(|row| row.name == name);
        for (at, (name, instead)) in NAMES.iter().enumerate() {
            assert!(!is_property(name), "{name} is in the table");
            assert!(!name.contains('_'), "{name} is compared with dots");
            assert!(
                !NAMES[..at].iter().any(|(other, _)| other == name),
                "{name} twice"
            );
            if let Instead::Write(to) | Instead::Times(to, _) = instead {
                assert!(is_property(to), "{to}, for {name}, is no property");
            }
        }
        for (start, _) in FAMILIES {
            assert!(
                !PROPERTIES.iter().any(|row| row.name.starts_with(start)),
                "{start}"
            );
        }
    }
}
