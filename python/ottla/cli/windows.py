"""Windows: which offsets of each partition to read, in one grammar for `--offset` of every command."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from ottla.cli import times

GRAMMAR = f"""\
start                the first record              end          after the last record (the default)
+N, -N               N after the first record, N before the end
N                    this offset
start+N, end-N       the same as +N and -N
@TIME                the first record at or after a time
BEGIN:END            from one of these up to another, which is not read: 100:200, -100:end, @-1h:@-30m
:END                 from the first record up to END; `:end` is what is there now
BEGIN:+N, @T:+1h     N offsets, or a duration, after BEGIN
:end+N               what is there now, and the N offsets after that

{times.GRAMMAR}"""

_EDGE = re.compile(r"(start|end)(?:([+-])(\d+))?")
_DELTA = re.compile(r"([+-])(\d+)")
# Names that kcat and Kafka have for the edges.
_ALIASES = {"beginning": "start", "earliest": "start", "oldest": "start", "latest": "end", "newest": "end"}
MOST = 2**63 - 1

Kind: TypeAlias = Literal["start", "end", "offset", "time", "after"]


class WindowError(ValueError):
    """A text is not a window."""


class Point(NamedTuple):
    """A place in each partition.

    Attributes:
        kind: What `value` counts from: the first record, the end, offset 0, 1970 in milliseconds, or ("after") the
            begin of the window.
        value: Offsets, or milliseconds.
    """

    kind: Kind
    value: int = 0


class Window(NamedTuple):
    """What to read of each partition.

    Attributes:
        begin: The first offset.
        end: The offset after the last; None to go on with new records.
    """

    begin: Point
    end: Point | None = None

    @property
    def has_times(self) -> bool:
        """Whether an edge is a time."""
        return any(point is not None and point.kind == "time" for point in (self.begin, self.end))

    def with_end(self) -> Window:
        """The same window, but it ends at what is there now."""
        return self if self.end is not None else Window(self.begin, Point("end"))

    def resolve(self, start: int, end: int, at_time: Callable[[int], int | None]) -> tuple[int, int | None]:
        """Find the offsets of one partition.

        Args:
            start: The first offset that the partition has.
            end: The offset after its last record.
            at_time: The offset of the first record at or after a time in milliseconds; None if no record is that new.

        Returns:
            The first offset and the one after the last, which lie in what the partition has: only `end+N` is beyond.
            None instead of the second if the window has no end.
        """
        begin = min(max(_offset(self.begin, start, end, start, at_time), start), end)
        if self.end is None:
            return begin, None
        until = _offset(self.end, start, end, begin, at_time)
        if self.end.kind != "end":
            until = min(until, end)
        return begin, max(until, begin)


def _offset(point: Point, start: int, end: int, begin: int, at_time: Callable[[int], int | None]) -> int:
    if point.kind == "time":
        found = at_time(point.value)
        return end if found is None else found
    return {"start": start, "end": end, "offset": 0, "after": begin}[point.kind] + point.value


def parse(text: str, now: float | None = None) -> Window:
    """Parse a window.

    Args:
        text: A text of the grammar `GRAMMAR`.
        now: Seconds since 1970 from which durations count; None for the current time.

    Raises:
        WindowError: The text is not a window. The message names the part that is wrong.
    """
    current = int((time.time() if now is None else now) * 1000)
    if not text:
        raise WindowError("an offset is empty; try start, end, 100, -10 or @-1h")
    # A time has colons, too: the whole text first, then from the right.
    places = [len(text), *(at for at in range(len(text) - 1, -1, -1) if text[at] == ":")]
    errors: list[WindowError] = []
    for at in places:
        before, after = text[:at], text[at + 1 :]
        try:
            return _window(before, after if at < len(text) else None, current)
        except WindowError as error:
            errors.append(error)
    raise errors[-1] if len(errors) > 1 else errors[0]


def _window(before: str, after: str | None, now: int) -> Window:
    # As in kcl, the `@` at the begin counts for both edges.
    timed = before.startswith("@")
    begin = Point("start") if after is not None and before in {"", "@"} else _point(before, now)
    if begin.kind == "time" and begin.value > now:
        raise WindowError(f"{before!r} is in the future")
    if after is None or (after == "" and before):
        return Window(begin)
    if _DELTA.fullmatch(after) and after.startswith("+"):
        return Window(begin, Point("after", int(after)))
    shift = after.removeprefix("@")
    if begin.kind == "time" and shift.startswith("+") and (length := times.length(shift[1:])) is not None:
        return Window(begin, Point("time", begin.value + int(length)))
    end = _time(shift, now) if timed and shift != "end" and not after.startswith("@") else _point(after, now)
    if end.kind == "time" and end.value > now:
        raise WindowError(f"{after!r} is in the future: leave the end out to go on with new records")
    return Window(begin, end)


def _point(text: str, now: int) -> Point:
    if text.startswith("@"):
        return _time(text[1:], now)
    if found := _EDGE.fullmatch(_ALIASES.get(text, text)):
        kind: Kind = "start" if found[1] == "start" else "end"
        return Point(kind, int((found[2] or "+") + (found[3] or "0")))
    if found := _DELTA.fullmatch(text):
        return Point("start" if found[1] == "+" else "end", int(text))
    if text.isdecimal() and int(text) <= MOST:
        return Point("offset", int(text))
    raise WindowError(f"{text!r} is not an offset; try start, end, 100, +10, -10, 100:200, :end or @-1h")


def _time(text: str, now: int) -> Point:
    try:
        return Point("time", times.parse(text, now))
    except times.TimeError as error:
        raise WindowError(str(error)) from None
