"""What a format does with records: the interface of all that `consume` writes."""

from __future__ import annotations

from typing import Protocol

from ottla.cli.formats.rows import Rows


class Sink(Protocol):
    """Writes records."""

    def write(self, rows: Rows) -> None:
        """Write some records."""

    def flush(self) -> None:
        """Let readers see what was written."""

    def close(self) -> None:
        """Write what a file ends with."""
