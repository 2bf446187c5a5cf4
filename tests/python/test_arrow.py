"""Batches as Arrow, with pyarrow and without it; tables to send."""

from __future__ import annotations

import importlib
import subprocess
import sys
from datetime import UTC, datetime

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
    second = datetime(2023, 11, 14, 22, 13, 20, 2000, tzinfo=UTC)
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
            "offset": [1, 2, 3],
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


TEXT = ["a", None, "c"]
HEADERS = pa.struct([("key", pa.string()), ("value", pa.string())])


@pytest.mark.parametrize(
    "values",
    [
        pa.array(TEXT, kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
    ]
    + [
        pa.array(TEXT).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint8()), pa.array([b"c", b"a"])),
        pa.array([b"a", None, b"c"], pa.binary(1)),
    ],
    ids=lambda values: str(values.type),
)
def test_keys_and_values_of_every_type(api, address, topic, values):
    with api.producer(address) as producer:
        table = pa.table({"value": values, "key": values, "partition": [0, 0, 0]})
        api.result(api(producer.send_arrow(topic, table)))
        api.result(api(producer.send_many(topic, values)))
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        records = api.poll(consumer, 3)
    assert [(r.key, r.value) for r in records] == [(b"a", b"a"), (None, None), (b"c", b"c")]


@pytest.mark.parametrize(
    "headers",
    [
        pa.array([[("h", "1"), ("n", None)]], pa.map_(pa.string(), pa.string())),
        pa.array([[("h", b"1"), ("n", None)]], pa.map_(pa.large_string(), pa.binary_view())),
        pa.array([[{"key": "h", "value": "1"}, {"key": "n", "value": None}]], pa.list_(HEADERS)),
        pa.array([[{"key": "h", "value": "1"}, {"key": "n", "value": None}]], pa.large_list(HEADERS)),
        pa.array(
            [[{"value": b"1", "key": "h"}, {"value": None, "key": "n"}]],
            pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())])),
        ),
    ],
    ids=lambda headers: str(headers.type),
)
def test_headers_of_every_type(api, address, topic, headers):
    with api.producer(address) as producer:
        table = pa.table({"value": ["v"], "partition": [0], "headers": headers})
        api.result(api(producer.send_arrow(topic, table)))
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert api.poll(consumer, 1)[0].headers == [("h", b"1"), ("n", None)]


@pytest.mark.parametrize(
    "times",
    [pa.array([1_500, None], pa.timestamp(unit, zone)) for unit in ("ms", "us", "ns") for zone in (None, "Asia/Tokyo")]
    + [pa.array([1, None], pa.timestamp("s", "UTC")), pa.array([1_000, None], pa.int64())],
    ids=lambda times: str(times.type),
)
def test_timestamps_of_every_unit_and_zone(api, address, topic, times):
    given = {"s": 1000, "ms": 1500, "us": 1, "ns": 0}
    expected = 1000 if times.type == pa.int64() else given[times.type.unit]
    with api.producer(address) as producer:
        table = pa.table({"value": ["v", "w"], "partition": [0, 0], "timestamp": times})
        api.result(api(producer.send_arrow(topic, table)))
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        first, second = api.poll(consumer, 2)
    assert first.timestamp == expected
    assert second.timestamp > 1_700_000_000_000, "the time of the send"


def test_tables_of_pandas(api, address, topic):
    import pandas as pd

    frame = pd.DataFrame({"key": ["a", "b", "c"], "value": ["1", "2", "3"]})
    frame = frame[frame["key"] != "b"]
    with api.producer(address) as producer:
        assert len(api.result(api(producer.send_arrow(topic, frame)))[0]) == 2
        frame["Key"] = 1
        with pytest.raises(ottla.errors.ArgumentError, match='did you mean "key"'):
            api(producer.send_arrow(topic, frame))


@pytest.mark.parametrize("module", ["polars", "duckdb"])
def test_tables_of_other_libraries(api, address, topic, module):
    library = importlib.import_module(module)
    if module == "polars":
        table = library.DataFrame({"key": ["a", None], "value": ["1", None], "partition": [1, 1]})
    else:
        table = library.sql("SELECT * FROM (VALUES ('a', '1', 1), (NULL, NULL, 1)) AS t(key, value, partition)")
    with api.producer(address) as producer:
        api.result(api(producer.send_arrow(topic, table)))
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 1, 0)])
        assert [(r.key, r.value) for r in api.poll(consumer, 2)] == [(b"a", b"1"), (None, None)]


