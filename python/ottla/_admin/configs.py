"""Configurations of topics, brokers, groups and subscriptions of client metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["AlterConfigOp", "ConfigEntry", "ConfigResource", "ConfigSynonym"]


@dataclass(frozen=True, order=True)
class ConfigResource:
    """What has a configuration.

    Attributes:
        type: `"TOPIC"`, `"BROKER"`, `"BROKER_LOGGER"`, `"GROUP"` or `"CLIENT_METRICS"`.
        name: Its name; of brokers and of their loggers the id. `""` is the default of all brokers.
    """

    type: str
    name: str


@dataclass(frozen=True)
class AlterConfigOp:
    """A change of a configuration.

    Attributes:
        name: The configuration, such as `"retention.ms"`.
        value: Its value; of a list that is appended to or subtracted from, the items with commas between.
        operation: `"SET"`, `"DELETE"`, which goes back to the default, `"APPEND"` or `"SUBTRACT"`.
    """

    name: str
    value: str | None = None
    operation: str = "SET"


@dataclass(frozen=True)
class ConfigSynonym:
    """A place that sets a configuration.

    Attributes:
        name: The name of the configuration there.
        value: Its value; None if it is secret.
        source: Which place, as in `ConfigEntry`.
    """

    name: str
    value: str | None
    source: str


@dataclass(frozen=True)
class ConfigEntry:
    """A configuration.

    Attributes:
        name: Its name, such as `"retention.ms"`.
        value: Its value; None if it is secret, or not set.
        source: Where the value comes from, such as `"DYNAMIC_TOPIC_CONFIG"`, `"STATIC_BROKER_CONFIG"` or
            `"DEFAULT_CONFIG"`.
        is_sensitive: Whether the value is secret.
        is_read_only: Whether it cannot be changed while the broker runs.
        type: The type of the value, such as `"LONG"`; `"UNKNOWN"` where brokers do not return it (before Kafka 2.6).
        documentation: Kafka's documentation, if the call requested it.
        synonyms: All places that set it, if the call requested them; the one that counts is the first.
    """

    name: str
    value: str | None
    source: str
    is_sensitive: bool = False
    is_read_only: bool = False
    type: str = "UNKNOWN"
    documentation: str | None = field(default=None, repr=False)
    synonyms: list[ConfigSynonym] = field(default_factory=list, repr=False)
