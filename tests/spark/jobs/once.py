"""A driver for tests/spark/test_exactly_once.py: MASTER [CONFIG=VALUE...]. Each line that it reads is a query to run, as
JSON, and so is each line that it answers: a stream that copies a topic, or with "select" a batch whose one row it gives."""

import json
import os
import sys

from pyspark.sql import SparkSession
from tests.spark.starts import begun

from ottla.spark import ensure_java


def ask(spark: SparkSession, asked: dict) -> list:
    """The row that some expressions make of what a topic holds."""
    read = {"kafka.bootstrap.servers": asked["bootstrap"], "subscribe": asked["source"], **asked["kafka"]}
    return list(spark.read.format("ottla").options(**read).load().selectExpr(*asked["select"]).first())


def run(spark: SparkSession, asked: dict) -> None:
    """Copy what a topic holds to another one, as a stream, and go on where its checkpoint is."""
    secured = asked.get("kafka", {})
    read = {"kafka.bootstrap.servers": asked["bootstrap"], "subscribe": asked["source"], **secured}
    read |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": asked["each"]}
    rows = spark.readStream.format("ottla").options(**read).load().select("key", "value")
    if asked.get("repartition"):
        rows = rows.repartition(asked["repartition"])
    write = {"kafka.bootstrap.servers": asked["bootstrap"], "topic": asked["target"], **secured, **asked["options"]}
    query = rows.writeStream.format("ottla").options(**write, checkpointLocation=asked["checkpoint"])
    running = begun(query.trigger(availableNow=True).start)
    try:
        if not running.awaitTermination(150):
            raise TimeoutError(f"the query has not caught up: {running.status}")
    finally:
        running.stop()


def main(master: str, *config: str) -> None:
    ensure_java()
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.ui.showConsoleProgress", "false")
    # The driver takes them by itself.
    builder = builder.config("spark.executor.extraJavaOptions", os.environ["SPARK_SUBMIT_OPTS"])
    for setting in config:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            answer = {"error": None, "row": ask(spark, asked) if "select" in asked else run(spark, asked)}
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
