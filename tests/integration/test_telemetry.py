"""Metrics that real Kafka asks for (KIP-714), and what its plugin gets: a receiver of our own, in Java, that writes a file."""

from __future__ import annotations

import base64
import math
import socket
import struct
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

import ottla
from ottla import protocol
from tests.admin.subscriptions import REQUESTED, requested
from tests.brokers.brokers import fetch, sh
from tests.integration.conftest import kafka_for_a_while
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.java import VERSION
from tests.waiting import check_time

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.needs("java", "javac", "mvn")]
SOURCE = "TelemetryFile"
CLIENT_METRICS = 16  # the type of a subscription among the resources that have a configuration
PREFIX = "org.apache.kafka."


@pytest.fixture(scope="module")
def receiving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Kafka with a receiver of metrics, and the file of what it received."""
    folder = tmp_path_factory.mktemp("telemetry")
    jar, file = folder / "receiver.jar", folder / "pushes"
    source = Path(__file__).parent / "java" / f"{SOURCE}.java"
    sh("javac", "-nowarn", "-cp", f"{fetch(VERSION)}/*", "-d", folder / "classes", source)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.write(folder / "classes" / f"{SOURCE}.class", f"{SOURCE}.class")
        # An agent's jar comes to the class path of the broker, which the harness composes.
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nPremain-Class: {SOURCE}\n")
    config = {"metric.reporters": SOURCE, "telemetry.file": str(file)}
    with kafka_for_a_while(folder, version=VERSION, config=config, jvm=[f"-javaagent:{jar}"]) as cluster:
        bootstrap = str(cluster.st["bootstrap"]["PLAINTEXT"])
        subscribe(bootstrap, {"metrics": "*", "interval.ms": "500"})
        yield bootstrap, file


def subscribe(bootstrap: str, values: dict[str, str | None]) -> None:
    """Ask all clients for metrics, as the tool kafka-client-metrics does. A value of None is removed."""
    configs = [{"name": name, "configOperation": int(value is None), "value": value} for name, value in values.items()]
    resource = {"resourceType": CLIENT_METRICS, "resourceName": "all", "configs": configs}
    message = {"resources": [resource], "validateOnly": False}
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), DEADLINE) as plain, plain.makefile("rb") as answers:
        plain.sendall(
            protocol.encode_request("IncrementalAlterConfigs", 1, message, correlation_id=1, client_id="test")
        )
        (size,) = struct.unpack(">i", answers.read(4))
        frame = struct.pack(">i", size) + answers.read(size)
    answer = protocol.decode_frame(frame, response_to=("IncrementalAlterConfigs", 1)).message
    assert [row["errorCode"] for row in answer["responses"]] == [0], answer


def pushes(file: Path, client: str) -> list[tuple[UUID, bool, dict[str, Any]]]:
    """The instance ids of a client's pushes, whether each was the last, and its values by name and tags."""
    return [(instance, terminating, values(metrics)) for instance, terminating, metrics in received(file, client)]


def received(file: Path, client: str) -> list[tuple[UUID, bool, bytes]]:
    """As `pushes`, with the metrics as they came."""
    data = file.read_bytes() if file.exists() else b""
    parts: list[bytes] = []
    while data:
        (size,) = struct.unpack(">i", data[:4])
        parts.append(data[4 : 4 + size])
        data = data[4 + size :]
    found = []
    for name, instance, terminating, metrics in zip(*[iter(parts)] * 4, strict=True):
        if name.decode() == client:
            # Kafka's text of an id is base64.
            id_ = UUID(bytes=base64.urlsafe_b64decode(instance + b"=="))
            found.append((id_, terminating == b"true", metrics))
    return found


def read(metrics: bytes) -> Iterator[Metric]:
    for resource in MetricsData.FromString(metrics).resource_metrics:
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            assert metric.name.startswith(PREFIX)
            yield metric


