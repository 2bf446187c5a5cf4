"""The bench of rebalances knows when a group has settled, and when it has not."""

import importlib.util
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "benches" / "python" / "rebalance.py"
PARTITIONS = 4
# Member 0 owned and had read everything.
BEFORE = [(1, 0, "joins"), (2, 0, "assigned", {0, 1, 2, 3}), (3, 0, "read", {0, 1, 2, 3})]
JOINS, REVOKED, ASSIGNED = (100, 1, "joins"), (110, 0, "revoked", {2, 3}), (120, 1, "assigned", {2, 3})
READ = [(130, 1, "read", {2}), (140, 1, "read", {3})]


class Clock:
    """The clock of the bench, on which only sleeping takes time."""

    time_ns = staticmethod(time.time_ns)

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def rebalance(monkeypatch):
    """The module of the bench, with a scripted clock."""
    spec = importlib.util.spec_from_file_location("bench_rebalance", SOURCE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "time", Clock())
    return module


class Script:
    """Members that report what is written here, at each call the next part of it."""

    def __init__(self):
        self.parts = []

    def say(self, module, *parts):
        self.parts = [[module.Report(*report) for report in part] for part in parts]

    def reports(self):
        return self.parts.pop(0) if self.parts else []


def seconds(module, *parts):
    """How long the second member took to join, by these reports."""
    members = Script()
    group = module.Group(members, PARTITIONS)
    members.say(module, BEFORE)
    group.settled(range(1), "joins")
    members.say(module, *parts)
    return group.settled(range(2), "joins")


def test_a_rebalance_lasts_until_each_new_owner_has_read(rebalance):
    assert seconds(rebalance, [JOINS, REVOKED], [ASSIGNED, *READ]) == pytest.approx(40e-9)


def test_an_end_that_others_knew_of_later_is_the_later_one(rebalance):
    late = (150, 0, "revoked", {2, 3})
    assert seconds(rebalance, [JOINS, ASSIGNED, *READ], [late]) == pytest.approx(50e-9)


def test_what_looked_like_the_end_does_not_count(rebalance):
    again = [(200, 0, "revoked", {0, 1}), (210, 0, "assigned", {0, 1}), (220, 0, "read", {0, 1})]
    assert seconds(rebalance, [JOINS, REVOKED, ASSIGNED, *READ], [], again) == pytest.approx(120e-9)


@pytest.mark.parametrize(
    "reports",
    [
        [JOINS, ASSIGNED, *READ],
        [JOINS, REVOKED, ASSIGNED, READ[0]],
        [JOINS, REVOKED, (120, 1, "assigned", {2}), READ[0]],
        [JOINS, (110, 0, "revoked", {1, 2, 3}), (120, 1, "assigned", {1, 2, 3}), (130, 1, "read", {1, 2, 3})],
        [JOINS, REVOKED, ASSIGNED, *READ, (150, 1, "assigned", {3})],
    ],
    ids=["two owners", "nothing read", "no owner", "uneven", "assigned anew and not read"],
)
def test_no_other_group_has_settled(rebalance, reports):
    with pytest.raises(RuntimeError, match="no settled group"):
        seconds(rebalance, reports)


def test_a_member_that_fails_ends_the_measurement(rebalance):
    with pytest.raises(RuntimeError, match="member 1 failed: it broke"):
        seconds(rebalance, [JOINS, (110, 1, "failed", frozenset(), "it broke")])


def test_lines_of_a_program_are_reports_or_errors_of_its_client(rebalance):
    assert rebalance._report("12 3 assigned 4,5") == rebalance.Report(12, 3, "assigned", frozenset({4, 5}))
    assert rebalance._report("12 3 joins ") == rebalance.Report(12, 3, "joins")
    assert rebalance._report("12 3 failed a text").text == "a text"
    assert rebalance._report("[main] ERROR a text").what == "failed"
