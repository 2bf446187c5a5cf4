"""`ottla groups reset`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, output, times
from ottla.cli.topics import resolved
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse

MOVED = output.columns("topic", "partition:number", "old_offset:number", "new_offset:number")
# Names that tables of ours, and files of Kafka's own tool, have for the offset.
OFFSET_NAMES = ("offset", "new_offset", "committed")


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = nouns.verb(
        verbs,
        "reset",
        "move the offsets of a group that has no members",
        """
        ottla groups reset billing --to earliest --dry-run       # prints what would move
        ottla groups reset billing --to latest
        ottla groups reset billing --to 2026-01-31T12:00         # the first record of that time or later
        ottla groups reset billing --to 1h --topic orders        # an hour ago, of one topic
        ottla groups reset billing --to-offset 1000 --topic orders:0,2-4
        ottla groups reset billing --shift=-100                  # reads 100 records again
        ottla groups offsets billing --format csv > billing.csv && ottla groups reset billing --file billing.csv

        What is outside of a log moves to its nearest end. A file has lines TOPIC,PARTITION,OFFSET, or a head that names
        these columns.
        """,
        _reset,
    )
    parser.add_argument("group", type=arguments.name, metavar="GROUP")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", type=_target, metavar="WHERE", help=f"earliest, latest, {times.SINCE}")
    where.add_argument("--to-offset", type=arguments.number(2**63 - 1), metavar="N", help="this offset")
    where.add_argument("--shift", type=int, metavar="N", help="by N offsets, back if N is negative")
    where.add_argument("--file", type=Path, metavar="FILE", help="the offsets of a file")
    parser.add_argument(
        "--topic",
        action="append",
        type=arguments.partitions,
        default=[],
        metavar="TOPIC[:PARTITIONS]",
        help="only these, may be repeated; without it, all that the group has offsets of",
    )
    nouns.dry_run(parser, "only print what would move")


def _target(given: str) -> Any:
    return given if given in ("earliest", "latest") else times.since(given)


def _reset(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        partitions = resolved(admin, options, options.topic)
        if options.failures:
            return
        to: Any = options.to
        if options.file is not None:
            to = read_offsets(options.file)
            if options.topic:
                to = {partition: offset for partition, offset in to.items() if partition in set(partitions)}
                partitions = []
        elif options.to_offset is not None:
            known = partitions or list(admin.list_group_offsets(options.group)[options.group])
            if not known:
                raise ArgumentError(f"group {options.group} has no offsets: say --topic")
            to, partitions = dict.fromkeys(known, options.to_offset), []
        rows = output.settle(
            options,
            lambda: admin.reset_group_offsets(
                options.group, to, shift=options.shift, partitions=partitions, dry_run=options.dry_run
            ),
        )
    moved = rows.values() if isinstance(rows, Mapping) else rows
    output.show(options, MOVED, map(output.plain, moved))


def read_offsets(path: Path) -> dict[ottla.TopicPartition, int]:
    """Read a file of offsets.

    Raises:
        ArgumentError: A line does not name an offset.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [line for line in csv.reader(file) if line]
    at = {"topic": 0, "partition": 1, "offset": 2}
    first = 1
    if lines and "topic" in lines[0] and "partition" in lines[0]:
        names = lines.pop(0)
        first = 2
        offset = next((name for name in OFFSET_NAMES if name in names), None)
        if offset is None:
            raise ArgumentError(f"{path}: there is no column offset, new_offset or committed")
        at = {"topic": names.index("topic"), "partition": names.index("partition"), "offset": names.index(offset)}
    found = {}
    for number, line in enumerate(lines, first):
        try:
            topic, partition, offset = (line[at[name]] for name in ("topic", "partition", "offset"))
            found[ottla.TopicPartition(topic, int(partition))] = int(offset)
        except (IndexError, ValueError):
            raise ArgumentError(f"{path}, line {number}: {','.join(line)!r} is not TOPIC,PARTITION,OFFSET") from None
    if not found:
        raise ArgumentError(f"{path} has no offsets")
    return found
