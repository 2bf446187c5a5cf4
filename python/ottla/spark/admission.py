"""Streams under Spark 4.2 and newer, which passes limits and runs `availableNow` (SPARK-55304)."""

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ottla.spark.clients import planner
from ottla.spark.offsets import Offsets, from_json, to_json
from ottla.spark.options import ReadOptions
from ottla.spark.stream import StreamReader, Told


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A stream that takes `maxOffsetsPerTrigger` records at a time, and with `availableNow` stops at today's end."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._target: Offsets | None = None
        self._latest: Offsets | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        """The user's limit."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the end at which the query is to stop."""
        self._target = planner(self._options).latest()

    def latestOffset(self, start: Told, limit: ReadLimit) -> Told:
        """Where the next batch ends.

        Args:
            start: Where the last one ended.
            limit: All rows, or a number of rows at most.
        """
        plan = planner(self._options)
        self._latest = end = self._target if self._target is not None else plan.latest()
        if isinstance(limit, ReadMaxRows):
            end = plan.limited(limit.max_rows, from_json(start), end)
        return to_json(end)

    def reportLatestOffset(self) -> Told | None:
        """The end of the topics at the last request, so that a query's progress shows how far behind it is."""
        return None if self._latest is None else to_json(self._latest)
