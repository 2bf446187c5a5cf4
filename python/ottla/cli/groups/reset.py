"""`ottla groups reset`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, offset_files, output, times
from ottla.cli.topics.offsets import resolved
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse

MOVED = output.columns("topic", "partition:number", "old_offset:number", "new_offset:number")


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = nouns.verb(
        verbs,
        "reset",
        "move the offsets of a group that has no members",
        offset_files.explained(
            """
            ottla groups reset billing --to earliest --dry-run       # prints what would move
            ottla groups reset billing --to latest
            ottla groups reset billing --to 2026-01-31T12:00         # the first record of that time or later
            ottla groups reset billing --to 1h --topic orders        # an hour ago, of one topic
            ottla groups reset billing --to-offset 1000 --topic orders:0,2-4
            ottla groups reset billing --shift=-100                  # reads 100 records again
            ottla groups reset billing --to-group audit              # the offsets of another group
            ottla groups offsets billing --format csv > billing.csv && ottla groups reset billing --file billing.csv

            What is outside of a log moves to its nearest end.
            """
        ),
        _reset,
    )
    parser.add_argument("group", type=arguments.name, metavar="GROUP")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", type=_target, metavar="WHERE", help=f"earliest, latest, {times.SINCE}")
    where.add_argument("--to-offset", type=arguments.number(2**63 - 1), metavar="N", help="this offset")
    where.add_argument("--shift", type=int, metavar="N", help="by N offsets, back if N is negative")
    where.add_argument("--to-group", type=arguments.name, metavar="GROUP", help="what another group has committed")
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
        if options.file is not None or options.to_group is not None:
            to = _read(admin, options)
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


def _read(admin: ottla.Admin, options: argparse.Namespace) -> dict[ottla.TopicPartition, int]:
    """The offsets of the file or of the other group."""
    if options.file is not None:
        return offset_files.read_offsets(options.file)
    committed = admin.list_group_offsets(options.to_group)[options.to_group]
    found = {partition: each.offset for partition, each in committed.items() if each is not None}
    if not found:
        raise ArgumentError(f"group {options.to_group} has no offsets")
    return found