def values(metrics: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for metric in read(metrics):
        points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
        for point in points:
            tags = ",".join(f"{a.key}={a.value.string_value}" for a in point.attributes)
            found[f"{metric.name.removeprefix(PREFIX)}{{{tags}}}"] = point.as_double
    return found


def test_kafka_gets_what_it_asked_for(receiving: tuple[str, Path]) -> None:
    bootstrap, file = receiving
    with ottla.Admin(bootstrap, client_id="admin") as admin:
        admin.create_topics([ottla.NewTopic("t", 1, 1)])
    with ottla.Producer(bootstrap, client_id="producer", linger_ms=0) as producer:
        for _ in range(3):
            producer.send("t", b"v" * 100).result(DEADLINE)
        instance = producer.client_instance_id(DEADLINE)
        end = time.monotonic() + DEADLINE
        while len(pushes(file, "producer")) < 2:
            check_time(end, "Kafka received no second push")
            time.sleep(0.1)
    with ottla.Consumer(bootstrap, client_id="consumer", auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0)])
        count = 0
        while count < 3:
            count += len(consumer.poll(DEADLINE))
        consumer.client_instance_id(DEADLINE)
        end = time.monotonic() + DEADLINE
        while not pushes(file, "consumer"):
            check_time(end, "Kafka received no push of the consumer")
            consumer.poll(0.1)

    pushed = pushes(file, "producer")
    assert {id_ for id_, _, _ in pushed} == {instance}
    assert [terminating for _, terminating, _ in pushed] == [False] * (len(pushed) - 1) + [True]
    last = pushed[-1][2]
    # What KIP-714 requires of every producer.
    for name in (
        "connection.creation.rate",
        "connection.creation.total",
        "produce.throttle.time.avg",
        "record.queue.time.max",
    ):
        assert math.isfinite(last[f"producer.{name}{{}}"])
    # Kafka asks for how much totals grew: together the pushes tell of each record once.
    for name in ("producer.record.send.total{}", "producer.topic.record.send.total{topic=t}"):
        assert sum(told.get(name, 0) for _, _, told in pushed) == 3
    assert any(name.startswith("producer.node.request.latency.avg{node_id=node-") for name in last)
    consumed = pushes(file, "consumer")[-1]
    assert consumed[1]
    all_told = [told for _, _, told in pushes(file, "consumer")]
    assert sum(told["consumer.fetch.manager.records.consumed.total{}"] for told in all_told) == 3
    for name in ("fetch.manager.fetch.latency.avg", "fetch.manager.fetch.latency.max", "connection.creation.total"):
        assert math.isfinite(consumed[2][f"consumer.{name}{{}}"])


PROGRAM = "AppMetrics"


def of_program(file: Path, client: str) -> tuple[dict[str, float], dict[str, Any]]:
    """What a client's pushes have of the program's metrics: values by name and tags, and of each name what it is.

    A counter's is the sum of what each push adds, and a gauge's that of the last push.
    """
    found: dict[str, float] = {}
    kinds: dict[str, Any] = {}
    for _, _, metrics in received(file, client):
        for metric in (metric for metric in read(metrics) if "shop" in metric.name):
            is_delta = metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
            kinds[metric.name] = metric.WhichOneof("data"), metric.sum.is_monotonic, is_delta
        for name, value in values(metrics).items():
            if "shop" in name:
                found[name] = value + (found.get(name, 0.0) if "total" in name else 0.0)
    return found, kinds


@pytest.mark.parametrize("role", ["Producer", "Consumer", "ShareConsumer", "Admin"])
def test_metrics_of_a_program_are_pushed_as_the_java_client_pushes_them(
    receiving: tuple[str, Path], javas: tuple[dict[str, Any], dict[str, Any]], role: str
) -> None:
    bootstrap, file = receiving
    tags = {"Sales-Region": "EU", "client-id": "other"}
    total = ottla.AppMetric("Orders-Total", "My-Shop-Metrics", tags=tags, kind="counter")
    total.set(3)
    orders = ottla.AppMetric("Orders-Open", "My-Shop-Metrics", tags=tags)
    orders.set(7.25)
    name = f"program-{role}"
    group = {"group_id": name} if role == "ShareConsumer" else {}
    with getattr(ottla, role)(bootstrap, client_id=name, **group) as client:
        client.register_metric_for_subscription(total)
        client.register_metric_for_subscription(orders)
        client.client_instance_id(DEADLINE)
    assert of_program(file, name) == javas
    assert received(file, name)[-1][1], "the close pushes once more"
    assert len(javas[0]) == 2


@pytest.fixture(scope="module")
def javas(receiving: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the last push of Kafka's own client has of a program's metrics."""
    bootstrap, file = receiving
    classes = tmp_path_factory.mktemp("program")
    path = f"{fetch(VERSION)}/*"
    sh("javac", "-nowarn", "-cp", path, "-d", classes, Path(__file__).parent / "java" / f"{PROGRAM}.java")
    sh("java", "-cp", f"{path}:{classes}", PROGRAM, bootstrap, "java")
    return of_program(file, "java")


def test_kafka_requests_what_the_matching_subscriptions_want(receiving: tuple[str, Path]) -> None:
    """The embedded broker does the same: tests/python/test_client_metrics.py. The last test, as it ends what all clients push."""
    subscribe(receiving[0], {"metrics": None, "interval.ms": None})
    assert requested(receiving[0]) == REQUESTED
