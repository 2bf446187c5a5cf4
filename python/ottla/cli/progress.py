"""The progress of a long command, for a person at a terminal."""

from __future__ import annotations

import sys
import time

from ottla._progress import PAUSE, bar


class Progress:
    """A bar on standard error. It is drawn only in a terminal, and only if the output itself goes elsewhere.

    Args:
        size: How many bytes there are; None if that is not known, and there is no bar then.
        on_terminal: Whether the bar is drawn, too, if the output goes to a terminal: a command that prints nothing.
    """

    def __init__(self, size: int | None, *, on_terminal: bool = False) -> None:
        is_free = on_terminal or not sys.stdout.isatty()
        self._size = size if size and sys.stderr.isatty() and is_free else None
        self._start = self._next = time.monotonic() + PAUSE
        self._drawn = False

    def at(self, position: int) -> None:
        """Draw the bar, if it is time to."""
        if self._size is None or (now := time.monotonic()) < self._next:
            return
        self._next = now + PAUSE
        done = min(position / self._size, 1.0)
        left = (now - self._start) * (1 - done) / done if done else 0
        sys.stderr.write(f"\r{bar(done, f'{position / 2**20:,.0f} MiB', left)} ")
        sys.stderr.flush()
        self._drawn = True

    def clear(self) -> None:
        """Take the bar away, so that a line can stand in its place."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False
