"""How `consume` runs: it reads, leaves out what filters do not match, and writes up to a number of records."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import ottla
from ottla.cli import filters
from ottla.cli.consume import output
from ottla.cli.consume.decoding import Decoding
from ottla.cli.consume.plan import Plan
from ottla.cli.consume.sources import BrokerSource, LastSource, ShareSource, Source
from ottla.cli.consume.topics import chosen
from ottla.cli.formats.rows import Rows


def write(plan: Plan, options: argparse.Namespace, decoding: Decoding) -> None:
    """Read what a plan names, and write it as the options choose.

    Raises:
        KafkaError: Reading failed. What was read before is written.
        OSError: Writing failed.
    """
    output.check(options)
    source = _source(plan)
    with output.opened(options, decoding) as sink, source:
        # The columns of a table are written even if no record comes.
        nothing = Rows(ottla.Batch.concat([]))
        if not decoding.active:
            sink.write(nothing)
        limit = _Limit(plan)
        for rows in source.read(limit.most if not options.filter else lambda: None):
            if not len(rows):
                sink.flush()
                continue
            matching = rows
            if options.filter:
                matching = filters.chosen(options.filter, rows, decoding.objects(rows))
            wanted = limit.take(matching)
            sink.write(wanted)
            sink.flush()
            used = len(rows.batch)
            if limit.is_reached():
                used = _used(rows, wanted)
            source.written(rows, used)
            if limit.is_reached():
                return
        if decoding.active and not limit.has_taken:
            # Their types are only known with records.
            sink.write(nothing)


def _source(plan: Plan) -> Source:
    if plan.path is not None:
        from ottla.cli.consume.logs import LogSource

        return LogSource(plan)
    topics = chosen(plan)
    if plan.share_group is not None:
        return ShareSource(plan, topics)
    if plan.last is not None:
        return LastSource(plan, topics)
    return BrokerSource(plan, topics)


def _used(rows: Rows, wanted: Rows) -> int:
    """How many records of a batch were looked at when the last of those that are wanted was written."""
    if wanted.kept is None:
        return len(wanted.batch) if len(wanted) else len(rows.batch)
    return wanted.kept[-1] + 1 if wanted.kept else len(rows.batch)


class _Limit:
    """The most records to write, in all and of each partition."""

    def __init__(self, plan: Plan) -> None:
        self._left = plan.maximum
        self._each = plan.per_partition
        self._counts: Counter[tuple[str, int]] = Counter()
        self.has_taken = False

    def most(self) -> int | None:
        """The most records that a poll should return."""
        return self._left if self._each is None else None

    def is_reached(self) -> bool:
        """Whether nothing more is to be written."""
        return self._left is not None and self._left <= 0

    def take(self, rows: Rows) -> Rows:
        """Those of the records that are to be written."""
        self.has_taken = True
        if self._each is not None:
            rows = rows.keep(self._counted(rows, self._each))
        if self._left is not None:
            rows = rows.first(self._left)
            self._left -= len(rows)
        return rows

    def _counted(self, rows: Rows, most: int) -> Sequence[bool]:
        wanted = []
        for record in rows:
            at = (record.topic, record.partition)
            self._counts[at] += 1
            wanted.append(self._counts[at] <= most)
        return wanted
