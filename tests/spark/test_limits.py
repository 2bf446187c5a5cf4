"""How much a trigger takes, without a broker."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.plan.limits import Patience, limit, records_of, waiting


def test_waiting_counts_what_is_ahead():
    assert waiting({("t", 0): 5, ("t", 1): 9}, {("t", 0): 7, ("t", 1): 9, ("t", 2): 4}) == {("t", 0): 2}


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


def test_bytes_become_records_by_the_size_of_each_partitions_records():
    sizes = {("t", 0): 100, ("t", 1): 50}
    each = {("t", 0): 10.0, ("t", 1): 100.0}  # 1,000 and 5,000 bytes wait
    assert records_of(6000, sizes, each) is None
    assert records_of(3000, sizes, each) == 75
    assert records_of(1, sizes, each) == 1


def test_a_trigger_waits_for_records_until_its_delay_has_passed():
    patience = Patience(100, 60.0)
    assert not patience.waits(1, 1000.0), "the first trigger of a query"
    assert patience.waits(99, 1030.0)
    assert not patience.waits(100, 1031.0)
    assert patience.waits(99, 1090.0), "59 s after the last batch"
    assert not patience.waits(1, 1091.0)


def test_without_a_minimum_no_trigger_waits():
    patience = Patience(None, 60.0)
    assert not any(patience.waits(0, now) for now in (0.0, 1.0))
