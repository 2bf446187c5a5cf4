"""A part of a topic as a stream of Arrow record batches, and by offsets."""

from __future__ import annotations

import gc
import io
import sys
import time
import types

import pyarrow as pa
import pytest

import ottla
from ottla import _progress
from ottla._streaming import open_stream
from ottla.testing import Broker
from tests.pace import patience

START = 1_700_000_000_000


@pytest.fixture
def numbers(address, topic):
    """Ten records, a second apart, to the two partitions in turn."""
    with ottla.Producer(address) as producer:
        for number in range(10):
            at = START + number * 1000
            producer.send(topic, str(number).encode(), partition=number % 2, timestamp=at).result(20)


def values(reader, partition=None):
    table = reader.read_all()
    rows = zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True)
    return b"".join(value for number, value in rows if partition in {None, number}).decode()


PARTS = [
    ({}, "02468", "13579"),
    ({"last": 3}, "8", "79"),
    ({"last": 0}, "", ""),
    ({"since": START + 6500}, "8", "79"),
    ({"until": START + 3000}, "02", "1"),
    ({"offsets": range(1, 3)}, "24", "35"),
    ({"offsets": {1: range(4)}}, "", "1357"),
    ({"offsets": {0: range(3, 1000), 1: range(2)}}, "68", "13"),
    ({"offsets": {}}, "", ""),
    ({"offsets": range(7, 9)}, "", ""),
    ({"offsets": range(3), "since": START + 2000}, "24", "35"),
    ({"offsets": range(1, 4), "last": 3}, "6", "57"),
]


@pytest.mark.parametrize(("part", "even", "odd"), PARTS, ids=str)
@pytest.mark.usefixtures("numbers")
def test_parts(api, address, topic, part, even, odd):
    reader = api(api.module.read(address, topic, stream=True, **part))
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == ottla.read(address, topic).to_arrow().schema
    table = reader.read_all()
    assert values(table.to_reader(), 0) == even
    assert values(table.to_reader(), 1) == odd
    batch = api(api.module.read(address, topic, **part))
    assert sorted(record.value for record in batch) == sorted(
        (even + odd)[n : n + 1].encode() for n in range(table.num_rows)
    )


@pytest.mark.usefixtures("numbers")
def test_columns(api, address, topic):
    reader = api(api.module.read(address, topic, stream=True, columns=["value", "offset"], offsets={0: range(2)}))
    assert reader.read_all().to_pydict() == {"value": [b"0", b"2"], "offset": [0, 1]}
    reader = api(api.module.read(address, topic, stream=True, columns=["key"], last=1))
    assert reader.read_all().to_pydict() == {"key": [None]}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"offsets": 5}, "offsets is a range of offsets with step 1"),
        ({"offsets": range(0, 10, 2)}, "step 1"),
        ({"offsets": range(-1, 10)}, "from 0 up"),
        ({"offsets": {"a": range(3)}}, "by partition number"),
        ({"offsets": {7: range(3)}}, "has no partition 7"),
        ({"columns": ["value"]}, "columns and progress are for stream=True"),
        ({"progress": True}, "columns and progress are for stream=True"),
        ({"columns": ["no"], "stream": True}, "no"),
    ],
    ids=str,
)
def test_what_cannot_be_read(api, address, topic, options, text):
    with pytest.raises(ottla.errors.ArgumentError, match=text):
        api(api.module.read(address, topic, **options))


def test_a_topic_that_does_not_exist_is_reported_with_the_nearest(api, address, topic):
    with pytest.raises(ottla.errors.NotFoundError, match=f"did you mean {topic!r}"):
        api(api.module.read(address, topic + "x", stream=True))


