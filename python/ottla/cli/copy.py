"""`ottla copy`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import ottla
from ottla._progress import RecordProgress
from ottla.cli import arguments, nouns, output, settings, times
from ottla.cli.topics.offsets import at
from ottla.errors import ArgumentError, NotFoundError

if TYPE_CHECKING:
    import argparse

COPIED = output.columns("source", "target", "partitions:number", "records:number")
# Seconds of a poll: Ctrl-C comes through between two.
LOOK = 0.5
# Records of a transaction at most.
BATCH = 20_000


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "copy",
        "copy a topic to another one, each committed record once",
        """
        ottla copy orders orders-2                                     # what is there, then it ends
        ottla copy orders orders-2 --follow                            # until Ctrl-C
        ottla copy orders orders --to-bootstrap kafka-9:9092           # to another cluster
        ottla copy orders orders --profile production --to-profile local --since 1h

        Keys, values, headers, timestamps and partitions stay as they are; offsets do not. Records of aborted
        transactions are not copied. If TARGET does not exist, it is created with the partitions and properties of
        SOURCE. Each transaction on the target also commits how far the copy is, as offsets of the group
        ottla-copy.SOURCE: a copy that was stopped continues there. Delete that group to copy all again.
        """,
    )
    arguments.client(parser)
    arguments.output(parser)
    parser.add_argument("source", type=arguments.name, metavar="SOURCE", help="topic to read")
    parser.add_argument("target", type=arguments.name, metavar="TARGET", help="topic to write")
    parser.add_argument("--to-bootstrap", metavar="HOST:PORT", help="the target's cluster (default: the same)")
    parser.add_argument("--to-profile", metavar="NAME", help="the target's profile (default: the same)")
    parser.add_argument(
        "--to-config",
        action="append",
        type=arguments.pair,
        default=[],
        metavar="KEY=VALUE",
        help="property of the target's clients, may be repeated",
    )
    parser.add_argument(
        "--since", type=times.since, metavar="TIME", help=f"start at {times.SINCE} (default: first record)"
    )
    parser.add_argument("--follow", action="store_true", help="copy what comes, until Ctrl-C")
    parser.set_defaults(run=_copy)


def _copy(options: argparse.Namespace) -> None:
    servers, target = settings.bootstrap(options), settings.target(options)
    if options.source == options.target and servers == target.bootstrap:
        raise ArgumentError(f"{options.source} is source and target: name another topic, or --to-bootstrap")
    group = f"ottla-copy.{options.source}"
    with (
        nouns.admin(options) as admin,
        ottla.Admin(target.bootstrap, config=target.of("admin")) as other,
    ):
        numbers = [each.partition for each in admin.describe_topics(options.source)[options.source].partitions]
        _create(options, admin, other, len(numbers))
        partitions = [ottla.TopicPartition(options.source, number) for number in numbers]
        starts = _starts(options, admin, other, group, partitions)
        latest = admin.list_offsets(at(partitions, "latest"), isolation_level="read_committed")
        ends = {partition: found.offset or 0 for partition, found in latest.items()}
    producer_config = {
        # A second copy of the topic fences the first, which would write records twice.
        "transactional.id": f"{group}.{options.target}",
        **target.of("producer"),
    }
    config = {**settings.client_config(options, "consumer"), "isolation.level": "read_committed"}
    config.pop("group.id", None)
    total = sum(max(ends[partition] - start, 0) for partition, start in starts.items())
    progress = RecordProgress(total, shown=sys.stderr.isatty() and not options.follow)
    copied = 0
    try:
        with (
            ottla.Consumer(servers, config=config) as consumer,
            ottla.Producer(target.bootstrap, config=producer_config) as producer,
        ):
            consumer.assign(partitions)
            for partition, start in starts.items():
                consumer.seek(partition, start)
            while options.follow or any(consumer.position(each) < ends[each] for each in partitions):
                batch = consumer.poll(LOOK, max_records=BATCH)
                if not len(batch):
                    continue
                done = {
                    ottla.TopicPartition(options.target, each.partition): consumer.position(each) for each in partitions
                }
                with producer.transaction():
                    producer.send_arrow(options.target, batch)
                    producer.send_offsets(done, group)
                copied += len(batch)
                progress.at(copied)
    except KeyboardInterrupt:
        if not options.follow:
            raise
    finally:
        progress.close(copied)
    row = {"source": options.source, "target": options.target, "partitions": len(partitions), "records": copied}
    output.show(options, COPIED, [row])


def _create(options: argparse.Namespace, admin: ottla.Admin, other: ottla.Admin, number: int) -> None:
    """Create the target like the source, where it does not exist.

    Raises:
        ArgumentError: It exists, and has fewer partitions.
    """
    try:
        there = len(other.describe_topics(options.target)[options.target].partitions)
    except NotFoundError:
        [entries] = admin.describe_configs(("TOPIC", options.source)).values()
        config = {
            each.name: each.value
            for each in entries
            if each.source == "DYNAMIC_TOPIC_CONFIG" and each.value is not None
        }
        other.create_topics(ottla.NewTopic(options.target, number, config=config))
        return
    if there < number:
        raise ArgumentError(
            f"{options.target} has {there} partitions, and {options.source} has {number}: run `ottla topics "
            f"add-partitions {options.target} --total {number}`"
        )


def _starts(
    options: argparse.Namespace,
    admin: ottla.Admin,
    other: ottla.Admin,
    group: str,
    partitions: list[ottla.TopicPartition],
) -> dict[ottla.TopicPartition, int]:
    """Where the copy begins: behind what is copied already, or at the time or at the record that is first."""
    spec: Any = options.since or "earliest"
    found = admin.list_offsets(at(partitions, spec))
    late = [partition for partition, first in found.items() if first.offset is None]
    ends = admin.list_offsets(at(late, "latest")) if late else {}
    committed = other.list_group_offsets(group)[group]
    starts = {}
    for partition, first in {**found, **ends}.items():
        before = committed.get(ottla.TopicPartition(options.target, partition.partition))
        starts[partition] = max(first.offset or 0, before.offset if before else 0)
    return starts
