"""A driver for tests/spark/versions.py: KIND BOOTSTRAP SOURCE TARGET FOLDER. It tries what a release of PySpark can do with ottla.

SOURCE holds 3,000 values {"a":N} in three partitions, each with a header. What is seen of each point is printed as JSON: "yes",
"-" where this kind of session has no such thing, or the last line of the error.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

import ottla
from ottla.spark import (
    commit_listener,
    ensure_java,
    offsets_behind_latest,
    read_kafka,
    register,
    stream_kafka,
    write_kafka,
)

RECORDS = 3_000
SUM = RECORDS * (RECORDS - 1) // 2
BYTES = 128  # the values that are one signed byte
RELEASE = tuple(int(number) for number in pyspark.__version__.split(".")[:2])
HAS_SOURCES = RELEASE >= (4, 0)
# Before, the trigger availableNow ends after one batch, whatever limits leave.
HAS_AVAILABLE_NOW = RELEASE >= (4, 2)
HAS_PUSHDOWN = RELEASE >= (4, 1)
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
NOT_THERE = "-"


def seen(point: Callable[[], bool]) -> str:
    """ "yes", "no", or the last line of its error."""
    try:
        return "yes" if point() else "no"
    except Exception as error:
        return last_line(error)


def last_line(error: Exception) -> str:
    """Of a trace that passed through the JVM, what Python's workers said at its end."""
    said = re.findall(r"^\S*(?:Error|Exception): .*", str(error), re.MULTILINE)
    return said[-1] if said else repr(error)


def rows_of(progress: dict) -> int:
    """The rows of a batch. Over Connect the sum of the sources is None."""
    return sum(source["numInputRows"] for source in progress["sources"])


