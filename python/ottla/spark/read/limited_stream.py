"""Streams under Spark 4.2 and newer, which passes limits and runs `availableNow` (SPARK-55304)."""

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.layout import Layout
from ottla.spark.read.stream import OffsetsJson, StreamReader
from ottla.spark.shared.offsets import Offsets, from_json, to_json


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A stream that keeps the limits of a trigger, and with `availableNow` stops at today's end."""

    def __init__(self, options: ReadOptions, layout: Layout) -> None:
        super().__init__(options, layout)
        self._target: Offsets | None = None
        self._latest: Offsets | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        """The user's limit.

        Spark hands it back to `latestOffset`, and knows no combination of limits: any but "all" stands for all of the
        user's.
        """
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        return ReadAllAvailable() if options.min_offsets is None else ReadMinRows(options.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the end at which the query is to stop."""
        self._target = self._planner().latest({})

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        """Where the next batch ends.

        Args:
            start: Where the last one ended.
            limit: What `getDefaultReadLimit` returned, or everything (the trigger `once`).
        """
        self._has_planned = True
        plan, begin = self._planner(), from_json(start)
        if self._target is None:
            self._latest = plan.latest(begin)
        else:
            # The end is known, but the topics may have been recreated since the last batch.
            plan.compare(begin)
            self._latest = self._target
        if isinstance(limit, ReadAllAvailable):
            return to_json(self._latest)
        # Up to a fixed end there is nothing to wait for.
        limited = plan.limited if self._target is not None else self._limited
        return to_json(limited(begin, self._latest))

    def reportLatestOffset(self) -> OffsetsJson | None:
        """The end of the topics at the last request, so that a query's progress shows how far behind it is."""
        return None if self._latest is None else to_json(self._latest)
