"""Writes by `mapInArrow`, without a Python data source. Spark has these since 4.0, and streams in columns since 4.1."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.spark.shared.option_values import boolean, lowered
from ottla.spark.shared.pickling import Picklable
from ottla.spark.write.exactly_once import OPTION
from ottla.spark.write.options import KNOWN, Columns, WriteOptions
from ottla.spark.write.producers import checked_batch
from ottla.spark.write.sending import send

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def write_kafka(rows: "DataFrame", options: Mapping[str, str], batch: int | None = None) -> None:
    """Append the rows of a frame to topics, as `rows.write.format("ottla")` does, under Spark 3.5 too.

    In `foreachBatch` it is the sink of a stream, which gets the rows in columns. `writeStream.format("ottla")` gets
    them one by one under Spark 4.0, which is several times slower, and does not exist under 3.5:

    ```python
    query = (
        enriched.writeStream.foreachBatch(lambda rows, batch: write_kafka(rows, options, batch))
        .option("checkpointLocation", "checkpoint")
        .start()
    )
    ```

    A micro-batch that Spark repeats is written again, unless the options have `exactlyOnce`, `appId` and `shards`, and
    `batch` is given, by which a repeated batch is recognized.

    Args:
        rows: The frame, classic or Connect, with the columns that the sink takes.
        options: Those of `format("ottla")` for a write in batches.
        batch: The number of the micro-batch in `foreachBatch`, for `exactlyOnce`; it takes the place of the option
            `version`. None outside of streams.

    Raises:
        ValueError: An option is missing, unknown or has a bad value, or a column is missing or has a wrong type.
        KafkaError: The registry did not respond.
        PySparkException: A task failed; its message ends with the error of the first row that was not delivered.
    """
    given = dict(options)
    if batch is not None:
        known = lowered(given, KNOWN, "property of a producer")
        if "version" in known:
            raise ValueError("option version has no meaning with batch, the number of the micro-batch: leave it out")
        if boolean(OPTION, known, default=False):
            given["version"] = str(batch)
    task = _Task(*checked_batch(given, rows.schema))
    # No task returns a row: the action only runs them.
    rows.mapInArrow(task, "none boolean").collect()


class _Task(Picklable):
    """Sends the rows of a task."""

    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        self._options, self._columns = options, columns

    def __call__(self, batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        """Send the rows; it returns none."""
        send(self._options, self._columns, batches)
        return iter(())
