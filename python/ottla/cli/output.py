"""What commands print: tables for people, and one envelope of JSON for programs."""

from __future__ import annotations

import base64
import csv
import json
import os
import shutil
import sys
import unicodedata
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import streams, times

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
# A column of a table is not narrowed below this.
NARROWEST = 8


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        key: The key of its values in the rows, which is their name in JSON, too.
        kind: `"text"`, `"number"`, `"time"` (milliseconds since 1970 UTC), `"size"` (bytes) or `"duration"` (seconds).
        head: The name in the head of the table; None is the key in capitals.
    """

    key: str
    kind: str = "text"
    head: str | None = None

    @property
    def title(self) -> str:
        """The name in the head of the table."""
        return self.key.replace("_", " ").upper() if self.head is None else self.head


def columns(*names: str) -> list[Column]:
    """Make columns of names; `lag:number` is a column of numbers."""
    return [Column(key, kind or "text") for key, _, kind in (name.partition(":") for name in names)]


# --- results ---


def settle(options: argparse.Namespace, call: Callable[[], Any]) -> Any:
    """Make a call about several items. Failures of some are kept for the end of the command.

    Returns:
        What the call returns, of the items that did not fail.

    Raises:
        KafkaError: The call failed as a whole.
    """
    try:
        return call()
    except ottla.KafkaError as error:
        if not error.failures:
            raise
        options.failures.update(error.failures)
        return error.results


def show(options: argparse.Namespace, shown: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows in the format that the command line chose.

    Args:
        options: The command line.
        shown: The columns of tables; JSON has all keys of the rows.
        rows: The rows. Values are what JSON knows, dataclasses, bytes, or lists and dictionaries of these.
    """
    listed = list(rows)
    chosen = options.shown_as
    if chosen == "json":
        _envelope(options, [plain(row) for row in listed], options.failures)
    elif chosen == "table":
        _table(options, shown, listed)
    elif chosen == "names":
        for row in listed:
            print(_cell(row.get(shown[0].key)))
    else:
        writer = csv.writer(sys.stdout, delimiter="," if chosen == "csv" else "\t", lineterminator="\n")
        if chosen == "csv":
            writer.writerow(column.key for column in shown)
        writer.writerows([_cell(row.get(column.key)) for column in shown] for row in listed)


def done(options: argparse.Namespace, what: str, result: str, items: Iterable[Any]) -> None:
    """Print what was done to each item that is not among the failures.

    Args:
        options: The command line.
        what: What an item is, such as `"topic"`.
        result: What was done, such as `"created"`.
        items: Names, or other keys of failures.
    """
    if getattr(options, "dry_run", False):
        result = f"can be {result}"
    good = [name(item) for item in items if item not in options.failures]
    if options.shown_as == "json":
        _envelope(options, [{what.replace(" ", "_"): item, "result": result} for item in good], options.failures)
        return
    for item in good:
        print(f"{what} {item}: {result}")


def report(options: argparse.Namespace, failures: Mapping[Any, Exception]) -> None:
    """Print failures to standard error, and in JSON to standard output if the command has printed nothing there."""
    for item, error in failures.items():
        text = str(error)
        where = name(item)
        named = text if not where or where in text else f"{where}: {text}"
        streams.print_error(f"ottla: {named}{_hint(options, item, error)}")
    if options.shown_as == "json" and not options.printed:
        _envelope(options, [], failures)


def _hint(options: argparse.Namespace, item: Any, error: Exception) -> str:
    given = getattr(item, "topic", None) or getattr(item, "name", None) or item or getattr(error, "topic", None)
    return str(options.hints.get(given, "")) if isinstance(given, str) else ""


