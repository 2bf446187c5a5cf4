"""Writing streams under Spark 4.1 and newer, which hand over a stream's rows in columns (SPARK-53030)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.spark.shared.pickling import Picklable
from ottla.spark.write.options import Columns, WriteOptions
from ottla.spark.write.sending import send

if TYPE_CHECKING:
    import pyarrow as pa


class StreamWriter(Picklable, DataSourceStreamArrowWriter):
    """What `df.writeStream` uses."""

    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Send the rows of one task."""
        send(self._options, self._columns, iterator)
        return WriterCommitMessage()
