"""Ray Data, Daft and dlt read and write topics, in environments of their own."""

from __future__ import annotations

import pytest

import ottla
from ottla.integrations.ranges import pieces_of, ranges_of
from tests.libraries.environments import report
from tests.libraries.topics import START, fill, is_quick


@pytest.fixture
def topics(address, numbers):
    """The topic of ten numbers, an empty one, and two of a hundred records: plain and in transactions."""
    names = [f"{numbers}-{kind}" for kind in ("target", "plain", "transactional")]
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=2) for name in names])
    for name in names[1:]:
        fill(address, name, transactional="transactional" in name)
    return [numbers, *names]


# Ray takes minutes on two cores.
@pytest.mark.nightly
def test_ray(address, topics):
    found = report("ray", "with_ray.py", address, *topics, timeout=280)
    assert set(found) == set(topics[2:])
    # Ray itself takes longer to start a task.
    assert all(is_quick(each["tasks"]) for each in found.values()), found


@pytest.mark.real
def test_daft(address, topics):
    found = report("daft", "with_daft.py", address, *topics)
    assert set(found) == set(topics[2:])
    assert all(is_quick(each["whole"]) for each in found.values()), found


def test_ranges(address, numbers):
    assert ranges_of(address, numbers) == {0: range(5), 1: range(5)}
    assert ranges_of(address, numbers, since=START + 4000, until=START + 7000) == {0: range(2, 4), 1: range(2, 3)}
    assert ranges_of(address, numbers, offsets={1: range(1, 3)}) == {1: range(1, 3)}
    assert ranges_of(address, numbers, offsets=range(3, 100)) == {0: range(3, 5), 1: range(3, 5)}
    assert ranges_of(address, numbers, offsets={}) == {}
    with pytest.raises(ottla.errors.ArgumentError, match="no partition 5"):
        ranges_of(address, numbers, offsets={5: range(3)})


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    "ranges", [{}, {0: range(5, 5)}, {0: range(10)}, {0: range(3, 10), 1: range(1), 2: range(7, 90)}], ids=str
)
@pytest.mark.parametrize("split", [True, False])
def test_pieces_have_each_offset_once(ranges, count, split):
    pieces = pieces_of(ranges, count, split=split)
    assert len(pieces) <= count
    read = sorted((number, offset) for piece in pieces for number, span in piece.items() for offset in span)
    assert read == [(number, offset) for number, span in sorted(ranges.items()) for offset in span]
    assert all(len(span) for piece in pieces for span in piece.values())
    if not split:
        assert len(pieces) == min(count, sum(map(bool, ranges.values())))
        return
    sizes = [sum(map(len, piece.values())) for piece in pieces]
    assert not sizes or max(sizes[:-1], default=0) == min(sizes[:-1], default=0)


@pytest.mark.real
def test_dlt(address, topics, tmp_path):
    numbers, _, *hundreds = topics
    found = report("dlt", "with_dlt.py", address, numbers, *hundreds, tmp_path)
    assert set(found) == set(hundreds)
    # A whole run also makes files and tables.
    assert all(is_quick(each["resource"]) for each in found.values()), found
