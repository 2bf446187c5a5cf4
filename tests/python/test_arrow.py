"""Batches as Arrow, with pyarrow and without it; tables to send."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone

import pyarrow as pa
import pytest

import ottla
from ottla import TopicPartition

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
    ]
)


@pytest.fixture
def batch(address, topic):
    """Three records: plain, with headers, a tombstone."""
    with ottla.Producer(address) as producer:
        producer.send(topic, b"one", key=b"k", partition=0, timestamp=1_700_000_000_001)
        producer.send(topic, b"two", partition=0, timestamp=1_700_000_000_002, headers=[("a", b"1"), ("b", None)])
        producer.send(topic, None, key=b"k", partition=0, timestamp=1_700_000_000_003)
    with ottla.Consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        batch = consumer.poll(20)
    assert len(batch) == 3
    return batch


def test_a_batch_is_a_table_in_the_columns_of_sparks_source(batch, topic):
    table = batch.to_arrow()
    table.validate(full=True)
    assert table.schema == SCHEMA
    second = datetime(2023, 11, 14, 22, 13, 20, 2000, tzinfo=timezone.utc)
    assert table.to_pylist()[1] == {
        "key": None,
        "value": b"two",
        "topic": topic,
        "partition": 0,
        "offset": 1,
        "timestamp": second,
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    }
    assert table.column("value").to_pylist() == [b"one", b"two", None]
    assert table.column("headers").to_pylist()[0] is None


def test_slices_export_their_rows(batch):
    assert batch[1:].to_arrow().column("offset").to_pylist() == [1, 2]
    assert batch[1:2].to_arrow().column("value").to_pylist() == [b"two"]
    assert batch[3:].to_arrow().schema == SCHEMA


def test_an_empty_batch_has_the_columns(batch):
    assert batch[:0].to_arrow().schema == SCHEMA


def test_other_libraries_take_it_by_its_capsules(batch):
    reader = pa.RecordBatchReader.from_stream(batch)
    assert reader.schema == SCHEMA
    assert reader.read_all().num_rows == 3
    assert pa.schema(batch) == SCHEMA


def test_a_requested_schema_chooses_columns(batch):
    wanted = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    reader = pa.RecordBatchReader.from_stream(batch, schema=wanted)
    assert reader.read_all().to_pydict() == {"offset": [0, 1, 2], "value": [b"one", b"two", None]}


def test_the_table_outlives_the_batch(batch):
    table = batch.to_arrow()
    values = table.column("value").to_pylist()
    del batch
    assert table.column("value").to_pylist() == values


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", None]),
        pa.array([b"a", b"b", None]),
        pa.array(["a", "b", None], pa.large_string()),
        pa.array(["a", "b", None], pa.string_view()),
        pa.chunked_array([["a"], ["b", None]]),
    ],
    ids=lambda values: f"{type(values).__name__}-{values.type}",
)
def test_send_many_takes_an_arrow_column(api, address, topic, values):
    with api.producer(address) as producer:
        partitions, _ = api.result(api(producer.send_many(topic, values)))
        assert len(partitions) == 3
    assert sorted(map(str, values_of(api, address, topic, 3))) == ["None", "b'a'", "b'b'"]


def values_of(api, address, topic, count):
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        return [r.value for r in api.poll(consumer, count)]


def test_send_arrow_sends_a_table(api, address, topic):
    table = pa.table(
        {
            "value": ["a", "b", "c"],
            "key": [b"k", None, b"l"],
            "partition": pa.array([0, 0, 1], pa.int32()),
            "timestamp": pa.array([1000, 2000, 3000], pa.timestamp("ms", tz="UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, []], SCHEMA.field("headers").type),
            "something": [1, 2, 3],
        }
    )
    with api.producer(address) as producer:
        partitions, offsets = api.result(api(producer.send_arrow(topic, table)))
        assert (list(partitions), list(offsets)) == ([0, 0, 1], [0, 1, 0])
        assert len(api.result(api(producer.send_arrow(topic, table.to_batches()[0])))[0]) == 3
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        first, second = api.poll(consumer, 2)
    assert (first.key, first.value, first.timestamp, first.headers) == (b"k", b"a", 1000, [("h", b"1")])
    assert (second.key, second.value, second.timestamp, second.headers) == (None, b"b", 2000, [])


def test_a_batch_can_be_sent_on(api, address, topic, batch):
    with api.producer(address) as producer:
        api.result(api(producer.send_arrow(topic, batch)))
        api.result(api(producer.send_arrow(None, batch.to_arrow())))
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        records = api.poll(consumer, 9)
    first = [(r.key, r.value, r.timestamp, r.headers) for r in records[:3]]
    assert first == [(r.key, r.value, r.timestamp, r.headers) for r in records[3:6]]
    assert first == [(r.key, r.value, r.timestamp, r.headers) for r in records[6:]]


def test_a_topic_column_says_where_rows_go(api, address, topic):
    with ottla.Admin(address) as admin:
        admin.create_topics(f"{topic}-2")
    table = pa.table({"value": ["a", "b", "c"], "topic": [topic, f"{topic}-2", topic], "partition": [0, 0, 0]})
    with api.producer(address) as producer:
        assert list(api.result(api(producer.send_arrow(None, table)))[1]) == [0, 0, 1]


def test_tables_that_cannot_be_sent(api, address, topic):
    with api.producer(address) as producer:
        for wrong, error, text in [
            (b"bytes", TypeError, "__arrow_c_stream__"),
            (pa.array(["a"]), TypeError, "one column of"),
            (pa.table({"key": ["a"]}), ottla.errors.ArgumentError, "value"),
            (pa.table({"value": [1.5]}), ottla.errors.ArgumentError, "binary or string"),
        ]:
            with pytest.raises(error, match=text):
                api(producer.send_arrow(topic, wrong))
        with pytest.raises(ottla.errors.ArgumentError, match="topic"):
            api(producer.send_arrow(None, pa.table({"value": ["a"]})))
        with pytest.raises(ottla.errors.ArgumentError, match="send_arrow"):
            api(producer.send_many(topic, pa.array(["a"]), keys=["k"]))
        with pytest.raises(TypeError, match="send_arrow"):
            api(producer.send_many(topic, pa.table({"value": ["a"]})))


def test_without_pyarrow(address, topic):
    """Everything works but to_arrow(), which says what to install."""
    script = f"""
