"""Sending a task's rows, and what happens to the producer; against an embedded broker, without a Spark session."""

import multiprocessing
import time

import pyarrow as pa
import pytest
from pyspark.sql import Row
from tests.pace import patience
from tests.waiting import wait_for_ours

import ottla
from ottla.errors import ClosedError, KafkaError, KafkaTimeoutError, TooLargeError
from ottla.spark.write import producers
from ottla.spark.write.options import WriteOptions
from ottla.spark.write.sending import by_topic, send
from ottla.spark.write.writers import RowStreamWriter
from ottla.testing import Broker

KEY_VALUE = (("key", 0), ("value", 1))


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"t": 2, "u": 1}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _close():
    # Before, too: other tests in this process may have left some.
    close_kept()
    yield
    close_kept()


def close_kept():
    producers._idle.close()


@pytest.fixture
def fresh(broker):
    """A topic of this test alone."""
    name = f"f{time.monotonic_ns()}"
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=1)])
    return name


def kept():
    return producers._idle.waiting()


def options(broker, topic="t", **properties):
    return WriteOptions.parse(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, **({"topic": topic} if topic else {}), **properties}
    )


def batch(count, size=10):
    keys = [b"%d" % n for n in range(count)]
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.array([key.ljust(size, b".") for key in keys])], ["a", "b"])


def records(broker, topic):
    with ottla.Consumer(broker.bootstrap_servers, topics=[topic], auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets([ottla.TopicPartition(topic, p) for p in consumer.partitions_for(topic)])
        found = []
        while len(found) < sum(ends.values()):
            found += consumer.poll(timeout=10)
    return found


def test_a_task_ends_when_its_rows_are_in_the_log(broker, fresh):
    # A producer that waits for more rows would take a minute.
    send(options(broker, fresh, **{"kafka.linger.ms": "60000"}), KEY_VALUE, [batch(10), batch(5)])
    assert len(records(broker, fresh)) == 15


def test_the_producer_is_kept_for_the_next_task(broker):
    with producers.producer(options(broker)) as first:
        pass
    with producers.producer(options(broker)) as again:
        assert again is first
        with producers.producer(options(broker)) as second:
            assert second is not first, "one producer serves one task at a time"
    with producers.producer(options(broker, **{"kafka.acks": "1"})) as other:
        assert other is not first, "other properties, other producer"
    with producers.producer(options(broker, "u")) as same:
        assert same in {first, second}, "topics share a producer"


def test_a_producer_that_failed_is_closed_and_replaced(broker):
    with pytest.raises(TooLargeError) as raised:
        send(options(broker), KEY_VALUE, [batch(3), batch(2, size=2_000_000)])
    told = "; this is about the record with the key b'0'; of the 2 sent together with it, 2 failed"
    assert str(raised.value).endswith(told)
    assert raised.value.topic == "t"
    assert kept() == []
    send(options(broker), KEY_VALUE, [batch(3)])
    assert len(kept()) == 1


def test_a_task_killed_in_the_middle_leaves_no_producer_with_its_rows(broker):
    with pytest.raises(KeyboardInterrupt), producers.producer(options(broker)) as client:
        raise KeyboardInterrupt
    assert kept() == []
    with pytest.raises(ClosedError):
        client.send("t", b"late")


def test_idle_producers_are_closed(broker, monkeypatch):
    with producers.producer(options(broker)) as old:
        pass
    assert len(kept()) == 1, "not idle for long"
    producers._idle.close()
    monkeypatch.setattr(producers._idle, "limit", 0.1)
    with producers.producer(options(broker)) as old:
        pass
    wait_for_ours(lambda: kept() == [], "the producer is closed although no task comes")
    with pytest.raises(ClosedError):
        old.send("t", b"late")


def kept_in_child(answer):
    answer.send(len(kept()))


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_producers_do_not_cross_a_fork(broker):
    send(options(broker), KEY_VALUE, [batch(1)])
    assert len(kept()) == 1
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=kept_in_child, args=(theirs,))
    child.start()
    assert ours.poll(30)
    assert ours.recv() == 0
    child.join(30)


def test_rows_that_wait_are_bounded_by_the_buffer(fresh):
    taken = 0

    def batches():
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield batch(100, size=1000)

    with Broker(topics=["slow"]) as slow:
        slow.hang("Produce", count=1_000_000)
        given = options(
            slow, "slow", **{"kafka.buffer.memory": "2000000", "kafka.max.block.ms": str(int(patience(2000)))}
        )
        with pytest.raises(KafkaTimeoutError, match="buffer.memory is full"):
            send(given, KEY_VALUE, batches())
    # 20 batches fill the buffer, and the next one waits for room.
    assert 20 <= taken <= 22


def test_the_first_error_ends_a_task_before_its_last_row(broker):
    taken = 0

    def batches():
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield batch(1, size=2_000_000)

    with pytest.raises(KafkaError):
        send(options(broker), KEY_VALUE, batches())
    assert taken < 1000


def test_rows_of_a_topic_stay_in_their_order():
    topics = ["b", "a", "b", "c", "a", "b"] * 1000
    rows = pa.RecordBatch.from_arrays([pa.array(range(6000)), pa.array(topics)], ["value", "topic"])
    together = by_topic(rows)
    assert together.column("topic").to_pylist() == sorted(topics)
    for name in "abc":
        numbers = [n for n, topic in zip(*together.to_pydict().values(), strict=True) if topic == name]
        assert numbers == [n for n, topic in enumerate(topics) if topic == name]


def test_rows_without_a_topic_are_an_error(broker):
    rows = pa.RecordBatch.from_arrays([pa.array(["v", "w"]), pa.array(["t", None])], ["value", "topic"])
    with pytest.raises(ValueError, match="a row has no topic"):
        send(options(broker, None), (("value", 0), ("topic", 1)), [rows])


def test_rows_one_by_one_as_spark_4_0_hands_them_over(broker, fresh):
    """A stream's rows, as Python objects: binary columns are bytes or bytearray, structs are rows."""
    header = Row("key", "value")
    rows = [
        Row(
            ignored=1,
            value="v0",
            key=bytearray(b"k0"),
            headers=[header("h", bytearray(b"x")), header("n", None)],
            topic=fresh,
        ),
        Row(ignored=2, value=None, key=None, headers=None, topic=fresh),
        *(Row(ignored=3, value=str(n), key=b"k", headers=[], topic=fresh) for n in range(12_000)),
    ]
    columns = (("key", 2), ("value", 1), ("headers", 3), ("topic", 4))
    RowStreamWriter(options(broker, None), columns).write(iter(rows))
    first, second, *rest = records(broker, fresh)
    assert (first.key, first.value, list(first.headers)) == (b"k0", b"v0", [("h", b"x"), ("n", None)])
    assert (second.key, second.value, list(second.headers)) == (None, None, [])
    assert [int(record.value) for record in rest] == list(range(12_000))
