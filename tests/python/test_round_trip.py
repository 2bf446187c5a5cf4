"""What goes in comes out: values, keys, headers, timestamps, by every way to send and to read."""

from __future__ import annotations

import sys
import threading
import time
from array import array

import pytest

import ottla
from ottla import TopicPartition
from ottla.testing import Broker


def test_a_record_comes_back_as_it_was_sent(api, address, topic):
    with api.producer(address) as producer:
        sent = api(
            producer.send(
                topic,
                b"value",
                key="ключ",
                partition=1,
                timestamp=1_700_000_000_123,
                headers=[("a", b"1"), ("a", None)],
            )
        )
        written = api.result(sent)
        assert written == ottla.RecordMetadata(topic, 1, 0, 1_700_000_000_123)
        assert sent.done()
        assert sent.exception() is None
        assert f"topic={topic!r}".replace("'", '"') in repr(sent)
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 1, 0)])
        (record,) = api.poll(consumer, 1)
    assert (record.topic, record.partition, record.offset, record.timestamp) == (topic, 1, 0, 1_700_000_000_123)
    assert (record.timestamp_type, record.leader_epoch) == (0, 0)
    assert (record.key, record.value) == ("ключ".encode(), b"value")
    assert record.headers == [("a", b"1"), ("a", None)]
    assert "value=b'value'" in repr(record)


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (b"bytes", b"bytes"),
        (bytearray(b"array"), b"array"),
        (memoryview(b"viewed")[1:3], b"ie"),
        (array("h", [1]), (1).to_bytes(2, sys.byteorder)),
        ("text ü", "text ü".encode()),
        (b"", b""),
        (None, None),
    ],
)
def test_values_are_bytes_like_or_text_or_none(api, address, topic, given, got):
    with api.producer(address) as producer:
        api.result(api(producer.send(topic, given, key=given, partition=0)))
    with api.consumer(address) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        (record,) = api.poll(consumer, 1)
    assert (record.key, record.value) == (got, got)


def test_large_answers_are_read_whole_and_in_order(api, address, topic):
    """Answers of a megabyte, whose buffers are used again."""
    values = [b"%08d" % i * 125 for i in range(12_000)]
    with api.producer(address) as producer:
        api.result(api(producer.send_many(topic, values, partitions=[0] * len(values))))
    with api.consumer(address, max_partition_fetch_bytes=1 << 20, prefetch_max_bytes=4 << 20) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = api.poll(consumer, 5000)
        consumer.seek((topic, 0), 3000)
        again = api.poll(consumer, 9000)
    for records, first in (found, 0), (again, 3000):
        assert [record.offset for record in records] == list(range(first, first + len(records)))
        assert [record.value for record in records] == values[first : first + len(records)]
    assert again[-1].offset == 11_999


def test_batches_larger_than_huge_pages_are_read_whole(api):
    """Their bytes and columns lie in huge pages, where the system has them."""
    values = [b"%08d" % i * 125 for i in range(12_000)]
    with Broker(config={"message.max.bytes": 8 << 20, "auto.create.topics.enable": True}) as broker:
        with api.producer(broker.bootstrap_servers, batch_size=4 << 20, max_request_size=8 << 20) as producer:
            api.result(api(producer.send_many("t", values, partitions=[0] * len(values))))
        with api.consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([TopicPartition("t", 0, 0)])
            found = list[bytes]()
            while len(found) < len(values):
                found += api(consumer.poll(20)).to_arrow()["value"].to_pylist()
    assert found == values


def test_headers_may_be_a_dict(api, address, topic):
    with api.producer(address) as producer:
        api.result(api(producer.send(topic, headers={"a": "ü", "b": None}, partition=0)))
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert api.poll(consumer, 1)[0].headers == [("a", "ü".encode()), ("b", None)]


def test_send_many_sends_columns(api, address, topic):
    with api.producer(address) as producer:
        sent = api(
            producer.send_many(
                topic,
                (b"%d" % n for n in range(1000)),
                keys=[None, "k"] * 500,
                partitions=[n % 2 for n in range(1000)],
                timestamps=range(1000),
                headers=[{"n": b"%d" % n} if n % 3 == 0 else None for n in range(1000)],
            )
        )
        assert len(sent) == 1000
        partitions, offsets = api.result(sent)
        assert list(partitions) == [0, 1] * 500
        assert list(offsets) == [n // 2 for n in range(1000)]
        assert (partitions.itemsize, offsets.itemsize) == (4, 8)
        assert sent.errors == {}
        assert sent.exception() is None
        assert sent.done()
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 1, 0)])
        records = api.poll(consumer, 500)
    assert [r.value for r in records] == [b"%d" % n for n in range(1, 1000, 2)]
    assert [r.timestamp for r in records] == list(range(1, 1000, 2))
    assert {r.key for r in records} == {b"k"}
    assert records[1].headers == [("n", b"3")]
    assert records[0].headers == []


