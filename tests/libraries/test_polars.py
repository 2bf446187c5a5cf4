"""`ottla.scan`: a topic as a lazy source of polars."""
# ruff: noqa: SIM300 expressions of polars are no constants

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

import ottla
from ottla.integrations import polars as ours
from tests.libraries.topics import COMMITTED, HUNDRED, START, is_quick, quickest

END = 2**63 - 1
OFFSET, PARTITION, TIMESTAMP = pl.col("offset"), pl.col("partition"), pl.col("timestamp")


def at(second: float) -> datetime:
    return datetime.fromtimestamp(START / 1000 + second, tz=UTC)


@pytest.fixture
def reads(monkeypatch):
    """The arguments of each read."""
    made = []
    read = ottla.read

    def recording(*args, **options):
        made.append(options)
        return read(*args, **options)

    monkeypatch.setattr(ours, "read", recording)
    return made


def test_the_whole_topic(address, numbers):
    found = ottla.scan(address, numbers).collect()
    assert found.schema == ottla.read(address, numbers).to_polars().schema
    assert found.sort("partition", "offset").equals(ottla.read(address, numbers).to_polars())
    assert ottla.scan(address, numbers).collect_schema() == found.schema


@pytest.mark.parametrize(
    ("predicate", "offsets", "since"),
    [
        (OFFSET >= 3, range(3, END), None),
        (OFFSET < 2, range(2), None),
        (3 <= OFFSET, range(3, END), None),
        ((OFFSET > 1) & (OFFSET <= 3), range(2, 4), None),
        (OFFSET == 2, range(2, 3), None),
        (OFFSET.is_between(1, 3), range(1, 4), None),
        (OFFSET.is_between(1, 3, closed="none"), range(2, 3), None),
        ((OFFSET > 3) & (OFFSET < 2), range(4, 4), None),
        (PARTITION == 1, {1: range(END)}, None),
        (PARTITION.is_in([0, 7]), {0: range(END)}, None),
        ((PARTITION != 1) & (OFFSET >= 2), {0: range(2, END)}, None),
        (PARTITION > 5, {}, None),
        (TIMESTAMP >= at(4), None, START + 4000),
        (at(4.0005) < TIMESTAMP, None, START + 4001),
        (TIMESTAMP.is_between(at(2), at(5)), None, START + 2000),
        ((TIMESTAMP == at(4)) & (PARTITION == 0), {0: range(END)}, START + 4000),
        # What bounds nothing is a filter of rows.
        (TIMESTAMP < at(4), None, None),
        ((OFFSET == 1) | (PARTITION == 0), None, None),
        (OFFSET % 2 == 0, None, None),
        (OFFSET == PARTITION, None, None),
        (OFFSET >= 1.5, None, None),
        (pl.col("value") == b"4", None, None),
        ((pl.col("value") == b"4") & (OFFSET >= 2), range(2, END), None),
        (TIMESTAMP.dt.second() == 24, None, None),
        ((PARTITION + 1) == 1, None, None),
    ],
    ids=str,
)
def test_predicates_become_bounds(address, numbers, reads, predicate, offsets, since):
    whole = ottla.read(address, numbers).to_polars()
    reads.clear()
    found = ottla.scan(address, numbers).filter(predicate).collect()
    assert found.sort("partition", "offset").equals(whole.filter(predicate))
    assert [(read["offsets"], read["since"]) for read in reads] == [(offsets, since)]


def test_records_out_of_the_order_of_their_times_are_found(address, topic):
    with ottla.Producer(address) as producer:
        for second in (0, 9, 1, 8, 2):
            producer.send(topic, b"%d" % second, partition=0, timestamp=START + second * 1000).result(20)
    lazy = ottla.scan(address, topic)
    assert lazy.filter(TIMESTAMP >= at(2)).collect()["value"].to_list() == [b"9", b"8", b"2"]
    assert lazy.filter(TIMESTAMP < at(3)).collect()["value"].to_list() == [b"0", b"1", b"2"]


def test_columns(address, numbers, reads):
    found = (
        ottla.scan(address, numbers)
        .filter(OFFSET == 0, PARTITION == 1)
        .select("value", pl.col("key").is_null())
        .collect()
    )
    assert found.to_dict(as_series=False) == {"value": [b"1"], "key": [True]}
    assert set(reads[0]["columns"]) == {"key", "value", "partition", "offset"}
    assert ottla.scan(address, numbers).select(pl.len()).collect().item() == 10


def test_the_callers_bounds_stay(address, numbers):
    def values(lazy):
        return b"".join(sorted(lazy.collect()["value"])).decode()

    assert values(ottla.scan(address, numbers, offsets={1: range(1, 4)}).filter(OFFSET >= 2)) == "57"
    assert values(ottla.scan(address, numbers, offsets={1: range(1, 4)}).filter(PARTITION == 0)) == ""
    assert values(ottla.scan(address, numbers, offsets=range(1, 3)).filter(PARTITION == 0)) == "24"
    assert values(ottla.scan(address, numbers, offsets=range(1, 3)).filter(OFFSET <= 1)) == "23"
    assert values(ottla.scan(address, numbers, since=at(6)).filter(TIMESTAMP >= at(2))) == "6789"
    assert values(ottla.scan(address, numbers, until=at(4)).filter(TIMESTAMP >= at(2))) == "23"
    assert values(ottla.scan(address, numbers, since=timedelta(days=1))) == ""


def test_a_limit_ends_the_read(address, topic, monkeypatch):
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"%d" % n for n in range(1000)], partitions=0).result(20)
    taken = []
    read = ottla.read

    def counting(*args, **options):
        for batch in read(*args, **options):
            taken.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(ours, "read", counting)
    lazy = ottla.scan(address, topic, max_poll_records=10)
    assert lazy.head(15).collect()["offset"].to_list() == list(range(15))
    assert sum(taken) == 20
    assert lazy.filter(OFFSET >= 100).head(3).collect()["offset"].to_list() == [100, 101, 102]
    assert lazy.head(0).collect().is_empty()


def test_each_collect_reads_again(address, numbers):
    lazy = ottla.scan(address, numbers)
    assert len(lazy.collect()) == 10
    with ottla.Producer(address) as producer:
        producer.send(numbers, b"10").result(20)
    assert len(lazy.collect()) == 11
    assert lazy.collect(engine="streaming").height == 11


def test_errors(address):
    lazy = ottla.scan(address, "no-such-topic")
    with pytest.raises((ottla.errors.NotFoundError, pl.exceptions.ComputeError), match="no-such-topic"):
        lazy.collect()


def test_a_hundred_records(address, hundred):
    lazy = ottla.scan(address, hundred, **COMMITTED)
    found, seconds = quickest(lambda: lazy.select("value").collect())
    assert sorted(found["value"]) == HUNDRED
    assert is_quick(seconds)
