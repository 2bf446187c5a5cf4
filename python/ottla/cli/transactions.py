"""`ottla transactions`."""

from __future__ import annotations

import argparse
import time
from typing import Any

from ottla.cli import arguments, nouns, output, times
from ottla.cli.topics.offsets import resolved

LISTED = output.columns("transactional_id", "state", "producer_id:number")
DESCRIBED = output.columns(
    "transactional_id",
    "state",
    "producer_id:number",
    "producer_epoch:number",
    "timeout:duration",
    "started:time",
    "open_for:duration",
    "partitions",
)
# Heads that are shorter than their names: a table fits into a terminal then.
EPOCH = output.Column("producer_epoch", "number", "EPOCH")
COORDINATOR = output.Column("coordinator_epoch", "number", "COORD EPOCH")
HANGING = [
    *output.columns("topic", "partition:number", "producer_id:number"),
    EPOCH,
    COORDINATOR,
    *output.columns("start_offset:number", "last_timestamp:time", "transactional_id"),
]
PRODUCERS = [
    *output.columns("topic", "partition:number", "producer_id:number"),
    EPOCH,
    output.Column("last_sequence", "number", "SEQUENCE"),
    output.Column("last_timestamp", "time", "LAST RECORD"),
    COORDINATOR,
    output.Column("current_transaction_start_offset", "number", "OPEN FROM"),
]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "transactions",
        "list, describe and abort transactions, and find those that hang",
        """
        ottla transactions
        ottla transactions list --state Ongoing --longer-than 10m
        ottla transactions hanging
        """,
        _list,
        state=[],
        longer_than=None,
        pattern=None,
    )
    listing = nouns.verb(
        verbs,
        "list",
        "list transactional ids",
        "ottla transactions list --state Ongoing --longer-than 10m --pattern 'billing-.*'",
        _list,
    )
    listing.add_argument(
        "--state", action="append", default=[], metavar="NAME", help="such as Ongoing, may be repeated"
    )
    listing.add_argument("--longer-than", type=times.duration, metavar="DURATION", help="open for longer than this")
    listing.add_argument("--pattern", metavar="REGEX", help="whose id matches (Kafka 4.1 and later)")
    describe = nouns.verb(
        verbs, "describe", "describe transactional ids", "ottla transactions describe billing-1", _describe
    )
    describe.add_argument("ids", nargs="+", type=arguments.name, metavar="ID")
    abort = nouns.verb(
        verbs,
        "abort",
        "abort what transactional ids have open, and fence their producers",
        "ottla transactions abort billing-1",
        _abort,
    )
    abort.add_argument("ids", nargs="+", type=arguments.name, metavar="ID")
    hanging = nouns.verb(
        verbs,
        "hanging",
        "find transactions that no coordinator will end",
        """
        ottla transactions hanging
        ottla transactions hanging orders --open-for 1h
        """,
        _hanging,
    )
    hanging.add_argument("topics", nargs="*", type=arguments.name, metavar="TOPIC")
    hanging.add_argument(
        "--open-for", type=times.duration, default=times.duration("15m"), metavar="DURATION", help="(default: 15m)"
    )
    end = nouns.verb(
        verbs,
        "abort-hanging",
        "abort a transaction that hangs in a partition",
        "ottla transactions abort-hanging orders:0 --producer-id 12 --producer-epoch 3",
        _abort_hanging,
    )
    end.add_argument("partition", type=_one, metavar="TOPIC:PARTITION")
    for flag, most in (("--producer-id", 2**63 - 1), ("--producer-epoch", 2**15 - 1)):
        end.add_argument(flag, type=arguments.number(most), required=True, metavar="N", help="as `hanging` shows it")
    end.add_argument(
        "--coordinator-epoch",
        type=int,
        default=-1,
        metavar="N",
        help="as `hanging` shows it (default: %(default)s, for a producer without an earlier transaction)",
    )
    producers = nouns.verb(
        verbs,
        "producers",
        "list the idempotent and transactional producers of partitions",
        "ottla transactions producers orders:0",
        _producers,
    )
    producers.add_argument("partitions", nargs="+", type=arguments.partitions, metavar="TOPIC[:PARTITIONS]")


def _one(given: str) -> tuple[str, int]:
    topic, numbers = arguments.partitions(given)
    if numbers is None or len(numbers) != 1:
        raise argparse.ArgumentTypeError(f"{given!r} is not TOPIC:PARTITION")
    return topic, numbers[0]


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.list_transactions(states=options.state, longer_than=options.longer_than, pattern=options.pattern)
    output.show(options, LISTED, map(output.plain, found))


def _describe(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = output.settle(options, lambda: admin.describe_transactions(options.ids))
    now = time.time()
    rows = [
        {
            **output.plain(each),
            "timeout": each.timeout / 1000,
            "open_for": None if each.started is None else round(max(now - each.started / 1000, 0), 3),
        }
        for each in found.values()
    ]
    output.show(options, DESCRIBED, rows)


def _abort(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        # Fencing an id that nobody used would create it.
        found = output.settle(options, lambda: admin.describe_transactions(options.ids))
        if found:
            output.settle(options, lambda: admin.fence_producers(list(found)))
    output.done(options, "transactional id", "fenced", found)


def _hanging(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = admin.find_hanging_transactions(options.topics or None, open_for=options.open_for)
    output.show(options, HANGING, map(output.plain, found))


def _abort_hanging(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        admin.abort_transaction(
            options.partition,
            producer_id=options.producer_id,
            producer_epoch=options.producer_epoch,
            coordinator_epoch=options.coordinator_epoch,
        )
    output.done(options, "partition", "aborted", [":".join(map(str, options.partition))])


def _producers(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        partitions = resolved(admin, options, options.partitions)
        found = output.settle(options, lambda: admin.describe_producers(partitions)) if partitions else {}
    rows = [{**output.plain(partition), **output.plain(each)} for partition, states in found.items() for each in states]
    output.show(options, PRODUCERS, rows)
