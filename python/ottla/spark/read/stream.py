"""Streams: micro-batches from the end of the last one to the end of the topics now."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ottla.spark.plan.limits import Patience
from ottla.spark.plan.planner import Planner
from ottla.spark.plan.positions import LATEST, moves
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.plan.tasks import tasks
from ottla.spark.plan.topic_history import TopicHistory
from ottla.spark.plan.topic_history_file import TopicHistoryFile
from ottla.spark.read.group_commits import commit
from ottla.spark.read.kafka_log import planner
from ottla.spark.read.layout import Layout
from ottla.spark.read.range_reader import read
from ottla.spark.shared.offsets import Offsets, from_json, named, to_json
from ottla.spark.shared.pickling import Picklable

if TYPE_CHECKING:
    import pyarrow as pa

# What Spark keeps in the checkpoint.
OffsetsJson = dict[str, dict[str, int]]


class StreamReader(Picklable, DataSourceStreamReader):
    """The stream methods of all Spark versions. One object serves a query's driver; tasks get pickled copies."""

    def __init__(self, options: ReadOptions, layout: Layout) -> None:
        self._options, self._layout = options, layout
        self._patience = Patience(options.min_offsets, options.max_delay)
        self._past = TopicHistory()
        self._remembered = None if options.remember_in is None else TopicHistoryFile(options.remember_in)
        self._is_restored = False
        self._start = options.stream_start
        # Where the first batch begins, if that was decided in this process, and whether this process planned its end.
        self._decided: Offsets | None = None
        self._has_planned = False
        self._is_first_past = False

    def _planner(self) -> Planner:
        if self._remembered is not None and not self._is_restored:
            self._past, self._is_restored = self._remembered.past(), True
        return planner(self._options, self._past)

    def initialOffset(self) -> OffsetsJson:
        """Where a query begins that has no batch done: where it began before, if it remembers that."""
        kept = self._beginning()
        if kept is not None:
            return to_json(kept)
        self._decided = self._planner().initial()
        if self._remembered is not None and moves(self._start):
            self._remembered.begin(self._decided)
        return to_json(self._decided)

    def _beginning(self) -> Offsets | None:
        """Where the first batch begins, as it was kept before; None if it was not, or is the same each time."""
        return None if self._remembered is None or not moves(self._start) else self._remembered.beginning()

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        """One task per partition with records between the two offsets, or other numbers by option."""
        # A batch that is replayed after a restart is planned before any other call.
        is_first = self._remembered is not None and not self._is_restored
        plan, begin = self._planner(), from_json(start)
        if is_first:
            plan.compare(begin)
        until = from_json(end)
        spans = plan.ranges(self._begun(plan, begin, until), until)
        if self._remembered is not None:
            self._remembered.keep(self._past)
            self._forget_beginning(begin)
        self._has_planned = True
        return [InputPartition(task) for task in tasks(self._options, spans)]

    def _forget_beginning(self, begin: Offsets) -> None:
        """Forget where the first batch begins as soon as a later one is planned."""
        if self._remembered is None or self._is_first_past:
            return
        kept = self._beginning()
        self._is_first_past = kept != begin
        if kept is not None and self._is_first_past:
            self._remembered.begin(None)

    def _begun(self, plan: Planner, begin: Offsets, end: Offsets) -> Offsets:
        """Where a batch begins. Reports a first batch of an earlier start, of which only the end is known.

        Spark keeps that end in its checkpoint, and requests the beginning again after a restart. By then `latest`, a
        group or a time stands for other offsets: the records between the two would never be read.

        Raises:
            DataLossError: There is such a batch, under `failOnDataLoss`.
        """
        if self._has_planned or begin != self._decided or not moves(self._start):
            return begin
        late = sorted(p for p, until in end.items() if until < begin.get(p, 0))
        if not late and self._start.at != LATEST:
            return begin
        plan.report(
            f"the first batch of this query was planned by an earlier start and did not succeed. It ends at "
            f"{named(end)}, and where it began is not known: option {self._start.option} begins at {named(begin)} now. "
            "To begin where it began, set startingOffsets to these offsets; for the next time, set rememberTopicsIn"
        )
        return {**begin, **{partition: end[partition] for partition in late}}

    def _limited(self, start: Offsets, latest: Offsets) -> Offsets:
        """Where the next batch ends under the user's limits; at its start if it waits for more records."""
        self._has_planned = True
        return self._planner().within_limits(start, latest, self._patience)

    def commit(self, end: OffsetsJson) -> None:
        """Commit the offsets to the group of the option, if any.

        Spark calls this when the next batch begins.
        """
        if self._options.commit_group is not None:
            commit(self._options, self._options.commit_group, from_json(end))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one task, in columns."""
        for span in partition.value:
            yield from read(self._options, span, self._layout)


class UnlimitedStreamReader(StreamReader):
    """For Spark 4.0 and 4.1, which request the latest offset without the query's position.

    To apply limits nevertheless, the reader remembers where the last batch ended. When a query resumes, Spark plans its
    last batch again before it requests a new one. A new query requests the latest offset first.
    """

    def __init__(self, options: ReadOptions, layout: Layout) -> None:
        super().__init__(options, layout)
        self._initial: Offsets | None = None
        self._at: Offsets | None = None

    def initialOffset(self) -> OffsetsJson:
        """Where a query without a checkpoint begins: the same at every call."""
        if self._initial is None:
            self._initial = from_json(super().initialOffset())
        return to_json(self._initial)

    def latestOffset(self) -> OffsetsJson:  # type: ignore[override]  # the signature before Spark 4.2
        """Where the next batch ends."""
        start = self._at if self._at is not None else from_json(self.initialOffset())
        return to_json(self._limited(start, self._planner().latest(start)))

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        """As above, and remembers `end`."""
        self._at = from_json(end)
        return super().partitions(start, end)


class RefusedStream(DataSourceStreamReader):
    """Raises at each use why there is no stream.

    Spark's process for streams hides an error of `streamReader` behind one of its own (a reader that it lacks).
    """

    def __init__(self, why: Exception) -> None:
        self._why = why

    def initialOffset(self) -> OffsetsJson:
        """Raise."""
        raise self._why

    def latestOffset(self, *_: object) -> OffsetsJson:
        """Raise."""
        raise self._why

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise."""
        raise self._why

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:  # noqa: ARG002
        """Raise."""
        raise self._why
