"""What Spark's filters leave of a batch, without Spark."""

from datetime import UTC, datetime, timedelta

import pytest

from ottla.spark.plan.filters import Filter, Narrowing
from ottla.spark.shared.ranges import Range

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
MILLIS = int(NOON.timestamp() * 1000)


def after(*filters):
    """What is left, and which of the filters are done with."""
    left, done = Narrowing(), []
    for one in filters:
        left, this = left.after(one)
        done.append(this)
    return left, done


@pytest.mark.parametrize(
    ("test", "value", "negated", "taken"),
    [
        ("EqualTo", 2, False, [2]),
        ("EqualTo", 2, True, [0, 1, 3, 4]),
        ("In", (0, 3), False, [0, 3]),
        ("In", (0, 3), True, [1, 2, 4]),
        ("GreaterThan", 2, False, [3, 4]),
        ("GreaterThanOrEqual", 2, False, [2, 3, 4]),
        ("LessThan", 2, False, [0, 1]),
        ("LessThanOrEqual", 2, True, [3, 4]),
    ],
)
def test_partitions_are_left_out(test, value, negated, taken):
    left, done = after(Filter("partition", test, value, negated))
    assert [p for p in range(5) if left.takes(("t", p))] == taken
    assert done == [True]


@pytest.mark.parametrize(
    ("test", "value", "taken"),
    [
        ("EqualTo", "orders", ["orders"]),
        ("In", ("orders", "payments"), ["orders", "payments"]),
        ("StringStartsWith", "or", ["orders"]),
        ("StringEndsWith", "ments", ["payments"]),
        ("StringContains", "r", ["orders", "returns"]),
    ],
)
def test_topics_are_left_out(test, value, taken):
    left, done = after(Filter("topic", test, value))
    assert [t for t in ("orders", "payments", "returns") if left.takes((t, 0))] == taken
    assert done == [True]


@pytest.mark.parametrize(
    ("test", "value", "negated", "start", "end"),
    [
        ("EqualTo", 15, False, 15, 16),
        ("GreaterThan", 15, False, 16, 20),
        ("GreaterThanOrEqual", 15, False, 15, 20),
        ("LessThan", 15, False, 10, 15),
        ("LessThanOrEqual", 15, False, 10, 16),
        ("GreaterThan", 15, True, 10, 16),
        ("LessThan", 15, True, 15, 20),
        ("In", (13, 14), False, 13, 15),
        ("LessThan", 5, False, 10, 5),
    ],
)
def test_ranges_are_cut(test, value, negated, start, end):
    left, done = after(Filter("offset", test, value, negated))
    assert left.clip(Range("t", 0, 10, 20)) == Range("t", 0, start, end)
    assert done == [True]


def test_several_filters_hold_together():
    left, done = after(
        Filter("offset", "GreaterThan", 3), Filter("offset", "LessThan", 9), Filter("topic", "EqualTo", "t")
    )
    assert left.clip(Range("t", 0, 0, 20)) == Range("t", 0, 4, 9)
    assert not left.takes(("u", 0))
    assert done == [True, True, True]


def test_offsets_with_gaps_between_are_left_to_spark():
    left, done = after(Filter("offset", "In", (3, 7)))
    assert left.clip(Range("t", 0, 0, 20)) == Range("t", 0, 3, 8)
    assert done == [False]


@pytest.mark.parametrize(
    ("given", "since"),
    [
        (Filter("timestamp", "GreaterThanOrEqual", NOON), MILLIS),
        (Filter("timestamp", "GreaterThan", NOON), MILLIS),
        (Filter("timestamp", "GreaterThanOrEqual", NOON + timedelta(microseconds=1)), MILLIS + 1),
        (Filter("timestamp", "EqualTo", NOON), MILLIS),
        (Filter("timestamp", "In", (NOON + timedelta(hours=1), NOON)), MILLIS),
        (Filter("timestamp", "LessThan", NOON, negated=True), MILLIS),
        (Filter("timestamp", "LessThan", NOON), None),
        (Filter("timestamp", "GreaterThan", NOON, negated=True), None),
        (Filter("timestamp", "In", (NOON,), negated=True), None),
        (Filter("timestamp", "GreaterThan", datetime(1970, 1, 1, tzinfo=UTC)), None),
    ],
)
def test_only_a_lower_bound_of_time_cuts_and_spark_tests_each_row(given, since):
    left, done = after(given)
    assert left.since == since
    assert done == [False]


@pytest.mark.parametrize(
    "given",
    [
        Filter("topic", "GreaterThan", "a"),
        Filter("topic", "EqualNullSafe", None),
        Filter("topic", "In", ("t", None), negated=True),
        Filter("offset", "In", (1, 2), negated=True),
        Filter("offset", "EqualTo", 3, negated=True),
        Filter("offset", "IsNull"),
        Filter("value", "EqualTo", b"x"),
        Filter("key", "IsNotNull"),
        Filter("offset", "IsNotNull", negated=True),
    ],
)
def test_the_rest_is_left_to_spark(given):
    assert after(given) == (Narrowing(), [False])


def test_columns_that_are_never_null():
    assert after(*(Filter(c, "IsNotNull") for c in ("topic", "partition", "offset", "timestamp"))) == (
        Narrowing(),
        [True] * 4,
    )
