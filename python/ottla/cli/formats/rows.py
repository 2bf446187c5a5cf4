"""The records that a format writes: those of a batch, or some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ottla import Batch, Record


class Rows:
    """Some records of a batch, in order. A format reads them one by one, or all as an Arrow table.

    A batch that is put together of many slices is slow to convert, so rows are chosen in the table instead.

    Args:
        batch: The records.
        kept: The numbers of the rows that count, ascending; None for all.
    """

    def __init__(self, batch: Batch, kept: Sequence[int] | None = None) -> None:
        self.batch = batch
        self.kept = kept

    def __len__(self) -> int:
        return len(self.batch) if self.kept is None else len(self.kept)

    def __iter__(self) -> Iterator[Record]:
        if self.kept is None:
            return iter(self.batch)
        return map(self.batch.__getitem__, self.kept)

    def first(self, count: int) -> Rows:
        """The first records."""
        if self.kept is None:
            return self if count >= len(self.batch) else Rows(self.batch[:count])
        return Rows(self.batch, self.kept[:count])

    def keep(self, wanted: Sequence[bool]) -> Rows:
        """Those records for which `wanted` is true."""
        if all(wanted):
            return self
        rows = range(len(self.batch)) if self.kept is None else self.kept
        return Rows(self.batch, [row for row, chosen in zip(rows, wanted, strict=True) if chosen])

    def table(self, columns: Sequence[str] | None = None) -> Any:
        """The records as a `pyarrow.Table`.

        Args:
            columns: The names of the columns, in order; None for all of `Batch.to_arrow`.
        """
        return self.chosen(self.batch.to_arrow(columns))

    def chosen(self, table: Any) -> Any:
        """The rows that count, of a table that has a row for each record of the batch."""
        if self.kept is None:
            return table
        import pyarrow as pa

        return table.take(pa.array(self.kept, pa.int64()))
