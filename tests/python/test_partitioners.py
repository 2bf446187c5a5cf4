"""Partitioners of the caller's own: functions over the keys of many records."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pyarrow as pa
import pytest

import ottla
from ottla import aio, errors
from tests.python.conftest import PATIENCE

KEYS = [b"a", b"bb", None, b"", b"cccc"]
TABLE = pa.table({"key": pa.array(KEYS, pa.binary()), "value": ["v"] * len(KEYS)})


@pytest.fixture
def topic(address, request):
    """A topic of five partitions, of this test alone."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:200]
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=5)])
    return name


def by_length(topic, keys, partitions):
    return [0 if key is None else len(key) % partitions for key in keys]


def partitions(api, deliveries):
    return list(api.result(deliveries)[0])


def send_each(api, producer, topic):
    sent = [api(producer.send(topic, b"v", key=key)) for key in KEYS]
    return [api.result(delivery).partition for delivery in sent]


def send_many(api, producer, topic):
    return partitions(api, api(producer.send_many(topic, ["v"] * len(KEYS), keys=KEYS)))


def send_arrow(api, producer, topic):
    return partitions(api, api(producer.send_arrow(topic, TABLE)))


WAYS = [send_each, send_many, send_arrow]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "answer",
    [
        list,
        tuple,
        iter,
        np.array,
        lambda answer: np.array(answer, np.uint8),
        pa.array,
        lambda answer: pa.array(answer, pa.uint16()),
        lambda answer: pa.chunked_array([answer]),
    ],
    ids=["list", "tuple", "iterator", "numpy", "numpy-uint8", "arrow", "arrow-uint16", "arrow-chunked"],
)
def test_the_function_places_every_record(api, address, topic, way, answer):
    with api.producer(address, partitioner=lambda *given: answer(by_length(*given))) as producer:
        assert way(api, producer, topic) == [1, 2, 0, 0, 4]


def test_keys_come_as_a_sequence_and_as_an_array(api, address, topic):
    seen = []

    def partitioner(name, keys, count):
        assert (name, count, len(keys), list(keys)) == (topic, 5, len(KEYS), KEYS)
        assert (keys[1], keys[-1], keys[2]) == (b"bb", b"cccc", None)
        for outside in (len(KEYS), -len(KEYS) - 1):
            with pytest.raises(IndexError):
                keys[outside]
        assert pa.array(keys).equals(pa.array(KEYS, pa.large_binary()))
        assert np.array(keys, object).tolist() == KEYS
        seen.append(keys)
        return np.zeros(len(keys), np.int64)

    with api.producer(address, partitioner=partitioner) as producer:
        assert send_arrow(api, producer, topic) == [0] * len(KEYS)
    assert len(seen) == 1
    assert repr(seen[0]) == "Keys(5 keys)"
    assert list(seen[0]) == KEYS, "they may be kept"


def test_only_records_without_a_partition_are_placed(api, address, topic):
    asked = []

    def partitioner(name, keys, count):
        asked.append(list(keys))
        return [4] * len(keys)

    table = TABLE.append_column("partition", pa.array([3, None, 3, None, 3], pa.uint8()))
    with api.producer(address, partitioner=partitioner) as producer:
        assert partitions(api, api(producer.send_arrow(topic, table))) == [3, 4, 3, 4, 3]
        many = producer.send_many(topic, ["v"] * 5, keys=KEYS, partitions=[3, None, 3, None, 3])
        assert partitions(api, api(many)) == [3, 4, 3, 4, 3]
        assert api.result(api(producer.send(topic, b"v", partition=3))).partition == 3
        assert partitions(api, api(producer.send_many(topic, ["v"] * 2, partitions=1))) == [1, 1]
    assert asked == [[b"bb", b""]] * 2


def test_what_is_left_to_the_producer_goes_by_its_key(api, address, topic):
    with api.producer(address) as producer:
        usual = send_many(api, producer, topic)
    with api.producer(address, partitioner=lambda topic, keys, count: [None] * len(keys)) as producer:
        for way in WAYS:
            went = way(api, producer, topic)
            assert [p for p, key in zip(went, KEYS, strict=True) if key is not None] == [
                p for p, key in zip(usual, KEYS, strict=True) if key is not None
            ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda keys: [0] * (len(keys) + 1), r"gave [26] partitions for [15] keys"),
        (lambda keys: [5] * len(keys), "gave partition 5 for key 0"),
        (lambda keys: [-1] * len(keys), "gave partition -1 for key 0"),
        (lambda keys: pa.array([2**40] * len(keys)), "gave partition 1099511627776 for key 0"),
        (lambda keys: ["0"] * len(keys), "gave str for key 0"),
        (lambda keys: np.zeros(len(keys)), "gave float for key 0"),
        (lambda keys: pa.array([0.5] * len(keys)), "gave an Arrow array of Float64"),
        (lambda keys: 3, "gave int"),
        (lambda keys: None, "gave NoneType"),
    ],
)
def test_a_bad_answer_is_told_with_topic_and_remedy(api, address, topic, way, answer, text):
    with api.producer(address, partitioner=lambda _, keys, count: answer(keys)) as producer:
        with pytest.raises(errors.ArgumentError, match=text) as caught:
            way(api, producer, topic)
        assert topic in str(caught.value)
        assert "a partition from 0 to 4, or None" in str(caught.value)
        # Nothing was sent.
        api(producer.flush())
    with api.consumer(address) as consumer:
        assert set(api(consumer.end_offsets([(topic, p) for p in range(5)])).values()) == {0}


