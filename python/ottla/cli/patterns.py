"""Names that regular expressions choose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.errors import ArgumentError, NotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable


def option(parser: argparse._ActionsContainer) -> None:
    """Add `--regex`."""
    parser.add_argument("-r", "--regex", action="store_true", help="names are patterns, which match whole names")


def chosen(options: argparse.Namespace, given: list[str], known: Callable[[], Iterable[str]], what: str) -> list[str]:
    """The names that a command is about.

    Args:
        options: The command line.
        given: Names, or with `--regex` patterns.
        known: Lists all names there are. Only patterns call it.
        what: What has these names: `"topic"` or `"group"`.

    Raises:
        NotFoundError: No name matches a pattern.
    """
    return matching(given, known(), what) if options.regex and given else given


def matching(patterns: list[str], names: Iterable[str], what: str = "topic") -> list[str]:
    """The names that a pattern matches as a whole, sorted.

    Raises:
        NotFoundError: There are none.
    """
    compiled = pattern(patterns)
    found = sorted(name for name in names if compiled.fullmatch(name))
    if not found:
        raise NotFoundError(
            f"no {what} matches {' or '.join(patterns)} as a whole; `ottla {what}s` lists those that exist"
        )
    return found


def pattern(patterns: list[str]) -> re.Pattern[str]:
    """One pattern for all of them.

    Raises:
        ArgumentError: It is not a regular expression.
    """
    try:
        return re.compile("|".join(f"(?:{each})" for each in patterns))
    except re.error as error:
        raise ArgumentError(f"{' or '.join(patterns)} is not a regular expression: {error}") from None
