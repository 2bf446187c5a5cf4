"""Records as JSON: an object with topic, partition, offset, timestamp, key, value and headers on each line.

Bytes that are not UTF-8 are `{"base64": "..."}`, so that every record can be read back as it was.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, NamedTuple

from ottla import Record
from ottla.cli.formats.rows import Rows
from ottla.cli.readable import readable
from ottla.errors import ArgumentError

# Records after which pyarrow, whose import takes a while, is worth it.
MANY = 200_000
FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
# The letters that JSON escapes, of which Arrow replaces only the two frequent ones.
CONTROL = r"[\x00-\x1f]"


class Parsed(NamedTuple):
    """A record of the input of `produce`.

    Attributes:
        topic: The topic; None for that of the command line.
        value: The value; None is a tombstone.
        key: The key.
        partition: The partition; None lets the partitioner choose.
        timestamp: Milliseconds since 1970; None for the current time.
        headers: Names and values.
    """

    topic: str | None = None
    value: bytes | None = None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def described(record: Record) -> dict[str, Any]:
    """A record as the object of its line."""
    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": readable(record.key),
        "value": readable(record.value),
        "headers": [[name, readable(value)] for name, value in record.headers],
    }
    if record.delivery_count is not None:
        shown["deliveryCount"] = record.delivery_count
    return shown


class EnvelopeSink:
    """Writes a line for each record.

    Args:
        out: The file.
        decoded: Gives the objects of decoded keys and values of records by the name of their field; None to write the
            bytes.
        without: Fields that are left out.
    """

    def __init__(
        self,
        out: IO[bytes],
        decoded: Callable[[Rows], dict[str, list[Any]]] | None = None,
        without: Sequence[str] = (),
    ) -> None:
        self._out = out
        self._decoded = decoded
        self._without = without
        self._count = 0
        self._has_arrow = importlib.util.find_spec("pyarrow") is not None

    def write(self, rows: Rows) -> None:
        """Write some records."""
        self._count += len(rows)
        is_plain = self._decoded is None and not self._without and rows.batch.delivery_count is None
        if is_plain and self._has_arrow and ("pyarrow" in sys.modules or self._count > MANY):
            lines = lines_by_columns(rows)
            if lines is not None:
                self._out.write(lines)
                return
        columns = self._decoded(rows) if self._decoded is not None else {}
        for row, record in enumerate(rows):
            shown = described(record)
            for name, values in columns.items():
                shown[name] = values[row]
            for name in self._without:
                shown.pop(name, None)
            self._out.write(json.dumps(shown, ensure_ascii=False, default=text_of).encode() + b"\n")

    def flush(self) -> None:
        """Let readers see what was written."""
        self._out.flush()

    def close(self) -> None:
        """Write what is left."""
        self.flush()


def text_of(value: object) -> object:
    """What JSON has no type for: bytes as elsewhere, numbers of any precision, times and the rest as text."""
    return readable(value) if isinstance(value, bytes) else str(value)


def lines_by_columns(rows: Rows) -> memoryview | None:
    """The lines of many records, made by columns; None if a record needs more than quotes.

    That is a header, bytes that are not UTF-8, or a control character.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = rows.table(["topic", "partition", "offset", "timestamp", "key", "value", "headers"]).combine_chunks()
    if not table.num_rows:
        return memoryview(b"")
    columns = {name: table.column(name).chunk(0) for name in table.column_names}
    if columns["headers"].null_count < table.num_rows:
        return None
    parts: list[Any] = ['{"topic": ', _quoted(columns["topic"])]
    milliseconds = columns["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    for name, numbers in (
        ("partition", columns["partition"]),
        ("offset", columns["offset"]),
        ("timestamp", milliseconds),
    ):
        parts += [f', "{name}": ', pc.fill_null(numbers.cast(pa.string()), "null")]
    for name in ("key", "value"):
        column = columns[name]
        if column.null_count == len(column):
            parts.append(f', "{name}": null')
            continue
        try:
            text = column.cast(pa.string())
        except pa.ArrowInvalid:
            return None
        if pc.any(pc.match_substring_regex(text, CONTROL)).as_py():
            return None
        parts += [f', "{name}": ', _quoted(text)]
    parts.append(', "headers": []}')
    # Arrow joins element by element with a separator, and the last argument is that.
    merged: list[Any] = []
    for part in parts:
        if merged and isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    lines = pc.binary_join_element_wise(*merged, "")
    whole = pa.LargeListArray.from_arrays(
        pa.array([0, len(lines) + 1], pa.int64()), pa.concat_arrays([lines, pa.array([""])]).cast(pa.large_string())
    )
    return memoryview(pc.binary_join(whole, pa.scalar("\n", pa.large_string()))[0].as_buffer())


def _quoted(text: Any) -> Any:
    """A column of texts as JSON; null where it is null."""
    import pyarrow.compute as pc

    escaped = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    quoted = pc.binary_join_element_wise('"', escaped, '"', "")
    return pc.fill_null(quoted, "null") if quoted.null_count else quoted


def parse(line: bytes) -> Parsed:
    """Read the line of a record.

    Args:
        line: An object with any of the fields of `FIELDS`; others are an error, as are values of a wrong type. Headers
            are pairs, or an object.

    Raises:
        ArgumentError: The line is not such an object. The text names the field.
    """
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ArgumentError(f"this is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ArgumentError(f"this is not an object with {', '.join(FIELDS)} but a {_kind(found)}")
    if unknown := sorted(found.keys() - {*FIELDS, "deliveryCount", "timestampType"}):
        raise ArgumentError(
            f"{unknown[0]!r} is no field of a record, which has {', '.join(FIELDS)}; "
            "--format json-values sends each line as a value"
        )
    return Parsed(
        topic=_of(found, "topic", str),
        value=bytes_of(found.get("value"), "value"),
        key=bytes_of(found.get("key"), "key"),
        partition=_of(found, "partition", int),
        timestamp=None if found.get("timestamp") == -1 else _of(found, "timestamp", int),
        headers=headers_of(found.get("headers")),
    )


def bytes_of(value: object, name: str) -> bytes | None:
    """The bytes of a key, a value or a header's value: those of text, of base64, or another value of JSON as text."""
    if value is None:
        return None
    if isinstance(value, str):
        return _encoded(value, name)
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ArgumentError(f"{name} is not base64: {error}") from None
    return _encoded(json.dumps(value, ensure_ascii=False, separators=(",", ":")), name)


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{name} has half of a surrogate pair, which is not text") from None


def headers_of(found: object) -> tuple[tuple[str, bytes | None], ...]:
    """Headers: a list of pairs, or an object of names and values.

    Raises:
        ArgumentError: They are something else.
    """
    if found is None:
        return ()
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list):
        raise ArgumentError(f'headers are a list of pairs, as in [["name", "value"]], not a {_kind(found)}')
    made = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ArgumentError(f"a header is a pair of a name and a value, not {json.dumps(pair)}")
        made.append((pair[0], bytes_of(pair[1], f"header {pair[0]!r}")))
    return tuple(made)


def _of(found: dict[str, Any], name: str, kind: type) -> Any:
    value = found.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    wanted = {str: "text", int: "a whole number"}[kind]
    raise ArgumentError(f"{name} is {wanted}, not {json.dumps(value)}")


def _kind(value: object) -> str:
    return {list: "list", str: "string", dict: "object", type(None): "null", bool: "boolean"}.get(type(value), "number")
