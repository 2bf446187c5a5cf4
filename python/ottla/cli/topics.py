"""`ottla topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ottla
from ottla import _ottla
from ottla.cli import arguments, nouns, output, settings, times, units
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

NAMES = output.columns("topic")
LONG = output.columns("topic", "partitions:number", "replicas:number", "bytes:size")
PARTITIONS = output.columns("topic", "partition:number", "leader:number", "replicas", "in_sync")
SIZES = output.columns("topic", "partitions:number", "replicas:number", "bytes:size", "unique_bytes:size")
OFFSETS = output.columns("topic", "partition:number", "start:number", "end:number", "records:number")
AT = output.columns("at:number", "timestamp:time")
TRIMMED = output.columns("topic", "partition:number", "old_start:number", "new_start:number")
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
        ottla topics list --long --format json | jq '.items[] | select(.partitions > 10) | .topic'
        """,
        _list,
    )
    listing.add_argument("--internal", action="store_true", help="list Kafka's internal topics too")
    listing.add_argument("-l", "--long", action="store_true", help="with partitions, replicas and bytes of each")
    describe = nouns.verb(
        verbs,
        "describe",
        "describe topics, their partitions and the properties that are set",
        """
        ottla topics describe flights
        ottla topics describe                         # all topics
        ottla topics describe --under-replicated      # only partitions with a replica that is not in sync
        """,
        _describe,
    )
    describe.add_argument("topics", nargs="*", type=arguments.name, metavar="NAME")
    describe.add_argument("--under-replicated", action="store_true", help="only partitions with replicas out of sync")
    describe.add_argument("--unavailable", action="store_true", help="only partitions without a leader")
    _add_create(verbs)
    _add_changes(verbs)
    _add_offsets(verbs)


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
        verbs, "delete", "delete topics and all their records", "ottla topics delete flights audit", _delete
    )
    delete.add_argument("topics", nargs="+", type=arguments.name, metavar="NAME")
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
        """,
        _add_partitions,
    )
    more.add_argument("topics", nargs="+", type=arguments.name, metavar="NAME")
    count = more.add_mutually_exclusive_group(required=True)
    count.add_argument("--add", type=arguments.count, metavar="N", help="how many more")
    count.add_argument("--total", type=arguments.count, metavar="N", help="how many there are to be")
    nouns.dry_run(more)

    trim = nouns.verb(
        verbs,
        "trim",
        "delete the oldest records of partitions",
        """
        ottla topics trim flights --before 1000         # of each partition, the records before offset 1000
        ottla topics trim flights:0,2 --before 7d       # the records older than 7 days, of two partitions
        ottla topics trim flights --before 2026-01-31 --dry-run
        ottla topics trim flights --all
        """,
        _trim,
    )
    trim.add_argument("partitions", nargs="+", type=arguments.partitions, metavar="NAME[:PARTITIONS]")
    end = trim.add_mutually_exclusive_group(required=True)
    end.add_argument(
        "--before", type=_before, metavar="OFFSET|TIME", help=f"which are deleted: an offset, {times.SINCE}"
    )
    end.add_argument("--all", action="store_true", help="delete all that are there")
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


def _spec(given: str) -> Any:
    return given if "_" in given or given in ("earliest", "latest") else times.since(given)


def _list(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        names = admin.list_topics(internal=options.internal)
        if not options.long:
            if options.shown_as == "table":
                options.shown_as = "names"
            output.show(options, NAMES, [{"topic": name} for name in names])
            return
        described = output.settle(options, lambda: admin.describe_topics(names)) if names else {}
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


def _describe(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        names = options.topics or admin.list_topics(internal=True)
        described = output.settle(options, lambda: admin.describe_topics(names)) if names else {}
        found = {}
        if described:
            found = output.settle(options, lambda: admin.describe_configs([("TOPIC", name) for name in described]))
    set_here = {
        resource.name: {entry.name: entry.value for entry in entries if entry.source == "DYNAMIC_TOPIC_CONFIG"}
        for resource, entries in found.items()
    }
    items = []
    for topic in described.values():
        partitions = [
            {"topic": topic.name, **each._asdict()}
            for each in topic.partitions
            if not (options.under_replicated and len(each.in_sync) >= len(each.replicas))
            and not (options.unavailable and each.leader >= 0)
        ]
        if partitions or not (options.under_replicated or options.unavailable):
            configs = set_here.get(topic.name, {})
            items.append({"topic": topic.name, "id": topic.id, "configs": configs, "partitions": partitions})
    if options.shown_as == "json":
        output.show(options, PARTITIONS, items)
        return
    if options.shown_as == "table":
        for item in items:
            number = len(described[item["topic"]].partitions)
            print(f"{item['topic']}  id {item['id']}  {number} partition{'' if number == 1 else 's'}")
            for key, value in item["configs"].items():
                print(f"  {key}={value}")
            output.show(options, PARTITIONS[1:], item["partitions"])
        return
    output.show(options, PARTITIONS, [row for item in items for row in item["partitions"]])


def _create(options: argparse.Namespace) -> None:
    config = dict(options.topic_config)
    _refuse_properties(options, "--topic-config")
    topics = [
        ottla.NewTopic(name, number or options.partitions or 1, options.replication, config)
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
        output.settle(options, lambda: admin.delete_topics(options.topics))
        missing = [name for name, error in options.failures.items() if isinstance(error, ottla.errors.NotFoundError)]
        deleted = [name for name in options.topics if name not in missing]
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
            totals = {name: len(topic.partitions) + options.add for name, topic in described.items()}
        if totals:
            output.settle(options, lambda: admin.create_partitions(totals, validate_only=options.dry_run))
    output.done(options, "topic", "extended", totals)


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
    with nouns.admin(options) as admin:
        partitions = resolved(admin, options, options.partitions)
        starts = _looked_up(admin, options, partitions, "earliest")
        ends = _looked_up(admin, options, starts, "latest")
        wanted = {partition: end.offset for partition, end in ends.items()}
        if isinstance(options.before, int):
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


def _sizes(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        rows = admin.list_topic_sizes(options.topics or None)
    output.show(options, SIZES, sorted(map(output.plain, rows), key=lambda row: (-row["bytes"], row["topic"])))
