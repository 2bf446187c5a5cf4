"""Ranges for more tasks, as Spark's own Kafka source splits them."""

import random

import pytest

from ottla.spark.plan.tasks import join, records_of_tasks, split
from ottla.spark.shared.ranges import Range

from .splits import case, recorded, split_by_spark


def ours(min_parts, max_records, ranges):
    return [list(span[:4]) for span in split([Range(*span) for span in ranges], min_parts, max_records)]


def test_split_is_that_of_spark():
    cases = recorded()
    assert len(cases) == 1000
    assert sum(len(expected) > len(ranges) for _, _, ranges, expected in cases) > 500, "most are divided"
    for min_parts, max_records, ranges, expected in cases:
        assert ours(min_parts, max_records, ranges) == expected, (min_parts, max_records, ranges)


@pytest.mark.needs("java", "mvn")
@pytest.mark.timeout(240)
def test_split_is_that_of_spark_today(spark):
    rng = random.Random()
    for _ in range(25):
        given = case(rng)
        assert ours(*given) == split_by_spark(spark, *given), given


def test_small_ranges_stay_whole():
    spans = [["t", 0, 0, 10], ["t", 1, 0, 1000]]
    assert ours(4, None, spans) == [["t", 0, 0, 10], ["t", 1, 0, 333], ["t", 1, 333, 666], ["t", 1, 666, 1000]]


def test_most_records_of_a_task():
    assert ours(None, 4, [["t", 0, 10, 20]]) == [["t", 0, 10, 13], ["t", 0, 13, 16], ["t", 0, 16, 20]]


def test_without_limits_only_what_is_empty_goes():
    assert ours(None, None, [["t", 0, 5, 5], ["t", 1, 5, 9]]) == [["t", 1, 5, 9]]


def test_most_bytes_of_a_task():
    """Each partition has records of its own size; the lower limit counts, and a record is the least."""
    most = records_of_tasks(1000, {("t", 0): 100.0, ("t", 1): 5000.0, ("t", 2): 0.0})
    assert most == {("t", 0): 10, ("t", 1): 1}
    spans = [Range("t", 0, 0, 25), Range("t", 1, 7, 9), Range("t", 2, 0, 99), Range("t", 3, 0, 4)]
    parts = split(spans, None, None, most)
    assert [part[1:4] for part in parts] == [
        (0, 0, 8),
        (0, 8, 16),
        (0, 16, 25),
        (1, 7, 8),
        (1, 8, 9),
        (2, 0, 99),
        (3, 0, 4),
    ]
    assert [part[1:4] for part in split(spans[:1], None, 5, most)] == [(0, n, n + 5) for n in range(0, 25, 5)]
    assert [part[1:4] for part in split(spans[:1], None, 20, most)] == [(0, 0, 8), (0, 8, 16), (0, 16, 25)]


@pytest.mark.parametrize(
    ("sizes", "least", "tasks"),
    [
        ([3, 2, 5, 1], None, [[3], [2], [5], [1]]),
        ([3, 2, 5, 1], 1, [[3], [2], [5], [1]]),
        ([3, 2, 5, 6], 5, [[3, 2], [5], [6]]),
        ([3, 2, 5, 1], 5, [[3, 2], [5, 1]]),
        ([3, 2, 5, 1], 4, [[3, 2], [5, 1]]),
        ([3, 2], 9, [[3, 2]]),
        ([7], 9, [[7]]),
        ([], 9, []),
    ],
)
def test_neighbours_share_a_task(sizes, least, tasks):
    spans = [Range("t", partition, 10, 10 + size) for partition, size in enumerate(sizes)]
    joined = join(spans, least)
    assert [[span.end - span.start for span in task] for task in joined] == tasks
    assert [span for task in joined for span in task] == spans
