"""Exactly once without a broker: options, marks, and what they say of a batch."""

import pickle

import pytest
from tests.waiting import wait_for_ours

from ottla import OffsetAndMetadata
from ottla.spark.shared.idle_clients import IdleClients
from ottla.spark.write import transactions
from ottla.spark.write.exactly_once import ExactlyOnceError, Mark, Once, Task, check_rows, written
from ottla.spark.write.options import WriteOptions
from ottla.spark.write.producers import check

from .tasks import inside

GOOD = {"kafka.bootstrap.servers": "h:1", "topic": "t", "exactlyOnce": "true", "appId": "orders", "shards": "4"}
ONCE = Once("orders", 4, "t")
BATCHES = Once("orders", 4, "t", version=7)


def parse(**change):
    return WriteOptions.parse({name: value for name, value in {**GOOD, **change}.items() if value is not None}).once


def test_options_in_any_case():
    given = {"EXACTLYONCE": "True", "appid": " orders ", "Shards": "4", "VERSION": "7", "markertopic": "m"}
    options = WriteOptions.parse({"kafka.bootstrap.servers": "h:1", **given})
    assert options.once == Once("orders", 4, "m", 7)
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_in_kafka():
    once = parse()
    assert once == ONCE
    assert (once.group, once.transactional_id(2)) == ("ottla-sink-orders", "ottla-sink-orders-2")


def test_without_it_writes_are_at_least_once():
    assert parse(exactlyOnce=None, appId=None, shards=None) is None
    assert parse(exactlyOnce="false", appId=None, shards=None) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exactlyOnce": "yes"}, "option exactlyOnce must be true or false, not 'yes'"),
        ({"exactlyOnce": None}, "option appId has a meaning only with exactlyOnce=true"),
        ({"appId": None}, "option appId is missing: .* stays the same whenever it starts"),
        ({"appId": "a b"}, "option appId must have up to 180 letters, .*, not 'a b'"),
        ({"appId": "a" * 181}, "option appId must have up to 180 letters"),
        ({"shards": None}, r"option shards is missing: .* such as 4 after \.repartition\(4\)"),
        ({"shards": "0"}, "option shards must be a whole number above 0, not '0'"),
        ({"version": "-1"}, "option version must be a whole number, 0 or above, not '-1'"),
        ({"topic": None}, "option markerTopic is missing: where rows name their topics"),
        ({"appID2": "x"}, "option appID2 is not known to ottla; did you mean appId?"),
        (
            {"kafka.transactional.id": "x"},
            "option kafka.transactional.id cannot be set: with exactlyOnce=true each task",
        ),
    ],
)
def test_errors_name_the_option(change, why):
    with pytest.raises(ValueError, match=why):
        parse(**change)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kafka.acks": "1"}, "option exactlyOnce needs acks=all"),
        ({"kafka.enable.idempotence": "false"}, "option exactlyOnce needs enable.idempotence=true"),
        ({"kafka.transaction.timeout.ms": "soon"}, "option kafka.transaction.timeout.ms"),
    ],
)
def test_properties_that_exclude_transactions_are_refused_before_tasks_run(change, why):
    with pytest.raises(ValueError, match=why):
        check(WriteOptions.parse({**GOOD, **change}))
    check(WriteOptions.parse(GOOD))


def test_streams_and_batches_have_options_of_their_own():
    parse().check_stream()
    parse(version="0").check_batch()
    for options, look, why in [
        (parse(), "check_batch", "option version is missing: with exactlyOnce a batch needs a number"),
        (parse(version="1", firstBatch="2"), "check_batch", "option firstBatch has no meaning in a batch"),
        (parse(version="1"), "check_stream", "option version has no meaning in a stream"),
    ]:
        with pytest.raises(ValueError, match=why):
            getattr(options, look)()


def test_a_task_knows_its_part():
    with inside(3, batch=12, query="q"):
        assert Task.current(ONCE) == Task(3, 12, "q")
        assert Task.current(BATCHES) == Task(3, 7, "")


def test_a_task_without_a_part_is_refused():
    with pytest.raises(ExactlyOnceError, match="only in Spark tasks"):
        Task.current(ONCE)
    with (
        inside(4, batch=1),
        pytest.raises(ExactlyOnceError, match=r"more tasks .* shards allows \(4\).*repartition\(4\)"),
    ):
        Task.current(ONCE)
    with inside(0), pytest.raises(ExactlyOnceError, match="write in foreachBatch, with option version"):
        Task.current(ONCE)


def test_a_mark_is_read_as_it_was_told():
    mark = Mark(12, "q", 4, 5000)
    assert mark.to_offset().offset == 13
    assert Mark.read("g", mark.to_offset()) == mark
    for foreign in ("", "x", "[]", "{}", '{"query": "q"}', '{"query": "q", "shards": [], "rows": 1}'):
        with pytest.raises(ExactlyOnceError, match="group g holds offset 5 with the text .* no write of ottla"):
            Mark.read("g", OffsetAndMetadata(5, foreign))


