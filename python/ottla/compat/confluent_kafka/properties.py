"""From the configuration of a confluent-kafka client to that of an ottla client, and to what the replacement does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla import _ottla
from ottla.compat.confluent_kafka.errors import failure
from ottla.compat.confluent_kafka.property_table import (
    OF_CONSUMERS,
    OF_PRODUCERS,
    OWN,
    RENAMED,
    UNSUPPORTED,
    VALUES,
    WITHOUT_EFFECT,
    Role,
)

# What is a function or a logger, not text: the exception for a value that cannot be called.
_CALLBACKS: Final = {
    "error_cb": TypeError,
    "stats_cb": TypeError,
    "throttle_cb": ValueError,
    "oauth_cb": TypeError,
    "on_commit": None,
    "on_delivery": None,
}
_INSTEAD: Final = {row.name: row.instead for row in UNSUPPORTED}
# What librdkafka uses where a program sets nothing, if ottla's default is another one.
_DEFAULTS: Final[dict[Role, dict[str, str]]] = {
    "producer": {"partitioner": "consistent_random", "delivery.timeout.ms": "300000"},
    "consumer": {"isolation.level": "read_committed", "partition.assignment.strategy": "range,roundrobin"},
    "share-consumer": {},
    "admin": {},
}
_TABLE: Final = {row["name"]: row for row in _ottla.properties()}
# librdkafka's defaults, in milliseconds.
_MAX_POLL_INTERVAL: Final = 300_000
_SESSION_TIMEOUT: Final = 45_000
_BOUNDS: Final = {"linger.ms": (0, 900_000), "statistics.interval.ms": (0, 86_400_000)}


@dataclass
class Configuration:
    """A client's configuration after translation.

    Attributes:
        role: The client's kind.
        properties: What ottla's client gets.
        own: What the replacement does itself, as text, by librdkafka's name.
        callbacks: The functions, by their keys.
        logger: Where logs go.
    """

    role: Role
    properties: dict[str, Any] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    callbacks: dict[str, Callable[..., Any]] = field(default_factory=dict)
    logger: Any = None

    def flag(self, name: str, default: bool) -> bool:
        """A property that is true or false."""
        text = self.own.get(name)
        if text is None:
            return default
        if text.lower() not in {"true", "false", "1", "0", "t", "f"}:
            raise failure("_INVALID_ARG", f'Expected bool value for "{name}": true or false')
        return text.lower() in {"true", "1", "t"}

    def number(self, name: str, default: int) -> int:
        """A property that is a whole number."""
        text = self.own.get(name)
        return default if text is None else _number(name, text)


def parse(role: Role, args: tuple[Any, ...], named: Mapping[str, Any]) -> Configuration:
    """Read what a client was constructed with: a dict, keywords, or both.

    Raises:
        TypeError: There is no configuration, or a callback cannot be called.
        KafkaException: A property is unknown, unsupported or has a value that is not allowed (_INVALID_ARG).
    """
    given = _merged(args, named)
    made = Configuration(role, properties=dict(_DEFAULTS[role]))
    for key, value in given.items():
        name = str(key)
        if name in _CALLBACKS:
            _take_callback(made, name, value)
        elif name == "logger":
            made.logger = value
        elif value is not None:
            _take(made, name, _text(value))
    _reconcile(made)
    return made


def _merged(args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[Any, Any]:
    if len(args) > 1 or (args and args[0] is not None and not isinstance(args[0], dict)):
        raise TypeError("expected configuration dict")
    if not (args and args[0] is not None) and not named:
        raise TypeError("expected configuration dict")
    given = {**(args[0] if args and args[0] is not None else {}), **named}
    topic = given.pop("default.topic.config", None)
    if topic is not None:
        if not isinstance(topic, dict):
            raise TypeError("default.topic.config: expected dict")
        given.update(topic)
    return given


def _take_callback(made: Configuration, name: str, value: Any) -> None:
    if value is None:
        return
    if not callable(value):
        kind = _CALLBACKS[name]
        if kind is None:
            raise failure("_INVALID_ARG", f"{name} requires a callable object")
        raise kind(f"expected {name} property as a callable function")
    made.callbacks[name] = value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode()
    return str(value)


def _take(made: Configuration, given: str, text: str) -> None:
    name = RENAMED.get(given, given)
    if name in _INSTEAD:
        raise failure("_INVALID_ARG", f'Configuration property "{given}" is not supported by ottla: {_INSTEAD[name]}')
    if name in WITHOUT_EFFECT:
        return
    if name in OF_CONSUMERS and made.role in {"producer", "admin"} and name != "client.rack":
        return
    if name in OF_PRODUCERS and made.role != "producer":
        return
    if name in OWN or (name == "max.poll.interval.ms" and made.role == "share-consumer"):
        made.own[name] = text
        return
    row = _TABLE.get(name)
    if row is None:
        raise failure("_INVALID_ARG", f'No such configuration property: "{given}"')
    if made.role not in row["roles"]:
        return
    text = VALUES.get(name, {}).get(text, text)
    if row["kind"] == "int":
        text = _whole(name, given, text)
    elif row["kind"] == "choice" and text.lower() not in row["choices"]:
        # confluent-kafka itself checks the partitioner, and librdkafka the others.
        shown = (f' "{text}"', "") if name != "partitioner" else ("", f": {text}")
        raise failure("_INVALID_ARG", f'Invalid value{shown[0]} for configuration property "{given}"{shown[1]}')
    made.properties[name] = _servers(text) if name == "bootstrap.servers" else text


def _servers(text: str) -> str:
    """Brokers as ottla takes them: librdkafka's may have a protocol before the host, and the port may be missing."""
    servers = [server.strip().rpartition("://")[2] for server in text.split(",") if server.strip()]
    has_port = re.compile(r"(?:[^:]*|\[.*\]):\d+")
    return ",".join(server if has_port.fullmatch(server) else f"{server}:9092" for server in servers)


