"""The metrics of a client, under the same names as in Kafka's clients. All of it can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

CLIENT_ID = "client-id"
"""The tag that every metric has."""


class MetricName(NamedTuple):
    """The name of a metric: Kafka's name, group and tags.

    Attributes:
        name: Such as `record-send-rate`.
        group: Such as `producer-metrics`.
        tags: Pairs of a tag and its value, sorted, such as `(("client-id", "producer-1"), ("topic", "flights"))`.
    """

    name: str
    group: str
    tags: tuple[tuple[str, str], ...]

    def tag(self, name: str) -> str | None:
        """Return the value of a tag.

        Args:
            name: The tag's name, such as `"topic"`.

        Returns:
            Its value; None if the metric does not have the tag.
        """
        return next((value for tag, value in self.tags if tag == name), None)


class Metrics(dict[MetricName, float]):
    """The metrics of a client at one moment: values by `MetricName`.

    A value is NaN where an average, a maximum or an age has nothing to be about yet.

    Example:
        ```python
        metrics = producer.metrics()
        print(metrics.value("record-send-total"), metrics.value("record-send-total", topic="flights"))
        for name, value in metrics.select(group="producer-node-metrics").items():
            print(name.name, name.tag("node-id"), value)
        ```
    """

    __slots__ = ()

    def value(self, name: str, /, *, group: str | None = None, **tags: object) -> float:
        """Return the value of the metric with this name and exactly these tags.

        Args:
            name: Kafka's name.
            group: Kafka's name of the group; needed only where two groups have the name.
            **tags: Its tags but for `client-id`, with underscores for hyphens, such as `topic="flights"` or
                `node_id="node-1"`.

        Returns:
            The value, in the unit of Kafka's metric: rates are per second, times in milliseconds, sizes in bytes.

        Raises:
            KeyError: There is no such metric, or more than one; the text lists what there is by that name.
        """
        wanted = {tag.replace("_", "-"): str(value) for tag, value in tags.items()}
        named = [key for key in self if key.name == name and group in (None, key.group)]
        found = [key for key in named if dict(key.tags) | {CLIENT_ID: ""} == wanted | {CLIENT_ID: ""}]
        if len(found) == 1:
            return self[found[0]]
        there = ", ".join(f"{key.group} {_shown(key)}" for key in named[:20]) or "nothing by that name"
        raise KeyError(f"{len(found)} metrics {name!r} with the tags {wanted}; there is {there}")

    def select(self, name: str | None = None, /, *, group: str | None = None, **tags: object) -> Metrics:
        """Return the metrics with this name, this group and at least these tags.

        Args:
            name: Kafka's name; None takes all.
            group: Kafka's name of the group; None takes all.
            **tags: Tags and their values, with underscores for hyphens.

        Returns:
            The metrics that match, in the same order; empty if none does.
        """
        wanted = {(tag.replace("_", "-"), str(value)) for tag, value in tags.items()}
        return Metrics(
            (key, value)
            for key, value in self.items()
            if name in (None, key.name) and group in (None, key.group) and wanted <= set(key.tags)
        )

    def prometheus_text(self, *others: Mapping[MetricName, float]) -> str:
        """Return the metrics in the text format that Prometheus scrapes.

        A name is `kafka_`, the group and Kafka's name, such as `kafka_producer_record_send_total`, and has what a
        series is about: `kafka_producer_topic_record_send_total`, `kafka_producer_node_request_rate`. Labels are the
        tags. Values that are NaN are left out.

        Args:
            *others: The metrics of further clients, which become part of the same text. Each client needs a
                `client.id` of its own.

        Returns:
            The text, for a response of type `text/plain; version=0.0.4`.

        Raises:
            ArgumentError: Two clients have the same `client.id`.

        Example:
            ```python
            page = producer.metrics().prometheus_text(consumer.metrics())
            ```
        """
        from ottla._prometheus import text

        return text((self, *others))


class Measured(Protocol):
    """What has metrics: the core of a client."""

    def metrics(self, *, even_closed: bool = False) -> Metrics:
        """All metrics at this moment."""

    def metrics_interval(self) -> float:
        """Seconds between two calls of `on_metrics`."""


def check_callback(callback: Any) -> None:
    """Raise unless it can be called, or is None."""
    if callback is not None and not callable(callback):
        raise TypeError(f"on_metrics must be callable, not {type(callback).__name__}")


def _shown(key: MetricName) -> str:
    return "{" + ", ".join(f"{tag}={value}" for tag, value in key.tags if tag != CLIENT_ID) + "}"
