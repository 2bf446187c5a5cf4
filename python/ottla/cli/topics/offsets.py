"""`ottla topics offsets` and `trim`, and how commands name partitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, offset_files, output, times

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

OFFSETS = output.columns("topic", "partition:number", "start:number", "end:number", "records:number")
AT = output.columns("at:number", "timestamp:time")
TRIMMED = output.columns("topic", "partition:number", "old_start:number", "new_start:number")


def add(verbs: Any) -> None:
    """Add the verbs."""
    _add_trim(verbs)
    _add_offsets(verbs)


def _add_trim(verbs: Any) -> None:
    trim = nouns.verb(
        verbs,
        "trim",
        "delete the oldest records of partitions",
        offset_files.explained(
            """
            ottla topics trim flights --before 1000         # of each partition, the records before offset 1000
            ottla topics trim flights:0,2 --before 7d       # the records older than 7 days, of two partitions
            ottla topics trim flights --before 2026-01-31 --dry-run
            ottla topics trim flights --all
            ottla topics trim --file offsets.csv
            """
        ),
        _trim,
    )
    trim.add_argument("partitions", nargs="*", type=arguments.partitions, metavar="NAME[:PARTITIONS]")
    end = trim.add_mutually_exclusive_group(required=True)
    end.add_argument(
        "--before", type=_before, metavar="OFFSET|TIME", help=f"which are deleted: an offset, {times.SINCE}"
    )
    end.add_argument("--all", action="store_true", help="delete all that are there")
    end.add_argument("--file", type=Path, metavar="FILE", help="the records before the offsets of a file")
    nouns.dry_run(trim, "only print what would be deleted")


def _before(given: str) -> Any:
    return int(given) if given.isdecimal() and len(given) < 13 else times.since(given)


def _add_offsets(verbs: Any) -> None:
    offsets = nouns.verb(
        verbs,
        "offsets",
        "list the offsets of partitions",
        """
        ottla topics offsets flights
        ottla topics offsets flights:0 --at 2026-01-31T12:00      # the first record of that time or later, too
        ottla topics offsets flights --at 1h                      # of an hour ago
        ottla topics offsets flights --at max_timestamp
        """,
        _offsets,
    )
    offsets.add_argument("partitions", nargs="+", type=arguments.partitions, metavar="NAME[:PARTITIONS]")
    offsets.add_argument(
        "--at",
        type=_spec,
        metavar="TIME|NAME",
        help=f"another offset: of {times.SINCE}; or max_timestamp, earliest_local, latest_tiered",
    )
    offsets.add_argument("--committed", action="store_true", help="the end is before records of open transactions")


def _spec(given: str) -> Any:
    return given if "_" in given or given in ("earliest", "latest") else times.since(given)


def resolved(admin: ottla.Admin, options: argparse.Namespace, given: Iterable[Any]) -> list[ottla.TopicPartition]:
    """List the partitions that the command line names; all of a topic that it names without numbers."""
    given = list(given)
    whole = [topic for topic, numbers in given if numbers is None]
    described = output.settle(options, lambda: admin.describe_topics(whole)) if whole else {}
    found: dict[ottla.TopicPartition, None] = {}
    for topic, numbers in given:
        every = described[topic].partitions if topic in described else []
        chosen = [each.partition for each in every] if numbers is None else numbers
        found.update(dict.fromkeys(ottla.TopicPartition(topic, number) for number in chosen))
    return list(found)


def at(partitions: Iterable[ottla.TopicPartition], spec: Any) -> dict[ottla.TopicPartition, Any]:
    """What `Admin.list_offsets` takes, with the same offset or time for each partition."""
    return dict.fromkeys(partitions, spec)


def _looked_up(admin: ottla.Admin, options: argparse.Namespace, partitions: Iterable[Any], spec: Any) -> Any:
    wanted = at(partitions, spec)
    if not wanted:
        return {}
    return output.settle(options, lambda: admin.list_offsets(wanted, isolation_level=arguments.isolation(options)))


def _offsets(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        partitions = resolved(admin, options, options.partitions)
        starts = _looked_up(admin, options, partitions, "earliest")
        ends = _looked_up(admin, options, starts, "latest")
        found = _looked_up(admin, options, ends, options.at) if options.at is not None else {}
    rows = []
    for partition, end in ends.items():
        start = starts[partition].offset
        row = {
            "topic": partition.topic,
            "partition": partition.partition,
            "start": start,
            "end": end.offset,
            "records": end.offset - start,
        }
        if options.at is not None:
            at = found.get(partition)
            row |= {"at": getattr(at, "offset", None), "timestamp": getattr(at, "timestamp", None)}
        rows.append(row)
    output.show(options, OFFSETS + (AT if options.at is not None else []), rows)


def _trim(options: argparse.Namespace) -> None:
    if bool(options.partitions) == bool(options.file):
        options.parser.error("which partitions? name topics, or say --file alone")
    with nouns.admin(options) as admin:
        offsets = offset_files.read_offsets(options.file) if options.file else {}
        partitions = list(offsets) or resolved(admin, options, options.partitions)
        starts = _looked_up(admin, options, partitions, "earliest")
        ends = _looked_up(admin, options, starts, "latest")
        wanted = {partition: end.offset for partition, end in ends.items()}
        if offsets:
            wanted = {partition: offsets[partition] for partition in ends}
        elif isinstance(options.before, int):
            wanted = dict.fromkeys(wanted, options.before)
        elif options.before is not None:
            # There is no record of that time or later where the offset is None: all are older.
            found = _looked_up(admin, options, wanted, options.before)
            wanted = {
                partition: wanted[partition] if at.offset is None else at.offset for partition, at in found.items()
            }
        deleted = wanted
        if not options.dry_run and wanted:
            deleted = output.settle(options, lambda: admin.delete_records(wanted))
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "old_start": starts[partition].offset,
            "new_start": max(offset, starts[partition].offset),
        }
        for partition, offset in deleted.items()
    ]
    output.show(options, TRIMMED, rows)
