"""Objects of the input as keys and values of a schema."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, Literal

from ottla.cli import schemas
from ottla.cli.produce.inputs import Records, Table
from ottla.errors import ArgumentError, EncodeError

Column = Literal["key", "value"]
COLUMNS: tuple[Column, Column] = ("key", "value")


class Encoding:
    """Encodes keys, values or both.

    Args:
        options: The command line, with `encode_key`, `encode_value` and `registry`.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        given = {"key": options.encode_key, "value": options.encode_value}
        if options.registry is not None and not any(given.values()):
            raise ArgumentError(
                "--registry is where schemas are: add --encode-value registry, or --encode-key registry"
            )
        self._encoders: dict[Column, Callable[[Any, str], list[bytes | None]]] = {}
        for column in COLUMNS:
            text = given[column]
            if text is not None:
                self._encoders[column] = schemas.encoder(text, column, options.registry)

    @property
    def active(self) -> bool:
        """Whether anything is encoded."""
        return bool(self._encoders)

    def records(self, records: Records, topic: str) -> Records:
        """Records whose keys and values are JSON, encoded. Those that do not fit are bad."""
        if not records.numbers:
            return records
        columns: dict[Column, list[bytes | None]] = {"value": records.values}
        if records.keys is not None:
            columns["key"] = records.keys
        bad: dict[int, Exception] = dict(records.bad or {})
        for column, encode in self._encoders.items():
            if column in columns:
                columns[column] = _encoded(columns[column], records.numbers, encode, topic, bad)
        rows = [row for row, number in enumerate(records.numbers) if number not in bad]
        return Records(
            [records.numbers[row] for row in rows],
            [columns["value"][row] for row in rows],
            [columns["key"][row] for row in rows] if "key" in columns else None,
            None if records.parsed is None else [records.parsed[row] for row in rows],
            bad,
            records.position,
        )

    def table(self, table: Table, topic: str) -> Table:
        """A table whose keys and values are structs, encoded."""
        import pyarrow as pa

        found = table.table
        for column, encode in self._encoders.items():
            if column in found.column_names:
                rows = found[column].combine_chunks()
                encoded = encode(rows.chunk(0) if isinstance(rows, pa.ChunkedArray) else rows, topic)
                found = found.set_column(found.column_names.index(column), column, pa.array(encoded, pa.binary()))
        return Table(table.first, found)


def _encoded(
    texts: list[bytes | None],
    numbers: list[int],
    encode: Callable[[Any, str], list[bytes | None]],
    topic: str,
    bad: dict[int, Exception],
) -> list[bytes | None]:
    """The column, encoded; what does not fit is in `bad` by its number."""
    objects: list[Any] = []
    for text, number in zip(texts, numbers, strict=True):
        found = None
        if text is not None:
            try:
                found = json.loads(text)
                if not isinstance(found, dict):
                    raise ValueError("it is not an object")  # noqa: TRY004, TRY301 as what is not JSON at all
            except ValueError as error:
                bad[number] = ArgumentError(f"only an object of JSON can be encoded, and this is not one: {error}")
                found = None
        objects.append(found)
    try:
        return encode(objects, topic)
    except (EncodeError, ArgumentError):
        return [_one(each, number, encode, topic, bad) for each, number in zip(objects, numbers, strict=True)]


def _one(
    found: Any,
    number: int,
    encode: Callable[[Any, str], list[bytes | None]],
    topic: str,
    bad: dict[int, Exception],
) -> bytes | None:
    if found is None:
        return None
    try:
        return encode([found], topic)[0]
    except (EncodeError, ArgumentError) as error:
        bad.setdefault(number, error)
        return None
