"""What becomes of each of librdkafka's properties.

A test compares docs/start/confluent-kafka-programs.md with these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Role = Literal["producer", "consumer", "share-consumer", "admin"]

# By librdkafka's name, ottla's name. Names that both have are not listed.
RENAMED: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "message.max.bytes": "max.request.size",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "message.timeout.ms": "delivery.timeout.ms",
    "auto.commit.enable": "enable.auto.commit",
}

# The values that librdkafka spells differently, by ottla's name of the property.
VALUES: Final = {
    "auto.offset.reset": {
        "smallest": "earliest",
        "beginning": "earliest",
        "largest": "latest",
        "end": "latest",
        "error": "none",
    },
    "compression.type": {"inherit": "none"},
}

# What the replacement does itself, without a property of ottla.
OWN: Final = frozenset(
    {
        "enable.auto.commit",
        "auto.commit.interval.ms",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "statistics.interval.ms",
        "queue.buffering.max.messages",
        "queue.buffering.max.kbytes",
        "delivery.report.only.error",
        "compression.level",
        "sasl.oauthbearer.config",
        "queued.max.messages.kbytes",
        "debug",
    }
)

# What tunes librdkafka's inner work or its log, and changes no result: accepted, without an effect.
WITHOUT_EFFECT: Final = frozenset(
    {
        "message.copy.max.bytes",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.sparse",
        "topic.metadata.propagation.max.ms",
        "socket.blocking.max.ms",
        "socket.nagle.disable",
        "socket.max.fails",
        "broker.address.ttl",
        "reconnect.backoff.jitter.ms",
        "enabled_events",
        "log_level",
        "log.queue",
        "log.thread.name",
        "log.connection.close",
        "enable.random.seed",
        "internal.termination.signal",
        "coordinator.query.interval.ms",
        "queued.min.messages",
        "fetch.queue.backoff.ms",
        "fetch.error.backoff.ms",
        "queue.buffering.backpressure.threshold",
        "batch.num.messages",
        "sticky.partitioning.linger.ms",
        "produce.offset.report",
        "consume.callback.max.messages",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
    }
)

# The properties of consumers, share consumers and producers that the other roles pass over, as librdkafka does.
OF_CONSUMERS: Final = frozenset(
    {
        "group.id", "group.instance.id", "partition.assignment.strategy", "session.timeout.ms",
        "heartbeat.interval.ms", "group.protocol", "group.remote.assignor", "max.poll.interval.ms",
        "enable.auto.commit", "auto.commit.interval.ms", "enable.auto.offset.store", "queued.max.messages.kbytes",
        "fetch.max.wait.ms", "max.partition.fetch.bytes", "fetch.max.bytes", "fetch.min.bytes", "isolation.level",
        "enable.partition.eof", "check.crcs", "max.poll.records", "share.acknowledgement.mode", "auto.offset.reset",
        "client.rack", "allow.auto.create.topics",
    }
)  # fmt: skip
OF_PRODUCERS: Final = frozenset(
    {
        "transactional.id", "transaction.timeout.ms", "enable.idempotence", "queue.buffering.max.messages",
        "queue.buffering.max.kbytes", "linger.ms", "retries", "compression.type", "compression.level", "batch.size",
        "delivery.report.only.error", "acks", "delivery.timeout.ms", "partitioner", "max.request.size",
        "max.in.flight.requests.per.connection",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Unsupported:
    """A property that raises: its name, and what to do instead."""

    name: str
    instead: str


_LEAVE = "leave it out"
UNSUPPORTED: Final = tuple(
    Unsupported(name, instead)
    for name, instead in (
        ("topic.blacklist", "subscribe to the topics that you want"),
        ("broker.address.family", "use host names that resolve to the family that you want"),
        ("ssl.curves.list", "leave it out: rustls chooses the curves"),
        ("ssl.sigalgs.list", "leave it out: rustls chooses the signature algorithms"),
        ("https.ca.pem", "write the certificates to a file and set https.ca.location"),
        ("ssl.ca.certificate.stores", "leave it out: the system's authorities are trusted by default"),
        ("ssl.crl.location", "ottla checks no revocation lists"),
        ("ssl.providers", _LEAVE),
        ("ssl.engine.location", _LEAVE),
        ("ssl.engine.id", _LEAVE),
        ("enable.sasl.oauthbearer.unsecure.jwt", "pass oauth_cb"),
        ("sasl.oauthbearer.sub.claim.name", _LEAVE),
        ("sasl.oauthbearer.assertion.private.key.passphrase", "store the key without a passphrase"),
        ("sasl.oauthbearer.assertion.private.key.pem", "set sasl.oauthbearer.assertion.private.key.file"),
        ("sasl.oauthbearer.assertion.jwt.template.file", "set the claims one by one"),
        ("sasl.oauthbearer.metadata.authentication.type", "pass oauth_cb"),
        ("plugin.library.paths", "leave it out: plugins are libraries for librdkafka"),
        ("group.protocol.type", "leave it out: it is always consumer"),
        ("enable.gapless.guarantee", "use transactions"),
        ("queuing.strategy", "leave it out: records keep their order"),
        ("offset.store.method", "leave it out: offsets are committed to the broker"),
        ("offset.store.path", "leave it out: offsets are committed to the broker"),
        ("offset.store.sync.interval.ms", "leave it out: offsets are committed to the broker"),
        ("builtin.features", _LEAVE),
        ("interceptors", _LEAVE),
    )
)
