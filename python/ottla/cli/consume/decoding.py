"""Keys and values as objects, by a registry or by the files of their schemas."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, Literal

from ottla.cli import schemas
from ottla.cli.formats.envelope import text_of
from ottla.cli.formats.rows import Rows
from ottla.errors import ArgumentError

Column = Literal["key", "value"]
COLUMNS: tuple[Column, Column] = ("key", "value")


class Decoding:
    """Decodes keys, values or both.

    Args:
        options: The command line, with `decode_key`, `decode_value` and `registry`.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._decoders: dict[Column, Any] = {}
        self._seen: tuple[Any, dict[Column, Any]] | None = None
        given = {"key": options.decode_key, "value": options.decode_value}
        if options.registry is not None and not any(given.values()):
            raise ArgumentError(
                "--registry is where schemas are: add --decode-value registry, or --decode-key registry"
            )
        for column in COLUMNS:
            text = given[column]
            if text is not None:
                self._decoders[column] = schemas.decoder(text, column, options.registry)

    @property
    def active(self) -> bool:
        """Whether anything is decoded."""
        return bool(self._decoders)

    def objects(self, rows: Rows) -> dict[str, list[Any]]:
        """The decoded keys and values of records, as objects of Python; None for a record without."""
        return {column: rows.chosen(table).to_pylist() for column, table in self._tables(rows).items()}

    def texts(self, rows: Rows) -> Mapping[str, list[bytes | None]]:
        """The decoded keys and values as JSON."""
        return {
            column: [None if found is None else as_json(found) for found in values]
            for column, values in self.objects(rows).items()
        }

    def table(self, rows: Rows) -> Any:
        """The records as a table, in which the decoded columns are structs."""
        table = rows.table()
        for column, decoded in self._tables(rows).items():
            place = table.column_names.index(column)
            table = table.set_column(place, column, rows.chosen(decoded))
        return table

    def _tables(self, rows: Rows) -> dict[Column, Any]:
        """The decoded columns of the whole batch, each once."""
        if self._seen is None or self._seen[0] is not rows.batch:
            self._seen = (rows.batch, {name: self._decoded(decode, rows) for name, decode in self._decoders.items()})
        return self._seen[1]

    @staticmethod
    def _decoded(decode: Any, rows: Rows) -> Any:
        if len(rows.batch):
            return decode(rows)
        import pyarrow as pa

        return pa.nulls(0)


def as_json(found: Any) -> bytes:
    """An object as JSON."""
    return json.dumps(found, ensure_ascii=False, default=text_of).encode()
