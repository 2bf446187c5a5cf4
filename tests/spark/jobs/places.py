"""A driver for tests/spark/test_platforms.py: MASTER BOOTSTRAP SOURCE TARGET FOLDER. SOURCE has a thousand numbers as values.

It reads them as a batch, copies them to TARGET as a stream with the trigger availableNow, and prints what was seen as JSON. MASTER is "-"
where spark-submit names it, and begins with "sc://" for Spark Connect.
"""

import json
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(master: str, bootstrap: str, source: str, target: str, folder: str) -> None:
    builder = SparkSession.builder.appName("platform")
    if master.startswith("sc://"):
        spark = builder.remote(master).getOrCreate()
    else:
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
        spark = (builder if master == "-" else builder.master(master)).getOrCreate()
    brokers = {"kafka.bootstrap.servers": bootstrap}
    options = {**brokers, "subscribe": source, "startingOffsets": "earliest"}
    rows = spark.read.format("ottla").options(**options).load()
    batch = rows.selectExpr("sum(cast(cast(value AS string) AS int))").first()[0]
    stream = spark.readStream.format("ottla").options(**options).load()
    copied = stream.selectExpr("key", "value").writeStream.format("ottla").options(**brokers, topic=target)
    copied = copied.option("checkpointLocation", folder).trigger(availableNow=True)
    # Spark gives a process of Python 10 s to start, whatever else the machine does.
    for last in (False, False, False, True):
        query = copied.start()
        try:
            ended = query.awaitTermination(240)
            break
        except PySparkException as error:
            if last or "failed to connect back" not in str(error):
                raise
        finally:
            query.stop()

    def where(batches):
        """What runs a task: its Python, the place of its ottla, and its limits."""
        import resource
        from pathlib import Path

        import pyarrow as pa

        import ottla

        files, space = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS))
        seen = [sys.version.split()[0], str(Path(ottla.__file__).parent), str(files), str(space)]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"seen": seen})

    found = spark.range(1, numPartitions=1).mapInArrow(where, "seen string").collect()
    print(json.dumps({"batch": batch, "ended": ended, "worker": [row.seen for row in found]}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
