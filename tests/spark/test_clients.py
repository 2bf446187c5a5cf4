"""Reading a range through a scripted consumer: where it ends, what is lost, what happens to the consumer."""

import gc
import multiprocessing
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa
import pytest

import ottla
from ottla.errors import (
    KafkaTimeoutError,
    NotFoundError,
    OffsetOutOfRangeError,
    TooLargeError,
    UnreachableError,
    _from_native,
)
from ottla.spark.plan.planner import DataLossError, DataLossWarning
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read import client_pool, range_reader
from ottla.spark.read.schema import layout, schema
from ottla.spark.shared import worker_process
from ottla.spark.shared.ranges import Range

READ = ReadOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t"})
LAYOUT = layout(READ, schema(READ, {}), {})


class Columns:
    """A batch of records at the given offsets."""

    def __init__(self, offsets):
        self._offsets = offsets

    def __len__(self):
        return len(self._offsets)

    def __getitem__(self, key):
        found = self._offsets[key]
        return Columns(found) if isinstance(key, slice) else SimpleNamespace(offset=found)

    def to_arrow(self, names, *, view):
        assert not view
        columns = {field.name: pa.nulls(len(self), field.type) for field in LAYOUT.schema}
        table = pa.table({**columns, "offset": pa.array(self._offsets, pa.int64())}, schema=LAYOUT.schema)
        return table.select(names)


class Script:
    """A consumer whose partition t-0 holds `offsets`, from `first` to `end`; `errors` are raised by the next polls."""

    made: ClassVar[list["Script"]]
    errors: ClassVar[list[Exception]]
    first: int
    offsets: range | list[int]
    end: int

    def __init__(self, bootstrap, *, config):
        self.closed, self.position_now = False, None
        self.config = config
        Script.made.append(self)

    def assign(self, partitions):
        self.position_now = partitions[0].offset if partitions else None

    def seek(self, partition, offset):
        self.position_now = offset

    def poll(self, timeout, *, max_records):
        if Script.errors:
            raise Script.errors.pop(0)
        if not Script.first <= self.position_now <= Script.end:
            raise OffsetOutOfRangeError("not held")
        got = [o for o in Script.offsets if o >= self.position_now][:10]
        self.position_now = got[-1] + 1 if got else Script.end
        return Columns(got)

    def position(self, partition):
        return self.position_now

    def beginning_offsets(self, partitions):
        return dict.fromkeys(partitions, Script.first)

    def end_offsets(self, partitions):
        return dict.fromkeys(partitions, Script.end)

    def close(self, timeout=None):
        self.closed = True
        if timeout == 0:
            raise KafkaTimeoutError("tasks did not end within 0 ms")


@pytest.fixture(autouse=True)
def script(monkeypatch):
    # What other tests in this process left open.
    client_pool._idle.close()
    monkeypatch.setattr(client_pool, "Consumer", Script)
    for name, value in {"made": [], "errors": [], "first": 0, "offsets": range(100), "end": 100}.items():
        monkeypatch.setattr(Script, name, value, raising=False)
    yield Script
    client_pool._idle.close()


def options(**given):
    return ReadOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given})


def read(start, end, **given):
    batches = list(range_reader.read(options(**given), Range("t", 0, start, end), LAYOUT))
    assert all(batch.schema == LAYOUT.schema for batch in batches)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_range_is_cut_out_exactly():
    assert read(7, 33) == list(range(7, 33))


def test_range_ends_by_position_where_records_are_missing(script):
    # As compaction and control records leave a log: nothing at 6 to 10, and nothing after 14.
    script.offsets = [*range(6), 11, 14]
    assert read(0, 100) == [*range(6), 11, 14]
    assert read(0, 9) == list(range(6))
    assert read(12, 14) == []


def test_consumer_is_kept_for_the_next_range(script):
    read(0, 10)
    read(50, 60)
    assert len(script.made) == 1
    assert not script.made[0].closed
    read(0, 10, **{"kafka.fetch.min.bytes": "9"})
    assert len(script.made) == 2, "other properties, other consumer"


def test_reader_closed_in_the_middle_gives_its_consumer_back(script):
    reader = range_reader.read(options(), Range("t", 0, 0, 100), LAYOUT)
    next(reader)
    reader.close()
    assert read(0, 10) == list(range(10))
    assert len(script.made) == 1


def test_consumer_that_failed_is_closed_and_replaced(script):
    script.errors = [UnreachableError("for good")]
    with pytest.raises(UnreachableError):
        read(0, 10)
    assert script.made[0].closed
    assert read(0, 10) == list(range(10))
    assert len(script.made) == 2


def test_passing_trouble_is_waited_out(script):
    trouble = UnreachableError("for now")
    trouble.retriable = True
    script.errors = [trouble, trouble]
    assert read(0, 10) == list(range(10))


def test_trouble_ends_at_the_deadline(script):
    trouble = UnreachableError("for now")
    trouble.retriable = True
    script.errors = [trouble] * 1_000_000
    with pytest.raises(UnreachableError):
        read(0, 10, **{"kafkaConsumer.pollTimeoutMs": "50"})


def test_silence_ends_at_the_deadline(script, monkeypatch):
    monkeypatch.setattr(script, "poll", lambda *_, **__: Columns([]))
    with pytest.raises(KafkaTimeoutError, match="t-0: nothing came at offset 5 for 0.05 s, .* to offset 10"):
        read(5, 10, **{"kafkaConsumer.pollTimeoutMs": "50"})


