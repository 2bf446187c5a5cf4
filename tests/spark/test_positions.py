"""Beginnings and ends as users say them."""

import pytest

from ottla.spark.plan.positions import (
    EARLIEST,
    LATEST,
    Position,
    check_order,
    parse_assigned,
    parse_end,
    parse_start,
)


def test_words_in_any_case():
    assert parse_start({"startingoffsets": " Earliest "}) == Position("startingOffsets", EARLIEST)
    assert parse_end({"endingoffsets": "LATEST"}) == Position("endingOffsets", LATEST)
    assert parse_start({}) is None


def test_offsets_take_latest_and_earliest():
    position = parse_start({"startingoffsets": '{"t": {"0": 23, "1": -1, "2": -2}}'})
    assert position == Position("startingOffsets", {("t", 0): 23, ("t", 1): -1, ("t", 2): -2})


def test_times_win_and_what_loses_is_not_read():
    given = {
        "startingoffsets": "nonsense",
        "startingoffsetsbytimestamp": '{"t": {"0": 5}}',
        "startingtimestamp": " 7 ",
        "endingoffsets": "nonsense",
        "endingoffsetsbytimestamp": '{"t": {"0": 9}}',
    }
    assert parse_start(given) == Position("startingTimestamp", 7, timed=True)
    assert parse_end(given) == Position("endingOffsetsByTimestamp", {("t", 0): 9}, timed=True)
    del given["startingtimestamp"]
    assert parse_start(given) == Position("startingOffsetsByTimestamp", {("t", 0): 5}, timed=True)


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
        ('{"t": {"0": "3"}}', "has '3', which is neither an offset nor -1 (latest) nor -2 (earliest)"),
        ('{"t": {"0": true}}', "has True"),
        ('{"t": {"0": -3}}', "has -3"),
        ('{"t": {"0": 1.5}}', "has 1.5"),
    ],
)
def test_offsets_say_what_is_wrong(text, why):
    with pytest.raises(ValueError, match="option startingOffsets must be") as raised:
        parse_start({"startingoffsets": text})
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"startingtimestamp": "-1"},
            "option startingTimestamp must be a time in milliseconds since 1970 UTC, not '-1'",
        ),
        ({"startingtimestamp": "2024-01-01"}, "not '2024-01-01'"),
        ({"startingoffsetsbytimestamp": '{"t": {"0": -1}}'}, "has -1, which is not a time"),
        ({"startingoffsetsbytimestamp": "latest"}, "option startingOffsetsByTimestamp must be JSON"),
    ],
)
def test_times_say_what_is_wrong(given, why):
    with pytest.raises(ValueError, match="option starting") as raised:
        parse_start(given)
    assert why in str(raised.value)


def test_assigned_partitions_are_sorted_and_once():
    assert parse_assigned('{"u": [1, 0, 1], "t": [2]}') == (("t", 2), ("u", 0), ("u", 1))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("t", "not JSON"),
        ('{"t": 0}', "for topic 't' it holds 0"),
        ('{"t": []}', "it holds []"),
        ('{"t": ["0"]}', "no partition named '0'"),
        ('{"t": [-1]}', "no partition named -1"),
        ('{"t": [true]}', "no partition named True"),
    ],
)
def test_assigned_partitions_say_what_is_wrong(text, why):
    with pytest.raises(ValueError, match="option assign must be JSON") as raised:
        parse_assigned(text)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        ({("t", 0): 5}, {("t", 1): 9}, "must name the same partitions, and only one names t-0, t-1"),
        ({("t", 0): 5}, {("t", 0): 4}, "option e ends t-0 at 4, before 5, where s begins"),
    ],
)
@pytest.mark.parametrize("timed", [True, False])
def test_an_end_before_the_beginning(start, end, why, timed):
    with pytest.raises(ValueError) as raised:
        check_order(Position("s", start, timed), Position("e", end, timed))
    assert why in str(raised.value)


def test_words_and_different_kinds_are_compared_when_they_are_resolved():
    check_order(Position("s", {("t", 0): 5}), Position("e", {("t", 0): LATEST}))
    check_order(Position("s", {("t", 0): 5}), Position("e", {("t", 0): 1}, timed=True))
    check_order(Position("s", EARLIEST), Position("e", {("t", 0): 1}))
    check_order(None, Position("e", {("t", 0): 1}))
