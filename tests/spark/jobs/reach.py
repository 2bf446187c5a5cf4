"""A driver for tests/spark/versions.py: KIND BOOTSTRAP SOURCE TARGET FOLDER. It tries what a release of PySpark can do with ottla.

SOURCE holds 3,000 values {"a":N} in three partitions, each with a header. What is seen of each point is printed as JSON: "yes",
"-" where this kind of session has no such thing, or the last line of the error.
"""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from ottla.spark import ensure_java, read_kafka, register, stream_kafka

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


class Reach:
    def __init__(self, spark: SparkSession, kind: str, bootstrap: str, source: str, target: str, folder: str) -> None:
        self.spark, self.kind, self.target, self.folder = spark, kind, target, Path(folder)
        self.brokers = {"kafka.bootstrap.servers": bootstrap}
        self.source = {**self.brokers, "subscribe": source, "startingOffsets": "earliest"}
        self.typed = {**self.source, "value.format": "json"}

    def all(self) -> dict[str, str]:
        points = [self.batch, self.headers, self.filters, self.typed_batch, self.dead_letters, self.stream, self.limits]
        points += [self.sink, self.stream_sink, self.once, self.errors]
        points += [self.read_helper, self.stream_helper, self.moved_checkpoint]
        return {point.__name__: self.seen(point) for point in points}

    def seen(self, point: Callable[[], bool]) -> str:
        helper = point.__name__.endswith("_helper")
        if not helper and not HAS_SOURCES:
            return NOT_THERE
        if self.kind == "connect" and point.__name__ in {"stream_helper", "moved_checkpoint"}:
            return NOT_THERE
        if point == self.filters and not HAS_PUSHDOWN:
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
        frame = self.spark.readStream.format("ottla").options(**self.source, maxOffsetsPerTrigger="1000").load()
        checkpoint = str(self.folder / "limits")
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            # Over Connect the sum of the sources is None.
            counts = [
                sum(source["numInputRows"] for source in progress["sources"]) for progress in query.recentProgress
            ]
        finally:
            query.stop()
        counts = [count for count in counts if count]
        return sum(counts) == RECORDS and len(counts) >= 3 and max(counts) <= 1000

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
