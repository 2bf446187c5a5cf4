"""`ottla groups peek`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, nouns, output, settings
from ottla.cli.formats.envelope import described

if TYPE_CHECKING:
    import argparse

RECORDS = output.columns("topic", "partition:number", "offset:number", "timestamp:time", "key", "value")


def add(verbs: Any) -> None:
    """Add the verb."""
    parser = nouns.verb(
        verbs,
        "peek",
        "print the next records that a group will read, and commit nothing",
        """
        ottla groups peek billing
        ottla groups peek billing --max 1 --format json | jq '.items[].value'
        """,
        _peek,
    )
    parser.add_argument("group", type=arguments.name, metavar="GROUP")
    parser.add_argument(
        "--max", type=arguments.count, default=1, metavar="N", help="of each partition (default: %(default)s)"
    )


def _peek(options: argparse.Namespace) -> None:
    with nouns.admin(options) as admin:
        rows = admin.lag(options.group)
    config = {**settings.client_config(options, "consumer")}
    items: list[dict[str, Any]] = []
    for topic in dict.fromkeys(row.topic for row in rows if row.lag):
        spans = {
            row.partition: range(row.committed, row.end_offset)
            for row in rows
            if row.topic == topic and row.lag and row.committed is not None
        }
        items += _first(options, topic, spans, config)
    output.show(options, RECORDS, items)


def _first(
    options: argparse.Namespace, topic: str, spans: dict[int, range], config: dict[str, str]
) -> list[dict[str, Any]]:
    """The first records of each span; offsets of compacted records and of control records have none."""
    found: dict[int, list[dict[str, Any]]] = {partition: [] for partition in spans}
    while spans:
        # Twice as many as are wanted: most offsets have a record.
        step = {partition: span[: 2 * options.max] for partition, span in spans.items()}
        batch = ottla.read(settings.bootstrap(options), topic, offsets=step, config=config)
        for record in batch:
            rows = found[record.partition]
            if len(rows) < options.max:
                rows.append(described(record))
        spans = {
            partition: rest
            for partition, span in spans.items()
            if len(found[partition]) < options.max and (rest := span[2 * options.max :])
        }
    return [row for rows in found.values() for row in rows]
