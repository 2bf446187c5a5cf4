"""What people do with a batch: parts of it, several as one, and tables of it in notebooks, polars, DuckDB and pandas."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import ottla
from ottla import TopicPartition

NAMES = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
TIME = 1_700_000_000_001


@pytest.fixture
def batches(api, address, topic):
    """Three records of partition 0, then two of partition 1, as two batches."""
    with api.producer(address) as producer:
        for value in (b"one", b"two", None):
            api(producer.send(topic, value, key=b"k", partition=0, timestamp=TIME, headers=[("h", value)]))
        api(producer.send_many(topic, [b"three", b"four"], partitions=1, timestamps=TIME))
        api(producer.flush())
    found = []
    with api.consumer(address) as consumer:
        for partition, count in enumerate((3, 2)):
            consumer.assign([TopicPartition(topic, partition, 0)])
            found.append(api(consumer.poll(20)))
            assert len(found[-1]) == count
    return found


def test_batches_become_one(batches, topic):
    first, second = batches
    both = first + second
    assert [record.value for record in both] == [b"one", b"two", None, b"three", b"four"]
    assert len(both) == 5
    assert both[3].value == b"three"
    assert both.to_arrow().column("value").to_pylist() == [b"one", b"two", None, b"three", b"four"]
    assert both.partitions == [(topic, 0), (topic, 1)]
    assert both.next_offsets == {(topic, 0): 3, (topic, 1): 2}
    assert both.spans == {(topic, 0): range(3), (topic, 1): range(2)}
    assert isinstance(both.partitions[0], TopicPartition)

    assert list(map(bytes_of, ottla.Batch.concat(iter([first, second])))) == list(map(bytes_of, both))
    assert len(ottla.Batch.concat([])) == 0
    assert ottla.Batch.concat([]).to_arrow().column_names == NAMES
    with pytest.raises(TypeError):
        first + "more"
    with pytest.raises(TypeError):
        ottla.Batch.concat([first, None])


def bytes_of(record):
    return record.key, record.value, record.offset


def test_parts_in_another_order(batches, topic):
    turned = batches[0][2:] + batches[0][:2]
    assert [record.offset for record in turned] == [2, 0, 1]
    assert turned.spans == {(topic, 0): range(3)}
    assert turned.next_offsets == {(topic, 0): 2}, "after the record that came last"
    assert batches[0][:0].partitions == []


def test_chosen_columns(batches):
    batch = batches[0]
    table = batch.to_arrow(["offset", "value"])
    assert table.to_pydict() == {"offset": [0, 1, 2], "value": [b"one", b"two", None]}
    assert batch.to_arrow(columns=(name for name in ["topic"])).column_names == ["topic"]
    assert batch.to_arrow(columns=[]).num_rows == 3
    assert batch.to_polars(["value"]).columns == ["value"]
    assert list(batch.to_pandas(["value"]).columns) == ["value"]
    assert batch[:0].to_arrow(["partition"]).schema == pa.schema([("partition", pa.int32())])


@pytest.mark.parametrize("to", ["to_arrow", "to_polars", "to_pandas"])
def test_columns_that_are_not_there(batches, to):
    for columns, text in [
        (["vaule"], r'no column "vaule"; did you mean "value"\? \(its columns are key, value, topic, .*, headers\)'),
        (["value", "x-y-z-and-more"], r'no column "x-y-z-and-more" \(its columns'),
        ("value", r"write columns=\['value'\]"),
    ]:
        with pytest.raises(ottla.errors.ArgumentError, match=text):
            getattr(batches[0], to)(columns)
    for columns in (5, [5]):
        with pytest.raises(TypeError):
            getattr(batches[0], to)(columns)


@pytest.mark.parametrize(
    ("to", "missing", "advice"),
    [
        ("to_arrow", "pyarrow", r"pip install 'ottla\[arrow\]'"),
        ("to_polars", "polars", "pip install polars"),
        ("to_pandas", "pandas", "pip install pandas"),
        ("to_pandas", "pyarrow", r"pip install pandas 'ottla\[arrow\]'"),
    ],
)
def test_without_the_library(batches, monkeypatch, to, missing, advice):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=advice) as caught:
        getattr(batches[0], to)()
    assert isinstance(caught.value.__cause__, ImportError)


def test_polars(batches, topic):
    frame = batches[0].to_polars()
    assert frame.equals(pl.DataFrame(batches[0]))
    assert frame.columns == NAMES
    assert frame.dtypes[:5] == [pl.Binary, pl.Binary, pl.String, pl.Int32, pl.Int64]
    assert frame.dtypes[5:7] == [pl.Datetime("us", "UTC"), pl.Int32]
    assert frame["value"].to_list() == [b"one", b"two", None]
    assert frame["headers"].to_list()[1] == [{"key": "h", "value": b"two"}]
    assert frame.filter(pl.col("value").is_null())["offset"].to_list() == [2]
    assert frame["topic"].unique().to_list() == [topic]


def test_duckdb(batches):
    joined = batches[0] + batches[1]  # noqa: F841 - DuckDB finds it by its name
    connection = duckdb.connect()
    rows = connection.sql(
        'SELECT "partition", count(*), count("value"), max("offset") FROM joined GROUP BY 1 ORDER BY 1'
    )
    assert rows.fetchall() == [(0, 3, 2, 2), (1, 2, 2, 1)]
    texts = connection.sql('SELECT decode("value") FROM joined WHERE "value" >= \'three\'::BLOB ORDER BY 1')
    assert texts.fetchall() == [("three",), ("two",)]
    assert connection.sql("SELECT headers[1].value FROM joined LIMIT 1").fetchall() == [(b"one",)]


def test_pandas(batches):
    frame = batches[0].to_pandas()
    assert list(frame.columns) == NAMES
    assert frame["value"].tolist() == [b"one", b"two", None]
    assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"
    assert frame["timestamp"][0].timestamp() * 1000 == TIME


class Cells(HTMLParser):
    """The texts of a table's cells, by row; it fails for elements that are not a table's."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.caption, self.open = [], "", []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag in {"table", "caption", "thead", "tbody", "tr", "th", "td", "i"}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"th", "td"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "caption":
            self.caption += data
        else:
            self.rows[-1][-1] += data


