"""`ottla topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ottla
from ottla import _ottla
from ottla.cli import arguments, nouns, output, patterns, settings, units
from ottla.cli.topics import describe, ids, offsets
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse

NAMES = output.columns("topic")
LONG = output.columns("topic", "partitions:number", "replicas:number", "bytes:size")
SIZES = output.columns("topic", "partitions:number", "replicas:number", "bytes:size", "unique_bytes:size")
ALREADY_EXISTS = 36


def add(commands: Any) -> None:
    """Add the command to the parser."""
    verbs = nouns.noun(
        commands,
        "topics",
        "list, create, change and delete topics",
        """
        ottla topics                                  # the names of all topics
        ottla -b kafka-1:9092 topics create flights:4
        ottla topics create --help                    # examples of a verb
        """,
        _list,
        topics=[],
        regex=False,
        internal=False,
        long=False,
    )
    listing = nouns.verb(
        verbs,
        "list",
        "list topics",
        """
        ottla topics list
        ottla topics list --long                      # with partitions, replicas and bytes
        ottla topics list -r 'flights-.*'
        ottla topics list --long --format json | jq '.items[] | select(.partitions > 10) | .topic'
        """,
        _list,
    )
    listing.add_argument("topics", nargs="*", type=arguments.name, metavar="NAME", help="only these")
    patterns.option(listing)
    listing.add_argument("--internal", action="store_true", help="list Kafka's internal topics too")
    listing.add_argument("-l", "--long", action="store_true", help="with partitions, replicas and bytes of each")
    describe.add(verbs)
    _add_create(verbs)
    _add_changes(verbs)
    offsets.add(verbs)


def _add_create(verbs: Any) -> None:
    create = nouns.verb(
        verbs,
        "create",
        "create topics",
        """
        ottla topics create flights:4
        ottla topics create flights:4 audit --replication 3 --topic-config retention.ms=7d
        ottla topics create flights:4 --if-not-exists
        ottla topics create flights:4 --replication 3 --dry-run
        ottla topics create flights --to 1,2 --to 2,3             # two partitions; the preferred leaders are 1 and 2
        """,
        _create,
    )
    create.add_argument("topics", nargs="+", type=arguments.new_topic, metavar="NAME[:PARTITIONS]")
    create.add_argument(
        "-p", "--partitions", type=arguments.count, metavar="N", help="of topics without :PARTITIONS (default: 1)"
    )
    create.add_argument(
        "--replication",
        type=arguments.number(2**15 - 1),
        default=-1,
        metavar="N",
        help="replicas of each partition (default: the broker's)",
    )
    create.add_argument(
        "--to",
        action="append",
        type=arguments.brokers,
        metavar="ID,ID",
        help="the brokers of one partition, may be repeated",
    )
    create.add_argument(
        "--topic-config",
        action="append",
        type=units.setting,
        default=[],
        metavar="KEY=VALUE",
        help=f"property of the topics, may be repeated; {units.HELP}",
    )
    create.add_argument("--if-not-exists", action="store_true", help="a topic that exists is not an error")
    nouns.dry_run(create)


def _add_changes(verbs: Any) -> None:
    delete = nouns.verb(
        verbs,
        "delete",
        "delete topics and all their records",
        """
        ottla topics delete flights audit
        ottla topics delete -r 'flights-.*' --dry-run     # prints the topics that a pattern matches
        """,
        _delete,
    )
    delete.add_argument("topics", nargs="+", type=arguments.name, metavar="NAME")
    kind = delete.add_mutually_exclusive_group()
    patterns.option(kind)
    ids.option(kind)
    nouns.dry_run(delete, "only print which would be deleted")
    delete.add_argument("--if-exists", action="store_true", help="a topic that does not exist is not an error")

    alter = nouns.verb(
        verbs,
        "alter",
        "change properties of topics",
        """
        ottla topics alter flights --set retention.ms=7d --set cleanup.policy=compact
        ottla topics alter flights audit --unset retention.ms       # back to the broker's value
        """,
        _alter,
    )
    alter.add_argument("topics", nargs="+", type=arguments.name, metavar="NAME")
    alter.add_argument(
        "--set", action="append", type=units.setting, default=[], metavar="KEY=VALUE", help=f"set it; {units.HELP}"
    )
    alter.add_argument("--unset", action="append", type=arguments.name, default=[], metavar="KEY", help="remove it")
    nouns.dry_run(alter)

    more = nouns.verb(
        verbs,
        "add-partitions",
        "add partitions to topics; keys of records may go to other partitions by then",
        """
        ottla topics add-partitions flights --add 2
        ottla topics add-partitions flights audit --total 8
        ottla topics add-partitions flights --to 1,2 --to 2,3     # two more; the preferred leaders are 1 and 2
        """,
        _add_partitions,
    )
    more.add_argument("topics", nargs="+", type=arguments.name, metavar="NAME")
    count = more.add_mutually_exclusive_group(required=True)
    count.add_argument("--add", type=arguments.count, metavar="N", help="how many more")
    count.add_argument("--total", type=arguments.count, metavar="N", help="how many there are to be")
    count.add_argument(
        "--to",
        action="append",
        type=arguments.brokers,
        metavar="ID,ID",
        help="the brokers of one more partition, may be repeated",
    )
    nouns.dry_run(more)

    sizes = nouns.verb(
        verbs,
        "sizes",
        "list the bytes of topics on all brokers, the largest first",
        """
        ottla topics sizes
        ottla topics sizes flights audit --format csv
        """,
        _sizes,
    )
    sizes.add_argument("topics", nargs="*", type=arguments.name, metavar="NAME")


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        named = options.topics and not options.regex
        names = options.topics if named else admin.list_topics(internal=options.internal)
        names = patterns.chosen(options, options.topics, lambda: names, "topic") or names
        described = (
            output.settle(options, lambda: admin.describe_topics(names)) if names and (named or options.long) else {}
        )
        if not options.long:
            names = [name for name in names if name not in options.failures]
            if options.shown_as == "table":
                options.shown_as = "names"
            output.show(options, NAMES, [{"topic": name} for name in names])
            return
        sizes = {row.topic: row.bytes for row in admin.list_topic_sizes()}
    output.show(
        options,
        LONG,
        [
            {
                "topic": topic.name,
                "id": topic.id,
                "partitions": len(topic.partitions),
                "replicas": max((len(each.replicas) for each in topic.partitions), default=0),
                "bytes": sizes.get(topic.name, 0),
            }
            for topic in described.values()
        ],
    )


def _create(options: argparse.Namespace) -> None:
    config = dict(options.topic_config)
    _refuse_properties(options, "--topic-config")
    topics = [
        ottla.NewTopic(name, number or options.partitions or 1, options.replication, config, options.to)
        for name, number in options.topics
    ]
    with nouns.admin(options) as admin:
        output.settle(options, lambda: admin.create_topics(topics, validate_only=options.dry_run))
        old = [name for name, error in options.failures.items() if getattr(error, "code", None) == ALREADY_EXISTS]
        created = [topic.name for topic in topics if topic.name not in old]
        if options.if_not_exists:
            for name in old:
                del options.failures[name]
    output.done(options, "topic", "created", created)


def _delete(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        names = ids.chosen(options, admin.list_topics)
        change = admin.describe_topics if options.dry_run else admin.delete_topics
        output.settle(options, lambda: change(names))
        missing = [name for name, error in options.failures.items() if isinstance(error, ottla.errors.NotFoundError)]
        deleted = [name for name in names if name not in missing]
        if options.if_exists:
            for name in missing:
                del options.failures[name]
    output.done(options, "topic", "deleted", deleted)


def _refuse_properties(options: argparse.Namespace, flag: str) -> None:
    """Refuse a topic's property that was given as one of the client, as other tools have it."""
    known = {row["name"] for row in _ottla.properties()}
    for name in settings.properties(options):
        if name not in known:
            options.parser.error(f"--config is about the client, which has no {name}: write {flag} for the topic's")