def _whole(name: str, given: str, text: str) -> str:
    """A whole number as text. `linger.ms` may have a fraction in librdkafka."""
    value = _number(given, text)
    least, most = _BOUNDS.get(name, (None, None))
    if least is not None and most is not None and not least <= value <= most:
        reason = f'Configuration property "{given}" value {value} is outside allowed range {least}..{most}'
        raise failure("_INVALID_ARG", reason)
    return str(value)


def _number(name: str, text: str) -> int:
    try:
        return int(float(text)) if "." in text else int(text)
    except ValueError:
        raise failure("_INVALID_ARG", f'Invalid value for configuration property "{name}"') from None


def _reconcile(made: Configuration) -> None:
    """Fit defaults to what was set: librdkafka and ottla relate different properties to each other."""
    properties = made.properties
    if made.role == "producer":
        _reconcile_producer(made)
    elif made.role == "consumer":
        _reconcile_consumer(made)
    if properties.get("api.version.request") == "false" and "broker.version.fallback" not in properties:
        # Deprecated in librdkafka, and of no effect with the brokers that have versions to ask for.
        del properties["api.version.request"]
    if properties.get("connections.max.idle.ms") == "0":
        properties["connections.max.idle.ms"] = "-1"
    for name in ("send.buffer.bytes", "receive.buffer.bytes"):
        if properties.get(name) == "0":
            properties[name] = "-1"
    if "receive.message.max.bytes" in properties:
        properties["receive.message.max.bytes"] = str(max(1_048_576, int(properties["receive.message.max.bytes"])))
    if "sasl" in properties.get("security.protocol", "").lower():
        properties.setdefault("sasl.allow.plaintext", "true")


def _reconcile_consumer(made: Configuration) -> None:
    properties = made.properties
    # The replacement commits: what was stored.
    properties["enable.auto.commit"] = "false"
    session = properties.get("session.timeout.ms")
    if properties.get("group.protocol") == "consumer":
        # The group has the session's timeout, and the assignor.
        properties.pop("partition.assignment.strategy", None)
    elif int(properties.get("max.poll.interval.ms", _MAX_POLL_INTERVAL)) < int(session or _SESSION_TIMEOUT):
        reason = "Failed to create consumer: `max.poll.interval.ms` must be >= `session.timeout.ms`"
        raise failure("_INVALID_ARG", reason)
    if session is not None and "heartbeat.interval.ms" not in properties:
        properties["heartbeat.interval.ms"] = str(max(1, min(3000, int(session) // 3)))
    if "queued.max.messages.kbytes" in made.own:
        properties["prefetch.max.bytes"] = str(made.number("queued.max.messages.kbytes", 0) * 1024)


def _reconcile_producer(made: Configuration) -> None:
    properties = made.properties
    acks = properties.get("acks", "all")
    in_flight = int(properties.get("max.in.flight.requests.per.connection", "5"))
    weak = acks not in {"all", "-1"} or in_flight > 5 or properties.get("retries") == "0"
    if properties.get("enable.idempotence", "").lower() == "true":
        if acks not in {"all", "-1"}:
            reason = "Failed to create producer: `acks` must be set to `all` when `enable.idempotence` is true"
            raise failure("_INVALID_ARG", reason)
    elif "transactional.id" in properties and "enable.idempotence" in properties:
        reason = "Failed to create producer: `transactional.id` requires `enable.idempotence=true`"
        raise failure("_INVALID_ARG", reason)
    elif weak and "transactional.id" not in properties:
        properties["enable.idempotence"] = "false"
    timeout = int(properties["delivery.timeout.ms"]) or 2**31 - 1
    if timeout <= int(properties.get("linger.ms", "0")):
        raise failure(
            "_INVALID_ARG", "Failed to create producer: `message.timeout.ms` must be greater than `linger.ms`"
        )
    linger = min(int(properties.get("linger.ms", "5")), max(0, timeout - 1))
    properties["linger.ms"] = str(linger)
    request = int(properties.get("request.timeout.ms", "30000"))
    properties["request.timeout.ms"] = str(max(1, min(request, timeout - linger)))
    properties["delivery.timeout.ms"] = str(timeout)
    properties["max.block.ms"] = str(timeout)
    level = made.number("compression.level", -1)
    codec = properties.get("compression.type", "none").lower()
    if level >= 0 and codec in {"gzip", "lz4", "zstd"}:
        properties[f"compression.{codec}.level"] = str(max(1, level))
