"""`ottla groups`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, offset_files, output, patterns
from ottla.cli.groups import peek, reset
from ottla.errors import NotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterator

GROUPS = output.columns("group", "type", "state", "protocol_type")
MEMBERS = output.columns("group", "member_id", "instance_id", "client_id", "host", "partitions")
LAG = output.columns(
    "group", "topic", "partition:number", "committed:number", "end_offset:number", "lag:number", "client_id", "host"
)
SUMMARY = output.columns("group", "topics:number", "partitions:number", "lag:number")
OFFSETS = output.columns("group", "topic", "partition:number", "offset:number", "leader_epoch:number", "metadata")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "groups",
        "list groups, show their lag, and move their offsets",
        """
        ottla groups                                 # all groups
        ottla groups lag billing                     # how far it is behind
        ottla groups reset billing --to 1h --dry-run
        """,
        _list,
        state=[],
        type=[],
    )
    listing = nouns.verb(
        verbs,
        "list",
        "list groups",
        """
        ottla groups list
        ottla groups list --state Empty --type consumer
        ottla groups list --format names
        """,
        _list,
    )
    listing.add_argument("--state", action="append", default=[], metavar="NAME", help="only groups in this state")
    listing.add_argument(
        "--type",
        action="append",
        default=[],
        choices=["classic", "consumer", "share", "streams"],
        help="only groups of this type",
    )

    def of_groups(name: str, summary: str, examples: str, run: nouns.Run) -> argparse.ArgumentParser:
        parser = nouns.verb(verbs, name, summary, examples, run)
        parser.add_argument("groups", nargs="+", type=arguments.name, metavar="GROUP")
        return parser

    describe = of_groups(
        "describe",
        "describe groups and their members",
        """
        ottla groups describe billing
        ottla groups describe -r 'billing-.*'
        """,
        _describe,
    )
    patterns.option(describe)
    lag = nouns.verb(
        verbs,
        "lag",
        "show how many records groups have still to read",
        """
        ottla groups lag billing
        ottla groups lag --all --summary             # a line for each group, the largest lag first
        ottla groups lag --all --topic orders        # the groups that read a topic
        ottla groups lag billing --format json | jq '[.items[].lag] | add'
        """,
        _lag,
    )
    lag.add_argument("groups", nargs="*", type=arguments.name, metavar="GROUP")
    patterns.option(lag)
    lag.add_argument("--all", action="store_true", help="all groups of consumers, as without a GROUP")
    lag.add_argument(
        "--topic",
        action="append",
        type=arguments.name,
        default=[],
        metavar="TOPIC",
        help="only of this topic, may be repeated",
    )
    lag.add_argument("--summary", action="store_true", help="a line for each group")
    lag.add_argument("--committed", action="store_true", help="the end is before records of open transactions")
    of_groups(
        "offsets",
        "list the offsets that groups have committed",
        """
        ottla groups offsets billing
        ottla groups offsets billing --format csv > billing.csv    # `groups reset --file` reads it
        """,
        _offsets,
    )
    reset.add(verbs)
    peek.add(verbs)
    delete = of_groups(
        "delete",
        "delete groups without members, with their offsets",
        """
        ottla groups delete billing
        ottla groups delete -r 'test-.*' --dry-run   # prints the groups that a pattern matches
        """,
        _delete,
    )
    patterns.option(delete)
    nouns.dry_run(delete, "only print which would be deleted")
    forget = nouns.verb(
        verbs,
        "delete-offsets",
        "delete offsets of topics that no member reads",
        """
        ottla groups delete-offsets billing orders
        ottla groups delete-offsets billing orders:0,2 audit
        ottla groups delete-offsets billing --file partitions.csv   # lines TOPIC,PARTITION
        """,
        _delete_offsets,
    )
    forget.add_argument("group", type=arguments.name, metavar="GROUP")
    forget.add_argument("partitions", nargs="*", type=arguments.partitions, metavar="TOPIC[:PARTITIONS]")
    forget.add_argument("--file", type=Path, metavar="FILE", help="the partitions of a file")
    remove = nouns.verb(
        verbs,
        "remove-members",
        "remove members from a group of the classic protocol; one that still runs joins again",
        """
        ottla groups remove-members billing --instance billing-1
        ottla groups remove-members billing --all
        """,
        _remove,
    )
    remove.add_argument("group", type=arguments.name, metavar="GROUP")
    who = remove.add_mutually_exclusive_group(required=True)
    who.add_argument(
        "--instance", action="append", type=arguments.name, metavar="ID", help="group.instance.id, may be repeated"
    )
    who.add_argument("--all", action="store_true", help="all members")
    remove.add_argument("--reason", default="removed by an administrator", metavar="TEXT", help="what the broker logs")


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.list_groups(states=options.state, types=options.type)
    output.show(
        options,
        GROUPS,
        [
            {"group": row.group_id, "type": row.type, "state": row.state, "protocol_type": row.protocol_type}
            for row in found
        ],
    )


def _describe(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        types = {group.group_id: group.type for group in admin.list_groups()}
        names = patterns.chosen(options, options.groups, lambda: types, "group")
        streams = [group for group in names if types.get(group) == "streams"]
        share = [group for group in names if types.get(group) == "share"]
        others = [group for group in names if group not in {*streams, *share}]
        found: dict[str, Any] = {}
        if others:
            found |= output.settle(options, lambda: admin.describe_groups(others))
        if share:
            found |= output.settle(options, lambda: admin.describe_share_groups(share))
        if streams:
            found |= output.settle(options, lambda: admin.describe_streams_groups(streams))
    show_groups(options, [found[name] for name in names if name in found])


def matching(admin: ottla.Admin, options: argparse.Namespace, types: Collection[str] = ()) -> list[str]:
    """List the groups that the command line names or, with `--regex`, chooses among those of these types."""

    def known() -> Iterator[str]:
        return (group.group_id for group in admin.list_groups(types=types))

    return patterns.chosen(options, options.groups, known, "group")


def show_groups(options: argparse.Namespace, described: list[Any]) -> None:
    """Print groups with their members."""
    members = {group.group_id: [_member(group.group_id, each) for each in group.members] for group in described}
    if options.shown_as == "json":
        # What members sent in the form of their protocol is bytes that only that protocol reads.
        items = [{**output.plain(group), "members": members[group.group_id]} for group in described]
        output.show(options, MEMBERS, items)
        return
    if options.shown_as != "table":
        output.show(options, MEMBERS, [row for rows in members.values() for row in rows])
        return
    for group in described:
        kind = getattr(group, "type", "streams")
        rows = members[group.group_id]
        number = f"{len(rows)} member{'' if len(rows) == 1 else 's'}"
        facts = [
            f"{kind} group",
            group.state,
            getattr(group, "protocol", ""),
            f"coordinator {group.coordinator}",
            number,
        ]
        print(f"{group.group_id}  {', '.join(filter(None, facts))}")
        if rows:
            output.show(options, MEMBERS[1:], rows)


def _member(group: str, member: Any) -> dict[str, Any]:
    if isinstance(member, ottla.StreamsMember):
        partitions: Any = [f"{task}_{number}" for task, number in member.tasks.active]
    else:
        partitions = member.assignment
    return {
        "group": group,
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.client_host.removeprefix("/"),
        "rack": member.rack,
        "epoch": member.epoch,
        "partitions": partitions,
    }


def _lag(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        names = options.groups
        if options.all or options.regex or not names:
            every = [
                group.group_id
                for group in admin.list_groups()
                if group.protocol_type in ("consumer", "") and group.type in ("classic", "consumer", None)
            ]
            is_pattern = options.regex and not options.all
            names = patterns.chosen(options, options.groups, lambda: every, "group") if is_pattern else every
        isolation = arguments.isolation(options)
        found = output.settle(options, lambda: admin.lag(names, isolation_level=isolation)) if names else []
    # Of a call of which a part failed, the results are by group.
    rows = [row for rows in found.values() for row in rows] if isinstance(found, Mapping) else list(found)
    if options.topic:
        rows = [row for row in rows if row.topic in options.topic]
    if options.summary:
        output.show(options, SUMMARY, summary(rows))
        return
    items = [{**output.plain(row), "host": (row.client_host or "").removeprefix("/") or None} for row in rows]
    output.show(options, LAG, items)


def summary(rows: list[ottla.GroupLag]) -> list[dict[str, Any]]:
    """A row for each group, the largest lag first."""
    groups: dict[str, list[ottla.GroupLag]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    found = [
        {
            "group": group,
            "topics": len({row.topic for row in lags}),
            "partitions": len(lags),
            "lag": sum(row.lag or 0 for row in lags),
        }
        for group, lags in groups.items()
    ]
    return sorted(found, key=lambda row: -row["lag"])


def _offsets(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = output.settle(options, lambda: admin.list_group_offsets(options.groups))
    rows = [
        {"group": group, **output.plain(partition), **output.plain(offset)}
        for group, offsets in found.items()
        for partition, offset in sorted(offsets.items())
        if offset is not None
    ]
    output.show(options, OFFSETS, rows)


def _delete(options: argparse.Namespace) -> None:
    delete(options)


def delete(options: argparse.Namespace, types: Collection[str] = ()) -> None:
    """Delete groups of these types, or of all types."""
    with nouns.admin(options) as admin:
        names = matching(admin, options, types)
        if options.dry_run:
            there = {group.group_id for group in admin.list_groups(types=types)}
            missing = [name for name in names if name not in there]
            options.failures.update((name, NotFoundError(f"group {name} does not exist")) for name in missing)
        else:
            output.settle(options, lambda: admin.delete_groups(names))
    output.done(options, "group", "deleted", names)


def _delete_offsets(options: argparse.Namespace) -> None:
    from ottla.cli.topics.offsets import resolved

    if bool(options.partitions) == bool(options.file):
        options.parser.error("which partitions? name topics, or say --file alone")
    with nouns.admin(options) as admin:
        if options.file:
            partitions = offset_files.read_partitions(options.file)
        else:
            partitions = resolved(admin, options, options.partitions)
        output.settle(options, lambda: admin.delete_group_offsets(options.group, partitions))
    output.done(options, "partition", "forgotten", partitions)


def _remove(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        gone = options.instance
        if options.all:
            described = admin.describe_groups(options.group)[options.group]
            gone = [each.group_instance_id or each.member_id for each in described.members]
        wanted = None if options.all else options.instance
        if gone:
            output.settle(options, lambda: admin.remove_group_members(options.group, wanted, reason=options.reason))
    output.done(options, "member", "removed", gone)
