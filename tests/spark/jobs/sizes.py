"""A driver for tests/spark/test_platforms.py: BOOTSTRAP TOPIC. It prints the number of a topic's records, and of their bytes."""

import sys

from pyspark.sql import SparkSession


def main(bootstrap: str, topic: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    rows = spark.read.format("ottla").options(**options).load()
    print(*rows.selectExpr("count(*)", "sum(length(value))").first())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
