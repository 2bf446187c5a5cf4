"""The limit that the reader for Spark 4.0 and 4.1 keeps by itself, called in Spark's order."""

import pickle

import pytest
from pyspark import cloudpickle

from ottla.spark.plan.planner import Planner
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read import stream
from ottla.spark.shared.ranges import Range

from .test_planner import DictLog


@pytest.fixture
def reader(monkeypatch):
    """A reader of a log that holds 100 records in one partition, 30 a trigger."""
    log = DictLog({("t", 0): (0, 100)})
    monkeypatch.setattr(stream, "planner", lambda options, past: Planner(options, log, past))
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "maxOffsetsPerTrigger": "30"}
    made = stream.UnlimitedStreamReader(ReadOptions.parse({**options, "startingOffsets": "earliest"}), None)
    made.log = log
    return made


def told(offset):
    return {"t": {"0": offset}}


def test_new_query_asks_for_the_end_before_the_start(reader):
    assert reader.latestOffset() == told(30)
    assert reader.initialOffset() == told(0)
    assert [part.value for part in reader.partitions(told(0), told(30))] == [[Range("t", 0, 0, 30)]]
    assert reader.latestOffset() == told(60)


def test_start_stays_the_same_while_the_log_moves(reader):
    reader.latestOffset()
    reader.log.held["t", 0] = (50, 200)
    assert reader.initialOffset() == told(0)


def test_resumed_query_tells_where_it_stands(reader):
    assert reader.partitions(told(60), told(60)) == []
    assert reader.latestOffset() == told(90)
    reader.partitions(told(60), told(90))
    assert reader.latestOffset() == told(100)


def test_travels(reader):
    del reader.log
    assert pickle.loads(cloudpickle.dumps(reader)).partitions.__func__ is stream.UnlimitedStreamReader.partitions