def test_transactions(address, topic):
    """Markers have offsets and no records: the end is found without a wait for records."""
    with ottla.Producer(address, transactional_id=topic) as producer:
        for number in range(3):
            with producer.transaction():
                producer.send_many(topic, [b"%d" % number] * 10, partitions=number % 2)
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=1)
        producer.flush()
        producer.abort_transaction()
    began = time.monotonic()
    table = ottla.read(address, topic, stream=True, isolation_level="read_committed").read_all()
    took = time.monotonic() - began
    assert sorted(table["value"].to_pylist()) == [b"0"] * 10 + [b"1"] * 10 + [b"2"] * 10
    assert took < patience(1)


def test_records_arrive_while_it_reads_are_left_out(address, topic):
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"old"] * 5, partitions=0).result(20)
        reader = ottla.read(address, topic, stream=True)
        producer.send_many(topic, [b"new"] * 5, partitions=0).result(20)
    assert reader.read_all()["value"].to_pylist() == [b"old"] * 5


def test_a_topic_is_not_held_in_memory(address, topic):
    """What is read ahead is bounded by the prefetch, whatever the topic holds."""
    with ottla.Producer(address) as producer:
        for _ in range(40):
            producer.send_many(topic, [bytes(10_000)] * 100).result(60)
    reader = ottla.read(
        address, topic, stream=True, columns=["value"], max_poll_records=100, prefetch_max_bytes=1_000_000
    )
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for batch in reader:
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        assert batch.num_rows <= 100
    assert rows == 4000
    assert most < 10_000_000


def test_a_reader_that_is_dropped_disconnects(address, topic, monkeypatch):
    closed = []
    close = ottla.Consumer._close
    monkeypatch.setattr(ottla.Consumer, "_close", lambda self, *a: (closed.append(1), close(self, *a))[1])
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"v"] * 10, partitions=0).result(20)
    reader = ottla.read(address, topic, stream=True, max_poll_records=2)
    assert reader.read_next_batch().num_rows == 2
    assert closed == []
    del reader
    gc.collect()
    assert closed == [1]


def test_a_broker_that_sends_nothing_ends_it():
    with Broker(topics=["t"]) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(20)
        broker.ignore("Fetch", count=10_000)
        reader = ottla.read(broker.bootstrap_servers, "t", stream=True, default_api_timeout_ms=int(patience(2000)))
        with pytest.raises(ottla.errors.KafkaTimeoutError, match=r"t\[0\] from offset 0 .* though it ends at 1"):
            reader.read_all()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def slow(address, topic, monkeypatch):
    """A topic whose read is drawn at each batch."""
    monkeypatch.setattr(_progress, "PAUSE", 0)
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"v"] * 10, partitions=0).result(20)
    return lambda shown=True: open_stream(
        address,
        (topic, None, None, None, None),
        None,
        shown,
        {"auto.offset.reset": "earliest"},
        {"max_poll_records": 5},
    )


def test_progress_in_a_terminal(slow, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert slow().read_all().num_rows == 10
    drawn = sys.stderr.getvalue()
    assert "\r[###############               ]  50%, 5 records, " in drawn
    assert " 100%, 10 records, 0 s left " in drawn
    assert drawn.endswith("\r\x1b[K")


@pytest.mark.parametrize("shown", [True, False])
def test_no_progress_elsewhere_or_unasked(slow, monkeypatch, shown):
    monkeypatch.setattr(sys, "stderr", io.StringIO() if shown else Terminal())
    assert slow(shown).read_all().num_rows == 10
    assert sys.stderr.getvalue() == ""


def test_progress_in_a_notebook(slow, monkeypatch):
    """Stands for IPython as a kernel shows it: its own package is not needed for tests."""
    shown = []

    class Handle:
        def update(self, data, *, raw):
            shown.append(("update", data["text/plain"], raw))

    def display(data, *, raw, display_id):
        shown.append(("display", data["text/plain"], raw and display_id))
        return Handle()

    ipython, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    assert slow().read_all().num_rows == 10
    assert [(kind, flag) for kind, _, flag in shown] == [("display", True), ("update", True), ("update", True)]
    assert shown[0][1].startswith("[###############               ]  50%, 5 records, ")
    assert shown[-1][1].startswith("10 records in ")
