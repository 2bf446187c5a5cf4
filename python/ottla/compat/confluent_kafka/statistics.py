"""The JSON of `stats_cb`: librdkafka's fields, as far as ottla measures the same, and ottla's metrics."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import ottla
from ottla.compat.confluent_kafka.constants import OFFSET_INVALID

_MICROSECONDS: Final = 1000
_UNKNOWN_LAG: Final = -1


@dataclass(frozen=True)
class PartitionOffsets:
    """Where a consumer is in a partition; -1001 for an offset that is not known.

    Attributes:
        app: The offset after the last record that the application got.
        stored: The offset that the next commit commits.
        committed: The offset that this client committed last.
    """

    app: int = OFFSET_INVALID
    stored: int = OFFSET_INVALID
    committed: int = OFFSET_INVALID


@dataclass(frozen=True)
class Snapshot:
    """What the JSON is made of.

    Attributes:
        name: The client's name in librdkafka's form.
        client_id: Its `client.id`.
        role: "producer", "consumer" or another kind.
        started: When it was made, in seconds since 1970.
        metrics: ottla's metrics of the client.
        nodes: The brokers by their ids, as far as they are known.
        pending: The number of records that wait for their delivery.
        offsets: Where a consumer is, by topic and partition.
    """

    name: str
    client_id: str
    role: str
    started: float
    metrics: Mapping[Any, float]
    nodes: Mapping[int, ottla.Node] = field(default_factory=dict)
    pending: int = 0
    offsets: Mapping[tuple[str, int], PartitionOffsets] = field(default_factory=dict)


def to_json(of: Snapshot) -> str:
    """Make the JSON."""
    values: dict[str, float] = {}
    brokers: dict[str, dict[str, Any]] = {}
    topics: dict[str, dict[str, Any]] = {}
    for metric, value in of.metrics.items():
        if not math.isfinite(value):
            continue
        tags = dict(metric.tags)
        if "node-id" in tags:
            brokers.setdefault(tags["node-id"], {})[metric.name] = value
        elif "topic" in tags:
            topic = topics.setdefault(tags["topic"], {"topic": tags["topic"], "partitions": {}})
            target = topic["partitions"].setdefault(tags["partition"], {}) if "partition" in tags else topic
            target[metric.name] = value
        else:
            values[metric.name] = value
    for name, number in of.offsets:
        topic = topics.setdefault(name, {"topic": name, "partitions": {}})
        topic["partitions"].setdefault(str(number), {})
    for name, topic in topics.items():
        for number, partition in topic["partitions"].items():
            _complete(partition, int(number), of.offsets.get((name, int(number)), PartitionOffsets()))
    named = [_broker(node, metrics, of.nodes) for node, metrics in brokers.items()]
    now = time.time()
    made = {
        "name": of.name,
        "client_id": of.client_id,
        "type": of.role if of.role in {"producer", "consumer"} else "consumer",
        "ts": time.monotonic_ns() // 1000,
        "time": int(now),
        "age": int((now - of.started) * 1_000_000),
        "replyq": 0,
        "msg_cnt": of.pending,
        "msg_size": int(values.get("buffer-total-bytes", 0) - values.get("buffer-available-bytes", 0)),
        "msg_size_max": int(values.get("buffer-total-bytes", 0)),
        "tx": int(values.get("request-total", 0)),
        "rx": int(values.get("response-total", 0)),
        "tx_bytes": int(values.get("outgoing-byte-total", 0)),
        "rx_bytes": int(values.get("incoming-byte-total", 0)),
        "txmsgs": int(values.get("record-send-total", 0)),
        "txmsg_bytes": int(sum(topic.get("byte-total", 0) for topic in topics.values())),
        "rxmsgs": int(values.get("records-consumed-total", 0)),
        "rxmsg_bytes": int(values.get("bytes-consumed-total", 0)),
        "brokers": {broker["name"]: broker for broker in named},
        "topics": topics,
    }
    if of.role == "consumer" and "assigned-partitions" in values:
        made["cgrp"] = _group(values)
    return json.dumps(made)


def _complete(partition: dict[str, Any], number: int, offsets: PartitionOffsets) -> None:
    """Add librdkafka's fields of a partition."""
    partition["partition"] = number
    partition["app_offset"] = offsets.app
    partition["stored_offset"] = offsets.stored
    partition["committed_offset"] = offsets.committed
    partition["consumer_lag"] = int(partition.get("records-lag", _UNKNOWN_LAG))


def _broker(tag: str, metrics: dict[str, float], nodes: Mapping[int, ottla.Node]) -> dict[str, Any]:
    """A broker, whose tag is `node-` and its id; bootstrap servers have negative ones."""
    number = int(tag.removeprefix("node-"))
    node = nodes.get(number)
    address = tag if node is None else f"{node.host}:{node.port}"
    sent, received = int(metrics.get("request-total", 0)), int(metrics.get("response-total", 0))
    trips = {
        of: int(metrics[f"request-latency-{of}"] * _MICROSECONDS)
        for of in ("avg", "max")
        if f"request-latency-{of}" in metrics
    }
    return {
        **metrics,
        "name": f"{address}/{number if number >= 0 else 'bootstrap'}",
        "nodeid": max(number, -1),
        "nodename": address,
        "source": "learned" if number >= 0 else "configured",
        "state": "UP",
        "tx": sent,
        "txbytes": int(metrics.get("outgoing-byte-total", 0)),
        "rx": received,
        "rxbytes": int(metrics.get("incoming-byte-total", 0)),
        "waitresp_cnt": sent - received,
        "rtt": {**trips, "cnt": received},
    }


def _group(values: dict[str, float]) -> dict[str, Any]:
    assigned = int(values["assigned-partitions"])
    return {
        "state": "up",
        "join_state": "steady" if assigned else "init",
        "rebalance_age": int(max(values.get("last-rebalance-seconds-ago", 0), 0) * 1000),
        "rebalance_cnt": int(values.get("rebalance-total", 0)),
        "assignment_size": assigned,
    }
