"""The values of records, each with a separator after it."""

from __future__ import annotations

from typing import IO

from ottla import _ottla
from ottla.cli.formats.rows import Rows


class RawSink:
    """Writes values; a record without one is an empty line.

    Args:
        out: The file.
        separator: What follows each value.
    """

    def __init__(self, out: IO[bytes], separator: bytes = b"\n") -> None:
        self._out = out
        self._separator = separator

    def write(self, rows: Rows) -> None:
        """Write some records."""
        for piece in _ottla.JoinedValues(rows.batch, self._separator, rows.kept):
            self._out.write(piece)

    def flush(self) -> None:
        """Let readers see what was written."""
        self._out.flush()

    def close(self) -> None:
        """Write what is left."""
        self.flush()