def mark(batch, query="q", shards=4, rows=9):
    return Mark(batch, query, shards, rows)


def test_a_shard_writes_a_batch_that_it_has_not_marked():
    def unasked():
        raise AssertionError("its own mark is enough")

    assert written(ONCE, Task(1, 5, "q"), mark(4), unasked) is None
    # In the batches between, it had no task.
    assert written(ONCE, Task(1, 5, "q"), mark(0), unasked) is None
    assert written(ONCE, Task(1, 5, "q"), mark(5), unasked) == mark(5)
    assert written(ONCE, Task(1, 0, "q"), None, list) is None
    assert written(ONCE, Task(1, 5, "q"), None, lambda: [mark(4)]) is None


def test_batches_go_by_their_version():
    assert written(BATCHES, Task(0, 7, ""), None, list) is None
    assert written(BATCHES, Task(0, 7, ""), mark(3, ""), list) is None
    assert written(BATCHES, Task(0, 7, ""), mark(7, ""), list) == mark(7, "")
    with pytest.raises(ExactlyOnceError, match="written batch 8 already, while option version is 7: versions .* grow"):
        written(BATCHES, Task(0, 7, ""), mark(8, ""), list)


@pytest.mark.parametrize("own", [True, False], ids=["its own mark", "another shard's"])
@pytest.mark.parametrize(
    ("found", "why"),
    [
        (mark(4, shards=2), r"written with shards=2, and now with shards=4: .* Set it back, or take another appId"),
        (mark(4, query="p"), r"appId orders belongs to query p, .* another appId for this query \(q\)"),
        (mark(4, query=""), "appId orders belongs to batches with option version"),
    ],
)
def test_a_write_that_was_another_is_refused(own, found, why):
    with pytest.raises(ExactlyOnceError, match=why):
        written(ONCE, Task(1, 5, "q"), found if own else None, lambda: [mark(4), found])


def test_a_query_that_was_set_back_is_refused():
    with pytest.raises(
        ExactlyOnceError, match="shard 1 of orders has written batch 6 already, while the query is at batch 5"
    ):
        written(ONCE, Task(1, 5, "q"), mark(6), list)


def test_a_shard_without_a_mark_finds_by_the_others_that_the_query_was_set_back():
    with pytest.raises(ExactlyOnceError, match="another shard of orders has written batch 6 .* query is at batch 5"):
        written(ONCE, Task(1, 5, "q"), None, lambda: [mark(4), mark(6)])
    assert written(ONCE, Task(1, 5, "q"), None, lambda: [mark(5)]) is None, "the others may be faster"
    with pytest.raises(ExactlyOnceError, match="another shard of orders .* while option version is 7: .* must grow"):
        written(BATCHES, Task(1, 7, ""), None, lambda: [mark(8, "")])


def test_marks_that_are_gone_are_told():
    """Brokers forget the offsets of a group that stands still, and then nobody knows whether a batch was written."""
    with pytest.raises(
        ExactlyOnceError, match="Kafka knows nothing of orders, .* batch 5: .*offsets.retention.minutes"
    ):
        written(ONCE, Task(1, 5, "q"), None, list)
    first = Once("orders", 4, "t", first=5)
    assert written(first, Task(1, 5, "q"), None, list) is None
    with pytest.raises(ExactlyOnceError, match="set option firstBatch to 6"):
        written(first, Task(1, 6, "q"), None, list)


def test_a_replay_with_other_rows_is_refused():
    check_rows(ONCE, Task(1, 5, "q"), mark(5, rows=9), 9)
    with pytest.raises(ExactlyOnceError, match=r"batch 5 is replayed with 8 rows in shard 1 of orders, which wrote 9"):
        check_rows(ONCE, Task(1, 5, "q"), mark(5, rows=9), 8)


class Reader:
    """A consumer of a group without marks."""

    is_closed = False

    def committed(self, partitions):
        return dict.fromkeys(partitions)

    def close(self, timeout):
        assert timeout == 0
        self.is_closed = True


def test_what_reads_marks_is_kept_while_it_is_used(monkeypatch):
    made = []
    monkeypatch.setattr(transactions, "_readers", IdleClients(0.5))
    monkeypatch.setattr(transactions, "_reader", lambda *_: made.append(Reader()) or made[-1])

    def read(app):
        options = WriteOptions.parse({**GOOD, "appId": app})
        assert transactions._marks(options, options.once, [0], "read_committed") == []

    for app in ("a", "b", "a"):
        read(app)
    assert len(made) == 2
    wait_for_ours(lambda: all(one.is_closed for one in made), "readers that no task takes are closed")
    assert transactions._readers.waiting() == []
