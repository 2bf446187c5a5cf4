"""Calls `on_metrics` of clients for threads, on a thread of Python's.

Threads of the Rust runtime never run Python code. One thread serves all clients of the process; it starts with the
first client that has an `on_metrics`. A close makes the last call itself, so that the totals of a short-lived client
are reported.
"""

from __future__ import annotations

import heapq
import threading
import time
import weakref
from itertools import count
from typing import TYPE_CHECKING

from ottla._background import PerProcess
from ottla._callbacks import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla._metrics import Measured, Metrics

# Seconds that a close waits at most for a call that is under way, perhaps in a callback that never returns.
PATIENCE = 5.0


class Report:
    """The calls of one `on_metrics`. Its client keeps it, and it does not keep the client.

    Nothing else keeps it either: a callback may refer to its client, which would never be collected.
    """

    def __init__(self, core: Measured, callback: Callable[[Metrics], object]) -> None:
        self._core = weakref.ref(core)
        self._callback = callback
        self.interval = core.metrics_interval()
        self._ended = False
        # A callback may close its client.
        self._calling = threading.RLock()

    def call_back(self) -> bool:
        """Call back.

        Returns whether there will be another call.
        """
        with self._calling:
            core = self._core()
            if core is None or self._ended:
                return False
            call(core.metrics(even_closed=True), self._callback, but=())
            return not self._ended

    def end(self, timeout: float) -> None:
        """Call back for the last time, on this thread, unless a call under way takes longer than `timeout`."""
        if not self._calling.acquire(timeout=timeout):
            return
        try:
            core = self._core()
            if core is not None and not self._ended:
                self._ended = True
                call(core.metrics(even_closed=True), self._callback)
        finally:
            self._calling.release()


class _Reporter:
    def __init__(self) -> None:
        self._numbers = count()
        self._due: list[tuple[float, int, weakref.ref[Report]]] = []
        self._reports: weakref.WeakKeyDictionary[Measured, weakref.ref[Report]] = weakref.WeakKeyDictionary()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="ottla-metrics", daemon=True).start()

    def start(self, core: Measured, report: Report) -> None:
        with self._changed:
            self._reports[core] = weakref.ref(report)
        self._add(report)

    def finish(self, core: Measured) -> Report | None:
        with self._changed:
            kept = self._reports.pop(core, None)
        return None if kept is None else kept()

    def _add(self, report: Report) -> None:
        with self._changed:
            due = time.monotonic() + report.interval
            heapq.heappush(self._due, (due, next(self._numbers), weakref.ref(report)))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            self._call_back(self._next())

    def _call_back(self, due: weakref.ref[Report]) -> None:
        report = due()
        if report is not None and report.call_back():
            self._add(report)

    def _next(self) -> weakref.ref[Report]:
        with self._changed:
            while not self._due or self._due[0][0] > time.monotonic():
                self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
            return heapq.heappop(self._due)[2]


_reporter = PerProcess(_Reporter)


def start(core: Measured, callback: Callable[[Metrics], object] | None) -> Report | None:
    """Call `callback`, if there is one, with the metrics of a client every `metrics.interval.ms`, until `finish`.

    Returns:
        What the client has to keep as long as it wants the calls.
    """
    if callback is None:
        return None
    report = Report(core, callback)
    _reporter.get().start(core, report)
    return report


def finish(core: Measured, timeout: float | None = None) -> None:
    """Call back for the last time: the client is closed.

    Args:
        core: The client's core.
        timeout: Seconds to wait at most for a call that is under way; at most 5.
    """
    if _reporter.made is not None and (report := _reporter.made.finish(core)) is not None:
        report.end(PATIENCE if timeout is None else min(timeout, PATIENCE))
