"""Streams: micro-batches from the end of the last one to the end of the topics now."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ottla.spark.clients import planner, read
from ottla.spark.groups import commit
from ottla.spark.layout import Layout
from ottla.spark.limits import Patience
from ottla.spark.offsets import Offsets, from_json, to_json
from ottla.spark.options import ReadOptions
from ottla.spark.past import Past
from ottla.spark.planner import Planner
from ottla.spark.remembered import Remembered
from ottla.spark.sent import Sent
from ottla.spark.splitting import tasks

if TYPE_CHECKING:
    import pyarrow as pa

# What Spark keeps in the checkpoint.
Told = dict[str, dict[str, int]]


class StreamReader(Sent, DataSourceStreamReader):
    """What all Spark versions ask of a stream. One object serves a query's driver side; tasks get pickled copies."""

    def __init__(self, options: ReadOptions, layout: Layout) -> None:
        self._options, self._layout = options, layout
        self._patience = Patience(options.min_offsets, options.max_delay)
        self._past = Past()
        self._remembered = None if options.remember_in is None else Remembered(options.remember_in)
        self._is_restored = False

    def _planner(self) -> Planner:
        if self._remembered is not None and not self._is_restored:
            self._past, self._is_restored = self._remembered.past(), True
        return planner(self._options, self._past)

    def initialOffset(self) -> Told:
        """Where a query without a checkpoint begins."""
        return to_json(self._planner().initial())

    def partitions(self, start: Told, end: Told) -> Sequence[InputPartition]:
        """One task per partition that has anything between the two offsets, or other numbers by option; may be none."""
        # A batch that is replayed after a restart is planned before anything else is asked.
        is_first = self._remembered is not None and not self._is_restored
        plan, begin = self._planner(), from_json(start)
        if is_first:
            plan.compare(begin)
        spans = plan.ranges(begin, from_json(end))
        if self._remembered is not None:
            self._remembered.keep(self._past)
        return [InputPartition(task) for task in tasks(self._options, spans)]

    def _limited(self, start: Offsets, latest: Offsets) -> Offsets:
        """Where the next batch ends under the user's limits; at its start if it waits for more records."""
        return self._planner().within_limits(start, latest, self._patience)

    def commit(self, end: Told) -> None:
        """Tell a consumer group what was read, if the user wants it. Spark calls this when the next batch begins."""
        if self._options.commit_group is not None:
            commit(self._options, self._options.commit_group, from_json(end))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one task, in columns."""
        for span in partition.value:
            yield from read(self._options, span, self._layout)


class UnlimitedStreamReader(StreamReader):
    """For Spark 4.0 and 4.1, which ask for the latest offset without saying where the query stands.

    To keep limits anyway, the reader remembers where the last batch ended. When a query resumes, Spark plans its last
    batch again before it requests a new one. A new query requests the latest offset first.
    """

    def __init__(self, options: ReadOptions, layout: Layout) -> None:
        super().__init__(options, layout)
        self._initial: Offsets | None = None
        self._at: Offsets | None = None

    def initialOffset(self) -> Told:
        """Where a query without a checkpoint begins: the same at every call."""
        if self._initial is None:
            self._initial = self._planner().initial()
        return to_json(self._initial)

    def latestOffset(self) -> Told:  # type: ignore[override]  # the signature before Spark 4.2
        """Where the next batch ends."""
        start = self._at if self._at is not None else from_json(self.initialOffset())
        return to_json(self._limited(start, self._planner().latest(start)))

    def partitions(self, start: Told, end: Told) -> Sequence[InputPartition]:
        """As above, and remembers `end`."""
        self._at = from_json(end)
        return super().partitions(start, end)


class RefusedStream(DataSourceStreamReader):
    """Raises at each use why there is no stream.

    Spark's process for streams hides an error of `streamReader` behind one of its own (a reader that it lacks).
    """

    def __init__(self, why: Exception) -> None:
        self._why = why

    def initialOffset(self) -> Told:
        """Raise."""
        raise self._why

    def latestOffset(self, *_: object) -> Told:
        """Raise."""
        raise self._why

    def partitions(self, start: Told, end: Told) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise."""
        raise self._why

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:  # noqa: ARG002
        """Raise."""
        raise self._why