def test_nothing_to_send_is_sent(api, address, topic):
    with api.producer(address) as producer:
        sent = api(producer.send_many(topic, []))
        assert len(sent) == 0
        assert list(map(list, api.result(sent))) == [[], []]


def test_columns_must_be_as_long_as_the_values(api, address, topic):
    with (
        api.producer(address) as producer,
        pytest.raises(ottla.errors.ArgumentError, match="1 keys for 2 values"),
    ):
        api(producer.send_many(topic, [b"a", b"b"], keys=[b"k"]))


def test_topics_of_the_constructor_are_read_whole(api, address, topic):
    with api.producer(address) as producer:
        api.result(api(producer.send_many(topic, [b"a", b"b"], partitions=[0, 1])))
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        assert {r.value for r in api.poll(consumer, 2)} == {b"a", b"b"}
        assert consumer.assignment() == [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def test_iteration_gives_records_and_goes_on_where_it_was_left(api, address, topic):
    with api.producer(address) as producer:
        api.result(api(producer.send_many(topic, [b"%d" % n for n in range(100)], partitions=[0] * 100)))
    start = TopicPartition(topic, 0, 0)
    with api.consumer(address) as consumer:
        consumer.assign([start])
        assert [r.offset for r in api.take(consumer, 10)] == list(range(10))
        assert [r.offset for r in api.take(consumer, 10)] == list(range(10, 20))
        assert api(consumer.position(start)) == 20
        assert [r.offset for r in api.poll(consumer, 5)] == list(range(20, 25))
        assert [r.offset for r in api.take(consumer, 1)] == [25]
        consumer.seek(start, 90)
        assert [r.offset for r in api.take(consumer, 10)] == list(range(90, 100))
        consumer.seek(start, 0)
        (batch,) = api.take(consumer.batches(), 1)
        assert batch[0].offset == 0


def test_a_batch_is_a_sequence(api, address, topic):
    with api.producer(address) as producer:
        api.result(api(producer.send_many(topic, [b"%d" % n for n in range(10)], partitions=[0, 1] * 5)))
    with api.consumer(address, topics=topic, auto_offset_reset="earliest", fetch_min_bytes=1) as consumer:
        batches = [api(consumer.poll(20))]
        while sum(map(len, batches)) < 10:
            batches.append(api(consumer.poll(20)))
    for batch in batches:
        every = [r.value for r in batch]
        assert [batch[n].value for n in range(len(batch))] == every
        assert batch[-1].value == every[-1]
        assert [r.value for r in batch[1:-1]] == every[1:-1]
        assert [r.value for r in batch[:100]] == every
        assert len(batch[5:2]) == 0
        with pytest.raises(IndexError):
            batch[len(batch)]
        with pytest.raises(IndexError):
            batch[-len(batch) - 1]
        with pytest.raises(ottla.errors.ArgumentError, match="step"):
            batch[::2]
        assert f"{len(batch)} records" in repr(batch)


def test_an_empty_poll_is_an_empty_batch(api, address, topic):
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        batch = api(consumer.poll(0.1))
        assert (len(batch), list(batch), repr(batch)) == (0, [], "Batch(empty)")


def test_offsets_and_positions(api, address, topic):
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with api.producer(address) as producer:
        api.result(api(producer.send_many(topic, [b"x"] * 5, partitions=[0] * 5, timestamps=[10, 20, 30, 40, 50])))
    with api.consumer(address) as consumer:
        assert api(consumer.beginning_offsets([zero, one])) == {zero: 0, one: 0}
        assert api(consumer.end_offsets([zero, (topic, 1)])) == {zero: 5, one: 0}
        found = api(consumer.offsets_for_times({zero: 25, one: 25}))
        assert found == {zero: ottla.OffsetAndTimestamp(2, 30), one: None}
        assert api(consumer.partitions_for(topic)) == [0, 1]
        consumer.assign([zero, one])
        consumer.seek_to_beginning([zero])
        assert api(consumer.position(zero)) == 0
        assert api(consumer.lag())[zero] == 5
        consumer.seek_to_end()
        assert api(consumer.position(zero)) == 5
        assert api(consumer.lag()) == {zero: 0, one: 0}
        with pytest.raises(TypeError, match="offset"):
            consumer.seek(zero)
        with pytest.raises(ottla.errors.ArgumentError):
            consumer.seek(("elsewhere", 0), 1)
        with pytest.raises(ottla.errors.ArgumentError):
            consumer.seek(zero, -5)


def test_paused_partitions_keep_quiet(api, address, topic):
    with api.producer(address) as producer:
        api.result(api(producer.send_many(topic, [b"a", b"b"], partitions=[0, 1])))
    zero, one = TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)
    with api.consumer(address) as consumer:
        consumer.assign([zero, one])
        consumer.pause([zero])
        assert consumer.paused() == [zero]
        assert [r.partition for r in api.poll(consumer, 1)] == [1]
        assert len(api(consumer.poll(0.2))) == 0
        consumer.resume([zero])
        assert consumer.paused() == []
        assert [r.partition for r in api.poll(consumer, 1)] == [0]


