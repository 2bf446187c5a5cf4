"""A Spark data source whose rows are made before: what PySpark and the JVM spend on any source in Python.

A worker reads one batch of a topic with ottla, keeps it, and hands it over again and again, until there are as many
rows as the topic has. Schema, plans and tasks are those of ottla's read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.spark.read.batch import BatchReader
from ottla.spark.read.limited_stream import LimitedStreamReader
from ottla.spark.source import OttlaDataSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType

_made: dict[Any, pa.RecordBatch] = {}


class ReadyMade(OttlaDataSource):
    """`format("ready-made")`, with the options of `format("ottla")`."""

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self._options, self._layout(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - the name that Spark gives it
        return _StreamReader(self._options, self._layout(schema))


class _Reader(BatchReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _repeated(self._options, super().read(partition), partition)


class _StreamReader(LimitedStreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _repeated(self._options, super().read(partition), partition)


def _repeated(key: Any, read: Iterator[pa.RecordBatch], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The batch of this process for these options, which `read` begins with where there is none yet, for a task."""
    if key not in _made:
        _made[key] = next(read)
    batch = _made[key]
    left = sum(span.end - span.start for span in partition.value)
    while left > 0:
        yield batch[:left]
        left -= len(batch)