def name(item: Any) -> str:
    """The name of an item, which is the key of a failure."""
    if isinstance(item, str):
        return item
    if isinstance(item, ottla.TopicPartition):
        return f"{item.topic}:{item.partition}"
    if hasattr(item, "type") and hasattr(item, "name"):
        return f"{item.type.lower()} {item.name}".rstrip()
    if is_dataclass(item):
        return " ".join(str(getattr(item, field.name)) for field in fields(item))
    if isinstance(item, tuple):
        return " ".join(f"{key} {value}" for key, value in item)
    return str(item)


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, ottla.TopicPartition):
        return {"topic": value.topic, "partition": value.partition}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {name(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(each) for each in value)
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


# --- JSON ---


def _envelope(options: argparse.Namespace, items: list[Any], failures: Mapping[Any, Exception]) -> None:
    options.printed = True
    envelope = {
        "command": options.parser.prog.removeprefix("ottla "),
        "items": items,
        "failures": [_failure(item, error) for item, error in failures.items()],
    }
    print(json.dumps(envelope, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def _failure(item: Any, error: Exception) -> dict[str, Any]:
    return {
        "item": name(item) or None,
        "error": type(error).__name__,
        "name": getattr(error, "name", None),
        "code": getattr(error, "code", None),
        "retriable": getattr(error, "retriable", False),
        "message": str(error),
    }


# --- tables ---


def _table(options: argparse.Namespace, shown: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        if sys.stderr.isatty():
            streams.print_error("nothing found")
        return
    for line in table_lines(options, shown, rows):
        print(line)


def table_lines(options: argparse.Namespace, shown: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a table with its head; none if there are no rows."""
    if not rows:
        return []
    colours = coloured()
    cells = [[_shown(row.get(column.key), column.kind, utc=options.utc) for column in shown] for row in rows]
    titles = [column.title for column in shown]
    widths = [max(map(wide, texts)) for texts in zip(titles, *cells, strict=True)]
    if sys.stdout.isatty():
        _narrow(widths, shown, shutil.get_terminal_size().columns)
    right = {i for i, column in enumerate(shown) if column.kind in ("number", "size", "duration")}
    head = _line(titles, widths, right)
    return [
        f"{BOLD}{head}{PLAIN}" if colours else head,
        *(_line(line, widths, right, dim=colours) for line in cells),
    ]


def coloured() -> bool:
    """Whether standard output is a terminal that shows colours."""
    return (
        sys.stdout.isatty()
        and "NO_COLOR" not in os.environ
        and os.environ.get("TERM") != "dumb"
        and (os.name != "nt" or "WT_SESSION" in os.environ)
    )


def _narrow(widths: list[int], shown: Sequence[Column], screen: int) -> None:
    """Narrow the widest columns of text until a line fits the screen."""
    texts = [i for i, column in enumerate(shown) if column.kind == "text"]
    while sum(widths) + 2 * (len(widths) - 1) > screen and texts:
        widest = max(texts, key=lambda i: widths[i])
        if widths[widest] <= NARROWEST:
            return
        widths[widest] -= 1


def _line(texts: Sequence[str], widths: Sequence[int], right: Collection[int], *, dim: bool = False) -> str:
    cells = []
    for i, (text, width) in enumerate(zip(texts, widths, strict=True)):
        cut = _cut(text, width)
        space = " " * (width - wide(cut))
        if dim and cut == "-":
            cut = f"{DIM}-{PLAIN}"
        cells.append(space + cut if i in right else cut + space)
    return "  ".join(cells).rstrip()


def _cut(text: str, width: int) -> str:
    if wide(text) <= width:
        return text
    while wide(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def wide(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _shown(value: Any, kind: str, *, utc: bool) -> str:
    if value is None or value == "":
        return "-"
    if kind == "time":
        return times.shown(value, utc=utc)
    if kind == "size":
        return size(value)
    if kind == "duration":
        return times.duration_shown(value)
    if kind == "number" and isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in _cell(value)) or "-"


def _cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        if value and all(isinstance(each, dict) and each.keys() == {"topic", "partition"} for each in value):
            return _ranges(value)
        return ",".join(map(_cell, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={_cell(each)}" for key, each in value.items())
    return str(value)


def _ranges(partitions: Sequence[Mapping[str, Any]]) -> str:
    """Partitions as the command line takes them: `orders:0-3,5 flights:0`."""
    topics: dict[str, list[list[int]]] = {}
    for topic, number in sorted((each["topic"], each["partition"]) for each in partitions):
        ranges = topics.setdefault(topic, [])
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(
        f"{topic}:{','.join(f'{first}-{last}' if last > first else str(first) for first, last in ranges)}"
        for topic, ranges in topics.items()
    )


def size(count: float) -> str:
    """A number of bytes, for people."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} EiB"
