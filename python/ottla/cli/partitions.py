"""`ottla partitions`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import ottla
from ottla.cli import arguments, nouns, output
from ottla.cli.topics.offsets import resolved
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse

MOVES = output.columns("topic", "partition:number", "replicas", "adding", "removing")
PLAN = output.columns("topic", "partition:number", "current", "replicas")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "partitions",
        "elect leaders of partitions, and move their replicas",
        """
        ottla partitions                              # replicas that are moving now
        ottla partitions elect orders
        ottla partitions plan orders --brokers 1,2,3 --format json > plan.json
        ottla partitions reassign --file plan.json
        """,
        _list,
    )
    nouns.verb(verbs, "list", "list replicas that are moving", "ottla partitions list", _list)
    elect = nouns.verb(
        verbs,
        "elect",
        "elect leaders: the first replica of each partition",
        """
        ottla partitions elect orders
        ottla partitions elect --all
        ottla partitions elect orders:0 --unclean     # a replica that may have lost records, where no other is there
        """,
        _elect,
    )
    elect.add_argument("partitions", nargs="*", type=arguments.partitions, metavar="TOPIC[:PARTITIONS]")
    elect.add_argument("--all", action="store_true", help="of all partitions")
    elect.add_argument("--unclean", action="store_true", help="a replica that is not in sync, where no other is there")
    plan = nouns.verb(
        verbs,
        "plan",
        "plan which replicas to move, so that brokers and racks have equally many; nothing is changed",
        """
        ottla partitions plan orders --brokers 1,2,3
        ottla partitions plan orders --brokers 1,2,3 --replication 3 --format json > plan.json
        """,
        _plan,
    )
    plan.add_argument("topics", nargs="+", type=arguments.name, metavar="TOPIC")
    plan.add_argument(
        "--brokers", type=arguments.brokers, metavar="ID,ID", help="those that get replicas (default: all)"
    )
    plan.add_argument("--replication", type=arguments.count, metavar="N", help="(default: as it is)")
    move = nouns.verb(
        verbs,
        "reassign",
        "move replicas of partitions to other brokers",
        """
        ottla partitions reassign orders:0 --to 2,3,1     # the preferred leader first
        ottla partitions reassign --file plan.json        # of `plan`, or of kafka-reassign-partitions
        ottla partitions reassign orders --cancel
        ottla partitions                                  # what is under way
        """,
        _reassign,
    )
    move.add_argument("partitions", nargs="*", type=arguments.partitions, metavar="TOPIC[:PARTITIONS]")
    where = move.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", type=arguments.brokers, metavar="ID,ID", help="the brokers of all these partitions")
    where.add_argument("--file", type=Path, metavar="FILE", help="a plan in JSON")
    where.add_argument("--cancel", action="store_true", help="undo what is under way")
    nouns.dry_run(move, "only print what would move")


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.list_partition_reassignments()
    rows = [{**output.plain(partition), **output.plain(each)} for partition, each in sorted(found.items())]
    output.show(options, MOVES, rows)


def _elect(options: argparse.Namespace) -> None:
    if bool(options.partitions) == options.all:
        options.parser.error("which partitions? name topics, or say --all")
    with nouns.admin(options) as admin:
        wanted = None if options.all else resolved(admin, options, options.partitions)
        kind: Literal["PREFERRED", "UNCLEAN"] = "UNCLEAN" if options.unclean else "PREFERRED"
        elected = output.settle(options, lambda: admin.elect_leaders(kind, wanted)) if wanted != [] else {}
    output.done(options, "partition", "has its leader", sorted(elected))


def _plan(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        plan = admin.plan_reassignment(options.topics, brokers=options.brokers, replication=options.replication)
    rows = [
        {"topic": move.topic, "partition": move.partition, "current": move.current, "replicas": move.planned}
        for move in plan.moves
    ]
    output.show(options, PLAN, rows)


def _read(path: Path) -> dict[ottla.TopicPartition, list[int]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        rows = content.get("partitions", content.get("items"))
        return {ottla.TopicPartition(row["topic"], row["partition"]): list(row["replicas"]) for row in rows}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ArgumentError(
            f'{path} is not a plan: write {{"partitions": [{{"topic": "orders", "partition": 0, "replicas": [1, 2]}}]}}'
        ) from None


def _reassign(options: argparse.Namespace) -> None:
    if bool(options.partitions) == bool(options.file):
        options.parser.error("which partitions? name topics, or say --file alone")
    with nouns.admin(options) as admin:
        targets: dict[ottla.TopicPartition, list[int] | None]
        if options.file:
            targets = dict(_read(options.file))
        else:
            targets = dict.fromkeys(resolved(admin, options, options.partitions), options.to)
        if targets and not options.dry_run:
            output.settle(options, lambda: admin.alter_partition_reassignments(targets))
    to = {partition: replicas for partition, replicas in targets.items() if partition not in options.failures}
    if options.dry_run:
        rows = [{**output.plain(partition), "replicas": replicas} for partition, replicas in to.items()]
        output.show(options, [*PLAN[:2], PLAN[3]], rows)
        return
    output.done(options, "partition", "stays" if options.cancel else "moves", to)
