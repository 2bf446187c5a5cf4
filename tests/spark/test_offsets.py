"""Offsets without a broker: their JSON and the ranges of a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.shared.offsets import from_json, to_json
from ottla.spark.shared.ranges import Range, ranges

partitions = st.tuples(st.sampled_from(["a", "b", "c.d"]), st.integers(0, 20))
offsets = st.dictionaries(partitions, st.integers(0, 2**62), max_size=12)


def test_json_is_that_of_sparks_kafka_source():
    told = to_json({("b", 10): 1, ("b", 9): 2, ("a", 0): 123})
    assert told == {"a": {"0": 123}, "b": {"9": 2, "10": 1}}
    assert [list(parts) for parts in told.values()] == [["0"], ["9", "10"]], "numeric order, not that of text"


@given(offsets)
def test_json_round_trip(known):
    assert from_json(to_json(known)) == known


def fail(what):
    raise AssertionError(what)


def test_ranges_leave_out_what_is_empty():
    planned = ranges({("t", 0): 5, ("t", 1): 8}, {("t", 0): 5, ("t", 1): 9}, {}, fail)
    assert planned == [Range("t", 1, 8, 9)]
    assert ranges({("t", 0): 5}, {("t", 0): 5}, {}, fail) == []


def test_new_partition_starts_at_its_earliest_offset():
    assert ranges({("t", 0): 5}, {("t", 0): 5, ("t", 1): 3}, {("t", 1): 0}, fail) == [Range("t", 1, 0, 3)]


@pytest.mark.parametrize(
    ("start", "end", "earliest", "why", "left"),
    [
        ({("t", 0): 5, ("u", 3): 1}, {("t", 0): 6}, {}, "u-3", [Range("t", 0, 5, 6)]),
        ({("t", 0): 5}, {("t", 0): 5, ("t", 1): 9}, {("t", 1): 4}, "t-1 begins at offset 4", [Range("t", 1, 4, 9)]),
        ({("t", 0): 5}, {("t", 0): 2}, {}, "t-0 ends at offset 2, before offset 5", []),
    ],
)
def test_ranges_report_what_is_gone(start, end, earliest, why, left):
    told = []
    assert ranges(start, end, earliest, told.append) == left
    assert len(told) == 1
    assert why in told[0]
