"""How a job tells people where it is: a line that moves in a terminal, lines of a log elsewhere."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ottla.spark.progress import offsets_of

if TYPE_CHECKING:
    from ottla.spark.offsets import Offsets

# Seconds between two lines of a log, and between two drawings in a terminal.
LOGGED, DRAWN = 10.0, 0.2


class Report:
    """What a job has done so far, for people.

    Args:
        name: Of the job.
        out: Where to tell it.
        now: Seconds, of any clock that only goes forward.
    """

    def __init__(self, name: str, out: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._out = sys.stderr if out is None else out
        self._now = now
        self._moving = self._out.isatty()
        self._drawn = False
        self._begin: Offsets = {}
        self.records = 0
        self.batches = 0
        self.behind: int | None = None
        self._batch: int | None = None
        self._told_at = self._now()
        self._told_records = 0
        self._rate = 0.0

    def say(self, text: str) -> None:
        """Tell something that stays."""
        self._clear()
        stamp = "" if self._moving else time.strftime("%H:%M:%S ")
        self._print(f"{stamp}{self._name}: {text}\n")

    def start(self) -> None:
        """Measure from now on."""
        self._told_at = self._now()

    def doing(self, text: str) -> None:
        """Tell what happens now, where a line can move."""
        if self._moving:
            self._draw(text)

    def progress(self, told: Mapping[str, Any] | None, bad: int) -> None:
        """Take what Spark says about the last batch, and tell it if it is time to.

        Args:
            told: The progress; None if no batch has ended.
            bad: Dead letters so far.
        """
        if told is not None and told["batchId"] != self._batch:
            self._take(told)
        passed = self._now() - self._told_at
        if passed >= (DRAWN if self._moving else LOGGED) and (self._moving or self.records > self._told_records):
            self._tell(bad, passed)

    def end(self, bad: int) -> None:
        """Tell what was not told yet."""
        if not self._moving and self.records > self._told_records:
            self._tell(bad, self._now() - self._told_at)
        self._clear()

    def _take(self, told: Mapping[str, Any]) -> None:
        source = told["sources"][0]
        start, end, latest = (offsets_of(source, name) for name in ("startOffset", "endOffset", "latestOffset"))
        self._batch = told["batchId"]
        for partition, offset in start.items():
            self._begin.setdefault(partition, offset)
        if told["numInputRows"]:
            self.batches += 1
        self.records = sum(offset - self._begin.setdefault(partition, 0) for partition, offset in end.items())
        self.behind = sum(max(0, offset - end.get(p, 0)) for p, offset in latest.items()) if latest else None

    def _tell(self, bad: int, passed: float) -> None:
        if self.records > self._told_records or passed > 1:
            self._rate = (self.records - self._told_records) / passed if passed else 0.0
            self._told_at, self._told_records = self._now(), self.records
        behind = "" if self.behind is None else f", {self.behind:,} behind"
        letters = f", {bad:,} dead letters" if bad else ""
        batch = "first batch" if self._batch is None else f"batch {self._batch}"
        text = f"{batch}, {self.records:,} records, {self._rate:,.0f}/s{behind}{letters}"
        if self._moving:
            self._draw(text)
        else:
            self.say(text)

    def _draw(self, text: str) -> None:
        self._print(f"\r\x1b[K{self._name}: {text}")
        self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._print("\r\x1b[K")
            self._drawn = False

    def _print(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
