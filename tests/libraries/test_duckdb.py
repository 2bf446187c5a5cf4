"""Topics as datasets of pyarrow and tables of DuckDB."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime

import duckdb
import polars as pl
import pyarrow.compute as pc
import pytest

import ottla
from ottla.integrations import arrow, arrow_bounds
from ottla.integrations.duckdb import TopicDataset, view
from tests.libraries.topics import COMMITTED, HUNDRED, START, is_quick, quickest

MOST = 2**62


def at(second):
    return datetime.fromtimestamp(START / 1000 + second, tz=UTC)


@pytest.fixture
def reads(monkeypatch):
    """The arguments of each read."""
    made = []
    read = arrow.read

    def recording(*args, **options):
        made.append(options)
        return read(*args, **options)

    monkeypatch.setattr(arrow, "read", recording)
    return made


@pytest.fixture
def connection():
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def test_by_the_name_of_a_variable(address, numbers, connection):
    flights = TopicDataset(address, numbers)
    assert flights is not None
    rows = connection.sql("SELECT value FROM flights ORDER BY value").fetchall()
    assert rows == [(b"%d" % number,) for number in range(10)]
    assert connection.sql("SELECT count(*), sum(partition) FROM flights").fetchall() == [(10, 5)]


@pytest.mark.parametrize(
    ("where", "offsets", "since"),
    [
        ('"offset" >= 3', range(3, MOST), None),
        ('"offset" < 2', range(2), None),
        ('"offset" BETWEEN 1 AND 3', range(1, 4), None),
        ('"offset" = 2', range(2, 3), None),
        ('"offset" = 4 OR "offset" = 2', range(2, 5), None),
        ("partition = 1", {1: range(MOST)}, None),
        ("partition IN (0, 7)", {0: range(MOST)}, None),
        ('partition <> 1 AND "offset" >= 2', {0: range(2, MOST)}, None),
        ("partition > 5", {}, None),
        (f"timestamp >= '{at(4).isoformat()}'", None, START + 4000),
        (f"timestamp = '{at(4).isoformat()}'", None, START + 4000),
        (f"timestamp > '{at(2).isoformat()}' AND partition = 0", {0: range(MOST)}, START + 2000),
        # What bounds nothing is a filter of rows.
        (f"timestamp < '{at(4).isoformat()}'", None, None),
        ("value = '4'::BLOB", None, None),
        ('"offset" % 2 = 0', None, None),
    ],
)
def test_conditions_become_bounds(address, numbers, connection, reads, where, offsets, since):
    whole = ottla.read(address, numbers).to_arrow()
    query = 'SELECT value FROM {} WHERE {} ORDER BY partition, "offset"'
    wanted = connection.sql(query.format("whole", where)).fetchall()
    flights = TopicDataset(address, numbers)
    assert connection.sql(query.format("flights", where)).fetchall() == wanted
    assert (whole.num_rows, flights.count_rows()) == (10, 10)
    found = reads[0]
    assert (found["offsets"], found["since"]) == (offsets, since)


def test_the_callers_bounds_stay(address, numbers):
    def values(condition, **bounds):
        return b"".join(
            sorted(TopicDataset(address, numbers, **bounds).to_table(filter=condition)["value"].to_pylist())
        )

    offset, partition, timestamp = pc.field("offset"), pc.field("partition"), pc.field("timestamp")
    assert values(offset >= 2, offsets={1: range(1, 4)}) == b"57"
    assert values(partition == 0, offsets={1: range(1, 4)}) == b""
    assert values(partition == 0, offsets=range(1, 3)) == b"24"
    assert values(offset <= 1, offsets=range(1, 3)) == b"23"
    assert values(timestamp >= at(2), since=at(6)) == b"6789"
    assert values(timestamp >= at(2), until=at(4)) == b"23"


def test_columns(address, numbers, connection, reads):
    flights = TopicDataset(address, numbers)
    assert connection.sql('SELECT value FROM flights WHERE "offset" = 0 ORDER BY value').fetchall() == [
        (b"0",),
        (b"1",),
    ]
    assert set(reads[0]["columns"]) == {"value", "offset"}
    with pytest.raises(ottla.errors.ArgumentError, match="names"):
        flights.scanner(columns={"double": pc.field("offset")})


def test_a_dataset_of_pyarrow(address, numbers):
    flights = pickle.loads(pickle.dumps(TopicDataset(address, numbers)))
    assert flights.schema == ottla.read(address, numbers).to_arrow().schema
    assert flights.head(3, columns=["offset"]).num_rows == 3
    assert flights.count_rows(filter=pc.field("partition") == 1) == 5
    lazy = pl.scan_pyarrow_dataset(flights)
    assert sorted(lazy.filter(pl.col("partition") == 1).select("value").collect()["value"]) == [
        b"1",
        b"3",
        b"5",
        b"7",
        b"9",
    ]


def test_bisection_finds_what_a_filter_needs():
    assert [arrow_bounds._lowest(lambda n, least=least: n >= least, 100) for least in (0, 1, 57, 99, 100)] == [
        0,
        1,
        57,
        99,
        100,
    ]


def test_a_view(address, numbers, connection):
    assert view(connection, "flights", address, numbers).aggregate("count(*)").fetchall() == [(10,)]
    with ottla.Producer(address) as producer:
        producer.send(numbers, b"10").result(20)
    assert connection.sql("FROM flights SELECT count(*)").fetchall() == [(11,)]


def test_a_view_of_fields(address, topic, connection, reads):
    values = [
        json.dumps({"item": "cup", "n": 3, "at": {"x": [1, 2]}}).encode(),
        b"no JSON",
        b"\xff\xfe",
        None,
        b"[1]",
        json.dumps({"item": "it's", "n": "many"}).encode(),
    ]
    with ottla.Producer(address) as producer:
        producer.send_many(topic, values, partitions=0).result(20)
    made = view(
        connection,
        'the "sales"',
        address,
        topic,
        fields={"item": "VARCHAR", "n": "BIGINT", "at": "STRUCT(x INTEGER[])"},
    )
    rows = made.select("item", "n", "at", '"offset"').order('"offset"').fetchall()
    assert rows[0] == ("cup", 3, {"x": [1, 2]}, 0)
    assert [row[:3] for row in rows[1:5]] == [(None, None, None)] * 4
    assert rows[5] == ("it's", None, None, 5)
    reads.clear()
    assert connection.sql('SELECT item FROM "the ""sales""" WHERE "offset" >= 5').fetchall() == [("it's",)]
    assert reads[0]["offsets"] == range(5, MOST)
    with pytest.raises(duckdb.Error, match="NOTYPE"):
        view(connection, "v", address, topic, fields={"item": "NOTYPE"})


def test_a_limit_ends_the_read(address, topic, connection, monkeypatch):
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [bytes(1000)] * 50_000, partitions=0).result(60)
    taken = []
    batches = arrow.TopicScan.to_batches

    def counting(self):
        for batch in batches(self):
            taken.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(arrow.TopicScan, "to_batches", counting)
    view(connection, "flights", address, topic, max_poll_records=1000)
    assert connection.sql("FROM flights SELECT length(value::BLOB::VARCHAR) > 0 LIMIT 3").fetchall() == [(True,)] * 3
    assert sum(taken) < 40_000


def test_errors(address, connection):
    with pytest.raises(Exception, match="no-such-topic"):
        view(connection, "nothing", address, "no-such-topic").fetchall()


def test_a_hundred_records(address, hundred, connection):
    made = view(connection, "hundred", address, hundred, **COMMITTED)
    found, seconds = quickest(lambda: made.select("value").fetchall())
    assert sorted(found) == [(value,) for value in HUNDRED]
    assert is_quick(seconds)
