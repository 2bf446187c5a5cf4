"""Numbers of partitions on the command line."""

from __future__ import annotations

import argparse
import re

_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?")
# More than this is a typing error.
MOST = 100_000


def partitions(text: str) -> list[int]:
    """The type of a list such as `0,2,5-7`.

    Raises:
        ArgumentTypeError: The text is no such list.
    """
    found: set[int] = set()
    for part in text.split(","):
        bounds = _RANGE.fullmatch(part.strip())
        if bounds is None or not (first := int(bounds[1])) <= (last := int(bounds[2] or first)) < first + MOST:
            raise argparse.ArgumentTypeError(f"{part!r} is no partition; a list is 0,2 or 0-3")
        found.update(range(first, last + 1))
    return sorted(found)
