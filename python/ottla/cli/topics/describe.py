"""`ottla topics describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.cli import arguments, nouns, output, patterns
from ottla.cli.topics import ids

if TYPE_CHECKING:
    import argparse

    import ottla

PARTITIONS = output.columns("topic", "partition:number", "leader:number", "replicas", "in_sync")
SET_HERE = "DYNAMIC_TOPIC_CONFIG"
MIN_IN_SYNC = "min.insync.replicas"
# Options that leave out partitions.
FILTERS = {
    "under_replicated": "only partitions with replicas out of sync",
    "unavailable": "only partitions without a leader",
    "under_min_isr": f"only partitions with fewer replicas in sync than {MIN_IN_SYNC}",
    "at_min_isr": f"only partitions with as many replicas in sync as {MIN_IN_SYNC}",
}


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = nouns.verb(
        verbs,
        "describe",
        "describe topics, their partitions and the properties that are set",
        """
        ottla topics describe flights
        ottla topics describe                         # all topics
        ottla topics describe -r 'flights-.*'
        ottla topics describe --under-replicated      # only partitions with a replica that is not in sync
        """,
        _describe,
    )
    parser.add_argument("topics", nargs="*", type=arguments.name, metavar="NAME")
    kind = parser.add_mutually_exclusive_group()
    patterns.option(kind)
    ids.option(kind)
    for name, summary in FILTERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=summary)
    parser.add_argument("--with-overrides", action="store_true", help="only topics with properties of their own")


def _describe(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        names = ids.chosen(options, lambda: admin.list_topics(internal=True)) or admin.list_topics(internal=True)
        described = output.settle(options, lambda: admin.describe_topics(names)) if names else {}
        topics = {topic.name: topic for topic in described.values()}
        configs = {}
        if topics:
            configs = output.settle(options, lambda: admin.describe_configs([("TOPIC", name) for name in topics]))
    entries = {resource.name: {entry.name: entry for entry in found} for resource, found in configs.items()}
    items = [
        item for name, topic in topics.items() if (item := _item(options, topic, entries.get(name, {}))) is not None
    ]
    _show(options, topics, items)


def _item(
    options: argparse.Namespace, topic: ottla.TopicDescription, entries: dict[str, ottla.ConfigEntry]
) -> dict[str, Any] | None:
    """What is shown of a topic; None if the options leave it out."""
    minimum = int(entries[MIN_IN_SYNC].value or 1) if MIN_IN_SYNC in entries else 1
    partitions = [
        {"topic": topic.name, **each._asdict()}
        for each in topic.partitions
        if not (options.under_replicated and len(each.in_sync) >= len(each.replicas))
        and not (options.unavailable and each.leader >= 0)
        and not (options.under_min_isr and len(each.in_sync) >= minimum)
        and not (options.at_min_isr and len(each.in_sync) != minimum)
    ]
    configs = {entry.name: entry.value for entry in entries.values() if entry.source == SET_HERE}
    filtered = any(getattr(options, name) for name in FILTERS)
    if (filtered and not partitions) or (options.with_overrides and not configs):
        return None
    return {"topic": topic.name, "id": topic.id, "configs": configs, "partitions": partitions}


def _show(options: argparse.Namespace, topics: dict[str, ottla.TopicDescription], items: list[dict[str, Any]]) -> None:
    if options.shown_as == "json":
        output.show(options, PARTITIONS, items)
        return
    if options.shown_as == "table":
        for item in items:
            number = len(topics[item["topic"]].partitions)
            print(f"{item['topic']}  id {item['id']}  {number} partition{'' if number == 1 else 's'}")
            for key, value in item["configs"].items():
                print(f"  {key}={value}")
            output.show(options, PARTITIONS[1:], item["partitions"])
        return
    output.show(options, PARTITIONS, [row for item in items for row in item["partitions"]])