def shown(batch):
    return Cells(batch._repr_html_())


def test_a_notebook_shows_a_table(batches, topic):
    table = shown(batches[0] + batches[1])
    assert table.caption == "Batch: 5 records of 2 partitions"
    head, first, _, third, *_ = table.rows
    assert head == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert first == [topic, "0", "0", "2023-11-14 22:13:20.001Z", "k", "one", "h: one"]
    assert third[4:] == ["k", "null", "h: null"]
    assert len(table.rows) == 6
    assert shown(batches[0][:0]).rows == [head]
    assert shown(batches[0][:1]).caption == "Batch: 1 record of 1 partition"


def test_a_notebook_shows_the_ends_of_many_records(batch_of):
    batch = batch_of([str(number).encode() for number in range(1111)])
    rows = shown(batch).rows[1:]
    assert [row[5] for row in rows[:5] + rows[6:]] == ["0", "1", "2", "3", "4", "1106", "1107", "1108", "1109", "1110"]
    assert rows[5] == ["… 1,101 records …"]
    assert len(shown(batch[:10]).rows) == 11
    assert shown(batch[:11]).rows[6] == ["… 1 record …"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (b"", ""),
        ("grün <b>&\"'".encode(), "grün <b>&\"'"),
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
        (b"two\nlines", "two\nlines"),
        (b"\xff\xfe", r"b'\xff\xfe'"),
        (b"\0\0\0\5", r"b'\x00\x00\x00\x05'"),
        ("\u202eturned".encode(), repr("\u202eturned".encode())),
        (b"x" * 60, "x" * 60),
        (b"x" * 100_000, "x" * 60 + "… (100,000 bytes)"),
        # Its last character is cut in two.
        (b"x" + "ü".encode() * 1000, "x" + "ü" * 29 + "… (2,001 bytes)"),
        (b"x" * 59 + b"\xc3", repr(b"x" * 59 + b"\xc3")),
    ],
    ids=range(11),
)
def test_a_notebook_shows_values_as_text_where_they_are(batch_of, value, cell):
    batch = batch_of([value], key=value, headers=[("<h>", value)] * 5)
    [row] = shown(batch).rows[1:]
    assert row[4:6] == [cell, cell]
    assert row[6] == ", ".join([f"<h>: {cell}"] * 3 + ["… 2 more"])


def test_a_notebook_shows_times_that_python_does_not_have(address, topic):
    late = f"{topic}-late"
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(late, config={"message.timestamp.after.max.ms": str(2**62)})])
    with ottla.Producer(address) as producer:
        producer.send(late, b"v", timestamp=2**55).result(20)
    with ottla.Consumer(address, topics=[late], auto_offset_reset="earliest") as consumer:
        assert shown(consumer.poll(20)).rows[1][3] == str(2**55)
