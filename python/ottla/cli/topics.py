"""`ottla topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "topics",
        "list, create, delete and describe topics",
        """
        ottla topics                                  # the names of all topics
        ottla -b kafka-1:9092 topics create flights:4
        ottla topics create --help                    # examples of an action
        """,
    )
    parser.set_defaults(run=_list, internal=False)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", description="without one: list")

    listing = arguments.command(actions, "list", "list the names of topics", "ottla topics list -b localhost:9092")
    listing.add_argument("--internal", action="store_true", help="list Kafka's internal topics too")
    listing.set_defaults(run=_list)

    create = arguments.command(
        actions,
        "create",
        "create topics",
        """
        ottla topics create flights:4
        ottla topics create flights:4 audit --replication 3 --topic-config retention.ms=3600000
        """,
    )
    create.add_argument("topics", nargs="+", type=arguments.new_topic, metavar="NAME:PARTITIONS")
    create.add_argument(
        "--replication",
        type=arguments.number(2**15 - 1),
        default=-1,
        metavar="N",
        help="replicas of each partition (default: the broker's)",
    )
    create.add_argument(
        "--topic-config",
        action="append",
        type=arguments.pair,
        default=[],
        metavar="KEY=VALUE",
        help="property of the topics",
    )
    create.set_defaults(run=_create)

    delete = arguments.command(
        actions, "delete", "delete topics and all their records", "ottla topics delete flights audit"
    )
    delete.add_argument("topics", nargs="+", type=arguments.name, metavar="NAME")
    delete.set_defaults(run=_delete)

    describe = arguments.command(
        actions, "describe", "describe topics and their partitions", "ottla topics describe flights"
    )
    describe.add_argument("topics", nargs="+", type=arguments.name, metavar="NAME")
    describe.set_defaults(run=_describe)

    for taking in (parser, listing, create, delete, describe):
        arguments.client(taking)


def _admin(options: argparse.Namespace) -> ottla.Admin:
    return ottla.Admin(arguments.bootstrap(options), config=arguments.client_config(options))


def _list(options: argparse.Namespace) -> None:
    with _admin(options) as admin:
        for name in admin.list_topics(internal=options.internal):
            print(name)


def _create(options: argparse.Namespace) -> None:
    config = dict(options.topic_config)
    with _admin(options) as admin:
        admin.create_topics([ottla.NewTopic(name, n, options.replication, config) for name, n in options.topics])


def _delete(options: argparse.Namespace) -> None:
    with _admin(options) as admin:
        admin.delete_topics(options.topics)


def _describe(options: argparse.Namespace) -> None:
    with _admin(options) as admin:
        for topic in admin.describe_topics(options.topics).values():
            print(f"{topic.name}  id {topic.id}  {len(topic.partitions)} partitions")
            for p in topic.partitions:
                print(f"  {p.partition:>4}  leader {p.leader}  replicas {p.replicas}  in sync {p.in_sync}")
