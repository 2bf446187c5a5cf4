"""Small micro-batches, which the driver reads while it plans them, so that their task needs no Python.

A task in Python costs Spark more than some thousand records take to read: 30 to 50 ms of each micro-batch
(docs/results/spark.md). Spark takes rows along with a plan, and keeps them where the plan's only task finds them, from
one class: what it wraps simple readers in. That class is internal, and this is the only file that names it: without it,
all is left to tasks.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.errors import KafkaError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.layout import Layout
from ottla.spark.read.limited_stream import LimitedStreamReader
from ottla.spark.read.range_reader import read
from ottla.spark.read.stream import OffsetsJson
from ottla.spark.shared.ranges import Range

# What is small: Spark keeps the rows in the driver's memory until the next micro-batch.
MOST_OFFSETS = 10_000
MOST_BYTES = 4 << 20
# Seconds without a record after which the read is left to the task, which waits longer.
PATIENCE = 0.5


def _wrapper() -> type | None:
    """The class that Spark takes rows from; None if this Spark has no such class."""
    try:
        from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
    except ImportError:
        return None
    return _SimpleStreamReaderWrapper


WRAPPER = _wrapper()


def reads_small(options: ReadOptions, layout: Layout) -> bool:
    """Whether a stream may have the driver read small micro-batches: if the user joins small tasks.

    Spark copies the rows that it gets along with a plan one by one, and fails at a null in an array or a map.
    """
    if WRAPPER is None or options.min_task_records is None or not all(map(_is_plain, layout.schema.types)):
        return False
    # A task to which the driver leaves a read would send the dead letters of it again.
    return options.typed is None or options.typed.dead_letters is None


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    return not pa.types.is_nested(kind)


class SmallBatchReader(LimitedStreamReader):
    """A stream that reads a micro-batch with a single task on the driver if it is small.

    What cannot be read so is left to the task: that comes to the same error, and Spark repeats it.
    """

    def __init__(self, options: ReadOptions, layout: Layout) -> None:
        super().__init__(options, layout)
        self._rows: list[pa.RecordBatch] | None = None
        # Whether all is left to tasks: few records are too large already, or Spark did not take any.
        self._leaves_all = False

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        """As above, and reads what is small."""
        if self._rows is not None:
            self._hold(None)
            self._leaves_all = True
        planned = super().partitions(start, end)
        if len(planned) == 1 and self._is_small(planned[0].value):
            self._hold(self._read_now(planned[0].value))
        return planned

    def _hold(self, rows: list[pa.RecordBatch] | None) -> None:
        """Be the class that Spark takes rows from while there are rows, and only then.

        With that class Spark calls less: it would not learn where the topics end.
        """
        self._rows = rows
        self.__class__ = SmallBatchReader if rows is None or WITH_ROWS is None else WITH_ROWS

    def getCache(self, start: OffsetsJson, end: OffsetsJson) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """The rows of the micro-batch that was planned last; Spark calls this at once, and where there are any."""
        rows = self._rows or []
        self._hold(None)
        return iter(rows)

    def _is_small(self, spans: Sequence[Range]) -> bool:
        # A token that was fetched for a task is not the driver's to use.
        is_for_task = any(span.token is not None for span in spans)
        return not self._leaves_all and not is_for_task and sum(span.end - span.start for span in spans) <= MOST_OFFSETS

    def _read_now(self, spans: Sequence[Range]) -> list[pa.RecordBatch] | None:
        rows: list[pa.RecordBatch] = []
        left = MOST_BYTES
        try:
            with closing(self._batches(spans)) as batches:
                for batch in batches:
                    left -= batch.nbytes
                    if left < 0:
                        self._leaves_all = True
                        return None
                    rows.append(batch)
        except KafkaError:
            return None
        return rows

    def _batches(self, spans: Sequence[Range]) -> Generator[pa.RecordBatch, None, None]:
        options = replace(self._options, poll_timeout=PATIENCE)
        for span in spans:
            yield from read(options, span, self._layout)


# A reader that holds the rows of the micro-batch that it planned last.
WITH_ROWS: type[SmallBatchReader] | None = (
    None if WRAPPER is None else type("WithRows", (SmallBatchReader, WRAPPER), {})
)
