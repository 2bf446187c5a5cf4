"""`client.metrics()` and `on_metrics`, on both facades."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import pickle
import re
import runpy
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

import ottla
from ottla import MetricName, Metrics, aio, errors
from ottla._ottla import metric_table
from tests.python.conftest import PATIENCE
from tests.waiting import wait_for_ours

ROOT = Path(__file__).parents[2]


def test_what_a_producer_measures(api, address, topic):
    with api.producer(address, client_id="p", linger_ms=0) as producer:
        for number in range(3):
            api.result(api(producer.send(topic, b"v" * 100, partition=number % 2)))
        metrics = producer.metrics()
        assert isinstance(metrics, Metrics)
        assert metrics.value("record-send-total") == metrics.value("record-send-total", topic=topic) == 3
        assert metrics[MetricName("record-send-total", "producer-metrics", (("client-id", "p"),))] == 3
        assert metrics.value("byte-total", topic=topic) == pytest.approx(3 * metrics.value("batch-size-avg"))
        assert metrics.value("batch-size-avg") > 160
        assert metrics.value("compression-rate", topic=topic) == 1
        assert metrics.value("connection-count") == metrics.value("connection-creation-total") >= 1
        assert metrics.value("request-total", node_id="node-1") >= 3
        assert 0 <= metrics.value("request-latency-avg") <= metrics.value("request-latency-max") < PATIENCE * 1000
        assert metrics.value("outgoing-byte-total") > 3 * metrics.value("batch-size-avg")
        assert metrics.value("incoming-byte-total") > 100
        assert metrics.value("buffer-available-bytes") == metrics.value("buffer-total-bytes") == 64 << 20
        assert metrics.value("metadata-age") < PATIENCE
        assert metrics.value("metadata-wait-time-ns-total") > 0
        assert metrics.value("record-error-total") == 0
        assert metrics.value("count") == len(metrics)


def test_what_a_consumer_measures(api, address, topic):
    with api.producer(address) as producer:
        api.result(api(producer.send_many(topic, [b"12345"] * 10, partitions=[0] * 10)))
    with api.consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert math.isnan(consumer.metrics().value("records-lag-max"))
        assert consumer.metrics().value("last-poll-seconds-ago") == -1
        api.poll(consumer, 4)
        metrics = consumer.metrics()
        assert metrics.value("records-consumed-total") == metrics.value("records-consumed-total", topic=topic) == 4
        assert metrics.value("bytes-consumed-total", topic=topic) >= 20
        assert metrics.value("records-lag", topic=topic, partition=0) == 6
        assert metrics.value("records-lead", topic=topic, partition=0) == 4
        assert metrics.value("records-lag-max") >= 6
        assert metrics.value("fetch-total") >= 1
        assert metrics.value("fetch-size-max") > 50
        assert metrics.value("last-poll-seconds-ago") < PATIENCE
        api.poll(consumer, 6)
        assert consumer.metrics().value("records-lag", topic=topic, partition=0) == 0
        assert consumer.metrics().value("time-between-poll-max") >= 0
        assert 0 <= consumer.metrics().value("poll-idle-ratio-avg") <= 1


def test_what_iteration_hands_out_is_counted(api, address, topic):
    with api.producer(address) as producer:
        api.result(api(producer.send_many(topic, [b"v"] * 5, partitions=[0] * 5)))
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        assert len(api.take(consumer, 5)) == 5
        assert consumer.metrics().value("records-consumed-total") == 5


def test_what_an_admin_measures(api, address):
    with api.admin(address) as admin:
        assert admin.metrics().value("request-total") == 0
        api(admin.list_topics())
        metrics = admin.metrics()
        assert metrics.value("request-total") == metrics.value("response-total") >= 1
        assert {name.group for name in metrics} == {
            "admin-client-metrics",
            "admin-client-node-metrics",
            "app-info",
            "kafka-metrics-count",
        }
        assert 0 <= time.time() - metrics.value("start-time-ms") / 1000 < PATIENCE


def test_failures_and_waits_are_measured(api, broker, address, topic):
    with api.producer(address, linger_ms=0, retry_backoff_ms=1) as producer:
        api.result(api(producer.send(topic, b"v", partition=0)))
        broker.fail("Produce", "NOT_ENOUGH_REPLICAS")
        api.result(api(producer.send(topic, b"v", partition=0)))
        broker.fail("Produce", "INVALID_RECORD")
        with pytest.raises(ottla.KafkaError):
            api.result(api(producer.send(topic, b"v", partition=0)))
        api(producer.flush())
        metrics = producer.metrics()
        assert metrics.value("record-retry-total", topic=topic) == 1
        assert metrics.value("record-error-total", topic=topic) == metrics.value("record-error-total") == 1
        assert metrics.value("record-send-total") == 4
        assert metrics.value("flush-time-ns-total") > 0
    with api.producer(
        address, linger_ms=100_000, delivery_timeout_ms=200_000, buffer_memory=1000, batch_size=1000, max_block_ms=1000
    ) as full:
        api(full.partitions_for(topic, PATIENCE))  # First contact may take longer than `max_block_ms`.
        api(full.send(topic, b"v" * 800, partition=0))
        with pytest.raises(ottla.KafkaError):
            api(full.send(topic, b"v" * 800, partition=0))
        metrics = full.metrics()
        assert metrics.value("buffer-exhausted-total") == 1
        assert metrics.value("bufferpool-wait-time-ns-total") >= 1000e6
        assert metrics.value("bufferpool-wait-ratio") > 0
        assert metrics.value("waiting-threads") == 0
        assert metrics.value("buffer-available-bytes") < 200


def test_clients_without_an_id_have_one_each_as_javas(api, address, topic):
    def id_of(client):
        (found,) = {name.tag("client-id") for name in client.metrics()}
        return found

    wanted = [
        (api.producer, {}, r"producer-\d+"),
        (api.producer, {"transactional_id": "a"}, r"producer-a"),
        (api.consumer, {}, r"consumer-\d+"),
        (api.consumer, {"client_id": ""}, r"consumer-\d+"),
        (api.consumer, {"group_id": "g"}, r"consumer-g-\d+"),
        (api.consumer, {"group_id": "g", "group_instance_id": "i"}, r"consumer-g-i"),
        (partial(api.open, "ShareConsumer"), {"group_id": "g"}, r"consumer-g-\d+"),
        (api.admin, {}, r"adminclient-\d+"),
        (api.admin, {"client_id": "mine"}, "mine"),
    ]
    for make, options, form in wanted:
        with make(address, **options) as one, make(address, **options) as other:
            assert re.fullmatch(form, id_of(one)), options
            assert (id_of(one) == id_of(other)) == ("\\d" not in form), options
    with (
        ottla.Producer(address) as producer,
        ottla.Consumer(address, topics=topic) as consumer,
        ottla.Admin(address) as admin,
    ):
        assert "client_id" in producer.metrics().prometheus_text(consumer.metrics(), admin.metrics())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_brokers_know_a_client_without_an_id_by_the_one_that_it_got(api, address, topic, protocol):
    group = f"{topic}-{protocol}"
    with (
        api.consumer(address, topics=topic, group_id=group, group_protocol=protocol) as consumer,
        ottla.Admin(address) as admin,
    ):

        def is_assigned():
            api(consumer.poll(0.1))
            return bool(consumer.assignment())

        wait_for_ours(is_assigned, "an assignment")
        (member,) = admin.describe_groups(group)[group].members
        assert re.fullmatch(rf"consumer-{group}-\d+", member.client_id)


def test_no_metric_is_negative_zero(api, address, topic):
    with (
        api.producer(address) as producer,
        api.consumer(address, topics=topic, group_id=topic) as consumer,
        api.open("ShareConsumer", address, group_id=f"{topic}-share") as sharer,
        api.admin(address) as admin,
    ):
        for client in (producer, consumer, sharer, admin):
            negative = [name for name, value in client.metrics().items() if str(value) == "-0.0"]
            assert negative == []


def test_the_names_of_metrics(address):
    with ottla.Admin(address, client_id="me") as admin:
        admin.list_topics()
        metrics = admin.metrics()
    name = next(name for name in metrics if name.group == "admin-client-node-metrics")
    assert (name.tag("client-id"), name.tag("node-id"), name.tag("topic")) == ("me", name.tags[1][1], None)
    assert dict(name.tags).keys() == {"client-id", "node-id"}
    assert pickle.loads(pickle.dumps(metrics)).keys() == metrics.keys()
    nodes = metrics.select(group="admin-client-node-metrics")
    assert nodes == metrics.select(node_id=name.tag("node-id")).select(group=name.group) | nodes
    assert metrics.select("request-total").keys() == {key for key in metrics if key.name == "request-total"}
    with pytest.raises(KeyError, match=r"0 metrics 'request-totl'.*nothing by that name"):
        metrics.value("request-totl")
    with pytest.raises(KeyError, match=r"admin-client-node-metrics \{node-id=node-"):
        metrics.value("request-total", node_id="node-77")


def test_a_closed_client_tells_no_metrics(api, address):
    client = api.module.Producer(address)
    client.metrics()
    api(client.close())
    with pytest.raises(ottla.errors.ClosedError):
        client.metrics()


def wait_until(happened, what):
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_on_metrics_runs_on_a_thread_of_its_own(address, topic):
    told, threads = [], set()

    def tell(metrics):
        told.append(metrics.value("record-send-total"))
        threads.add(threading.current_thread().name)
        if len(told) == 1:
            raise ValueError("the callback's own fault")

    hook, raised = sys.excepthook, []
    sys.excepthook = lambda *args: raised.append(args[1])
    try:
        with ottla.Producer(address, on_metrics=tell, metrics_interval_ms=10) as producer:
            wait_until(lambda: len(told) > 2, "the callback is called again and again")
            producer.send(topic, b"v").result(PATIENCE)
            wait_until(lambda: told[-1] == 1, "the callback sees what happened")
            assert threads == {"ottla-metrics"}
    finally:
        sys.excepthook = hook
    assert threads == {"ottla-metrics", "MainThread"}, "the last call is the close's"
    assert [str(error) for error in raised] == ["the callback's own fault"]
    count = len(told)
    time.sleep(0.05)
    assert len(told) == count, "a closed client is told of no more"


@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Admin"])
def test_a_short_life_is_told_by_its_close(api, address, kind):
    told = []

    async def use():
        async with getattr(aio, kind)(address, on_metrics=told.append):
            pass

    if api.name == "aio":
        api(use())
    else:
        with getattr(ottla, kind)(address, on_metrics=told.append):
            pass
    assert len(told) == 1
    assert told[0].value("connection-count") == 0


async def until(happened):
    """The deadline is that of the whole test."""
    while not happened():  # noqa: ASYNC110 a callback counts
        await asyncio.sleep(0.01)


def test_on_metrics_of_asyncio_runs_on_the_loop(address):
    told, loops = [], set()

    async def tell(metrics):
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        told.append(metrics)

    async def use():
        async with aio.Admin(address, on_metrics=tell, metrics_interval_ms=10) as admin:
            await until(lambda: len(told) >= 3)
            await admin.list_topics()
        assert loops == {asyncio.get_running_loop()}
        assert told[-1].value("request-total") >= 1

    asyncio.run(asyncio.wait_for(use(), PATIENCE))

    # Made where no loop runs, it begins when it is entered.
    admin = aio.Admin(address, on_metrics=tell, metrics_interval_ms=10)
    told.clear()
    loops.clear()

    async def enter():
        async with admin:
            await until(lambda: told)

    asyncio.run(asyncio.wait_for(enter(), PATIENCE))


def test_on_metrics_does_not_keep_a_client(address):
    def make_and_forget():
        ottla.Admin(address, on_metrics=print, metrics_interval_ms=3_600_000)
        gc.collect()

    with pytest.warns(ResourceWarning, match="unclosed Admin"):
        make_and_forget()


def test_a_callback_may_close_its_client(address):
    closed = threading.Event()

    def close(metrics):
        admin.close()
        closed.set()

    admin = ottla.Admin(address, on_metrics=close, metrics_interval_ms=10)
    assert closed.wait(PATIENCE)


def test_on_metrics_must_be_callable(api, address):
    with pytest.raises(TypeError, match="on_metrics must be callable, not int"):
        api.module.Admin(address, on_metrics=5)


def test_a_forked_child_has_reports_of_its_own(address):
    with ottla.Admin(address, on_metrics=lambda _: None, metrics_interval_ms=10):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            # Of the child: whatever happens, it must not go on with the tests.
            try:
                told = threading.Event()
                with ottla.Admin(address, on_metrics=lambda _: told.set(), metrics_interval_ms=10) as admin:
                    admin.list_topics()
                    os.write(write, b"1" if told.wait(PATIENCE) else b"0")
            finally:
                os._exit(0)
        assert os.read(read, 1) == b"1"
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def test_the_page_of_metrics_is_that_of_the_table():
    module = runpy.run_path(str(ROOT / "scripts" / "docs" / "metrics.py"))
    assert module["TARGET"].read_text() == module["text"](), "run scripts/docs/metrics.py"


def test_every_metric_of_the_table_is_measured(address, topic):
    seen = {}
    with (
        ottla.Producer(address) as producer,
        ottla.Consumer(address, auto_offset_reset="earliest", group_id="g") as consumer,
        ottla.ShareConsumer(address, topics=topic, group_id="s") as sharer,
        ottla.Admin(address) as admin,
    ):
        producer.send(topic, b"v", partition=0).result(PATIENCE)
        consumer.assign([(topic, 0)])
        assert len(consumer.poll(PATIENCE)) == 1
        end = time.monotonic() + PATIENCE
        while not any("node" in name.group for name in sharer.metrics()):
            assert time.monotonic() < end
            sharer.poll(0.1)
        admin.list_topics()
        clients = {"producer": producer, "consumer": consumer, "share-consumer": sharer, "admin": admin}
        for role, client in clients.items():
            seen[role] = {(name.group, name.name, tuple(tag for tag, _ in name.tags)) for name in client.metrics()}
    for role, names in seen.items():
        rows = {(row["group"], row["name"], tuple(row["tags"])) for row in metric_table() if row["role"] == role}
        assert names == rows


# --- Prometheus ---

SERIES = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\\\n]|\\\\["\\\\n])*",?)*)\} (\S+)')


def families(text):
    """The series by name, read by the rules of the exposition format; each name has one HELP and one TYPE before them."""
    found, kinds = {}, {}
    lines = text.split("\n")
    assert lines.pop() == ""
    for line in lines:
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in found, "once"
            found[name] = {}
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            assert found[name] == {}
            kinds[name] = kind
        else:
            name, labels, value = SERIES.fullmatch(line).groups()
            assert name == list(found)[-1], "the lines of a name stand together"
            assert labels not in found[name]
            found[name][labels] = float(value)
    assert kinds.keys() == found.keys()
    return found, kinds


def test_prometheus_gets_each_name_once(address, topic):
    with (
        ottla.Producer(address, client_id="p") as producer,
        ottla.Consumer(address, topics=topic, client_id="c") as consumer,
    ):
        consumer.poll(0)
        producer.send(topic, b"v", partition=0).result(PATIENCE)
        producer.send(topic, b"v", partition=1).result(PATIENCE)
        metrics, others = producer.metrics(), consumer.metrics()
        found, kinds = families(metrics.prometheus_text(others))
    assert found["kafka_producer_record_send_total"] == {'client_id="p"': 2}
    assert found["kafka_producer_topic_record_send_total"] == {f'client_id="p",topic="{topic}"': 2}
    assert kinds["kafka_producer_record_send_total"] == "counter"
    assert kinds["kafka_producer_record_send_rate"] == kinds["kafka_producer_connection_count"] == "gauge"
    assert all('node_id="' in labels for labels in found["kafka_producer_node_request_total"])
    assert found["kafka_consumer_connection_count"].keys() == {'client_id="c"'}
    for name, series in found.items():
        assert len({tuple(re.findall(r"([a-z_]+)=", labels)) for labels in series}) == 1, (
            f"{name} has one set of labels"
        )
    measured = sum(not math.isnan(value) for value in (*metrics.values(), *others.values()))
    assert sum(map(len, found.values())) == measured, "nothing is lost, and values that are NaN are left out"


def test_prometheus_gets_no_minus_zero_and_every_letter():
    tags = (("client-id", 'a"b\\c\nd'), ("topic", "t"))
    metrics = Metrics(
        {
            MetricName("record-send-rate", "producer-topic-metrics", tags): -0.0,
            MetricName("record-size-max", "producer-metrics", tags[:1]): math.inf,
            MetricName("record-size-avg", "producer-metrics", tags[:1]): math.nan,
        }
    )
    lines = metrics.prometheus_text().splitlines()
    label = r'client_id="a\"b\\c\nd"'
    assert f"kafka_producer_record_size_max{{{label}}} +Inf" in lines
    assert f'kafka_producer_topic_record_send_rate{{{label},topic="t"}} 0.0' in lines
    assert not any("size_avg" in line for line in lines)


def test_each_kind_of_series_has_a_name_of_its_own_and_a_help():
    """A sum over one name would otherwise count a client and its topics."""
    tags = {}
    for row in metric_table():
        key = MetricName(row["name"], row["group"], tuple((tag, "x") for tag in sorted(row["tags"])))
        text = Metrics({key: 1.0}).prometheus_text()
        (name,), _ = families(text)
        assert tags.setdefault(name, key.tags) == key.tags, name
        assert text.startswith(f"# HELP {name} {row['doc']}\n")


def test_prometheus_refuses_clients_that_cannot_be_told_apart(address):
    refused = pytest.raises(errors.ArgumentError, match=r"client_id=\"p\".*give each client a client.id of its own")
    with ottla.Producer(address, client_id="p") as one, ottla.Producer(address, client_id="p") as other, refused:
        one.metrics().prometheus_text(other.metrics())


def test_prometheus_reads_it(address, topic):
    parser = pytest.importorskip("prometheus_client.parser")
    with ottla.Producer(address, client_id="p") as producer:
        producer.send(topic, b"v").result(PATIENCE)
        metrics = producer.metrics()
    read = [
        sample
        for family in parser.text_string_to_metric_families(metrics.prometheus_text())
        for sample in family.samples
    ]
    assert len(read) == sum(not math.isnan(value) for value in metrics.values())
    [sent] = [sample for sample in read if sample.name == "kafka_producer_topic_record_send_total"]
    assert (sent.labels, sent.value) == ({"client_id": "p", "topic": topic}, 1)
