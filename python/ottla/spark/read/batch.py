"""Batches: a range of every partition, once."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.shared.pickling import Picklable

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.plan.filters import Narrowing
    from ottla.spark.read.layout import Layout


class BatchReader(Picklable, DataSourceReader):
    """Reads a range of every partition, once."""

    def __init__(self, options: ReadOptions, layout: "Layout") -> None:
        self._options, self._layout = options, layout

    def partitions(self) -> Sequence[InputPartition]:
        """One task per partition of the topics that has records, or other numbers by option."""
        from ottla.spark.plan.tasks import tasks
        from ottla.spark.read.kafka_log import planner

        spans = planner(self._options).batch(self._narrowing())
        return [InputPartition(task) for task in tasks(self._options, spans)]

    def _narrowing(self) -> "Narrowing | None":
        """What filters leave of the read."""
        return None

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one task, in columns."""
        from ottla.spark.read.range_reader import read

        # Spark makes one partition without a value of an empty plan; before 4.2, that partition is None.
        for span in getattr(partition, "value", None) or ():
            yield from read(self._options, span, self._layout)