import sys
sys.modules["pyarrow"] = None
import ottla
with ottla.Producer({address!r}) as producer:
    producer.send({topic!r}, b"v", partition=0).result(20)
with ottla.Consumer({address!r}) as consumer:
    consumer.assign([ottla.TopicPartition({topic!r}, 0, 0)])
    batch = consumer.poll(20)
assert batch[0].value == b"v"
print(batch.__arrow_c_stream__())
print(batch.__arrow_c_schema__())
with ottla.Producer({address!r}) as producer:
    assert len(producer.send_arrow({topic!r}, batch).result(20)[0]) == 1
try:
    batch.to_arrow()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert '"arrow_array_stream"' in done.stdout
    assert '"arrow_schema"' in done.stdout
    assert "pip install 'ottla[arrow]'" in done.stdout


def test_a_table_does_not_need_pandas(address, topic):
    """Importing it would take longer than reading a million records."""
    script = f"""
import sys
import ottla
with ottla.Producer({address!r}) as producer:
    producer.send({topic!r}, b"v", partition=0).result(20)
with ottla.Consumer({address!r}) as consumer:
    consumer.assign([ottla.TopicPartition({topic!r}, 0, 0)])
    print(consumer.poll(20).to_arrow().column("value"))
sys.exit("pandas" in sys.modules and "pandas was imported")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "76" in done.stdout


class Capsules:
    """Arrow data that gives the same capsules each time."""

    def __init__(self, stream=None, array=None):
        if stream is not None:
            self.__arrow_c_stream__ = lambda: stream
        if array is not None:
            self.__arrow_c_array__ = lambda: array


def test_capsules_that_others_read_already(address, topic):
    table = pa.table({"value": ["a"]})
    stream = table.__arrow_c_stream__()
    pa.RecordBatchReader._import_from_c_capsule(stream).read_all()
    array = table.to_batches()[0].__arrow_c_array__()
    pa.RecordBatch._import_from_c_capsule(*array)
    fresh = table.to_batches()[0].__arrow_c_array__()
    pa.Schema._import_from_c_capsule(fresh[0])
    with ottla.Producer(address) as producer:
        for data in (Capsules(stream=stream), Capsules(array=array), Capsules(array=fresh)):
            with pytest.raises(ValueError, match="read already"):
                producer.send_arrow(topic, data)


def test_columns_need_not_be_aligned(address, topic):
    numbers = b"\0" + (1000).to_bytes(8, "little")
    times = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(numbers).slice(1)])
    with ottla.Producer(address) as producer:
        _, offsets = producer.send_arrow(topic, pa.table({"value": ["a"], "timestamp": times})).result(20)
    assert list(offsets) == [0]
