"""Records as tables: CSV, Arrow IPC streams and Parquet files, both ways. It needs pyarrow, the extra `arrow`."""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Callable, Iterator
from typing import IO, Any

from ottla.cli.formats.envelope import bytes_of, headers_of, text_of
from ottla.cli.formats.rows import Rows
from ottla.cli.readable import readable
from ottla.errors import ArgumentError

# Bytes of a Parquet file's row group, before compression. Readers skip or read in parallel whole groups.
GROUP_BYTES = 64 * 2**20
# The columns of CSV. `base64` names those of the row that are in base64: key, value, or both.
CSV_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "base64")
# Most bytes of a block of CSV. A row is never larger.
CSV_BLOCK = 64 * 2**20


def needed() -> None:
    """Raise if pyarrow is not installed.

    Raises:
        ArgumentError: It is not. The text names the command that installs it.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ArgumentError("csv, arrow and parquet need pyarrow: pip install 'ottla[arrow]'")


class ArrowSink:
    """Writes an Arrow IPC stream, which readers can follow while it grows.

    Args:
        out: The file.
        columns: Makes the table of some records.
    """

    def __init__(self, out: IO[bytes], columns: Callable[[Rows], Any]) -> None:
        needed()
        self._out = out
        self._columns = columns
        self._writer: Any = None

    def write(self, rows: Rows) -> None:
        """Write some records."""
        import pyarrow as pa

        table = self._columns(rows)
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._out, table.schema)
        if table.num_rows:
            self._writer.write_table(table)

    def flush(self) -> None:
        """Let readers see what was written."""
        self._out.flush()

    def close(self) -> None:
        """Write the end of the stream."""
        if self._writer is not None:
            self._writer.close()
        self.flush()


class ParquetSink:
    """Writes a Parquet file. Records are kept in memory until they are a row group.

    Args:
        out: The file.
        columns: Makes the table of some records.
    """

    def __init__(self, out: IO[bytes], columns: Callable[[Rows], Any]) -> None:
        needed()
        self._out = out
        self._columns = columns
        self._writer: Any = None
        self._tables: list[Any] = []
        self._bytes = 0

    def write(self, rows: Rows) -> None:
        """Write some records."""
        table = self._columns(rows)
        self._tables.append(table)
        self._bytes += table.nbytes
        if self._bytes >= GROUP_BYTES:
            self._write_group()

    def flush(self) -> None:
        """A Parquet file cannot be read before its end."""

    def close(self) -> None:
        """Write the last group and the footer."""
        if self._tables:
            self._write_group()
        if self._writer is not None:
            self._writer.close()
        self._out.flush()

    def _write_group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        group = pa.concat_tables(self._tables)
        self._tables, self._bytes = [], 0
        if self._writer is None:
            # Dictionaries pay for what repeats; keys and values of records seldom do.
            repeated = [name for name in ("topic", "partition", "timestampType") if name in group.column_names]
            self._writer = pq.ParquetWriter(
                self._out, group.schema, compression="zstd", compression_level=1, use_dictionary=repeated
            )
        if group.num_rows:
            self._writer.write_table(group, row_group_size=group.num_rows)


class CsvSink:
    """Writes CSV with a header line. Text is quoted, so that an empty value differs from none, which is not.

    Args:
        out: The file.
        columns: Makes the table of some records, of columns that CSV can hold.
    """

    def __init__(self, out: IO[bytes], columns: Callable[[Rows], Any]) -> None:
        needed()
        self._out = out
        self._columns = columns
        self._has_header = False

    def write(self, rows: Rows) -> None:
        """Write some records."""
        from pyarrow import csv

        table = self._columns(rows)
        csv.write_csv(table, self._out, csv.WriteOptions(include_header=not self._has_header))
        self._has_header = True

    def flush(self) -> None:
        """Let readers see what was written."""
        self._out.flush()

    def close(self) -> None:
        """Write what is left."""
        self.flush()


def csv_table(rows: Rows, decoded: Callable[[Rows], dict[str, list[Any]]] | None = None) -> Any:
    """The columns of `CSV_COLUMNS`.

    Args:
        rows: The records.
        decoded: Gives the objects of decoded keys and values, which are written as JSON.
    """
    import pyarrow as pa

    objects = {} if decoded is None else decoded(rows)

    table = rows.table()
    marks = [""] * table.num_rows
    columns = [table["topic"], table["partition"], table["offset"]]
    columns.append(table["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()))
    for name in ("key", "value"):
        if name in objects:
            texts = [
                None if found is None else json.dumps(found, ensure_ascii=False, default=text_of)
                for found in objects[name]
            ]
            columns.append(pa.array(texts, pa.string()))
            continue
        try:
            columns.append(table[name].cast(pa.string()))
        except pa.ArrowInvalid:
            columns.append(_marked(table[name].to_pylist(), name, marks))
    headers = table["headers"]
    if headers.null_count == len(headers):
        columns.append(pa.nulls(len(headers), pa.string()))
    else:
        columns.append(pa.array([_headers(found) for found in headers.to_pylist()], pa.string()))
    columns.append(pa.array([mark or None for mark in marks], pa.string()))
    return pa.table(columns, names=list(CSV_COLUMNS))


def _marked(values: list[bytes | None], name: str, marks: list[str]) -> Any:
    """A column as text, in base64 where it is not UTF-8; `marks` then names the column."""
    import pyarrow as pa

    texts: list[str | None] = []
    for row, value in enumerate(values):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(base64.b64encode(value or b"").decode())
            marks[row] = f"{marks[row]} {name}".strip()
    return pa.array(texts, pa.string())


def _headers(found: list[dict[str, Any]] | None) -> str | None:
    if not found:
        return None
    return json.dumps([[header["key"], readable(header["value"])] for header in found], ensure_ascii=False)


def csv_tables(source: Any) -> Iterator[Any]:
    """Read CSV with a header line as tables that `Producer.send_arrow` sends.

    Args:
        source: A file of bytes, or a path.

    Yields:
        Tables with the columns of `CSV_COLUMNS` that the file has, but for the last.

    Raises:
        ArgumentError: The file has no column of a record, another column, or a row that does not parse.
    """
    import pyarrow as pa
    from pyarrow import csv

    texts = dict.fromkeys(CSV_COLUMNS, pa.string()) | dict.fromkeys(("partition", "offset", "timestamp"), pa.int64())
    convert = csv.ConvertOptions(
        column_types=texts, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    parse = csv.ParseOptions(newlines_in_values=True)
    try:
        reader = csv.open_csv(source, csv.ReadOptions(block_size=CSV_BLOCK), parse, convert)
        if unknown := [name for name in reader.schema.names if name not in CSV_COLUMNS]:
            raise ArgumentError(
                f"the first line names a column {unknown[0]!r}, and a record has {', '.join(CSV_COLUMNS)}"
            )
        if "value" not in reader.schema.names:
            raise ArgumentError("the first line names no column 'value'")
        for batch in reader:
            yield _from_csv(pa.Table.from_batches([batch]))
    except pa.ArrowInvalid as error:
        raise ArgumentError(f"this is not CSV of records: {error}") from None


def _from_csv(table: Any) -> Any:
    """The rows of CSV as the columns of a batch."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    marks = table["base64"].to_pylist() if "base64" in table.column_names else []
    for name in table.column_names:
        column = table[name]
        if name in {"key", "value"}:
            if any(mark is not None and name in mark.split() for mark in marks):
                texts = zip(column.to_pylist(), marks, strict=True)
                column = pa.array([_unmarked(text, name, mark) for text, mark in texts], pa.binary())
            columns[name] = column.cast(pa.binary())
        elif name == "headers":
            columns[name] = headers_column(
                [headers_of(json.loads(text)) if text else () for text in column.to_pylist()]
            )
        elif name == "timestamp":
            # A record without a timestamp has -1; it gets the current time.
            columns[name] = pa.array(
                [None if at is not None and at < 0 else at for at in column.to_pylist()], pa.int64()
            )
        elif name != "base64":
            columns[name] = column
    return pa.table(columns)


