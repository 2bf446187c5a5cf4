"""Keys and values as views of what was received."""

from __future__ import annotations

import itertools
import struct

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ottla import TopicPartition

# Longer than the twelve bytes that fit into a view.
VALUES = [b"value %d that is longer than a view" % number for number in range(40)]
VIEWS = {"key": pa.binary_view(), "value": pa.binary_view()}


def views_of(column):
    """The length and, where it is not within the view, the place of each value, and the buffers that places are in."""
    [chunk] = column.chunks
    _, views, *buffers = chunk.buffers()
    found = struct.iter_unpack("<i4sii", views.to_pybytes())
    rows = [(length, buffer, offset) for length, _, buffer, offset in found]
    return rows[chunk.offset : chunk.offset + len(chunk)], buffers


def lie_apart(column):
    """Whether values lie in records, each after its header, and not one behind the other."""
    rows, _ = views_of(column)
    gaps = {after[2] - (before[2] + before[0]) for before, after in itertools.pairwise(rows)}
    assert gaps == {0} or min(gaps) >= 5
    return gaps != {0}


@pytest.fixture(params=["none", "lz4"])
def compression(request):
    return request.param


@pytest.fixture
def consumer(api, address, topic, compression):
    """At the beginning of partition 0, of which each poll returns what one send wrote."""
    with api.producer(address, compression_type=compression) as producer:
        for _ in range(4):
            api(producer.send_many(topic, VALUES, keys="k", partitions=0))
            api(producer.flush())
        api(producer.send(topic, None, partition=0))
        api(producer.flush())
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        yield consumer


def test_views_are_what_copies_are(api, consumer):
    polled = [api(consumer.poll(20, max_records=40)) for _ in range(2)]
    for batch in [*polled, polled[0][3:7], polled[0] + polled[1][:2], polled[0][:0]]:
        copied, viewed = batch.to_arrow(), batch.to_arrow(view=True)
        viewed.validate(full=True)
        assert viewed.schema == pa.schema(
            [field.with_type(VIEWS.get(field.name, field.type)) for field in copied.schema]
        )
        assert viewed.cast(copied.schema) == copied
        assert [record.value for record in batch] == viewed.column("value").to_pylist()
        assert batch.to_arrow(["offset"], view=True).schema == pa.schema([("offset", pa.int64())])


def test_a_consumer_learns_to_leave_values_where_they_are(api, consumer):
    """What was decoded before is copied, as its views show."""
    batch = api(consumer.poll(20, max_records=40))
    table = batch.to_arrow(view=True)
    assert table.column("value").to_pylist() == VALUES
    assert not lie_apart(table.column("value"))

    consumer.seek(batch.partitions[0], 0)
    batch = api(consumer.poll(20, max_records=40))
    table = batch.to_arrow(["value", "key"], view=True)
    table.validate(full=True)
    assert table.column("value").to_pylist() == VALUES
    assert lie_apart(table.column("value"))
    # Short keys bring no buffers along; values share those of the response, or the block of their batch.
    assert views_of(table.column("key"))[1] == []
    rows, buffers = views_of(table.column("value"))
    assert {row[0] for row in rows} == {len(value) for value in VALUES}
    assert buffers[rows[0][1]].size > sum(map(len, VALUES))

    # They are records and columns like others.
    assert [record.value for record in batch] == VALUES
    assert [record.value for record in batch[7:9]] == VALUES[7:9]
    assert batch[7:9].to_arrow(view=True).column("value").to_pylist() == VALUES[7:9]
    decoded = batch.decode(format="string", keep=["key"]).to_arrow()
    assert decoded.column("value").to_pylist() == [value.decode() for value in VALUES]
    assert decoded.column("key").to_pylist() == [b"k"] * 40
    del batch
    assert table.column("value").to_pylist() == VALUES


def test_a_table_of_copies_teaches_it_the_other_way(api, consumer):
    def poll():
        batch = api(consumer.poll(20, max_records=40))
        consumer.seek(batch.partitions[0], 0)
        return batch

    def is_apart(batch):
        return lie_apart(batch.to_arrow(view=True).column("value"))

    poll().to_arrow(view=True)
    poll().to_arrow(["offset"])
    batch = poll()
    assert is_apart(batch), "a table without keys and values says nothing of them"
    batch.to_arrow()
    assert not is_apart(poll())
    pl.DataFrame(poll())
    assert not is_apart(poll())


@pytest.mark.parametrize("learned", [False, True])
def test_libraries_read_views(api, consumer, address, topic, learned):
    batch = api(consumer.poll(20, max_records=40))
    batch.to_arrow(view=True)
    if learned:
        consumer.seek(batch.partitions[0], 0)
        batch = api(consumer.poll(20, max_records=40))
        assert lie_apart(batch.to_arrow(view=True).column("value"))
    table = batch.to_arrow(view=True)
    assert pl.DataFrame(table)["value"].to_list() == VALUES
    found = duckdb.connect().from_arrow(table).project('"value", octet_length("key")').fetchall()
    assert found == [(value, 1) for value in VALUES]
    assert pc.binary_length(table.column("value").cast(pa.binary())).to_pylist() == list(map(len, VALUES))
    # Readers may ask for them by the interface itself.
    wanted = pa.schema([("value", pa.binary_view()), ("offset", pa.int64())])
    reader = pa.RecordBatchReader.from_stream(batch, schema=wanted)
    assert reader.schema == wanted
    assert reader.read_all() == table.select(["value", "offset"])
    # And they can be sent.
    with api.producer(address) as producer:
        api.result(api(producer.send_arrow(topic, table.select(["key", "value"]))))
