"""Streams of Kafka records by `foreachBatch`, without a Python data source, which Spark has since 4.0.

A built-in Spark source that has rows in each trigger is the clock. The offsets of a batch are decided here, and
`ottla.spark.plan.checkpoint` keeps the stream's position.
"""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.spark.plan.checkpoint import Checkpoint, Planned
from ottla.spark.plan.limits import Patience
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.plan.topic_history import TopicHistory
from ottla.spark.plan.topic_history_file import OPTION
from ottla.spark.read.map_in_arrow import Frames, frames
from ottla.spark.shared.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from ottla.spark.plan.planner import Planner

# Takes the rows of a batch and its number.
Write = Callable[["DataFrame", int], None]

# How often a stream that has read everything looks for more, in seconds.
PAUSE = 0.2


def stream_kafka(
    spark: "SparkSession",
    options: Mapping[str, str],
    write: Write,
    checkpoint: str,
    *,
    schema: "StructType | str | None" = None,
    every: str | None = None,
    available_now: bool = False,
    name: str | None = None,
) -> "StreamingQuery":
    """Start a stream of the records of topics, as `spark.readStream.format("ottla")` has them, under Spark 3.5 too.

    ```python
    query = stream_kafka(spark, options, lambda rows, batch: rows.write.mode("append").parquet("orders"), "checkpoint")
    query.awaitTermination()
    ```

    A batch is processed at least once: one whose `write` did not come to its end is given again after a restart, with
    the same number and the same records, so that a table which remembers numbers (Delta's `txnVersion`) has it once.

    Since Spark 4.0, `format("ottla")` with `foreachBatch` does the same, and Spark's own page shows its progress. The
    folder `checkpoint` is laid out as Spark's, so the stream can move there and back; a query that uses the folder must
    be stopped first.

    Args:
        spark: The session, a classic one: over Connect, use `format("ottla")`.
        options: Those of `format("ottla")` for a stream.
        write: Called on the driver with the rows of each batch and its number, counted from 0. If it raises, the stream
            ends with that error.
        checkpoint: The folder for the stream's position, on any file system that Spark supports.
        schema: The columns, for typed values (`value.format`), as `.schema(...)` takes them; None for those of the
            options.
        every: The time between the beginnings of two batches, as Spark writes it, such as "10 seconds"; None for the
            next batch as soon as there are records.
        available_now: Read what is there now, in as many batches as the options want, and end.
        name: The query's name.

    Returns:
        Spark's query. `stop()` ends it; the batch that is being processed is then given again by the next query.

    Raises:
        ValueError: An option is missing, unknown or has a bad value, or the checkpoint is that of something else.
        KafkaError: The brokers or the registry did not respond.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise ValueError("stream_kafka needs a classic session: over Spark Connect, use readStream.format('ottla')")
    if available_now and every is not None:
        raise ValueError("available_now reads what is there and ends: leave out every")
    checked = ReadOptions.parse(options)
    checked.check_stream()
    if checked.remember_in is not None:
        raise ValueError(f"option {OPTION} has no meaning here: the checkpoint of stream_kafka keeps what it remembers")
    stream = _Stream(checked, Checkpoint(spark, checkpoint), frames(spark, checked, schema), write)
    tick: Callable[[SparkSession], object]
    tick = stream.catch_up if available_now else stream.next if every else stream.next_with_records

    def on_trigger(rows: "DataFrame", _: int) -> None:
        tick(rows.sparkSession)

    clock = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    ticking = clock.writeStream.foreachBatch(on_trigger)
    if name is not None:
        ticking = ticking.queryName(name)
    if available_now:
        ticking = ticking.trigger(availableNow=True)
    elif every is not None:
        ticking = ticking.trigger(processingTime=every)
    return ticking.start()


class _Stream:
    """The position of a stream, and its next batch."""

    def __init__(self, options: ReadOptions, checkpoint: Checkpoint, made: Frames, write: Write) -> None:
        from ottla.spark.read.kafka_log import planner

        self._options, self._checkpoint, self._frames, self._write = options, checkpoint, made, write
        self._patience = Patience(options.min_offsets, options.max_delay)
        # Read at once, so that the caller gets the errors of the folder and of the brokers.
        self._last = checkpoint.last()
        self._past = TopicHistory() if self._last is None else checkpoint.past(self._last)
        self._planner: Planner = planner(options, self._past)
        if self._last is None:
            self._first = checkpoint.begin(self._planner.initial)

    def catch_up(self, spark: "SparkSession") -> None:
        """Process what is there now."""
        self._repeat(spark)
        until = self._planner.latest(self._at)
        while self._process(spark, self._planner.limited(self._at, until)):
            # The end is known, but the topics may have been recreated since this batch.
            self._planner.compare(self._at)

    def next(self, spark: "SparkSession") -> bool:
        """Process a batch, if there are records; true if there were."""
        if self._repeat(spark):
            return True
        return self._process(
            spark, self._planner.within_limits(self._at, self._planner.latest(self._at), self._patience)
        )

    def next_with_records(self, spark: "SparkSession") -> None:
        """Process a batch, or wait a little, after which Spark comes again."""
        if not self.next(spark):
            time.sleep(PAUSE)

    @property
    def _at(self) -> Offsets:
        return self._last.end if self._last else self._first

    def _repeat(self, spark: "SparkSession") -> bool:
        """Process the last batch, if it did not come to its end; true if so."""
        if self._last is None or self._last.done:
            return False
        self._planner.compare(self._last.start)
        self._give(spark, self._last)
        return True

    def _process(self, spark: "SparkSession", end: Offsets) -> bool:
        """Process the records up to there; false if there are none."""
        number = self._last.number + 1 if self._last else 0
        batch = Planned(number, self._at, end, done=False)
        if end == batch.start:
            return False
        self._checkpoint.plan(batch)
        self._last = batch
        self._give(spark, batch)
        return True

    def _give(self, spark: "SparkSession", batch: Planned) -> None:
        spans = self._planner.ranges(batch.start, batch.end)
        self._checkpoint.remember(batch, self._past)
        self._write(self._frames(spark, spans), batch.number)
        self._checkpoint.commit(batch)
        self._last = batch._replace(done=True)
        if self._options.commit_group is not None:
            from ottla.spark.read.group_commits import commit

            commit(self._options, self._options.commit_group, batch.end)
