"""Frames of Kafka records by `mapInArrow`, without a Python data source, which Spark has since 4.0.

A frame of numbers has a partition for each task, which reads the ranges of offsets that its number names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.plan.tasks import tasks
from ottla.spark.read.layout import Layout
from ottla.spark.read.schema import layout as layout_of
from ottla.spark.read.schema import look_up
from ottla.spark.read.schema import schema as schema_of
from ottla.spark.shared.pickling import Picklable
from ottla.spark.shared.ranges import Range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Makes the frame of some ranges.
Frames = Callable[["SparkSession", list[Range]], "DataFrame"]


def read_kafka(
    spark: "SparkSession", options: Mapping[str, str], schema: "StructType | str | None" = None
) -> "DataFrame":
    """The records of topics, as `spark.read.format("ottla")` has them, under Spark 3.5 too.

    ```python
    rows = read_kafka(spark, {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"})
    ```

    Where the read begins and ends is decided now, not when the frame is used: an action that is repeated reads the same
    records. Since Spark 4.0, `format("ottla")` does the same, can be used from SQL, and needs no pandas.

    Args:
        spark: The session.
        options: Those of `format("ottla")` for a batch.
        schema: The columns, for typed values (`value.format`), as `.schema(...)` takes them; None for those of the
            options.

    Returns:
        The frame, with one task for each partition of a topic that has records, or other numbers by option.

    Raises:
        ValueError: An option is missing, unknown or has a bad value, or the schema does not fit the records.
        KafkaError: The brokers or the registry did not respond.
    """
    from ottla.spark.read.kafka_log import planner

    checked = ReadOptions.parse(options)
    checked.check_batch()
    return frames(spark, checked, schema)(spark, planner(checked).batch())


def frames(spark: "SparkSession", options: ReadOptions, schema: "StructType | str | None") -> Frames:
    """What makes frames of ranges, all with the same columns.

    Raises:
        ValueError: The schema does not fit the records.
    """
    if schema is not None and options.typed is None:
        raise ValueError(
            "the columns of records are fixed: leave the schema out and select or decode columns afterwards, or set "
            "option value.format to have values decoded"
        )
    registered = look_up(options)
    columns = schema if schema is not None else schema_of(options, registered)
    if isinstance(columns, str):
        # Before Spark 4.0 only a session can read Spark's SQL.
        columns = spark.createDataFrame([], columns).schema
    layout = layout_of(options, columns, registered)

    def of_ranges(session: "SparkSession", spans: list[Range]) -> "DataFrame":
        read = tasks(options, spans)
        numbers = session.range(0, len(read), 1, max(len(read), 1))
        return numbers.mapInArrow(_Rows(options, read, layout), columns)

    return of_ranges


class _Rows(Picklable):
    """The rows of tasks, by their numbers."""

    def __init__(self, options: ReadOptions, tasks: list[list[Range]], layout: Layout) -> None:
        self._options, self._tasks, self._layout = options, tasks, layout

    def __call__(self, numbers: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        """The rows of the tasks that these numbers name."""
        from ottla.spark.read.range_reader import read

        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for span in self._tasks[number]:
                    yield from read(self._options, span, self._layout)
