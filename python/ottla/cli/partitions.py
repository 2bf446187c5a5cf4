"""`ottla partitions`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import ottla
from ottla._rows import Rows
from ottla.cli import arguments, nouns, output, units
from ottla.cli.topics.offsets import resolved
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla import ReplicaMove

MOVES = output.columns("topic", "partition:number", "replicas", "adding", "removing")
PLAN = output.columns("topic", "partition:number", "current", "replicas")
PROGRESS = output.columns("topic", "partition:number", "state", "replicas", "adding", "removing")
# Seconds that the metadata of brokers may be behind the controller, which knows first that a move is done.
BEHIND = 2.0


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
        ottla partitions reassign --file plan.json --throttle 50MiB
        ottla partitions verify --file plan.json      # how far it is; removes the throttle at the end
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
        ottla partitions reassign --file plan.json --throttle 50MiB    # again with another number changes it
        ottla partitions reassign orders --cancel
        ottla partitions                                  # what is under way
        """,
        _reassign,
    )
    _targets(move).add_argument("--cancel", action="store_true", help="undo what is under way")
    move.add_argument(
        "--throttle",
        type=_rate,
        metavar="BYTES",
        help="bytes a second that a broker sends and gets for the moves, such as 50MiB, until `verify` removes it",
    )
    nouns.dry_run(move, "only print what would move")
    verify = nouns.verb(
        verbs,
        "verify",
        "compare partitions with a plan, and remove the throttle when nothing moves any more",
        """
        ottla partitions verify --file plan.json
        ottla partitions verify orders:0 --to 2,3,1
        """,
        _verify,
    )
    _targets(verify)
    verify.add_argument("--keep-throttle", action="store_true", help="do not remove the throttle")


def _targets(parser: argparse.ArgumentParser) -> Any:
    parser.add_argument("partitions", nargs="*", type=arguments.partitions, metavar="TOPIC[:PARTITIONS]")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", type=arguments.brokers, metavar="ID,ID", help="the brokers of all these partitions")
    where.add_argument("--file", type=Path, metavar="FILE", help="a plan in JSON")
    return where


def _rate(given: str) -> int:
    rate = int(given) if given.isdecimal() else units.size(given) or 0
    if not 0 < rate < 2**63:
        raise argparse.ArgumentTypeError(f"{given!r} is not a number of bytes a second: write 1048576, 50MiB or 1GiB")
    return rate


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


def _wanted(admin: ottla.Admin, options: argparse.Namespace) -> dict[ottla.TopicPartition, list[int]]:
    """The brokers of each partition that the command line names; with `--cancel` None."""
    if bool(options.partitions) == bool(options.file):
        options.parser.error("which partitions? name topics, or say --file alone")
    if options.file:
        return _read(options.file)
    return dict.fromkeys(resolved(admin, options, options.partitions), options.to)


def _start(admin: ottla.Admin, targets: Mapping[ottla.TopicPartition, list[int]], throttle: int | None) -> None:
    if throttle is None:
        admin.alter_partition_reassignments(targets)
        return
    moving = admin.list_partition_reassignments(list(targets))
    moves: Rows[ReplicaMove] = Rows()
    for topic in admin.describe_topics(sorted({partition.topic for partition in targets})).values():
        for row in topic.partitions:
            place = ottla.TopicPartition(topic.name, row.partition)
            if place in targets:
                # A replica that is being added is among the replicas, and still has to be copied.
                added = moving[place].adding if place in moving else []
                current = [broker for broker in row.replicas if broker not in added]
                moves.append(ottla.ReplicaMove(*place, current, targets[place]))
    admin.start_reassignment(ottla.ReassignmentPlan(moves, 0), throttle=throttle)


def _verify(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        targets = _wanted(admin, options)
        # What had replicas before is not known any more: as Kafka's tool does, all brokers lose the throttle.
        brokers = [node.id for node in admin.describe_cluster().nodes]
        moves = Rows(
            ottla.ReplicaMove(*place, [broker for broker in brokers if broker not in replicas], replicas)
            for place, replicas in sorted(targets.items())
        )
        plan = ottla.ReassignmentPlan(moves, 0)
        until = time.monotonic() + BEHIND
        while True:
            rows = admin.verify_reassignment(plan, keep_throttle=options.keep_throttle) if moves else []
            if time.monotonic() > until or all(row.state != "different" for row in rows):
                break
            time.sleep(BEHIND / 10)
    output.show(options, PROGRESS, map(output.plain, rows))


def _reassign(options: argparse.Namespace) -> None:
    if options.cancel and options.throttle:
        options.parser.error("--cancel needs no --throttle; `ottla partitions verify` removes that of the move")
    with nouns.admin(options) as admin:
        targets = _wanted(admin, options)
        if targets and not options.dry_run:
            output.settle(options, lambda: _start(admin, targets, options.throttle))
    to = {partition: replicas for partition, replicas in targets.items() if partition not in options.failures}
    if options.dry_run:
        rows = [{**output.plain(partition), "replicas": replicas} for partition, replicas in to.items()]
        output.show(options, [*PLAN[:2], PLAN[3]], rows)
        return
    output.done(options, "partition", "stays" if options.cancel else "moves", to)
