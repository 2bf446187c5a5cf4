"""Ranges for more tasks, as Spark's own Kafka source splits them."""

import random

import pytest

from ottla.spark.offsets import Range
from ottla.spark.splitting import split

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
