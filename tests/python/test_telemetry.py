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


# --- metrics of the program (KIP-1076)


def shop(values):
    """The values of the program's metrics in a push."""
    return {key: value for key, value in values.items() if key[0].startswith("shop.")}


def last_of(broker, client):
    """The values of a client's last push, which its close made, and its metrics."""
    [last] = [push for push in broker.telemetry() if push.client_id == client and push.terminating]
    return read(last)


@pytest.mark.parametrize("role", ["Admin", "Consumer", "Producer", "ShareConsumer"])
def test_every_client_pushes_metrics_of_the_program(api, asking, role):
    name = f"shop-{role}-{api.name}"
    options = {"group_id": name} if role == "ShareConsumer" else {}
    open_orders = ottla.AppMetric("Orders-Open", "Shop-Metrics", tags={"Sales-Region": "EU"})
    total = ottla.AppMetric("orders-total", "shop", kind="counter")
    gone = ottla.AppMetric("gone", "shop")
    open_orders.set(7.25)
    total.add()
    with api.open(role, asking.bootstrap_servers, client_id=name, **options) as client:
        for metric in (open_orders, total, gone, total):
            client.register_metric_for_subscription(metric)
        for metric in (gone, gone, ottla.AppMetric("never", "shop")):
            client.unregister_metric_from_subscription(metric)
        api(client.client_instance_id())
        pushes_of(asking, name)
        open_orders.add(-8)
        total.add(2)
        assert not [key for key in client.metrics() if "shop" in key.group.lower()]
    values, metrics = last_of(asking, name)
    assert shop(values) == {("shop.orders.open", (("sales_region", "EU"),)): -0.75, ("shop.orders.total", ()): 3}
    assert metrics[PREFIX + "shop.orders.open"].HasField("gauge")
    assert metrics[PREFIX + "shop.orders.total"].sum.is_monotonic
    for change in (client.register_metric_for_subscription, client.unregister_metric_from_subscription):
        with pytest.raises(ottla.errors.ClosedError):
            change(total)


def test_metrics_of_the_program_are_filtered_and_counters_are_told_by_their_growth(api):
    settings = {
        "telemetry.metrics": "org.apache.kafka.shop.orders",
        "telemetry.interval.ms": 100,
        "telemetry.delta.temporality": True,
    }
    total = ottla.AppMetric("orders-total", "shop", kind="counter")
    with Broker(topics=["t"], config=settings) as broker:
        with api.admin(broker.bootstrap_servers, client_id="p") as admin:
            admin.register_metric_for_subscription(total)
            admin.register_metric_for_subscription(ottla.AppMetric("returns", "shop"))
            for amount in (1, 2, 4):
                total.add(amount)
                api(admin.list_topics())
                pushes_of(broker, "p", len(broker.telemetry()) + 1)
        told = [read(push) for push in broker.telemetry()]
    assert all(values.keys() <= {("shop.orders.total", ())} for values, _ in told)
    assert sum(sum(values.values()) for values, _ in told) == 7
    points = [metrics[PREFIX + "shop.orders.total"].sum.data_points[0] for _, metrics in told]
    for one, next_one in itertools.pairwise(points):
        assert one.time_unix_nano == next_one.start_time_unix_nano


def test_a_metric_of_the_client_itself_stays_and_a_warning_is_logged(api, asking, caplog):
    name = f"own-{api.name}"
    own = ottla.AppMetric("record-send-total", "producer-topic-metrics", tags={"topic": "t"})
    own.set(1000)
    with api.producer(asking.bootstrap_servers, client_id=name, linger_ms=0) as producer:
        producer.register_metric_for_subscription(own)
        [record] = [record for record in caplog.records if record.levelname == "WARNING"]
        assert "org.apache.kafka.producer.topic.record.send.total" in record.message
        producer.unregister_metric_from_subscription(own)
        api.result(api(producer.send("t", b"v")))
        api(producer.client_instance_id())
    values, _ = last_of(asking, name)
    assert values["producer.topic.record.send.total", (("topic", "t"),)] == 1


def test_what_is_no_metric_raises():
    for arguments, options, text in (
        (("n", "g"), {"kind": "timer"}, "kind"),
        (("", "g"), {}, "empty"),
        (("n", ""), {}, "empty"),
        (("n", "g"), {"tags": {"a-b": "1", "A_b": "2"}}, "two tags"),
    ):
        with pytest.raises(ottla.errors.ArgumentError, match=text):
            ottla.AppMetric(*arguments, **options)
    total = ottla.AppMetric("orders-total", "shop", kind="counter")
    total.set(2)
    for change in (lambda: total.set(1), lambda: total.add(-1), lambda: total.set(math.nan)):
        with pytest.raises(ottla.errors.ArgumentError, match=r"orders-total.* never shrinks"):
            change()
    assert total.value == 2
    assert "orders-total" in repr(total)
    with ottla.Admin("127.0.0.1:1") as admin, pytest.raises(TypeError, match="AppMetric"):
        admin.register_metric_for_subscription("orders-total")
