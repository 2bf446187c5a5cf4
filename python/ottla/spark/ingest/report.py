"""The progress output of a job: one changing line in a terminal, lines of a log elsewhere."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ottla.spark.read.progress import offsets_of

if TYPE_CHECKING:
    from ottla.spark.shared.offsets import Offsets

# Seconds between two lines of a log, and between two drawings in a terminal.
LOGGED, DRAWN = 10.0, 0.2


class Report:
    """The progress of a job.

    Args:
        name: Of the job.
        out: Where to write it.
        now: Seconds, of any clock that only goes forward.
        shown: Removes secrets from a text.
    """

    def __init__(
        self,
        name: str,
        out: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
        shown: Callable[[str], str] = str,
    ) -> None:
        self._name = name
        self._out = sys.stderr if out is None else out
        self._now = now
        self._shown = shown
        self._moving = self._out.isatty()
        self._drawn = False
        self._begin: Offsets = {}
        self.records = 0
        self.batches = 0
        self.behind: int | None = None
        self._last: tuple[int, str] | None = None
        self._reported_at = self._now()
        self._reported_records = 0
        self._rate = 0.0

    def write(self, text: str) -> None:
        """Write a line that stays."""
        self._clear()
        stamp = "" if self._moving else time.strftime("%H:%M:%S ")
        self._print(f"{stamp}{self._shown(f'{self._name}: {text}')}\n")

    def start(self, begin: "Offsets | None" = None) -> None:
        """Measure from now on.

        Args:
            begin: Where the first batch of a new checkpoint begins, which Spark does not report; None if it is past.
        """
        self._reported_at = self._now()
        self._begin = begin or {}

    def doing(self, text: str) -> None:
        """Show the current step, where a line can change."""
        if self._moving:
            self._draw(text)

    def knows(self, progress: Mapping[str, Any] | None) -> bool:
        """Whether this progress was taken already; None is that of a query without progress."""
        return progress is None or _key(progress) == self._last

    def progress(self, recent: Sequence[Mapping[str, Any]], bad: int) -> None:
        """Take Spark's progress of its last batches, and write it if it is due.

        Args:
            recent: Their progress, in order. Progress that was taken before is skipped.
            bad: Dead letters so far.
        """
        # A trigger without records has the number of the next batch: numbers alone are not unique.
        keys = [_key(each) for each in recent]
        for each in recent[keys.index(self._last) + 1 if self._last in keys else 0 :]:
            self._take(each)
        passed = self._now() - self._reported_at
        if passed >= (DRAWN if self._moving else LOGGED) and (self._moving or self.records > self._reported_records):
            self._report(bad, passed)

    def end(self, bad: int) -> None:
        """Write the progress that was not written yet."""
        if not self._moving and self.records > self._reported_records:
            self._report(bad, self._now() - self._reported_at)
        self._clear()

    def _take(self, progress: Mapping[str, Any]) -> None:
        source = progress["sources"][0]
        start, end, latest = (offsets_of(source, name) for name in ("startOffset", "endOffset", "latestOffset"))
        self._last = _key(progress)
        if progress["numInputRows"]:
            self.batches += 1
        begin = start or self._begin
        if begin:
            self.records += sum(max(0, offset - begin.get(partition, 0)) for partition, offset in end.items())
        else:
            self.records += progress["numInputRows"]
        self.behind = sum(max(0, offset - end.get(p, 0)) for p, offset in latest.items()) if latest else None

    def _report(self, bad: int, passed: float) -> None:
        if self.records > self._reported_records or passed > 1:
            self._rate = (self.records - self._reported_records) / passed if passed else 0.0
            self._reported_at, self._reported_records = self._now(), self.records
        behind = "" if self.behind is None else f", {self.behind:,} behind"
        letters = f", {bad:,} dead letters" if bad else ""
        batch = "first batch" if self._last is None else f"batch {self._last[0]}"
        text = f"{batch}, {self.records:,} records, {self._rate:,.0f}/s{behind}{letters}"
        if self._moving:
            self._draw(text)
        else:
            self.write(text)

    def _draw(self, text: str) -> None:
        self._print(f"\r\x1b[K{self._shown(f'{self._name}: {text}')}")
        self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._print("\r\x1b[K")
            self._drawn = False

    def _print(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _key(progress: Mapping[str, Any]) -> tuple[int, str]:
    return progress["batchId"], progress["timestamp"]