def _unmarked(text: str | None, name: str, mark: str | None) -> bytes | None:
    if text is None or mark is None or name not in mark.split():
        return None if text is None else text.encode()
    return bytes_of({"base64": text}, name)


def headers_column(found: list[tuple[tuple[str, bytes | None], ...]]) -> Any:
    """A column of headers as `Producer.send_arrow` takes it."""
    import pyarrow as pa

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.array([[{"key": name, "value": value} for name, value in each] or None for each in found], kind)


def arrow_tables(source: Any) -> Iterator[Any]:
    """Read an Arrow IPC stream, or an IPC file.

    Args:
        source: A file of bytes.

    Raises:
        ArgumentError: It is neither.
    """
    import pyarrow as pa

    try:
        for batch in pa.ipc.open_stream(source):
            yield pa.Table.from_batches([batch])
    except pa.ArrowInvalid as error:
        raise ArgumentError(f"this is not an Arrow stream: {error}") from None


def parquet_tables(source: Any) -> Iterator[Any]:
    """Read a Parquet file.

    Args:
        source: A path, or a file of bytes that can seek.

    Raises:
        ArgumentError: It is not such a value.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file:
            for batch in file.iter_batches():
                yield pa.Table.from_batches([batch])
    except pa.ArrowInvalid as error:
        raise ArgumentError(f"this is not a Parquet file: {error}") from None