def test_log_that_was_cut_inside_a_range(script):
    """The consumer stands at the end of the log, where nothing is refused and nothing comes."""
    script.offsets, script.end = range(5), 5
    quick = {"kafkaConsumer.pollTimeoutMs": "50"}
    with pytest.raises(DataLossError, match="t-0: the records from offset 5 to 10 are gone; the log was cut"):
        read(0, 10, **quick)
    with pytest.warns(DataLossWarning, match="from offset 5 to 10 are gone; the log was cut"):
        assert read(0, 10, failOnDataLoss="false", **quick) == list(range(5))


TRUNCATED = {"kind": "truncated", "topic": "t", "partition": 0, "offset": 5, "leader_epoch": 2}
KNOWN = {**TRUNCATED, "divergent_offset": 3, "divergent_epoch": 1}


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (
            KNOWN,
            r"from offset 3 on \(leader epoch 1 before it\): the records from offset 3 to 5 are lost",
        ),
        (KNOWN | {"divergent_epoch": None}, r"from offset 3 on \(leader epoch unknown before it\)"),
        (TRUNCATED, r"up to offset 5 was read \(leader epoch 2\), and the leader does not know this epoch"),
    ],
)
def test_a_truncated_log_is_reported_by_the_facts_of_its_error(script, facts, told):
    """The text of the error, which says what a consumer can do, is not shown."""
    report = rf"^t-0 5 to 10: the log was truncated, as after an unclean leader election\. .*{told}"
    script.errors = [_from_native("seek to 3, and auto.offset.reset is none", facts)]
    with pytest.raises(DataLossError, match=report) as caught:
        read(5, 10)
    assert "seek" not in str(caught.value)
    script.errors = [_from_native("seek to 3, and auto.offset.reset is none", facts)]
    with pytest.warns(DataLossWarning, match=report):
        assert read(5, 10, failOnDataLoss="false") == list(range(5, 10))


def test_a_batch_is_not_lost_if_its_position_cannot_be_told(script, monkeypatch):
    """The consumer has passed its records then, and would go on behind them."""
    trouble = UnreachableError("for now")
    trouble.retriable = True
    troubles, position = [trouble, trouble], script.position

    def troubled(self, partition):
        if troubles:
            raise troubles.pop()
        return position(self, partition)

    monkeypatch.setattr(script, "position", troubled)
    assert read(0, 30) == list(range(30))


def test_a_topic_that_one_broker_does_not_know_is_not_gone(script, monkeypatch):
    asked = []
    monkeypatch.setattr(range_reader, "_is_gone", lambda options, topic: asked.append(topic))
    script.errors = [NotFoundError("not here"), NotFoundError("not here")]
    assert read(0, 10, failOnDataLoss="false") == list(range(10))
    assert asked == ["t", "t"]
    script.errors = [NotFoundError("not here")] * 1_000_000
    with pytest.raises(NotFoundError):
        read(0, 10, **{"kafkaConsumer.pollTimeoutMs": "50"})


def test_records_that_aged_out(script):
    script.first = 40
    with pytest.raises(DataLossError, match="t-0: the records from offset 10 to 40 are gone.*failOnDataLoss"):
        read(10, 50)
    with pytest.warns(DataLossWarning, match="from offset 10 to 40"):
        assert read(10, 50, failOnDataLoss="false") == list(range(40, 50))
    with pytest.warns(DataLossWarning, match="from offset 10 to 30"):
        assert read(10, 30, failOnDataLoss="false") == []


def test_log_that_was_cut(script):
    script.end = 20
    with pytest.raises(DataLossError, match="t-0: the records from offset 30 to 50 are gone; the log was cut"):
        read(30, 50)
    with pytest.warns(DataLossWarning, match="cut"):
        assert read(30, 50, failOnDataLoss="false") == []


def test_users_properties_reach_the_consumer_and_ours_stay(script):
    read(0, 1, **{"kafka.max.partition.fetch.bytes": "1000", "kafka.isolation.level": "read_committed"})
    config = script.made[0].config
    assert config["max.partition.fetch.bytes"] == "1000"
    assert config["isolation.level"] == "read_committed"
    assert config["auto.offset.reset"] == "none"


def kept_in_child(answer):
    answer.send(len(client_pool._idle.waiting()))


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_consumers_do_not_cross_a_fork():
    read(0, 10)
    assert len(client_pool._idle.waiting()) == 1
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=kept_in_child, args=(theirs,))
    child.start()
    assert ours.poll(30)
    assert ours.recv() == 0
    child.join(30)


def test_a_dead_letter_is_as_large_as_its_topic_takes(broker):
    options = ReadOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"})
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("letters", partitions=1, config={"max.message.bytes": str(4 << 20)})])
    with client_pool.producer(options) as producer:
        assert producer.send("letters", bytes(3 << 20)).result(30).offset == 0
        refused = producer.send("letters", bytes(5 << 20))
        with pytest.raises(TooLargeError, match="MESSAGE_TOO_LARGE"):
            refused.result(30)
    client_pool.close_idle(options)


@pytest.mark.parametrize(("program", "spared"), [("pyspark.daemon", True), ("pytest", False)])
def test_what_a_worker_has_loaded_is_not_collected_after_each_task(monkeypatch, program, spared):
    """Nowhere else, for a program of the user's may hold garbage."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(program, None))
    monkeypatch.setattr(worker_process, "_DONE", [])
    try:
        worker_process.spare_collections()
        assert (gc.get_freeze_count() > 0) == spared
        gc.unfreeze()
        worker_process.spare_collections()
        assert gc.get_freeze_count() == 0
    finally:
        gc.unfreeze()
