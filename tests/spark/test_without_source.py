"""Frames and streams for Spark 3.5, which has no data sources in Python, under the Spark that is installed."""

import json
import time

import pytest
from tests.waiting import check_time, wait_for_end

from ottla.spark import read_kafka, stream_kafka, write_kafka

from .conftest import rows
from .starts import begun


def run(topic, folder, write, **options):
    """Run a stream until it has caught up."""
    given = {key: options.pop(key) for key in ("schema",) if key in options}
    query = stream_kafka(
        topic.spark,
        topic.options(startingOffsets="earliest", **options),
        write,
        str(folder / "checkpoint"),
        available_now=True,
        **given,
    )
    try:
        wait_for_end(query)
    finally:
        query.stop()


def kept(folder, kind):
    """The files of a kind in the checkpoint, by number."""
    paths = [path for path in (folder / "checkpoint" / kind).iterdir() if path.name.isdigit()]
    return {int(path.name): path.read_text() for path in paths}


class Batches(list):
    """What a stream gave: the number and the values of each batch."""

    def __call__(self, frame, number):
        self.append((number, sorted(int(bytes(row.value)) for row in frame.collect())))


def test_a_frame_has_the_rows_of_the_source(topic):
    sent = topic(3)
    sent.produce(range(20), headers=[("h", b"1")])
    options = {"startingOffsets": "earliest", "includeHeaders": "true", "minPartitions": "5"}
    expected = sent.read(**options)
    frame = read_kafka(sent.spark, sent.options(**options))
    assert frame.schema == expected.schema
    assert rows(frame) == rows(expected)
    assert frame.rdd.getNumPartitions() == expected.rdd.getNumPartitions()


def test_a_frame_of_nothing_is_empty(topic):
    frame = read_kafka(topic().spark, topic().options(startingOffsets="earliest"))
    assert (frame.count(), frame.columns[0]) == (0, "key")


@pytest.mark.parametrize("schema", ["value struct<a:int>, offset long", None])
def test_values_are_typed(topic, schema):
    sent = topic(1)
    sent.produce([json.dumps({"a": n}) for n in range(5)])
    options = {"startingOffsets": "earliest", "value.format": "json"}
    if schema is None:
        options |= {"value.schema": "a int", "columns": "value,offset"}
    frame = read_kafka(sent.spark, sent.options(**options), schema)
    assert sorted((row.offset, row.value.a) for row in frame.collect()) == [(n, n) for n in range(5)]


def test_a_schema_needs_a_format(topic):
    with pytest.raises(ValueError, match=r"columns of records are fixed: .* value\.format"):
        read_kafka(topic().spark, topic().options(), "value struct<a:int>")


def test_a_stream_reads_each_record_once_and_goes_on(topic, tmp_path):
    sent, given = topic(2), Batches()
    sent.produce(range(25))
    run(sent, tmp_path, given, maxOffsetsPerTrigger="10")
    assert [number for number, _ in given] == list(range(len(given)))
    assert all(len(values) <= 11 for _, values in given)
    assert sorted(value for _, values in given for value in values) == list(range(25))
    given.clear()
    run(sent, tmp_path, given)
    assert given == []
    sent.produce(range(25, 30))
    run(sent, tmp_path, given)
    assert [values for _, values in given] == [list(range(25, 30))]


def test_a_batch_that_failed_comes_again_as_it_was(topic, tmp_path):
    sent, given = topic(1), Batches()
    sent.produce(range(4))

    def failing(frame, number):
        given(frame, number)
        raise RuntimeError("the table is locked")

    with pytest.raises(Exception, match="the table is locked"):
        run(sent, tmp_path, failing)
    sent.produce(range(4, 9))
    run(sent, tmp_path, given)
    assert given == [(0, [0, 1, 2, 3]), (0, [0, 1, 2, 3]), (1, [4, 5, 6, 7, 8])]


def test_a_stream_waits_for_records(topic, tmp_path):
    """With and without a time between batches."""
    for every in (None, "100 milliseconds"):
        sent, given = topic(1), Batches()
        options = sent.options(startingOffsets="earliest")
        query = stream_kafka(sent.spark, options, given, str(tmp_path / str(every)), every=every)
        try:
            for count in (1, 2):
                sent.produce([count])
                end = time.monotonic() + 90
                while len(given) < count:
                    check_time(end, f"batch {count} did not come")
                    assert not query.awaitTermination(0.1), query.exception()
        finally:
            query.stop()
        assert given == [(0, [1]), (1, [2])]


