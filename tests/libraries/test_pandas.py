"""Topics as pandas' DataFrames, and back."""

from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd
import pytest

import ottla
from ottla.integrations.pandas import read_topic, write_topic
from tests.libraries.topics import COMMITTED, HUNDRED, is_quick, quickest


@pytest.mark.parametrize("arrow", [True, False])
def test_read(address, numbers, arrow):
    frame = read_topic(address, numbers, columns=["value", "partition", "timestamp"], arrow=arrow)
    assert sorted(frame["value"]) == [b"%d" % number for number in range(10)]
    assert isinstance(frame["partition"].dtype, pd.ArrowDtype) is arrow
    assert list(frame.columns) == ["value", "partition", "timestamp"]
    assert frame["timestamp"].min() == datetime.fromtimestamp(1_700_000_000, tz=UTC)


def test_bounds(address, numbers):
    assert list(read_topic(address, numbers, offsets={1: range(2)})["value"]) == [b"1", b"3"]
    assert len(read_topic(address, numbers, last=3)) == 3


def test_chunks(address, numbers):
    frames = list(read_topic(address, numbers, chunksize=3, offsets={0: range(10)}))
    assert [len(frame) for frame in frames] == [3, 2]
    assert list(pd.concat(frames)["value"]) == [b"0", b"2", b"4", b"6", b"8"]


def test_write(address, topic):
    frame = pd.DataFrame({"key": ["a", "b", None], "value": [b"1", None, b"3"], "partition": [0, 1, 1]})
    assert write_topic(frame, address, topic, timeout=20) == 3
    batch = ottla.read(address, topic)
    assert [(r.key, r.value, r.partition) for r in batch] == [(b"a", b"1", 0), (b"b", None, 1), (None, b"3", 1)]
    copied = read_topic(address, topic)
    assert write_topic(copied, address, timeout=20) == 3
    assert len(ottla.read(address, topic)) == 6


def test_a_row_that_cannot_be_sent(address, topic):
    with pytest.raises(ottla.errors.ArgumentError, match="colour"):
        write_topic(pd.DataFrame({"value": [b"1"], "colour": [b"red"]}), address, topic)


def test_a_hundred_records(address, hundred):
    found, seconds = quickest(lambda: read_topic(address, hundred, **COMMITTED))
    assert sorted(found["value"]) == HUNDRED
    assert is_quick(seconds)
