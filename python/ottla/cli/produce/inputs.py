"""What `produce` reads: chunks of records with the numbers of their lines, or tables."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from ottla import _ottla
from ottla.cli import signals
from ottla.cli.formats.envelope import Parsed, parse
from ottla.errors import ArgumentError

# Most bytes of one read: few enough to stay in the cache of a core until they are sent. What a pipe has is taken at
# once, so that nothing waits for more.
CHUNK = 2**18


class Records(NamedTuple):
    """Records of the input.

    Attributes:
        numbers: The number of each record's line, from 1 up.
        values: The values.
        keys: The keys; None if none has one.
        parsed: All that the lines say of the records; None if they are values and keys only.
        bad: What is wrong with a line that is no record, by its number.
        position: Bytes of the input that were read with these.
    """

    numbers: list[int]
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    parsed: list[Parsed] | None = None
    bad: dict[int, Exception] | None = None
    position: int = 0


class Table(NamedTuple):
    """Rows of a table.

    Attributes:
        first: The number of the first row, from 1 up.
        table: A `pyarrow.Table` with columns of records.
    """

    first: int
    table: Any


class Values(NamedTuple):
    """Lines that are values.

    Attributes:
        first: The number of the first line, from 1 up.
        lines: The lines.
        position: Bytes of the input that were read with these.
    """

    first: int
    lines: _ottla.Lines
    position: int

    def numbers(self) -> range:
        """The number of each line."""
        return range(self.first, self.first + len(self.lines))

    def records(self) -> Records:
        """The same line by line."""
        return Records([*self.numbers()], [*self.lines.to_list()], position=self.position)


class Lines:
    """Reads the lines of a file in chunks. A line ends with LF or CR LF; any other CR belongs to it.

    Args:
        file: The file.
        between: Lets signals in while it waits.
    """

    def __init__(self, file: Any, between: signals.Between) -> None:
        # A standard input that is closed is a raw file, which has no `read1`.
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self._between = between
        self.position = 0

    def columns(self) -> Iterator[_ottla.Lines]:
        """The lines that are there."""
        splitter = _ottla.LineSplitter()
        while data := self._next():
            if lines := splitter.split(data):
                yield lines
        if lines := splitter.finish():
            yield lines

    def chunks(self) -> Iterator[list[bytes]]:
        """The lines that are there, as bytes."""
        for lines in self.columns():
            yield lines.to_list()

    def _next(self) -> bytes:
        with self._between.waiting():
            data = self._read(CHUNK)
        self.position += len(data)
        return data


def lines_as_values(lines: Lines) -> Iterator[Values]:
    """Each line as a value."""
    first = 1
    for chunk in lines.columns():
        yield Values(first, chunk, lines.position)
        first += len(chunk)


def lines_with_keys(lines: Lines, separator: bytes) -> Iterator[Records]:
    """Each line as a key and a value with a separator between them, or as a value if it has none."""
    for chunk in lines_as_values(lines):
        parts = [line.partition(separator) for line in chunk.lines.to_list()]
        values: list[bytes | None] = [after if found else before for before, found, after in parts]
        keys: list[bytes | None] = [before if found else None for before, found, _ in parts]
        yield Records([*chunk.numbers()], values, keys, position=chunk.position)


def json_values(lines: Lines) -> Iterator[Records]:
    """Each line as a value that is JSON, as it stands. Empty lines are skipped."""
    number = 0
    for chunk in lines.chunks():
        bad: dict[int, Exception] = {}
        made = Records([], [], bad=bad, position=lines.position)
        for number, line in enumerate(chunk, number + 1):  # noqa: B020 the count goes on
            if not line.strip():
                continue
            try:
                json.loads(line)
            except ValueError as error:
                bad[number] = ArgumentError(f"this is not JSON: {error}")
                continue
            made.numbers.append(number)
            made.values.append(line)
        yield made


def envelopes(lines: Lines) -> Iterator[Records]:
    """Each line as the object that `consume --format json` writes. Empty lines are skipped."""
    number = 0
    for chunk in lines.chunks():
        bad: dict[int, Exception] = {}
        made = Records([], [], [], [], bad, lines.position)
        for number, line in enumerate(chunk, number + 1):  # noqa: B020 the count goes on
            if not line.strip():
                continue
            try:
                found = parse(line)
            except ArgumentError as error:
                bad[number] = error
                continue
            _add(made, number, found)
        yield made


def templated(file: Any, template: str, between: signals.Between) -> Iterator[Records]:
    """Records by a template. A record that does not fit it ends the input: the next one cannot be found."""
    from ottla.cli.formats.template_input import Reader

    reader = Reader(template, getattr(file, "read1", file.read), between)
    number = 0
    done = False
    while not done:
        bad: dict[int, Exception] = {}
        made = Records([], [], [], [], bad)
        while len(made.numbers) < 1000:
            try:
                found = reader.next()
            except ArgumentError as error:
                bad[number + 1] = error
                done = True
                break
            if found is None:
                done = True
                break
            number += 1
            _add(made, number, found)
            if not reader.has_more():
                break
        yield made._replace(position=reader.position)


def _add(made: Records, number: int, found: Parsed) -> None:
    made.numbers.append(number)
    made.values.append(found.value)
    if made.keys is not None and made.parsed is not None:
        made.keys.append(found.key)
        made.parsed.append(found)


def tables(form: str, file: IO[bytes], path: str | None) -> Iterator[Table]:
    """The rows of a CSV, Arrow or Parquet file.

    Args:
        form: Which of them.
        file: The file.
        path: Where it is; None for standard input.

    Raises:
        ArgumentError: It is not such a file, or pyarrow is missing.
    """
    from ottla.cli.formats import table

    table.needed()
    if form == "parquet":
        # Its directory is at its end.
        found = table.parquet_tables(path if path is not None else io.BytesIO(file.read()))
    else:
        found = table.csv_tables(file) if form == "csv" else table.arrow_tables(file)
    first = 1
    for each in found:
        yield Table(first, each)
        first += each.num_rows


def without(records: Records, ignored: set[str]) -> Records:
    """The records without fields that are to be left out."""
    if not ignored:
        return records
    if records.parsed is not None:
        empty: dict[str, Any] = {name: () if name == "headers" else None for name in ignored}
        records = records._replace(parsed=[each._replace(**empty) for each in records.parsed])
    if "key" in ignored:
        records = records._replace(keys=None)
    return records
