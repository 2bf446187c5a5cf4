"""Times and durations, as people type and read them: one grammar for every command."""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime

GRAMMAR = """\
TIME is now, -30m (that long ago; ns, us, ms, s, m, h, d, w, also 1d12h), today, yesterday, 2024-01-15,
2024-01-15T10:30:00, 2024-01-15T10:30:00+01:00, or seconds (9 or 10 digits), milliseconds (13) or nanoseconds (19)
since 1970. A time without a zone is UTC, as in kcl, rpk and Kafka's own tools."""
SINCE = "a TIME of `ottla consume --help`, or how long ago, such as 1h or 7d; UTC without a zone"

_MILLISECONDS = {
    "ns": 1e-6,
    "us": 1e-3,
    "ms": 1.0,
    "s": 1e3,
    "m": 60e3,
    "h": 3600e3,
    "d": 86400e3,
    "w": 7 * 86400e3,
}
# Days whose first moment they mean, counted back.
DAYS = {"today": 0, "yesterday": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d|w)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Digits of a number of seconds, milliseconds and nanoseconds since 1970.
_EPOCHS = {9: 1e3, 10: 1e3, 13: 1.0, 19: 1e-6}
# Milliseconds of the longest duration: as many as `datetime` has from 1970 on.
_MOST = 253_402_300_800_000


class TimeError(ValueError):
    """A text is not a time."""


def length(text: str) -> float | None:
    """Parse a duration with units, such as 1h30m.

    Returns:
        Milliseconds; None if the text is not a duration.
    """
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(amount) * _MILLISECONDS[unit] for amount, unit in _PART.findall(text))


def parse(text: str, now: int) -> int:
    """Parse a TIME of `GRAMMAR`.

    Args:
        text: The text.
        now: The current time, in milliseconds since 1970 UTC.

    Returns:
        Milliseconds since 1970 UTC.

    Raises:
        TimeError: The text is not a time.
    """
    if text == "now":
        return now
    if text in DAYS:
        return now - now % int(_MILLISECONDS["d"]) - DAYS[text] * int(_MILLISECONDS["d"])
    if text.isdecimal():
        scale = _EPOCHS.get(len(text))
        if scale is None:
            raise TimeError(f"{text!r} is a time only with 9 or 10 digits (s), 13 (ms) or 19 (ns) since 1970")
        return int(text) // 10**6 if scale < 1 else int(int(text) * scale)
    ago = length(text[1:]) if text.startswith("-") else None
    try:
        found = now - int(ago) if ago is not None else _moment(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise TimeError(
            f"{text!r} is not a time; try now, -1h, 2024-01-15, 2024-01-15T10:30:00Z or 1705312800000"
        ) from None
    if found < 0:
        raise TimeError(f"{text!r} is before 1970")
    return found


def _moment(found: datetime) -> int:
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


# --- types of arguments ---


def since(given: str) -> datetime:
    """The type of a TIME, or of how long ago it was, without the minus."""
    now = int(time.time() * 1000)
    text = given.removeprefix("@")
    try:
        found = parse(text if length(text) is None else f"-{text}", now)
    except TimeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return datetime.fromtimestamp(found / 1000, UTC)


def duration(given: str) -> float:
    """The type of a duration in seconds: 90s, 1h30m, 7d. A number alone is seconds."""
    milliseconds = float(given) * 1000 if _NUMBER.fullmatch(given) else length(given)
    if milliseconds is None:
        raise argparse.ArgumentTypeError(f"{given!r} is not a duration: write 30s, 15m, 1h30m, 7d or 2w")
    if milliseconds > _MOST:
        raise argparse.ArgumentTypeError(f"{given!r} is too long")
    return milliseconds / 1000


# --- for people ---


def shown(milliseconds: int, *, utc: bool) -> str:
    """A time, with its zone."""
    if milliseconds < 0:
        return "-"
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
        return (
            found.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
            if utc
            else found.astimezone().isoformat(sep=" ", timespec="milliseconds")
        )
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def duration_shown(seconds: float) -> str:
    """A duration, by its two largest units."""
    if seconds < 10:
        return f"{seconds:.3g}s"
    left = round(seconds)
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, int(_MILLISECONDS[unit]) // 1000)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:2])
