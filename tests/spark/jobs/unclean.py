"""A driver for tests/spark/test_unclean.py: BOOTSTRAP TOPIC FOLDER.

For each line of its input, true or false, it streams on under that `failOnDataLoss` until nothing waits, and prints as JSON the values
that this query has read so far in all, in order, and the error that ended it.
"""

import json
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.starts import begun

from ottla.spark import ensure_java


def main() -> None:
    bootstrap, topic, folder = sys.argv[1:]
    ensure_java()
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        strict = line.strip()
        here = Path(folder) / strict
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "failOnDataLoss": strict,
            "rememberTopicsIn": str(here / "remembered"),
        }
        rows = spark.readStream.format("ottla").options(**options).load().selectExpr("offset", "CAST(value AS STRING)")
        writer = rows.writeStream.format("parquet").option("path", str(here / "rows"))
        writer = writer.option("checkpointLocation", str(here / "checkpoint")).trigger(availableNow=True)
        query = begun(writer.start)
        error = None
        try:
            query.awaitTermination()
        except PySparkException as failure:
            error = str(failure)
        read = spark.read.parquet(str(here / "rows")).orderBy("offset").collect()
        print(json.dumps({"values": [row.value for row in read], "error": error}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
