"""`ottla log-dirs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, output
from ottla.cli.topics.offsets import resolved

if TYPE_CHECKING:
    import argparse

FOLDERS = output.columns(
    "broker:number", "path", "replicas:number", "bytes:size", "total_bytes:size", "usable_bytes:size", "error"
)
REPLICAS = output.columns(
    "topic", "partition:number", "broker:number", "bytes:size", "offset_lag:number", "moves", "path"
)


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "log-dirs",
        "list the folders of brokers' logs, and the replicas in them",
        """
        ottla log-dirs
        ottla log-dirs replicas orders
        """,
        _list,
        broker=None,
    )
    listing = nouns.verb(verbs, "list", "list folders", "ottla log-dirs list --broker 1", _list)
    replicas = nouns.verb(
        verbs,
        "replicas",
        "list the replicas in the folders, the largest first",
        """
        ottla log-dirs replicas
        ottla log-dirs replicas orders --broker 1
        """,
        _replicas,
    )
    replicas.add_argument("topics", nargs="*", type=arguments.name, metavar="TOPIC")
    for parser in (listing, replicas):
        parser.add_argument(
            "--broker", action="append", type=arguments.number(2**31 - 1), metavar="ID", help="only of these brokers"
        )
    move = nouns.verb(
        verbs,
        "move",
        "move replicas to another folder of their broker",
        "ottla log-dirs move orders:0,1 --broker 1 --to /data/kafka-2",
        _move,
    )
    move.add_argument("partitions", nargs="+", type=arguments.partitions, metavar="TOPIC[:PARTITIONS]")
    move.add_argument(
        "--broker", type=arguments.number(2**31 - 1), required=True, metavar="ID", help="whose replicas move"
    )
    move.add_argument("--to", required=True, metavar="PATH", help="one of the broker's log.dirs")


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = output.settle(options, lambda: admin.describe_log_dirs(options.broker))
    rows = [
        {
            "broker": broker,
            "path": folder.path,
            "replicas": len(folder.replicas),
            "bytes": sum(each.size for each in folder.replicas),
            "total_bytes": folder.total_bytes,
            "usable_bytes": folder.usable_bytes,
            "cordoned": folder.is_cordoned,
            "error": folder.error,
        }
        for broker, folders in sorted(found.items())
        for folder in folders
    ]
    output.show(options, FOLDERS, rows)


def _replicas(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        found = output.settle(options, lambda: admin.describe_log_dirs(options.broker))
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "broker": broker,
            "bytes": each.size,
            "offset_lag": each.offset_lag,
            "moves": each.is_future,
            "path": folder.path,
        }
        for broker, folders in found.items()
        for folder in folders
        for each in folder.replicas
        if not options.topics or each.topic in options.topics
    ]
    output.show(options, REPLICAS, sorted(rows, key=lambda row: (-row["bytes"], row["topic"], row["partition"])))


def _move(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        replicas = {
            ottla.TopicPartitionReplica(each.topic, each.partition, options.broker): options.to
            for each in resolved(admin, options, options.partitions)
        }
        if replicas:
            output.settle(options, lambda: admin.alter_replica_log_dirs(replicas))
    output.done(options, "replica", "moves", replicas)
