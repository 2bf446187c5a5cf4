"""Calls `on_metrics` of clients for asyncio, on their loop."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from typing import TYPE_CHECKING, Any

from ottla._callbacks import call
from ottla._reporting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla._metrics import Measured, Metrics


class Reports:
    """The calls of one client's `on_metrics`, from the moment at which a loop runs until the client is closed."""

    __slots__ = ("__weakref__", "_callback", "_core", "_interval", "_tasks", "_timer")

    def __init__(self, core: Measured, callback: Callable[[Metrics], object] | None) -> None:
        self._core = core
        self._callback = callback
        self._interval = core.metrics_interval()
        self._timer: asyncio.TimerHandle | None = None
        # The loop itself holds tasks only weakly.
        self._tasks: set[asyncio.Task[Any]] = set()
        self.start()

    def start(self) -> None:
        """Begin to call back, if a loop runs here and nothing was begun before."""
        if self._callback is None or self._timer is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._timer = loop.call_later(self._interval, _tick, weakref.ref(self), loop)

    def again(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call back, and once more after the interval."""
        if self._callback is not None:
            self._timer = loop.call_later(self._interval, _tick, weakref.ref(self), loop)
            self._report()

    async def finish(self, timeout: float | None) -> None:
        """Call back for the last time: the client is closed.

        Args:
            timeout: Seconds to wait at most for async calls, which go on afterwards; at most 5.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._callback is not None:
            self._report()
            self._callback = None
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=PATIENCE if timeout is None else min(timeout, PATIENCE))

    def _report(self) -> None:
        call(self._core.metrics(even_closed=True), self._call)

    def _call(self, metrics: Metrics) -> None:
        result = self._callback(metrics) if self._callback is not None else None
        if inspect.iscoroutine(result):
            task = asyncio.get_running_loop().create_task(result)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _tick(reports: weakref.ref[Reports], loop: asyncio.AbstractEventLoop) -> None:
    # A timer of the loop must not keep a forgotten client alive.
    found = reports()
    if found is not None:
        found.again(loop)
