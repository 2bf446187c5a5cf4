"""A driver for tests/spark/test_cluster.py: MASTER BOOTSTRAP; writes a batch, and prints how many executors it had."""

import sys
import time

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

ROWS, PARTITIONS = 2000, 4


def main(master: str, bootstrap: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.cores", "1")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        .getOrCreate()
    )

    @f.udf("string")
    def failing_once(n):
        """Fails the first attempt of a task, which has sent most of its rows by then."""
        if n == 450 and TaskContext.get().attemptNumber() == 0:
            time.sleep(2)
            raise RuntimeError("the first attempt fails")
        # Large enough that Spark passes rows on before it has many.
        return str(n).zfill(4000)

    rows = spark.range(0, ROWS, 1, PARTITIONS).select(
        f.col("id").cast("string").alias("key"), failing_once("id").alias("value")
    )
    rows.write.format("ottla").options(**{"kafka.bootstrap.servers": bootstrap, "topic": "batch"}).mode("append").save()
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(executors)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