def test_checkpoints_move_to_the_source_and_back(topic, tmp_path):
    sent, given = topic(2), Batches()
    sent.produce(range(5))
    run(sent, tmp_path, given)
    sent.produce(range(5, 9))
    rows = sent.spark.readStream.format("ottla").options(**sent.options(startingOffsets="earliest")).load()
    query = rows.writeStream.foreachBatch(given).option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = begun(query.trigger(availableNow=True).start)
    try:
        wait_for_end(running)
    finally:
        running.stop()
    sent.produce(range(9, 12))
    run(sent, tmp_path, given)
    assert given == [(0, [0, 1, 2, 3, 4]), (1, [5, 6, 7, 8]), (2, [9, 10, 11])]
    assert kept(tmp_path, "offsets").keys() == kept(tmp_path, "commits").keys() == {0, 1, 2}


def test_two_queries_on_a_checkpoint_are_told_apart(topic, tmp_path):
    sent = topic(1)
    sent.produce(range(3))

    def beside(frame, number):
        run(sent, tmp_path, Batches())

    with pytest.raises(Exception, match=r"checkpoint .* is used by another query, which has made commits/0"):
        run(sent, tmp_path, beside)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v1\n{}\n{}\n{}", "is not of a stream with one source"),
        ("v2\n{}\n{}", "is not of a stream with one source"),
        ('v1\n{}\n{"timestamp":5}', "holds no Kafka offsets"),
        ("v1\n{}\n-", "holds no Kafka offsets"),
    ],
)
def test_the_checkpoint_of_something_else_is_refused(topic, tmp_path, text, said):
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text(text)
    with pytest.raises(ValueError, match=said):
        run(topic(), tmp_path, Batches())


def test_old_files_of_a_checkpoint_go(topic, tmp_path, monkeypatch):
    monkeypatch.setattr("ottla.spark.plan.checkpoint.KEPT", 2)
    sent = topic(1)
    sent.produce(range(6))
    run(sent, tmp_path, Batches(), maxOffsetsPerTrigger="1")
    assert kept(tmp_path, "offsets").keys() == kept(tmp_path, "commits").keys() == {4, 5}


def test_available_now_has_no_time_between_batches(topic, tmp_path):
    with pytest.raises(ValueError, match="leave out every"):
        stream_kafka(topic().spark, {}, Batches(), str(tmp_path), available_now=True, every="1 second")


def test_rows_are_written(topic):
    sent, to = topic(1), topic(2)
    sent.produce(range(20), headers=[("h", b"1")])
    frame = sent.read(startingOffsets="earliest", includeHeaders="true").select("key", "value", "headers")
    assert write_kafka(frame.repartition(3), {"kafka.bootstrap.servers": to.bootstrap, "topic": to.name}) is None
    read = to.read(startingOffsets="earliest", includeHeaders="true").select("key", "value", "headers")
    assert sorted(rows(read)) == sorted(rows(frame))


def test_a_frame_without_rows_writes_none(topic):
    to = topic(1)
    empty = to.spark.createDataFrame([], "value string")
    write_kafka(empty, {"kafka.bootstrap.servers": to.bootstrap, "topic": to.name})
    assert to.read(startingOffsets="earliest").count() == 0


def test_a_stream_is_written_in_columns(topic, tmp_path):
    """By `foreachBatch`. A batch that is repeated is written once, as Spark 4.0's own sinks would write it."""
    sent, to = topic(2), topic(2)
    sent.produce(range(30))
    once = {"exactlyOnce": "true", "appId": to.name, "shards": "2"}
    options = {"kafka.bootstrap.servers": to.bootstrap, "topic": to.name, **once}

    def twice(frame, number):
        for _ in range(2):
            write_kafka(frame.select("value"), options, number)

    run(sent, tmp_path, twice, maxOffsetsPerTrigger="10")
    read = to.read(startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    assert sorted(int(bytes(row.value)) for row in read.collect()) == list(range(30))


def test_a_row_that_is_not_delivered_fails_the_write(topic):
    to = topic(1)
    frame = to.spark.createDataFrame([("k", "v", 7)], "key string, value string, partition int")
    options = {"kafka.bootstrap.servers": to.bootstrap, "topic": to.name, "kafka.max.block.ms": "1000"}
    with pytest.raises(Exception, match=r"there is no partition 7: .* this is about the record with the key 'k'"):
        write_kafka(frame, options)


@pytest.mark.parametrize(
    ("options", "batch", "said"),
    [
        ({}, None, "topic"),
        ({"topic": "t", "exactlyOnce": "true", "appId": "a", "shards": "1"}, None, "option version is missing"),
        ({"topic": "t", "exactlyOnce": "true", "appId": "a", "shards": "1", "Version": "3"}, 3, "leave it out"),
        ({"topic": "t", "kafka.lingerms": "3"}, None, "linger.ms"),
    ],
)
def test_bad_options_of_a_write_are_refused(topic, options, batch, said):
    frame = topic().spark.createDataFrame([("v",)], "value string")
    with pytest.raises(ValueError, match=said):
        write_kafka(frame, {"kafka.bootstrap.servers": topic().bootstrap, **options}, batch)
