"""Where reads begin and end, over a log that is a dictionary."""

import pickle

import pytest

from ottla.spark.plan.filters import Filter, Narrowing
from ottla.spark.plan.planner import DataLossError, DataLossWarning, Planner
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.shared.ranges import Range, Seen


class DictLog:
    """Partitions with the first offset they hold and the one after the last."""

    def __init__(self, held):
        self.held = held
        self.asked = 0
        self.commits, self.ids = {}, {}

    def partitions(self, topics):
        return sorted(p for p in self.held if p[0] in topics.names)

    def earliest(self, partitions):
        return {p: self.held[p][0] for p in partitions}

    def latest(self, partitions):
        self.asked += 1
        return {p: self.held[p][1] for p in partitions}

    def at_times(self, times):
        """As if each record stood at ten times its offset."""
        found = {p: max(-(-time // 10), self.held[p][0]) for p, time in times.items()}
        return {p: offset if offset < self.held[p][1] else None for p, offset in found.items()}

    def record_bytes(self, starts, ends):
        return dict.fromkeys(starts, 100.0)

    def committed(self, group, partitions):
        return {p: offset for p, offset in self.commits.get(group, {}).items() if p in partitions}

    def last_seen(self, spans):
        """As if leader 3 had written all."""
        return {(span.topic, span.partition): Seen(span.end, 3) for span in spans}


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
    plan = planner(log, maxOffsetsPerTrigger="10")
    assert plan.limited({("t", 1): 0}, plan.latest({})) == {("t", 0): 18, ("t", 1): 1}


def test_new_partition_is_read_from_its_start(log):
    log.held["t", 2] = (0, 4)
    plan = planner(log)
    assert plan.ranges({("t", 0): 50, ("t", 1): 5}, plan.latest({})) == [Range("t", 2, 0, 4)]


def test_data_loss_error_travels(log):
    error = DataLossError("gone")
    assert str(pickle.loads(pickle.dumps(error))) == "gone"


def test_times_for_all_partitions_and_for_each(log):
    by_partition = '{"t":{"0":200,"1":11}}'
    assert planner(log, startingOffsetsByTimestamp=by_partition).initial() == {("t", 0): 20, ("t", 1): 2}
    assert planner(log, startingTimestamp="31").initial() == {("t", 0): 10, ("t", 1): 4}


def test_a_time_without_a_record(log):
    with pytest.raises(
        ValueError,
        match=r"option startingTimestamp: t-1 has no record at or after 300 \(1970-01-01T00:00:00.300\+00:00\); set startingOffsetsByTimestampStrategy to latest",
    ):
        planner(log, startingTimestamp="300").batch()
    late = planner(log, startingTimestamp="300", startingOffsetsByTimestampStrategy="latest")
    assert late.initial() == {("t", 0): 30, ("t", 1): 5}
    assert late.batch() == [Range("t", 0, 30, 50)]


def test_an_end_without_a_record_after_it_is_the_latest(log):
    assert planner(log, endingTimestamp="300").batch() == [Range("t", 0, 10, 30), Range("t", 1, 0, 5)]


def test_a_batch_that_ends_before_it_begins(log):
    plan = planner(log, startingOffsets='{"t":{"0":40,"1":0}}', endingTimestamp="300")
    why = (
        r"t-0 ends at offset 30 \(option endingTimestamp\), before offset 40 where it begins \(option startingOffsets\)"
    )
    with pytest.raises(ValueError, match=why):
        plan.batch()


def test_a_time_far_away_is_named(log):
    with pytest.raises(ValueError, match="at or after 99999999999999999;"):
        planner(log, startingTimestamp="99999999999999999").batch()


@pytest.mark.parametrize(("attempts", "asked"), [("1", 1), ("4", 4)])
def test_a_broker_that_lags_behind_is_asked_again(log, attempts, asked):
    plan = planner(log, **{"fetchOffset.numRetries": attempts, "fetchOffset.retryIntervalMs": "0"})
    assert plan.latest({("t", 0): 60, ("t", 1): 5}) == {("t", 0): 50, ("t", 1): 5}
    assert log.asked == asked


def test_a_limit_of_bytes(log):
    assert planner(log, maxBytesPerTrigger="900").limited({("t", 0): 10, ("t", 1): 0}, {("t", 0): 50, ("t", 1): 5}) == {
        ("t", 0): 18,
        ("t", 1): 1,
    }
    fewer = planner(log, maxBytesPerTrigger="900", maxOffsetsPerTrigger="3")
    assert fewer.limited({("t", 0): 10, ("t", 1): 5}, {("t", 0): 50, ("t", 1): 5}) == {("t", 0): 13, ("t", 1): 5}


def test_ranges_are_split(log):
    assert planner(log, minPartitions="4").batch() == [
        Range("t", 0, 10, 23),
        Range("t", 0, 23, 36),
        Range("t", 0, 36, 50),
        Range("t", 1, 0, 5),
    ]
    spans = planner(log, maxRecordsPerPartition="30").ranges({("t", 0): 10, ("t", 1): 4}, {("t", 0): 50, ("t", 1): 5})
    assert spans == [Range("t", 0, 10, 30), Range("t", 0, 30, 50), Range("t", 1, 4, 5)]


def test_ranges_are_split_by_bytes(log):
    """Each record of this log has 100 bytes."""
    assert planner(log, maxBytesPerPartition="2000").batch() == [
        Range("t", 0, 10, 30),
        Range("t", 0, 30, 50),
        Range("t", 1, 0, 5),
    ]
    spans = planner(log, maxBytesPerPartition="300").ranges({("t", 0): 50, ("t", 1): 0}, {("t", 0): 50, ("t", 1): 5})
    assert spans == [Range("t", 1, 0, 2), Range("t", 1, 2, 5)]


def test_filters_narrow_a_batch(log):
    left = Narrowing(filters=(Filter("partition", "EqualTo", 0),), first=12, end=40, since=200)
    assert planner(log).batch(left) == [Range("t", 0, 20, 40)]
    assert planner(log).batch(Narrowing(since=45)) == [Range("t", 0, 10, 50)], "nothing of t-1 is as young"
    assert planner(log).batch(Narrowing(first=30, since=200)) == [Range("t", 0, 30, 50)]
    assert planner(log).batch(Narrowing(first=100)) == []


def test_a_read_begins_where_a_group_stands(log):
    log.commits["g"] = {("t", 0): 20, ("t", 1): 5, ("other", 0): 3}
    assert planner(log, startingOffsets="group:g").batch() == [Range("t", 0, 20, 50)]
    assert planner(log, startingOffsets=" Group: g ").initial() == {("t", 0): 20, ("t", 1): 5}


def test_partitions_without_a_commit_begin_at_the_earliest_offset_unless_told(log):
    log.commits["g"] = {("t", 1): 2}
    assert planner(log, startingOffsets="group:g").initial() == {("t", 0): 10, ("t", 1): 2}
    told = {"startingOffsets": "group:g", "kafka.auto.offset.reset": "latest"}
    assert planner(log, **told).initial() == {("t", 0): 50, ("t", 1): 2}


def test_a_group_that_has_committed_nothing_may_be_misspelt(log):
    with pytest.raises(ValueError, match="group nobody has committed no offset of t-0, t-1. Correct its name, or set"):
        planner(log, startingOffsets="group:nobody").initial()
    told = {"startingOffsets": "group:nobody", "kafka.auto.offset.reset": "earliest"}
    assert planner(log, **told).initial() == {("t", 0): 10, ("t", 1): 0}


def test_a_commit_that_is_gone_is_data_loss(log):
    log.commits["g"] = {("t", 0): 7, ("t", 1): 2}
    with pytest.raises(DataLossError, match="option startingOffsets requests offset 7 of t-0, which holds 10 to 50"):
        planner(log, startingOffsets="group:g").initial()
    with pytest.warns(DataLossWarning):
        assert planner(log, startingOffsets="group:g", failOnDataLoss="false").initial() == {("t", 0): 10, ("t", 1): 2}
