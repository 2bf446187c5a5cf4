"""Times and durations, as people type and read them."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta

DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
# Digits of a number of seconds, milliseconds and nanoseconds since 1970, as in the windows of `consume`.
EPOCHS = {9: 1, 10: 1, 13: 1000, 19: 1_000_000_000}
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def duration(given: str) -> timedelta:
    """The type of a duration: 90s, 1h30m, 7d. A number alone is seconds."""
    parts = DURATION.findall(given)
    if given.isdecimal():
        parts = [(given, "s")]
    elif not parts or "".join(map("".join, parts)) != given:
        raise argparse.ArgumentTypeError(f"{given!r} is not a duration: write 30s, 15m, 1h30m, 7d or 2w")
    try:
        return timedelta(seconds=sum(float(number) * SECONDS[unit] for number, unit in parts))
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{given!r} is too long") from None


def moment(given: str) -> datetime:
    """The type of a time: a date, a time without a zone in the local one, or a number since 1970 UTC."""
    try:
        if given.isdecimal() and len(given) in EPOCHS:
            return datetime.fromtimestamp(int(given) / EPOCHS[len(given)], UTC)
        return datetime.fromisoformat(given).astimezone()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{given!r} is not a time: write 2026-01-31, 2026-01-31T12:00, 2026-01-31T12:00Z, or s or ms since 1970"
        ) from None


def since(given: str) -> datetime:
    """The type of a time, or of how long ago it was."""
    if given[-1:] in set("smhdw"):
        return datetime.now(UTC) - duration(given)
    return moment(given)


def shown(milliseconds: int, *, utc: bool) -> str:
    """A time, with its zone."""
    if milliseconds < 0:
        return "-"
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
        return (
            time.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
            if utc
            else time.astimezone().isoformat(sep=" ", timespec="milliseconds")
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
        count, left = divmod(left, int(SECONDS[unit]))
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:2])
