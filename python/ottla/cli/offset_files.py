"""Files that name partitions, with or without an offset."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

HELP = """\
A file has lines TOPIC,PARTITION,OFFSET, with or without a head that names these columns; the same with spaces or
tabs; or JSON, as --format json and Kafka's tools write it."""

# Names that tables of ours, and files of Kafka's own tool, have for the offset.
OFFSET_NAMES = ("offset", "new_offset", "committed")


def explained(examples: str) -> str:
    """Examples of a verb, and what its file is."""
    return f"{arguments.text(examples)}\n\n{HELP}"


def read_offsets(path: Path) -> dict[ottla.TopicPartition, int]:
    """Read a file of offsets.

    Raises:
        ArgumentError: A line does not name an offset.
    """
    return dict(_rows(path, ("topic", "partition", "offset")))


def read_partitions(path: Path) -> list[ottla.TopicPartition]:
    """Read a file of partitions. It may have offsets, too.

    Raises:
        ArgumentError: A line does not name a partition.
    """
    return [partition for partition, _ in _rows(path, ("topic", "partition"))]


def _rows(path: Path, wanted: tuple[str, ...]) -> list[tuple[ottla.TopicPartition, int]]:
    text = path.read_text(encoding="utf-8-sig")
    found = _of_json(path, text, wanted) if text.lstrip()[:1] in ("[", "{") else _of_lines(path, text, wanted)
    if not found:
        raise ArgumentError(f"{path} has no {wanted[-1]}s")
    return found


def _of_json(path: Path, text: str, wanted: tuple[str, ...]) -> list[tuple[ottla.TopicPartition, int]]:
    try:
        content = json.loads(text)
        rows = content if isinstance(content, list) else content.get("partitions", content.get("items"))
        return [_row([row[_key(row, name)] for name in wanted]) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError):
        example = ", ".join(f'"{name}": {value}' for name, value in zip(wanted, ('"orders"', 0, 5), strict=False))
        raise ArgumentError(f"{path} does not name {wanted[-1]}s: write [{{{example}}}]") from None


def _of_lines(path: Path, text: str, wanted: tuple[str, ...]) -> list[tuple[ottla.TopicPartition, int]]:
    lines = _fields(text)
    at = {name: place for place, name in enumerate(wanted)}
    if lines and {"topic", "partition"} <= set(lines[0][1]):
        names = lines.pop(0)[1]
        try:
            at = {name: names.index(_key(names, name)) for name in wanted}
        except KeyError:
            raise ArgumentError(f"{path}: there is no column offset, new_offset or committed") from None
    found = []
    for number, line in lines:
        try:
            found.append(_row([line[at[name]] for name in wanted]))
        except (IndexError, ValueError):
            shape = ",".join(wanted).upper()
            raise ArgumentError(f"{path}, line {number}: {','.join(line)!r} is not {shape}") from None
    return found


def _fields(text: str) -> list[tuple[int, list[str]]]:
    """The fields of each line that is not empty, with the number of the line."""
    if "," not in text.lstrip().partition("\n")[0]:
        return [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    reader = csv.reader(io.StringIO(text, newline=""))
    return [(reader.line_num, line) for line in reader if line]


def _key(names: Any, wanted: str) -> str:
    """The name that the offset has among `names`; the others have only one.

    Raises:
        KeyError: It has none.
    """
    candidates = OFFSET_NAMES if wanted == "offset" else (wanted,)
    for name in candidates:
        if name in names:
            return name
    raise KeyError(wanted)


def _row(values: list[Any]) -> tuple[ottla.TopicPartition, int]:
    topic, partition, *offset = values
    return ottla.TopicPartition(str(topic), int(partition)), int(offset[0]) if offset else -1
