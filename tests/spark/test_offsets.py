"""Offsets without a broker: their JSON, a trigger's limit, the ranges of a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.offsets import Range, from_json, limit, parse, ranges, to_json

partitions = st.tuples(st.sampled_from(["a", "b", "c.d"]), st.integers(0, 20))
offsets = st.dictionaries(partitions, st.integers(0, 2**62), max_size=12)


def test_json_is_that_of_sparks_kafka_source():
    told = to_json({("b", 10): 1, ("b", 9): 2, ("a", 0): 123})
    assert told == {"a": {"0": 123}, "b": {"9": 2, "10": 1}}
    assert [list(parts) for parts in told.values()] == [["0"], ["9", "10"]], "numeric order, not that of text"


@given(offsets)
def test_json_round_trip(known):
    assert from_json(to_json(known)) == known


def test_parse_takes_latest_and_earliest():
    assert parse("startingOffsets", '{"t": {"0": 23, "1": -1, "2": -2}}') == {("t", 0): 23, ("t", 1): -1, ("t", 2): -2}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("erliest", "not JSON"),
        ("[1]", "got '[1]'"),
        ("{}", "got '{}'"),
        ('{"t": 3}', "topic 't' it holds 3"),
        ('{"t": {}}', "topic 't' it holds {}"),
        ('{"t": {"x": 3}}', "no partition named 'x'"),
        ('{"t": {"-1": 3}}', "no partition named '-1'"),
        ('{"t": {"0": "3"}}', "has offset '3'"),
        ('{"t": {"0": true}}', "has offset True"),
        ('{"t": {"0": -3}}', "has offset -3"),
        ('{"t": {"0": 1.5}}', "has offset 1.5"),
    ],
)
def test_parse_says_what_is_wrong(text, why):
    with pytest.raises(ValueError, match="startingOffsets must be") as raised:
        parse("startingOffsets", text)
    assert why in str(raised.value)


def test_limit_is_shared_by_what_waits():
    start = {("t", 0): 0, ("t", 1): 100, ("t", 2): 7}
    end = {("t", 0): 900, ("t", 1): 200, ("t", 2): 7}
    assert limit(100, start, end) == {("t", 0): 90, ("t", 1): 110, ("t", 2): 7}


def test_limit_starves_no_partition():
    assert limit(10, {("t", 0): 0, ("t", 1): 0}, {("t", 0): 100_000, ("t", 1): 1}) == {("t", 0): 9, ("t", 1): 1}


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), min_size=1, max_size=8),
)
def test_limit_holds_and_progresses(most, spans):
    start = {("t", i): at for i, (at, _) in enumerate(spans)}
    end = {("t", i): at + size for i, (at, size) in enumerate(spans)}
    limited = limit(most, start, end)
    moved = [limited[p] - start[p] for p in start]
    waiting = [end[p] - start[p] for p in start]
    assert all(0 <= m <= w for m, w in zip(moved, waiting, strict=True))
    assert all(m > 0 for m, w in zip(moved, waiting, strict=True) if w)
    assert sum(moved) <= max(most, len(spans)) + len(spans)
    if sum(waiting) <= most:
        assert limited == end


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
