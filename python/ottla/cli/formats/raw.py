"""The values of records, each with a separator after it."""

from __future__ import annotations

import importlib.util
import sys
from typing import IO, Any

from ottla.cli.formats.rows import Rows

# Records after which pyarrow, whose import takes a while, is worth it.
MANY = 200_000


class RawSink:
    """Writes values; a record without one is an empty line.

    Args:
        out: The file.
        separator: What follows each value.
    """

    def __init__(self, out: IO[bytes], separator: bytes = b"\n") -> None:
        self._out = out
        self._separator = separator
        self._count = 0
        self._has_arrow = importlib.util.find_spec("pyarrow") is not None

    def write(self, rows: Rows) -> None:
        """Write some records."""
        self._count += len(rows)
        if not len(rows):
            return
        if self._has_arrow and ("pyarrow" in sys.modules or self._count > MANY):
            for chunk in rows.table(["value"]).column(0).chunks:
                self._out.write(_joined(chunk, self._separator))
                self._out.write(self._separator)
        else:
            self._out.write(self._separator.join([record.value or b"" for record in rows]) + self._separator)

    def flush(self) -> None:
        """Let readers see what was written."""
        self._out.flush()

    def close(self) -> None:
        """Write what is left."""
        self.flush()


def _joined(values: Any, separator: bytes) -> memoryview:
    """The values of a column with separators between them: one list that is joined, which copies each byte once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = values.fill_null(b"") if values.null_count else values
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(filled)], pa.int64()), filled.cast(pa.large_binary()))
    return memoryview(pc.binary_join(whole, pa.scalar(separator, pa.large_binary()))[0].as_buffer())
