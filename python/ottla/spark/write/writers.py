"""The sink of the data source. Method names are Spark's (`pyspark.sql.datasource`)."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from ottla.spark.shared.pickling import Picklable
from ottla.spark.write.encodings import Encoded
from ottla.spark.write.options import Columns, WriteOptions
from ottla.spark.write.sending import send

if TYPE_CHECKING:
    from pyspark.sql import Row

# Rows that become one record batch where Spark hands over rows.
BATCH_ROWS = 10_000
_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


class BatchWriter(Picklable, DataSourceArrowWriter):
    """What `df.write` uses."""

    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Send the rows of one task."""
        send(self._options, self._columns, iterator)
        return WriterCommitMessage()


class RowStreamWriter(Picklable, DataSourceStreamWriter):
    """What `df.writeStream` uses under Spark 4.0, which hands a stream's rows over one by one."""

    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator["Row"]) -> WriterCommitMessage:
        """Send the rows of one task."""
        places = tuple(
            (name, found.at(place) if isinstance(found, Encoded) else place)
            for place, (name, found) in enumerate(self._columns)
        )
        send(self._options, places, batches(self._columns, iterator))
        return WriterCommitMessage()


def batches(columns: Columns, rows: Iterator["Row"]) -> Iterator["pa.RecordBatch"]:
    """Rows in columns, those to send and in their order."""
    while some := list(islice(rows, BATCH_ROWS)):
        arrays = [
            place.of_objects(some) if isinstance(place, Encoded) else _array(name, [row[place] for row in some])
            for name, place in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])


def _array(name: str, values: list[Any]) -> "pa.Array":
    if name in _TYPES:
        return pa.array(values, _TYPES[name])
    text = any(isinstance(value, str) for value in values)
    return pa.array(values, pa.string() if text else pa.binary())
