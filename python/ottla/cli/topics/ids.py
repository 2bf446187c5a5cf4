"""Topics by name, by pattern or by id."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import TYPE_CHECKING, Any

from ottla.cli import patterns
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

# Kafka's tools print the 16 bytes of an id as this many letters of base64.
LETTERS = 22


def option(parser: argparse._ActionsContainer) -> None:
    """Add `--id`."""
    parser.add_argument(
        "--id", action="store_true", help="names are ids, as `topics describe` or Kafka's tools print them"
    )


def chosen(options: argparse.Namespace, known: Callable[[], Iterable[str]]) -> list[Any]:
    """The topics of the command line, as names or as ids.

    Args:
        options: The command line, with `--regex` and `--id`.
        known: Lists the names that a pattern can choose.

    Raises:
        ArgumentError: A text is not an id.
        NotFoundError: No name matches a pattern.
    """
    if options.id:
        return [_id(given) for given in options.topics]
    return patterns.chosen(options, options.topics, known, "topic")


def _id(given: str) -> uuid.UUID:
    try:
        if len(given) == LETTERS:
            return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{given}=="))
        return uuid.UUID(given)
    except (ValueError, binascii.Error):
        raise ArgumentError(f"{given!r} is not the id of a topic: write 32 hex digits, or {LETTERS} letters") from None