def test_admin_makes_lists_describes_and_deletes(api, address):
    name = f"admin-{api.name}"
    with api.admin(address) as admin:
        assert api(admin.create_topics(ottla.NewTopic(name, partitions=3, config={"retention.ms": 1000}))) is None
        assert name in api(admin.list_topics())
        (described,) = api(admin.describe_topics([name])).values()
        assert (described.name, described.internal, len(described.partitions)) == (name, False, 3)
        assert described.id is not None
        assert [p.partition for p in described.partitions] == [0, 1, 2]
        with pytest.raises(ottla.errors.AlreadyExistsError, match=name) as caught:
            api(admin.create_topics([name, f"{name}-new"]))
        assert (caught.value.name, caught.value.topic) == ("TOPIC_ALREADY_EXISTS", name)
        assert list(caught.value.failures) == [name]
        assert f"{name}-new" in api(admin.list_topics()), "the others are made"
        api(admin.create_topics(f"{name}-checked", validate_only=True))
        assert f"{name}-checked" not in api(admin.list_topics())
        api(admin.delete_topics([name, f"{name}-new"]))
        assert name not in api(admin.list_topics())
        with pytest.raises(ottla.errors.NotFoundError, match=name):
            api(admin.describe_topics(name))
        with pytest.raises(ottla.errors.NotFoundError, match=name):
            api(admin.delete_topics(name))


def test_a_broker_that_cannot_describe_producers_is_named_with_the_api(api):
    """Kafka has DescribeProducers since 2.8 (KIP-664)."""
    with Broker(as_version="2.3", topics={"t": 2}) as broker, api.admin(broker.bootstrap_servers) as admin:
        assert api(admin.describe_producers([])) == {}
        with pytest.raises(ottla.errors.UnsupportedError, match="DescribeProducers") as caught:
            api(admin.describe_producers([("t", 1), TopicPartition("t", 0)]))
        assert (caught.value.api, caught.value.broker) == ("DescribeProducers", broker.bootstrap_servers)
        assert list(caught.value.failures) == [TopicPartition("t", 1), TopicPartition("t", 0)]
        with pytest.raises(ottla.errors.NotFoundError, match="absent") as caught:
            api(admin.describe_producers([("absent", 0)]))
        assert [type(key) for key in caught.value.failures] == [TopicPartition]


def test_producer_lists_partitions(api, address, topic):
    with api.producer(address) as producer:
        assert api(producer.partitions_for(topic)) == [0, 1]


def test_flush_decides_every_delivery(api, address, topic):
    with api.producer(address, linger_ms=60_000) as producer:
        sent = [api(producer.send(topic, b"x")) for _ in range(100)]
        assert not any(d.done() for d in sent)
        api(producer.flush())
        assert all(d.done() for d in sent)


def test_callbacks_come_once(api, address, topic):
    called = []
    with api.producer(address) as producer:

        async def send_and_watch():
            sent = await producer.send(topic, b"x")
            sent.add_done_callback(called.append)
            await sent
            return sent

        if api.name == "aio":
            sent = api(send_and_watch())
            api(producer.flush())
        else:
            sent = producer.send(topic, b"x", partition=0)
            sent.add_done_callback(called.append)
            producer.send_many(topic, [b"y"], partitions=0).add_done_callback(called.append)
            producer.flush()
            assert len(called) == 2, "a flush returns after the callbacks"
            assert isinstance(called.pop(), ottla.Deliveries)
            sent.add_done_callback(called.append)
            assert called.pop() is sent, "at once, if it is done"
    _until(lambda: called)
    assert called == [sent]


def _until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_callback_that_raises_harms_nobody(address, topic, monkeypatch):
    seen, called = [], []
    monkeypatch.setattr(sys, "excepthook", lambda *info: seen.append(info[1]))
    with ottla.Producer(address) as producer:
        producer.send(topic, b"x").add_done_callback(lambda _: 1 / 0)
        producer.send(topic, b"x").add_done_callback(called.append)
        producer.flush()
        assert called
    assert isinstance(seen[0], ZeroDivisionError)


def test_a_callback_that_flushes_does_not_wait_for_itself(address, topic):
    flushed = []
    with ottla.Producer(address) as producer:
        producer.send(topic, b"x").add_done_callback(lambda _: flushed.append(producer.flush(60)))
        start = time.monotonic()
        producer.flush()
        assert flushed == [None]
        assert time.monotonic() - start < 60 / 2


def test_a_flush_waits_for_slow_callbacks_until_its_timeout(address, topic):
    release, called = threading.Event(), []
    with ottla.Producer(address, linger_ms=60_000) as producer:  # only a flush sends
        producer.send(topic, b"x")
        producer.flush(20)
        producer.send(topic, b"x").add_done_callback(lambda _: called.append(release.wait(60)))
        start = time.monotonic()
        producer.flush(0.5)
        assert 0.4 < time.monotonic() - start < 60 / 2
        assert not called
        release.set()
        producer.flush(10)
        assert called == [True]
