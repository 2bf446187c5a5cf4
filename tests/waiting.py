"""Waits of tests for brokers and other programs, whose pace is not ours."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 40.0
REST = 0.05


class NotInTimeError(AssertionError):
    """Another program did not do something before a test's deadline. A test of the real ring may then run again.

    Records that did not come are no such case: they may be lost.
    """


def wait_until(happened: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for what a cluster does soon after the controller has responded: a broker learns of it a little later."""
    end = time.monotonic() + seconds
    while not happened():
        check_time(end, f"not within {seconds:g} s: {what}")
        time.sleep(REST)


def wait_for_ours(happened: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for records that our clients read, and for partitions that they get. Without them, the test has failed for good."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(REST)


def check_time(end: float, what: object) -> None:
    """Fail if `end`, of `time.monotonic`, has passed."""
    if time.monotonic() >= end:
        raise NotInTimeError(what)


def wait_for_end(query: Any, seconds: float = 90) -> None:
    """Wait for the end of a streaming query of Spark."""
    if not query.awaitTermination(seconds):
        raise NotInTimeError(f"the query did not end within {seconds:g} s")