@pytest.mark.parametrize("way", WAYS)
def test_what_the_function_raises_is_raised(api, address, topic, way):
    def partitioner(topic, keys, count):
        raise LookupError("no such customer")

    with api.producer(address, partitioner=partitioner) as producer:
        with pytest.raises(LookupError, match="no such customer") as caught:
            way(api, producer, topic)
        assert caught.value.__notes__ == [f'the partitioner failed for topic "{topic}"']


def test_it_may_use_its_producer_and_runs_on_the_callers_thread(api, address, topic):
    threads = set()

    def partitioner(name, keys, count):
        threads.add(threading.get_ident())
        held[0].metrics()
        return [0] * len(keys)

    with api.producer(address, partitioner=partitioner) as producer:
        held = [producer]
        for way in WAYS:
            assert way(api, producer, topic) == [0] * len(KEYS)
    assert threads == {threading.get_ident()}


def test_a_topic_column_is_placed_topic_by_topic(api, address, topic):
    other = f"{topic}-2"
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(other, partitions=2)])
    asked = []

    def partitioner(name, keys, count):
        asked.append((name, list(keys), count))
        return [count - 1] * len(keys)

    table = TABLE.append_column("topic", pa.array([topic, topic, other, other, topic]).dictionary_encode())
    with api.producer(address, partitioner=partitioner) as producer:
        assert partitions(api, api(producer.send_arrow(None, table))) == [4, 4, 1, 1, 4]
    assert asked == [(topic, KEYS[:2], 5), (other, KEYS[2:4], 2), (topic, KEYS[4:], 5)]


@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_topic_is_said_and_the_function_not_asked(api, address, topic, way):
    with api.producer(address, partitioner=lambda *_: 1 / 0, max_block_ms=300) as producer:
        api(producer.partitions_for(topic, PATIENCE))
        with pytest.raises(errors.KafkaError, match="absent"):
            way(api, producer, "absent")


def test_a_name_a_function_or_a_mistake(api, address):
    with pytest.raises(errors.ConfigError, match="partitioner: must be one of sticky, round_robin, consistent"):
        api.module.Producer(address, partitioner="CRC32")
    with pytest.raises(errors.ConfigError, match="partitioner: given twice"):
        api.module.Producer(address, config={"partitioner": by_length}, partitioner=by_length)
    with pytest.raises(errors.ConfigError, match="partitioner: must be str"):
        api.module.Producer(address, partitioner=b"murmur2")
    with pytest.raises(errors.ConfigError, match=r"partitioner\.ignore\.keys: cannot be true with a partitioner"):
        api.module.Producer(address, partitioner="murmur2", partitioner_ignore_keys=True)
    with pytest.raises(errors.ConfigError, match=r"partitioner\.rack\.aware: needs client\.rack"):
        api.module.Producer(address, partitioner_rack_aware=True)
    for given in ({"config": {"partitioner": by_length}}, {"partitioner": None}):
        with api.producer(address, **given) as producer:
            api(producer.flush())


def test_a_producer_and_its_function_may_hold_each_other(address):
    class Holder:
        def __init__(self):
            self.producer = ottla.Producer(address, partitioner=self.place)

        def place(self, topic, keys, count):
            return [0] * len(keys)

    holder = Holder()
    holder.producer.close()
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_asyncio_sends_wait_for_the_topic_without_the_loop(address, topic):
    import asyncio

    async def main():
        async with aio.Producer(address, partitioner=by_length) as producer:
            sent = await asyncio.gather(*(producer.send(topic, b"v", key=key) for key in KEYS))
            assert [(await one).partition for one in sent] == [1, 2, 0, 0, 4]

    asyncio.run(main())


def test_a_chunk_whose_topic_is_absent_takes_back_no_earlier_one(api, address, topic):
    chunks = [pa.record_batch({"value": ["a", "b"], "topic": [name] * 2}) for name in (topic, "absent", topic)]
    stream = pa.RecordBatchReader.from_batches(chunks[0].schema, chunks)
    with api.producer(address, partitioner=by_length, max_block_ms=500) as producer:
        api(producer.partitions_for(topic, PATIENCE))
        deliveries = api(producer.send_arrow(None, stream))
        assert len(deliveries) == 6
        with pytest.raises(errors.KafkaError):
            api.result(deliveries)
        assert sorted(deliveries.errors) == [2, 3, 4, 5]
        assert {error.written for error in deliveries.errors.values()} == {False}
        with pytest.raises(errors.KafkaError, match="absent"):
            api(producer.send_arrow("absent", chunks[1].select(["value"])))
