"""How long an iteration that has records left may keep the event loop to itself."""

from __future__ import annotations

import asyncio
import time

# Seconds after which other tasks have their turn. A turn of the loop costs about ten microseconds: half a percent.
_TURN = 0.002
# Records of the first run, before the time that the caller takes for one is known; and of any.
_FIRST = 1
_MOST = 1 << 16


class Pace:
    """Counts records, and not time, which would cost too much to look at for each of them.

    A run is as many records as take about half a turn by the pace of the last run.
    """

    __slots__ = ("_begun", "_run", "_turned")

    def __init__(self) -> None:
        self._run = _FIRST
        self._begun = self._turned = time.monotonic()

    def run(self) -> int:
        """Begin a run, and return how many records it should have."""
        self._begun = time.monotonic()
        return self._run

    async def turn(self, *, full: bool = False) -> None:
        """Give other tasks their turn, if it is time.

        Args:
            full: Whether this ends a run that was as long as it should be.
        """
        now = time.monotonic()
        if full:
            at_pace = self._run * _TURN / 2 / max(now - self._begun, 1e-9)
            self._run = max(1, min(int(at_pace), 2 * self._run, _MOST))
        if now - self._turned >= _TURN:
            await asyncio.sleep(0)
            self._turned = time.monotonic()