def _alter(options: argparse.Namespace) -> None:
    _refuse_properties(options, "--set")
    changes = {**dict(options.set), **dict.fromkeys(options.unset)}
    if not changes:
        raise ArgumentError("what is to change? say --set KEY=VALUE or --unset KEY")
    resources = {("TOPIC", name): changes for name in options.topics}
    with nouns.admin(options) as admin:
        output.settle(options, lambda: admin.incremental_alter_configs(resources, validate_only=options.dry_run))
    failed = {output.name(item).removeprefix("topic ") for item in options.failures}
    output.done(options, "topic", "altered", [name for name in options.topics if name not in failed])


def _add_partitions(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        totals = dict.fromkeys(options.topics, options.total)
        if options.total is None:
            described = output.settle(options, lambda: admin.describe_topics(options.topics))
            more = options.add or len(options.to)
            totals = {name: len(topic.partitions) + more for name, topic in described.items()}
        wanted = [ottla.NewPartitions(name, total, options.to) for name, total in totals.items()]
        if wanted:
            output.settle(options, lambda: admin.create_partitions(wanted, validate_only=options.dry_run))
    output.done(options, "topic", "extended", totals)


def _sizes(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        rows = admin.list_topic_sizes(options.topics or None)
    output.show(options, SIZES, sorted(map(output.plain, rows), key=lambda row: (-row["bytes"], row["topic"])))
