"""How a job tells people where it is: a line that moves in a terminal, lines of a log elsewhere."""

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
    """What a job has done so far, for people.

    Args:
        name: Of the job.
        out: Where to tell it.
        now: Seconds, of any clock that only goes forward.
        shown: Takes from a text what nobody shall see.
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
        self._told_at = self._now()
        self._told_records = 0
        self._rate = 0.0

    def say(self, text: str) -> None:
        """Tell something that stays."""
        self._clear()
        stamp = "" if self._moving else time.strftime("%H:%M:%S ")
        self._print(f"{stamp}{self._shown(f'{self._name}: {text}')}\n")

    def start(self, begin: "Offsets | None" = None) -> None:
        """Measure from now on.

        Args:
            begin: Where the first batch of a new checkpoint begins, which Spark does not tell; None if it is past.
        """
        self._told_at = self._now()
        self._begin = begin or {}

    def doing(self, text: str) -> None:
        """Tell what happens now, where a line can move."""
        if self._moving:
            self._draw(text)

    def knows(self, told: Mapping[str, Any] | None) -> bool:
        """Whether this progress was taken; None is that of a query that made none."""
        return told is None or _key(told) == self._last

    def progress(self, recent: Sequence[Mapping[str, Any]], bad: int) -> None:
        """Take what Spark says about its last batches, and tell it if it is time to.

        Args:
            recent: The progress of them, in order. What was taken before is passed over.
            bad: Dead letters so far.
        """
        # A trigger without records has the number of the batch that comes next: numbers alone tell nothing apart.
        keys = [_key(told) for told in recent]
        for told in recent[keys.index(self._last) + 1 if self._last in keys else 0 :]:
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
        self._last = _key(told)
        if told["numInputRows"]:
            self.batches += 1
        begin = start or self._begin
        if begin:
            self.records += sum(max(0, offset - begin.get(partition, 0)) for partition, offset in end.items())
        else:
            self.records += told["numInputRows"]
        self.behind = sum(max(0, offset - end.get(p, 0)) for p, offset in latest.items()) if latest else None

    def _tell(self, bad: int, passed: float) -> None:
        if self.records > self._told_records or passed > 1:
            self._rate = (self.records - self._told_records) / passed if passed else 0.0
            self._told_at, self._told_records = self._now(), self.records
        behind = "" if self.behind is None else f", {self.behind:,} behind"
        letters = f", {bad:,} dead letters" if bad else ""
        batch = "first batch" if self._last is None else f"batch {self._last[0]}"
        text = f"{batch}, {self.records:,} records, {self._rate:,.0f}/s{behind}{letters}"
        if self._moving:
            self._draw(text)
        else:
            self.say(text)

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


def _key(told: Mapping[str, Any]) -> tuple[int, str]:
    return told["batchId"], told["timestamp"]