class Reach:
    def __init__(self, spark: SparkSession, kind: str, bootstrap: str, source: str, target: str, folder: str) -> None:
        self.spark, self.kind, self.target, self.folder = spark, kind, target, Path(folder)
        self.brokers = {"kafka.bootstrap.servers": bootstrap}
        self.source = {**self.brokers, "subscribe": source, "startingOffsets": "earliest"}
        self.typed = {**self.source, "value.format": "json"}

    def all(self) -> dict[str, str]:
        points = [self.batch, self.headers, self.filters, self.typed_batch, self.dead_letters, self.stream, self.limits]
        points += [self.available_now, self.lag, self.group]
        points += [self.sink, self.stream_sink, self.once, self.errors]
        points += [
            self.read_helper,
            self.write_helper,
            self.stream_helper,
            self.stream_write_helper,
            self.moved_checkpoint,
        ]
        return {point.__name__: self.seen(point) for point in points}

    def seen(self, point: Callable[[], bool]) -> str:
        helper = point.__name__.endswith("_helper")
        if not helper and not HAS_SOURCES:
            return NOT_THERE
        if self.kind == "connect" and point.__name__ in {"stream_helper", "stream_write_helper", "moved_checkpoint"}:
            return NOT_THERE
        if point == self.filters and not HAS_PUSHDOWN:
            return NOT_THERE
        if point in (self.available_now, self.lag) and not HAS_AVAILABLE_NOW:
            return NOT_THERE
        return seen(point)

    def read(self, **options: str) -> DataFrame:
        return self.spark.read.format("ottla").options(**{**self.source, **options}).load()

    def batch(self) -> bool:
        return self.read().count() == RECORDS

    def headers(self) -> bool:
        frame = self.read(includeHeaders="true").selectExpr("explode(headers) AS h")
        return frame.where("h.key = 'h' AND h.value = X'78'").count() == RECORDS

    def filters(self) -> bool:
        """What `where` leaves is read by the first task, where it would else be the second."""
        self.spark.conf.set(PUSHDOWN, "true")
        try:
            rows = (
                self.read()
                .where("partition = 1 AND offset >= 500")
                .selectExpr("spark_partition_id() AS task")
                .collect()
            )
        finally:
            self.spark.conf.set(PUSHDOWN, "false")
        return [row.task for row in rows] == [0] * 500

    def typed_batch(self) -> bool:
        frame = self.spark.read.format("ottla").schema("value struct<a:int>").options(**self.typed).load()
        return frame.selectExpr("sum(value.a)").first()[0] == SUM

    def dead_letters(self) -> bool:
        """Values of more than a signed byte."""
        topic = f"{self.target}-dead"
        options = {**self.typed, "deadLetterTopic": topic}
        frame = self.spark.read.format("ottla").schema("value struct<a:tinyint>").options(**options).load()
        return frame.count() == BYTES and self.written(topic) == RECORDS - BYTES

    def limits(self) -> bool:
        """By a query that runs on: `availableNow` is not in every release."""
        counts = [rows for rows in map(rows_of, self.limited("limits")) if rows]
        return sum(counts) == RECORDS and len(counts) >= 3 and max(counts) <= 1000

    def limited(self, name: str, **options: str) -> list[dict]:
        """The progress of a query that reads a thousand records a batch, until it has read all."""
        limited = {**self.source, "maxOffsetsPerTrigger": "1000", **options}
        frame = self.spark.readStream.format("ottla").options(**limited).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(self.folder / name)).start()
        try:
            query.processAllAvailable()
            return query.recentProgress
        finally:
            query.stop()

    def available_now(self) -> bool:
        """It ends when all is read, in several batches."""
        frame = self.spark.readStream.format("ottla").options(**self.source, maxOffsetsPerTrigger="1000").load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(self.folder / "available"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(90), "the query did not end"
        counts = [rows for rows in map(rows_of, query.recentProgress) if rows]
        return sum(counts) == RECORDS and len(counts) >= 3

    def lag(self) -> bool:
        """It becomes smaller from batch to batch, to nothing."""
        behind = [offsets_behind_latest(progress["sources"][0]) for progress in self.limited("lag")]
        left = [told["avgOffsetsBehindLatest"] for told in behind if told]
        return left == sorted(left, reverse=True) and left[0] > 0 and left[-1] == 0

    def group(self) -> bool:
        """A group has what was read, of the last batch too, so that Kafka's own tools show the lag."""
        group = f"{self.target}-group"
        listener = commit_listener({**self.source, "commitOffsetsToGroup": group})
        self.spark.streams.addListener(listener)
        try:
            self.limited("group", commitOffsetsToGroup=group)
            end = time.monotonic() + 30
            while (committed := self.committed(group)) != RECORDS and time.monotonic() < end:
                time.sleep(0.1)
        finally:
            self.spark.streams.removeListener(listener)
        return committed == RECORDS

    def committed(self, group: str) -> int:
        """The records before the offsets of a group. Each partition begins at 0."""
        with ottla.Admin(self.brokers["kafka.bootstrap.servers"]) as admin:
            return sum(told.offset for told in admin.list_group_offsets(group)[group].values())

    def errors(self) -> bool:
        """What is wrong stands in the last line, and is a sentence of ottla's."""
        try:
            self.read(subscribe="absent").count()
        except Exception as error:
            said = last_line(error)
            assert said.startswith("ottla.errors.NotFoundError: option subscribe names topic absent, which does not"), (
                said
            )
            return True
        return False

    def run(self, frame: DataFrame, name: str, sink: str, **options: str) -> None:
        writer = frame.writeStream.format(sink).options(**options)
        query = writer.option("checkpointLocation", str(self.folder / name)).trigger(availableNow=True).start()
        assert query.awaitTermination(90), "the query did not end"

    def streamed(self) -> DataFrame:
        limits = {"maxOffsetsPerTrigger": "1000"} if HAS_AVAILABLE_NOW else {}
        return self.spark.readStream.format("ottla").options(**self.source, **limits).load()

    def stream(self) -> bool:
        rows = str(self.folder / "rows")
        self.run(self.streamed(), "stream", "parquet", path=rows)
        return self.spark.read.parquet(rows).count() == RECORDS

    def written(self, topic: str) -> int:
        return self.read(subscribe=topic, **{"kafka.isolation.level": "read_committed"}).count()

    def sink(self) -> bool:
        topic = f"{self.target}-batch"
        self.read().select("value").write.format("ottla").options(**self.brokers, topic=topic).mode("append").save()
        return self.written(topic) == RECORDS

    def stream_sink(self) -> bool:
        topic = f"{self.target}-stream"
        self.run(self.streamed().select("value"), "sink", "ottla", **self.brokers, topic=topic)
        return self.written(topic) == RECORDS

    def once(self) -> bool:
        topic = f"{self.target}-once"
        exactly = {"exactlyOnce": "true", "appId": topic, "shards": "3"}
        self.run(self.streamed().select("value"), "once", "ottla", **self.brokers, topic=topic, **exactly)
        return self.written(topic) == RECORDS

    def read_helper(self) -> bool:
        rows = read_kafka(self.spark, self.typed, "value struct<a:int>, offset long")
        return rows.selectExpr("sum(value.a)").first()[0] == SUM

    def write_helper(self) -> bool:
        topic = f"{self.target}-helper"
        rows = read_kafka(self.spark, self.source).select("key", "value")
        write_kafka(rows, {**self.brokers, "topic": topic})
        return self.written_by_helper(topic) == RECORDS

    def stream_write_helper(self) -> bool:
        """Exactly once: each batch is written twice, under its number."""
        topic = f"{self.target}-helper-stream"
        exactly = {"exactlyOnce": "true", "appId": topic, "shards": "3"}

        def write(rows: DataFrame, batch: int) -> None:
            for _ in range(2):
                write_kafka(rows.select("value"), {**self.brokers, "topic": topic, **exactly}, batch)

        query = stream_kafka(self.spark, self.source, write, str(self.folder / "write-helper"), available_now=True)
        assert query.awaitTermination(90), "the query did not end"
        return self.written_by_helper(topic) == RECORDS

    def written_by_helper(self, topic: str) -> int:
        options = {**self.source, "subscribe": topic, "kafka.isolation.level": "read_committed"}
        return read_kafka(self.spark, options).count()

    def stream_helper(self) -> bool:
        self.given: list[int] = []
        options = {**self.source, "maxOffsetsPerTrigger": "1000"}
        query = stream_kafka(
            self.spark,
            options,
            lambda rows, _: self.given.append(rows.count()),
            str(self.folder / "helper"),
            available_now=True,
        )
        assert query.awaitTermination(90), "the query did not end"
        return sum(self.given) == RECORDS and len(self.given) > 1

    def moved_checkpoint(self) -> bool:
        """What `stream_helper` has read is not read again by the data source."""
        numbers: list[int] = []
        writer = self.streamed().writeStream.foreachBatch(lambda rows, number: numbers.append((number, rows.count())))
        query = writer.option("checkpointLocation", str(self.folder / "helper")).trigger(availableNow=True).start()
        assert query.awaitTermination(90), "the query did not end"
        return not sum(count for _, count in numbers)


def main(kind: str, *where: str) -> None:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    if kind == "connect":
        spark = builder.remote("local[2]").getOrCreate()
    else:
        builder = builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
        spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
    if HAS_SOURCES:
        register(spark)
    told = Reach(spark, kind, *where).all()
    print(json.dumps({"pyspark": pyspark.__version__, **told}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
