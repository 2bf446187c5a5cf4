"""Metrics that brokers ask for (KIP-714), on the embedded broker: what was pushed is read by OpenTelemetry's own classes."""

from __future__ import annotations

import itertools
import math
import time
from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

import ottla
from ottla.testing import Broker
from tests.python.conftest import PATIENCE

PREFIX = "org.apache.kafka."


def read(push):
    """Values of a push by name and tags, and the metrics themselves."""
    data = MetricsData.FromString(push.metrics)
    values, metrics = {}, {}
    for metric in (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics):
        assert metric.name.startswith(PREFIX)
        assert metric.name not in metrics, "one metric for each name"
        metrics[metric.name] = metric
        points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
        for point in points:
            tags = tuple((a.key, a.value.string_value) for a in point.attributes)
            values[metric.name.removeprefix(PREFIX), tags] = point.as_double
    return values, metrics


@pytest.fixture(scope="module")
def asking():
    with Broker(topics=["t"], config={"telemetry.metrics": "*", "telemetry.interval.ms": 100}) as broker:
        yield broker


def pushes_of(broker, client, count=1):
    """The pushes of a client, once there are so many."""
    end = time.monotonic() + PATIENCE
    while len(found := [push for push in broker.telemetry() if push.client_id == client]) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} pushes came"
        time.sleep(0.01)
    return found


def test_a_producer_pushes_and_says_when_it_was_the_last(api, asking):
    name = f"producer-{api.name}"
    with api.producer(asking.bootstrap_servers, client_id=name, linger_ms=0) as producer:
        api.result(api(producer.send("t", b"v" * 100)))
        instance = api(producer.client_instance_id())
        assert isinstance(instance, UUID)
        assert api(producer.client_instance_id(0)) == instance
        before = time.time_ns()
        first, *others = pushes_of(asking, name)
        # A push that was made before the record was delivered may be the next one.
        second = pushes_of(asking, name, len(others) + 3)[-1]
        assert first.client_instance_id == instance
        assert [first.terminating, second.terminating] == [False, False]
        assert first.compression == "zstd"
        values, metrics = read(second)
        assert values["producer.record.send.total", ()] == 1
        assert values["producer.topic.record.send.total", (("topic", "t"),)] == 1
        assert values["producer.connection.creation.total", ()] >= 1
        assert values["producer.node.request.latency.max", (("node_id", "node-1"),)] >= 0
        assert not any(math.isnan(value) for value in values.values())
        total = metrics[PREFIX + "producer.record.send.total"]
        assert total.sum.is_monotonic
        assert total.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        [point] = total.sum.data_points
        assert before - 60e9 < point.start_time_unix_nano < point.time_unix_nano < time.time_ns()
        assert metrics[PREFIX + "producer.connection.count"].HasField("gauge")
    last = pushes_of(asking, name)[-1]
    assert last.terminating, "before the close returned"
    assert [push.terminating for push in asking.telemetry() if push.client_id == name].count(True) == 1


def test_a_consumer_and_an_admin_push_too(api, asking):
    with api.producer(asking.bootstrap_servers) as producer:
        api.result(api(producer.send("t", b"v")))
    name = f"consumer-{api.name}"
    with api.consumer(asking.bootstrap_servers, client_id=name, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0)])
        count = len(api.poll(consumer, 1))
        pushes_of(asking, name)
    values, _ = read(pushes_of(asking, name, 2)[-1])
    assert values["consumer.fetch.manager.records.consumed.total", ()] >= count
    assert ("consumer.poll.idle.ratio.avg", ()) in values or values["consumer.last.poll.seconds.ago", ()] >= 0
    assert ("consumer.fetch.manager.records.lag", (("partition", "0"), ("topic", "t"))) in values
    name = f"admin-{api.name}"
    with api.admin(asking.bootstrap_servers, client_id=name) as admin:
        api(admin.list_topics())
        pushes_of(asking, name)
    values, _ = read(pushes_of(asking, name, 2)[-1])
    assert values["admin.client.request.total", ()] >= 2


def test_only_what_is_asked_for_and_how_much_it_grew(api):
    settings = {
        "telemetry.metrics": "org.apache.kafka.producer.record.send,org.apache.kafka.producer.request.total",
        "telemetry.interval.ms": 100,
        "telemetry.delta.temporality": True,
    }
    with (
        Broker(topics=["t"], config=settings) as broker,
        api.producer(broker.bootstrap_servers, linger_ms=0) as producer,
    ):
        api.result(api(producer.send("t", b"v")))
        time.sleep(0.3)
        api.result(api(producer.send("t", b"v")))
        api(producer.close(PATIENCE))
        told = [read(push) for push in broker.telemetry()]
    for values, metrics in told:
        assert {name for name, _ in values} <= {
            "producer.record.send.total",
            "producer.record.send.rate",
            "producer.request.total",
        }
        temporality = metrics[PREFIX + "producer.request.total"].sum.aggregation_temporality
        assert temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    assert sum(values["producer.record.send.total", ()] for values, _ in told) == 2
    starts = [m[PREFIX + "producer.request.total"].sum.data_points[0] for _, m in told]
    for one, next_one in itertools.pairwise(starts):
        assert one.time_unix_nano == next_one.start_time_unix_nano, "a delta begins where the last one ended"


def test_a_client_may_refuse_and_brokers_need_not_ask(api, asking, address):
    with api.producer(asking.bootstrap_servers, client_id="silent", enable_metrics_push=False) as producer:
        api.result(api(producer.send("t", b"v")))
        with pytest.raises(ottla.errors.UnsupportedError, match=r"enable\.metrics\.push is false"):
            api(producer.client_instance_id())
        time.sleep(0.3)
    assert not [push for push in asking.telemetry() if push.client_id == "silent"]
    with api.admin(address) as admin, pytest.raises(ottla.errors.UnsupportedError, match="KIP-714"):
        api(admin.client_instance_id(PATIENCE))


def test_the_id_needs_a_broker(api):
    with api.admin("127.0.0.1:1") as admin, pytest.raises(ottla.errors.UnreachableError):
        api(admin.client_instance_id(0.3))


def test_a_silent_broker_delays_no_close_beyond_its_time(api):
    with Broker(topics=["t"], config={"telemetry.metrics": "*"}) as broker:
        producer = getattr(api.module, "Producer")(broker.bootstrap_servers, linger_ms=0)  # noqa: B009 the twin's class
        api.result(api(producer.send("t", b"v")))
        api(producer.client_instance_id())
        broker.ignore("PushTelemetry", count=5)
        begun = time.monotonic()
        api(producer.close(0.3))
        assert time.monotonic() - begun < PATIENCE / 2
        assert broker.telemetry() == []


def test_refused_pushes_harm_nobody(api):
    with Broker(topics=["t"], config={"telemetry.metrics": "*", "telemetry.interval.ms": 100}) as broker:
        for error in [
            "UNKNOWN_SUBSCRIPTION_ID",
            "TELEMETRY_TOO_LARGE",
            "UNSUPPORTED_COMPRESSION_TYPE",
            "UNKNOWN_SERVER_ERROR",
        ]:
            broker.fail("PushTelemetry", error)
        broker.fail("GetTelemetrySubscriptions", "UNKNOWN_SERVER_ERROR", count=0)
        with api.producer(broker.bootstrap_servers, client_id="p", linger_ms=0) as producer:
            api.result(api(producer.send("t", b"v")))
            first = pushes_of(broker, "p")[0]
            assert first.compression == "lz4", "another codec than the one that was refused"
            api.result(api(producer.send("t", b"v")))
