"""A declarative pipeline for tests/spark/test_platforms.py, which puts its brokers and topics here: doubles the numbers of a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

BROKERS = {"kafka.bootstrap.servers": "localhost:9092"}

dp.create_sink("doubled", format="ottla", options={**BROKERS, "topic": "TARGET"})


@dp.append_flow(target="doubled")
def doubles() -> DataFrame:
    spark = SparkSession.active()
    options = {**BROKERS, "subscribe": "SOURCE", "startingOffsets": "earliest"}
    rows = spark.readStream.format("ottla").options(**options).load()
    return rows.selectExpr("cast(cast(cast(value AS string) AS int) * 2 AS string) AS value")
