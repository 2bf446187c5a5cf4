"""A batch, and what is decoded of it, as notebooks show them: a table in HTML."""

from __future__ import annotations

import codecs
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla._ottla import Batch, Decoded, Record

# Records at the beginning and at the end of a batch that has more than both.
_SHOWN = 5
# Bytes of a key or value, and headers of a record.
_BYTES = 60
_HEADERS = 3

_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def table(batch: Batch) -> str:
    """Make the table.

    Args:
        batch: The records. Of more than ten, the first and the last five are shown.

    Returns:
        HTML, in which everything that the records bring is escaped.
    """
    heads = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    partitions = len(batch.partitions)
    caption = f"{_number(len(batch), 'record')} of {_number(partitions, 'partition')}"
    return (
        f"<table><caption>Batch: {caption}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(_rows(batch))}</tbody></table>"
    )


def decoded_table(decoded: Decoded) -> str:
    """Make the table of typed columns.

    Args:
        decoded: The rows. Of more than ten, the first and the last five are shown.

    Returns:
        HTML, in which everything that the records bring is escaped.
    """
    rows = decoded.to_arrow()
    heads = "".join(f"<th>{escape(field.name)}<br><i>{escape(str(field.type))}</i></th>" for field in rows.schema)
    left_out = len(rows) - 2 * _SHOWN
    parts = [rows] if left_out <= 0 else [rows[:_SHOWN], rows[-_SHOWN:]]
    shown = [[_value_row(row) for row in part.to_pylist()] for part in parts]
    gap = f'<tr><td colspan="{len(rows.schema)}">… {_number(left_out, "row")} …</td></tr>'
    caption = f"{_number(len(rows), 'row')}, {_number(len(decoded.bad), 'bad record')}"
    return (
        f"<table><caption>Decoded: {caption}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{gap.join(map(''.join, shown))}</tbody></table>"
    )


def _value_row(row: dict[str, object]) -> str:
    return f"<tr>{''.join(f'<td>{_value(value)}</td>' for value in row.values())}</tr>"


def _value(value: object) -> str:
    if value is None or isinstance(value, bytes):
        return _bytes(value)
    text = str(value)
    return escape(text[:_BYTES]) + ("…" if len(text) > _BYTES else "")


def _rows(batch: Batch) -> Iterator[str]:
    left_out = len(batch) - 2 * _SHOWN
    if left_out <= 0:
        yield from map(_row, batch)
        return
    yield from map(_row, batch[:_SHOWN])
    yield f'<tr><td colspan="{len(_COLUMNS)}">… {_number(left_out, "record")} …</td></tr>'
    yield from map(_row, batch[-_SHOWN:])


def _row(record: Record) -> str:
    cells = (
        escape(record.topic),
        str(record.partition),
        str(record.offset),
        _time(record.timestamp),
        _bytes(record.key),
        _bytes(record.value),
        _headers(record.headers),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _time(milliseconds: int) -> str:
    if milliseconds < 0:
        return ""
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return time.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def _bytes(value: bytes | None) -> str:
    """What is UTF-8 as text, and other bytes as Python writes them."""
    if value is None:
        return "<i>null</i>"
    start = value[:_BYTES]
    cut = len(start) < len(value)
    try:
        # The last character may be cut in two.
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=not cut)
    except UnicodeDecodeError:
        text = repr(start)
    # Numbers are often UTF-8 too, of characters that nobody sees.
    if not all(letter.isprintable() or letter in "\n\r\t" for letter in text):
        text = repr(start)
    return escape(text) + (f"… ({len(value):,} bytes)" if cut else "")


def _headers(headers: list[tuple[str, bytes | None]]) -> str:
    shown = [f"{_bytes(name.encode())}: {_bytes(value)}" for name, value in headers[:_HEADERS]]
    more = len(headers) - _HEADERS
    return ", ".join([*shown, f"… {more} more"] if more > 0 else shown)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def rows_table(names: list[str], rows: list[list[object]]) -> str:
    """Make the table of rows that a call returned.

    Args:
        names: The names of the columns.
        rows: The rows. Of more than ten, the first and the last five are shown.

    Returns:
        HTML, in which everything that brokers return is escaped.
    """
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    shown = [f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows]
    left_out = len(shown) - 2 * _SHOWN
    if left_out > 0:
        gap = f'<tr><td colspan="{len(names)}">… {_number(left_out, "row")} …</td></tr>'
        shown = [*shown[:_SHOWN], gap, *shown[-_SHOWN:]]
    return (
        f"<table><caption>{_number(len(rows), 'row')}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(shown)}</tbody></table>"
    )


def _cell(value: object) -> str:
    return "" if value is None else _value(value)
