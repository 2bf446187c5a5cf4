"""Where reads begin and end, over a log that is a dictionary."""

import pickle

import pytest

from ottla.spark.offsets import Range
from ottla.spark.options import ReadOptions
from ottla.spark.planner import DataLossError, DataLossWarning, Planner


class DictLog:
    """Partitions with the first offset they hold and the one after the last."""

    def __init__(self, held):
        self.held = held

    def partitions(self, topics):
        return sorted(p for p in self.held if p[0] in topics)

    def earliest(self, partitions):
        return {p: self.held[p][0] for p in partitions}

    def latest(self, partitions):
        return {p: self.held[p][1] for p in partitions}


@pytest.fixture
def log():
    return DictLog({("t", 0): (10, 50), ("t", 1): (0, 5), ("other", 0): (0, 9)})


def planner(log, **options):
    return Planner(ReadOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}), log)


def test_batch_reads_all_that_is_there(log):
    assert planner(log).batch() == [Range("t", 0, 10, 50), Range("t", 1, 0, 5)]


def test_batch_between_named_offsets(log):
    plan = planner(log, startingOffsets='{"t":{"0":20,"1":-2}}', endingOffsets='{"t":{"0":-1,"1":3}}')
    assert plan.batch() == [Range("t", 0, 20, 50), Range("t", 1, 0, 3)]


def test_stream_begins_at_the_latest_offset_unless_told(log):
    assert planner(log).initial() == {("t", 0): 50, ("t", 1): 5}
    assert planner(log, startingOffsets="earliest").initial() == {("t", 0): 10, ("t", 1): 0}
    assert planner(log, startingOffsets='{"t":{"0":-1,"1":-2}}').initial() == {("t", 0): 50, ("t", 1): 0}


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"t":{"0":20}}', "leaves out t-1"), ('{"t":{"0":20,"1":0,"2":0}}', "names what is not there, t-2")],
)
def test_every_partition_must_be_named(log, text, why):
    with pytest.raises(ValueError, match=why):
        planner(log, startingOffsets=text).initial()


@pytest.mark.parametrize(("offset", "instead"), [(3, 10), (51, 50)])
def test_named_offset_that_is_not_held(log, offset, instead):
    text = f'{{"t":{{"0":{offset},"1":0}}}}'
    with pytest.raises(DataLossError, match=f"offset {offset} of t-0, which holds 10 to 50.*failOnDataLoss"):
        planner(log, startingOffsets=text).initial()
    with pytest.warns(DataLossWarning, match="t-0"):
        assert planner(log, startingOffsets=text, failOnDataLoss="false").initial()["t", 0] == instead


def test_limit_counts_a_new_partition_from_its_earliest_offset(log):
    plan = planner(log)
    assert plan.limited(10, {("t", 1): 0}, plan.latest()) == {("t", 0): 18, ("t", 1): 1}


def test_new_partition_is_read_from_its_start(log):
    log.held["t", 2] = (0, 4)
    plan = planner(log)
    assert plan.ranges({("t", 0): 50, ("t", 1): 5}, plan.latest()) == [Range("t", 2, 0, 4)]


def test_data_loss_error_travels(log):
    error = DataLossError("gone")
    assert str(pickle.loads(pickle.dumps(error))) == "gone"
