"""`ottla share-groups`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli import arguments, nouns, offset_files, output, patterns, times
from ottla.cli.groups import GROUPS, delete, matching, show_groups
from ottla.cli.topics.offsets import at, resolved

if TYPE_CHECKING:
    import argparse

    import ottla

OFFSETS = output.columns("group", "topic", "partition:number", "start_offset:number", "lag:number")
SET = output.columns("topic", "partition:number", "start_offset:number")
SHARE = ("share",)


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "share-groups",
        "list share groups, and move where they begin to read",
        """
        ottla share-groups
        ottla share-groups offsets workers
        ottla share-groups reset workers --topic jobs --to earliest --dry-run
        """,
        _list,
        state=[],
    )
    listing = nouns.verb(verbs, "list", "list share groups", "ottla share-groups list --state Empty", _list)
    listing.add_argument("--state", action="append", default=[], metavar="NAME", help="only groups in this state")

    def of_groups(name: str, summary: str, examples: str, run: nouns.Run) -> argparse.ArgumentParser:
        parser = nouns.verb(verbs, name, summary, examples, run)
        parser.add_argument("groups", nargs="+", type=arguments.name, metavar="GROUP")
        patterns.option(parser)
        return parser

    of_groups("describe", "describe share groups and their members", "ottla share-groups describe workers", _describe)
    of_groups("offsets", "list where share groups begin to read", "ottla share-groups offsets workers", _offsets)
    gone = of_groups("delete", "delete share groups without members", "ottla share-groups delete workers", _delete)
    nouns.dry_run(gone, "only print which would be deleted")
    reset = nouns.verb(
        verbs,
        "reset",
        "set where a share group without members begins to read",
        offset_files.explained(
            """
            ottla share-groups reset workers --topic jobs --to earliest --dry-run
            ottla share-groups reset workers --topic jobs:0 --to 1h
            ottla share-groups reset workers --topic jobs --to-offset 100
            ottla share-groups reset workers --file offsets.csv
            """
        ),
        _reset,
    )
    reset.add_argument("group", type=arguments.name, metavar="GROUP")
    reset.add_argument(
        "--topic",
        action="append",
        default=[],
        type=arguments.partitions,
        metavar="TOPIC[:PARTITIONS]",
        help="which, may be repeated; without it, all of the file",
    )
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", type=_target, metavar="WHERE", help=f"earliest, latest, {times.SINCE}")
    where.add_argument("--to-offset", type=arguments.number(2**63 - 1), metavar="N", help="this offset")
    where.add_argument("--file", type=Path, metavar="FILE", help="the offsets of a file")
    nouns.dry_run(reset, "only print the offsets")
    forget = nouns.verb(
        verbs,
        "delete-offsets",
        "make a share group without members forget topics",
        "ottla share-groups delete-offsets workers jobs",
        _delete_offsets,
    )
    forget.add_argument("group", type=arguments.name, metavar="GROUP")
    forget.add_argument("topics", nargs="+", type=arguments.name, metavar="TOPIC")


def _target(given: str) -> Any:
    return given if given in ("earliest", "latest") else times.since(given)


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.list_groups(states=options.state, types="share")
    rows = [
        {"group": row.group_id, "type": row.type, "state": row.state, "protocol_type": row.protocol_type}
        for row in found
    ]
    output.show(options, GROUPS, rows)


def _describe(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        names = matching(admin, options, SHARE)
        found = output.settle(options, lambda: admin.describe_share_groups(names))
    show_groups(options, [found[name] for name in names if name in found])


def _offsets(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        names = matching(admin, options, SHARE)
        found = output.settle(options, lambda: admin.list_share_group_offsets(names))
    rows = [
        {"group": group, **output.plain(partition), **output.plain(offset)}
        for group, offsets in found.items()
        for partition, offset in sorted(offsets.items())
    ]
    output.show(options, OFFSETS, rows)


def _delete(options: argparse.Namespace) -> None:
    delete(options, SHARE)


def _reset(options: argparse.Namespace) -> None:
    if not (options.topic or options.file):
        options.parser.error("which topic? say --topic")
    with nouns.admin(options) as admin:
        partitions = resolved(admin, options, options.topic)
        offsets: dict[ottla.TopicPartition, Any] = dict.fromkeys(partitions, options.to_offset)
        if options.file:
            offsets = offset_files.read_offsets(options.file)
            offsets = {each: offset for each, offset in offsets.items() if not options.topic or each in partitions}
        if options.to is not None and partitions:
            found = output.settle(options, lambda: admin.list_offsets(at(partitions, options.to)))
            late = [partition for partition, first in found.items() if first.offset is None]
            ends = admin.list_offsets(at(late, "latest")) if late else {}
            offsets = {partition: first.offset for partition, first in {**found, **ends}.items()}
        if offsets and not options.dry_run:
            output.settle(options, lambda: admin.alter_share_group_offsets(options.group, offsets))
    rows = [
        {**output.plain(partition), "start_offset": offset}
        for partition, offset in offsets.items()
        if partition not in options.failures
    ]
    output.show(options, SET, rows)


def _delete_offsets(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        output.settle(options, lambda: admin.delete_share_group_offsets(options.group, options.topics))
    output.done(options, "topic", "forgotten", options.topics)
