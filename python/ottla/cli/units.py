"""Sizes and durations with units, where Kafka wants a number of bytes or milliseconds."""

from __future__ import annotations

import re

from ottla.cli import arguments, times

_SIZE = re.compile(r"(\d+)(KiB|MiB|GiB|TiB)")
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
HELP = "a duration in a .ms and a size in a property of bytes may have a unit: 7d, 50MiB"


def size(text: str) -> int | None:
    """Parse a number of bytes with a unit, such as 50MiB; None if the text has none."""
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _BYTES[found[2]] if found else None


def setting(given: str) -> tuple[str, str]:
    """The type of a KEY=VALUE of a configuration or a quota."""
    key, value = arguments.pair(given)
    if key.endswith(".ms") and (length := times.length(value)) is not None:
        return key, str(int(length))
    if ("byte" in key or key.endswith("throttled.rate")) and (count := size(value)) is not None:
        return key, str(count)
    return key, value