def reader(chunks):
    """A stream that makes its chunks when they are asked for."""
    return pa.RecordBatchReader.from_batches(pa.schema([("value", pa.string())]), chunks)


def test_a_stream_is_taken_chunk_by_chunk(api, address, topic):
    chunk = pa.record_batch({"value": ["x" * 1000] * 20})
    with api.producer(address, buffer_memory=100_000, batch_size=10_000) as producer:
        rows, _ = api.result(api(producer.send_arrow(topic, reader(chunk for _ in range(50)))))
        assert len(rows) == 1000
        assert len(api.result(api(producer.send_arrow(topic, reader([]))))[0]) == 0


def test_of_a_stream_no_more_is_taken_than_the_buffer_has_room_for(api, broker, address, topic):
    taken, chunk = [], pa.record_batch({"value": ["x" * 1000] * 10})

    def chunks():
        for _ in range(30):
            taken.append(chunk)
            yield chunk

    options = {"buffer_memory": 100_000, "batch_size": 10_000, "max_block_ms": 1000}
    # No response comes, and no record expires: space in the buffer stays taken.
    times = {"request_timeout_ms": 2000, "delivery_timeout_ms": 120_000}
    with api.producer(address, **options, **times) as producer:
        api(producer.partitions_for(topic, 20))  # First contact may take longer than `max_block_ms`.
        api.result(api(producer.send(topic, b"warm")))
        broker.ignore("Produce", count=10_000)
        deliveries = api(producer.send_arrow(topic, reader(chunks())))
        # Ten chunks of 10 kB fill the buffer; the next one waits, once, and after that the rest is only counted.
        assert producer.metrics().value("buffer-exhausted-total") == 1
        waited = producer.metrics().value("bufferpool-wait-time-ns-total") / 1e9
        assert 1 <= waited < 19, "one wait, not one for each chunk"
        broker.clear_faults()
        assert len(taken) == 30
        assert len(deliveries) == 300
        with pytest.raises(ottla.errors.KafkaError):
            api.result(deliveries)
        assert 70 <= min(deliveries.errors) <= 110
        assert "buffer.memory" in str(deliveries.errors[299])


@pytest.mark.parametrize("wrong", ["stream", "rows"])
def test_a_stream_that_breaks_says_how_much_was_sent(api, address, topic, wrong):
    def chunks():
        yield pa.record_batch({"value": ["a", "b"]})
        if wrong == "stream":
            raise LookupError("the source is gone")
        yield pa.record_batch({"value": ["c"], "topic": pa.array([None], pa.string())})

    schema = {"value": pa.string()} | ({} if wrong == "stream" else {"topic": pa.string()})

    def all_chunks():
        for chunk in chunks():
            if wrong == "rows" and chunk.num_columns == 1:
                yield chunk.append_column("topic", pa.array([topic] * chunk.num_rows))
            else:
                yield chunk

    data = pa.RecordBatchReader.from_batches(pa.schema(schema), all_chunks())
    with api.producer(address) as producer:
        with pytest.raises((ValueError, ottla.errors.ArgumentError)) as caught:
            api(producer.send_arrow(topic if wrong == "stream" else None, data))
        assert caught.value.__notes__ == ["the 2 rows before were sent; flush and close report which of them fail"]
        api(producer.flush())
    assert sorted(values_of(api, address, topic, 2)) == [b"a", b"b"]


def test_one_value_for_all(api, address, topic):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for headers in ({"h": b"1"}, [("h", b"1")], [[("h", b"1")]] * 3, [{"h": b"1"}] * 3):
        for key in ("k", b"k", bytearray(b"k"), memoryview(b"k"), ["k"] * 3):
            with api.producer(address) as producer:
                options = {"partitions": 1, "timestamps": moment, "headers": headers}
                went, _ = api.result(api(producer.send_many(topic, ["a", "b", "c"], keys=key, **options)))
                assert list(went) == [1, 1, 1]
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 1, 0)])
        for record in api.poll(consumer, 60):
            assert (record.key, record.headers) == (b"k", [("h", b"1")])
            assert record.timestamp == int(moment.timestamp() * 1000)


