"""The progress of a long read, for a person at a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

WIDTH = 30
# Seconds between two drawings.
PAUSE = 0.1


def bar(share: float, amount: str, seconds: float) -> str:
    """Draw a bar.

    Args:
        share: How much is done, from 0 to 1.
        amount: The same as a text.
        seconds: Seconds that are probably left.
    """
    return f"[{'#' * int(share * WIDTH):<{WIDTH}}] {share:4.0%}, {amount}, {seconds:,.0f} s left"


class _Display(Protocol):
    def draw(self, text: str) -> None: ...

    def close(self, text: str) -> None: ...


class _Terminal:
    """A line of standard error, which is cleared at the end."""

    def draw(self, text: str) -> None:
        sys.stderr.write(f"\r{text} ")
        sys.stderr.flush()

    def close(self, text: str) -> None:  # noqa: ARG002 the line does not stay
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _Cell:
    """An output below the cell of a notebook, which stays."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, text: str) -> None:
        from IPython.display import display

        data = {"text/plain": text}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    close = draw


def _display() -> _Display | None:
    """Where progress can be shown; None if nobody would see it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None:
        return _Cell()
    # A program without a console, such as one started by pythonw.exe, has no standard error.
    return _Terminal() if sys.stderr is not None and sys.stderr.isatty() else None


class RecordProgress:
    """How many records of a known number are read.

    Args:
        total: The number of records.
        shown: Whether to show it. Nothing is drawn during the first tenth of a second.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total = total
        self._display = _display() if shown and total else None
        self._start = self._next = time.monotonic() + PAUSE
        self._drawn = False

    def at(self, done: int) -> None:
        """Draw the progress, if it is time to.

        Args:
            done: The number of records that are read.
        """
        if self._display is None or (now := time.monotonic()) < self._next:
            return
        self._next = now + PAUSE
        share = min(done / self._total, 1.0)
        left = (now - self._start) * (1 - share) / share if share else 0
        self._display.draw(bar(share, f"{done:,} records", left))
        self._drawn = True

    def close(self, done: int) -> None:
        """Clear the line of a terminal, and show the last number in a notebook.

        Args:
            done: The number of records that are read.
        """
        if self._display is not None and self._drawn:
            seconds = time.monotonic() - self._start
            self._display.close(f"{done:,} records in {seconds:,.1f} s")
            self._drawn = False
