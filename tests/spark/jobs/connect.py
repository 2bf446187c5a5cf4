"""A Spark Connect client for tests/spark/test_connect.py: BOOTSTRAP SCRATCH; writes a batch and a stream."""

import sys

from pyspark.sql import SparkSession


def main(bootstrap: str, scratch: str) -> None:
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    kafka = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(100).selectExpr("cast(id as string) AS key", "cast(id as string) AS value")
    rows.write.format("ottla").options(**kafka, topic="batch").mode("append").save()
    query = (
        spark.readStream.format("ottla")
        .options(**kafka, subscribe="batch", startingOffsets="earliest")
        .load()
        .select("key", "value")
        .writeStream.format("ottla")
        .options(**kafka, topic="stream", checkpointLocation=scratch)
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(120):
        raise TimeoutError("the stream did not end within 120 s")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