def test_one_value_for_all_may_be_wrong(api, address, topic):
    with api.producer(address) as producer:
        for wrong, error in [
            ({"partitions": "1"}, TypeError),
            ({"partitions": 1.5}, TypeError),
            ({"timestamps": -1}, ottla.errors.ArgumentError),
            ({"keys": 5}, TypeError),
            ({"headers": [("h", 1)]}, TypeError),
            ({"headers": [("h", b"1"), "x"]}, TypeError),
        ]:
            with pytest.raises(error):
                api(producer.send_many(topic, ["a", "b"], **wrong))


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
            (pa.table({"value": ["a"], "Key": ["k"]}), ottla.errors.ArgumentError, '"Key" .* did you mean "key"'),
            (pa.table({"value": ["a"], "day": [1]}), ottla.errors.ArgumentError, '"day" .* has no meaning'),
            (pa.table({"value": ["a"], "partition": [1.5]}), ottla.errors.ArgumentError, '"partition" .* an integer'),
            (pa.table({"value": ["a"], "timestamp": ["now"]}), ottla.errors.ArgumentError, '"timestamp" .* int64 in'),
            (pa.table({"value": ["a"], "headers": ["a"]}), ottla.errors.ArgumentError, '"headers" .* list of structs'),
        ]:
            with pytest.raises(error, match=text):
                api(producer.send_arrow(topic, wrong))
        with pytest.raises(ottla.errors.ArgumentError, match="topic"):
            api(producer.send_arrow(None, pa.table({"value": ["a"]})))
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


def text(*values):
    """Strings that are what their bytes are: Arrow does not check it."""
    return pa.array(values, pa.binary()).view(pa.string())


def headers_of(keys):
    structs = pa.StructArray.from_arrays([keys, pa.array([b"1"] * len(keys), pa.binary())], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(range(len(keys) + 1), pa.int32()), structs)


SECONDS = 2**63 // 1000
NOT_SENT = {
    "a header's key": (
        {"headers": headers_of(text(b"a", b"\xff"))},
        "row 1 of the data to send: the key of a header is not UTF-8",
    ),
    "a topic": ({"topic": text(b"t", b"\xff")}, "row 1 of the data to send: the topic is not UTF-8"),
    "before 1970": (
        {"timestamp": pa.array([0, -2], pa.timestamp("ms"))},
        "row 1 .* the timestamp -2 ms is before 1970",
    ),
    "below a number": ({"timestamp": pa.array([0, -2], pa.int64())}, "the timestamp -2 is before 1970"),
    "finer": ({"timestamp": pa.array([0, -1], pa.timestamp("ns"))}, "the timestamp -1 ns is before 1970"),
    "too late": ({"timestamp": pa.array([0, SECONDS + 1], pa.timestamp("s"))}, "more milliseconds than 64 bits hold"),
}


@pytest.mark.parametrize("what", NOT_SENT)
def test_what_would_be_sent_as_something_else_is_refused(api, address, topic, what):
    columns, match = NOT_SENT[what]
    table = pa.table({"value": [b"1", b"2"], **columns})
    with api.producer(address) as producer:
        with pytest.raises(ottla.errors.ArgumentError, match=match):
            api.result(api(producer.send_arrow(topic, table)))
        api.result(api(producer.send(topic, b"after")))
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        [record] = api.poll(consumer, 1)
        assert (record.value, record.offset) == (b"after", 0)


def test_two_columns_of_one_name_are_refused(api, address, topic):
    table = pa.table([[b"1"], [b"2"]], names=["value", "value"])
    with (
        api.producer(address) as producer,
        pytest.raises(ottla.errors.ArgumentError, match='two columns named "value"'),
    ):
        api.result(api(producer.send_arrow(topic, table)))


def test_slices_of_headers_are_sent_as_they_are(api, address, topic):
    table = pa.table(
        {"value": [b"%d" % n for n in range(6)], "headers": headers_of(text(*(b"k%d" % n for n in range(6))))}
    )
    with api.producer(address) as producer:
        api.result(api(producer.send_arrow(topic, table.slice(2, 3))))
        api.result(api(producer.send_arrow(topic, table.slice(4).slice(1).combine_chunks())))
    with api.consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        records = api.poll(consumer, 4)
    assert sorted((r.value, [*r.headers]) for r in records) == [(b"%d" % n, [(f"k{n}", b"1")]) for n in (2, 3, 4, 5)]
